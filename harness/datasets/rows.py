"""Reads rows from files. The same rows give the same dicts, whatever format they are in.

Malformed, empty or oversized data is refused before any call; errors name the file and item.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from itertools import zip_longest
from pathlib import Path

import msgspec

from harness.datasets.fields import Row, plain, read_fields
from harness.datasets.folder import sha256
from harness.datasets.row_formats import may_have_json_texts, row_format
from harness.errors import DataInvalid, raised_as
from harness.records import nesting_depth
from harness.wording import first_few

MAX_DEPTH = 100
MAX_LISTED = 8  # items that an error message lists

_NAMES: dict[Path, str] = {}


def name_rows(path: Path, name: str) -> None:
    """Use ``name`` instead of a file's own name in error messages about its rows."""
    _NAMES[path] = name


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
    file_format = row_format(path)
    read = file_format.read
    if earlier and file_format.read_earlier is not None:
        read = file_format.read_earlier
    name = _NAMES.get(path, path)
    number = 0
    for number, row in enumerate(read(path), start=1):
        where = f"{name}, item {number}"
        if nesting_depth(row) > MAX_DEPTH:
            raise DataInvalid(f"{where} is nested more than {MAX_DEPTH} deep.")
        with raised_as(DataInvalid, f"{where}: "):
            fields = read_fields(plain(row), earlier=earlier)
        yield where, fields
    if not number:
        problem = "contains no items" if path.stat().st_size else "is empty: it contains no items"
        raise DataInvalid(f"{name} {problem}.", file_format.remedy)


def reread_rows(path: Path) -> dict[int, Row | None]:
    """Return the rows that version 0.1.0 read otherwise, by their number from 1.

    That version read numbers in YAML as version 1.1 of YAML does (``12:30`` was 750), and JSON in
    texts, except in ``choices``, as text.
    """
    if row_format(path).read_earlier is None:
        return {}
    if not may_have_json_texts(path):  # saves much time
        return {}
    try:
        return _changed_rows(rows(path, earlier=True), rows(path))
    except DataInvalid:  # so that it has no run, or cannot be continued
        return {}


def rows_sha256(path: Path) -> str:
    """Return the SHA-256 of a file of rows and of its rows that version 0.1.0 read otherwise."""
    digest = sha256(path)
    if changed := reread_rows(path):
        return hashlib.sha256(digest.encode() + msgspec.json.encode(changed)).hexdigest()
    return digest


def differing_rows(before: Path, after: Path) -> list[int]:
    """Return the numbers (from 1) of the rows that differ between two files."""
    return list(_changed_rows(rows(before), rows(after)))


def _changed_rows(
    before: Iterator[tuple[str, Row]], after: Iterator[tuple[str, Row]]
) -> dict[int, Row | None]:
    """Return the rows of ``after`` that differ from those of ``before``, by their number from 1.

    A row that is missing in ``after`` is None.
    """
    changed = {}
    pairs = zip_longest((row for _, row in before), (row for _, row in after))
    for number, (old_row, row) in enumerate(pairs, start=1):
        if msgspec.json.encode(old_row) != msgspec.json.encode(row):
            changed[number] = row
    return changed


def items(numbers: Iterable[int]) -> str:
    """Return a list of the first numbers of rows, such as "items 1, 2 and 5 more"."""
    numbers = list(numbers)
    return f"item{'s' * (len(numbers) != 1)} {first_few(list(map(str, numbers)), MAX_LISTED)}"
