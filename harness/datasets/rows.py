"""Reads rows from files (JSONL, JSON, YAML, CSV, TSV, Excel, Parquet) and from Python's values.

The same rows give the same dicts, whatever file they are in. Malformed, empty or oversized data is
refused before any call; errors name the file and item.
"""

from __future__ import annotations

import gzip
import hashlib
import re
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import date, datetime, time, timedelta
from itertools import chain, zip_longest
from math import isnan
from pathlib import Path, PurePath
from typing import Any, NamedTuple
from zipfile import BadZipFile, ZipFile

import msgspec
import yaml

from harness.config.yaml_text import ROWS, RefusedYaml, parse_yaml
from harness.datasets.folder import (
    cannot_read,
    decode_json,
    not_utf8,
    numbered_lines,
    parquet_rows,
    read_jsonl,
    sha256,
)
from harness.errors import DataInvalid, raised_as
from harness.extras import import_extra

Row = dict[str, Any]

MAX_DEPTH = 100
MAX_EXPANDED = 1 << 28  # bytes of a decompressed file that is read as a whole
MAX_EXACT = 1 << 53  # the largest integer up to which Excel's numbers are exact
MAX_NAMED = 8  # items that an error message names

# Fields with lists or mappings, which may be JSON in a text, as in the cells of tables.
JSON_FIELDS = frozenset(
    {"targets", "choices", "checks", "criteria", "groups", "messages", "rounds", "turns", "user"}
)
TEXT_FIELDS = ("criteria", "user")  # those that may have any text, even one in brackets
OPTIONAL = ("id", "checks", "cluster", "groups", "messages", "turns")  # a blank one is missing
ANSWERS = ("target", "targets", "gold", "choices")  # fields in which times are refused

_TABLE = "Write the names of the columns in the first line, and one item in each line below it."
_LIST = "Write a list of mappings, one per item."
_LINES = "Write one JSON object per line."

_NAMES: dict[Path, str] = {}


def name_rows(path: Path, name: str) -> None:
    """Use ``name`` instead of a file's own name in error messages about its rows."""
    _NAMES[path] = name


def is_row_file(name: str) -> bool:
    """Return whether a name's suffix is that of a file of rows (YAML is a run file's, too)."""
    return _suffix(PurePath(name)) in _FORMATS


def rows(path: Path, *, earlier: bool = False) -> Iterator[tuple[str, Row]]:
    """Yield (location, row) for each row of a file.

    Args:
        path: The file. Its suffix names the format (JSONL if unknown). It may end in ``.gz``.
        earlier: Read values as version 0.1.0 did (see `reread_rows`).

    Yields:
        The location, such as ``tasks.jsonl, item 3``, which is for error messages, and the row.

    Raises:
        DataInvalid: If the file is malformed or has no rows.
        DataMissing: If it cannot be read.
        ExtraMissing: If its format needs an extra that is not installed.
    """
    suffix = _suffix(path)
    file_format = _FORMATS.get(suffix, _JSONL)
    if remedy := _REFUSED.get(suffix):
        raise DataInvalid(f"{path}: rows are not read from {suffix} files.", remedy)
    shown = _NAMES.get(path, path)
    number = 0
    for number, row in enumerate(file_format.read(path, earlier), start=1):
        where = f"{shown}, item {number}"
        _refuse_depth(row, where)
        with raised_as(DataInvalid, f"{where}: "):
            fields = read_fields(plain(row), earlier=earlier)
        yield where, fields
    if not number:
        what = "contains no items" if path.stat().st_size else "is empty: it contains no items"
        raise DataInvalid(f"{shown} {what}.", file_format.remedy)


