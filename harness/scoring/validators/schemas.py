"""JSON Schemas (their drafts, limits and keywords), and the violations that the engines report."""

from __future__ import annotations

import json
import math
import pathlib
from collections import Counter
from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from typing import Any, Literal, NamedTuple

from msgspec import Struct
from msgspec.structs import asdict

from harness.errors import DataInvalid, HarnessError
from harness.records import Score, replace_surrogates
from harness.scoring.validators import limits
from harness.scoring.validators.limits import UnparseableDocument, value_at
from harness.wording import truncate

Draft = Literal["4", "6", "7", "2019-09", "2020-12"]
DRAFTS: tuple[Draft, ...] = ("4", "6", "7", "2019-09", "2020-12")
Path = tuple[str | int, ...]

MAX_SCHEMA_VALUES = 50_000  # maximum values in a schema; the largest of 200 real ones has 277

_DRAFT_BY_URI: dict[str, Draft] = {
    f"json-schema.org/{'draft-0' if len(draft) == 1 else 'draft/'}{draft}/schema": draft
    for draft in DRAFTS
}
NAME_MAPS = frozenset(
    ["$defs", "definitions", "dependencies", "dependentSchemas", "patternProperties", "properties"]
)
"""JSON Schema keywords whose value maps user-defined names."""
_MISSING = object()


class Undecided(HarnessError):
    """Validity cannot be decided in bounded time, so there is no verdict."""


def schema_draft(schema: Any, default: Draft) -> Draft:
    """Return the draft that ``$schema`` names, or ``default`` for a schema without it.

    Raises:
        DataInvalid: If the draft is not supported.
    """
    uri = schema.get("$schema") if isinstance(schema, dict) else None
    if uri is None:
        return default
    bare = str(uri).strip().removesuffix("#").removeprefix("https://").removeprefix("http://")
    if bare in _DRAFT_BY_URI:
        return _DRAFT_BY_URI[bare]
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
        count = limits.check_json(schema)
        if count > MAX_SCHEMA_VALUES:
            raise UnparseableDocument(f"it has more than {MAX_SCHEMA_VALUES:,} values")
        return count
    except UnparseableDocument as error:
        raise DataInvalid(f"This is not a JSON Schema: {error}.", "Fix the schema.") from None


