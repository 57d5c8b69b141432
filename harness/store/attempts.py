"""`attempts.jsonl`: appending whole lines, reading complete ones.

A line is written by one system call at the end of the file. What a crash or a
full disk leaves of a last line is torn: readers leave it out and the next
writer cuts it off, so that its attempt is owed again.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator
from pathlib import Path

import msgspec

from harness.errors import StoreFailed
from harness.records import Attempt


class AttemptKey(msgspec.Struct, frozen=True):
    """What names an attempt."""

    instance: str
    sample: int
    round: int


def lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """The complete lines of a file with their byte offsets; nothing where there is no file.

    A torn last line is left out. Later lines supersede earlier ones of the
    same key: that is for the reader to resolve.
    """
    if not path.exists():
        return
    offset = 0
    with path.open("rb") as file:
        for line in file:
            if not line.endswith(b"\n"):
                return
            yield offset, line
            offset += len(line)


class AttemptWriter:
    """Appends attempts to a run's file; one writer per run (the run's lock sees to it).

    Raises: StoreFailed when a line cannot be written whole; the file then ends
        with the last line that was.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._encoder = msgspec.json.Encoder()
        self._buffer = bytearray()
        try:
            self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
            self._cut_torn_line()
        except OSError as error:
            raise _failed(path, error) from None

    def _cut_torn_line(self) -> None:
        end = os.fstat(self._file).st_size
        block = 1 << 16
        position = end
        while position > 0:
            start = max(0, position - block)
            newline = os.pread(self._file, position - start, start).rfind(b"\n")
            if newline >= 0:
                position = start + newline + 1
                break
            position = start
        if position != end:
            os.ftruncate(self._file, position)

    def append(self, attempt: Attempt) -> None:
        """Write one line; on return it survives the death of this process.

        Half a character (a lone surrogate, which UTF-8 cannot hold) is written
        as the replacement character.
        """
        try:
            self._encoder.encode_into(attempt, self._buffer)
        except UnicodeEncodeError:
            self._buffer[:] = _with_whole_characters(attempt)
        self._buffer += b"\n"
        start = os.fstat(self._file).st_size
        try:
            written = os.write(self._file, self._buffer)
            while written < len(self._buffer):
                # A short write means a full disk: the next one says so.
                written += os.write(self._file, self._buffer[written:])
        except OSError as error:
            with contextlib.suppress(OSError):  # else the next writer cuts it off
                os.ftruncate(self._file, start)
            raise _failed(self.path, error) from None
        finally:
            self._buffer.clear()

    def close(self) -> None:
        """Close the file; a second close does nothing."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def __enter__(self) -> AttemptWriter:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def _with_whole_characters(attempt: Attempt) -> bytes:
    text = json.dumps(msgspec.to_builtins(attempt), ensure_ascii=False)
    text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return msgspec.json.encode(json.loads(text))


def _failed(path: Path, error: OSError) -> StoreFailed:
    return StoreFailed(
        f"Cannot write {path}: {error.strerror}.",
        "Make room or mend the permissions, then run again: every finished attempt is safe.",
    )
