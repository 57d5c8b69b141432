"""The paper's engine: `jsonschema.Draft7Validator` as ConCodeEval's authors use it, but bounded.

It always uses Draft 7, ignores formats, computes `multipleOf` by float division (0.3 is not a
multiple of 0.1), and accepts YAML's dates. Unlike in the original, references are not fetched, and
work that may never end (references, patterns, comparing a list's items with each other) is stopped
(`Undecided`). A verdict that is reached is the original's, unless the original fails.

`bounded` does the same for other drafts of `jsonschema` (JSONSchemaBench).
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Iterator
from fractions import Fraction
from functools import cache, lru_cache
from typing import Any

import regex
from jsonschema import Draft7Validator, validators
from jsonschema.exceptions import ValidationError as Error
from jsonschema_specifications import REGISTRY
from referencing.exceptions import Unresolvable

from harness.errors import DataInvalid
from harness.plugins.benchmarks.concodeeval import documents
from harness.plugins.benchmarks.concodeeval.documents import FORMATS
from harness.scoring.patterns import MAX_PATTERN_PARTS, count_pattern_parts
from harness.scoring.validators import schemas
from harness.scoring.validators.limits import pointer, read, resolve_fragment
from harness.scoring.validators.schemas import Undecided, Violation, value_text

MOST_WORK = 5_000_000
"""Maximum product of the numbers of values in the schema and in the document, where 16 characters
count as one value. This much takes about 5 s."""
MOST_SECONDS = 3.0
"""Maximum CPU seconds for one document, checked where work may never end: at references and
patterns. Recorded answers need a few milliseconds."""
MOST_REFERENCES = 90  # maximum depth of references; at about 120, Python's stack overflows
LONGEST_SEARCH = 0.5  # maximum seconds for one pattern on one text
LONGEST_FORMATTED = 10_000  # maximum characters checked for a format, in quadratic time
MOST_UNLIKE = 2_000  # maximum items of an unsortable list, which `uniqueItems` compares pairwise

Errors = Iterator[Any]


class Clock(threading.local):
    """The deadline (CPU time of this thread), and how many nested references are being followed."""

    ends = 0.0
    inside = 0

    def start(self, seconds: float) -> None:
        """Start a validation that may take ``seconds`` of CPU time."""
        self.ends = time.thread_time() + seconds
        self.inside = 0

    def check(self) -> None:
        """Raise Undecided if the deadline has passed."""
        if time.thread_time() > self.ends:
            raise Undecided("The document takes too long to validate against this schema.")


CLOCK = Clock()


class Endless(Undecided):
    """References are nested so deeply that the original would overflow Python's stack."""

    def __init__(self) -> None:
        super().__init__("The schema refers to itself without end, or the document is too deep.")


