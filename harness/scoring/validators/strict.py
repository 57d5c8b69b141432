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
from harness.scoring.validators.limits import follow, pointer, resolve
from harness.scoring.validators.schemas import Draft, Undecided, Violation, value_text

T = TypeVar("T")

MOST_WORK = 50_000_000
"""Maximum number of values in the schema times number of values in the document, where 16
characters count as one value. This much takes about 5 s."""
MOST_VISITS = 200_000_000
"""Maximum number of routes (see `Routes`) times number of values in the document, if the schema has
references. This much takes about 3 s."""
MOST_FINDINGS = 500_000
"""Maximum number of routes (see `Routes`) times number of values in the document, if all violations
are to be listed. A product of 90,000 takes a second."""
MOST_STEPS = 100_000  # maximum backtracks of a pattern that is not regular
LARGEST_PATTERN = 4 * 1024 * 1024  # maximum size in bytes of a compiled pattern
SMALL_PATTERN = 128 * 1024
"""Maximum size in bytes of a compiled pattern that counts as small. Searching a million characters
for it takes 4 s."""
MOST_CHARACTERS_FOR_PATTERNS = 10_000
"""Maximum characters of a document if a pattern of the schema is large or not regular. Its search
takes quadratic time: 0.1 s for this many characters."""

REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")


