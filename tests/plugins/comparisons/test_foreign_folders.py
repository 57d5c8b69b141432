"""Runs that come from somebody else, and comparisons."""

import shutil
from pathlib import Path

from tests.cli.command import harness
from tests.cli.test_foreign_folders import environment, good

__all__ = ["good"]


def test_a_run_without_a_manifest_is_not_compared(good: Path, tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    shutil.copytree(good, runs)
    shutil.copytree(runs / "good", runs / "bare")
    (runs / "bare" / "manifest.json").unlink()
    ended = harness("compare", "good", "bare", env=environment(tmp_path))
    assert ended.returncode == 1
    assert "The manifest of the run 'bare' is missing" in ended.stderr
