"""The strict engine: jsonschema-rs, offline, with formats asserted and bounded work.

Numbers are compared as decimals, so `multipleOf` is exact. A `pattern` is matched in linear time if
possible, and otherwise in a limited number of steps, beyond which the document is `Undecided`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import cached_property, partial
from typing import Any, TypeVar

import jsonschema_rs
from msgspec.structs import replace

from harness.errors import DataInvalid
from harness.scoring.validators import limits, schemas
from harness.scoring.validators.limits import pointer, resolve_fragment, value_at
from harness.scoring.validators.schemas import Draft, Undecided, Violation, value_text

T = TypeVar("T")

MAX_WORK = 50_000_000
"""Maximum number of values in the schema times number of values in the document, where 16
characters count as one value. This much takes about 5 s."""
MAX_ROUTE_VISITS = 200_000_000
"""Maximum number of routes (see `Routes`) times number of values in the document, if the schema has
references. This much takes about 3 s."""
MAX_LISTING_WORK = 500_000
"""Maximum number of routes (see `Routes`) times number of values in the document, if all violations
are to be listed. A product of 90,000 takes a second."""
MAX_BACKTRACKS = 100_000  # maximum backtracks of a pattern that is not regular
MAX_PATTERN_BYTES = 4 * 1024 * 1024  # maximum size in bytes of a compiled pattern
SMALL_PATTERN_BYTES = 128 * 1024
"""Maximum size in bytes of a compiled pattern that counts as small. Searching a million characters
for it takes 4 s."""
MAX_CHARS_FOR_COSTLY_PATTERNS = 10_000
"""Maximum characters of a document if a pattern of the schema is large or not regular. Its search
takes quadratic time: 0.1 s for this many characters."""

REFERENCE_KEYWORDS = ("$ref", "$dynamicRef", "$recursiveRef")


class StrictValidator:
    """A schema compiled by jsonschema-rs (see `harness.scoring.validators.Validator`)."""

    def __init__(self, schema: Any, draft: Draft) -> None:
        self.schema = schema
        self.draft = draft
        self._values = schemas.check_schema(schema)
        self._routes = Routes(schema)
        self._embedded = schemas.embedded_schemas(schema)
        self._has_references = any(
            word in json.dumps(schema, default=str) for word in REFERENCE_KEYWORDS
        )
        self._engine, self._small_patterns = _compile(schema, draft)

    def read(self, text: str, format: str = "json") -> Any:
        """Return the value of a document in a format.

        Raises:
            UnparseableDocument: If the document is not in the format, or exceeds a limit.
        """
        return limits.read(text, format, schema=self.schema)

    def violations(self, value: Any) -> tuple[Violation, ...]:
        """Return a value's violations, or only one if listing all would take too long.

        Raises:
            Undecided: If validation takes too much work, or the engine fails.
        """
        schemas.check_work(self._values, value, MAX_WORK)
        if self._has_references or not self._small_patterns:
            self._check_references_and_patterns(value)
        if _call_engine(lambda: self._engine.is_valid(value)):
            return ()
        return tuple(self._violation(error, value) for error in self._errors(value))

    def _errors(self, value: Any) -> list[Any]:
        """Return the engine's errors, or only the first if listing all would take too long."""
        size = schemas.document_size(value)
        # Listing traverses the document once for each violation at the root.
        visits = size.values + size.characters // 1000
        if self._routes.count(size.depth) * visits <= MAX_LISTING_WORK:
            return _call_engine(lambda: list(self._engine.iter_errors(value)))
        try:
            _call_engine(lambda: self._engine.validate(value))
        except jsonschema_rs.ValidationError as error:
            return [error]
        return []

    def _check_references_and_patterns(self, value: Any) -> None:
        size = schemas.document_size(value)
        if self._has_references and self._routes.count(size.depth) * size.values > MAX_ROUTE_VISITS:
            described = f"{size.values:,} values and depth {size.depth}"
            raise Undecided(f"The schema's references form too many routes for {described}.")
        if not self._small_patterns and size.characters > MAX_CHARS_FOR_COSTLY_PATTERNS:
            problem = f"{size.characters:,} characters are too many for the schema's patterns"
            raise Undecided(f"{problem}, which are large or not regular.")

    def _violation(self, error: Any, value: Any) -> Violation:
        kind = error.kind
        kinds: Any = jsonschema_rs.ValidationErrorKind
        if isinstance(kind, (kinds.BacktrackLimitExceeded, kinds.RegexEngineFailure)):
            position = pointer(error.instance_path) or "the root"
            raise Undecided(f"A pattern of the schema takes too many steps at {position}.")
        if kind.name == "propertyNames":  # the inner error has the keyword and the name
            inner = self._violation(kind.error, value)
            return replace(inner, found=value_text(kind.error.instance))
        path = schemas.path_from_root(
            self.schema, error.schema_path, self._embedded, error.absolute_keyword_location
        )
        actual = value_at(value, error.instance_path)
        keyword, path = self._violated_keyword(error, path, actual)
        if keyword == "additionalProperties" and kind.name == "falseSchema":
            actual = list(actual)
        expected = False if keyword == "falseSchema" else value_at(self.schema, path)
        details = kind.as_dict()
        return Violation(
            path=pointer(error.instance_path),
            keyword=keyword,
            expected=value_text(details.get("property", expected)),
            found=value_text(details.get("unexpected", actual)),
            schema_path=pointer(path),
        )

    def _violated_keyword(
        self, error: Any, path: schemas.Path, actual: Any
    ) -> tuple[str, schemas.Path]:
        """Return the keyword that an error is about, and its path from the root of the schema.

        The engine names another keyword for some violations.
        """
        keyword = str(error.kind.name)
        evaluated_keyword = schemas.last_keyword(error.evaluation_path)
        if keyword in ("contains", "required") and path:
            keyword = schemas.last_keyword(path) or keyword  # minContains, dependentRequired
            if keyword == "maxContains" and self._violates_contains(path, actual):
                return "contains", (*path[:-1], "contains")
        elif (keyword, evaluated_keyword) == ("falseSchema", "additionalProperties"):
            # If no other keyword allows a member, the engine reports the object.
            keyword = "additionalProperties" if isinstance(actual, dict) else keyword
        return keyword, path

    def _violates_contains(self, path: schemas.Path, actual: Any) -> bool:
        """Return whether a value violates `contains` rather than the `maxContains` at a path."""
        parent = value_at(self.schema, path[:-1])
        if not isinstance(parent, dict):
            return False
        try:
            engine, _ = _compile({"contains": parent.get("contains")}, self.draft)
        except DataInvalid:  # a reference to another part of the schema
            return isinstance(actual, list) and not actual
        return not _call_engine(lambda: engine.is_valid(actual))


