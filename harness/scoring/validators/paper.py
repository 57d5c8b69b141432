"""The paper's engine: `jsonschema.Draft7Validator`, as the authors of ConCodeEval call it.

Draft 7 whatever ``$schema`` says, no formats, `multipleOf` by division of floats (so 0.3 is no
multiple of 0.1), and values that only YAML has, such as dates. What differs from the original never
changes a verdict that it gives: references are not fetched, and work without end is stopped
(`Undecided`).
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Iterator
from fractions import Fraction
from functools import cache, lru_cache
from typing import Any

from harness.errors import DataInvalid
from harness.scoring.validators.schemas import Undecided, check_schema, measured
from harness.scoring.validators.unreadable import MOST_CHARACTERS, MOST_NODES
from harness.scoring.validators.violations import Violation, pointer, shown

MOST_WORK = 5_000_000
"""Values of the schema times those of the document (16 characters count as one): some 5 seconds."""
MOST_SECONDS = 3.0
"""Of the thread's own time for one document, looked at wherever work may go on without end: at
references and at patterns. All that recorded answers need is some thousandths."""
MOST_REFERENCES = 90
"""Inside one another: at some 120 the original runs out of Python's stack."""
LONGEST_SEARCH = 0.5
"""Seconds for one pattern in one text."""
MOST_UNLIKE = 2_000
"""Items that cannot be sorted, which `uniqueItems` compares each with each."""

Errors = Iterator[Any]