@cache
def bounded(kind: Any, *, paper: bool = False) -> Any:
    """Return a version of ``kind`` in which work that may never end is stopped.

    ``kind`` is the class that `jsonschema` has for a draft. If ``paper`` is set, keywords of drafts
    after Draft 7 raise Undecided.
    """
    original = kind.VALIDATORS

    def ref(validator: Any, reference: Any, instance: Any, schema: Any) -> Errors:
        CLOCK.inside += 1
        if CLOCK.inside > MOST_REFERENCES:
            raise Endless
        try:
            for error in original["$ref"](validator, reference, instance, schema):
                if not hasattr(error, "referred"):  # set by the innermost reference
                    target = validator._resolver.lookup(reference).contents
                    error.referred = reference, target, tuple(error.relative_schema_path)
                yield error
        finally:  # even if the engine stops at the first error
            CLOCK.inside -= 1

    def pattern(validator: Any, argument: Any, instance: Any, schema: Any) -> Errors:
        if validator.is_type(instance, "string") and not _search(argument, instance):
            yield Error("")

    def pattern_properties(validator: Any, patterns: Any, instance: Any, schema: Any) -> Errors:
        if not validator.is_type(instance, "object"):
            return
        for argument, subschema in patterns.items():
            for key, value in instance.items():
                if _search(argument, key):
                    yield from validator.descend(value, subschema, path=key, schema_path=argument)

    def additional_properties(validator: Any, argument: Any, instance: Any, schema: Any) -> Errors:
        if not validator.is_type(instance, "object"):
            return
        patterns = "|".join(schema.get("patternProperties", ()))
        extras = []
        for key in instance:
            if key in schema.get("properties", {}):
                continue
            if not patterns or not _search(patterns, key):
                extras.append(key)
        if validator.is_type(argument, "object"):
            for extra in extras:
                yield from validator.descend(instance[extra], argument, path=extra)
        elif not argument and extras:
            yield Error("", instance=extras)

    def unevaluated_properties(validator: Any, argument: Any, instance: Any, schema: Any) -> Errors:
        # The original then searches for the same patterns, without a time limit.
        if validator.is_type(instance, "object"):
            for _, part in schemas.iter_objects(validator._resolver.lookup("#").contents):
                patterns = part.get("patternProperties")
                if isinstance(patterns, dict):
                    for name in patterns:
                        any(_search(name, key) for key in instance)
        yield from original["unevaluatedProperties"](validator, argument, instance, schema) or ()

    def unique_items(validator: Any, argument: Any, instance: Any, schema: Any) -> Errors:
        if argument and validator.is_type(instance, "array") and len(instance) > MOST_UNLIKE:
            try:
                sorted(instance)
            except TypeError:
                raise Undecided(f"More than {MOST_UNLIKE:,} unlike items are in a list.") from None
        yield from original["uniqueItems"](validator, argument, instance, schema) or ()

    def multiple_of(validator: Any, argument: Any, instance: Any, schema: Any) -> Errors:
        try:
            yield from original["multipleOf"](validator, argument, instance, schema) or ()
        except (OverflowError, ValueError):
            # The original fails for infinite numbers (json.loads reads 1e999 as one) and for
            # integers too large for a float.
            if isinstance(instance, float) or Fraction(instance) % Fraction(argument):
                yield Error("")

    def required(validator: Any, argument: Any, instance: Any, schema: Any) -> Errors:
        if validator.is_type(instance, "object"):
            for member in argument:
                if member not in instance:
                    yield Error("", validator_value=member)

    def formatted(validator: Any, name: Any, instance: Any, schema: Any) -> Errors:
        checker = validator.format_checker
        is_long = validator.is_type(instance, "string") and len(instance) > LONGEST_FORMATTED
        if is_long and checker and name in checker.checkers:
            raise Undecided(f"The format {name!r} is not checked in {len(instance):,} characters.")
        yield from original["format"](validator, name, instance, schema) or ()

    def foreign(validator: Any, argument: Any, instance: Any, schema: Any) -> Errors:
        raise Undecided("A part of the schema names a draft with keywords beyond draft 7.")

    replaced = {
        **dict.fromkeys(("$ref", "$dynamicRef"), ref),  # which the original treats alike
        "format": formatted,
        "pattern": pattern,
        "patternProperties": pattern_properties,
        "additionalProperties": additional_properties,
        "unevaluatedProperties": unevaluated_properties,
        "uniqueItems": unique_items,
        "required": required,
    }
    if paper:
        words = "$dynamicRef", "$recursiveRef", "unevaluatedItems", "unevaluatedProperties"
        replaced |= dict.fromkeys(words, foreign) | {"multipleOf": multiple_of}
    keywords = {word: check for word, check in replaced.items() if word in original}
    bounded_class = validators.extend(kind, keywords)
    descended = bounded_class.descend
    evolved = bounded_class.evolve
    iterated = bounded_class.iter_errors

    def descend(
        validator: Any, instance: Any, schema: Any, path: Any = None, **more: Any
    ) -> Errors:
        CLOCK.check()
        if schema is not False:
            return descended(validator, instance, schema, path, **more)  # type: ignore[no-any-return]
        # The original reports the place of neither the value nor the schema.
        error = Error("", validator=None, validator_value=None, instance=instance, schema=False)
        if more.get("schema_path") is not None:
            error.schema_path.appendleft(more["schema_path"])
        return iter([error])

    def evolve(validator: Any, **changes: Any) -> Any:
        subvalidator = evolved(validator, **changes)
        if type(subvalidator) is bounded_class:
            return subvalidator
        return bounded(subvalidator.__class__, paper=paper)(  # a subschema with its own $schema
            subvalidator.schema,
            format_checker=subvalidator.format_checker,
            registry=subvalidator._registry,
            _resolver=subvalidator._resolver,
        )

    def iter_errors(validator: Any, instance: Any, *schema: Any) -> Errors:
        CLOCK.check()  # for keywords that do not descend: contains, not, if
        return iterated(validator, instance, *schema)  # type: ignore[no-any-return]

    bounded_class.descend = descend
    bounded_class.evolve = evolve
    bounded_class.iter_errors = iter_errors
    return bounded_class


def _search(pattern: str, text: str) -> bool:
    """Return whether a pattern occurs in the text, or raise Undecided at the time limit."""
    compiled = _regular(pattern)
    CLOCK.check()
    try:
        return compiled.search(text, timeout=LONGEST_SEARCH) is not None
    except TimeoutError:
        raise Undecided(f"The pattern {pattern[:60]!r} takes too long in one text.") from None


