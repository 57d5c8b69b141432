"""Finds files in the data folder or by path, and reads JSONL."""

from __future__ import annotations

import gzip
import hashlib
import os.path
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from harness.errors import DataInvalid, DataMissing

# Published without a licence, or on request only: docs/NAME.md names the source.
NOT_FETCHED = frozenset({"concodeeval", "infobench", "last_letter", "wildifeval"})


@dataclass(frozen=True, slots=True)
class DataFolder:
    """The data folder, with a folder for each data set, as in ``collie/instances.jsonl``."""

    root: Path

    def file(self, name: str) -> Path:
        """Return a file's path, in the data folder or else as given; ``X.jsonl`` may be ``.gz``."""
        names = [name, f"{name}.gz"] if name.endswith(".jsonl") else [name]
        return self._found(names, os.path.isfile, "file")

    def place(self, name: str) -> Path:
        """Return the path of a file or folder, found as by `file`, but never compressed."""
        return self._found([name], is_there, "file or folder")

    def _found(self, names: list[str], suits: Callable[[Path], bool], what: str) -> Path:
        for name in names:
            for path in (self.root / name, own_path(name)):
                if suits(path):
                    return path
        own, remedy = own_path(names[0]), "Check the path."
        if len(own.parts) > 1 and not own.is_absolute():
            remedy = f"Run 'harness data fetch {own.parts[0]}', or set HARNESS_DATA_DIR."
        if own.parts[:1] and own.parts[0] in NOT_FETCHED:
            remedy = f"The harness cannot fetch it: docs/{own.parts[0]}.md says where to get it."
        problem = f"There is no {what} {names[0]!r} in the data folder {self.root} or at that path."
        raise DataMissing(problem, remedy)


def own_path(name: str) -> Path:
    """Return a path with ``~`` expanded, if the home folder is known."""
    return Path(os.path.expanduser(name))  # noqa: PTH111 (which fails for an unknown user)


def is_there(path: Path) -> bool:
    """Return whether a file or folder exists, or False for an invalid name."""
    return os.path.exists(path)  # noqa: PTH110 (which fails for a name that is too long)


LONGEST_LINE = 1 << 26  # maximum bytes in a line: a small compressed file can expand to any size


def read_jsonl(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the objects in a JSONL file, in order. ``*.gz`` files are decompressed."""
    decoder = msgspec.json.Decoder(dict[str, Any])
    for number, line in numbered_lines(path):
        try:
            found = decoder.decode(line)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise DataInvalid(f"{path}, line {number}: not a JSON object ({error}).") from None
        yield found


def numbered_lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """Yield (number from 1, bytes) for each non-blank line. ``*.gz`` files are decompressed."""
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
        raise DataInvalid(f"{path}, after line {number}: not complete gzip ({error}).") from None
    except OSError as error:
        raise cannot_read(path, error) from None


def cannot_read(path: Path, error: OSError) -> DataMissing:
    """Return the DataMissing to raise for a file that cannot be read because of this OSError."""
    problem = f"Cannot read {path}: {error.strerror}."
    return DataMissing(problem, "Check the path and its permissions.")


def sha256(path: Path) -> str:
    """Return the SHA-256 of a file's content, as hexadecimal digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
