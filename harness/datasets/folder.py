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

from harness.datasets.catalogue import catalogue, find_data_set
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
    """The data folder, which has a folder per data set, and the other folders of data files."""

    root: Path
    run_file_folder: Path | None = None

    def file(self, name: str) -> Path:
        """Find a file in the data folder, next to the run file, or else at ``name``.

        A file of lines, such as ``.jsonl``, may also be compressed (``.jsonl.gz``).

        Raises:
            ConfigError: If the file is next to the run file, and a different file is in another of
                these folders.
            DataMissing: If there is no such file.
        """
        return self._find(_file_names(name), os.path.isfile, "file")

    def file_or_folder(self, name: str) -> Path:
        """Find a file or a folder in the same folders as `file`.

        Raises:
            ConfigError: If a file is next to the run file, and a different file is in another of
                these folders.
            DataMissing: If there is no such file or folder.
        """
        return self._find(_file_names(name), path_exists, "file or folder")

    def next_to_run_file(self, name: str) -> str:
        """Return the path of a file or folder next to the run file, or ``name`` if there is none.

        Raises:
            ConfigError: If there is also a different file or folder at ``name``.
        """
        paths = list(filter(path_exists, self._local_paths(name))) if name else []
        _check_same(name, paths)
        local_path = expand_user(name)
        if not paths or (path_exists(local_path) and paths[0].samefile(local_path)):
            return name
        return str(paths[0])  # an equal file elsewhere may depend on other files in its folder

    def _local_paths(self, name: str) -> list[Path]:
        path = expand_user(name)
        return [path] if self.run_file_folder is None else [self.run_file_folder / path, path]

    def _find(self, names: list[str], accept: Callable[[Path], bool], kind: str) -> Path:
        """Return the first path of one of ``names`` that ``accept`` accepts."""
        for name in names:
            paths = list(filter(accept, [self.root / name, *self._local_paths(name)]))
            if not paths:
                continue
            folder = self.run_file_folder
            if folder is not None and folder / expand_user(name) in paths:
                _check_same(name, list(filter(os.path.isfile, paths)))
            return paths[0]
        remedy = _missing_file_remedy(expand_user(names[0]), self._local_paths(names[0]))
        folders = f"in the data folder {self.root} or in {Path.cwd()}"
        if self.run_file_folder is not None:
            folders = f"next to the run file in {self.run_file_folder}, {folders}"
        raise DataMissing(f"There is no {kind} {names[0]!r} {folders}.", remedy)


def _missing_file_remedy(missing: Path, tried: Sequence[Path]) -> str:
    """Return how to get a missing file, or suggest a similar name next to one of ``tried``."""
    name = missing.parts[0] if missing.parts else ""
    if dataset := catalogue().get(name):
        if any(PurePath(product.path).is_relative_to(missing) for product in dataset.products):
            return f"Run 'harness data fetch {name}', or set HARNESS_DATA_DIR."
        return f"'harness data fetch {name}' does not install it: see 'harness docs {name}'."
    own_plugins = (
        declaration.name for declaration in declarations() if declaration.package == DISTRIBUTION
    )
    if name in own_plugins:  # published without a licence, or on request only
        return f"The harness cannot fetch it: 'harness docs {name}' says where to get it."
    for path in tried:
        with contextlib.suppress(OSError, ValueError):
            neighbours = [neighbour.name for neighbour in path.parent.iterdir()]
            if matches := get_close_matches(missing.name, neighbours, n=1, cutoff=0.75):
                return f"Did you mean {str(missing.with_name(matches[0]))!r}?"
    return "Check the path."


COMPRESSIBLE_SUFFIXES = (".jsonl", ".ndjson", ".csv", ".tsv")


def _file_names(name: str) -> list[str]:
    return [name, f"{name}.gz"] if name.endswith(COMPRESSIBLE_SUFFIXES) else [name]


def installed_file(root: Path, name: str) -> Path | None:
    """Return the path of a file, perhaps compressed, in the data folder ``root``, or None."""
    paths = (root / name for name in _file_names(name))
    return next((path for path in paths if path.is_file()), None)


def prompt_files(name: str, root: Path) -> dict[str, Path]:
    """Return the files of a data set that consists of prompts.

    Args:
        name: The name of the data set.
        root: The data folder.

    Returns:
        The paths by the names of the prompts.

    Raises:
        DataMissing: If a file is not installed.
    """
    paths = {}
    for product in find_data_set(name).products:
        path = installed_file(root, product.path)
        if path is None:
            file = root / product.path
            problem = f"The authors' prompts are not installed: there is no file {file}."
            raise DataMissing(problem, f"Run 'harness data fetch {name}'.")
        paths[Path(product.path).stem] = path
    return paths


