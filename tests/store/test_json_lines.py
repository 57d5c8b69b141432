import os
import resource
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.errors import StoreFailed
from harness.records import SCHEMA_VERSION, Attempt, Score
from harness.store.json_lines import JsonLinesWriter, LinesLost, read_lines


def attempt(text: str | None = "an answer", **changes: Any) -> Attempt:
    fields: dict[str, Any] = {
        "v": SCHEMA_VERSION,
        "instance": "i",
        "sample": 0,
        "round": 1,
        "groups": {"structure": "word01"},
        "cluster": "c",
        "request": {"model": "m"},
        "outcome": "ok",
        "started_at": 0.0,
        "ended_at": 1.0,
        "text": text,
    }
    return Attempt(**fields | changes)


def texts(path: Path) -> list[str | None]:
    return [msgspec.json.decode(line, type=Attempt).text for _, line in read_lines(path)]


@contextmanager
def largest_file(size: int) -> Iterator[None]:
    """No file of this process grows beyond a size: to a writer, a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    bytecode = sys.dont_write_bytecode
    sys.dont_write_bytecode = True  # else Python writes truncated bytecode of what is imported
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        sys.dont_write_bytecode = bytecode


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "attempts.jsonl"


def test_a_file_that_is_not_there_has_no_lines(path: Path) -> None:
    assert list(read_lines(path)) == []


def test_lines_come_with_their_offsets(path: Path) -> None:
    path.write_bytes(b"one\n\ntwo\ntorn")
    assert list(read_lines(path)) == [(0, b"one\n"), (4, b"\n"), (5, b"two\n")]


@pytest.mark.parametrize(
    "text",
    [
        *("", "plain", "two\nlines\r\n", "nul\0", "\u2028\u2029\x85", '"\\', "😀 ä \ufeff\uffff"),
        "x" * 10_000_000,
        None,
    ],
    ids=lambda text: repr(text)[:20],
)
def test_any_text_is_one_line_and_comes_back(path: Path, text: str | None) -> None:
    with JsonLinesWriter(path) as writer:
        writer.append(attempt("before"))
        writer.append(attempt(text))
        writer.append(attempt("after"))
    assert texts(path) == ["before", text, "after"]
    assert path.read_bytes().count(b"\n") == 3


def test_half_a_character_is_written_as_the_replacement_character(path: Path) -> None:
    hostile = attempt(
        "a\ud800b \ud83d\ude00",
        instance="\udfff",
        scores={"s": Score(True, True, "\ud800", {"found": ["\ud800"], "rate": float("nan")})},
    )
    with JsonLinesWriter(path) as writer:
        writer.append(attempt("before"))
        writer.append(hostile)
        writer.append(attempt("after"))
    assert texts(path) == ["before", "a\ufffdb 😀", "after"]
    _, line = list(read_lines(path))[1]
    found = msgspec.json.decode(line, type=Attempt)
    assert found.instance == "\ufffd"
    assert found.scores["s"].reason == "\ufffd"
    assert found.scores["s"].details == {"found": ["\ufffd"], "rate": None}


def test_an_attempt_that_cannot_be_written_leaves_nothing_of_itself(path: Path) -> None:
    with JsonLinesWriter(path) as writer:
        writer.append(attempt("before"))
        with pytest.raises(TypeError):
            writer.append(attempt("x" * 100, request={"model": object()}))
        writer.append(attempt("after"))
    assert texts(path) == ["before", "after"]


steps = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.text(st.characters(exclude_categories=["Cs"]))),
        st.tuples(st.just("reopen"), st.just("")),
        st.tuples(st.just("crash"), st.floats(0, 1)),
        st.tuples(st.just("crash in the last line"), st.floats(0, 1)),
    ),
    max_size=30,
)


@settings(max_examples=50)
@given(steps)
def test_whatever_crashes_only_whole_lines_are_read_and_none_is_joined(
    steps: list[tuple[str, Any]],
) -> None:
    """A crash cuts the file at any byte: what stood whole before the cut stays, and later lines."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "attempts.jsonl"
        writer = JsonLinesWriter(path)
        expected: list[bytes] = []
        for step, value in steps:
            if step == "append":
                writer.append(attempt(value))
                expected.append(msgspec.json.encode(attempt(value)) + b"\n")
                continue
            writer.close()
            if step != "reopen":
                size = path.stat().st_size
                last = len(expected[-1]) if expected and "last" in step else size
                os.truncate(path, size - int(last * value))
                whole, end = [], 0
                for line in expected:
                    end += len(line)
                    if end <= path.stat().st_size:
                        whole.append(line)
                expected = whole
                assert [line for _, line in read_lines(path)] == expected, (
                    "readers leave the torn out"
                )
            writer = JsonLinesWriter(path)
            assert path.read_bytes() == b"".join(expected), "the next writer cuts it off"
        writer.close()
        assert [line for _, line in read_lines(path)] == expected


