"""Attempts with their texts: each that counts once, in the file's order, its rounds in theirs."""

from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.errors import DataInvalid
from harness.records import SCHEMA_VERSION, Attempt
from harness.store.index import AttemptIndex, AttemptLine, read_instance
from harness.store.json_lines import JsonLinesWriter

KEYS = st.tuples(st.sampled_from("abc"), st.integers(0, 2), st.integers(1, 3))


def attempt(instance: str, sample: int, round_: int, text: str = "") -> Attempt:
    return Attempt(
        v=SCHEMA_VERSION,
        instance=instance,
        sample=sample,
        round=round_,
        groups={},
        cluster=instance,
        request={},
        outcome="ok",
        started_at=0.0,
        ended_at=0.0,
        text=text,
        passed=True,
    )


def written(path: Path, *attempts: Attempt) -> Path:
    path.unlink(missing_ok=True)
    with JsonLinesWriter(path) as writer:
        for one in attempts:
            writer.append(one)
    return path


@settings(max_examples=60, deadline=None)
@given(st.lists(KEYS, max_size=25))
def test_what_counts_is_what_one_instance_shows(
    tmp_path_factory: pytest.TempPathFactory, keys: list[tuple[str, int, int]]
) -> None:
    folder = tmp_path_factory.mktemp("run")
    lines = [attempt(*key, text=f"line {number}\n") for number, key in enumerate(keys)]
    path = written(folder / "attempts.jsonl", *lines)
    found = list(AttemptIndex(path).read(Attempt))
    begun = list(dict.fromkeys(one.instance for one in found))
    assert found == [one for instance in begun for one in read_instance(path, instance)]
    assert set(begun) == {instance for instance, _, _ in keys}


def test_instances_come_as_the_file_begins_them(tmp_path: Path) -> None:
    path = written(tmp_path / "a", attempt("z", 0, 1), attempt("a", 0, 1), attempt("z", 0, 2))
    assert [(one.instance, one.round) for one in AttemptIndex(path).read(Attempt)] == [
        ("z", 1),
        ("z", 2),
        ("a", 1),
    ]


def test_no_file_has_none(tmp_path: Path) -> None:
    assert list(AttemptIndex(tmp_path / "none").read(Attempt)) == []


def test_a_torn_line_is_none(tmp_path: Path) -> None:
    path = written(tmp_path / "a", attempt("a", 0, 1))
    with path.open("ab") as file:
        file.write(b'{"v":1,"instance":"b"')
    assert [one.instance for one in AttemptIndex(path).read(Attempt)] == ["a"]


def test_what_cannot_be_read_is_named(tmp_path: Path) -> None:
    path = written(tmp_path / "a", attempt("a", 0, 1), attempt("b", 0, 1))
    lines = path.read_bytes().splitlines()
    broken = msgspec.json.decode(lines[1]) | {"text": 5}
    path.write_bytes(lines[0] + b"\n" + msgspec.json.encode(broken) + b"\n")
    with pytest.raises(DataInvalid, match="line 2"):
        list(AttemptIndex(path).read(Attempt))


class Text(msgspec.Struct):
    text: str


def test_a_shape_reads_what_it_has_and_the_rows_asked_for(tmp_path: Path) -> None:
    path = written(
        tmp_path / "a",
        attempt("a", 0, 1, "first"),
        attempt("a", 0, 2, "second"),
        attempt("b", 0, 1, "third"),
    )
    places = AttemptIndex(path)
    last = list(places.read(Text, places.last_rounds()))
    assert [one.text for one in last] == ["second", "third"]
    first = list(places.read(Text, places.last_rounds(1)))
    assert [one.text for one in first] == ["first", "third"]


def test_a_line_tells_all_that_an_attempt_does() -> None:
    own = {"request", "scores"}  # of the shapes made of it
    left_out = {"v", "polish"}  # no page and no table shows them
    told = set(AttemptLine.__struct_fields__)
    assert told | own | left_out == set(Attempt.__struct_fields__)
    assert not told & (own | left_out)
