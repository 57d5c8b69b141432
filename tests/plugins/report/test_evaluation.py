"""The report of an evaluation of several benchmarks."""

from pathlib import Path

from tests.cli.command import harness
from tests.plugins.suites.test_verb import EVAL, TASKS, on


def test_all_benchmarks_are_shown(tmp_path: Path) -> None:
    assert harness(*EVAL, env=on(tmp_path)).returncode == 0
    page = tmp_path / "page.html"
    ended = harness("report", "eval", "-o", page, env=on(tmp_path))
    assert ended.returncode == 0, ended.stderr
    assert all(f"jsonl:{task}" in page.read_text() for task in TASKS)
