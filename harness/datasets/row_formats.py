"""Formats of files of rows: JSONL, JSON, YAML, CSV, TSV, Excel and Parquet; and rows' fields."""

from __future__ import annotations

import csv
import gzip
import re
import zlib
from collections.abc import Callable, Iterator, Mapping
from datetime import date, datetime, time, timedelta
from functools import partial
from io import StringIO
from math import isnan
from pathlib import Path, PurePath
from typing import Any, NamedTuple
from zipfile import BadZipFile, ZipFile

import msgspec
import yaml

from harness.config.yaml_text import ROWS_KEYS, RefusedYaml, parse_yaml, yaml_remedy
from harness.datasets.folder import (
    decode_json,
    not_utf8_error,
    numbered_lines,
    parquet_rows,
    read_jsonl,
)
from harness.errors import DataInvalid, import_extra, reraise_as, unreadable_file_error
from harness.records import unwrap_array
from harness.wording import format_count

Row = dict[str, Any]

# Fields with lists or mappings, which may be JSON in a text, as in the cells of tables.
JSON_FIELDS = frozenset(
    {"targets", "choices", "checks", "criteria", "groups", "messages", "rounds", "turns", "user"}
)
TEXT_FIELDS = ("criteria", "user")  # those that may have any text, even one in brackets
# A blank field of these counts as missing.
OPTIONAL_FIELDS = ("id", "checks", "cluster", "groups", "messages", "turns")
ANSWER_FIELDS = ("target", "targets", "gold", "choices")  # fields in which times are refused


def read_fields(row: Row, *, legacy: bool = False) -> Row:
    """Return a row without blank `OPTIONAL_FIELDS`, and with the JSON in `JSON_FIELDS` parsed.

    Args:
        row: The fields, by name.
        legacy: Read JSON in ``choices`` only, as version 0.1.0 did.

    Raises:
        DataInvalid: If a text in brackets is not JSON.
    """
    fields = {}
    for name, value in row.items():
        is_text = isinstance(value, str)
        is_blank = value is None or (is_text and not value.strip())
        if is_blank and name in OPTIONAL_FIELDS:
            continue
        if is_text and name in JSON_FIELDS and (name == "choices" or not legacy):
            with reraise_as(DataInvalid, f"{name!r}: "):
                value = _parse_json_text(name, value)
        fields[name] = value
    return fields


def _parse_json_text(field: str, text: str) -> Any:
    """Return the list or the mapping in a field's text, or the text if it is not in brackets.

    For a field of `TEXT_FIELDS`, brackets count only if a quote or a bracket follows the first one.

    Raises:
        DataInvalid: If a text in brackets is not JSON.
    """
    stripped = text.strip()
    brackets = stripped[:1] + stripped[1:][-1:]
    if brackets not in ("[]", "{}"):
        return text
    if field in TEXT_FIELDS and stripped[1:].lstrip()[0] not in "\"'[]{}":
        return text
    kind: Any = list[Any] if brackets == "[]" else dict[str, Any]
    try:
        return decode_json(stripped.encode(), kind)
    except (msgspec.MsgspecError, RecursionError) as error:
        remedy = 'Write a list with double quotes, as in ["…", "…"].'
        raise DataInvalid(f"not JSON ({error}).", remedy) from None


