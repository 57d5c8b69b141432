"""Builds a benchmark like ConCodeEval's (arXiv 2407.03387) from a seed.

About 45% of the instances are invalid: each violates one keyword of its schema. A value to which
the keyword applies is replaced in a valid instance, and the result is kept if the validator reports
only this violation. Keywords within ``contains`` cannot be violated in this way: if no item
matches, ``contains`` itself is violated.
"""

from __future__ import annotations

import contextlib
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, count, islice, zip_longest
from pathlib import Path
from typing import Any

from harness.plugins.benchmarks.concodeeval.schema import Schema
from harness.plugins.benchmarks.concodeeval.setting import Label, Sample
from harness.plugins.builders import folder
from harness.plugins.builders.concodeeval import values
from harness.plugins.builders.concodeeval.schemas import (
    PER_RANGE,
    BuiltSchema,
    Vocabulary,
    generate,
)
from harness.plugins.builders.concodeeval.values import WORDS, NoInstanceError, draw, valid
from harness.plugins.builders.draws import Draws
from harness.scoring.validators import Validator, Violation, validator

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
    found: dict[str, list[InstanceRow]] = {row.id: [] for row in schemas}
    seen = {row.id: set[str]() for row in schemas}
    wanted: dict[Label, int] = {"yes": yes, "no": no}
    for label, n in wanted.items():
        streams = [_different(row, label, seed, seen[row.id]) for row in schemas]
        in_turn = chain.from_iterable(zip_longest(*streams))
        for instance in islice(filter(None, in_turn), n):
            found[instance.schema_id].append(instance)
    return [*chain.from_iterable(found.values())]


def _different(row: BuiltSchema, label: Label, seed: int, seen: set[str]) -> Iterator[InstanceRow]:
    strict, paper = validator(row.schema), validator(row.schema, mode="paper")
    draws, numbers = Draws(seed, "instances", row.id, label), count()
    for value, violation in (_valid if label == "yes" else violating)(row.schema, draws, strict):
        key = json.dumps(value, sort_keys=True)
        if key not in seen:
            seen.add(key)
            yield InstanceRow(
                id=f"{row.id}/{label}_{next(numbers)}",
                schema_id=row.id,
                value=value,
                label=label,
                paper_label="no" if paper.violations(value) else "yes",
                **{name: getattr(violation, name, None) for name in VIOLATION},
            )


def _valid(schema: Schema, draws: Draws, by: Validator) -> Iterator[tuple[Any, None]]:
    with contextlib.suppress(NoInstanceError):
        for _ in range(TRIES):
            yield valid(schema, draws, by), None


def violating(schema: Schema, draws: Draws, by: Validator) -> Iterator[tuple[Any, Violation]]:
    """Yield up to `TRIES` instances that each violate exactly one keyword, with the violation."""
    tried = Counter[str]()
    for value, _ in _valid(schema, draws, by):
        whole = {"": value}
        with contextlib.suppress(NoInstanceError):
            places = list(_places(schema, whole, ""))
            keywords = draws.shuffled([*{name: 0 for part, *_ in places for name in part}])
            # Of the least tried keywords, ``type``, which is in all schemas, comes last.
            keyword = min(keywords, key=lambda name: (tried[name], name == "type"))
            tried[keyword] += 1
            part, holder, key = draws.choice([place for place in places if keyword in place[0]])
            for candidate in _candidates(part, keyword, holder[key], draws):
                holder[key] = candidate
                found = by.violations(whole[""])
                if [one.keyword for one in found] == [keyword]:
                    yield whole[""], found[0]
                    break


def _places(schema: Schema, holder: Any, key: Any) -> Iterator[tuple[Schema, Any, Any]]:
    """Yield (schema, holder, key) for ``holder[key]`` and the values in it that have a schema."""
    yield schema, holder, key
    value = holder[key]
    inner: dict[Any, Any] = {}
    if isinstance(value, list):
        inner = dict.fromkeys(range(len(value)), schema.get("items"))
    elif isinstance(value, dict):
        own, additional = schema.get("properties", {}), schema.get("additionalProperties")
        inner = {name: own.get(name, additional) for name in value}
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
            return [{name: value[name] for name in value if name != gone} for gone in names]
        case "additionalProperties":
            return [{**value, values.other_name(schema, value, draws): values.anything(draws)}]
        case "minItems":
            return [value[: max(0, schema["minItems"] - 1)]]
        case "maxItems":
            missing = schema["maxItems"] + 1 - len(value)
            return [[*value, *(values.uncounted(schema, draws) for _ in range(missing))]]
        case "uniqueItems" if value:
            return [[*value, value[0]], [*value[:-1], value[0]]]
        case "contains" | "minContains" | "maxContains" if "contains" in schema:
            contains = validator(schema["contains"])
            others = [item for item in value if contains.violations(item)]
            fewer = max(schema.get("minContains", 1) - 1, 0)
            most = schema["maxContains"] + 1 if keyword == "maxContains" else fewer
            if not others and draws.chance(0.7):
                others = [values.uncounted(schema, draws)]
            counted = [draw(schema["contains"], draws) for _ in range(most)]
            return [draws.shuffled([*others, *counted])]
    return []


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
    names: dict[str, Iterable[str]] = {
        "schemas": (row.root for row in schemas),
        "labels": (row.label for row in rows),
        "keywords": (row.keyword for row in rows if row.keyword),
        "paper_labels_otherwise": (row.label for row in rows if row.label != row.paper_label),
    }
    counts = {what: dict(Counter(some).most_common()) for what, some in names.items()}
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
