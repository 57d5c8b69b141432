import json
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import msgspec
import pytest

from harness.datasets.folder import DataFolder
from harness.errors import ConfigError, DataInvalid, DataMissing
from harness.plugin_loader import kind
from harness.plugins.benchmarks.natural_instructions.loading import read_task
from harness.plugins.benchmarks.natural_instructions.task import BUILTIN, NaturalInstructionsTask
from harness.records import verdict
from harness.store.run_folder import RunFolder
from tests.conftest import run_file

NOWHERE = DataFolder(Path("nowhere"))


def task(data: DataFolder = NOWHERE, **options: Any) -> NaturalInstructionsTask:
    built: NaturalInstructionsTask = kind("tasks").build("natural_instructions", options, data=data)
    return built


def test_two_built_in_tasks_of_each_category() -> None:
    instances = list(task().instances())
    assert Counter((i.groups["category"], i.groups["task"]) for i in instances) == {
        ("classification", "classify_quantity"): 12,
        ("classification", "classify_request"): 12,
        ("generation", "generate_question_for_answer"): 12,
        ("generation", "generate_word_for_meaning"): 12,
        ("modification", "modify_to_opposite"): 12,
        ("modification", "modify_to_past_tense"): 12,
    }
    assert list(instances[0].groups) == ["task", "category", "encoding", "examples"]
    assert len({instance.id for instance in instances}) == 72


def test_the_built_in_tasks_have_the_whole_schema() -> None:
    for path in BUILTIN.iterdir():
        found = read_task(path)
        told = found.instruction
        assert all([told.title, told.definition, told.prompt])
        assert all([told.things_to_avoid, told.emphasis_and_caution, found.category])
        assert all(e.reason and not e.suggestion for e in told.positive)
        assert all(e.reason and e.suggestion for e in told.negative)
        inputs = [e.input for e in (*told.positive, *told.negative, *found.entries)]
        assert len(set(inputs)) == len(inputs) == 3 + 2 + 12


@pytest.mark.parametrize("truncation", ["none", "first_line"])
def test_golds_pass_and_others_fail(truncation: str) -> None:
    built = task(truncation=truncation)
    instances = list(built.instances())
    for instance, other in zip(instances, [*instances[13:], *instances[:13]], strict=True):
        gold = built.reference(instance)
        assert gold is not None
        scores = built.score(instance, gold)
        assert verdict(scores) is True
        ways = {"redundant", "goes_on", "copies_input", "no_label"}
        assert {score.value for name, score in scores.items() if name not in ways} == {1.0}
        assert not any(score.value for name, score in scores.items() if name in ways)
        wrong = built.score(instance, built.reference(other) or "")
        assert verdict(wrong) is False
        assert "right" in built.feedback(instance, gold, scores)
        assert "not the output" in built.feedback(instance, gold, wrong)


def test_the_prompt_is_one_turn_in_the_form_asked_for() -> None:
    built = task(form="paper", encoding="prompt", tasks=["classify_quantity"])
    (message,) = built.messages(next(built.instances()), ())
    assert message.role == "user"
    assert message.content == (
        "Prompt: Say which quantity the phrase measures.\n"
        "input: a fever of thirty-nine degrees\noutput:"
    )
    (message,) = task(encoding=["Prompt"]).messages(next(task().instances()), ())
    assert "Answer with the output alone." in message.content


def test_categories_of_ones_own_go_over_the_files(tmp_path: Path) -> None:
    (tmp_path / "own.yaml").write_text('"classify_*": sorting\n')
    built = task(DataFolder(tmp_path), categories="own.yaml")
    assert {i.groups["category"] for i in built.instances()} == {
        *("sorting", "generation", "modification")
    }
    scores = built.score(next(built.instances()), "x")
    assert "accuracy" not in scores
    assert built.fingerprint()["categories_sha256"] != task().fingerprint()["categories_sha256"]