def reread_rows(path: Path) -> dict[int, Row]:
    """Return the rows that version 0.1.0 read otherwise, by their number from 1.

    That version read numbers in YAML as version 1.1 of YAML does (``12:30`` was 750), and JSON in
    texts, except in ``choices``, as text.
    """
    file_format = _FORMATS.get(_suffix(path), _JSONL)
    if file_format.read in (_parquet, _excel):  # which that version did not read
        return {}
    if file_format.read in (_lines, _json) and not _has_json_texts(path):  # saves much time
        return {}
    pairs = zip(rows(path, earlier=True), rows(path), strict=True)
    changed = {}
    try:
        for number, ((_, before), (_, row)) in enumerate(pairs, start=1):
            if _encoded(before) != _encoded(row):
                changed[number] = row
    except DataInvalid:  # so that it has no run, or cannot be continued
        return {}
    return changed


_JSON_TEXT = re.compile(rb'"(?:%s)"\s*:\s*"\s*[\[{]' % "|".join(sorted(JSON_FIELDS)).encode())


def _has_json_texts(path: Path) -> bool:
    """Return whether one of `JSON_FIELDS` in a JSON or JSONL file may be JSON in a text."""
    if _suffix(path) == ".json":
        return _JSON_TEXT.search(_content(path)) is not None
    return any(_JSON_TEXT.search(line) for _, line in numbered_lines(path))


def rows_sha256(path: Path) -> str:
    """Return the SHA-256 of a file of rows and of its rows that version 0.1.0 read otherwise."""
    digest = sha256(path)
    if changed := reread_rows(path):
        return hashlib.sha256(digest.encode() + _encoded(changed)).hexdigest()
    return digest


def differing_rows(path: Path, other: Path) -> list[int]:
    """Return the numbers (from 1) of the rows that differ between two files."""
    pairs = zip_longest(*([row for _, row in rows(one)] for one in (path, other)))
    return [n for n, (a, b) in enumerate(pairs, start=1) if _encoded(a) != _encoded(b)]


def items(numbers: Iterable[int]) -> str:
    """Return a list of the first numbers of rows, such as "items 1, 2 and 5 more"."""
    listed = list(numbers)
    text = ", ".join(map(str, listed[:MAX_NAMED]))
    if len(listed) > MAX_NAMED:
        text += f" and {len(listed) - MAX_NAMED} more"
    return f"item{'s' * (len(listed) != 1)} {text}"


def read_fields(row: Row, *, earlier: bool = False) -> Row:
    """Return a row without blank `OPTIONAL` fields, and with the values of JSON in `JSON_FIELDS`.

    Raises:
        DataInvalid: If a text in brackets is not JSON.
    """
    fields = {}
    for name, value in row.items():
        is_blank = value is None or (isinstance(value, str) and not value.strip())
        if is_blank and name in OPTIONAL:
            continue
        if isinstance(value, str) and name in JSON_FIELDS and not (earlier and name != "choices"):
            with raised_as(DataInvalid, f"{name!r}: "):
                value = _from_json(name, value)
        fields[name] = value
    return fields


def _from_json(name: str, value: str) -> Any:
    text = value.strip()
    brackets = text[:1] + text[1:][-1:]
    if brackets not in ("[]", "{}"):
        return value
    if name in TEXT_FIELDS and text[1:].lstrip()[0] not in "\"'[]{}":
        return value
    kind: Any = list[Any] if brackets == "[]" else dict[str, Any]
    try:
        return decode_json(text.encode(), kind)
    except (msgspec.MsgspecError, RecursionError) as error:
        remedy = 'Write a list with double quotes, as in ["…", "…"].'
        raise DataInvalid(f"not JSON ({error}).", remedy) from None


