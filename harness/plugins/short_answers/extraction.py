"""Extracts a number, or the value of a key in a JSON object, from a reply."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, ClassVar

from typing_extensions import override

from harness.errors import ConfigError, Unparseable
from harness.plugins.short_answers.final_numbers import read_number
from harness.plugins.short_answers.json_objects import final_object
from harness.plugins.short_answers.numbers import only_number
from harness.records import replace_surrogates
from harness.scoring.conclusions import first_turn, has_other_answer, without_struck_out
from harness.scoring.extraction import ExtractionKind, parse_take
from harness.scoring.later_answers import repeats, states_another
from harness.scoring.patterns import MatchPosition
from harness.scoring.reasoning import without_reasoning
from harness.scoring.text import ExtractedValue


class ExtractedNumber(ExtractedValue):
    """A number in the notation of `NumberExtraction`, equal to the same number in any notation."""

    __slots__ = ()

    @override
    def equals(self, target: str) -> bool:
        """Return whether a target is the same number, without words: 1200 and 1,200."""
        return _WORD.search(target) is None and only_number(target) == Decimal(self)


_WORD = re.compile(r"[^\W\d_]")


@dataclass(frozen=True)
class NumberExtraction:
    """An extraction of a reply's first or last number, without separators and currency."""

    take: MatchPosition
    announcements: ClassVar[tuple[str, ...]] = ()

    def read(self, text: str) -> ExtractedNumber:
        """Return the number as text.

        Raises:
            Unparseable: If the reply has no number, or if the deciding one is unreadable.
        """
        number = read_number(without_reasoning(text), self.take)
        written = format(number, "f") if abs(number.adjusted()) < 100 else str(number)
        return ExtractedNumber(written)

    def write(self, answer: str) -> str | None:
        """Return the answer unchanged, or None if `read` would find no number in it."""
        try:
            read_number(answer, self.take)
        except Unparseable:
            return None
        return answer


class JsonCollection(str):
    """The JSON text of a list or an object, which is no number even if it contains one."""

    __slots__ = ()


class JsonExtraction:
    """An extraction of a value (``a.b`` for a nested key) from a reply's last or first JSON object.

    An earlier object never stands in for a last one that is broken or lacks the key.
    """

    def __init__(self, key: str, take: MatchPosition = "last") -> None:
        self._key = key
        self._path = key.split(".")
        self._take: MatchPosition = take
        self.announcements: tuple[str, ...] = (self._path[-1],)
        name = re.escape(self._path[-1])
        self._stated = re.compile(  # outside the object: result: 20, <result>20</result>
            rf"(?<![\w\"']){name}(?:\*\*|`)?\s{{0,3}}[:=>]\s{{0,3}}[\"'*`]*([^\s\"'*`<,;{{\[][^\n\"'*`<,;]*)",
            re.I,
        )

    def read(self, text: str) -> str:
        """Return the value of the key: a string unchanged, any other value as JSON.

        A number is returned as an `ExtractedNumber`, and a list or an object as a `JsonCollection`.

        Raises:
            Unparseable: As in `final_object`, if the value is missing, null, too large or deep, or
                if the reply then states another one outside the object.
        """
        text = without_struck_out(without_reasoning(text), "{")
        text = first_turn(text, lambda before: "{" in before)
        chosen = final_object(text, self._take)
        value: Any = chosen.value
        for key in self._path:
            if not isinstance(value, dict) or key not in value:
                raise Unparseable(f"The JSON object has no {self._key!r:.80}.")
            value = value[key]
        if value is None:
            raise Unparseable(f"{self._key!r:.80} is null in the JSON object.")
        try:  # JSON can escape half of a surrogate pair
            json_text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
            json_text = replace_surrogates(json_text)
        except (ValueError, RecursionError):
            raise Unparseable("The JSON object's value is too large or too deep.") from None
        rest = text[chosen.end :]
        if self._take == "last" and self._is_replaced(rest, json_text, tuple(chosen.value)):
            raise Unparseable("The reply states another answer after its last JSON object.")
        if isinstance(value, str):
            return json_text
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            return ExtractedNumber(json_text)
        return JsonCollection(json_text) if isinstance(value, (list, dict)) else json_text

    def _is_replaced(self, rest: str, answer: str, keys: tuple[str, ...]) -> bool:
        """Return whether the text after the object states another answer, or value of the key."""
        if has_other_answer(rest, 0, answer):
            return True
        name = self._path[-1]
        other_keys = tuple(key for key in keys if key != name)
        if states_another(rest, 0, answer, name, nouns=True, fields=other_keys):
            return True
        return not all(repeats(match[1], answer) for match in self._stated.finditer(rest))

    def write(self, answer: str) -> str | None:
        """Return a JSON object in which the key has the answer as its value."""
        tree: Any = answer
        for key in reversed(self._path):
            tree = {key: tree}
        return json.dumps(tree, ensure_ascii=False)


def _number(raw: Mapping[str, Any], where: str) -> NumberExtraction:
    return NumberExtraction(parse_take(raw["number"], f"{where}.number"))


def _json(raw: Mapping[str, Any], where: str) -> JsonExtraction:
    key = raw["json"]
    if not (isinstance(key, str) and all(key.split("."))):
        raise ConfigError(f"{where}.json must be the name of a key.", "Write {json: answer}.")
    return JsonExtraction(key, parse_take(raw.get("take", "last"), f"{where}.take"))


NUMBER = ExtractionKind((), _number)
JSON = ExtractionKind(("take",), _json)
