"""Shards whose attempts were lost are not merged."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.command import harness, mistake
from tests.cli.test_compare import QUICK, on
from tests.cli.test_manage import cut, emptied


def copied(path: Path) -> None:
    """The file is that of the other shard."""
    shutil.copy(path.parents[1] / "first-1of2" / path.name, path)


@pytest.mark.parametrize("damage", [emptied, cut, Path.unlink, copied])
def test_lost_attempts_are_not_merged(tmp_path: Path, damage: Callable[[Path], None]) -> None:
    env = on(tmp_path / "runs")
    for shard in ("1/2", "2/2"):
        assert harness(*QUICK, "first", "--shard", shard, env=env).returncode == 0
    damage(tmp_path / "runs" / "first-2of2" / "attempts.jsonl")
    problem = "line is from another run" if damage is copied else "lacks at least"
    assert problem in mistake(harness("merge", "first", env=env))
