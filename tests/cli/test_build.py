"""`harness build`: what it makes, and what it does not write over."""

import json
from pathlib import Path

from tests.cli.command import harness, mistake


def test_a_new_concodeeval(tmp_path: Path) -> None:
    ended = harness("build", "concodeeval", "--seed", "3", "--out", tmp_path / "mine")
    assert ended.returncode == 0, ended.stderr
    schemas = (tmp_path / "mine" / "schemas.jsonl").read_text().splitlines()
    instances = (tmp_path / "mine" / "validation.jsonl").read_text().splitlines()
    assert len({json.dumps(json.loads(line)["schema"]) for line in schemas}) == 602
    assert len(instances) == 3_076
    assert "150 array" in ended.stderr


def test_it_writes_over_nothing_of_others(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    said = mistake(harness("build", "concodeeval", "--out", tmp_path))
    assert str(tmp_path) in said
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]