def to_json_types(value: Any, field: str = "") -> Any:
    """Convert a value to JSON's types: NaN to null, and dates, decimals and the like to text.

    A date-time at midnight becomes a date. NumPy's scalars and arrays, and pandas' timestamps, are
    accepted, too.

    Args:
        value: The value.
        field: The name of the value's field, or of the one of `ANSWER_FIELDS` that contains it.

    Raises:
        DataInvalid: If binary data is not text, or a field of `ANSWER_FIELDS` has a time.
        TypeError: If JSON cannot represent the value.
        ValueError: If a mapping has two keys with the same text.
    """
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, float):
        return None if isnan(value) else float(value)
    if isinstance(value, str):
        return str(value)
    if isinstance(value, int):
        return int(value)
    if isinstance(value, Mapping):
        return _mapping_to_json_types(value, field)
    if isinstance(value, list | tuple):
        return [to_json_types(item, field) for item in value]
    if isinstance(value, bytes | bytearray | memoryview):
        return _decode_text(bytes(value), field)
    type_name = type(value).__name__  # NumPy and pandas are not imported: that takes time
    if type_name in ("NAType", "NaTType"):
        return None
    if type_name in ("datetime64", "timedelta64") or isinstance(value, _TIME_TYPES):
        return _time_text(value, field)
    if type(value) is date:
        return value.isoformat()
    if type_name in ("float16", "float32"):  # the shortest decimal, such as 0.1
        return to_json_types(float(str(value)))
    converted = unwrap_array(value)
    if converted is value:
        converted = msgspec.to_builtins(value, builtin_types=_KEPT_TYPES)
    return to_json_types(converted, field)


_TIME_TYPES = (datetime, time, timedelta)
_KEPT_TYPES = (bytes, bytearray, memoryview, date, *_TIME_TYPES)
_MIDNIGHT = re.compile(r"T00:00(:00(\.0+)?)?\Z")


def _mapping_to_json_types(mapping: Mapping[Any, Any], field: str) -> Row:
    converted = {}
    for key, value in mapping.items():
        name = str(to_json_types(key))
        converted[name] = to_json_types(value, field if field in ANSWER_FIELDS else name)
    if len(converted) < len(mapping):
        raise ValueError("two keys have the same text")
    return converted


def _decode_text(content: bytes, field: str) -> str:
    try:
        return content.decode()
    except UnicodeDecodeError:
        remedy = "Remove the field, or write its content as text."
        raise DataInvalid(f"{field!r:.60} is binary data, not UTF-8 text.", remedy) from None


def _time_text(value: Any, field: str) -> str | None:
    """Return the text of a date-time, time or duration (None for NumPy's NaT).

    Raises:
        DataInvalid: If it is in one of `ANSWER_FIELDS`. Its text depends on the source, so that as
            an answer it could fail every reply.
    """
    if type(value) in _TIME_TYPES:
        text: str = msgspec.to_builtins(value)
    else:
        text = value.isoformat() if hasattr(value, "isoformat") else str(value)
    if text == "NaT":
        return None
    is_date = type(value).__name__ == "datetime64" and "T" not in text
    if field in ANSWER_FIELDS and not is_date:
        problem = f"{field!r} is a date or time ({text}), whose text may differ from what is shown."
        raise DataInvalid(problem, "Convert the column to text, and check the answers.")
    return _MIDNIGHT.sub("", text)


MAX_EXPANDED_BYTES = 1 << 28  # of a decompressed file that is read as a whole
csv.field_size_limit(MAX_EXPANDED_BYTES)  # of the whole process; by default 131,072
MAX_EXACT_INTEGER = 1 << 53  # up to which Excel's numbers are exact

_TABLE_REMEDY = (
    "Write the names of the columns in the first line, and one item in each line below it."
)
_LIST_REMEDY = "Write a list of mappings, one per item."
_LINES_REMEDY = "Write one JSON object per line."

Reader = Callable[[Path], Iterator[Row]]
Records = Iterator[tuple[int, list[Any]]]  # line numbers and cells of a table


class RowFormat(NamedTuple):
    """A format of files of rows.

    Attributes:
        read: Yields the rows of a file, with unconverted values.
        read_legacy: Yields them as version 0.1.0 read them. None if it could not read the format.
        remedy: What to write into a file without rows.
    """

    read: Reader
    read_legacy: Reader | None
    remedy: str


def is_row_file(name: str) -> bool:
    """Return whether a file of this name may have rows. A YAML file may also be a run file."""
    return _suffix(PurePath(name)) in _FORMATS


