"""The authors' prompts, which are cut out of their code, on a stand-in for their repositories."""

import json
import os
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from msgspec.structs import replace

from harness.config.settings import Settings
from harness.datasets.catalogue import catalogue
from harness.datasets.folder import prompt_files
from harness.engine.models import Resources
from harness.errors import ConfigError, DataInvalid, DataMissing
from harness.plugins.benchmarks.wildifeval.task import CATEGORIES
from harness.plugins.builders.wildifeval import prepare_curation
from harness.plugins.builders.wildifeval.asking import (
    CurationPrompts,
    category,
    chosen,
    decomposition,
    numbering,
)
from harness.plugins.builders.wildifeval.curation_file import PUBLISHED, load_curation
from harness.plugins.data.fetch import fetch
from harness.plugins.mock.answers import verdict
from harness.records import Instance
from harness.scoring.judges import YesNo
from tests.cli.command import harness, mistake
from tests.datasets.file_server import FileServer
from tests.scoring.judges.judged import Poems

FILTER = 'Are there “constraints" in it?\nRequest: ${request}\nAnswer:'
DECOMPOSE = """Translate it.
Translated Task: a rap. Translated Context:
Translated Constraints:
1. Use slang.
Original Instruction: ${instruction}\u0020
Translated Task:"""
EVAL = """Below is a task.
###Task:
{instruction}
###Response:
{response}
Is "{constraint}" met?

###Answer:"""
DOMAIN = """You are given a task. Respond with the number.
Domains:
{domains}

Task: {task}

Your response:"""
CATEGORY = """Classify the constraint.
Categories:
0. *Length*: How long it is.
Examples:\u0020
 - Be brief.
1. *Editing*: What is changed.
Examples:\u0020
 - Fix it.
 - Cut it.

Constraint: {constraint}

Your response:"""
PROPOSE = "Generate a list of {n} domains.\nTasks:\n\n{tasks}.\nList of {n} domains:"
MERGE = "Write one list of {n} domains:\n\n {lists}\n"
CATEGORIES_FILE = [
    {"name": "Length", "description": "How long it is.", "examples": ["Be brief."]},
    {"name": "Editing", "description": "What is changed.", "examples": ["Fix it.", "Cut it."]},
]

CODE = {
    "/wildifeval_prompts/constants.py": f"""import nothing_that_exists
LIMIT = 0
FILTER_PROMPT = \"\"\"\n{FILTER}\n\"\"\".strip()
DECOMPOSE_PROMPT = \"\"\"\n{DECOMPOSE}\n\"\"\".strip()
""",
    "/wildifeval_judge/constants.py": f"PROMPT_EVAL = '''\n{EVAL}\n'''.strip()\n",
    "/wildifeval_prompts/run_classification.py": """raise SystemExit("This code is not run.")
class Generality(Classifier):
    prompt_template = "How general is it?\\nConstraint: {}"
class DomainClassification(Classifier):
    domains = "1. Creative Writing\\n2. Chemical Industry"
    prompt_template =  \\
        ("You are given a task. "
         "Respond with the number."
         "\\nDomains:\\n"+domains+"\\n\\nTask: {}\\n\\nYour response:")
class ConstraintClassification(Classifier):
    def __init__(self, categories):
        for j, of in enumerate(categories):
            self.categories_str += f"\\n{j}. *{of['name']}*: {of['description']}\\nExamples: "
        self.prompt_template = (
            "Classify the constraint.\\n"
            "Categories:"+self.categories_str+"\\n\\nConstraint: {}\\n\\nYour response:")
""",
    "/wildifeval_prompts/domain_analysis.py": """
for batch in batches:
    task_list = "\\n".join([f"Task #{i+1}. {task}" for i, task in enumerate(batch)])
    prompt_lists.append(f"Generate a list of 10 domains." "\\nTasks:\\n"
                        f"\\n{task_list}.\\nList of 10 domains:")
prompt = f"Write one list of 20 domains:\\n\\n {Lists_of_domains}\\n"
""",
    "/wildifeval_prompts/categories.json": json.dumps(CATEGORIES_FILE),
}
NAMES = "wildifeval_judge", "wildifeval_prompts"


