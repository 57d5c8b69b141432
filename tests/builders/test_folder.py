"""A benchmark's folder: what a build replaces, and what it never does."""

import json
from pathlib import Path

import msgspec
import pytest

from harness.builders.folder import MANIFEST, refuse_other, write
from harness.errors import RunConflict


class Row(msgspec.Struct):
    n: int


def built(out: Path, n: int = 1) -> None:
    write(out, "rows", {"rows.jsonl": [Row(n)]}, {"seed": n}, texts={"card.md": "# Rows\n"})


def test_a_build_replaces_an_earlier_one(tmp_path: Path) -> None:
    built(tmp_path / "mine")
    built(tmp_path / "mine", 2)
    assert (tmp_path / "mine" / "rows.jsonl").read_text() == '{"n":2}\n'
    assert json.loads((tmp_path / "mine" / MANIFEST).read_bytes())["seed"] == 2


def test_a_table_that_was_changed_by_hand_stays(tmp_path: Path) -> None:
    built(tmp_path / "mine")
    table = tmp_path / "mine" / "rows.jsonl"
    table.write_text('{"n":99}\n')
    with pytest.raises(RunConflict, match=r"rows\.jsonl was changed since it was built") as refused:
        built(tmp_path / "mine")
    assert "move this one away" in refused.value.remedy
    assert table.read_text() == '{"n":99}\n'
    table.unlink()  # nothing is lost
    built(tmp_path / "mine")
    assert table.read_text() == '{"n":1}\n'


@pytest.mark.parametrize(
    "manifest",
    [
        *("", "[]", "{}", '{"kind": "other", "sha256": {}}', '{"kind": "rows"}', "[" * 99_999),
        '{"kind": "\udcff", "sha256": {}}',
    ],
)
def test_what_was_not_built_here_stays(manifest: str, tmp_path: Path) -> None:
    (tmp_path / MANIFEST).write_bytes(manifest.encode(errors="surrogateescape"))
    with pytest.raises(RunConflict, match="not a benchmark that was built here"):
        refuse_other(tmp_path, "rows", ["rows.jsonl"])


@pytest.mark.parametrize("out", [".", "..", "/", "../here"])
def test_the_working_directory_is_never_replaced(
    out: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    with pytest.raises(RunConflict, match="is the working directory or one above it"):
        built(Path(out))
    built(Path("mine"))
    built(Path("../beside"))
    assert sorted(path.name for path in Path().iterdir()) == ["mine"]