def row_format(path: Path) -> RowFormat:
    """Return the format of a file by its suffix (JSONL if unknown).

    Raises:
        DataInvalid: If the suffix is that of spreadsheets that cannot be read.
    """
    suffix = _suffix(path)
    if suffix in _UNREADABLE_SUFFIXES:
        remedy = "Save the file as .xlsx or .csv."
        raise DataInvalid(f"{path}: rows are not read from {suffix} files.", remedy)
    return _FORMATS.get(suffix, _JSONL)


def _suffix(path: PurePath) -> str:
    """Return a file's suffix in lower case, without ``.gz``."""
    return PurePath(path.stem if path.suffix.lower() == ".gz" else path.name).suffix.lower()


def may_have_json_texts(path: Path) -> bool:
    """Return whether a file may have JSON in the text of one of `JSON_FIELDS`.

    Only files in JSON and JSONL are searched for it.
    """
    file_format = row_format(path)
    if file_format is _JSON:
        return _JSON_TEXT.search(_read_bytes(path)) is not None
    if file_format is _JSONL:
        return any(_JSON_TEXT.search(line) for _, line in numbered_lines(path))
    return True


_JSON_TEXT = re.compile(rb'"(?:%s)"\s*:\s*"\s*[\[{]' % "|".join(sorted(JSON_FIELDS)).encode())


def _read_json(path: Path) -> Iterator[Row]:
    content = _read_text(path).encode()
    if not content.strip():
        return
    try:
        if content.lstrip().startswith(b"{"):
            decode_json(content, dict[str, Any])  # refuses repeated keys
            items = msgspec.json.decode(content, type=_Examples).examples
        else:
            items = msgspec.json.decode(content, type=list[msgspec.Raw])
    except msgspec.ValidationError:
        raise _not_a_list_error(path) from None
    except (msgspec.MsgspecError, RecursionError) as error:
        raise DataInvalid(f"{path}: not JSON ({error}).") from None
    for number, item in enumerate(map(bytes, items), start=1):
        if not item.startswith(b"{"):
            raise _not_a_mapping_error(path, number)
        with reraise_as(DataInvalid, f"{path}, item {number}: "):
            yield decode_json(item, dict[str, Any])


class _Examples(msgspec.Struct):
    examples: list[msgspec.Raw]  # as in the files of BIG-bench


def _read_yaml(path: Path, *, legacy: bool = False) -> Iterator[Row]:
    try:
        tree = parse_yaml(_read_text(path), ROWS_KEYS, as_v0_1=legacy)
    except RefusedYaml as error:
        line = "" if error.problem_mark is None else f", line {error.problem_mark.line + 1}"
        raise DataInvalid(f"{path}{line}: {error.problem}.", error.remedy) from None
    except (yaml.YAMLError, ValueError) as error:
        problem = f"{path}: not YAML ({' '.join(str(error).split()):.300})."
        raise DataInvalid(problem, yaml_remedy(error)) from None
    if isinstance(tree, dict) and isinstance(tree.get("examples"), list):
        tree = tree["examples"]
    if tree is None:
        return
    if not isinstance(tree, list):
        raise _not_a_list_error(path)
    for number, row in enumerate(tree, start=1):
        if not isinstance(row, dict):
            raise _not_a_mapping_error(path, number)
        yield row


def _not_a_list_error(path: Path) -> DataInvalid:
    return DataInvalid(f"{path}: must be a list of items.", "Begin each item with '- '.")


def _not_a_mapping_error(path: Path, number: int) -> DataInvalid:
    return DataInvalid(f"{path}, item {number}: must be a mapping of names to values.")


def _read_csv(path: Path, *, delimiter: str) -> Iterator[Row]:
    return _table_rows(path, _csv_records(path, delimiter))


