"""The instances of the validation task: valid ones, and ones that violate exactly one keyword.

A `Target` is a keyword of the schema and the route from the root of an instance to where it
applies. `violated` draws a valid instance, replaces the value there, and keeps the result only if
the validator reports that keyword at that place and nothing else. Keywords within ``contains`` are
no
targets: an item that does not match violates ``contains`` itself.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
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

Step = tuple[Literal["property", "item", "additional"], str]


class InstanceRow(Struct, frozen=True):
    """One line of ``validation.jsonl``.

    Attributes:
        label: The verdict of Draft 2020-12 with formats.
        paper_label: The verdict of the authors' code: Draft 7, no formats, Python's floats.
        keyword: The keyword that a "no" violates; None for a "yes", like the two paths.
        path: JSON Pointer to the offending value in the instance.
        schema_path: JSON Pointer to the keyword in the schema.
    """

    id: str
    schema_id: str
    value: Any
    label: Literal["yes", "no"]
    paper_label: Literal["yes", "no"]
    keyword: str | None = None
    path: str | None = None
    schema_path: str | None = None


def instances(seed: int, schemas: Sequence[BuiltSchema], *, yes: int, no: int) -> list[InstanceRow]:
    """Draw instances of each label, spread evenly over the schemas.

    There are fewer than ``yes`` or ``no`` if all schemas together have no more different ones.
    """
    sources = [_Source(Draws(seed, "instances", row.id), row) for row in schemas]
    found: dict[str, list[InstanceRow]] = {row.id: [] for row in schemas}
    for label, wanted in (("yes", yes), ("no", no)):
        streams = [source.valid() if label == "yes" else source.invalid() for source in sources]
        for row in _in_turn(streams, wanted):
            found[row.schema_id].append(row)
    return [row for rows in found.values() for row in rows]


def _in_turn(streams: list[Iterator[InstanceRow]], wanted: int) -> Iterator[InstanceRow]:
    """Take one from each stream in turn, up to a total."""
    while streams:
        left = []
        for stream in streams:
            if wanted <= 0:
                return
            row = next(stream, None)
            if row is not None:
                wanted -= 1
                left.append(stream)
                yield row
        streams = left


class _Source:
    """The different instances of one schema."""

    def __init__(self, draws: Draws, row: BuiltSchema) -> None:
        self.draws, self.row = draws, row
        self.strict = validator(row.schema)
        self.paper = validator(row.schema, mode="paper")
        self.seen: set[str] = set()

    def valid(self) -> Iterator[InstanceRow]:
        draws = self.draws.stream("yes")
        number = 0
        for _ in range(ROUNDS * 10):
            try:
                value = valid(self.row.schema, draws, self.strict)
            except NoInstanceError:
                continue
            if self._is_new(value):
                yield self._row(f"yes_{number}", value, None)
                number += 1

    def invalid(self) -> Iterator[InstanceRow]:
        """Yield invalid instances, keywords in turn, so that an object's many types do not
        dominate.
        """
        draws = self.draws.stream("no")
        number = 0
        for _ in range(ROUNDS):
            for target in _one_of_each_keyword(list(targets(self.row.schema)), draws):
                found = violated(self.row.schema, target, draws, self.strict)
                if found and self._is_new(found[0]):
                    yield self._row(f"no_{number}", *found)
                    number += 1

    def _is_new(self, value: Any) -> bool:
        key = json.dumps(value, sort_keys=True)
        new = key not in self.seen
        self.seen.add(key)
        return new

    def _row(self, name: str, value: Any, violation: Violation | None) -> InstanceRow:
        return InstanceRow(
            id=f"{self.row.id}/{name}",
            schema_id=self.row.id,
            value=value,
            label="no" if violation else "yes",
            paper_label="no" if self.paper.violations(value) else "yes",
            keyword=violation.keyword if violation else None,
            path=violation.path if violation else None,
            schema_path=violation.schema_path if violation else None,
        )


def _one_of_each_keyword(found: list[Target], draws: Draws) -> list[Target]:
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
        keyword: Its name.
        schema_path: JSON Pointer to it.
        schema: The subschema that has it.
        route: Steps from the root of an instance to the value that the subschema describes.
    """

    keyword: str
    schema_path: str
    schema: Schema
    route: tuple[Step, ...]


def targets(schema: Schema, at: str = "", route: tuple[Step, ...] = ()) -> Iterator[Target]:
    """Yield all targets of a schema, outer ones first."""
    for keyword, value in schema.items():
        allows_all = keyword == "additionalProperties" and value is not False
        if keyword not in NEVER_VIOLATED and not allows_all:
            yield Target(keyword, pointer(at, keyword), schema, route)
    inner: list[tuple[Any, str, Step]] = [
        (each, pointer(at, "properties", name), ("property", name))
        for name, each in schema.get("properties", {}).items()
    ]
    inner.append((schema.get("items"), pointer(at, "items"), ("item", "")))
    extra = schema.get("additionalProperties")
    inner.append((extra, pointer(at, "additionalProperties"), ("additional", "")))
    for each, place, step in inner:
        if isinstance(each, dict):
            yield from targets(each, place, (*route, step))


def violated(
    schema: Schema, target: Target, draws: Draws, by: Validator
) -> tuple[Any, Violation] | None:
    """Draw an instance that violates the target and nothing else.

    Args:
        schema: The whole schema.
        target: One of its `targets`.
        draws: The stream to draw from.
        by: The schema's validator.

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
    whole, path, value = _reached(valid(schema, draws, by), schema, target.route, draws)
    wanted = (path, target.keyword, target.schema_path)
    for candidate in _candidates(target.schema, target.keyword, value, draws):
        changed = _put(whole, path, candidate)
        found = by.violations(changed)
        if [(one.path, one.keyword, one.schema_path) for one in found] == [wanted]:
            return changed, found[0]
    return None


def _reached(
    value: Any, schema: Schema, route: tuple[Step, ...], draws: Draws
) -> tuple[Any, str, Any]:
    """Follow a route through an instance, drawing the parts that are missing on the way.

    Returns:
        The instance with these parts, the JSON Pointer of the route's end, and the value there.

    Raises:
        NoInstanceError: A missing part cannot be drawn.
    """
    if not route:
        return value, "", value
    (kind, name), *rest = route
    if kind == "item":
        items = list(value)
        inner = schema["items"]
        if not items:
            items.append(draw(inner, draws))
        place = draws.integer(0, len(items) - 1)
        items[place], below, found = _reached(items[place], inner, tuple(rest), draws)
        return items, pointer("", place) + below, found
    members = dict(value)
    if kind == "property":
        inner, key = schema["properties"][name], name
    else:
        inner, key = schema["additionalProperties"], other_name(schema, members, draws)
    old = members[key] if key in members else draw(inner, draws)
    members[key], below, found = _reached(old, inner, tuple(rest), draws)
    return members, pointer("", key) + below, found


def _put(value: Any, path: str, new: Any) -> Any:
    """Return the value with the part at a JSON Pointer replaced."""
    if not path:
        return new
    token, *rest = path[1:].split("/", 1)
    below = f"/{rest[0]}" if rest else ""
    if isinstance(value, list):
        items = list(value)
        items[int(token)] = _put(items[int(token)], below, new)
        return items
    key = token.replace("~1", "/").replace("~0", "~")
    return {**value, key: _put(value[key], below, new)}


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
            return list(strings.violating(schema, keyword, draws))
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
    """Return what models get wrong first: the value in quotes, in a list, as another scalar."""
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
