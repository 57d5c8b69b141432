"""Files of JSON lines: appending whole lines, and reading complete lines.

A line is written by one system call if possible. A crash or a full disk may leave an incomplete
last line. Readers ignore it, and the next writer removes it. `StoreFailed` is raised if a file
cannot be read.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Literal, NamedTuple, Protocol, TypeVar

import msgspec

from harness.errors import DataInvalid, StoreFailed, option
from harness.records import CRASH_VERSION, SCHEMA_VERSION, replace_surrogates
from harness.store.files import (
    NO_LINK_FLAGS,
    NOT_REGULAR,
    open_regular_file,
    read_file,
    sync_folder,
)

DECODE_ERRORS = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)  # from damaged lines


class LinesLost(StoreFailed):
    """Another program changed or deleted a file while lines were appended to it."""


class Versioned(Protocol):
    """A decoded line that has at least the field ``v``, its schema version."""

    @property
    def v(self) -> int: ...  # noqa: D102


class _Version(msgspec.Struct):
    v: int


L = TypeVar("L", bound=Versioned)
S = TypeVar("S")


class LineKind(NamedTuple):
    """A kind of line, for error messages: its name, and how to fix a damaged one."""

    name: str
    remedy: str

    def line_error(self, path: Path, number: int, error: Exception) -> DataInvalid:
        """Return the error for the damaged line ``number`` (from 1) of a file."""
        # The decoder's message may quote the line, which may be long.
        problem = f"{path}, line {number}: not {self.name} ({str(error)[:160]})."
        return DataInvalid(problem, self.remedy)


def read_lines(path: Path, offset: int = 0) -> Iterator[tuple[int, bytes]]:
    """Yield the byte offset and the content of each complete line from ``offset`` on.

    The file need not exist.
    """
    if not path.exists():
        return
    with convert_read_errors(path), open_regular_file(path) as file:
        file.seek(offset)
        for line in file:
            if not line.endswith(b"\n"):
                return
            yield offset, line
            offset += len(line)


def decode_lines(
    path: Path,
    shape: type[L],
    kind: LineKind,
    start: int = 0,
    n_skipped: int = 0,
    check: Callable[[bytes, Path, int], None] | None = None,
) -> Iterator[tuple[int, int, L]]:
    """Decode the complete lines of a file, which need not exist.

    Args:
        path: The file.
        shape: The type of the lines.
        kind: What the lines are, for error messages.
        start: Byte offset of the first line to decode.
        n_skipped: Number of lines before ``start``.
        check: Called with each line, the path and the line's number. It may raise an error.

    Yields:
        Each line's number (from 1), byte offset and decoded content.

    Raises:
        DataInvalid: If a line is damaged, or has an unknown schema version.
    """
    decode = msgspec.json.Decoder(shape).decode
    with convert_read_errors(path):
        for number, (offset, text) in enumerate(read_lines(path, start), n_skipped + 1):
            try:
                line = decode(text)
            except DECODE_ERRORS as error:
                # Another version may have other fields: report the version, not the difference.
                with contextlib.suppress(*DECODE_ERRORS):
                    _check_version(path, number, msgspec.json.decode(text, type=_Version).v)
                raise kind.line_error(path, number, error) from None
            _check_version(path, number, line.v)
            if check is not None:
                check(text, path, number)
            yield number, offset, line


def decode_lines_at(
    path: Path, offsets: Iterable[int], decode: Callable[[bytes], S], kind: LineKind
) -> Iterator[S]:
    """Yield the decoded lines that begin at byte offsets, in the order of ``offsets``.

    Raises:
        DataInvalid: If a line is damaged. ``kind`` describes it in the message.
    """
    with (
        convert_read_errors(path),
        open_regular_file(path) as file,
    ):  # not mapped: its pages would count as memory
        for offset in offsets:
            file.seek(offset)
            try:
                line = decode(file.readline())
            except DECODE_ERRORS as error:
                number = 1 + sum(start < offset for start, _ in read_lines(path))
                raise kind.line_error(path, number, error) from None
            yield line


@contextlib.contextmanager
def convert_read_errors(path: Path) -> Iterator[None]:
    """In a ``with`` block, convert OSError from reading a file to StoreFailed."""
    try:
        yield
    except OSError as error:
        problem = f"Cannot read {path}: {error.strerror}."
        remedy = "Fix its permissions"
        if error.errno == errno.ELOOP:
            problem = f"{path} is a link, which is not followed: the folder may not be yours."
            remedy = "If you trust it, put the file itself in its place"
        elif error.strerror == NOT_REGULAR:
            problem = f"{path} is not a regular file."
            remedy = "Remove it"
        raise StoreFailed(problem, f"{remedy}, then try again.") from None


def read_json(path: Path, shape: type[S], remedy: str) -> S:
    """Decode a JSON file of a run as a ``shape``. A missing file counts as ``{}``.

    Raises:
        StoreFailed: If the file is damaged, with ``remedy``, or cannot be read.
    """
    try:
        with convert_read_errors(path):
            return msgspec.json.decode(read_file(path) if path.exists() else b"{}", type=shape)
    except DECODE_ERRORS as error:
        raise StoreFailed(f"{path} is damaged: {error}.", remedy) from None


def _check_version(path: Path, number: int, version: int) -> None:
    if version not in (SCHEMA_VERSION, CRASH_VERSION):
        raise DataInvalid(
            f"{path}, line {number}: schema version {version}, but this harness reads and writes "
            f"versions {SCHEMA_VERSION} and {CRASH_VERSION}.",
            "Use the version of the harness that wrote the run, or start a new run: "
            f"{option('fresh')}.",
        )


def encode(record: object, *, order: Literal["deterministic"] | None = None) -> bytes:
    """Encode a record as JSON. Lone surrogates, which UTF-8 cannot represent, are replaced.

    ``order`` is as in `msgspec.json.encode`.
    """
    try:
        return msgspec.json.encode(record, order=order)
    except UnicodeEncodeError:
        text = json.dumps(msgspec.to_builtins(record), ensure_ascii=False)
        return msgspec.json.encode(json.loads(replace_surrogates(text)), order=order)


class JsonLinesWriter:
    """A writer that appends records to a file, one per line. The run's lock excludes other writers.

    Opening the file removes an incomplete last line. If a line cannot be written, its written part
    is removed if possible.

    Args:
        path: The file, which is created if it is missing.
        seal: Adds the seal to a line.

    Raises:
        StoreFailed: If the file cannot be opened or, in `append`, a line cannot be written.
    """

    def __init__(self, path: Path, seal: Callable[[bytes], bytes] = bytes) -> None:
        self.path = path
        self._seal = seal
        self._was_changed = False  # by another program
        try:
            self._descriptor = os.open(
                path, os.O_RDWR | os.O_CREAT | os.O_APPEND | NO_LINK_FLAGS, 0o644
            )
            self._remove_incomplete_line()
            self._expected_size = os.fstat(self._descriptor).st_size
        except OSError as error:
            raise self._write_error(error) from None
        sync_folder(path.parent)

    def _remove_incomplete_line(self) -> None:
        end = os.fstat(self._descriptor).st_size
        position = end
        newline = -1
        while position > 0 and newline < 0:
            start = max(0, position - (1 << 16))
            newline = os.pread(self._descriptor, position - start, start).rfind(b"\n")
            position = start + newline + 1 if newline >= 0 else start
        if position != end:
            os.ftruncate(self._descriptor, position)

    def append(self, record: msgspec.Struct) -> None:
        """Write a record as a line, which survives a crash of the process, but no power cut."""
        line = self._seal(encode(record) + b"\n")
        start = os.fstat(self._descriptor).st_size
        self._was_changed |= start != self._expected_size
        try:
            written = os.write(self._descriptor, line)
            while written < len(line):  # a full disk accepts a part; the next call raises
                written += os.write(self._descriptor, line[written:])
        except OSError as error:
            with contextlib.suppress(OSError):  # if this fails, the next writer removes the part
                os.ftruncate(self._descriptor, start)
            raise self._write_error(error) from None
        self._expected_size = start + len(line)

    def _write_error(self, error: OSError) -> StoreFailed:
        remedy = "Free some space or fix the permissions, then run again: "
        remedy += "every finished attempt is safe."
        return StoreFailed(f"Cannot write {self.path}: {error.strerror}.", remedy)

    def close(self) -> None:
        """Close the file after its lines are safe from a power cut. May be called repeatedly.

        Raises:
            LinesLost: If another program has changed or deleted the file.
        """
        if self._descriptor < 0:
            return
        with contextlib.suppress(OSError):
            os.fsync(self._descriptor)
        written = os.fstat(self._descriptor)
        os.close(self._descriptor)
        self._descriptor = -1
        with convert_read_errors(self.path):
            is_same = self.path.exists() and os.path.samestat(written, self.path.stat())
        if not is_same or self._was_changed or written.st_size != self._expected_size:
            problem = f"Another program changed or deleted {self.path} during the session."
            raise LinesLost(problem, "Run again: the paid replies are in the cache.")

    def __enter__(self) -> JsonLinesWriter:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()