def _table_rows(path: Path, records: Records) -> Iterator[Row]:
    """Yield the rows of a table whose first record has the names of the columns."""
    line, names = next(records, (1, []))
    while names and names[-1] == "":  # spreadsheets write empty columns
        names.pop()
    n_columns = len(names)
    if len(set(names)) < n_columns or not all(names):
        raise DataInvalid(f"{path}, line {line}: every column needs a unique name.")
    for line, values in records:
        while len(values) > n_columns and values[-1] == "":
            values.pop()
        n_values = len(values)
        if n_values != n_columns:
            problem = f"{format_count(n_values, 'value')} for {format_count(n_columns, 'column')}"
            raise DataInvalid(f"{path}, line {line}: {problem}.")
        if n_values > 1 and _is_empty(values):
            continue
        yield dict(zip(map(str, names), values, strict=True))


def _is_empty(cells: list[Any]) -> bool:
    return all(cell == "" for cell in cells)


def _csv_records(path: Path, delimiter: str) -> Records:
    """Yield the line number and the cells of each record of a CSV file that is not empty."""
    text = _read_text(path)
    if "\0" in text:
        problem = f"{path}: it contains NUL characters; perhaps it is UTF-16."
        raise DataInvalid(problem, "Save the file as UTF-8.")
    reader = csv.reader(StringIO(text, newline=""), delimiter=delimiter, strict=True)
    line = 1  # the first line of a record
    try:
        for values in reader:
            if line == 1 and len(values) == 1:
                _check_delimiter(path, values[0], delimiter)
            if values:
                yield line, values
            line = reader.line_num + 1
    except csv.Error:
        problem = f"{path}, line {line}: a cell begins with a quote, but does not end in one."
        raise DataInvalid(problem, 'Write a quote within a quoted cell as "".') from None


def _check_delimiter(path: Path, header: str, delimiter: str) -> None:
    """Raise DataInvalid if a header that was read as one cell has another delimiter."""
    for separator in ";\t":
        if separator in header:
            problem = (
                f"{path}, line 1: the columns are separated by {separator!r}, not {delimiter!r}."
            )
            raise DataInvalid(problem, "Save it with commas, or as .tsv with tabs.")


_FLOAT_TYPE = re.compile(r'(?<!")\bFLOAT\b(?!")')
"""Matches the name FLOAT in a type of DuckDB, such as FLOAT[], but not the name of a field."""


def _read_parquet(path: Path) -> Iterator[Row]:
    if not path.is_file():
        raise unreadable_file_error(path, FileNotFoundError(2, "No such file or directory"))
    source = "FROM read_parquet($file, hive_partitioning = false)"
    casts = []
    for column in parquet_rows(path, f"DESCRIBE {source}"):
        kind = column["column_type"]
        if _FLOAT_TYPE.search(kind):  # the text of a FLOAT is the shortest decimal with its value
            name = '"' + column["column_name"].replace('"', '""') + '"'
            text = f"CAST({name} AS {_FLOAT_TYPE.sub('VARCHAR', kind)})"
            casts.append(f"CAST({text} AS {_FLOAT_TYPE.sub('DOUBLE', kind)}) AS {name}")
    replacements = f" REPLACE ({', '.join(casts)})" if casts else ""
    return parquet_rows(path, f"SELECT *{replacements} {source}")


def _read_excel(path: Path) -> Iterator[Row]:
    return _table_rows(path, _sheet_records(path))


def _sheet_records(path: Path) -> Records:
    """Yield the line number and the cells of each record of an Excel file's only filled sheet."""
    sheets = _read_sheets(path)
    if len(sheets) > 1:
        remedy = "Keep one, or save the one that is meant as .csv."
        raise DataInvalid(f"{path} has {len(sheets)} sheets: {', '.join(sheets)}.", remedy)
    for first_line, records in sheets.values():
        for line, values in enumerate(records, start=first_line):
            with reraise_as(DataInvalid, f"{path}, line {line}: "):
                cells = [_excel_cell(value) for value in values]
            if not _is_empty(cells):
                yield line, cells