def test_a_folder_of_both_forms(tmp_path: Path) -> None:
    entries = [{"input": "a", "output": ["b"]}]
    (tmp_path / "subtask1.json").write_text(json.dumps({"Instances": entries}))
    second = {"Categories": ["Sorting"], "Instances": [{"id": "task2-x", **entries[0]}]}
    (tmp_path / "task2.json").write_text(json.dumps(second))
    first, other = task(dataset=str(tmp_path)).instances()
    assert (first.id, first.groups["category"]) == ("subtask1/0", "unknown")
    assert (other.id, other.groups["category"]) == ("task2/task2-x", "Sorting")
    assert [i.id for i in task(dataset=str(tmp_path / "task2.json")).instances()] == [other.id]


def test_fingerprints_tell_data_and_tokens_apart() -> None:
    whole, part = task().fingerprint(), task(tasks=["classify_request"]).fingerprint()
    assert whole["dataset_sha256"] != part["dataset_sha256"]
    assert "Porter" in whole["stemmer"]
    assert "tokens" not in whole
    assert task(examples="fit").fingerprint()["tokens"] == "estimate"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"tasks": ["classify_quantiy"]}, "Did you mean 'classify_quantity'"),
        ({"tasks": []}, "names no task"),
        ({"encoding": "fulll"}, "Did you mean 'full'"),
        ({"examples": -1}, "must not be negative"),
        ({"examples": {"classify_request": 2}}, "has no number for the task"),
        ({"examples": "most"}, "Option 'examples"),
        ({"instances": 0}, "at least 1"),
        ({"truncation": "stop"}, "go together"),
        ({"form": "prose"}, "'paper' or 'chat'"),
        ({"shown": 1}, "no option 'shown'"),
    ],
)
def test_options_that_do_not_fit_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        task(**options)


def test_a_missing_data_set_names_the_command(tmp_path: Path) -> None:
    with pytest.raises(DataMissing, match="harness data fetch natural_instructions"):
        task(DataFolder(tmp_path), dataset="v1")
    with pytest.raises(DataInvalid, match="contains no task"):
        task(dataset=str(tmp_path))


