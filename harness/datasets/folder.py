"""The data folder: where data sets, recordings and tokeniser parameters are found.

>>> DataFolder(Path("/data")).file("collie/instances.jsonl")  # doctest: +SKIP
PosixPath('/data/collie/instances.jsonl')
"""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from harness.errors import DataInvalid, DataMissing


@dataclass(frozen=True, slots=True)
class DataFolder:
    """A folder laid out by data set: ``collie/instances.jsonl``, ``collie/generations/…``."""

    root: Path

    def file(self, name: str) -> Path:
        """The file that a run file names: below the data folder, else as a path of its own.

        A JSONL file may be there packed, with ``.gz`` after its name.

        Raises: DataMissing, naming the command that brings it.
        """
        try:
            return self._found(name, _is_file, "file")
        except DataMissing:
            if not name.endswith(".jsonl"):
                raise
            with contextlib.suppress(DataMissing):
                return self._found(f"{name}.gz", _is_file, "file")
            raise

    def place(self, name: str) -> Path:
        """The file or folder that a run file names, for data sets of several files.

        Raises: DataMissing, as for a file.
        """
        return self._found(name, is_there, "file or folder")

    def _found(self, name: str, suits: Callable[[Path], bool], what: str) -> Path:
        own = own_path(name)
        for path in (self.root / name, own):
            if suits(path):
                return path
        dataset = own.parts[0] if len(own.parts) > 1 and not own.is_absolute() else ""
        fetch = f"Run 'harness data fetch {dataset}', or set HARNESS_DATA_DIR to where it is."
        raise DataMissing(
            f"{name!r} is neither in the data folder {self.root} nor a {what} of its own.",
            fetch if dataset else "Check the path.",
        )


def own_path(name: str) -> Path:
    """A path of the user's, with ``~`` as home."""
    try:
        return Path(name).expanduser()
    except RuntimeError:  # there is no such user: then it is a file's name
        return Path(name)


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:  # too long for a name, or in a folder that may not be entered
        return False


def is_there(path: Path) -> bool:
    """Whether there is such a file or folder."""
    try:
        return path.is_file() or path.is_dir()
    except OSError:
        return False


LONGEST_LINE = 1 << 26
"""Bytes of a line of JSONL: a few bytes of a packed file can stand for as many as one likes."""


def read_jsonl(path: Path) -> Iterator[dict[str, Any]]:
    """The objects of a JSONL file, one at a time; of one packed by gzip, too (``*.gz``).

    Raises: DataInvalid with file and line; DataMissing where it cannot be read.
    """
    decoder = msgspec.json.Decoder(dict[str, Any])
    for number, line in numbered_lines(path):
        try:
            found = decoder.decode(line)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise DataInvalid(f"{path}, line {number}: not a JSON object ({error}).") from None
        yield found


def numbered_lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """The lines of a file that are not blank, each with its number from 1; packed by gzip, too.

    Raises: DataInvalid where a line is too long or the gzip is torn; DataMissing where it cannot
        be read.
    """
    number = 0
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
            for number, line in enumerate(iter(lambda: file.readline(LONGEST_LINE), b""), start=1):
                if not line.strip():
                    continue
                if len(line) == LONGEST_LINE:
                    raise DataInvalid(f"{path}, line {number}: more than {LONGEST_LINE:,} bytes.")
                yield number, line
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise DataInvalid(f"{path}, after line {number}: not whole gzip ({error}).") from None
    except OSError as error:
        raise DataMissing(
            f"Cannot read {path}: {error.strerror}.", "Check the path and its permissions."
        ) from None


def sha256(path: Path) -> str:
    """Hex digest of a file's bytes."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
