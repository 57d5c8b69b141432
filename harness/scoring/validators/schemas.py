"""Schemas: their draft, limits and keywords; and violations, whichever engine found them."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterator, Sequence
from decimal import Decimal
from typing import Any, Literal

from msgspec import Struct
from msgspec.structs import asdict

from harness.errors import DataInvalid, HarnessError
from harness.records import Score, encodable
from harness.scoring import cut
from harness.scoring.validators import limits
from harness.scoring.validators.limits import UnparseableDocument, follow, resolve

Draft = Literal["4", "6", "7", "2019-09", "2020-12"]
DRAFTS: tuple[Draft, ...] = ("4", "6", "7", "2019-09", "2020-12")
Path = tuple[str | int, ...]

MOST_VALUES = 50_000
"""Values in a schema; the largest of 200 real ones has 277."""

_URIS: dict[str, Draft] = {
    f"json-schema.org/{'draft-0' if len(draft) == 1 else 'draft/'}{draft}/schema": draft
    for draft in DRAFTS
}
MAPS = frozenset(
    ["$defs", "definitions", "dependencies", "dependentSchemas", "patternProperties", "properties"]
)
"""Keywords whose members have names of the user's."""
_NOTHING = object()


class Undecided(HarnessError):
    """Whether a document is valid cannot be decided in bounded time: no verdict, and not 0."""


def draft_of(schema: Any, default: Draft) -> Draft:
    """Return the draft that ``$schema`` names, else the default."""
    uri = schema.get("$schema") if isinstance(schema, dict) else None
    if uri is None:
        return default
    if isinstance(uri, str):
        bare = uri.strip().removesuffix("#").removeprefix("https://").removeprefix("http://")
        if bare in _URIS:
            return _URIS[bare]
    raise DataInvalid(
        f"The schema's $schema is {str(uri)[:80]!r}, which is not a supported draft.",
        f"Supported are drafts {', '.join(DRAFTS)}; without $schema the configured one applies.",
    )


def check_schema(schema: Any) -> int:
    """Count a schema's values; refuse what is not a schema, or exceeds the limits."""
    try:
        if not isinstance(schema, (dict, bool)):
            kind = type(schema).__name__
            raise UnparseableDocument(f"it is a {kind}, not an object or a boolean")
        if (count := limits.check_json(schema)) > MOST_VALUES:
            raise UnparseableDocument(f"it has more than {MOST_VALUES:,} values")
        return count
    except UnparseableDocument as error:
        raise DataInvalid(f"This is not a JSON Schema: {error}.", "Fix the schema.") from None


