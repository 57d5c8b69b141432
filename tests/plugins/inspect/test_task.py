"""Tasks of Inspect: the same prompts and scores as Inspect's own run of them."""

import json
from pathlib import Path
from typing import Any

import pytest

from harness.cli import app
from harness.datasets.folder import DataFolder
from harness.errors import HarnessError
from harness.plugin_loader import kind
from harness.plugins.inspect.task import InspectTask
from harness.plugins.testing import check_task
from harness.records import Decoding, Message, Origin, Request, Score
from tests.plugins.inspect.inspect_run import run_by_inspect

pytestmark = pytest.mark.usefixtures("executing_code")

pytest.importorskip("inspect_ai")

HERE = Path(__file__).parent
SUMS, REFUSED = HERE / "sums.py", HERE / "refused.py"
ANSWERS = ["4", "The answer is 2.", "ANSWER: B", "ANSWER: A,C", "x = 3", "", "so\nANSWER: 6", "B"]


def made(task: object, **options: Any) -> InspectTask:
    data = DataFolder(Path("nowhere"))
    built: InspectTask = kind("tasks").build("inspect", {"task": str(task), **options}, data=data)
    return built


@pytest.mark.parametrize("name", ["sums", "capitals", "reasons", "turns", "shapes"])
def test_prompts_and_scores_are_those_of_inspect(name: str, tmp_path: Path) -> None:
    task = made(f"{SUMS}@{name}")
    for text in ANSWERS:
        theirs = run_by_inspect(f"{SUMS}@{name}", text, tmp_path)
        ours = {
            instance.id: (
                [(message.role, message.content) for message in task.messages(instance, ())],
                {key: score.value for key, score in task.score(instance, text).items()},
            )
            for instance in task.instances()
        }
        assert ours == theirs


@pytest.mark.parametrize("name", ["sums", "reasons"])
def test_the_task_is_right(name: str) -> None:
    assert check_task(made(f"{SUMS}@{name}")) == []


def test_answers_pass_by_their_grades() -> None:
    task = made(f"{SUMS}@sums")
    right = list(task.instances())[2]
    assert {key: one.passed for key, one in task.score(right, "4").items()} == {
        "match": True,
        "includes": True,
        "f1": None,
    }
    assert not task.score(right, "5")["match"].passed
    assert task.score_of_no_answer(right)["match"].passed is False
    assert task.extracted(right, "It is 4.") == "4"


@pytest.mark.parametrize("name", ["sums", "capitals", "reasons"])
def test_references_pass(name: str) -> None:
    task = made(f"{SUMS}@{name}")
    for instance in task.instances():
        if isinstance(instance.data.sample.target, str):
            reference = task.reference(instance)
            assert reference is not None
            assert all(one.passed is not False for one in task.score(instance, reference).values())


def test_the_task_sets_parameters_that_the_run_file_does_not() -> None:
    task = made(f"{SUMS}@sums")
    instance = next(task.instances())
    messages, decoding = (Message("user", "?"),), Decoding(max_tokens=9)
    request = Request("m", messages, decoding, sample=0, origin=Origin(instance.id, 0, 1))
    decoding = task.adapted_request(instance, request).decoding
    assert decoding == Decoding(max_tokens=9, temperature=0.3, stop=("\n\n",))


def test_arguments_reach_the_task() -> None:
    task = made(f"{SUMS}@sums", args={"brief": False})
    assert [one.role for one in task.messages(next(task.instances()), ())] == ["user"]


def test_all_tasks_of_a_file_are_one_benchmark() -> None:
    task = made(SUMS)
    assert {one.groups["task"] for one in task.instances()} == {
        *("sums", "capitals", "reasons", "turns", "shapes")
    }
    assert task.fingerprint() == made(SUMS).fingerprint()
    assert task.fingerprint() != made(f"{SUMS}@sums").fingerprint()


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("judged", "needs the scorer 'model_graded_qa', a model"),
        ("tools", "the solver 'use_tools'"),
        ("twice", "not exactly one answer"),
        ("critique", "the solver 'self_critique'"),
        ("boxed", "sample 1 has a sandbox"),
        ("unscored", "no scorer"),
        ("nowhere", "Task named 'nowhere' not found"),
    ],
)
def test_a_task_that_needs_more_is_refused_by_name(name: str, expected: str) -> None:
    with pytest.raises(HarnessError, match=expected):
        list(made(f"{REFUSED}@{name}").instances())


def test_a_scorer_that_fails_or_asks_a_model_gives_no_value() -> None:
    task = made(f"{REFUSED}@hopeless")
    found = task.score(next(task.instances()), "b")
    assert found["match"].passed
    assert found["asking"].value is None
    assert "waits for a model" in found["asking"].reason
    assert found["failing"].value is None
    assert "KeyError" in found["failing"].reason
    assert "breaking' fails (RuntimeError: no data;" in found["breaking"].reason
    assert found["skipping"] == Score(None, None, "The scorer gives no score.")
    assert found["empty"] == Score(None, None, "The scorer's value is not a number: {}.")


def test_an_answer_without_a_score_has_no_part_that_was_scored() -> None:
    task = made(f"{REFUSED}@blank")
    assert task.extracted(next(task.instances()), "b") is None


def test_without_a_target_there_is_no_reference() -> None:
    task = made(f"{REFUSED}@open_ended")
    for instance in task.instances():
        assert task.score(instance, "x")["anything"].passed
        assert task.expected_answer(instance) is None
        assert task.reference(instance) is None


def test_tasks_are_evaluated_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HARNESS_RUNS_DIR", str(tmp_path / "runs"))
    spec = f"inspect:{SUMS}@sums,{SUMS}@capitals"
    with pytest.raises(SystemExit, match="0"):
        app(["eval", spec, "--model", "simulated/0.5", "--name", "both"])
    [attempts] = (tmp_path / "runs").glob("both.sums-sums.*/attempts.jsonl")
    assert list((tmp_path / "runs").glob("both.sums-capitals.*/attempts.jsonl"))
    lines = attempts.read_text().splitlines()
    assert len(lines) == 4
    assert all(json.loads(line)["scores"].keys() == {"match", "includes", "f1"} for line in lines)