def plain(value: Any, field: str = "") -> Any:
    """Return a value as JSON's types: null for NaN, and text for dates, decimals and the like.

    A date-time at midnight is a date. NumPy's scalars and arrays, and pandas' timestamps, are
    accepted, too. ``field`` is the field with the value: its name, or that of the one of `ANSWERS`
    around it.

    Raises:
        DataInvalid: If binary data is not text, or a field of `ANSWERS` has a time.
        TypeError: If JSON cannot represent the value.
        ValueError: If a mapping has two keys with the same text.
    """
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, float):
        return None if isnan(value) else float(value)
    for basic in (str, int):
        if isinstance(value, basic):
            return basic(value)
    if isinstance(value, Mapping):
        converted = {}
        for key, part in value.items():
            name = str(plain(key))
            converted[name] = plain(part, field if field in ANSWERS else name)
        if len(converted) < len(value):
            raise ValueError("two keys have the same text")
        return converted
    if isinstance(value, list | tuple):
        return [plain(part, field) for part in value]
    if isinstance(value, bytes | bytearray | memoryview):
        return _decoded(bytes(value), field)
    kind = type(value).__name__  # NumPy and pandas are not imported: that takes time
    if kind in ("NAType", "NaTType"):
        return None
    if kind in ("datetime64", "timedelta64") or isinstance(value, _TIMES):
        return _time_text(value, field)
    if hasattr(value, "tolist"):
        return plain(list(value) if getattr(value, "ndim", 0) else value.tolist(), field)
    if type(value) is date:
        return value.isoformat()
    return plain(msgspec.to_builtins(value, builtin_types=_CONVERTED), field)


_TIMES = (datetime, time, timedelta)
_CONVERTED = (bytes, bytearray, memoryview, date, *_TIMES)
_MIDNIGHT = re.compile(r"T00:00(:00(\.0+)?)?\Z")


def _decoded(content: bytes, field: str) -> str:
    try:
        return content.decode()
    except UnicodeDecodeError:
        remedy = "Remove the field, or write its content as text."
        raise DataInvalid(f"{field!r:.60} is binary data, not UTF-8 text.", remedy) from None


def _time_text(value: Any, field: str) -> str | None:
    """Return the text of a date-time, time or duration (None for NumPy's NaT).

    Its text depends on the source, so that as an answer it could fail every reply.
    """
    if type(value) in _TIMES:
        text: str = msgspec.to_builtins(value)
    else:
        text = value.isoformat() if hasattr(value, "isoformat") else str(value)
    if text == "NaT":
        return None
    is_date = type(value).__name__ == "datetime64" and "T" not in text
    if field in ANSWERS and not is_date:
        problem = f"{field!r} is a date or time ({text}), whose text may differ from what is shown."
        raise DataInvalid(problem, "Convert the column to text, and check the answers.")
    return _MIDNIGHT.sub("", text)


class _Format(NamedTuple):
    read: Callable[[Path, bool], Iterator[Row]]  # (path, as version 0.1.0 did)
    remedy: str  # what to write into a file without rows


def _suffix(path: PurePath) -> str:
    return PurePath(path.stem if path.suffix.lower() == ".gz" else path.name).suffix.lower()


def _encoded(row: object) -> bytes:
    return msgspec.json.encode(row)


def _lines(path: Path, _: bool) -> Iterator[Row]:
    return read_jsonl(path)


def _json(path: Path, _: bool) -> Iterator[Row]:
    content = _text(path).encode()
    if not content.strip():
        return
    try:
        if content.lstrip().startswith(b"{"):
            decode_json(content, dict[str, Any])  # refuses repeated keys
            listed = msgspec.json.decode(content, type=_Examples).examples
        else:
            listed = msgspec.json.decode(content, type=list[msgspec.Raw])
    except msgspec.ValidationError:
        raise _not_a_list(path) from None
    except (msgspec.MsgspecError, RecursionError) as error:
        raise DataInvalid(f"{path}: not JSON ({error}).") from None
    for number, item in enumerate(map(bytes, listed), start=1):
        if not item.startswith(b"{"):
            raise _not_a_mapping(path, number)
        with raised_as(DataInvalid, f"{path}, item {number}: "):
            yield decode_json(item, dict[str, Any])


class _Examples(msgspec.Struct):
    examples: list[msgspec.Raw]  # as in the files of BIG-bench


def _yaml(path: Path, earlier: bool) -> Iterator[Row]:
    try:
        tree = parse_yaml(_text(path), ROWS, earlier=earlier)
    except RefusedYaml as error:
        line = "" if error.problem_mark is None else f", line {error.problem_mark.line + 1}"
        raise DataInvalid(f"{path}{line}: {error.problem}.", error.remedy) from None
    except (yaml.YAMLError, ValueError) as error:
        raise DataInvalid(f"{path}: not YAML ({' '.join(str(error).split()):.300}).") from None
    if isinstance(tree, dict) and isinstance(tree.get("examples"), list):
        tree = tree["examples"]
    if tree is None:
        return
    if not isinstance(tree, list):
        raise _not_a_list(path)
    for number, row in enumerate(tree, start=1):
        if not isinstance(row, dict):
            raise _not_a_mapping(path, number)
        yield row


