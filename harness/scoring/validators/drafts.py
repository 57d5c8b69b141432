"""The drafts of JSON Schema, and which one a schema is written in."""

from __future__ import annotations

from typing import Any, Literal

from harness.errors import DataInvalid

Draft = Literal["4", "6", "7", "2019-09", "2020-12"]
DRAFTS: tuple[Draft, ...] = ("4", "6", "7", "2019-09", "2020-12")

_NAMED: dict[str, Draft] = {
    "json-schema.org/draft-04/schema": "4",
    "json-schema.org/draft-06/schema": "6",
    "json-schema.org/draft-07/schema": "7",
    "json-schema.org/draft/2019-09/schema": "2019-09",
    "json-schema.org/draft/2020-12/schema": "2020-12",
}


def draft_of(schema: Any, default: Draft) -> Draft:
    """The draft that ``$schema`` names, else the default.

    Raises: DataInvalid for a draft that is not among these, whose rules nobody here knows.

    >>> draft_of({"$schema": "http://json-schema.org/draft-07/schema#"}, "2020-12")
    '7'
    """
    named = schema.get("$schema") if isinstance(schema, dict) else None
    if named is None:
        return default
    if isinstance(named, str):
        plain = named.strip().removesuffix("#").removeprefix("https://").removeprefix("http://")
        if plain in _NAMED:
            return _NAMED[plain]
    raise DataInvalid(
        f"The schema's $schema is {str(named)[:80]!r}, no draft that is known here.",
        f"Known are drafts {', '.join(DRAFTS)}; without $schema the configured one is taken.",
    )