@pytest.fixture(scope="module")
def server() -> Iterator[FileServer]:
    with FileServer({path: text.encode() for path, text in CODE.items()}) as server:
        yield server


@pytest.fixture(scope="module")
def data(server: FileServer, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data folder with the stand-in's prompts, whose hashes are not the authors'."""
    root = tmp_path_factory.mktemp("data")
    for name in NAMES:
        found = catalogue()[name]
        products = tuple(
            replace(product, make=partial(product.make, words_sha256=None))
            for product in found.products
        )
        fetch(replace(found, products=products), root, server.url)
    return root


def test_the_prompts_are_rendered_as_the_authors_do(data: Path) -> None:
    prompts = CurationPrompts(prompt_files("wildifeval_prompts", data))  # type: ignore[arg-type]
    message, domains = "Write\n {a} <poem>.", ["Art", "Law & Order"]
    assert prompts.text("constrained", message=message) == FILTER.format(request=message)
    assert prompts.text("decompose", message=message) == DECOMPOSE.format(instruction=message)
    listed = "1. Art\n2. Law & Order"
    domain = prompts.text("domain", message=message, domains=domains)
    assert domain == DOMAIN.format(task=message, domains=listed)
    asked = prompts.text("category", constraint="Be\nbrief.")
    assert asked == CATEGORY.format(constraint="Be\nbrief.")
    tasks = "Task #1. One.\nTask #2. Two\nlines."
    proposed = prompts.text("propose_domains", tasks=["One.", "Two\nlines."], n=10)
    assert proposed == PROPOSE.format(tasks=tasks, n=10)
    assert "a list of 7 domains" in prompts.text("propose_domains", tasks=[""], n=7)
    merged = prompts.text("merge_domains", names="Art: 2\nLaw: 1", n=20)
    assert merged == MERGE.format(lists="Art: 2\nLaw: 1", n=20)


def test_the_replies_to_them_can_be_read(data: Path) -> None:
    prompts = CurationPrompts(prompt_files("wildifeval_prompts", data))  # type: ignore[arg-type]
    domains = ["Art", "Law & Order"]
    domain = prompts.text("domain", message="", domains=domains)
    assert chosen("2", domains, numbering(domain, domains)) == "Law & Order"
    reply = "Write. Translated Context:\nTranslated Constraints:\n1. Be brief."
    found = decomposition(reply, prompts.text("decompose", message=""))
    assert (found.task, found.constraints) == ("Write.", ("Be brief.",))
    kind = category("1", numbering(prompts.text("category", constraint=""), CATEGORIES))
    assert kind == ("Editing", "")


def test_so_is_the_question_to_the_judge(data: Path) -> None:
    judge = YesNo(prompt=str(prompt_files("wildifeval_judge", data)["judge"]), task=Poems())
    first = judge.questions(Instance("p", 1), "Snow\nfell.")[0]
    criterion = Poems().criteria(Instance("p", 1))[0].text
    asked = EVAL.format(instruction="Write poem 1.", response="Snow\nfell.", constraint=criterion)
    assert first.messages[0].content == asked
    assert {str(getattr(verdict(asked, noise), "text", "")) for noise in range(99)} == {"Yes", "No"}


@pytest.mark.parametrize("name", NAMES)
def test_a_prompt_that_is_not_the_published_one_is_refused(
    name: str, server: FileServer, tmp_path: Path
) -> None:
    with pytest.raises(DataInvalid, match=r"its prompt has the sha256 \w+ and not"):
        fetch(catalogue()[name], tmp_path, server.url)
    assert not list(tmp_path.rglob("*.jinja"))
    with pytest.raises(DataMissing) as caught:
        prompt_files(name, tmp_path)
    assert caught.value.remedy == f"Run 'harness data fetch {name}'."


@pytest.mark.parametrize(
    ("code", "problem"),
    [
        ("FILTER_PROMPT = open('prompt.txt').read()", "it has no prompt with {request}"),
        ("FILTER_PROMPT = ", "it is not Python code"),
        ("(" * 500, "it is not Python code"),
        ("FILTER_PROMPT = " + "+".join(["'{request}'"] * 3_000), "it is not Python code"),
    ],
)
def test_other_code_is_refused(code: str, problem: str, tmp_path: Path) -> None:
    (tmp_path / "constants.py").write_text(code)
    make = catalogue()["wildifeval_prompts"].products[0].make
    with pytest.raises(DataInvalid) as caught:
        list(make(tmp_path / "constants.py"))
    assert problem in caught.value.message


def test_so_are_other_categories(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('[{"name": "Length"}]')
    make = catalogue()["wildifeval_prompts"].products[2].make
    with pytest.raises(DataInvalid, match="not a list of categories"):
        list(make(tmp_path / "a.py", tmp_path / "a.json"))


SIMULATED = "model={backend: simulated}"


def test_a_curation_file_names_them(data: Path, tmp_path: Path) -> None:
    chats = tmp_path / "chats.jsonl"
    chats.touch()
    every = load_curation(None, [SIMULATED, "prompts=authors"])
    resources = Resources(Settings(data_dir=data))
    prompts = prepare_curation(every, [chats], tmp_path / "out", resources).prompts
    assert prompts.text("constrained", message="Write.") == FILTER.format(request="Write.")
    ours = CurationPrompts({}).hashes
    assert [name for name in ours if prompts.hashes[name] != ours[name]] == list(PUBLISHED)
    one = load_curation(None, [SIMULATED, "prompts.domain=authors"])
    hashes = prepare_curation(one, [chats], tmp_path / "out", resources).prompts.hashes
    assert hashes == ours | {"domain": prompts.hashes["domain"]}
    toxic = load_curation(None, [SIMULATED, "prompts.toxic=authors"])
    with pytest.raises(ConfigError, match="the authors published no such prompt"):
        prepare_curation(toxic, [chats], tmp_path / "out", resources)


def test_commands_use_them_or_name_the_command_that_fetches_them(
    data: Path, tmp_path: Path
) -> None:
    prompt = "Write a letter to my landlord about the broken heating, not longer than a page."
    (tmp_path / "chats.jsonl").write_text(json.dumps({"id": "a", "prompt": prompt}))
    judged = "judges=[{name: yes_no, prompt: wildifeval, model: {backend: simulated}}]"
    run: tuple[str | Path, ...] = (
        "run",
        "vllm_wildifeval",
        "-o",
        SIMULATED,
        "-o",
        judged,
        "--limit",
        "2",
    )
    build: tuple[str | Path, ...] = (
        *("build", "wildifeval", "--from", tmp_path / "chats.jsonl", "--out", tmp_path / "out"),
        *("-o", "model={backend: simulated, accuracy: 1}", "-o", "filter.keep=1"),
        *("-o", "prompts=authors"),
    )
    env = os.environ | {"HARNESS_DATA_DIR": str(data)}
    for command in (run, build):
        done = harness(*command, env=env)
        assert done.returncode == 0, done.stderr
    tasks = (tmp_path / "out" / "tasks.jsonl").read_text()
    assert "The text should be complete." in tasks
    manifest = json.loads((tmp_path / "out" / "manifest.json").read_text())
    assert manifest["curation"]["prompts"]["domain"] == "authors"
    nowhere = env | {
        "HARNESS_DATA_DIR": str(tmp_path / "data"),
        "HTTPS_PROXY": "http://127.0.0.1:9",
    }
    again = ("--fresh",), ("-o", "seed=1")
    for command, more, name in zip((run, build), again, NAMES, strict=True):
        assert f"harness data fetch {name}" in mistake(harness(*command, *more, env=nowhere))
        offline = mistake(harness(*command, *more, env=nowhere | {"HARNESS_FETCH": "true"}))
        assert "Cannot fetch https://" in offline
        assert f"harness data fetch {name}" in offline