def _not_a_list(path: Path) -> DataInvalid:
    return DataInvalid(f"{path}: must be a list of items.", "Begin each item with '- '.")


def _not_a_mapping(path: Path, number: int) -> DataInvalid:
    return DataInvalid(f"{path}, item {number}: must be a mapping of names to values.")


def _commas(path: Path, _: bool) -> Iterator[Row]:
    return _table(path, _records(path, ","))


def _tabs(path: Path, _: bool) -> Iterator[Row]:
    return _table(path, _records(path, "\t"))


Records = Iterator[tuple[int, list[Any]]]  # the cells of a table, with their line numbers


def _table(path: Path, records: Records) -> Iterator[Row]:
    """Yield the rows of a table whose first record has the names of the columns."""
    line, names = next(records, (1, []))
    while names and names[-1] == "":  # spreadsheets write empty columns
        names.pop()
    if len(set(names)) < len(names) or not all(names):
        raise DataInvalid(f"{path}, line {line}: every column needs a unique name.")
    for line, values in records:
        while len(values) > len(names) and values[-1] == "":
            values.pop()
        if len(values) != len(names):
            n = len(values)
            m = len(names)
            problem = f"{n} value{'s' * (n != 1)} for {m} column{'s' * (m != 1)}"
            raise DataInvalid(f"{path}, line {line}: {problem}.")
        if len(values) > 1 and _is_empty(values):
            continue
        yield dict(zip(map(str, names), values, strict=True))


def _is_empty(cells: list[Any]) -> bool:
    return all(cell == "" for cell in cells)


def _records(path: Path, delimiter: str) -> Records:
    """Yield the cells of each line of a CSV file (RFC 4180). Empty lines are left out.

    The module ``csv`` refuses long cells, unless its limit is changed for the whole process.
    """
    text = _text(path)
    if "\0" in text:
        problem = f"{path}: it contains NUL characters; perhaps it is UTF-16."
        raise DataInvalid(problem, "Save the file as UTF-8.")
    pattern = re.compile(
        rf'(?:"((?:[^"]++|"")*+)"|([^"{delimiter}\r\n][^{delimiter}\r\n]*+)?)'
        rf"({delimiter}|\r\n|\r|\n|\Z)"
    )
    values: list[str] = []
    line = first = 1
    position = 0
    while position < len(text) or values:
        match = pattern.match(text, position)
        if match is None:
            problem = f"{path}, line {line}: a cell begins with a quote, but does not end in one."
            raise DataInvalid(problem, 'Write a quote within a quoted cell as "".')
        quoted, bare, end = match.groups()
        values.append(bare or "" if quoted is None else quoted.replace('""', '"'))
        position = match.end()
        if quoted is not None:
            line += len(_BREAK.findall(quoted))
        if end == delimiter:
            continue
        line += 1
        if len(values) > 1 or match[0] != end:
            if first == 1 and len(values) == 1:
                _refuse_delimiter(path, values[0], delimiter)
            yield first, values
        values = []
        first = line


_BREAK = re.compile(r"\r\n|\r|\n")


def _refuse_delimiter(path: Path, header: str, delimiter: str) -> None:
    for separator in ";\t":
        if separator in header:
            problem = (
                f"{path}, line 1: the columns are separated by {separator!r}, not {delimiter!r}."
            )
            raise DataInvalid(problem, "Save it with commas, or as .tsv with tabs.")


def _parquet(path: Path, _: bool) -> Iterator[Row]:
    if not path.is_file():
        raise cannot_read(path, FileNotFoundError(2, "No such file or directory"))
    query = "SELECT * FROM read_parquet($file, hive_partitioning = false)"
    return parquet_rows(path, query)