class PaperValidator:
    """A schema, as it is: the authors do not check it against its meta-schema.

    Raises: DataInvalid where it is no schema at all, or beyond the limits.
    """

    def __init__(self, schema: Any) -> None:
        from jsonschema_specifications import REGISTRY

        self.schema = schema
        self._values = check_schema(schema)
        try:
            self._engine = _engine()(schema, registry=REGISTRY)  # of the drafts alone: no fetching
        except Exception as error:  # an $id that is no text
            raise DataInvalid(
                f"Draft7Validator does not take the schema ({type(error).__name__}: {error}).",
                "Mend the schema.",
            ) from None

    def violations(self, value: Any) -> tuple[Violation, ...]:
        """All that the value violates, in the engine's order.

        Raises: DataInvalid for a reference that leads nowhere and for a broken pattern; Undecided
            where there is no answer in a bounded time, or the original has none.
        """
        from referencing.exceptions import Unresolvable

        if self._values * (MOST_NODES + MOST_CHARACTERS // 16) > MOST_WORK:
            nodes, characters, _ = measured(value)
            if self._values * (nodes + characters // 16) > MOST_WORK:
                raise Undecided(
                    f"A document of {nodes:,} values and {characters:,} characters is too much"
                    f" for a schema of {self._values:,} values."
                )
        _CLOCK.ends, _CLOCK.inside = time.thread_time() + MOST_SECONDS, 0
        try:
            return tuple(map(_violation, self._engine.iter_errors(value)))
        except Undecided:
            raise
        except Unresolvable as error:
            raise DataInvalid(
                f"A $ref of the schema leads to nothing within it: {str(error)[:200]}.",
                "References are not fetched: copy what they name into definitions.",
            ) from None
        except re.error as error:
            raise DataInvalid(
                f"A pattern of the schema is no regular expression: {error}.", "Mend it."
            ) from None
        except BaseException as error:
            # What the original raises for a schema or a value that it cannot take; its registry
            # is Rust, and panics where the stack ends (an exception of no importable class).
            if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
                raise
            raise Undecided(
                f"Draft7Validator fails ({type(error).__name__}: {str(error)[:200]})."
            ) from None


def _violation(error: Any) -> Violation:
    return Violation(
        pointer(error.absolute_path),
        "falseSchema" if error.validator is None else str(error.validator),
        shown(error.validator_value) if error.validator is not None else "false",
        shown(error.instance),
    )


class _Clock(threading.local):
    """When the validation at hand must have ended, and how many references it is inside of."""

    ends = 0.0
    inside = 0

    def check(self) -> None:
        if time.thread_time() > self.ends:
            raise Undecided(
                f"The document takes more than {MOST_SECONDS:g} s to validate against this schema."
            )


_CLOCK = _Clock()


@cache
def _engine() -> Any:
    """Draft7Validator, with what could go on without end replaced by what says the same."""
    from jsonschema import Draft7Validator, validators
    from jsonschema.exceptions import ValidationError as Error

    original = Draft7Validator.VALIDATORS

    def ref(validator: Any, reference: Any, instance: Any, schema: Any) -> Errors:
        _CLOCK.check()
        _CLOCK.inside += 1
        if _CLOCK.inside > MOST_REFERENCES:
            raise Undecided("The schema refers to itself without end, or the document is too deep.")
        try:
            yield from original["$ref"](validator, reference, instance, schema)
        finally:  # also where the engine asks for the first error alone
            _CLOCK.inside -= 1

    def pattern(validator: Any, asked: Any, instance: Any, schema: Any) -> Errors:
        if validator.is_type(instance, "string") and not _search(asked, instance):
            yield Error("")

    def pattern_properties(validator: Any, patterns: Any, instance: Any, schema: Any) -> Errors:
        if validator.is_type(instance, "object"):
            for asked, subschema in patterns.items():
                for key, value in instance.items():
                    if _search(asked, key):
                        yield from validator.descend(value, subschema, path=key, schema_path=asked)

    def additional_properties(validator: Any, asked: Any, instance: Any, schema: Any) -> Errors:
        if not validator.is_type(instance, "object"):
            return
        named, patterns = (
            schema.get("properties", {}),
            "|".join(schema.get("patternProperties", ())),
        )
        extras = [
            key
            for key in instance
            if key not in named and not (patterns and _search(patterns, key))
        ]
        if validator.is_type(asked, "object"):
            for extra in extras:
                yield from validator.descend(instance[extra], asked, path=extra)
        elif not asked and extras:
            yield Error("", instance=extras)

    def unique_items(validator: Any, asked: Any, instance: Any, schema: Any) -> Errors:
        if asked and validator.is_type(instance, "array") and len(instance) > MOST_UNLIKE:
            try:
                sorted(instance)
            except TypeError:
                raise Undecided(
                    f"More than {MOST_UNLIKE:,} unlike items would be compared each with each."
                ) from None
        yield from original["uniqueItems"](validator, asked, instance, schema) or ()

    def multiple_of(validator: Any, asked: Any, instance: Any, schema: Any) -> Errors:
        try:
            yield from original["multipleOf"](validator, asked, instance, schema) or ()
        except (OverflowError, ValueError):
            # The original breaks off where the number is infinite (json.loads reads 1e999 so), or
            # an integer that no float can hold.
            if isinstance(instance, float) or Fraction(instance) % Fraction(asked):
                yield Error("")

    def required(validator: Any, asked: Any, instance: Any, schema: Any) -> Errors:
        if validator.is_type(instance, "object"):
            for member in asked:
                if member not in instance:
                    yield Error("", validator_value=member)

    return validators.extend(
        Draft7Validator,
        {
            "$ref": ref,
            "pattern": pattern,
            "patternProperties": pattern_properties,
            "additionalProperties": additional_properties,
            "uniqueItems": unique_items,
            "multipleOf": multiple_of,
            "required": required,
        },
    )


def _search(pattern: str, text: str) -> bool:
    """As ``re.search``, with an end."""
    compiled = _regular(pattern)
    _CLOCK.check()
    try:
        found = compiled.search(text, timeout=LONGEST_SEARCH)
    except TimeoutError:
        raise Undecided(
            f"The pattern {pattern[:60]!r} takes longer than {LONGEST_SEARCH:g} s in one text."
        ) from None
    return found is not None


@lru_cache(maxsize=1024)
def _regular(pattern: str) -> Any:
    """The pattern for the module `regex`, which has time limits, as the module `re` reads it."""
    import regex

    re.compile(pattern)  # refuses what is regex's alone
    return regex.compile(_FOREIGN.sub(_escaped, pattern), regex.VERSION0)


_FOREIGN = re.compile(r"\\N\{[^}]*\}|\\.|\[(?=:)|\{(?!\d*,?\d*\})", re.DOTALL)
"""What `regex` gives a meaning that it has not in `re`: [:alpha:] and fuzzy matching, {e<=1}."""


def _escaped(found: re.Match[str]) -> str:
    if found[0] == "{":
        return r"\{"
    return "[\\" if found[0] == "[" else found[0]  # the colon that follows is escaped
