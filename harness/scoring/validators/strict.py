"""The strict engine: jsonschema-rs, offline, with formats asserted and bounded work.

Numbers are compared as the decimals that they show, so `multipleOf` is exact. A `pattern` is
matched in linear time where it can be; one with lookaround or backreferences has a limit of steps,
and beyond it the document is `Undecided`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from msgspec.structs import replace

from harness.errors import DataInvalid
from harness.scoring.validators.drafts import Draft
from harness.scoring.validators.schema_paths import embedded, keyword_at, within
from harness.scoring.validators.schemas import Undecided, check_schema, measured
from harness.scoring.validators.unreadable import MOST_CHARACTERS, MOST_NODES
from harness.scoring.validators.violations import Violation, follow, pointer, shown
from harness.scoring.validators.ways import REFERENCES, Ways

T = TypeVar("T")

MOST_WORK = 50_000_000
"""Values of the schema times those of the document (16 characters count as one): some 5 seconds
where each must be compared with each."""
MOST_VISITS = 200_000_000
"""Ways through a schema with references times values of the document: some 3 seconds."""
MOST_FINDINGS = 500_000
"""Ways to violate the schema times values of the document: beyond, only the first violation is
listed. 90,000 take a second."""
MOST_STEPS = 100_000
"""Backtracks of a pattern that is not regular."""
SMALL_PATTERN, LARGEST_PATTERN = 128 * 1024, 4 * 1024 * 1024
"""Bytes of a compiled pattern. A small one reads a million characters in 4 seconds at worst."""
MOST_CHARACTERS_FOR_PATTERNS = 10_000
"""Of a document whose schema has a large pattern, or one that is not regular: these take time that
may grow with the square, 0.1 s here."""


class StrictValidator:
    """A compiled schema.

    Raises: DataInvalid where the schema breaks its draft's rules, needs a reference from
        elsewhere, or is beyond the limits.
    """

    def __init__(self, schema: Any, draft: Draft) -> None:
        self.schema = schema
        self.draft = draft
        self._values = check_schema(schema)
        self._ways = Ways(schema)
        self._embedded = embedded(schema)
        self._refers = any(word in json.dumps(schema, default=str) for word in REFERENCES)
        self._engine, self._small_patterns = _compiled(schema, draft)

    def violations(self, value: Any) -> tuple[Violation, ...]:
        """All that the value violates; none where it is valid.

        Raises: Undecided where that cannot be found out in a bounded time.
        """
        largest = MOST_NODES + MOST_CHARACTERS // 16
        if self._values * largest > MOST_WORK or not self._small_patterns or self._refers:
            self._check_work(value)
        if _guarded(lambda: self._engine.is_valid(value)):
            return ()
        nodes, characters, depth = measured(value)
        # A listing goes through the document's text for each violation of the whole.
        if self._ways.at(depth) * (nodes + characters // 1000) > MOST_FINDINGS:
            errors = [_guarded(lambda: self._first(value))]
        else:
            errors = _guarded(lambda: list(self._engine.iter_errors(value)))
        return tuple(self._violation(error, value) for error in errors)

    def _check_work(self, value: Any) -> None:
        nodes, characters, depth = measured(value)
        if self._refers and self._ways.at(depth) * nodes > MOST_VISITS:
            raise Undecided(
                "The schema's references lead to the same places in too many ways for a document"
                f" of {nodes:,} values and depth {depth}."
            )
        if self._values * (nodes + characters // 16) > MOST_WORK:
            raise Undecided(
                f"A document of {nodes:,} values and {characters:,} characters is too much for"
                f" a schema of {self._values:,} values."
            )
        if not self._small_patterns and characters > MOST_CHARACTERS_FOR_PATTERNS:
            raise Undecided(
                f"A document of {characters:,} characters is too long for the schema's patterns,"
                " which are large or not regular."
            )

    def _first(self, value: Any) -> Any:
        import jsonschema_rs

        try:
            self._engine.validate(value)
        except jsonschema_rs.ValidationError as error:
            return error
        raise Undecided("The engine does not say what is violated.")

    def _violation(self, error: Any, value: Any) -> Violation:
        import jsonschema_rs

        kind, keyword = error.kind, str(error.kind.name)
        kinds = jsonschema_rs.ValidationErrorKind
        if isinstance(kind, (kinds.BacktrackLimitExceeded, kinds.RegexEngineFailure)):
            raise Undecided(
                f"A pattern of the schema takes more than {MOST_STEPS:,} steps"
                f" at {pointer(error.instance_path) or 'the root'}."
            )
        if keyword == "propertyNames":  # what it wraps says which keyword, and of which name
            inner = self._violation(kind.error, value)
            return replace(inner, found=shown(kind.error.instance))
        said = kind.as_dict()
        path = within(
            self.schema, error.schema_path, self._embedded, error.absolute_keyword_location
        )
        found = follow(value, error.instance_path)
        if keyword in ("contains", "required") and path:
            keyword = keyword_at(path) or keyword  # minContains, dependentRequired
            if keyword == "maxContains" and self._has_none(path, found):
                keyword, path = "contains", (*path[:-1], "contains")
        elif (
            keyword == "falseSchema"
            and keyword_at(error.evaluation_path) == "additionalProperties"
            and isinstance(found, dict)
        ):  # where no other keyword allows a member, the engine speaks of the object
            keyword, found = "additionalProperties", list(found)
        if "property" in said:
            expected = said["property"]
        elif keyword == "falseSchema":
            expected = False
        else:
            expected = follow(self.schema, path)
        found = said.get("unexpected", found)
        return Violation(
            pointer(error.instance_path), keyword, shown(expected), shown(found), pointer(path)
        )

    def _has_none(self, path: Sequence[str | int], found: Any) -> bool:
        """Whether a list has no item as `contains` asks: the engine then names maxContains, too."""
        around = follow(self.schema, path[:-1])
        if not isinstance(around, dict) or "minContains" in around:
            return False
        try:
            engine, _ = _compiled({"contains": around.get("contains")}, self.draft)
        except DataInvalid:  # a reference to elsewhere in the schema
            return isinstance(found, list) and not found
        return not _guarded(lambda: engine.is_valid(found))


def _compiled(schema: Any, draft: Draft) -> tuple[Any, bool]:
    """The engine, and whether all patterns are small and regular."""
    import jsonschema_rs as engine

    kind = {
        "4": engine.Draft4Validator,
        "6": engine.Draft6Validator,
        "7": engine.Draft7Validator,
        "2019-09": engine.Draft201909Validator,
        "2020-12": engine.Draft202012Validator,
    }[draft]
    patterns = (
        engine.RegexOptions(size_limit=SMALL_PATTERN),
        engine.RegexOptions(size_limit=LARGEST_PATTERN),
        engine.FancyRegexOptions(backtrack_limit=MOST_STEPS, size_limit=LARGEST_PATTERN),
    )
    for position, options in enumerate(patterns):
        try:
            compiled = _guarded(
                lambda options=options: kind(  # type: ignore[misc]
                    schema,
                    validate_formats=True,
                    offline=True,
                    pattern_options=options,
                    mask="(the value)",  # messages are our own; the engine's would copy the value
                )
            )
        except engine.ValidationError as error:
            if '"regex"' in error.message and position < len(patterns) - 1:
                continue
            raise _refused(error, draft) from None
        except Undecided as error:
            raise DataInvalid(f"The schema cannot be compiled: {error}") from None
        return compiled, position == 0
    raise AssertionError("the last options compile or raise")


def _refused(error: Any, draft: Draft) -> DataInvalid:
    place = pointer(error.instance_path) or "its root"
    message = " ".join(error.message.split())[:300]
    if "Referencing" in type(error.kind).__name__:
        return DataInvalid(
            f"A $ref of the schema leads to nothing within it: {message}",
            "References are not fetched: copy what they name into $defs.",
        )
    return DataInvalid(
        f"The schema breaks the rules of draft {draft} at {place}: {message}.",
        "Mend it, or name its draft in $schema.",
    )


def _guarded(call: Callable[[], T]) -> T:
    """The engine's answer; what it cannot do, and a panic of its own, become `Undecided`."""
    import jsonschema_rs

    try:
        return call()
    except (jsonschema_rs.ValidationError, Undecided):
        raise
    except (ValueError, OverflowError, RecursionError) as error:
        raise Undecided(f"The engine gives up: {str(error)[:200]}.") from None
    except BaseException as error:
        if type(error).__name__ != "PanicException":  # pyo3's, of no importable class
            raise
        raise Undecided(f"The engine broke down: {str(error)[:200]}.") from None
