"""Rows of tables as documents."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from harness.builders.loaders._files import LARGEST, with_plain_ends
from harness.errors import nearest
from harness.records import Document

MOST_ABOUT = 8
"""Facts that are kept of a row."""
LONGEST_FACT = 200
"""Characters of one."""


def document(name: str, row: Mapping[str, Any], column: str) -> Document:
    """A row as a document: its text, and short facts of its other columns."""
    if column not in row:
        remedy = nearest(column, map(str, row))
        return Document(name, "", problem=f"has no column {column!r}. {remedy}".strip())
    text = row[column]
    facts = [
        (key, value)
        for key, value in row.items()
        if key != column and isinstance(value, str | int) and len(str(value)) <= LONGEST_FACT
    ]
    about = dict(facts[:MOST_ABOUT])
    if not isinstance(text, str):
        return Document(name, "", about, f"{column!r} is no text")
    if len(text) > LARGEST:
        return Document(name, "", about, f"more than {LARGEST:,} characters")
    return Document(name, with_plain_ends(text), about)
