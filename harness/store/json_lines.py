"""JSON lines: appending whole lines, and reading the complete ones.

A line is written by one system call at the end of the file. A crash or a full disk may leave a
torn last line: readers ignore it, the next writer cuts it off, and its work is repeated.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Literal, NamedTuple, Protocol, TypeVar

import msgspec

from harness.errors import DataInvalid, StoreFailed
from harness.records import SCHEMA_VERSION, encodable
from harness.store.files import sync_folder

UNREADABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
"""What decoding a damaged line raises."""


class Versioned(Protocol):
    """The shape of a line: a struct with some of its fields and its schema version."""

    @property
    def v(self) -> int: ...  # noqa: D102


class _Version(msgspec.Struct):
    v: int


L = TypeVar("L", bound=Versioned)
S = TypeVar("S")


class LineKind(NamedTuple):
    """What messages call a file's lines, such as "an attempt", and the remedy for a damaged one."""

    name: str
    remedy: str

    def invalid(self, path: Path, number: int, error: Exception) -> DataInvalid:
        """Return the error for a damaged line, given its number from 1."""
        # The decoder's message may quote the line, which may be long.
        said = f"{path}, line {number}: not {self.name} ({str(error)[:160]})."
        return DataInvalid(said, self.remedy)


def lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """Yield each complete line with its byte offset; nothing if the file does not exist."""
    if not path.exists():
        return
    offset = 0
    with reading(path), path.open("rb") as file:
        for line in file:
            if not line.endswith(b"\n"):
                return
            yield offset, line
            offset += len(line)


def decoded(path: Path, shape: type[L], kind: LineKind) -> Iterator[tuple[int, int, L]]:
    """Decode every complete line of a file, which need not exist, into a shape with some fields.

    Yields its number from 1, its byte offset, and its content; `DataInvalid` for a line that is
    damaged or has a different schema version.
    """
    decode = msgspec.json.Decoder(shape).decode
    with reading(path):
        for number, (offset, text) in enumerate(lines(path), start=1):
            try:
                line = decode(text)
            except UNREADABLE as error:
                # Another version may well differ in shape: name the version, not the difference.
                with contextlib.suppress(*UNREADABLE):
                    _check_version(path, number, msgspec.json.decode(text, type=_Version).v)
                raise kind.invalid(path, number, error) from None
            _check_version(path, number, line.v)
            yield number, offset, line


def decoded_at(
    path: Path, offsets: Iterable[int], decode: Callable[[bytes], S], kind: LineKind
) -> Iterator[S]:
    """Decode the lines that begin at some byte offsets, in the order of the offsets."""
    with reading(path), path.open("rb") as file:  # mapped, all that was read counts as memory
        for offset in offsets:
            file.seek(offset)
            try:
                line = decode(file.readline())
            except UNREADABLE as error:
                number = 1 + sum(start < offset for start, _ in lines(path))
                raise kind.invalid(path, number, error) from None
            yield line


@contextlib.contextmanager
def reading(path: Path) -> Iterator[None]:
    """Raise StoreFailed if the block cannot read a file of a run."""
    try:
        yield
    except OSError as error:
        said = f"Cannot read {path}: {error.strerror}."
        raise StoreFailed(said, "Fix its permissions, then try again.") from None


def _check_version(path: Path, number: int, version: int) -> None:
    if version != SCHEMA_VERSION:
        raise DataInvalid(
            f"{path}, line {number}: schema version {version}, but this harness reads and writes "
            f"version {SCHEMA_VERSION}.",
            "Use the version of the harness that wrote the run, or start a new run with --fresh.",
        )


def encode(record: object, *, order: Literal["deterministic"] | None = None) -> bytes:
    """Encode a record as JSON; lone surrogates, which UTF-8 cannot hold, are replaced."""
    try:
        return msgspec.json.encode(record, order=order)
    except UnicodeEncodeError:
        text = json.dumps(msgspec.to_builtins(record), ensure_ascii=False)
        return msgspec.json.encode(json.loads(encodable(text)), order=order)


class JsonLinesWriter:
    """Appends records to a file, one per line. A file has one writer (the run's lock ensures it).

    Opening it cuts off a torn last line. `StoreFailed` if a line cannot be written whole; the file
    then ends with the last complete line.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
            self._cut_torn_line()
        except OSError as error:
            raise self._failed(error) from None
        sync_folder(path.parent)

    def _cut_torn_line(self) -> None:
        position = end = os.fstat(self._file).st_size
        newline = -1
        while position > 0 and newline < 0:
            start = max(0, position - (1 << 16))
            newline = os.pread(self._file, position - start, start).rfind(b"\n")
            position = start + newline + 1 if newline >= 0 else start
        if position != end:
            os.ftruncate(self._file, position)

    def append(self, record: msgspec.Struct) -> None:
        """Write one line; once this returns, the line survives the death of the process.

        After a power cut it may be missing: its reply, which is in the cache, is then scored again.
        """
        line = encode(record) + b"\n"
        start = os.fstat(self._file).st_size
        try:
            written = os.write(self._file, line)
            while written < len(line):  # a full disk writes a part; the next call says why
                written += os.write(self._file, line[written:])
        except OSError as error:
            with contextlib.suppress(OSError):  # otherwise the next writer cuts it off
                os.ftruncate(self._file, start)
            raise self._failed(error) from None

    def _failed(self, error: OSError) -> StoreFailed:
        remedy = "Free some space or fix the permissions, then run again: "
        remedy += "every finished attempt is safe."
        return StoreFailed(f"Cannot write {self.path}: {error.strerror}.", remedy)

    def close(self) -> None:
        """Close the file, whose lines then survive a power cut; closing it twice is harmless."""
        if self._file >= 0:
            with contextlib.suppress(OSError):
                os.fsync(self._file)
            os.close(self._file)
            self._file = -1

    def __enter__(self) -> JsonLinesWriter:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()
