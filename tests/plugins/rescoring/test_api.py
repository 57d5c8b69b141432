"""Recorded answers that a program scores again."""

from pathlib import Path
from typing import Any

import pytest

import harness
from harness.errors import RunConflict
from harness.store.run_folder import RunFolder
from tests.test_api import (
    file,
    run_and_file_that_is_read_otherwise,
    run_whose_rows_an_earlier_version_read_otherwise,
)

pytestmark = pytest.mark.usefixtures("program_folder")


@pytest.mark.parametrize("rows_name_it", [False, True])
def test_an_edited_checker_scores_the_recorded_answers_again(rows_name_it: bool) -> None:
    tree = file(["exact_match"] if rows_name_it else ["mine"])
    if rows_name_it:
        Path("rows.jsonl").write_text('{"prompt": "a", "gold": "yes", "checks": ["mine"]}\n')

    @harness.checker
    def mine(text: str) -> bool:
        return True

    assert harness.run(tree, progress=False).metrics.pass_rate == 1

    @harness.checker
    def mine(text: str) -> bool:  # noqa: F811
        return False

    again = harness.run(tree, rescore=True, progress=False)
    assert (again.name, again.metrics.pass_rate) == ("run", 0)
    assert harness.run(tree, progress=False).metrics.pass_rate == 0


def test_answers_to_another_prompt_are_not_scored_again(tmp_path: Path) -> None:
    def short(text: str, most: int = 3) -> bool:
        return len(text) < most

    rows = [{"prompt": "a", "target": "yes"}, {"prompt": "b", "target": "maybe"}]
    tree: dict[str, Any] = {
        "task": {"name": "jsonl", "rows": rows, "checks": ["exact_match"]},
        "model": {"backend": "simulated", "accuracy": 1.0},
    }
    harness.run(tree, progress=False)
    RunFolder(tmp_path / "runs", "run").rename("moved")
    tree["task"]["checks"] = [short]
    rows[0]["prompt"] = "another"
    with pytest.raises(RunConflict, match="the prompt of '1' has changed"):
        harness.run(tree, name="moved", progress=False, rescore=True)


def test_a_run_whose_rows_were_read_otherwise_continues() -> None:
    run_file = run_and_file_that_is_read_otherwise()
    with pytest.raises(RunConflict):
        harness.run(run_file, progress=False)
    assert harness.run(run_file, rescore=True, progress=False).metrics.overall.pass_rate == 0.5


def test_a_run_whose_file_of_rows_is_read_otherwise_continues() -> None:
    tree = run_whose_rows_an_earlier_version_read_otherwise()
    with pytest.raises(RunConflict):
        harness.run(tree, name="mine", progress=False)
    harness.run(tree, name="mine", rescore=True, progress=False)