def _read_sheets(path: Path) -> dict[str, tuple[int, list[list[Any]]]]:
    """Return the sheets of an Excel file that are not empty.

    Returns:
        The number of the first filled line, and the cells of each line from there, by the name of
        the sheet.
    """
    calamine = import_extra("python_calamine", "excel")
    try:
        with ZipFile(path) as archive:
            size = sum(member.file_size for member in archive.infolist())
            _check_expanded_size(path, size)
            if (damaged := archive.testzip()) is not None:  # also if a stated size is false
                raise DataInvalid(f"{path}: {damaged} is damaged.", "Save it again.")
        workbook = calamine.load_workbook(str(path))
        sheets = {}
        for name in workbook.sheet_names:
            sheet = workbook.get_sheet_by_name(name)
            if records := sheet.to_python():
                first_row, _ = sheet.start or (0, 0)
                sheets[name] = first_row + 1, records
    except OSError as error:
        raise unreadable_file_error(path, error) from None
    except (BadZipFile, calamine.CalamineError) as error:
        problem = f"{path}: not readable as Excel ({str(error)[:160]})."
        raise DataInvalid(problem, "Save it in Excel as .xlsx, or as .csv.") from None
    return sheets


def _excel_cell(value: Any) -> Any:
    """Return the text of a number as Excel shows it without a format, or another cell's value.

    A date becomes a date-time, because Excel may have made it of another text.
    """
    if type(value) is date:
        return datetime.combine(value, time())
    if not isinstance(value, float):
        return value
    if not value.is_integer():
        return str(value)
    if abs(value) > MAX_EXACT_INTEGER:
        problem = f"the number {value} has more digits than Excel keeps."
        raise DataInvalid(problem, "Format the column as text, and write its numbers again.")
    return str(int(value))


def _read_bytes(path: Path) -> bytes:
    try:
        if path.suffix.lower() != ".gz":
            return path.read_bytes()
        with gzip.open(path) as file:
            content = file.read(MAX_EXPANDED_BYTES + 1)
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise DataInvalid(f"{path}: not complete gzip ({error}).") from None
    except OSError as error:
        raise unreadable_file_error(path, error) from None
    _check_expanded_size(path, len(content))
    return content


def _check_expanded_size(path: Path, size: int) -> None:
    if size > MAX_EXPANDED_BYTES:
        raise DataInvalid(f"{path} expands to more than {MAX_EXPANDED_BYTES:,} bytes.")


def _read_text(path: Path) -> str:
    content = _read_bytes(path)
    try:
        return content.decode("utf-8-sig")  # spreadsheets write a byte order mark
    except UnicodeDecodeError:
        raise not_utf8_error(path, content) from None


_JSONL = RowFormat(read_jsonl, read_jsonl, _LINES_REMEDY)
_JSON = RowFormat(_read_json, _read_json, _LIST_REMEDY)
_YAML = RowFormat(_read_yaml, partial(_read_yaml, legacy=True), _LIST_REMEDY)
_CSV = partial(_read_csv, delimiter=",")
_TSV = partial(_read_csv, delimiter="\t")
_FORMATS: Mapping[str, RowFormat] = {
    ".jsonl": _JSONL,
    ".ndjson": _JSONL,
    ".json": _JSON,
    ".yaml": _YAML,
    ".yml": _YAML,
    ".csv": RowFormat(_CSV, _CSV, _TABLE_REMEDY),
    ".tsv": RowFormat(_TSV, _TSV, _TABLE_REMEDY),
    ".parquet": RowFormat(_read_parquet, None, _TABLE_REMEDY),
    ".xlsx": RowFormat(_read_excel, None, _TABLE_REMEDY),
}
_UNREADABLE_SUFFIXES = (".xls", ".xlsb", ".ods")
