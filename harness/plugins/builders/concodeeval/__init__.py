"""Builds a benchmark like ConCodeEval's (arXiv 2407.03387) from a seed.

About 45% of the instances are invalid: each violates one keyword of its schema. A value to which
the keyword applies is replaced in a valid instance, and the result is kept if the validator reports
only this violation. Keywords within ``contains`` cannot be violated in this way: if no item
matches, ``contains`` itself is violated.

All schemas are satisfiable and distinct, whereas 48 of the published schemas are duplicates. Root
scalars are distributed as in the 300 published schemas: 128 of 150 numbers have ``multipleOf``, 138
of 150 strings have a ``format`` (one of 19), and bounds are the ends of the value range. But a
third of the bounds on length are within the range, because the published ``minLength`` is always 0,
which excludes nothing.
"""

from __future__ import annotations

import contextlib
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, islice, product, zip_longest
from pathlib import Path
from typing import Any, Literal

from msgspec import Struct

from harness.errors import ConfigError
from harness.plugins.benchmarks.concodeeval.schema import Schema
from harness.plugins.benchmarks.concodeeval.setting import Label, Sample
from harness.plugins.builders import folder
from harness.plugins.builders.concodeeval import values
from harness.plugins.builders.concodeeval.values import (
    FORMATS,
    PATTERNS,
    WORDS,
    NoInstanceError,
    draw,
    is_satisfiable,
    number,
    valid,
)
from harness.plugins.builders.draws import Draws
from harness.records import JsonObject
from harness.scoring.validators import Validator, Violation, validator

Vocabulary = Literal["paper", "extended"]
ROOTS = ("number", "string", "array", "object")
PER_RANGE = 50
RANGES = (10, 50, 100)
MOST_PROPERTIES = {10: 8, 50: 20, 100: 40}
DEEPEST = 3
ATTEMPTS = 500


class BuiltSchema(Struct, frozen=True):
    """A randomly generated schema: one line of ``schemas.jsonl``."""

    id: str
    root: str
    range: tuple[int, int] | None
    schema: JsonObject


def generate(
    seed: int,
    *,
    vocabulary: Vocabulary = "paper",
    per_range: int = PER_RANGE,
    attempts: int = ATTEMPTS,
) -> Iterator[BuiltSchema]:
    """Yield ``per_range`` schemas of each root type and value range, all distinct.

    The root types boolean and null have no range, and get one schema each.
    """
    seen: set[str] = set()
    for root, place, high in product(ROOTS, range(per_range), RANGES):
        # As in the names of the authors' files.
        name = f"composite_0_{high}_{root}_i_{place}"
        if root in ("number", "string"):
            name = f"{root}_0_{high}_i_{place}"
        draws = Draws(seed, "schemas", vocabulary, name)
        for _ in range(attempts):
            schema = drawn(root, high, vocabulary, draws)
            key = json.dumps(schema, sort_keys=True)
            if key not in seen and is_satisfiable(schema, draws):
                break
        else:
            message = f"{attempts} draws gave no further {root} schema of the range 0-{high}"
            remedy = "Ask for fewer schemas, or for the extended vocabulary."
            raise ConfigError(f"{message} that is satisfiable and new.", remedy)
        seen.add(key)
        yield BuiltSchema(name, root, (0, high), schema)
    for root in ("boolean", "null"):
        yield BuiltSchema(root, root, None, {"type": root})


def drawn(root: str, high: int, vocabulary: Vocabulary, draws: Draws) -> JsonObject:
    """Draw a schema of a root type, with bounds of at most ``high``. It may be unsatisfiable."""
    return _Maker(draws, high, vocabulary == "extended").root(root)


