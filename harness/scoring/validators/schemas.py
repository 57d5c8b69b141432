"""JSON Schemas (their drafts, limits and keywords), and the violations that the engines report."""

from __future__ import annotations

import json
import math
import pathlib
from collections import Counter
from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from typing import Any, Literal

from msgspec import Struct
from msgspec.structs import asdict

from harness.errors import DataInvalid, HarnessError
from harness.records import Score, replace_surrogates
from harness.scoring.validators import limits
from harness.scoring.validators.limits import UnparseableDocument, follow
from harness.wording import truncate

Draft = Literal["4", "6", "7", "2019-09", "2020-12"]
DRAFTS: tuple[Draft, ...] = ("4", "6", "7", "2019-09", "2020-12")
Path = tuple[str | int, ...]

MOST_VALUES = 50_000  # maximum values in a schema; the largest of 200 real ones has 277

_URIS: dict[str, Draft] = {
    f"json-schema.org/{'draft-0' if len(draft) == 1 else 'draft/'}{draft}/schema": draft
    for draft in DRAFTS
}
MAPS = frozenset(
    ["$defs", "definitions", "dependencies", "dependentSchemas", "patternProperties", "properties"]
)
"""JSON Schema keywords whose value maps user-defined names."""
_NOTHING = object()


class Undecided(HarnessError):
    """Validity cannot be decided in bounded time, so there is no verdict."""


def draft_of(schema: Any, default: Draft) -> Draft:
    """Return the draft that ``$schema`` names, or ``default`` for a schema without it.

    Raises:
        DataInvalid: If the draft is not supported.
    """
    uri = schema.get("$schema") if isinstance(schema, dict) else None
    if uri is None:
        return default
    bare = str(uri).strip().removesuffix("#").removeprefix("https://").removeprefix("http://")
    if bare in _URIS:
        return _URIS[bare]
    raise DataInvalid(
        f"The schema's $schema is {str(uri)[:80]!r}, which is not a supported draft.",
        f"Supported are drafts {', '.join(DRAFTS)}; without $schema the configured one applies.",
    )


def check_schema(schema: Any) -> int:
    """Check a schema, and return the number of values in it.

    Raises:
        DataInvalid: If the schema is too large, is not JSON, or is neither an object nor a boolean.
    """
    try:
        if not isinstance(schema, (dict, bool)):
            kind = type(schema).__name__
            raise UnparseableDocument(f"it is a {kind}, not an object or a boolean")
        if (count := limits.check_json(schema)) > MOST_VALUES:
            raise UnparseableDocument(f"it has more than {MOST_VALUES:,} values")
        return count
    except UnparseableDocument as error:
        raise DataInvalid(f"This is not a JSON Schema: {error}.", "Fix the schema.") from None


