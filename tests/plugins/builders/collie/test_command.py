"""`harness build collie`: from a folder of text to a run, on the command line."""

import json
import os
import time
from pathlib import Path

import pytest

from harness.plugins.mock.server import MockServer
from harness.plugins.mock.wire import MockRequest
from tests.cli.command import begun, harness, mistake
from tests.plugins.builders.collie.corpus import write_corpus, write_words


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("corpus")
    write_corpus(folder / "text", documents=20, characters=3_000)
    write_words(folder / "words.txt", n=1_000)
    return folder


@pytest.fixture(scope="module")
def mine(corpus: Path) -> Path:
    ended = harness(
        "build", "collie", "--source", corpus / "text", "--source", f"words={corpus / 'words.txt'}",
        "--out", corpus / "mine", "--targets", "5", "--report",
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr
    assert "para03: 5 from text" in ended.stderr
    assert "65 instances in " in ended.stderr
    assert ended.stdout.startswith("# Report of the build")
    return corpus / "mine"


def test_what_was_built_runs(mine: Path, tmp_path: Path) -> None:
    file = tmp_path / "own.yaml"
    file.write_text(
        f"task: {{name: collie, dataset: {mine / 'instances.jsonl'}}}\n"
        "model: {backend: simulated}\n"
    )
    environment = os.environ | {"HARNESS_RUNS_DIR": str(tmp_path)}
    ended = harness("run", file, "-o", "model.accuracy=1", env=environment)
    assert ended.returncode == 0, ended.stderr
    metrics = json.loads((tmp_path / "own" / "metrics.json").read_bytes())
    assert metrics["n_instances"] == 65
    assert metrics["overall"]["pass_rate"] == 1.0
    assert len(metrics["groups"]["structure"]) == 13
    assert set(metrics["groups"]["source"]) == {"text", "words"}
    wrong = harness("run", file, "-o", "model.accuracy=0", "--name", "wrong", env=environment)
    assert wrong.returncode == 0, wrong.stderr
    metrics = json.loads((tmp_path / "wrong" / "metrics.json").read_bytes())
    assert metrics["overall"]["pass_rate"] == 0.0


def test_its_instructions_are_polished_where_every_value_is_kept(
    mine: Path, tmp_path: Path
) -> None:
    def answer(ask: MockRequest, n: int) -> str:
        if "between the lines" not in ask.prompt:
            return "Snow."
        text = ask.prompt.partition("---\n")[2].removesuffix("\n---")
        return "Be so kind: " + (
            text if n % 2 else text.translate({ord(c): "x" for c in "0123456789'"})
        )

    with MockServer(answers=answer) as server:
        second = f"{{backend: openai, name: second, base_url: '{server.base_url}'}}"
        file = tmp_path / "own.yaml"
        file.write_text(
            f"task: {{name: collie, dataset: {mine / 'instances.jsonl'}}}\n"
            f"model: {second}\npolish: {second}\nrounds: {{max: 2}}\n"
        )
        ended = harness(
            "run", file, "--limit", "13",
            env=os.environ | {
                "HARNESS_RUNS_DIR": str(tmp_path), "HARNESS_CACHE_DIR": str(tmp_path / "cache"),
                "OPENAI_API_KEY": "none",
            },
        )  # fmt: skip
    assert ended.returncode == 0, ended.stderr
    lines = (tmp_path / "own" / "attempts.jsonl").read_bytes().splitlines()
    polished = [rewriting for line in lines for rewriting in json.loads(line)["polish"]]
    assert {rewriting["of"] for rewriting in polished} == {"instruction", "feedback"}
    assert {rewriting["used"] for rewriting in polished} == {True, False}
    for line in map(json.loads, lines):
        if line["round"] == 1:
            [about] = [each for each in line["polish"] if each["of"] == "instruction"]
            assert line["request"]["messages"][0]["content"].startswith("Be so") is about["used"]


def test_a_killed_build_goes_on(corpus: Path, tmp_path: Path) -> None:
    paragraphs = (corpus / "text" / "0000.txt").read_text()
    (tmp_path / "text").mkdir()
    for number in range(2):  # of a batch each
        text = paragraphs.replace("the ", f"the {number} ") * (550_000 // len(paragraphs))
        (tmp_path / "text" / f"{number}.txt").write_text(text)
    arguments = ["build", "collie", "--structures", "para05", "--source", tmp_path / "text"]
    arguments += ["--jobs", "1"]
    stages = tmp_path / ".killed.stages"
    process = begun(*arguments, "--out", tmp_path / "killed")
    while not list(stages.glob("text-*.json")):
        assert process.poll() is None, process.communicate()
        time.sleep(0.02)
    process.kill()
    process.communicate()
    assert not (tmp_path / "killed").exists()
    ended = harness(*arguments, "--out", tmp_path / "killed")
    assert ended.returncode == 0, ended.stderr
    assert "of an earlier build" in ended.stderr
    assert not stages.exists()
    assert harness(*arguments, "--out", tmp_path / "whole").returncode == 0
    for name in ("instances.jsonl", "audit.jsonl", "report.md"):
        assert (tmp_path / "killed" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()


def test_the_audit_of_a_file(mine: Path, tmp_path: Path) -> None:
    ended = harness("build", "audit", mine / "instances.jsonl")
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "65 of 65 reference answers pass" in ended.stdout
    wrong = tmp_path / "wrong.yaml"
    wrong.write_text(
        "- {id: a, level: sentence, constraint: {target_level: word, transformation: {op: count},"
        " relation: '=='}, targets: 3, example: One two.}\n"
    )
    ended = harness("build", "audit", wrong)
    assert ended.returncode == 1
    assert "a: the reference answer fails" in ended.stdout


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--source", "nowhere"], "no such file, folder or preset"),
        (["--source", "{text}", "--structures", "para1"], "Did you mean 'para01'"),
        (["--source", "{text}", "--structures", "paper"], "Add a word list"),
        (["--source", ""], "A variable in the command may not be set"),
        (["--source", "{text}", "--out", "/"], "is the working directory or one above it"),
    ],
)
def test_mistakes_are_told(arguments: list[str], said: str, corpus: Path, tmp_path: Path) -> None:
    given = [each.format(text=corpus / "text") for each in arguments]
    assert said in mistake(harness("build", "collie", "--out", tmp_path / "x", *given))
    assert list(tmp_path.iterdir()) == []


def test_without_structures_those_that_the_sources_have_texts_for(
    corpus: Path, tmp_path: Path
) -> None:
    ended = harness(
        "build", "collie", "--source", corpus / "text", "--out", tmp_path / "mine",
        "--targets", "2", "--documents", "5",
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr
    assert "Skipped word01, word02, word03: no source has texts of the level word" in ended.stderr
    assert "--source words=FILE" in ended.stderr
    rows = (tmp_path / "mine" / "instances.jsonl").read_text().splitlines()
    assert len({json.loads(row)["structure"] for row in rows}) == 10
    assert list(tmp_path.iterdir()) == [tmp_path / "mine"]