def test_a_metric_of_a_package_is_one_of_the_scores(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A package of BLEURT's shape: it counts letters in common."""
    package = tmp_path / "bleurt"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "score.py").write_text(
        "class BleurtScorer:\n"
        "    def __init__(self, checkpoint): self.checkpoint = checkpoint\n"
        "    def score(self, *, references, candidates):\n"
        "        return [len(set(r) & set(c)) / len(set(r) | set(c))\n"
        "                for r, c in zip(references, candidates, strict=True)]\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    metric = {"name": "bleurt", "checkpoint": str(package)}
    built = task(metrics=[metric], truncation="first_line")
    instance = next(built.instances())
    gold = built.reference(instance) or ""
    assert built.score(instance, gold)["bleurt"].value == 1.0
    worse = built.score(instance, "zzz")["bleurt"]
    assert (worse.value, worse.passed) == (0.0, None)
    assert built.fingerprint()["bleurt"] == "bleurt bleurt"
    with pytest.raises(ConfigError, match="twice"):
        task(metrics=[metric, metric])


def test_bertscore_takes_the_best_reference(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A package of bert-score's shape: it counts letters in common, and knows one model."""
    (tmp_path / "bert_score.py").write_text(
        "class BERTScorer:\n"
        "    def __init__(self, model_type, num_layers, lang, rescale_with_baseline):\n"
        "        if model_type != 'known': raise KeyError(model_type)\n"
        "        self.hash = f'{model_type}_L{num_layers}'\n"
        "    def score(self, candidates, references):\n"
        "        f1 = [max(len(set(r) & set(c)) / len(set(r) | set(c)) for r in rs)\n"
        "              for c, rs in zip(candidates, references, strict=True)]\n"
        "        return f1, f1, f1\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "bert_score", raising=False)
    built = task(metrics=[{"name": "bertscore", "model": "known", "layer": 2}])
    instance = next(built.instances())
    assert built.score(instance, built.reference(instance) or "")["bertscore"].value == 1.0
    assert built.score(instance, " ")["bertscore"].value == 0.0
    assert built.fingerprint()["bertscore"] == "known_L2"
    with pytest.raises(ConfigError, match="cannot load 'unknown'"):
        task(metrics=[{"name": "bertscore", "model": "unknown"}])


@pytest.mark.parametrize(
    ("metric", "said"),
    [
        ({}, "is not a name"),
        ({"name": "bleurd"}, "no metric named 'bleurd'"),
        ({"name": "bleurt", "checkpoint": "/nowhere"}, "no BLEURT checkpoint"),
        ({"name": "bleurt", "checkpoint": "."}, "not installed"),
        ({"name": "bertscore"}, "needs the package bert-score"),
        ({"name": "bleurt", "path": "."}, "no option 'path'"),
    ],
)
def test_a_metric_that_cannot_be_had_is_told_before_any_work(
    metric: dict[str, str], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in sys.modules if name.split(".")[0] in ("bleurt", "bert_score")]:
        monkeypatch.delitem(sys.modules, name)
    with pytest.raises(ConfigError, match=said):
        task(metrics=[metric])


def test_the_words_of_the_chat_form_are_in_the_fingerprint() -> None:
    assert task(form="chat").fingerprint()["wording_sha256"]
    assert "wording_sha256" not in task(form="paper").fingerprint()


def test_more_examples_than_there_are_is_told(tmp_path: Path) -> None:
    text = (
        "prompt: Which?\npositive_examples: [{input: x, output: y}]\n"
        "instances: [{input: a, output: b}]\n"
    )
    (tmp_path / "own.yaml").write_text(text)
    own = task(dataset=str(tmp_path), encoding="positive_examples", examples=5)
    with pytest.raises(ConfigError, match="asks for 5, but the task 'own' has 1 to show"):
        list(own.instances())


def test_the_same_input_gives_the_answer_away_however_it_is_asked() -> None:
    instance = next(task(encoding="full").instances())
    bare = next(task(encoding="instance_only").instances())
    other = list(task(encoding="instance_only").instances())[1]
    assert instance.data.prompt != bare.data.prompt
    assert task().leaks(instance, bare)
    assert not task().leaks(instance, other)


def test_no_answer_never_passes() -> None:
    built = task()
    instance = next(built.instances())
    item = msgspec.structs.replace(instance.data, outputs=(".",))
    scores = built.score_of_no_answer(msgspec.structs.replace(instance, data=item))
    assert scores["exact_match"].value is scores["exact_match"].passed is False
    assert scores["rouge_l"].value == 0


@pytest.mark.parametrize(
    ("tasks", "chosen"),
    [
        (["training"], 6),
        (["category:classification"], 2),
        (["*_to_*"], 2),
        (["category:generation", "modify*", "classify_request"], 5),
    ],
)
def test_tasks_by_category_pattern_and_split(tasks: list[str], chosen: int) -> None:
    assert len({one.groups["task"] for one in task(tasks=tasks).instances()}) == chosen


def test_the_papers_split(tmp_path: Path) -> None:
    example = (BUILTIN / "classify_request.yaml").read_text()
    seen, unseen = "subtask001_quoref_question_generation", "subtask002_quoref_answer_generation"
    for name in (seen, unseen):
        (tmp_path / f"{name}.yaml").write_text(example)
    for split, expected in {"training": seen, "evaluation": unseen}.items():
        built = task(dataset=str(tmp_path), tasks=[split])
        assert {one.groups["task"] for one in built.instances()} == {expected}


@pytest.mark.parametrize("wanted", ["evaluation", "category:clasification", "*mctaco*"])
def test_a_choice_of_no_task_is_an_error(wanted: str) -> None:
    with pytest.raises(ConfigError, match="has no task"):
        task(tasks=[wanted])


def test_an_option_that_0_1_0_wrote_and_is_gone_is_not_read(tmp_path: Path) -> None:
    folder, task = RunFolder(tmp_path, "mine"), {"name": "natural_instructions"}
    for table, kept in ((None, {}), ("r50k_base.tiktoken", {"token_table": "r50k_base.tiktoken"})):
        with folder.lock():
            folder.write_config(run_file(task=task | {"token_table": table}))
        assert folder.read_config().task.options == kept
