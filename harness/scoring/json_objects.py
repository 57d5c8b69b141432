"""The JSON objects in a reply, of which the last (or the first) is its answer.

An earlier object never stands in for a last one that is broken.

>>> json_object('{"answer": "Rome"} Correction: {"answer": "Paris"}')
{'answer': 'Paris'}
"""

from __future__ import annotations

import json
import re
from typing import Any, NamedTuple

from harness.errors import Unparseable
from harness.scoring.conclusions import is_retracted
from harness.scoring.patterns import Take

MOST_BROKEN_OBJECTS = 1_000
MOST_DIGITS = 4_000  # maximum length of an integer in JSON, in digits


class JsonObject(NamedTuple):
    """A JSON object in a text, with its offsets and what is wrong with it ("" if it is valid)."""

    start: int
    end: int
    value: dict[str, Any]
    problem: str


_OBJECT_START = re.compile(
    r"\{(?=\s*(?:\\?[\"'“”\u2018]|[}]|\Z))|(?<![\w}])\{(?=\s*[A-Za-z_]\w*\s*:)"
)
_JOINED = re.compile(r"\s*(?:,|/|,?\s*\b(?:or|and)\b)\s*")
_JSON_FENCE = re.compile(r"```[ \t]*json", re.I)


def json_object(text: str, take: Take = "last") -> dict[str, Any]:
    """Return the last (or first) JSON object in a reply.

    Raises:
        Unparseable: If there is no object, or that one is broken, has a repeated key or a value
            that is not JSON, is taken back, or is the last of several in a list.
    """
    objects = json_objects(text)
    if not objects:
        raise Unparseable("The answer contains no JSON object.")
    chosen = objects[0] if take == "first" else objects[-1]
    if chosen.problem:
        raise Unparseable(chosen.problem)
    if take == "last" and is_retracted(text, chosen.end):
        raise Unparseable("The answer takes back its last JSON object.")
    if take == "last" and _JSON_FENCE.search(text, chosen.end):
        raise Unparseable("The last JSON block contains no object.")
    if take == "last" and len(objects) > 1:
        between = text[objects[-2].end : chosen.start]
        if _JOINED.fullmatch(between) and objects[-2].value != chosen.value:
            raise Unparseable("The answer contains several JSON objects in a row.")
    return chosen.value


def json_objects(text: str) -> list[JsonObject]:
    """Return the JSON objects in a text that are not part of another, also those that are broken.

    Raises:
        Unparseable: If more than `MOST_BROKEN_OBJECTS` are broken.
    """
    objects: list[JsonObject] = []
    broken = 0
    start = _OBJECT_START.search(text)
    while start is not None:
        decoded = _decoded(text, start.start())
        objects.append(decoded)
        broken += bool(decoded.problem)
        if broken > MOST_BROKEN_OBJECTS:
            raise Unparseable("The answer contains too much broken JSON.")
        start = _OBJECT_START.search(text, decoded.end)
    return objects


def _decoded(text: str, start: int) -> JsonObject:
    problems: list[str] = []

    def integer(digits: str) -> int:
        if len(digits) > MOST_DIGITS:
            problems.append("The JSON object has a number that is too large.")
            return 0
        return int(digits)

    def constant(name: str) -> None:
        problems.append(f"The answer contains no JSON object: {name} is not JSON.")

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        value: dict[str, Any] = {}
        for name, part in pairs:
            if name in value:
                problems.append(f"The key {name!r:.60} occurs twice in the JSON object.")
            value[name] = part
        return value

    decoder = json.JSONDecoder(object_pairs_hook=unique, parse_int=integer, parse_constant=constant)
    try:
        value, end = decoder.raw_decode(text, start)
    except json.JSONDecodeError as error:
        # What is inside a broken object is no object of its own.
        cut_off = error.msg.startswith("Unterminated") or error.pos >= len(text)
        end = len(text) if cut_off else max(error.pos, start + 1)
        problem = f"The answer contains no JSON object: {error.msg} at character {error.pos}."
        return JsonObject(start, end, {}, problem)
    except RecursionError:
        problem = "The answer contains no JSON object that is not nested too deeply."
        return JsonObject(start, len(text), {}, problem)
    return JsonObject(start, end, value, problems[0] if problems else "")
