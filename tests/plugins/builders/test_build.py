"""`harness build`: what it makes, and what it does not write over."""

from pathlib import Path

from tests.cli.command import harness, mistake


def test_it_writes_over_nothing_of_others(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    said = mistake(harness("build", "concodeeval", "--out", tmp_path))
    assert str(tmp_path) in said
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]