def check_work(schema_values: int, document: Any, limit: int) -> None:
    """Check that a document can be validated with a limited amount of work.

    Args:
        schema_values: The number of values in the schema.
        document: The value of the document.
        limit: Maximum product of the numbers of values in the schema and in the document, where 16
            characters of the document count as a value.

    Raises:
        Undecided: If it cannot, or if the document is nested too deeply.
    """
    largest = limits.MAX_VALUES + limits.MAX_DOCUMENT_CHARS // 16
    if schema_values * largest <= limit:
        return
    size = document_size(document)
    if schema_values * (size.values + size.characters // 16) > limit:
        described = f"{size.values:,} values and {size.characters:,} characters"
        problem = f"A document of {described} is too much for a schema of"
        raise Undecided(f"{problem} {schema_values:,} values.")


class DocumentSize(NamedTuple):
    """The numbers of values and characters in a document, and its depth in levels."""

    values: int
    characters: int
    depth: int


def document_size(document: Any) -> DocumentSize:
    """Measure a document.

    Raises:
        Undecided: If it is nested too deeply.
    """
    values = 0
    characters = 0
    depth = 0
    for depth, level in enumerate(limits.iter_levels(document, math.inf)):
        if depth > 2 * limits.MAX_DEPTH:
            raise Undecided(f"The document is nested deeper than {2 * limits.MAX_DEPTH} levels.")
        values += len(level)
        characters += sum(map(len, limits.iter_strings(level)))
    return DocumentSize(values, characters, depth)


def last_keyword(path: Sequence[str | int]) -> str | None:
    """Return the last token of a path in a schema if it is a keyword, or None if it is a name."""
    keyword: str | None = None
    for token in path:
        keyword = None if keyword in NAME_MAPS or isinstance(token, int) else token
    return keyword


def iter_objects(schema: Any) -> Iterator[tuple[Path, dict[str, Any]]]:
    """Yield the path and the value of each object in a schema, including the root."""
    stack: list[tuple[Path, Any]] = [((), schema)]
    while stack:
        path, node = stack.pop()
        if isinstance(node, dict):
            yield path, node
            stack.extend(((*path, key), member) for key, member in node.items())
        elif isinstance(node, list):
            stack.extend(((*path, index), item) for index, item in enumerate(node))


def schema_features(schema: Any) -> tuple[str, ...]:
    """Return descriptions of a JSON Schema's distinct features, such as its root type."""
    root = schema.get("type", "any") if isinstance(schema, dict) else schema
    return (f"root: {root}", *sorted(set(_iter_keywords(schema, 0))))


def _iter_keywords(schema: Any, depth: int) -> Iterator[str]:
    """Yield the keywords of a schema and its subschemas, and their formats."""
    if isinstance(schema, list) and depth <= limits.MAX_DEPTH:
        for member in schema:
            yield from _iter_keywords(member, depth + 1)
    if not isinstance(schema, dict) or depth > limits.MAX_DEPTH:
        return
    for keyword, value in schema.items():
        yield str(keyword)
        if keyword == "format":
            yield f"format: {value}"
        elif keyword in (*NAME_MAPS, "dependentRequired") and isinstance(value, dict):
            yield from _iter_keywords(list(value.values()), depth + 1)
        elif keyword not in ("const", "enum", "default", "examples"):
            yield from _iter_keywords(value, depth + 1)


_WITH_SCHEMAS = """
    additionalItems additionalProperties allOf anyOf contains contentSchema else if items not oneOf
    prefixItems propertyNames then unevaluatedItems unevaluatedProperties
"""
_WITHOUT_SCHEMAS = """
    const dependencies dependentRequired dependentSchemas enum exclusiveMaximum exclusiveMinimum
    format maxContains maxItems maxLength maxProperties maximum minContains minItems minLength
    minProperties minimum multipleOf pattern patternProperties properties required type uniqueItems
"""
_ANNOTATIONS = """
    contentEncoding contentMediaType default definitions deprecated description examples id
    readOnly title writeOnly
"""
_SCHEMA_HOLDERS = frozenset(_WITH_SCHEMAS.split())  # their value is a schema or a list of schemas
_ASSERTIONS = _SCHEMA_HOLDERS.union(_WITHOUT_SCHEMAS.split())
_STANDARD_KEYWORDS = _ASSERTIONS.union(_ANNOTATIONS.split())
_KEYWORDS = {keyword.lower(): keyword for keyword in _STANDARD_KEYWORDS}


def misspelt_keywords(schema: Any) -> dict[str, str]:
    """Return the unknown keywords of a schema that resemble keywords that decide validity.

    The standard ignores unknown keywords. Of 700 real schemas, 10 have such a keyword.

    Returns:
        The keyword that is probably meant, by the unknown keyword.

    >>> misspelt_keywords({"requird": ["a"], "properties": {"a": {"minimun": 1, "x-unit": "m"}}})
    {'requird': 'required', 'minimun': 'minimum'}
    """
    meanings: dict[str, str] = {}
    for subschema in _iter_subschemas(schema, 0):
        for keyword in subschema:
            if keyword in _STANDARD_KEYWORDS:
                continue
            meant = _resembled_keyword(keyword)
            if meant in _ASSERTIONS:
                meanings[keyword] = meant
    return meanings


def _resembled_keyword(keyword: str) -> str:
    """Return the standard keyword that an unknown keyword resembles, or ""."""
    if keyword.startswith(("x-", "$", "_")):  # "_format" is a way to switch "format" off
        return ""
    lowered = keyword.lower()
    matches = get_close_matches(lowered, _KEYWORDS, n=1, cutoff=0.85)
    matches = matches or [name for name in _KEYWORDS if sorted(name) == sorted(lowered)]
    # Shorter keywords resemble other words: "note" is not "not".
    return _KEYWORDS[matches[0]] if matches and len(matches[0]) > 3 else ""


def _iter_subschemas(schema: Any, depth: int) -> Iterator[dict[str, Any]]:
    """Yield a schema and its subschemas, except boolean ones."""
    if isinstance(schema, list) and depth <= limits.MAX_DEPTH:
        for member in schema:
            yield from _iter_subschemas(member, depth + 1)
    if not isinstance(schema, dict) or depth > limits.MAX_DEPTH:
        return
    yield schema
    for keyword, value in schema.items():
        if keyword in NAME_MAPS and isinstance(value, dict):
            yield from _iter_subschemas(list(value.values()), depth + 1)
        elif keyword in _SCHEMA_HOLDERS:
            yield from _iter_subschemas(value, depth + 1)


def uri_basename(uri: str) -> str:
    """Return the last segment of a URI's path, without an empty fragment."""
    return uri.removesuffix("#").rstrip("/").rsplit("/", 1)[-1]


def embedded_schemas(schema: Any) -> list[tuple[Path, str]]:
    """Return the path and the basename of the id of each schema embedded in a schema."""
    embedded = []
    for path, node in iter_objects(schema):
        uri = node.get("$id", node.get("id"))
        if path and isinstance(uri, str):
            embedded.append((path, uri_basename(uri)))
    return embedded


def path_from_root(
    schema: Any, path: Sequence[str | int], embedded: Sequence[tuple[Path, str]], uri: str | None
) -> Path:
    """Return a keyword's path from the root of a schema, given its path in an embedded schema.

    Args:
        schema: The schema.
        path: The keyword's path from the root of the embedded schema.
        embedded: The schemas embedded in ``schema``, from `embedded_schemas`.
        uri: The location of the keyword, which may identify the embedded schema. Otherwise, the
            first schema with a value at ``path`` counts.

    Returns:
        The path from the root, or ``path`` if no schema has a value there.
    """
    starts: list[Path] = [(), *(start for start, _ in embedded)]
    if uri:
        identified = uri_basename(uri.partition("#")[0])
        starts = [start for start, basename in embedded if basename == identified] + starts
    for start in starts:
        candidate = (*start, *path)
        if value_at(schema, candidate, default=_MISSING) is not _MISSING:
            return candidate
    return tuple(path)


MAX_VALUE_CHARS = 120  # maximum characters of a value in a violation
MAX_REASON_CHARS = 300  # maximum characters of a score's reason
MAX_VIOLATIONS_IN_REASON = 3
MAX_VIOLATIONS_IN_DETAILS = 20  # the details count the keywords of all violations

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


def score_violations(violations: Sequence[Violation]) -> Score:
    """Return the score of a document with these violations, the first of which are its reason."""
    if not violations:
        return Score(value=True, passed=True)
    messages = [violation.message for violation in violations[:MAX_VIOLATIONS_IN_REASON]]
    if len(violations) > MAX_VIOLATIONS_IN_REASON:
        messages.append(f"and {len(violations) - MAX_VIOLATIONS_IN_REASON:,} more")
    errors = [
        {name: truncate(text, 200) for name, text in asdict(violation).items()}
        for violation in violations[:MAX_VIOLATIONS_IN_DETAILS]
    ]
    keywords = dict(Counter(violation.keyword[:60] for violation in violations))
    details = {"errors": errors, "keywords": keywords, "n_errors": len(violations)}
    return Score(False, False, truncate("; ".join(messages), MAX_REASON_CHARS), details)


def value_text(value: Any) -> str:
    """Return a value as JSON on one line, cut to `MAX_VALUE_CHARS` characters."""
    text = ""
    for piece in _json_pieces(value):
        text += piece
        if len(text) > MAX_VALUE_CHARS:
            break
    return truncate(replace_surrogates(text), MAX_VALUE_CHARS)


def _json_pieces(value: Any) -> Iterator[str]:
    """Yield the pieces of a value's JSON, with long texts cut off."""
    if isinstance(value, str):
        yield json.dumps(value[: MAX_VALUE_CHARS + 1], ensure_ascii=False)
    elif isinstance(value, (dict, list, tuple)):
        opening, closing = "{}" if isinstance(value, dict) else "[]"
        yield opening
        separator = ""
        for item in value:  # a dict's items are its keys
            yield separator
            separator = ", "
            if isinstance(value, dict):
                key = item[: MAX_VALUE_CHARS + 1] if isinstance(item, str) else str(item)
                yield f"{json.dumps(key)}: "
            yield from _json_pieces(value[item] if isinstance(value, dict) else item)
        yield closing
    elif value is None or isinstance(value, bool):
        yield json.dumps(value)
    elif isinstance(value, int) and value.bit_length() >= 10_000:
        yield "an integer of thousands of digits"  # Python writes at most 4,300
    else:
        yield str(value)[: MAX_VALUE_CHARS + 1]
