"""Values that break a keyword: what to put in a valid one's place.

Each is a guess that no other keyword breaks with it; `violating` asks the validator.
"""

from __future__ import annotations

from typing import Any

from harness.builders.concodeeval import decimals, strings
from harness.builders.concodeeval.valid import anything, matching, other_name, unmatched
from harness.builders.concodeeval.verdict import Verdicts
from harness.builders.concodeeval.words import WORDS
from harness.builders.draws import Draws
from harness.tasks.concodeeval.representations.schema import Schema

FREE = {"minLength": 0, "minItems": 0, "minContains": 0, "required": [], "uniqueItems": False}
"""Values with which a keyword excludes nothing."""


def unbreakable(schema: Schema, keyword: str) -> str | None:
    """Why no value breaks the keyword alone; None where one may."""
    if keyword in FREE and schema[keyword] == FREE[keyword]:
        return f"{keyword}: {schema[keyword]} excludes nothing"
    if keyword == "contains" and "minContains" in schema:
        return "minContains is broken where too few items match contains"
    if keyword in ("minContains", "maxContains") and "contains" not in schema:
        return f"{keyword} without contains excludes nothing"
    return None


def breaking(schema: Schema, keyword: str, value: Any, draws: Draws) -> list[Any]:
    """Values in the place of a valid one that break the keyword, the subtle ones first.

    Raises: NoInstanceError where what is needed for one cannot be drawn.
    """
    match keyword:
        case "type":
            return _of_other_types(schema, value, draws)
        case "minimum" | "exclusiveMinimum" | "maximum" | "exclusiveMaximum":
            return [decimals.number(each) for each in decimals.beyond(schema, keyword, draws)]
        case "multipleOf":
            return [decimals.number(each) for each in decimals.no_multiples(schema, draws)]
        case "minLength" | "maxLength" | "format" | "pattern":
            return list(strings.breaking(schema, keyword, draws))
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
    return _arrays(schema, keyword, value, draws)


def _of_other_types(schema: Schema, value: Any, draws: Draws) -> list[Any]:
    """What a model gets wrong first: the same in quotes, in a list, as another scalar."""
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
    """Values of the same type."""
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


def _arrays(schema: Schema, keyword: str, value: Any, draws: Draws) -> list[Any]:
    match keyword:
        case "minItems":
            return [value[: schema["minItems"] - 1]]
        case "maxItems":
            missing = schema["maxItems"] + 1 - len(value)
            return [[*value, *(unmatched(schema, draws) for _ in range(missing))]]
        case "uniqueItems" if value:
            return [[*value, value[0]], [*value[:-1], value[0]]]
        case "contains" | "minContains" | "maxContains":
            counts = Verdicts(schema["contains"])
            others = [item for item in value if not counts.accepts(item)]
            if keyword == "maxContains":
                many = schema["maxContains"] + 1
            else:
                many = max(schema.get("minContains", 1) - 1, 0)
            if not others and draws.chance(0.7):
                others = [unmatched(schema, draws)]
            return [draws.shuffled([*others, *(matching(schema, draws) for _ in range(many))])]
    return []
