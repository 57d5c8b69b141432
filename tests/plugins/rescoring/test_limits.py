"""Scores at and beyond the limits, in each command."""

from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.cli.command import harness, mistake


class Study(NamedTuple):
    folder: Path

    def run(self, value: str, *more: str) -> Any:
        """Run a check that returns this Python expression."""
        (self.folder / "size.py").write_text(f"def size(text): return {value}\n")
        return harness("run", "mine.yaml", *more, cwd=self.folder)


@pytest.fixture
def study(tmp_path: Path) -> Study:
    rows = "".join(f"    - {{id: {n}, prompt: Say {n}., target: {n}}}\n" for n in "abcd")
    (tmp_path / "mine.yaml").write_text(
        f"task:\n  rows:\n{rows}  checks: [./size.py]\nmodel: simulated/0.5\n"
    )
    return Study(tmp_path)


@pytest.mark.parametrize("value", ["1e101", "10**400", "float('nan')", "[1]"])
def test_a_users_check_beyond_the_limits_leaves_a_readable_run(study: Study, value: str) -> None:
    problem = mistake(study.run(value))
    assert "size" in problem
    assert "--rescore" in problem
    study.run("1.0", "--rescore")
    assert harness("show", "mine", cwd=study.folder).returncode == 0
    study.run("1e101", "--rescore")
    assert "1e+101" in mistake(harness("score", "mine", cwd=study.folder))
    assert harness("show", "mine", cwd=study.folder).returncode == 0


def test_every_command_reads_scores_at_the_limits(study: Study) -> None:
    study.run("1e100 if 'a' in text or 'b' in text else -1e100")
    study.run("1e100 if 'a' in text else -1e100", "--name", "other")
    for command in (
        ["show", "mine"],
        ["show", "mine", "--instance", "a"],
        ["table", "mine", "other"],
        ["compare", "mine", "other"],
        ["check", "mine", "--min", "size=0", "--too-few", "pass"],
        ["score", "mine"],
    ):
        ended = harness(*command, cwd=study.folder)
        assert "Traceback" not in ended.stderr, command
        assert ended.returncode in (0, 3, 4), (command, ended.stderr)
