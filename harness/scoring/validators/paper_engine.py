"""`jsonschema.Draft7Validator` with an end: what it says is the original's, or that there is none.

Replaced are the keywords that may go on without end (references, patterns, comparisons of items
with each other), and what a plain-false schema leaves out: where in the schema it is.

>>> [error.validator for error in engine()({"required": ["a"]}).iter_errors({})]
['required']
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Iterator
from fractions import Fraction
from functools import cache, lru_cache
from typing import Any

from harness.scoring.validators.schemas import Undecided

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


class Clock(threading.local):
    """When the validation at hand must have ended, and how many references it is inside of."""

    ends = 0.0
    inside = 0

    def check(self) -> None:
        """Raises: Undecided where the time is over."""
        if time.thread_time() > self.ends:
            raise Undecided(
                f"The document takes more than {MOST_SECONDS:g} s to validate against this schema."
            )


CLOCK = Clock()


def engine() -> Any:
    """Draft7Validator, with what could go on without end replaced by what says the same."""
    from jsonschema import Draft7Validator

    return _bounded(Draft7Validator)


@cache
def _bounded(kind: Any) -> Any:
    """A validator's class: of draft 7, or of another that a part of the schema names as its own."""
    from jsonschema import validators
    from jsonschema.exceptions import ValidationError as Error

    original = kind.VALIDATORS

    def ref(validator: Any, reference: Any, instance: Any, schema: Any) -> Errors:
        CLOCK.check()
        CLOCK.inside += 1
        if CLOCK.inside > MOST_REFERENCES:
            raise Undecided("The schema refers to itself without end, or the document is too deep.")
        try:
            for error in original["$ref"](validator, reference, instance, schema):
                if not hasattr(error, "referred"):  # the innermost reference has said it
                    target = validator._resolver.lookup(reference).contents
                    error.referred = reference, target, tuple(error.relative_schema_path)
                yield error
        finally:  # also where the engine asks for the first error alone
            CLOCK.inside -= 1

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

    def foreign(validator: Any, asked: Any, instance: Any, schema: Any) -> Errors:
        raise Undecided(
            "A part of the schema has a draft of its own, with keywords beyond draft 7."
        )

    replaced = dict.fromkeys(_FOREIGN_KEYWORDS, foreign) | {
        "$ref": ref,
        "pattern": pattern,
        "patternProperties": pattern_properties,
        "additionalProperties": additional_properties,
        "uniqueItems": unique_items,
        "multipleOf": multiple_of,
        "required": required,
    }
    made = validators.extend(
        kind, {keyword: call for keyword, call in replaced.items() if keyword in original}
    )
    descended, evolved = made.descend, made.evolve

    def descend(
        validator: Any,
        instance: Any,
        schema: Any,
        path: Any = None,
        schema_path: Any = None,
        resolver: Any = None,
    ) -> Errors:
        if schema is not False:
            return descended(validator, instance, schema, path, schema_path, resolver)  # type: ignore[no-any-return]
        # The original says neither where the value nor where the schema is; of the value, that
        # is what its authors see.
        error = Error("", validator=None, validator_value=None, instance=instance, schema=False)
        if schema_path is not None:
            error.schema_path.appendleft(schema_path)
        return iter([error])

    def evolve(validator: Any, **changes: Any) -> Any:
        found = evolved(validator, **changes)
        if type(found) is made:
            return found
        return _bounded(found.__class__)(  # a part with a $schema of its own, if the same one
            found.schema,
            format_checker=found.format_checker,
            registry=found._registry,
            _resolver=found._resolver,
        )

    made.descend, made.evolve = descend, evolve
    return made


_FOREIGN_KEYWORDS = ("$dynamicRef", "$recursiveRef", "unevaluatedItems", "unevaluatedProperties")


def _search(pattern: str, text: str) -> bool:
    """As ``re.search``, with an end."""
    compiled = _regular(pattern)
    CLOCK.check()
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
