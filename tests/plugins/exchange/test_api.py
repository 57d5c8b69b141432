"""Data frames of runs in a program."""

import math

import pytest

import harness
from tests.conftest import ROOT
from tests.rows import QUICKSTART
from tests.test_api import QUICK, completed_in_another_order

pytestmark = pytest.mark.usefixtures("program_folder")


def test_a_run_has_a_data_frame() -> None:
    run = harness.run(ROOT / QUICKSTART, **QUICK)
    frame = run.to_frame()
    assert math.isclose(frame["passed"].mean(), run.metrics.pass_rate or 0)
    assert run.to_frame(attempts=True)["is_last"].sum() == 52


def test_a_frame_has_the_fields_of_the_users_rows() -> None:
    rows = [{"q": "Say a.", "target": "a", "level": 1}, {"q": "Say b.", "target": "b", "level": 2}]
    task = {"rows": rows, "prompt": "{{ q }}", "checks": "exact_match"}
    run = harness.run({"task": task, "model": "simulated/1"}, name="own", progress=False)
    assert list(run.to_frame()["field_level"]) == [1, 2]


def test_a_frame_has_the_fields_of_rows_whose_check_is_a_function() -> None:
    def is_short(answer: str) -> bool:
        return len(answer) < 9

    rows = [{"prompt": "Say a.", "target": "a", "level": 1}, {"prompt": "Say b.", "level": 2}]
    task = {"rows": rows, "checks": [is_short]}
    run = harness.run({"task": task, "model": "simulated/1"}, name="own", progress=False)
    assert list(run.to_frame()["field_level"]) == [1, 2]


def test_a_frame_is_in_the_order_of_the_rows_not_of_their_completion() -> None:
    names = ["c", "b", "a"]
    assert list(completed_in_another_order(names).to_frame()["instance"]) == names
