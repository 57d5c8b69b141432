"""Reading a user's rows: JSONL (also ``.gz``), JSON, YAML, CSV and TSV.

What is read is foreign data: what is malformed, empty or out of proportion is refused with file
and item named, before any call is made.

>>> [row["id"] for _, row in rows(Path("mine.jsonl"))]  # doctest: +SKIP
['1', '2']
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from harness.datasets.folder import read_jsonl
from harness.errors import DataInvalid, DataMissing

MOST_PARTS = 1_000_000
"""Most values in a row: a few lines of YAML aliases can name billions."""
MAX_DEPTH = 100
LISTS = (".yaml", ".yml", ".json")
TABLES = {".csv": ",", ".tsv": "\t"}

Row = dict[str, Any]


def rows(path: Path) -> Iterator[tuple[str, Row]]:
    """The rows of a file, each with what a message calls its place.

    Raises: DataInvalid; DataMissing where it cannot be read.
    """
    suffix = path.suffix.lower()
    if suffix in LISTS:
        found = _listed(path)
    elif suffix in TABLES:
        found = _table(path, TABLES[suffix])
    else:
        found = read_jsonl(path)
    number = 0
    for number, row in enumerate(found, start=1):
        where = f"{path}, item {number}"
        _refuse_excess(row, where)
        yield where, row
    if not number:
        raise DataInvalid(f"{path} holds no items.", "Write a JSON object on each line.")


def _listed(path: Path) -> Iterator[Row]:
    for number, row in enumerate(_parsed(path), start=1):
        if not isinstance(row, dict) or not all(isinstance(key, str) for key in row):
            raise DataInvalid(f"{path}, item {number}: must be a mapping of names to values.")
        yield row


def _parsed(path: Path) -> list[Any]:
    """The list in a file; ``{"examples": […]}``, as BIG-bench has it, is one too."""
    content = _text(path)
    if path.suffix.lower() == ".json":
        import msgspec

        try:
            tree = msgspec.json.decode(content)
        except (msgspec.MsgspecError, RecursionError) as error:
            raise DataInvalid(f"{path}: not JSON ({error}).") from None
    else:
        import yaml

        try:
            tree = yaml.load(content, _loader())  # noqa: S506 (a SafeLoader)
        except (yaml.YAMLError, RecursionError, ValueError, OverflowError) as error:
            said = " ".join(str(error).split())
            raise DataInvalid(f"{path}: not YAML ({said:.300}).") from None
    if isinstance(tree, dict) and isinstance(tree.get("examples"), list):
        tree = tree["examples"]
    if not isinstance(tree, list):
        raise DataInvalid(f"{path}: must be a list of items.", "Begin each with '- '.")
    return tree


@cache
def _loader() -> Any:
    """YAML in which only true and false are these: an answer may be yes, no, on or off."""
    import yaml

    class Loader(yaml.SafeLoader):
        yaml_implicit_resolvers = {  # noqa: RUF012 (a table of PyYAML's)
            first: [(tag, regexp) for tag, regexp in found if tag != "tag:yaml.org,2002:bool"]
            for first, found in yaml.SafeLoader.yaml_implicit_resolvers.items()
        }

    Loader.add_implicit_resolver(
        "tag:yaml.org,2002:bool", re.compile("^(?:true|True|TRUE|false|False|FALSE)$"), [*"tTfF"]
    )
    return Loader


def _table(path: Path, delimiter: str) -> Iterator[Row]:
    reader = csv.reader(_text(path).splitlines(keepends=True), delimiter=delimiter, strict=True)
    try:
        names = next(reader, [])
        if len(set(names)) < len(names) or not all(names):
            raise DataInvalid(f"{path}, line 1: columns must have names, each its own.")
        for values in reader:
            if not values:
                continue
            if len(values) != len(names):
                raise DataInvalid(
                    f"{path}, line {reader.line_num}: {len(values)} values for {len(names)} "
                    "columns."
                )
            yield dict(zip(names, values, strict=True))
    except csv.Error as error:
        raise DataInvalid(f"{path}, line {reader.line_num}: {error}.") from None


def _text(path: Path) -> str:
    try:
        return path.read_text("utf-8-sig")  # spreadsheets write a mark before the first name
    except UnicodeDecodeError as error:
        raise DataInvalid(f"{path}: not a text in UTF-8 ({error.reason}).") from None
    except OSError as error:
        raise DataMissing(
            f"Cannot read {path}: {error.strerror}.", "Check the path and its permissions."
        ) from None


def _refuse_excess(row: Row, where: str) -> None:
    parts = 0
    pending: list[tuple[object, int]] = [(row, 1)]
    while pending:
        value, depth = pending.pop()
        parts += 1
        if depth > MAX_DEPTH:
            raise DataInvalid(f"{where} is nested more than {MAX_DEPTH} deep.")
        if parts > MOST_PARTS:
            raise DataInvalid(f"{where} has more than {MOST_PARTS:,} values.")
        if isinstance(value, dict):
            pending += ((part, depth + 1) for part in value.values())
        elif isinstance(value, list):
            pending += ((part, depth + 1) for part in value)
