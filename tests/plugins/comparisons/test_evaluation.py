"""The matrix of an evaluation of several benchmarks."""

from pathlib import Path

from tests.cli.command import harness
from tests.plugins.suites.test_verb import EVAL, TASKS, on


def test_all_benchmarks_are_shown(tmp_path: Path) -> None:
    assert harness(*EVAL, env=on(tmp_path)).returncode == 0
    shown = harness("matrix", "eval", env=on(tmp_path))
    assert shown.returncode == 0, shown.stderr
    assert all(task in shown.stdout for task in TASKS)
