"""Finds files in the data folder or by path, and reads JSONL and Parquet."""

import contextlib
import filecmp
import glob
import gzip
import hashlib
import json
import os.path
import re
import zlib
from codecs import BOM_UTF8, BOM_UTF16_BE, BOM_UTF16_LE
from collections import Counter
from collections.abc import Callable, Iterator, Sequence, Sized
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path, PurePath
from shlex import quote
from typing import Any, TypeVar

import msgspec

from harness.datasets.catalogue import catalogue, data_set
from harness.declarations import DISTRIBUTION, declarations
from harness.errors import (
    ConfigError,
    DataInvalid,
    DataMissing,
    import_extra,
    reraise_as,
    unreadable_file_error,
)
from harness.records import replace_surrogates

T = TypeVar("T", bound=Sized)


@dataclass(frozen=True, slots=True)
class DataFolder:
    """The data folder, with a folder per data set. ``beside`` is the run file's folder, if any."""

    root: Path
    beside: Path | None = None

    def file(self, name: str) -> Path:
        """Return the path of a file in the data folder, next to the run file, or else at ``name``.

        A file of lines, such as ``.jsonl``, may also be compressed (``.jsonl.gz``).

        Raises:
            ConfigError: If the file is next to the run file, and a different file is in another
                place.
            DataMissing: If there is no such file.
        """
        return self._found(_names(name), os.path.isfile, "file")

    def place(self, name: str) -> Path:
        """Return the path of a file or folder, searching the same places as `file`.

        Raises:
            ConfigError: If a file is next to the run file, and a different file is in another
                place.
            DataMissing: If there is no such file or folder.
        """
        return self._found(_names(name), is_there, "file or folder")

    def own(self, name: str) -> str:
        """Return the path of a file or folder next to the run file, or ``name`` if there is none.

        Raises:
            ConfigError: If there is also a different file or folder at ``name``.
        """
        places = list(filter(is_there, self._own(name))) if name else []
        _refuse_others(name, places)
        if not places or (is_there(own_path(name)) and places[0].samefile(own_path(name))):
            return name
        return str(places[0])  # an equal file elsewhere may have other files beside it

    def _own(self, name: str) -> list[Path]:
        beside_run_file = [] if self.beside is None else [self.beside / own_path(name)]
        return [*beside_run_file, own_path(name)]

    def _found(self, names: list[str], suits: Callable[[Path], bool], what: str) -> Path:
        for name in names:
            if paths := list(filter(suits, [self.root / name, *self._own(name)])):
                if self.beside is not None and self.beside / own_path(name) in paths:
                    _refuse_others(name, list(filter(os.path.isfile, paths)))
                return paths[0]
        remedy = _remedy(own_path(names[0]), self._own(names[0]))
        run_file_folder = "" if self.beside is None else f"next to the run file in {self.beside}, "
        places = f"{run_file_folder}in the data folder {self.root} or in {Path.cwd()}"
        problem = f"There is no {what} {names[0]!r} {places}."
        raise DataMissing(problem, remedy)


def _remedy(missing: Path, tried: Sequence[Path]) -> str:
    """Return how to get the missing file ``missing``, or a file's name that is close to it."""
    name = missing.parts[0] if missing.parts else ""
    if dataset := catalogue().get(name):
        if any(PurePath(product.path).is_relative_to(missing) for product in dataset.products):
            return f"Run 'harness data fetch {name}', or set HARNESS_DATA_DIR."
        return f"'harness data fetch {name}' does not install it: see 'harness docs {name}'."
    ours = (
        declaration.name for declaration in declarations() if declaration.package == DISTRIBUTION
    )
    if name in ours:  # published without a licence, or on request only
        return f"The harness cannot fetch it: 'harness docs {name}' says where to get it."
    for path in tried:
        with contextlib.suppress(OSError, ValueError):
            neighbours = [neighbour.name for neighbour in path.parent.iterdir()]
            if close := get_close_matches(missing.name, neighbours, n=1, cutoff=0.75):
                return f"Did you mean {str(missing.with_name(close[0]))!r}?"
    return "Check the path."


