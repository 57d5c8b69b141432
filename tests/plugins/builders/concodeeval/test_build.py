"""The folder: what it holds, the same bytes from the same seed, never over another's files."""

import hashlib
import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from harness.errors import RunConflict, StoreFailed
from harness.plugins.builders.concodeeval import build
from harness.scoring.validators import validator

SHIPPED = Path(__file__).parents[4] / "harness/plugins/benchmarks/concodeeval/builtin"
FILES = {"schemas.jsonl", "validation.jsonl", "manifest.json"}


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def rows(folder: Path, name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / name).read_text("utf-8").splitlines()]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("build") / "whole"
    build(0, folder)
    return folder


def test_as_many_as_in_the_paper(whole: Path) -> None:
    assert len(rows(whole, "schemas.jsonl")) == 602
    found = rows(whole, "validation.jsonl")
    assert len(found) == 3076
    assert Counter(row["label"] for row in found) == {"no": 1384, "yes": 1692}
    assert len({row["id"] for row in found}) == 3076
    per_schema = Counter(row["schema_id"] for row in found)
    assert len(per_schema) == 602
    kinds = Counter(row["schema"].get("type") for row in rows(whole, "schemas.jsonl"))
    assert kinds.most_common(4) == [(kind, 150) for kind in ("number", "string", "array", "object")]
    assert max(per_schema.values()) <= 6


@pytest.mark.parametrize("shipped", [False, True])
def test_every_label_is_right(whole: Path, shipped: bool) -> None:
    folder = SHIPPED if shipped else whole
    strict = {row["id"]: validator(row["schema"]) for row in rows(folder, "schemas.jsonl")}
    for row in rows(folder, "validation.jsonl"):
        found = strict[row["schema_id"]].violations(row["value"])
        if row["label"] == "yes":
            assert not found
            assert row["keyword"] is row["path"] is row["schema_path"] is None
        else:
            [one] = found
            noted = (row["path"], row["keyword"], row["schema_path"])
            assert (one.path, one.keyword, one.schema_path) == noted


def test_the_papers_label_is_noted(whole: Path) -> None:
    schemas = {row["id"]: row["schema"] for row in rows(whole, "schemas.jsonl")}
    otherwise: Counter[str] = Counter()
    for row in rows(whole, "validation.jsonl"):
        validator = jsonschema.Draft7Validator(schemas[row["schema_id"]])
        assert row["paper_label"] == ("yes" if validator.is_valid(row["value"]) else "no")
        if row["keyword"] in ("format", "minContains"):
            otherwise[row["paper_label"]] += 1
    assert otherwise["yes"] > otherwise["no"]


def test_no_instance_of_a_schema_is_there_twice(whole: Path) -> None:
    found = rows(whole, "validation.jsonl")
    assert len({(row["schema_id"], json.dumps(row["value"])) for row in found}) == 3076


def test_every_keyword_of_the_paper_is_broken(whole: Path) -> None:
    broken = Counter(row["keyword"] for row in rows(whole, "validation.jsonl"))
    assert broken.keys() - {None} == {
        "type", "multipleOf", "format", "maxLength", "minLength", "required", "minimum",
        "exclusiveMinimum", "maximum", "exclusiveMaximum", "additionalProperties", "contains",
        "minContains",
    }  # fmt: skip
    assert broken["type"] < 0.4 * 1384


def test_the_manifest(whole: Path) -> None:
    manifest = json.loads((whole / "manifest.json").read_text())
    assert manifest["kind"] == "concodeeval"
    assert (manifest["seed"], manifest["vocabulary"]) == (0, "paper")
    assert manifest["counts"]["labels"] == {"yes": 1692, "no": 1384}
    for name, digest in manifest["sha256"].items():
        assert hashlib.sha256((whole / name).read_bytes()).hexdigest() == digest


def test_the_same_bytes_in_every_process(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path\n"
        "from harness.plugins.builders.concodeeval import build\n"
        "build(0, Path(sys.argv[1]), vocabulary='extended', per_range=5, instances=200)"
    )
    for seed in ("1", "4711"):
        subprocess.run(
            [sys.executable, "-c", code, str(tmp_path / seed)],
            env=os.environ | {"PYTHONHASHSEED": seed},
            check=True,
        )
    assert contents(tmp_path / "1") == contents(tmp_path / "4711")


def test_another_seed_gives_others(tmp_path: Path) -> None:
    build(1, tmp_path / "one", per_range=2, instances=20)
    build(2, tmp_path / "two", per_range=2, instances=20)
    one, two = contents(tmp_path / "one"), contents(tmp_path / "two")
    assert one.keys() == two.keys() == FILES
    assert all(one[name] != two[name] for name in FILES)


def test_the_shipped_set() -> None:
    assert {path.name for path in SHIPPED.iterdir()} == FILES
    assert sum(path.stat().st_size for path in SHIPPED.iterdir()) < 150_000
    found = Counter(row["label"] for row in rows(SHIPPED, "validation.jsonl"))
    assert found == {"yes": 68, "no": 56}
    assert len(rows(SHIPPED, "schemas.jsonl")) == 62


def test_its_own_folder_is_replaced(tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    build(1, out, per_range=1, instances=4)
    before = contents(out)
    build(2, out, per_range=1, instances=4)
    assert contents(out) != before
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("notes.txt", "mine"),
        ("manifest.json", '{"kind": "something else"}'),
        ("manifest.json", "["),
        ("schemas.jsonl", "no manifest beside it"),
    ],
)
def test_another_folder_is_left_alone(tmp_path: Path, name: str, content: str) -> None:
    (tmp_path / name).write_text(content)
    with pytest.raises(RunConflict, match="is not a benchmark"):
        build(1, tmp_path, per_range=1, instances=4)
    assert contents(tmp_path) == {name: content.encode()}


def test_files_added_to_ones_own_folder_are_not_lost(tmp_path: Path) -> None:
    out = tmp_path / "out"
    build(1, out, per_range=1, instances=4)
    (out / "notes.txt").write_text("mine")
    with pytest.raises(RunConflict, match="other files"):
        build(2, out, per_range=1, instances=4)
    assert (out / "notes.txt").read_text() == "mine"


def test_where_nothing_can_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(RunConflict):
        build(1, tmp_path / "file", per_range=1, instances=4)
    with pytest.raises(StoreFailed, match="Cannot write"):
        build(1, tmp_path / "file" / "below", per_range=1, instances=4)


def test_fewer_instances_where_there_are_no_more(tmp_path: Path) -> None:
    built = build(1, tmp_path / "out", per_range=1, instances=100_000)
    assert 0 < built["labels"]["no"] < 5_000