def _excel(path: Path, _: bool) -> Iterator[Row]:
    return _table(path, _sheet(path))


def _sheet(path: Path) -> Records:
    """Yield the cells of each row of an Excel file's only sheet that is not empty."""
    calamine = import_extra("python_calamine", "excel")
    try:
        with ZipFile(path) as archive:
            size = sum(part.file_size for part in archive.infolist())
            if size > MAX_EXPANDED:
                raise DataInvalid(f"{path} expands to more than {MAX_EXPANDED:,} bytes.")
            if (damaged := archive.testzip()) is not None:  # also if a stated size is false
                raise DataInvalid(f"{path}: {damaged} is damaged.", "Save it again.")
        book = calamine.load_workbook(str(path))
        sheets = {name: book.get_sheet_by_name(name) for name in book.sheet_names}
        tables = {name: sheet.to_python() for name, sheet in sheets.items()}
    except OSError as error:
        raise cannot_read(path, error) from None
    except (BadZipFile, calamine.CalamineError) as error:
        raise DataInvalid(f"{path}: not readable as Excel ({str(error)[:160]}).") from None
    filled = [name for name, table in tables.items() if table]
    if len(filled) > 1:
        remedy = "Keep one, or save the one that is meant as .csv."
        raise DataInvalid(f"{path} has {len(filled)} sheets: {', '.join(filled)}.", remedy)
    for name in filled:
        first = (sheets[name].start or (0, 0))[0] + 1
        for line, values in enumerate(tables[name], start=first):
            with raised_as(DataInvalid, f"{path}, line {line}: "):
                cells = [_excel_cell(value) for value in values]
            if not _is_empty(cells):
                yield line, cells


def _excel_cell(value: Any) -> Any:
    """Return a number as Excel shows it without a format, and any other cell's value.

    A date is a date-time, because Excel may have made it of another text.
    """
    if type(value) is date:
        return datetime.combine(value, time())
    if not isinstance(value, float):
        return value
    if not value.is_integer():
        return str(value)
    if abs(value) > MAX_EXACT:
        problem = f"the number {value} has more digits than Excel keeps."
        raise DataInvalid(problem, "Format the column as text, and write its numbers again.")
    return str(int(value))


def _content(path: Path) -> bytes:
    try:
        if path.suffix.lower() != ".gz":
            return path.read_bytes()
        with gzip.open(path) as file:
            content = file.read(MAX_EXPANDED + 1)
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise DataInvalid(f"{path}: not complete gzip ({error}).") from None
    except OSError as error:
        raise cannot_read(path, error) from None
    if len(content) > MAX_EXPANDED:
        raise DataInvalid(f"{path} expands to more than {MAX_EXPANDED:,} bytes.")
    return content


def _text(path: Path) -> str:
    content = _content(path)
    try:
        return content.decode("utf-8-sig")  # spreadsheets write a byte order mark
    except UnicodeDecodeError:
        raise not_utf8(path, content) from None


def _refuse_depth(row: Row, where: str) -> None:
    values: list[Any] = [row]
    for _ in range(MAX_DEPTH):
        nested = (value for value in values if isinstance(value, dict | list))
        parts = (value.values() if isinstance(value, dict) else value for value in nested)
        if not (values := list(chain.from_iterable(parts))):
            return
    raise DataInvalid(f"{where} is nested more than {MAX_DEPTH} deep.")


_JSONL = _Format(_lines, _LINES)
_FORMATS: Mapping[str, _Format] = {
    ".jsonl": _JSONL,
    ".ndjson": _JSONL,
    ".json": _Format(_json, _LIST),
    ".yaml": _Format(_yaml, _LIST),
    ".yml": _Format(_yaml, _LIST),
    ".csv": _Format(_commas, _TABLE),
    ".tsv": _Format(_tabs, _TABLE),
    ".parquet": _Format(_parquet, _TABLE),
    ".xlsx": _Format(_excel, _TABLE),
}
_REFUSED = dict.fromkeys((".xls", ".xlsb", ".ods"), "Save the file as .xlsx or .csv.")
