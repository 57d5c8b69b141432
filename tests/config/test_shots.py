from typing import Any

import pytest
from pydantic import ValidationError

from harness.config.identity import conflicts
from harness.config.sections import ShotsSection, TaskSection
from tests.conftest import run_file


def shots(given: Any) -> ShotsSection:
    return TaskSection(name="t", shots=given).shots


def test_a_number_is_a_section_with_the_defaults() -> None:
    assert shots(3) == shots({"n": 3}) == ShotsSection(n=3)
    assert TaskSection(name="t").shots == ShotsSection(n=0)


def test_a_zero_shot_run_is_written_as_it_always_was() -> None:
    for given in (0, {"n": 0}, {"n": 0, "form": "message"}):
        written = run_file(task={"name": "t", "shots": given}).model_dump(mode="json")
        assert written["task"] == {"name": "t", "shots": 0}


def test_a_few_shot_run_is_written_as_a_section_that_reads_back() -> None:
    run = run_file(task={"name": "t", "shots": {"n": 2, "within": ["a"], "source": {"x": 1}}})
    written = run.model_dump(mode="json")["task"]["shots"]
    assert written["within"] == ["a"]
    assert written["form"] == "turns"
    assert run_file(task={"name": "t", "shots": written}) == run


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        (-1, "greater than or equal to 0"),
        (True, "must be a whole number, or a section"),
        (2.0, "must be a whole number, or a section"),
        ("2", "must be a whole number, or a section"),
        (None, "must be a whole number, or a section"),
        ({"n": True}, "valid integer"),
        ({"n": 10**6}, "less than or equal to"),
        ({"n": 1, "seed": 1.0}, "valid integer"),
        ({"n": 1, "ids": ["a"]}, "need each other"),
        ({"n": 1, "select": "ids"}, "need each other"),
        ({"n": 1, "run": "r"}, "need each other"),
        ({"n": 1, "select": "errors"}, "need each other"),
        ({"n": 2, "select": "ids", "ids": ["a"]}, "n is 2, but ids names 1"),
        ({"n": 1, "select": "ids", "ids": ["a", "a"]}, "'a' twice"),
        ({"n": 1, "select": "ids", "ids": [1]}, "valid string"),
        ({"n": 1, "select": "errors", "run": "r", "source": {"a": 1}}, "remove source"),
        ({"n": 1, "select": "ids", "ids": ["a"], "across": "g"}, "remove across"),
        ({"n": 1, "within": ["g", "h"], "across": "g"}, "makes all shots share 'g'"),
        ({"n": 1, "across": ["g"]}, "valid string"),
        ({"n": 1, "order": "sorted"}, "'selected', 'reversed' or 'random'"),
        ({"n": 1, "source": {"deep": [{"password": "x"}]}}, "would contain a secret"),
        ({"n": 1, "k": 2}, "Extra inputs"),
    ],
)
def test_what_cannot_be_meant_is_refused(given: Any, problem: str) -> None:
    with pytest.raises(ValidationError) as caught:
        shots(given)
    assert problem in caught.value.errors()[0]["msg"]


@pytest.mark.parametrize(
    ("before", "now", "named"),
    [
        (0, {"n": 0, "seed": 3}, []),
        (1, {"n": 1, "select": "first"}, []),
        (0, 1, ["task.shots"]),
        (2, 0, ["task.shots"]),
        (1, 2, ["task.shots.n"]),
        ({"n": 1, "seed": 1}, {"n": 1, "form": "task"}, ["task.shots.form", "task.shots.seed"]),
        ({"n": 1, "source": {"a": 1}}, {"n": 1, "source": {"a": 2}}, ["task.shots.source.a"]),
        (2, {"n": 2, "across": None}, []),
        (2, {"n": 2, "across": "g"}, ["task.shots.across"]),
    ],
)
def test_other_shots_are_another_run(before: Any, now: Any, named: list[str]) -> None:
    old, new = (run_file(task={"name": "t", "shots": given}) for given in (before, now))
    assert conflicts(old, new) == named