class StrictValidator:
    """A schema compiled by jsonschema-rs (see `harness.scoring.validators.Validator`)."""

    def __init__(self, schema: Any, draft: Draft) -> None:
        self.schema = schema
        self.draft = draft
        self._values = schemas.check_schema(schema)
        self._routes = Routes(schema)
        self._embedded = schemas.embedded(schema)
        self._refers = any(word in json.dumps(schema, default=str) for word in REFERENCES)
        self._engine, self._small_patterns = _compiled(schema, draft)

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
        schemas.check_work(self._values, value, MOST_WORK)
        if self._refers or not self._small_patterns:
            self._check_routes(value)
        if _guarded(lambda: self._engine.is_valid(value)):
            return ()
        nodes, characters, depth = schemas.measured(value)
        # Listing traverses the document once for each violation at the root.
        if self._routes.at(depth) * (nodes + characters // 1000) <= MOST_FINDINGS:
            errors = _guarded(lambda: list(self._engine.iter_errors(value)))
        else:
            try:
                _guarded(lambda: self._engine.validate(value))
            except jsonschema_rs.ValidationError as error:
                errors = [error]
        return tuple(self._violation(error, value) for error in errors)

    def _check_routes(self, value: Any) -> None:
        nodes, characters, depth = schemas.measured(value)
        if self._refers and self._routes.at(depth) * nodes > MOST_VISITS:
            size = f"{nodes:,} values and depth {depth}"
            raise Undecided(f"The schema's references form too many routes for {size}.")
        if not self._small_patterns and characters > MOST_CHARACTERS_FOR_PATTERNS:
            problem = f"{characters:,} characters are too many for the schema's patterns"
            raise Undecided(f"{problem}, which are large or not regular.")

    def _violation(self, error: Any, value: Any) -> Violation:
        kind = error.kind
        keyword = str(kind.name)
        kinds: Any = jsonschema_rs.ValidationErrorKind
        if isinstance(kind, (kinds.BacktrackLimitExceeded, kinds.RegexEngineFailure)):
            place = pointer(error.instance_path) or "the root"
            raise Undecided(f"A pattern of the schema takes too many steps at {place}.")
        if keyword == "propertyNames":  # the inner error says which keyword, and for which name
            inner = self._violation(kind.error, value)
            return replace(inner, found=value_text(kind.error.instance))
        details = kind.as_dict()
        path = schemas.path_within(
            self.schema, error.schema_path, self._embedded, error.absolute_keyword_location
        )
        actual = follow(value, error.instance_path)
        extras = schemas.keyword_at(error.evaluation_path) == "additionalProperties"
        if keyword in ("contains", "required") and path:
            keyword = schemas.keyword_at(path) or keyword  # minContains, dependentRequired
            if keyword == "maxContains" and self._has_none(path, actual):
                keyword = "contains"
                path = (*path[:-1], keyword)
        elif keyword == "falseSchema" and extras and isinstance(actual, dict):
            # If no other keyword allows a member, the engine reports the object.
            keyword = "additionalProperties"
            actual = list(actual)
        keyword_value = False if keyword == "falseSchema" else follow(self.schema, path)
        return Violation(
            path=pointer(error.instance_path),
            keyword=keyword,
            expected=value_text(details.get("property", keyword_value)),
            found=value_text(details.get("unexpected", actual)),
            schema_path=pointer(path),
        )

    def _has_none(self, path: Sequence[str | int], instance: Any) -> bool:
        """Return whether `contains` rather than `maxContains` is violated."""
        around = follow(self.schema, path[:-1])
        if not isinstance(around, dict):
            return False
        try:
            engine, _ = _compiled({"contains": around.get("contains")}, self.draft)
        except DataInvalid:  # a reference to another part of the schema
            return isinstance(instance, list) and not instance
        return not _guarded(lambda: engine.is_valid(instance))


def _compiled(schema: Any, draft: Draft) -> tuple[Any, bool]:
    """Compile a schema. Also return whether all its patterns are small and regular."""
    kind: Any = getattr(jsonschema_rs, f"Draft{draft.replace('-', '')}Validator")
    # Messages are our own; the engine's would copy the value.
    make = partial(kind, schema, validate_formats=True, offline=True, mask="(the value)")
    patterns: tuple[Any, ...] = (
        jsonschema_rs.RegexOptions(size_limit=SMALL_PATTERN),
        jsonschema_rs.RegexOptions(size_limit=LARGEST_PATTERN),
        jsonschema_rs.FancyRegexOptions(backtrack_limit=MOST_STEPS, size_limit=LARGEST_PATTERN),
    )
    for options in patterns:
        try:
            return _guarded(partial(make, pattern_options=options)), options is patterns[0]
        except jsonschema_rs.ValidationError as refused:
            error = refused
            if '"regex"' not in error.message:
                break
        except Undecided as failure:
            raise DataInvalid(f"The schema cannot be compiled: {failure}") from None
    problem = f"The schema breaks the rules of draft {draft} at"
    remedy = "Fix it, or name its draft in $schema."
    where = pointer(error.instance_path) or "its root"
    if "Referencing" in type(error.kind).__name__:
        problem = "A $ref of the schema points to nothing"
        where = "within it"
        remedy = "References are not fetched: copy what they name into $defs."
    raise DataInvalid(f"{problem} {where}: {' '.join(error.message.split())[:300]}.", remedy)


def _guarded(call: Callable[[], T]) -> T:
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


MOST_ROUTES = 10**12  # the number of routes at which counting stops
LONGEST_CHAIN = 200  # maximum chain of references and combinations at one place

_COMBINED = ("allOf", "anyOf", "oneOf")
_IN_PLACE = ("not", "if", "then", "else", "dependentSchemas", "dependencies", *_COMBINED)
_ITEMS = ("items", "prefixItems", "additionalItems", "contains", "unevaluatedItems")
_OTHER_MEMBERS = ("additionalProperties", "unevaluatedProperties", "propertyNames")
_MEMBERS = ("properties", *_OTHER_MEMBERS, "patternProperties")


def _inside(schema: dict[str, Any], words: Sequence[str]) -> tuple[list[Any], list[Any]]:
    """Return the subschemas under keywords: those in lists and ``properties``, then others."""
    one_of: list[Any] = []
    others: list[Any] = []
    for word in words:
        value = schema.get(word)
        if isinstance(value, list):
            one_of += value
        elif isinstance(value, dict):
            subschemas = value.values() if word in schemas.MAPS else [value]
            (one_of if word == "properties" else others).extend(subschemas)
    return one_of, others


class Routes:
    """The number of ways ("routes") in which one place in a document can violate a schema.

    Listing the violations takes time in proportion to it: a chain of thirty ``allOf: [{$ref: a},
    {$ref: a}]`` has a billion routes.
    """

    def __init__(self, schema: Any) -> None:
        self.schema = schema
        self._counted: dict[tuple[int, int], int] = {}

    @cached_property
    def _names(self) -> dict[str, Any]:
        """The subschema of each anchor, and of the last part of each id."""
        names: dict[str, Any] = {}
        for _, schema in reversed([*schemas.parts(self.schema)]):  # the first of a name counts
            for word in ("$dynamicAnchor", "$anchor", "id", "$id"):
                if isinstance(schema.get(word), str):
                    names[schemas.last_name(schema[word]).lstrip("#")] = schema
        return names

    def at(self, depth: int) -> int:
        """Return the largest number of routes, up to `MOST_ROUTES`, in a document of this depth."""
        for level in range(depth):  # bottom-up, so that no recursion is deeper than a chain
            if (id(self.schema), level) not in self._counted:
                for _, schema in schemas.parts(self.schema):
                    self._count(schema, level, 0)
        return self._count(self.schema, depth, 0)

    def _count(self, schema: Any, depth: int, chain: int) -> int:
        key = (id(schema), depth)
        if not isinstance(schema, dict) or key in self._counted:
            return self._counted.get(key, 1)
        if chain > LONGEST_CHAIN:
            return MOST_ROUTES
        self._counted[key] = 0  # a circular reference adds nothing
        required = schema.get("required")
        total = len(schema) + (len(required) if isinstance(required, list) else 0) or 1
        total += sum(self._count(part, depth, chain + 1) for part in self._in_place(schema))
        if depth:
            total += max(self._below(schema, depth, words) for words in (_ITEMS, _MEMBERS))
        self._counted[key] = min(total, MOST_ROUTES)
        return self._counted[key]

    def _below(self, schema: dict[str, Any], depth: int, words: Sequence[str]) -> int:
        """Return the number of routes at one item or member of a value."""
        one_of, others = _inside(schema, words)
        alternatives = [self._count(subschema, depth - 1, 0) for subschema in one_of]
        common = [self._count(subschema, depth - 1, 0) for subschema in others]
        return max(alternatives, default=0) + sum(common)

    def _in_place(self, schema: dict[str, Any]) -> list[Any]:
        """Return the subschemas that apply to the same value as the schema."""
        lists, others = _inside(schema, _IN_PLACE)
        names = (schema.get(word) for word in REFERENCES)
        return others + lists + [self._referred(name) for name in names if isinstance(name, str)]

    def _referred(self, reference: str) -> Any:
        """Return the target of a reference, or True (any value is valid) if it is not found."""
        base, _, fragment = reference.partition("#")
        target = self._names.get(schemas.last_name(base), self.schema) if base else self.schema
        if fragment and not fragment.startswith("/"):
            return self._names.get(fragment, True)
        target_at = resolve(fragment, target)
        return target_at[1] if target_at else True
