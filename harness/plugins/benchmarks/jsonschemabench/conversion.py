"""Converts JSONSchemaBench's published archive into the file that the harness reads."""

import re
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any

import msgspec

from harness.datasets.catalogue import decoded, members


class _Labelled(msgspec.Struct):
    data: Any
    valid: bool
    description: str = ""


class _Schema(msgspec.Struct):
    schema: Any
    tests: list[_Labelled] = []


def write_schemas(archive: Path, folder: str) -> Iterator[bytes]:
    """Yield the lines of ``jsonschemabench/schemas.jsonl``, made from a folder in an archive."""
    suits = re.compile(rf"{re.escape(folder)}/[^/]+\.json").fullmatch
    for name, content in members(archive, suits):
        found = decoded(content, _Schema, f"{archive}: {name} is not a file with a schema")
        stem = PurePosixPath(name).stem
        # ``DATASET---NAME.json`` or, in two data sets, ``DATASET_NAME.json``
        source = stem.split("---" if "---" in stem else "_")[0]
        row = {"name": stem, "dataset": source, "schema": found.schema}
        yield msgspec.json.encode(row | {"instances": found.tests}) + b"\n"