def check_work(values: int, value: Any, limit: int) -> None:
    """Raise Undecided if validating a document is too much work.

    The work is the number of ``values`` in the schema times that in the document, where 16
    characters count as a value. ``limit`` is the maximum.
    """
    if values * (limits.MOST_NODES + limits.MOST_CHARACTERS // 16) <= limit:  # any document is fine
        return
    nodes, characters, _ = measured(value)
    if values * (nodes + characters // 16) > limit:
        size = f"{nodes:,} values and {characters:,} characters"
        raise Undecided(f"A document of {size} is too much for a schema of {values:,} values.")


def measured(value: Any) -> tuple[int, int, int]:
    """Return a document's numbers of values and characters, and its depth.

    Raises:
        Undecided: If the document is nested too deeply.
    """
    nodes = characters = depth = 0
    for depth, level in enumerate(limits.levels(value, math.inf)):
        if depth > 2 * limits.DEEPEST:
            raise Undecided(f"The document is nested deeper than {2 * limits.DEEPEST} levels.")
        nodes += len(level)
        characters += sum(map(len, limits.strings(level)))
    return nodes, characters, depth


def keyword_at(path: Sequence[str | int]) -> str | None:
    """Return the keyword at the end of a path in a schema, or None if the end is not a keyword."""
    keyword: str | None = None
    for token in path:
        keyword = None if keyword in MAPS or isinstance(token, int) else token
    return keyword


def parts(schema: Any) -> Iterator[tuple[Path, dict[str, Any]]]:
    """Yield the path and the value of each object in a schema, including the root."""
    stack: list[tuple[Path, Any]] = [((), schema)]
    while stack:
        path, part = stack.pop()
        if isinstance(part, dict):
            yield path, part
            stack.extend(((*path, key), below) for key, below in part.items())
        elif isinstance(part, list):
            stack.extend(((*path, index), below) for index, below in enumerate(part))


def features(schema: Any) -> tuple[str, ...]:
    """Return descriptions of a JSON Schema's distinct features, such as its root type."""
    root = schema.get("type", "any") if isinstance(schema, dict) else schema
    return (f"root: {root}", *sorted(set(_keywords(schema, 0))))


def _keywords(schema: Any, depth: int) -> Iterator[str]:
    if isinstance(schema, list) and depth <= limits.DEEPEST:
        for member in schema:
            yield from _keywords(member, depth + 1)
    if not isinstance(schema, dict) or depth > limits.DEEPEST:
        return
    for keyword, value in schema.items():
        yield str(keyword)
        if keyword == "format":
            yield f"format: {value}"
        elif keyword in (*MAPS, "dependentRequired") and isinstance(value, dict):
            yield from _keywords(list(value.values()), depth + 1)
        elif keyword not in ("const", "enum", "default", "examples"):
            yield from _keywords(value, depth + 1)


_HOLDERS, _CONDITIONS, _ANNOTATIONS = (
    frozenset(names.split())
    for names in (
        # Their value is a schema or a list of schemas.
        "additionalItems additionalProperties allOf anyOf contains contentSchema else if items not "
        "oneOf prefixItems propertyNames then unevaluatedItems unevaluatedProperties",
        "const dependencies dependentRequired dependentSchemas enum exclusiveMaximum "
        "exclusiveMinimum format maxContains maxItems maxLength maxProperties maximum minContains "
        "minItems minLength minProperties minimum multipleOf pattern patternProperties properties "
        "required type uniqueItems",
        "contentEncoding contentMediaType default definitions deprecated description examples id "
        "readOnly title writeOnly",
    )
)
_ASSERTIONS = _HOLDERS | _CONDITIONS
_KEYWORDS = {one.lower(): one for one in _ASSERTIONS | _ANNOTATIONS}


def misspelt(schema: Any) -> dict[str, str]:
    """Return the unknown keywords of a schema that resemble keywords that decide validity.

    The standard ignores unknown keywords. Of 700 real schemas, 10 have such a keyword.

    >>> misspelt({"requird": ["a"], "properties": {"requird": {"minimun": 1, "x-unit": "m"}}})
    {'requird': 'required', 'minimun': 'minimum'}
    """
    meanings: dict[str, str] = {}
    for subschema in _schemas(schema, 0):
        for keyword in subschema:
            unknown = keyword not in _ASSERTIONS | _ANNOTATIONS
            if unknown and (meant := _resembling(keyword)) in _ASSERTIONS:
                meanings[keyword] = meant
    return meanings


def _resembling(keyword: str) -> str:
    """Return the known keyword that an unknown one resembles, or ""."""
    if keyword.startswith(("x-", "$", "_")):  # "_format" is a way to switch "format" off
        return ""
    written = keyword.lower()
    close = get_close_matches(written, _KEYWORDS, n=1, cutoff=0.85)
    close = close or [word for word in _KEYWORDS if sorted(word) == sorted(written)]
    # Shorter keywords resemble other words: "note" is not "not".
    return _KEYWORDS[close[0]] if close and len(close[0]) > 3 else ""


def _schemas(schema: Any, depth: int) -> Iterator[dict[str, Any]]:
    """Yield a schema and those in it, except boolean ones."""
    if isinstance(schema, list) and depth <= limits.DEEPEST:
        for member in schema:
            yield from _schemas(member, depth + 1)
    if not isinstance(schema, dict) or depth > limits.DEEPEST:
        return
    yield schema
    for keyword, value in schema.items():
        if keyword in MAPS and isinstance(value, dict):
            yield from _schemas(list(value.values()), depth + 1)
        elif keyword in _HOLDERS:
            yield from _schemas(value, depth + 1)


def last_name(uri: str) -> str:
    """Return the last part of a URI's path."""
    return uri.removesuffix("#").rstrip("/").rsplit("/", 1)[-1]


def embedded(schema: Any) -> list[tuple[Path, str]]:
    """Return the path and the last part of the id of each embedded schema."""
    ids = ((path, part.get("$id", part.get("id"))) for path, part in parts(schema) if path)
    return [(path, last_name(uri)) for path, uri in ids if isinstance(uri, str)]


def path_within(
    schema: Any, path: Sequence[str | int], inside: Sequence[tuple[Path, str]], uri: str | None
) -> Path:
    """Return a keyword's path from the root of a schema, given its path in an embedded schema.

    ``inside`` lists the embedded schemas, and ``uri`` may identify one of them. Otherwise, the path
    starts at the first schema in which it exists. A path that exists in none is returned unchanged.
    """
    name = last_name((uri or "").partition("#")[0])
    identified = [start for start, embedded_name in inside if embedded_name == name]
    starts = [*(identified if uri else ()), (), *(start for start, _ in inside)]
    for start in starts:
        whole_path = (*start, *path)
        if follow(schema, whole_path, missing=_NOTHING) is not _NOTHING:
            return whole_path
    return tuple(path)


LONGEST_VALUE = 120  # maximum characters of a value in a violation
LONGEST_REASON = 300  # maximum characters of a score's reason
MOST_IN_REASON = 3
MOST_IN_DETAILS = 20  # maximum violations listed in details, where keywords are counted over all

_WORDING = pathlib.Path(__file__).with_name("messages.json")
_MESSAGES: dict[str, str] = json.loads(_WORDING.read_text("utf-8"))
"""Maps keywords to messages. Models get them as feedback, so the wording must not change."""


class Violation(Struct, frozen=True):
    """A violated keyword (``falseSchema`` for the schema ``false``), with JSON pointers.

    ``path`` points to the document's value (empty: the root), and ``schema_path`` to the keyword
    (empty if it belongs to a meta-schema). ``found`` is the document's value, and ``expected`` the
    keyword's value. Both are JSON, cut if long.
    """

    path: str
    keyword: str
    expected: str
    found: str
    schema_path: str = ""

    @property
    def message(self) -> str:
        """A short description for feedback, with the path unless it is the root."""
        form = _MESSAGES.get(self.keyword, "{keyword} is violated")
        text = form.format(keyword=self.keyword, expected=self.expected, found=self.found)
        return f"{self.path}: {text}" if self.path else text


def score(violations: Sequence[Violation]) -> Score:
    """Return a document's score, with the first violations as the reason."""
    if not violations:
        return Score(value=True, passed=True)
    first = [violation.message for violation in violations[:MOST_IN_REASON]]
    if len(violations) > MOST_IN_REASON:
        first.append(f"and {len(violations) - MOST_IN_REASON:,} more")
    errors = [
        {name: truncate(text, 200) for name, text in asdict(violation).items()}
        for violation in violations[:MOST_IN_DETAILS]
    ]
    keywords = dict(Counter(violation.keyword[:60] for violation in violations))
    details = {"errors": errors, "keywords": keywords, "n_errors": len(violations)}
    return Score(False, False, truncate("; ".join(first), LONGEST_REASON), details)


def value_text(value: Any) -> str:
    """Return a value as JSON on one line, cut to `LONGEST_VALUE` characters."""
    text = ""
    for piece in _pieces(value):
        text += piece
        if len(text) > LONGEST_VALUE:
            break
    return truncate(replace_surrogates(text), LONGEST_VALUE)


def _pieces(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield json.dumps(value[: LONGEST_VALUE + 1], ensure_ascii=False)
    elif isinstance(value, (dict, list, tuple)):
        opening, closing = "{}" if isinstance(value, dict) else "[]"
        yield opening
        for number, key in enumerate(value):
            yield ", " if number else ""
            if isinstance(value, dict):
                name = key[: LONGEST_VALUE + 1] if isinstance(key, str) else str(key)
                yield f"{json.dumps(name)}: "
            yield from _pieces(value[key] if isinstance(value, dict) else key)
        yield closing
    elif value is None or isinstance(value, bool):
        yield json.dumps(value)
    elif isinstance(value, int) and value.bit_length() >= 10_000:
        yield "an integer of thousands of digits"  # Python writes at most 4,300
    else:
        yield str(value)[: LONGEST_VALUE + 1]