@lru_cache(maxsize=1024)
def _regular(pattern: str) -> Any:
    """Compile a pattern of `re` with ``regex``, which has time limits."""
    re.compile(pattern)  # refuses what only `regex` accepts
    if count_pattern_parts(pattern) > MAX_PATTERN_PARTS:
        raise Undecided(f"The pattern {pattern[:60]!r} takes too much memory.")
    escaped = {"{": r"\{", "[": "[\\"}  # [:alpha:] becomes [\:alpha:]
    plain = _FOREIGN.sub(lambda match: escaped.get(match[0], match[0]), pattern)
    return regex.compile(plain, regex.VERSION0)


def _path_referred(reference: str, target: Any, schema: Any) -> tuple[str | int, ...] | None:
    """Return the path to a reference's target, or None if it is outside the schema."""
    if reference.startswith("#"):
        resolved = resolve_fragment(reference[1:], schema)
        if resolved and resolved[1] is target:
            return resolved[0]
    for path, subschema in schemas.iter_objects(schema):
        if subschema is target:
            return path
    return None


_FOREIGN = re.compile(r"\\N\{[^}]*\}|\\.|\[(?=:)|\{(?!\d*,?\d*\})", re.DOTALL)
"""Matches syntax with a meaning only in `regex`: [:alpha:] and fuzzy matching, {e<=1}."""


class PaperValidator:
    """A compiled schema, not checked against its meta-schema, as in the authors' code."""

    def __init__(self, schema: Any, seconds: float = MOST_SECONDS) -> None:
        self.schema = schema
        self._seconds = seconds
        self._values = schemas.check_schema(schema)
        self._targets: dict[tuple[str, int], tuple[str | int, ...] | None] = {}
        try:  # the registry contains only the drafts: nothing is fetched
            self._engine = bounded(Draft7Validator, paper=True)(schema, registry=REGISTRY)
        except Exception as error:  # an $id that is not a string
            problem = f"Draft7Validator refuses the schema ({type(error).__name__}: {error})."
            raise DataInvalid(problem, "Fix the schema.") from None

    def read(self, text: str, format: str = "json") -> Any:
        """Return the value of a document in a format, as the authors read it.

        Raises:
            UnparseableDocument: If the document is not in the format, or exceeds a limit.
        """
        if format not in FORMATS:  # the authors read no others
            return read(text, format, schema=self.schema)
        return documents.read(text, format, mode="paper")

    def violations(self, value: Any) -> tuple[Violation, ...]:
        """Return all violations in a value, or () if it is valid.

        Raises:
            Undecided: If validation takes too long, or the engine fails.
            DataInvalid: If a reference of the schema leads nowhere, or a pattern is invalid.
        """
        schemas.check_work(self._values, value, MOST_WORK)
        CLOCK.start(self._seconds)
        try:
            return tuple(map(self.violation, self._engine.iter_errors(value)))
        except Endless as error:
            raise Undecided(error.message) from None
        except Undecided:
            raise
        except Unresolvable as error:
            raise DataInvalid(
                f"A $ref of the schema points to nothing within it: {str(error)[:200]}.",
                "References are not fetched: copy what they name into definitions.",
            ) from None
        except re.error as error:
            problem = f"A pattern of the schema is not a regular expression: {error}."
            raise DataInvalid(problem, "Fix it.") from None
        except BaseException as error:
            # What the original raises for a schema or value that it cannot handle; its registry is
            # Rust, and panics on stack overflow (with an exception class that cannot be imported).
            name = type(error).__name__
            if not isinstance(error, Exception) and name != "PanicException":
                raise
            raise Undecided(f"Draft7Validator fails ({name}: {str(error)[:200]}).") from None

    def violation(self, error: Any) -> Violation:
        """Convert a validation error of the engine into a violation."""
        path: tuple[str | int, ...] | None = tuple(error.absolute_schema_path)
        if hasattr(error, "referred"):  # the engine omits a path's part before a reference
            reference, target, inside = error.referred
            key = (reference, id(target))
            if key not in self._targets:
                self._targets[key] = _path_referred(reference, target, self.schema)
            path = self._targets[key]
            if path is not None:
                path = (*path, *inside)
        keyword = "falseSchema"
        expected = False
        if error.validator is not None:
            keyword = str(error.validator)
            expected = error.validator_value
        return Violation(
            pointer(error.absolute_path),
            keyword,
            value_text(expected),
            value_text(error.instance),
            pointer(path or ()),
        )
