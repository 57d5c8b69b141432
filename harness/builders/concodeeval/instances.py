"""The instances of the validation task: valid ones, and ones that violate exactly one keyword.

A `Target` is a keyword of the schema and the route from the root of an instance to where it
applies. `violated` draws a valid instance, replaces the value there, and keeps the result only if
the validator reports that keyword at that place and nothing else. Keywords within ``contains`` are
not targets: an item that does not match violates ``contains`` itself.
"""

from __future__ import annotations

import contextlib
import copy
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Literal

from msgspec import Struct

from harness.builders.concodeeval import strings
from harness.builders.concodeeval.schemas import BuiltSchema
from harness.builders.concodeeval.strings import WORDS
from harness.builders.concodeeval.values import (
    NoInstanceError,
    anything,
    draw,
    no_multiples,
    number,
    numbers_beyond,
    other_name,
    unmatched,
    valid,
)
from harness.builders.draws import Draws
from harness.scoring.validators import Validator, Violation, validator
from harness.tasks.concodeeval.schema import Schema, pointer

ROUNDS = 12
"""Rounds of draws for new instances of a schema."""
ATTEMPTS = 8
"""Valid instances that are tried for a target."""
NEVER_VIOLATED = frozenset({"properties", "items"})
"""Keywords of which only the contents can be violated."""
WITHOUT_EFFECT = {
    "minLength": 0, "minItems": 0, "minContains": 0, "required": [], "uniqueItems": False,
}  # fmt: skip
"""Values with which a keyword excludes nothing."""

Kind = Literal["property", "item", "additional"]
Label = Literal["yes", "no"]


class InstanceRow(Struct, frozen=True):
    """One line of ``validation.jsonl``.

    Attributes:
        label: The verdict of Draft 2020-12 with formats.
        paper_label: The verdict of the authors' code: Draft 7, no formats, Python's floats.
        keyword: The keyword that a "no" violates; None for a "yes", like the two paths.
        path: JSON Pointer to the offending value in the instance.
    """

    id: str
    schema_id: str
    value: Any
    label: Label
    paper_label: Label
    keyword: str | None = None
    path: str | None = None
    schema_path: str | None = None


def instances(seed: int, schemas: Sequence[BuiltSchema], *, yes: int, no: int) -> list[InstanceRow]:
    """Draw instances of each label, spread evenly over the schemas.

    There are fewer than ``yes`` or ``no`` if all schemas together have no more different ones.
    """
    found: dict[str, list[InstanceRow]] = {row.id: [] for row in schemas}
    seen = {row.id: set[str]() for row in schemas}
    wanted: dict[Label, int] = {"yes": yes, "no": no}
    for label, n in wanted.items():
        streams = [
            _different(row, label, Draws(seed, "instances", row.id, label), seen[row.id])
            for row in schemas
        ]
        for instance in islice(_in_turn(streams), n):
            found[instance.schema_id].append(instance)
    return [row for rows in found.values() for row in rows]


def _in_turn(streams: list[Iterator[InstanceRow]]) -> Iterator[InstanceRow]:
    while streams:
        left = []
        for stream in streams:
            for row in islice(stream, 1):
                left.append(stream)
                yield row
        streams = left


def _different(
    row: BuiltSchema, label: Label, draws: Draws, seen: set[str]
) -> Iterator[InstanceRow]:
    number = 0
    for value, violation in _values(row.schema, label, draws):
        key = json.dumps(value, sort_keys=True)
        if key in seen:
            continue
        seen.add(key)
        yield InstanceRow(
            id=f"{row.id}/{label}_{number}",
            schema_id=row.id,
            value=value,
            label=label,
            paper_label="no" if validator(row.schema, mode="paper").violations(value) else "yes",
            keyword=violation.keyword if violation else None,
            path=violation.path if violation else None,
            schema_path=violation.schema_path if violation else None,
        )
        number += 1


def _values(schema: Schema, label: Label, draws: Draws) -> Iterator[tuple[Any, Violation | None]]:
    """Yield instances; for "no", keywords in turn, so that types do not dominate."""
    strict = validator(schema)
    if label == "yes":
        for _ in range(ROUNDS * 10):
            with contextlib.suppress(NoInstanceError):
                yield valid(schema, draws, strict), None
        return
    for _ in range(ROUNDS):
        for target in _one_of_each_keyword(targets(schema), draws):
            if found := violated(schema, target, draws, strict):
                yield found


def _one_of_each_keyword(found: Iterable[Target], draws: Draws) -> list[Target]:
    """Return a target of each keyword, shuffled; ``type``, which all schemas have, comes last."""
    by_keyword: dict[str, list[Target]] = {}
    for target in found:
        by_keyword.setdefault(target.keyword, []).append(target)
    chosen = draws.shuffled([draws.choice(group) for group in by_keyword.values()])
    return sorted(chosen, key=lambda target: target.keyword == "type")


@dataclass(frozen=True, slots=True)
class Target:
    """A keyword to violate.

    Attributes:
        route: From the root of an instance to the value that the subschema describes: of each step
            the kind, the name of a property, and the subschema.
    """

    keyword: str
    schema_path: str
    schema: Schema
    route: tuple[tuple[Kind, str, Schema], ...]