def check_work(values: int, value: Any, most: int) -> None:
    """Raise Undecided if comparing each value of a schema with each of a document takes too long.

    Sixteen characters of the document count as one value.
    """
    if values * (limits.MOST_NODES + limits.MOST_CHARACTERS // 16) <= most:  # of any document
        return
    nodes, characters, _ = measured(value)
    if values * (nodes + characters // 16) > most:
        size = f"{nodes:,} values and {characters:,} characters"
        raise Undecided(f"A document of {size} is too much for a schema of {values:,} values.")


def measured(value: Any) -> tuple[int, int, int]:
    """Return a document's number of values, its characters and its depth."""
    nodes = characters = depth = 0
    for depth, level in enumerate(limits.levels(value, math.inf)):
        if depth > 2 * limits.DEEPEST:
            raise Undecided(f"The document is nested deeper than {2 * limits.DEEPEST} levels.")
        nodes += len(level)
        characters += sum(map(len, limits.strings(level)))
    return nodes, characters, depth


def keyword_at(path: Sequence[str | int]) -> str | None:
    """Return the keyword at the end of a path; None for a member's name or an index.

    >>> keyword_at(["properties", "items", "items", 0, "type"])
    'type'
    """
    keyword: str | None = None
    for token in path:
        keyword = None if keyword in MAPS or isinstance(token, int) else token
    return keyword


def parts(schema: Any) -> Iterator[tuple[Path, dict[str, Any]]]:
    """Yield each object within a schema with its path, the schema itself first."""
    stack: list[tuple[Path, Any]] = [((), schema)]
    while stack:
        path, one = stack.pop()
        if isinstance(one, dict):
            yield path, one
            stack.extend(((*path, key), below) for key, below in one.items())
        elif isinstance(one, list):
            stack.extend(((*path, index), below) for index, below in enumerate(one))


def last_name(uri: str) -> str:
    """Return the last part of a URI, without the fragment's mark."""
    return uri.removesuffix("#").rstrip("/").rsplit("/", 1)[-1]


def embedded(schema: Any) -> list[tuple[Path, str]]:
    """Return the paths of parts that have an ``$id``, and the last part of that."""
    found = ((path, one.get("$id", one.get("id"))) for path, one in parts(schema) if path)
    return [(path, last_name(uri)) for path, uri in found if isinstance(uri, str)]


def path_within(
    schema: Any, path: Sequence[str | int], inside: Sequence[tuple[Path, str]], uri: str | None
) -> Path:
    """Return a keyword's path from the root: engines begin paths at the embedded part it is in.

    That part is known from the keyword's URI, if the engine gives it; else it is the first one of
    those ``inside`` in which there is such a path.
    """
    name = last_name((uri or "").partition("#")[0])
    starts = [start for start, own in inside if uri and own == name]
    places = ((*start, *path) for start in (*starts, (), *(start for start, _ in inside)))
    found = (one for one in places if follow(schema, one, missing=_NOTHING) is not _NOTHING)
    return next(found, tuple(path))


def path_referred(reference: str, target: Any, schema: Any) -> Path | None:
    """Return the path to the target of a reference, or None if it is outside the schema."""
    found = resolve(reference[1:], schema) if reference.startswith("#") else None
    if found and found[1] is target:
        return found[0]
    return next((path for path, one in parts(schema) if one is target), None)


_PYTHON_TYPES: dict[str, Any] = {
    "null": type(None),
    "boolean": bool,  # before numbers, which Python's are
    "number": (int, float, Decimal),
    "string": str,
    "array": list,
    "object": dict,
}
ALL = frozenset(_PYTHON_TYPES)
"""The types of JSON."""


def type_of(value: Any) -> str:
    """Return a value's type as JSON Schema names it, with integers as numbers."""
    found = (name for name, kind in _PYTHON_TYPES.items() if isinstance(value, kind))
    return next(found, type(value).__name__)


LONGEST_VALUE = 120
"""Characters of a value in a violation."""
LONGEST_REASON = 300
"""Characters of a score's reason."""
MOST_IN_REASON = 3
MOST_IN_DETAILS = 20
"""Violations that are kept one by one; their keywords are counted for all."""

_MESSAGES = {
    "type": "{found} is not of type {expected}",
    "required": "the member {expected} is missing",
    "additionalProperties": "members beyond the schema's: {found}",
    "unevaluatedProperties": "members beyond the schema's: {found}",
    "additionalItems": "more items than the schema has",
    "unevaluatedItems": "items beyond the schema's",
    "minimum": "{found} is less than {expected}",
    "exclusiveMinimum": "{found} is not more than {expected}",
    "maximum": "{found} is more than {expected}",
    "exclusiveMaximum": "{found} is not less than {expected}",
    "multipleOf": "{found} is no multiple of {expected}",
    "minLength": "{found} is shorter than {expected} characters",
    "maxLength": "{found} is longer than {expected} characters",
    "format": "{found} is no {expected}",
    "pattern": "{found} does not match {expected}",
    "minItems": "fewer than {expected} items",
    "maxItems": "more than {expected} items",
    "uniqueItems": "items come twice",
    "contains": "no item is as contains asks",
    "minContains": "fewer than {expected} items are as contains asks",
    "maxContains": "more than {expected} items are as contains asks",
    "minProperties": "fewer than {expected} members",
    "maxProperties": "more than {expected} members",
    "const": "{found} is not {expected}",
    "enum": "{found} is none of {expected}",
    "falseSchema": "nothing is allowed here",
    "anyOf": "{found} is as none of the alternatives asks",
    "oneOf": "{found} is not as exactly one of the alternatives asks",
    "not": "{found} is what it must not be",
}
"""Models are sent these as feedback: the wording does not change."""


class Violation(Struct, frozen=True):
    """A keyword that a value breaks (``falseSchema`` for a schema that is plain false).

    ``expected`` is the keyword's value as JSON and ``found`` the document's, both cut if long.
    ``path`` is a JSON pointer to the value and ``schema_path`` one to the keyword, with references
    followed; both are empty for the whole, ``schema_path`` also for a keyword of a meta-schema.
    """

    path: str
    keyword: str
    expected: str
    found: str
    schema_path: str = ""

    @property
    def message(self) -> str:
        """A short description, with the path."""
        form = _MESSAGES.get(self.keyword, "{keyword} is violated")
        text = form.format(keyword=self.keyword, expected=self.expected, found=self.found)
        return f"{self.path}: {text}" if self.path else text


def score(violations: Sequence[Violation]) -> Score:
    """Score a document with these violations."""
    if not violations:
        return Score(value=True, passed=True)
    first = [one.message for one in violations[:MOST_IN_REASON]]
    if len(violations) > MOST_IN_REASON:
        first.append(f"and {len(violations) - MOST_IN_REASON:,} more")
    errors = [
        {name: cut(text, 200) for name, text in asdict(one).items()}
        for one in violations[:MOST_IN_DETAILS]
    ]
    keywords = dict(Counter(one.keyword[:60] for one in violations))
    details = {"errors": errors, "keywords": keywords, "n_errors": len(violations)}
    return Score(False, False, cut("; ".join(first), LONGEST_REASON), details)


def root_type_violated(value: Any, schema: Any) -> bool:
    """Return whether a document's root is not of the schema's ``type``: the RTV% of ConCodeEval.

    Integer and float are one type. A schema without a type is never violated.
    """
    named = schema.get("type") if isinstance(schema, dict) else None
    if named is None:
        return False
    names = named if isinstance(named, (list, tuple)) else [named]
    return type_of(value) not in {"number" if name == "integer" else name for name in names}


def shown(value: Any, longest: int = LONGEST_VALUE) -> str:
    """Format a value as JSON on one line, writing no more of it than is shown."""
    text = ""
    for piece in _pieces(value, longest):
        text += piece
        if len(text) > longest:
            break
    return cut(encodable(text), longest)


def _pieces(value: Any, longest: int) -> Iterator[str]:
    if isinstance(value, str):
        yield json.dumps(value[: longest + 1], ensure_ascii=False)
    elif isinstance(value, (dict, list, tuple)):
        opening, closing = "{}" if isinstance(value, dict) else "[]"
        yield opening
        for number, key in enumerate(value):
            yield ", " if number else ""
            if isinstance(value, dict):
                yield json.dumps(key[: longest + 1] if isinstance(key, str) else str(key)) + ": "
            yield from _pieces(value[key] if isinstance(value, dict) else key, longest)
        yield closing
    elif value is None or isinstance(value, bool):
        yield json.dumps(value)
    elif isinstance(value, int) and value.bit_length() >= 10_000:
        yield "an integer of thousands of digits"  # Python writes at most 4,300
    else:
        yield str(value)[: longest + 1]