class _Maker:
    def __init__(self, draws: Draws, high: int, extended: bool) -> None:
        self.draws = draws
        self.high = high
        self.extended = extended

    def root(self, kind: str) -> JsonObject:
        match kind:
            case "number":
                return self._number(128 / 150, root=True)
            case "string" if self.extended and self.draws.chance(0.2):
                if self.draws.chance(0.5):
                    return self._pattern()
                return self._choice("string")
            case "string":
                return self._string(138 / 150, inside=1 / 3)
            case "array":
                return self._array(1)
        return self._object(1)

    def _inner(self, depth: int = 1, composite: float = 0) -> JsonObject:
        """Draw a satisfiable subschema, a composite one with the probability ``composite``."""
        # `generate` does not check that optional properties are satisfiable.
        makers = (self._object, self._array) if self.extended else (self._object,)
        while True:
            if depth <= DEEPEST and self.draws.chance(composite):
                make = self.draws.choice(makers)
                schema = make(depth)
            else:
                schema = self._scalar()
            if is_satisfiable(schema, self.draws):
                return schema

    def _scalar(self) -> JsonObject:
        """Draw the schema of an item or property."""
        draws = self.draws
        high = self.high
        kinds = {"number": 4, "string": 4, "boolean": 2, "null": 2, "": 2}
        if self.extended:
            kinds |= {"integer": 3, "choice": 3, "pattern": 2}
        match draws.weighted(kinds):
            case "number" if draws.chance(0.5):
                return self._number(0.5)
            case "string":
                return self._string(0.4, inside=0.8)
            case "integer":
                low = draws.integer(0, high // 2)
                return {"type": "integer", "minimum": low, "maximum": draws.integer(low, high)}
            case "choice":
                return self._choice(draws.choice(("string", "integer")))
            case "pattern":
                return self._pattern()
            case "":
                return {}
            case kind:
                return {"type": kind}

    def _number(self, multiples: float, root: bool = False) -> JsonObject:
        draws = self.draws
        highest = self.high * 100
        middle = highest // 2
        schema: JsonObject = {"type": "number"}
        if draws.chance(multiples):
            largest = highest if root else middle
            schema["multipleOf"] = number(draws.integer(1, largest))
        for bound in draws.weighted(_BOUNDS):
            is_lower = bound.endswith("inimum")
            value = 0 if is_lower else highest
            if not root and is_lower:
                value = draws.integer(0, middle)
            elif not root:
                value = draws.integer(middle + 1, highest)
            schema[bound] = number(value)
        return schema

    def _string(self, formatted: float, inside: float) -> JsonObject:
        # A bound on length is within the range with probability `inside`, otherwise at its end.
        # A bound on length is within the range with probability `inside`, otherwise at its end.
        draws = self.draws
        high = self.high
        middle = high // 2
        schema: JsonObject = {"type": "string"}
        if draws.chance(formatted):
            schema["format"] = draws.choice(tuple(FORMATS))
        for bound in draws.weighted(_LENGTHS):
            is_inside = draws.chance(inside)
            if bound == "minLength":
                schema[bound] = draws.integer(0, middle) if is_inside else 0
            else:
                schema[bound] = draws.integer(middle + 1, high) if is_inside else high
        return schema

    def _choice(self, kind: str) -> JsonObject:
        draws = self.draws
        pool: Sequence[Any] = WORDS if kind == "string" else range(self.high + 1)
        values = draws.sample(pool, draws.integer(1, 5))
        if len(values) > 1:
            return {"type": kind, "enum": values}
        return {"type": kind, "const": values[0]}

    def _pattern(self) -> JsonObject:
        return {"type": "string", "pattern": self.draws.choice(tuple(PATTERNS))}

    def _array(self, depth: int) -> JsonObject:
        draws = self.draws
        is_root = depth == 1
        schema: JsonObject = {"type": "array"}
        form = draws.weighted({"items": 5, "contains": 5, "": 1 if is_root else 3})
        if form:
            composite = 0.4 if is_root else 0.25
            schema[form] = self._inner(depth + 1, composite)
        if form == "contains" and draws.chance(0.7):
            fewest = draws.integer(0, 4)
            schema["minContains"] = fewest
            if self.extended and draws.chance(0.5):
                schema["maxContains"] = draws.integer(max(fewest, 1), fewest + 3)
        elif self.extended and form == "items":
            if draws.chance(0.6):
                fewest = draws.integer(0, 4)
                schema["minItems"] = fewest
                if draws.chance(0.6):
                    schema["maxItems"] = draws.integer(max(fewest, 1), fewest + 4)
            if draws.chance(0.4):
                schema["uniqueItems"] = True
        return schema

    def _object(self, depth: int) -> JsonObject:
        draws = self.draws
        limit = MOST_PROPERTIES[self.high] if depth == 1 else 5 + self.high // 10
        names = draws.sample(WORDS, draws.integer(1, limit))
        composite = 0.0
        additional = {"": 3, "true": 3, "false": 4}
        if self.extended:
            composite = 0.2
            additional["schema"] = 3
        properties = {name: self._inner(depth + 1, composite) for name in names}
        schema: JsonObject = {"type": "object", "properties": properties}
        match draws.weighted(additional):
            case "schema":
                schema["additionalProperties"] = self._inner()
            case "true":
                schema["additionalProperties"] = True
            case "false":
                schema["additionalProperties"] = False
        share = draws.choice((0.0, 0.3, 0.5, 0.8))
        required = [name for name in names if draws.chance(share)]
        if required:
            schema["required"] = required
        return schema


# Counts of published schemas by combination of bounds: 128 numbers with ``multipleOf``, 150 strings
_RECORDED = json.loads(Path(__file__).with_name("bounds.json").read_text("utf-8"))
_BOUNDS = {tuple(bounds): n for bounds, n in _RECORDED["number"]}
_LENGTHS = {tuple(bounds): n for bounds, n in _RECORDED["string"]}


KIND = "concodeeval"
SCHEMAS = "schemas.jsonl"
VALIDATION = "validation.jsonl"
VERSION = 2  # incremented when a seed gives different files
INSTANCES = 3076
SHARE_NO = 0.45
VIOLATION = ("keyword", "path", "schema_path")  # fields that a violation and a row share
TRIES = 120  # maximum valid instances drawn (for a "no", then changed) per schema and label


class InstanceRow(Sample, frozen=True):
    """A sample of the validation task, as a line of ``validation.jsonl``."""

    keyword: str | None = None  # the keyword that a "no" violates
    path: str | None = None  # JSON pointer to the offending value of a "no"
    schema_path: str | None = None  # JSON pointer to the keyword that a "no" violates


def draw_instances(
    seed: int, schemas: Sequence[BuiltSchema], *, yes: int, no: int
) -> list[InstanceRow]:
    """Draw up to ``yes`` valid and ``no`` invalid instances, from the schemas in turn.

    All instances of a schema differ.
    """
    instances: dict[str, list[InstanceRow]] = {row.id: [] for row in schemas}
    seen: dict[str, set[str]] = {row.id: set() for row in schemas}
    sizes: dict[Label, int] = {"yes": yes, "no": no}
    for label, n in sizes.items():
        streams = [_different(row, label, seed, seen[row.id]) for row in schemas]
        in_turn = chain.from_iterable(zip_longest(*streams))
        for instance in islice(filter(None, in_turn), n):
            instances[instance.schema_id].append(instance)
    return list(chain.from_iterable(instances.values()))


def _different(row: BuiltSchema, label: Label, seed: int, seen: set[str]) -> Iterator[InstanceRow]:
    strict = validator(row.schema)
    paper = validator(row.schema, mode="paper")
    draws = Draws(seed, "instances", row.id, label)
    draw_all = _valid if label == "yes" else violating
    n = 0
    for value, violation in draw_all(row.schema, draws, strict):
        key = json.dumps(value, sort_keys=True)
        if key in seen:
            continue
        seen.add(key)
        yield InstanceRow(
            id=f"{row.id}/{label}_{n}",
            schema_id=row.id,
            value=value,
            label=label,
            paper_label="no" if paper.violations(value) else "yes",
            **{name: getattr(violation, name, None) for name in VIOLATION},
        )
        n += 1


def _valid(schema: Schema, draws: Draws, by: Validator) -> Iterator[tuple[Any, None]]:
    with contextlib.suppress(NoInstanceError):
        for _ in range(TRIES):
            yield valid(schema, draws, by), None


def violating(schema: Schema, draws: Draws, by: Validator) -> Iterator[tuple[Any, Violation]]:
    """Yield up to `TRIES` instances that each violate exactly one keyword, with the violation."""
    n_tried = Counter[str]()
    for value, _ in _valid(schema, draws, by):
        root = {"": value}
        with contextlib.suppress(NoInstanceError):
            places = list(_places(schema, root, ""))
            keywords = dict.fromkeys(chain.from_iterable(part for part, *_ in places))
            # Of the least tried keywords, ``type``, which is in all schemas, comes last.
            keyword = min(
                draws.shuffled(list(keywords)), key=lambda name: (n_tried[name], name == "type")
            )
            n_tried[keyword] += 1
            with_keyword = [place for place in places if keyword in place[0]]
            part, holder, key = draws.choice(with_keyword)
            for candidate in _candidates(part, keyword, holder[key], draws):
                holder[key] = candidate
                violations = by.violations(root[""])
                if [violation.keyword for violation in violations] == [keyword]:
                    yield root[""], violations[0]
                    break


def _places(schema: Schema, holder: Any, key: Any) -> Iterator[tuple[Schema, Any, Any]]:
    """Yield (schema, holder, key) for ``holder[key]`` and the values in it that have a schema."""
    yield schema, holder, key
    value = holder[key]
    inner: dict[Any, Any] = {}
    if isinstance(value, list):
        inner = dict.fromkeys(range(len(value)), schema.get("items"))
    elif isinstance(value, dict):
        properties = schema.get("properties", {})
        additional = schema.get("additionalProperties")
        inner = {name: properties.get(name, additional) for name in value}
    for name, part in inner.items():
        if isinstance(part, dict) and part:
            yield from _places(part, value, name)


def _candidates(schema: Schema, keyword: str, value: Any, draws: Draws) -> Sequence[Any]:
    """Return values that may violate the keyword, to replace a valid value."""
    match keyword:
        case "type":
            return _of_other_types(value, draws)
        case "minimum" | "exclusiveMinimum" | "maximum" | "exclusiveMaximum":
            return values.beyond(schema, keyword, draws)
        case "multipleOf":
            return values.no_multiples(schema, draws)
        case "minLength" | "maxLength" | "format" | "pattern":
            return values.violating_strings(schema, keyword, draws)
        case "const" | "enum" if isinstance(value, str):
            return [draws.choice(WORDS), value.upper(), value + "s"]
        case "const" | "enum":
            return [value + draws.choice((-1, 1)), value + draws.integer(2, 99)]
        case "required":
            names = draws.sample([name for name in schema["required"] if name in value], 3)
            return [_without(value, name) for name in names]
        case "additionalProperties":
            return [{**value, values.other_name(schema, value, draws): values.anything(draws)}]
        case "minItems":
            return [value[: max(0, schema["minItems"] - 1)]]
        case "maxItems":
            missing = schema["maxItems"] + 1 - len(value)
            added = [values.uncounted(schema, draws) for _ in range(missing)]
            return [[*value, *added]]
        case "uniqueItems" if value:
            return [[*value, value[0]], [*value[:-1], value[0]]]
        case "contains" | "minContains" | "maxContains" if "contains" in schema:
            contains = validator(schema["contains"])
            others = [item for item in value if contains.violations(item)]
            n_counted = max(schema.get("minContains", 1) - 1, 0)
            if keyword == "maxContains":
                n_counted = schema["maxContains"] + 1
            if not others and draws.chance(0.7):
                others = [values.uncounted(schema, draws)]
            counted = [draw(schema["contains"], draws) for _ in range(n_counted)]
            return [draws.shuffled([*others, *counted])]
    return []


def _without(value: JsonObject, name: str) -> JsonObject:
    return {key: member for key, member in value.items() if key != name}


def _of_other_types(value: Any, draws: Draws) -> list[Any]:
    word = draws.choice(WORDS)
    others: list[Any] = [word, draws.integer(0, 99), draws.chance(0.5), None]
    others += [[value], {word: value}]
    match value:
        case None | bool():
            others += [str(value).lower(), "null", 0, 1, False, ""]
        case int() | float():
            others += [str(value), str(value), value + 0.5]
        case str():
            others += [2.5, True]
        case list():
            others += [*value[:1], {word: draws.integer(0, 99)}]
        case dict():
            others += [list(value), []]
    return draws.shuffled(others)


def build(
    seed: int,
    out: Path,
    *,
    vocabulary: Vocabulary = "paper",
    per_range: int = PER_RANGE,
    instances: int = INSTANCES,
) -> Mapping[str, Mapping[str, int]]:
    """Build the benchmark from a seed, and write its folder.

    At most ``instances`` are drawn for the validation task, and ``per_range`` schemas of each root
    type and value range, with the keywords of the ``vocabulary``. Return the numbers of schemas by
    root type, of instances by label, of invalid instances by keyword and, by label, of instances
    that the authors' code labels differently.
    """
    folder.refuse_other(out, KIND, (SCHEMAS, VALIDATION))
    schemas = list(generate(seed, vocabulary=vocabulary, per_range=per_range))
    no = round(instances * SHARE_NO)
    rows = draw_instances(seed, schemas, yes=instances - no, no=no)
    otherwise = [row.label for row in rows if row.label != row.paper_label]
    counters: dict[str, Counter[str]] = {
        "schemas": Counter(row.root for row in schemas),
        "labels": Counter(row.label for row in rows),
        "keywords": Counter(row.keyword for row in rows if row.keyword),
        "paper_labels_otherwise": Counter(otherwise),
    }
    counts = {what: dict(counter.most_common()) for what, counter in counters.items()}
    facts = {
        "version": VERSION,
        "seed": seed,
        "vocabulary": vocabulary,
        "per_range": per_range,
        "instances": instances,
        "share_no": SHARE_NO,
        "counts": counts,
    }
    folder.write(out, KIND, {SCHEMAS: schemas, VALIDATION: rows}, facts)
    return counts