def _check_same(name: str, paths: Sequence[Path]) -> None:
    """Raise ConfigError unless all paths are of one file or folder, or of equal files."""
    for path in paths[1:]:
        first = paths[0]
        are_files = first.is_file() and path.is_file()
        if not (first.samefile(path) or (are_files and filecmp.cmp(first, path, shallow=False))):
            problem = f"There are two different files {name!r}: {first} and {path}."
            raise ConfigError(problem, "Write the full path of the file that you mean.")


def expand_user(name: str) -> Path:
    """Return a path with ``~`` expanded, or unchanged if the home folder is unknown."""
    return Path(os.path.expanduser(name))  # noqa: PTH111 (Path's fails for an unknown user)


def path_exists(path: Path) -> bool:
    """Return whether a file or folder exists (False for an invalid name)."""
    return os.path.exists(path)  # noqa: PTH110 (Path's fails for a name that is too long)


MAX_LINE_BYTES = 1 << 26  # maximum bytes in a line: a small compressed file can expand to any size
DUCKDB_CONFIG = {"autoinstall_known_extensions": "false", "threads": 1, "memory_limit": "500MB"}


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
            raise not_utf8_error(path, line, number) from None
        except (msgspec.MsgspecError, RecursionError) as error:
            if line.startswith(UTF_16_MARKS):
                raise not_utf8_error(path, line, number) from None
            remedy = "Write a list into a .json file." if line.lstrip().startswith(b"[") else ""
            problem = f"{path}, line {number}: not a JSON object ({error})."
            raise DataInvalid(problem, remedy) from None
        yield row


def decode_json(content: bytes, kind: type[T]) -> T:
    """Decode JSON whose objects have no repeated keys.

    Args:
        content: The JSON text in UTF-8.
        kind: A type of mappings, lists or both.

    Raises:
        DataInvalid: If an object has a key twice: which of the values counts is not defined.
        msgspec.MsgspecError: If it is not JSON, or of another type.
        RecursionError: If it is nested too deeply.
        UnicodeDecodeError: If it is not UTF-8.
    """
    value = msgspec.json.decode(content, type=kind)
    colons = content.count(b":")
    # A quick test first: colons outside strings are as many as keys, unless one is repeated.
    if colons > len(value) and _JSON_STRING.sub(b"", content).count(b":") > _count_keys(value):
        json.loads(content, object_pairs_hook=_check_unique_keys, parse_int=len, parse_float=len)
    return value


_JSON_STRING = re.compile(rb'"(?:[^"\\]++|\\.)*+"')


def _count_keys(value: object) -> int:
    """Return the number of keys in all mappings of a value."""
    if isinstance(value, dict):
        return len(value) + sum(map(_count_keys, value.values()))
    return sum(map(_count_keys, value)) if isinstance(value, list) else 0


def _check_unique_keys(pairs: list[tuple[str, Any]]) -> None:
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
            lines = iter(lambda: file.readline(MAX_LINE_BYTES + 1), b"")
            for number, line in enumerate(lines, start=1):
                if len(line) > MAX_LINE_BYTES:
                    raise DataInvalid(f"{path}, line {number}: more than {MAX_LINE_BYTES:,} bytes.")
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

    Args:
        path: The file.
        query: The query in DuckDB's dialect, with the file as ``$file``.
        values: The values of the query's other parameters, by name.

    Raises:
        DataInvalid: If the file is not Parquet, or has no such columns.
        ExtraMissing: If DuckDB is not installed.
    """
    duckdb = import_extra("duckdb", "parquet")
    pattern = glob.escape(str(path.absolute()))  # DuckDB takes a file name for a pattern
    try:
        with duckdb.connect(":memory:", config=DUCKDB_CONFIG) as connection:
            result_set = connection.execute(query, {"file": pattern, **values})
            columns = [column[0] for column in result_set.description]
            while batch := result_set.fetchmany(1_000):
                yield from (dict(zip(columns, row, strict=True)) for row in batch)
    except duckdb.Error as error:
        problem = " ".join(str(error).split())[:160]
        raise DataInvalid(f"{path}: not readable as Parquet ({problem}).") from None


UTF_16_MARKS = (BOM_UTF16_LE, BOM_UTF16_BE)


def not_utf8_error(path: Path, content: bytes, line: int = 1) -> DataInvalid:
    """Return the error for a file that is not UTF-8.

    Args:
        path: The file.
        content: The content of the file, from a line on.
        line: The number of that line, from 1.
    """
    encoding = "WINDOWS-1252"
    problem = f"{path} is not UTF-8 text."
    if content.startswith(UTF_16_MARKS):
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