@pytest.mark.parametrize("before", [b"", b"whole\n", b"whole\n" * 20_000])
@pytest.mark.parametrize("torn", [1, 65_535, 65_536, 65_537, 200_000])
def test_a_torn_line_of_any_length_is_cut_off(path: Path, before: bytes, torn: int) -> None:
    path.write_bytes(before + b"x" * torn)
    JsonLinesWriter(path).close()
    assert path.read_bytes() == before


def test_a_full_disk_is_a_message_and_the_file_ends_with_the_last_whole_line(path: Path) -> None:
    with JsonLinesWriter(path) as writer:
        writer.append(attempt("first"))
        size = path.stat().st_size
        for room in (0, 1, 100, 999):  # how much of the next line still fits
            with largest_file(size + room):
                with pytest.raises(StoreFailed, match=r"Cannot write .*: File too large") as caught:
                    writer.append(attempt("x" * 1000))
                assert "every finished attempt is safe" in caught.value.remedy
            assert path.stat().st_size == size
        writer.append(attempt("when there is room again"))
    assert texts(path) == ["first", "when there is room again"]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="the system has no /dev/full")
def test_a_device_without_room_is_a_message() -> None:
    with (
        JsonLinesWriter(Path("/dev/full")) as writer,
        pytest.raises(StoreFailed, match="No space left on device"),
    ):
        writer.append(attempt())


def test_a_file_that_cannot_be_made_is_a_message(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for path in (tmp_path / "file" / "attempts.jsonl", tmp_path / "gone" / "attempts.jsonl"):
        with pytest.raises(StoreFailed, match=r"Cannot write .*attempts.jsonl"):
            JsonLinesWriter(path)
    with pytest.raises(StoreFailed, match="Is a directory"):
        JsonLinesWriter(tmp_path)


def replaced(path: Path) -> None:
    content = path.read_bytes()
    path.unlink()
    path.write_bytes(content)


def repeated(path: Path) -> None:
    with path.open("ab") as file:
        file.write(path.read_bytes())


@pytest.mark.parametrize(
    "damage", [Path.unlink, replaced, repeated, lambda path: os.truncate(path, 0)]
)
@pytest.mark.parametrize("appends", [0, 1])
def test_lines_that_another_program_removes_or_adds_are_reported(
    path: Path, damage: Callable[[Path], None], appends: int
) -> None:
    writer = JsonLinesWriter(path)
    writer.append(attempt())
    damage(path)
    for _ in range(appends):
        writer.append(attempt())
    with pytest.raises(LinesLost, match="changed or deleted"):
        writer.close()
    writer.close()


def test_closing_twice_does_nothing(path: Path) -> None:
    writer = JsonLinesWriter(path)
    writer.close()
    writer.close()


KILLED = """
import sys
from pathlib import Path
from harness.records import Attempt
from harness.store.json_lines import JsonLinesWriter
writer = JsonLinesWriter(Path(sys.argv[1]))
for number in range(10**9):
    writer.append(Attempt(1, "i", number, 1, {}, "c", {}, "ok", 0.0, 1.0, text="x" * 5000))
    print(number, flush=True)
"""


def test_what_was_appended_survives_the_kill_of_its_process(path: Path) -> None:
    said = -1
    for _ in range(2):
        with subprocess.Popen(
            [sys.executable, "-c", KILLED, str(path)], stdout=subprocess.PIPE, text=True
        ) as process:
            assert process.stdout is not None
            for line in process.stdout:
                said = int(line)
                if said == 200:
                    break
            process.send_signal(signal.SIGKILL)
            rest = process.stdout.read().split("\n")[:-1]
            said = int(rest[-1]) if rest else said
        samples = [msgspec.json.decode(line, type=Attempt).sample for _, line in read_lines(path)]
        assert samples[-1] in (said, said + 1)
        with JsonLinesWriter(path) as writer:
            writer.append(attempt("the next session's"))
        assert texts(path)[-1] == "the next session's"
        assert len(texts(path)) == len(samples) + 1