def _compile(schema: Any, draft: Draft) -> tuple[Any, bool]:
    """Compile a schema.

    Returns:
        The engine, and whether all patterns of the schema are small and regular.
    """
    engine: Any = getattr(jsonschema_rs, f"Draft{draft.replace('-', '')}Validator")
    # Messages are our own; the engine's would copy the value.
    build = partial(engine, schema, validate_formats=True, offline=True, mask="(the value)")
    pattern_options: tuple[Any, ...] = (  # the fastest first
        jsonschema_rs.RegexOptions(size_limit=SMALL_PATTERN_BYTES),
        jsonschema_rs.RegexOptions(size_limit=MAX_PATTERN_BYTES),
        jsonschema_rs.FancyRegexOptions(
            backtrack_limit=MAX_BACKTRACKS, size_limit=MAX_PATTERN_BYTES
        ),
    )
    for options in pattern_options:
        try:
            compiled = _call_engine(partial(build, pattern_options=options))
        except jsonschema_rs.ValidationError as refusal:
            error = refusal
            if '"regex"' not in error.message:
                break
        except Undecided as failure:
            raise DataInvalid(f"The schema cannot be compiled: {failure}") from None
        else:
            return compiled, options is pattern_options[0]
    raise _invalid_schema_error(error, draft)


def _invalid_schema_error(error: Any, draft: Draft) -> DataInvalid:
    location = pointer(error.instance_path) or "its root"
    problem = f"The schema breaks the rules of draft {draft} at {location}"
    remedy = "Fix it, or name its draft in $schema."
    if "Referencing" in type(error.kind).__name__:
        problem = "A $ref of the schema points to nothing within it"
        remedy = "References are not fetched: copy what they name into $defs."
    return DataInvalid(f"{problem}: {' '.join(error.message.split())[:300]}.", remedy)


def _call_engine(call: Callable[[], T]) -> T:
    """Return the result of a call, or raise Undecided if the engine fails."""
    try:
        return call()
    except (jsonschema_rs.ValidationError, Undecided):
        raise
    except (ValueError, OverflowError, RecursionError) as error:
        raise Undecided(f"The validator gave up: {str(error)[:200]}.") from None
    except BaseException as error:
        if type(error).__name__ != "PanicException":  # from pyo3, whose class cannot be imported
            raise
        raise Undecided(f"The engine crashed: {str(error)[:200]}.") from None


MAX_ROUTES = 10**12  # counting stops at this number
MAX_REFERENCE_CHAIN = 200  # maximum chain of references and combinations at one value

