"""Instances that a schema allows, drawn so that bounds are met as often as the space between them.

>>> valid({"type": "number", "multipleOf": 5.88, "maximum": 6, "minimum": 5}, Draws(0))
5.88
"""

from __future__ import annotations

import json
from typing import Any

from harness.builders.concodeeval.decimals import Range, number
from harness.builders.concodeeval.strings import plain, string
from harness.builders.concodeeval.verdict import Verdicts
from harness.builders.concodeeval.words import WORDS
from harness.builders.draws import Draws
from harness.tasks.concodeeval.representations.schema import Schema

ATTEMPTS = 20
MOST_ITEMS = 4
"""Items that an array has beyond those it must have."""


class NoInstanceError(Exception):
    """No instance was found in bounded attempts: the schema may have none."""


def valid(schema: Schema, draws: Draws, verdicts: Verdicts | None = None) -> Any:
    """An instance that the validator accepts.

    Raises: NoInstanceError.
    """
    verdicts = verdicts or Verdicts(schema)
    for _ in range(ATTEMPTS):
        try:
            value = draw(schema, draws)
        except NoInstanceError:
            continue
        if verdicts.accepts(value):
            return value
    raise NoInstanceError(f"{ATTEMPTS} instances drawn, and none is valid")


def anything(draws: Draws) -> Any:
    """A value where any is allowed: a scalar."""
    return draws.choice((draws.choice(WORDS), draws.integer(0, 99), 2.5, True, False, None))


def draw(schema: Any, draws: Draws) -> Any:
    """An instance that should be valid: `valid` asks the validator.

    Raises: NoInstanceError where there seems to be none.
    """
    if not isinstance(schema, dict) or not schema:
        return anything(draws)
    if "const" in schema:
        return schema["const"]
    if "enum" in schema:
        return draws.choice(schema["enum"])
    match schema.get("type"):
        case "boolean":
            return draws.chance(0.5)
        case "null":
            return None
        case "number" | "integer":
            allowed = Range.of(schema)
            if allowed.empty:
                raise NoInstanceError("no number is between the bounds")
            return number(allowed.draw(draws))
        case "string":
            text = string(schema, draws)
            if text is None:
                raise NoInstanceError("no string of the format has that length")
            return text
        case "array":
            return _array(schema, draws)
        case "object":
            return _object(schema, draws)
    return anything(draws)


def _array(schema: Schema, draws: Draws) -> list[Any]:
    low = schema.get("minItems", 0)
    high = schema.get("maxItems", max(low, schema.get("minContains", 0)) + MOST_ITEMS)
    size = draws.choice((low, high)) if draws.chance(0.3) else draws.integer(low, high)
    items: list[Any] = []
    if "contains" in schema:
        least = schema.get("minContains", 1)
        most = min(schema.get("maxContains", high), high)
        wanted = least if draws.chance(0.4) else draws.integer(least, max(least, most))
        items = [matching(schema, draws) for _ in range(wanted)]
    try:
        while len(items) < size:
            items.append(unmatched(schema, draws))
    except NoInstanceError:
        if len(items) < low:
            raise
    items = draws.shuffled(items)
    return distinct(items, schema, draws) if schema.get("uniqueItems") else items


def matching(schema: Schema, draws: Draws) -> Any:
    """An item that counts for ``contains``."""
    return draw(schema["contains"], draws)


def unmatched(schema: Schema, draws: Draws) -> Any:
    """An item that the array may hold and that does not count for ``contains``.

    Raises: NoInstanceError where every item seems to count.
    """
    if "contains" not in schema:
        return draw(schema.get("items"), draws)
    counts = Verdicts(schema["contains"])
    for _ in range(ATTEMPTS):
        item = draw(schema.get("items"), draws)
        if not counts.accepts(item):
            return item
    raise NoInstanceError("every item that was drawn counts for contains")


def distinct(items: list[Any], schema: Schema, draws: Draws) -> list[Any]:
    """Items none of which is there twice; others are drawn for those that are.

    Raises: NoInstanceError where too few are found.
    """
    found: dict[str, Any] = {}
    for item in items:
        found.setdefault(json.dumps(item, sort_keys=True), item)
    for _ in range(ATTEMPTS):
        if len(found) >= max(len(items), schema.get("minItems", 0)):
            break
        item = unmatched(schema, draws)
        found.setdefault(json.dumps(item, sort_keys=True), item)
    if len(found) < schema.get("minItems", 0):
        raise NoInstanceError("too few different items")
    return list(found.values())


def _object(schema: Schema, draws: Draws) -> dict[str, Any]:
    properties = schema.get("properties", {})
    required = set(schema.get("required", ()))
    share = draws.choice((0.0, 0.3, 0.7, 1.0))
    value = {
        name: draw(inner, draws)
        for name, inner in properties.items()
        if name in required or draws.chance(share)
    }
    value |= {name: anything(draws) for name in schema.get("required", ()) if name not in value}
    additional = schema.get("additionalProperties", True)
    if additional is not False and draws.chance(0.25):
        value[other_name(schema, value, draws)] = draw(additional, draws)
    return value


def other_name(schema: Schema, value: dict[str, Any], draws: Draws) -> str:
    """A name that is not one of the schema's properties."""
    taken = {*schema.get("properties", ()), *schema.get("required", ()), *value}
    for _ in range(ATTEMPTS):
        if (name := draws.choice(WORDS)) not in taken:
            return name
    return plain(draws, 120, 120).replace(" ", "_")