LINES = (".jsonl", ".ndjson", ".csv", ".tsv")  # suffixes of files that may be compressed


def _names(name: str) -> list[str]:
    return [name, f"{name}.gz"] if name.endswith(LINES) else [name]


def installed(root: Path, name: str) -> Path | None:
    """Return the path of a file in the folder ``root``, perhaps compressed, or None."""
    paths = (root / name for name in _names(name))
    return next((path for path in paths if path.is_file()), None)


def prompt_files(name: str, root: Path) -> dict[str, Path]:
    """Return the files of a data set that consists of prompts, by the prompts' names."""
    paths = {}
    for product in data_set(name).products:
        path = installed(root, product.path)
        if path is None:
            file = root / product.path
            problem = f"The authors' prompts are not installed: there is no file {file}."
            raise DataMissing(problem, f"Run 'harness data fetch {name}'.")
        paths[Path(product.path).stem] = path
    return paths


def _refuse_others(name: str, places: Sequence[Path]) -> None:
    """Raise ConfigError unless all places are one file or folder, or equal files."""
    for place in places[1:]:
        first = places[0]
        both = first.is_file() and place.is_file()
        if not (first.samefile(place) or (both and filecmp.cmp(first, place, shallow=False))):
            problem = f"There are two different files {name!r}: {first} and {place}."
            raise ConfigError(problem, "Write the full path of the file that you mean.")


def own_path(name: str) -> Path:
    """Return a path with ``~`` expanded, or unchanged if the home folder is unknown."""
    return Path(os.path.expanduser(name))  # noqa: PTH111 (Path's fails for an unknown user)


def is_there(path: Path) -> bool:
    """Return whether a file or folder exists (False for an invalid name)."""
    return os.path.exists(path)  # noqa: PTH110 (Path's fails for a name that is too long)


LONGEST_LINE = 1 << 26  # maximum bytes in a line: a small compressed file can expand to any size
DUCKDB = {"autoinstall_known_extensions": "false", "threads": 1, "memory_limit": "500MB"}