def targets(
    schema: Schema, at: str = "", route: tuple[tuple[Kind, str, Schema], ...] = ()
) -> Iterator[Target]:
    """Yield all targets of a schema, outer ones first."""
    for keyword, value in schema.items():
        allows_all = keyword == "additionalProperties" and value is not False
        if keyword not in NEVER_VIOLATED and not allows_all:
            yield Target(keyword, pointer(at, keyword), schema, route)
    inner: list[tuple[str, Kind, str, Any]] = [
        (pointer(at, "properties", name), "property", name, each)
        for name, each in schema.get("properties", {}).items()
    ]
    inner.append((pointer(at, "items"), "item", "", schema.get("items")))
    extra = schema.get("additionalProperties")
    inner.append((pointer(at, "additionalProperties"), "additional", "", extra))
    for place, kind, name, each in inner:
        if isinstance(each, dict):
            yield from targets(each, place, (*route, (kind, name, each)))


def violated(
    schema: Schema, target: Target, draws: Draws, by: Validator
) -> tuple[Any, Violation] | None:
    """Draw an instance that violates the target and nothing else.

    Returns:
        The instance and its one violation; None if bounded attempts find none, or if the keyword
        cannot be violated alone.
    """
    if not _can_be_violated(target.schema, target.keyword):
        return None
    for _ in range(ATTEMPTS):
        try:
            found = _attempt(schema, target, draws, by)
        except NoInstanceError:
            continue
        if found:
            return found
    return None


def _can_be_violated(schema: Schema, keyword: str) -> bool:
    if keyword in WITHOUT_EFFECT and schema[keyword] == WITHOUT_EFFECT[keyword]:
        return False
    if keyword == "contains":  # too few matching items then violate minContains
        return "minContains" not in schema
    return keyword not in ("minContains", "maxContains") or "contains" in schema


def _attempt(
    schema: Schema, target: Target, draws: Draws, by: Validator
) -> tuple[Any, Violation] | None:
    """Follow the route through a valid instance, drawing what is missing, and change its end."""
    whole = {"": copy.deepcopy(valid(schema, draws, by))}
    holder: Any = whole  # holder[key] is where the route has led so far
    key: Any = ""
    path, above = "", schema
    for kind, name, inner in target.route:
        holder = holder[key]
        if kind == "item":
            if not holder:
                holder.append(draw(inner, draws))
            key = draws.integer(0, len(holder) - 1)
        else:
            key = name if kind == "property" else other_name(above, holder, draws)
            if key not in holder:
                holder[key] = draw(inner, draws)
        path, above = pointer(path, key), inner
    for candidate in _candidates(target.schema, target.keyword, holder[key], draws):
        holder[key] = candidate
        found = by.violations(whole[""])
        wanted = (path, target.keyword, target.schema_path)
        if [(one.path, one.keyword, one.schema_path) for one in found] == [wanted]:
            return whole[""], found[0]
    return None


def _candidates(schema: Schema, keyword: str, value: Any, draws: Draws) -> list[Any]:
    """Return replacements of a valid value that violate the keyword, and probably no other."""
    match keyword:
        case "type":
            return _of_other_types(schema, value, draws)
        case "minimum" | "exclusiveMinimum" | "maximum" | "exclusiveMaximum":
            return [number(each) for each in numbers_beyond(schema, keyword, draws)]
        case "multipleOf":
            return [number(each) for each in no_multiples(schema, draws)]
        case "minLength" | "maxLength" | "format" | "pattern":
            return [*strings.violating(schema, keyword, draws)]
        case "const" | "enum":
            return _other_values(value, draws)
        case "required":
            names = [name for name in schema["required"] if name in value]
            return [
                {name: member for name, member in value.items() if name != gone}
                for gone in draws.sample(names, 3)
            ]
        case "additionalProperties":
            return [{**value, other_name(schema, value, draws): anything(draws)}]
        case "minItems":
            return [value[: schema["minItems"] - 1]]
        case "maxItems":
            missing = schema["maxItems"] + 1 - len(value)
            return [[*value, *(unmatched(schema, draws) for _ in range(missing))]]
        case "uniqueItems" if value:
            return [[*value, value[0]], [*value[:-1], value[0]]]
        case "contains" | "minContains" | "maxContains":
            contains = validator(schema["contains"])
            others = [item for item in value if contains.violations(item)]
            if keyword == "maxContains":
                many = schema["maxContains"] + 1
            else:
                many = max(schema.get("minContains", 1) - 1, 0)
            if not others and draws.chance(0.7):
                others = [unmatched(schema, draws)]
            matching = [draw(schema["contains"], draws) for _ in range(many)]
            return [draws.shuffled([*others, *matching])]
    return []


def _of_other_types(schema: Schema, value: Any, draws: Draws) -> list[Any]:
    """Return models' typical mistakes: the value in quotes, in a list, as a different scalar."""
    word = draws.choice(WORDS)
    others: list[Any] = [word, draws.integer(0, 99), draws.chance(0.5), None, [value]]
    match schema["type"]:
        case "number" | "integer":
            others = [str(value), None, [value], draws.chance(0.5), {word: value}]
            if schema["type"] == "integer":
                others.append(value + 0.5)
        case "string":
            others = [draws.integer(0, 99), 2.5, True, None, [value], {word: value}]
        case "boolean":
            others = [str(value).lower(), int(value), None, [value]]
        case "null":
            others = ["null", 0, False, "", [], {}, [None], {word: None}, draws.integer(1, 99)]
        case "array":
            others = [*value[:1], {word: value}, {word: draws.integer(0, 99)}, word, None, True]
        case "object":
            others = [[value], list(value), word, None, draws.integer(0, 99), []]
    return draws.shuffled(others)


def _other_values(value: Any, draws: Draws) -> list[Any]:
    """Return other values of the same type."""
    match value:
        case bool():
            return [not value]
        case int():
            return [value + 1, value - 1, value + draws.integer(2, 99)]
        case float():
            return [value + 1.5, value - 1.5]
        case str():
            return [draws.choice(WORDS), value.upper(), value + "s"]
    return []
