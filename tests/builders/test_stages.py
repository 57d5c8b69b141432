"""Stages: kept under their key, made anew under another, never in a folder of others."""

from pathlib import Path

import msgspec
import pytest

from harness.builders.stages import Stages, held, key_of
from harness.errors import ConfigError, HarnessError, RunConflict


class Count(msgspec.Struct):
    n: int


def test_a_result_is_made_once(tmp_path: Path) -> None:
    made = []

    def make() -> Count:
        made.append(1)
        return Count(len(made))

    folder = tmp_path / "stages"
    assert Stages(folder).result("count", key_of("a"), Count, make) == Count(1)
    again = Stages(folder)
    assert again.result("count", key_of("a"), Count, make) == Count(1)
    assert again.resumed == 1
    assert again.result("count", key_of("b"), Count, make) == Count(2)
    assert again.found("count", key_of("a"), Count) is None
    again.done()
    assert not folder.exists()


def test_what_cannot_be_read_is_made_anew(tmp_path: Path) -> None:
    stages = Stages(tmp_path)
    key = key_of("a")
    stages.keep("count", key, Count(3))
    whole = (tmp_path / "count.json").read_bytes()
    (tmp_path / "count.json").write_bytes(whole[:-3])
    assert stages.found("count", key, Count) is None
    stages.keep("count", key, {"n": "three"})
    assert stages.found("count", key, Count) is None


def test_a_folder_of_others_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(RunConflict, match="no stages"):
        Stages(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


def test_a_key_tells_its_parts_apart() -> None:
    assert key_of("ab", "c") != key_of("a", "bc")
    assert key_of({"a": 1, "b": 2}) == key_of({"b": 2, "a": 1})
    assert key_of(Count(1)) != key_of(Count(2))


def test_one_process_has_the_stages(tmp_path: Path) -> None:
    folder, out = tmp_path / ".mine.stages", tmp_path / "mine"
    with held(folder, out) as stages:
        stages.keep("count", key_of("a"), Count(3))
        with (
            pytest.raises(RunConflict, match=r"Another process is building .*mine"),
            held(folder, out),
        ):
            pass
        assert stages.found("count", key_of("a"), Count) == Count(3)
        stages.done()
    assert not folder.exists()
    with held(folder, out):
        pass


def test_stages_go_where_the_input_was_wrong_and_stay_where_something_broke(tmp_path: Path) -> None:
    stages = Stages(tmp_path / "stages")
    with pytest.raises(HarnessError, match="memory"), stages.dropped_on_mistakes():
        raise HarnessError("out of memory")
    assert stages.folder.exists()
    with pytest.raises(ConfigError), stages.dropped_on_mistakes():
        raise ConfigError("no such filter")
    assert not stages.folder.exists()