def read_jsonl(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the objects in a JSONL file, in order. A file named ``*.gz`` is decompressed.

    Raises:
        DataInvalid: If a line is not a JSON object or is too long, or the compression is damaged.
        DataMissing: If the file cannot be read.
    """
    for number, line in numbered_lines(path):
        try:
            with reraise_as(DataInvalid, f"{path}, line {number}: "):
                row = decode_json(line, dict[str, Any])
        except UnicodeDecodeError:
            raise not_utf8(path, line, number) from None
        except (msgspec.MsgspecError, RecursionError) as error:
            if line.startswith(UTF_16):
                raise not_utf8(path, line, number) from None
            remedy = "Write a list into a .json file." if line.lstrip().startswith(b"[") else ""
            problem = f"{path}, line {number}: not a JSON object ({error})."
            raise DataInvalid(problem, remedy) from None
        yield row


def decode_json(content: bytes, kind: type[T]) -> T:
    """Decode JSON to ``kind``, a type of mappings, lists or both.

    Raises:
        DataInvalid: If an object has a key twice: which of the values counts is not defined.
        msgspec.MsgspecError: If it is not JSON, or of another type.
        RecursionError: If it is nested too deeply.
        UnicodeDecodeError: If it is not UTF-8.
    """
    value = msgspec.json.decode(content, type=kind)
    colons = content.count(b":")
    if colons > len(value) and _TEXT.sub(b"", content).count(b":") > _keys(value):
        json.loads(content, object_pairs_hook=_refuse_repeated, parse_int=len, parse_float=len)
    return value


_TEXT = re.compile(rb'"(?:[^"\\]++|\\.)*+"')  # a string of JSON


def _keys(value: object) -> int:
    """Return the number of keys in all mappings of a value."""
    if isinstance(value, dict):
        return len(value) + sum(map(_keys, value.values()))
    return sum(map(_keys, value)) if isinstance(value, list) else 0


def _refuse_repeated(pairs: list[tuple[str, Any]]) -> None:
    counts = Counter(key for key, _ in pairs)
    if len(counts) < len(pairs):
        repeated = next(key for key, count in counts.items() if count > 1)
        problem = f"the key {replace_surrogates(repeated)!r:.60} occurs twice."
        raise DataInvalid(problem, "Remove one of them.")


def numbered_lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """Yield the number (from 1) and the bytes of each non-blank line of a file.

    A file named ``*.gz`` is decompressed.

    Raises:
        DataInvalid: If a line is too long, or the compression is damaged.
        DataMissing: If the file cannot be read.
    """
    number = 0
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
            lines = iter(lambda: file.readline(LONGEST_LINE + 1), b"")
            for number, line in enumerate(lines, start=1):
                if len(line) > LONGEST_LINE:
                    raise DataInvalid(f"{path}, line {number}: more than {LONGEST_LINE:,} bytes.")
                if number == 1:
                    line = line.removeprefix(BOM_UTF8)
                if line.strip():
                    yield number, line
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise DataInvalid(f"{path}, after line {number}: not complete gzip ({error}).") from None
    except OSError as error:
        raise unreadable_file_error(path, error) from None


def parquet_rows(path: Path, query: str, **values: Any) -> Iterator[dict[str, Any]]:
    """Yield the rows that an SQL query selects from a Parquet file, as dicts by column.

    The query is in DuckDB's dialect. It refers to the file as ``$file``, and to other ``values`` by
    their names.

    Raises:
        DataInvalid: If the file is not Parquet, or has no such columns.
        ExtraMissing: If DuckDB is not installed.
    """
    duckdb = import_extra("duckdb", "parquet")
    pattern = glob.escape(str(path.absolute()))  # DuckDB takes a file name for a pattern
    try:
        with duckdb.connect(":memory:", config=DUCKDB) as connection:
            result_set = connection.execute(query, {"file": pattern, **values})
            columns = [column[0] for column in result_set.description]
            while some := result_set.fetchmany(1_000):
                yield from (dict(zip(columns, row, strict=True)) for row in some)
    except duckdb.Error as error:
        why = " ".join(str(error).split())[:160]
        raise DataInvalid(f"{path}: not readable as Parquet ({why}).") from None


UTF_16 = (BOM_UTF16_LE, BOM_UTF16_BE)


def not_utf8(path: Path, content: bytes, line: int = 1) -> DataInvalid:
    """Return the error for a file whose content, from line ``line`` on, is not UTF-8."""
    encoding = "WINDOWS-1252"
    problem = f"{path} is not UTF-8 text."
    if content.startswith(UTF_16):
        encoding = "UTF-16"
        problem = f"{path} is UTF-16 text, not UTF-8."
    else:
        try:
            content.decode()
        except UnicodeDecodeError as error:
            line += content.count(b"\n", 0, error.start)
            byte = f"byte 0x{content[error.start]:02x}"
            problem = f"{path}, line {line}: not UTF-8 text ({byte}); perhaps Latin-1."
    command = f"iconv -f {encoding} -t UTF-8 {quote(str(path))} > utf8{path.suffix}"
    return DataInvalid(problem, f"Save the file as UTF-8, or convert it: {command}")


def content_sha256(path: Path) -> str:
    """Return the SHA-256 of a file's content, decompressed if its name ends in ``.gz``.

    Raises:
        DataInvalid: If the compression is damaged.
        OSError: If the file cannot be read.
    """
    if path.suffix != ".gz":
        return sha256(path)
    try:
        with gzip.open(path) as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise DataInvalid(f"{path}: not complete gzip ({error}).") from None


def sha256(path: Path) -> str:
    """Return the SHA-256 of a file's content, as hexadecimal digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
