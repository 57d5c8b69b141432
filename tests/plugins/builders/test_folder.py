"""A benchmark's folder and its stages: what a build replaces, and what it never does."""

import json
from pathlib import Path

import msgspec
import pytest

from harness.errors import ConfigError, HarnessError, RunConflict
from harness.plugins.builders.folder import (
    MANIFEST,
    Stages,
    key_of,
    locked_stages,
    refuse_other,
    write,
)


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


class Count(msgspec.Struct):
    n: int


def test_a_result_is_made_once(tmp_path: Path) -> None:
    made = []

    def make() -> Count:
        made.append(1)
        return Count(len(made))

    folder = tmp_path / "stages"
    folder.mkdir()
    assert Stages(folder).result("count", key_of("a"), Count, make) == Count(1)
    again = Stages(folder)
    assert again.result("count", key_of("a"), Count, make) == Count(1)
    assert again.resumed == 1
    assert again.result("count", key_of("b"), Count, make) == Count(2)
    assert again.saved("count", key_of("a"), Count) is None
    again.delete()
    assert not folder.exists()


def test_what_cannot_be_read_is_made_again(tmp_path: Path) -> None:
    stages = Stages(tmp_path)
    key = key_of("a")
    stages.save("count", key, Count(3))
    whole = (tmp_path / "count.json").read_bytes()
    (tmp_path / "count.json").write_bytes(whole[:-3])
    assert stages.saved("count", key, Count) is None
    stages.save("count", key, {"n": "three"})
    assert stages.saved("count", key, Count) is None


def test_another_folder_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    with (
        pytest.raises(RunConflict, match="does not contain the stages"),
        locked_stages(tmp_path, tmp_path),
    ):
        pass
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


def test_a_key_tells_its_parts_apart() -> None:
    assert key_of("ab", "c") != key_of("a", "bc")
    assert key_of({"a": 1, "b": 2}) == key_of({"b": 2, "a": 1})
    assert key_of(Count(1)) != key_of(Count(2))


def test_one_process_has_the_stages(tmp_path: Path) -> None:
    folder, out = tmp_path / ".mine.stages", tmp_path / "mine"
    with locked_stages(folder, out) as stages:
        stages.save("count", key_of("a"), Count(3))
        with (
            pytest.raises(RunConflict, match=r"Another process is building .*mine"),
            locked_stages(folder, out),
        ):
            pass
        assert stages.saved("count", key_of("a"), Count) == Count(3)
        stages.delete()
    assert not folder.exists()
    with locked_stages(folder, out):
        pass


def test_stages_go_where_the_input_was_wrong_and_stay_where_something_broke(tmp_path: Path) -> None:
    (tmp_path / "stages").mkdir()
    stages = Stages(tmp_path / "stages")
    with pytest.raises(HarnessError, match="memory"), stages.deleted_on_mistakes():
        raise HarnessError("out of memory")
    assert stages.folder.exists()
    with pytest.raises(ConfigError), stages.deleted_on_mistakes():
        raise ConfigError("no such filter")
    assert not stages.folder.exists()