_COMBINATORS = ("allOf", "anyOf", "oneOf")
_IN_PLACE_KEYWORDS = (
    "not",
    "if",
    "then",
    "else",
    "dependentSchemas",
    "dependencies",
    *_COMBINATORS,
)
_ITEM_KEYWORDS = ("items", "prefixItems", "additionalItems", "contains", "unevaluatedItems")
_UNNAMED_MEMBER_KEYWORDS = ("additionalProperties", "unevaluatedProperties", "propertyNames")
_MEMBER_KEYWORDS = ("properties", *_UNNAMED_MEMBER_KEYWORDS, "patternProperties")


def _subschemas_under(
    schema: dict[str, Any], keywords: Sequence[str]
) -> tuple[list[Any], list[Any]]:
    """Return the subschemas of a schema under some keywords.

    Returns:
        Those in lists and under ``properties``, at most one of which applies to an item or a
        member, and those that may all apply to it.
    """
    alternatives: list[Any] = []
    common: list[Any] = []
    for keyword in keywords:
        value = schema.get(keyword)
        if isinstance(value, list):
            alternatives += value
        elif isinstance(value, dict):
            subschemas = value.values() if keyword in schemas.NAME_MAPS else [value]
            (alternatives if keyword == "properties" else common).extend(subschemas)
    return alternatives, common


class Routes:
    """The number of ways ("routes") in which one value in a document can violate a schema.

    Listing the violations takes time in proportion to it: a chain of thirty ``allOf: [{$ref: a},
    {$ref: a}]`` has a billion routes.
    """

    def __init__(self, schema: Any) -> None:
        self.schema = schema
        self._counts: dict[tuple[int, int], int] = {}  # by the id of the schema and the depth

    @cached_property
    def _named_schemas(self) -> dict[str, Any]:
        """The subschemas by their anchors and by the basenames of their ids."""
        named: dict[str, Any] = {}
        for _, schema in reversed([*schemas.iter_objects(self.schema)]):  # the first of a name wins
            for keyword in ("$dynamicAnchor", "$anchor", "id", "$id"):
                if isinstance(schema.get(keyword), str):
                    named[schemas.uri_basename(schema[keyword]).lstrip("#")] = schema
        return named

    def count(self, depth: int) -> int:
        """Return the largest number of routes at any value of a document, up to `MAX_ROUTES`.

        Args:
            depth: The document's depth in levels.
        """
        for level in range(depth):  # bottom-up, so that no recursion is deeper than a chain
            if (id(self.schema), level) not in self._counts:
                for _, schema in schemas.iter_objects(self.schema):
                    self._count(schema, level, 0)
        return self._count(self.schema, depth, 0)

    def _count(self, schema: Any, depth: int, chain: int) -> int:
        """Return the number of routes of a subschema, at the end of a chain of references."""
        key = (id(schema), depth)
        if not isinstance(schema, dict) or key in self._counts:
            return self._counts.get(key, 1)
        if chain > MAX_REFERENCE_CHAIN:
            return MAX_ROUTES
        self._counts[key] = 0  # a circular reference adds nothing
        required = schema.get("required")
        total = len(schema) + (len(required) if isinstance(required, list) else 0) or 1
        for subschema in self._in_place_subschemas(schema):
            total += self._count(subschema, depth, chain + 1)
        if depth:
            items = self._count_children(schema, depth, _ITEM_KEYWORDS)
            total += max(items, self._count_children(schema, depth, _MEMBER_KEYWORDS))
        self._counts[key] = min(total, MAX_ROUTES)
        return self._counts[key]

    def _count_children(self, schema: dict[str, Any], depth: int, keywords: Sequence[str]) -> int:
        """Return the number of routes at one item or member of a value."""
        alternatives, common = _subschemas_under(schema, keywords)
        counts = [self._count(subschema, depth - 1, 0) for subschema in alternatives]
        common_counts = [self._count(subschema, depth - 1, 0) for subschema in common]
        return max(counts, default=0) + sum(common_counts)

    def _in_place_subschemas(self, schema: dict[str, Any]) -> list[Any]:
        """Return the subschemas that apply to the same value as the schema."""
        alternatives, common = _subschemas_under(schema, _IN_PLACE_KEYWORDS)
        references = (schema.get(keyword) for keyword in REFERENCE_KEYWORDS)
        targets = [
            self._resolve_reference(reference)
            for reference in references
            if isinstance(reference, str)
        ]
        return common + alternatives + targets

    def _resolve_reference(self, reference: str) -> Any:
        """Return the target of a reference, or True (any value is valid) if there is none."""
        base, _, fragment = reference.partition("#")
        schema = self.schema
        if base:
            schema = self._named_schemas.get(schemas.uri_basename(base), self.schema)
        if fragment and not fragment.startswith("/"):
            return self._named_schemas.get(fragment, True)
        target = resolve_fragment(fragment, schema)
        return True if target is None else target[1]
