"""`harness sync` with a damaged copy."""

from pathlib import Path

from tests.cli.command import QUICK, harness, on
from tests.cli.test_manage import cut


def test_a_copy_with_lost_attempts_keeps_no_other_from_being_copied(tmp_path: Path) -> None:
    urls = {
        "HARNESS_RUNS_URL": f"file://{tmp_path}/store",
        "HARNESS_CACHE_URL": "postgresql://none",
    }
    here, there = (on(tmp_path / name) for name in ("here", "there"))
    for name in ("first", "second"):
        assert harness(*QUICK, name, env=here).returncode == 0
    assert harness("sync", "first", "second", env=here | urls).returncode == 0
    cut(tmp_path / "store" / "first" / "attempts.jsonl")
    ended = harness("sync", env=there | urls)
    assert ended.returncode == 1
    said = " ".join(ended.stderr.split())
    assert "first: attempts.jsonl lacks at least" in said
    assert "To repeat them, run the run file again" in said
    assert "second is the same here" in said
