r"""``extract:`` where the answer is in a text, as a run file says it.

    extract: {regex: 'answer is (\w+)'}                  # the first group of the leftmost match
    extract: {regex: ['answer is (\w+)', '^(\w+)$'], take: last, ignore_case: true}
    extract: {number: last}                              # first or last
    extract: {json: answer}                              # a key of a JSON object; a.b for one below

An answer in which nothing is found is `Unparseable`.

>>> extraction({"number": "last"}, "task.extract").read("5 + 5 = 10")
'10'
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple, Protocol

from harness.errors import ConfigError, Unparseable, nearest
from harness.scoring.parsers.json_object import json_object
from harness.scoring.parsers.literal import around_group
from harness.scoring.parsers.numerals import one_number
from harness.scoring.parsers.pattern import Pattern, answer_in

Take = Literal["first", "last"]


class Extraction(Protocol):
    """A way to read an answer."""

    @property
    def expects(self) -> tuple[str, ...]:
        """Plain texts of which a prompt should hold one; empty where none can be told."""
        ...

    def read(self, text: str) -> str:
        """The answer. Raises: Unparseable; PatternTooSlow."""
        ...

    def write(self, answer: str) -> str | None:
        """A text in which this reads the answer, None where none can be told."""
        ...


class Found(NamedTuple):
    """An answer that a pattern has found.

    pattern: which one, from 0.
    start: where in the text its match begins.
    """

    answer: str
    pattern: int
    start: int


class RegexExtraction:
    """Patterns, of which that with the leftmost match is taken (the rightmost for ``last``).

    At the same place the pattern that is written first is taken: so they read as their
    alternation does, and each may count its groups from 1.

    Raises: ConfigError for what is no pattern.
    """

    def __init__(
        self,
        patterns: Sequence[str],
        where: str,
        *,
        take: Take = "first",
        ignore_case: bool = False,
    ) -> None:
        self.patterns = tuple(Pattern(p, where, ignore_case=ignore_case) for p in patterns)
        self.take: Take = take

    @property
    def expects(self) -> tuple[str, ...]:
        """What is before the group of each pattern; empty where one does not tell."""
        around = [around_group(pattern.pattern) for pattern in self.patterns]
        said = tuple(found.before.strip() for found in around if found)
        return said if len(said) == len(around) and all(said) else ()

    def find(self, text: str) -> Found | None:
        """The answer and what has found it, or None. Raises: PatternTooSlow."""
        best: Found | None = None
        for number, pattern in enumerate(self.patterns):
            match = pattern.find(text, self.take)
            if match is None:
                continue
            start = match.start()
            if best is None or (start < best.start if self.take == "first" else start > best.start):
                best = Found(answer_in(match).strip(), number, start)
        return best

    def read(self, text: str) -> str:
        """The first group that took part, or the whole match."""
        found = self.find(text)
        if found is None or not found.answer:
            expected = self.expects
            hint = f" after {expected[0]!r}" if expected else f" by {self._shown()}"
            raise Unparseable(f"No answer was found{hint}.")
        return found.answer

    def write(self, answer: str) -> str | None:
        """The answer within the first pattern's plain text, if that is read as such."""
        around = around_group(self.patterns[0].pattern)
        if around is None:
            return None
        text = f"{around.before}{answer}{around.after}"
        found = self.find(text)
        return text if found is not None and found.answer == answer.strip() else None

    def _shown(self) -> str:
        return ", ".join(f"{pattern.pattern!r:.60}" for pattern in self.patterns)


class NumberExtraction:
    """The first or last number of a text."""

    expects: tuple[str, ...] = ()

    def __init__(self, take: Take) -> None:
        self.take: Take = take

    def read(self, text: str) -> str:
        """The number, without currency and separators."""
        found = one_number(text, self.take)
        if found is None:
            raise Unparseable("The answer holds no number.")
        return format(found, "f") if abs(found.adjusted()) < 100 else str(found)

    def write(self, answer: str) -> str | None:
        """The answer as it is, if it is a number."""
        return answer if one_number(answer, self.take) is not None else None


class JsonExtraction:
    """A value in the answer's JSON object.

    key: its name; ``a.b`` for that of an object within.
    """

    def __init__(self, key: str) -> None:
        self._path = key.split(".")
        self.expects: tuple[str, ...] = (self._path[-1],)

    def read(self, text: str) -> str:
        """The value: a text as it is, anything else as JSON."""
        found: Any = json_object(text)
        for key in self._path:
            if not isinstance(found, dict) or key not in found:
                raise Unparseable(f"The JSON object has no {'.'.join(self._path)!r:.80}.")
            found = found[key]
        if isinstance(found, str):
            return found
        try:
            return json.dumps(found, ensure_ascii=False)
        except (ValueError, RecursionError):
            raise Unparseable("The JSON object's value is out of proportion.") from None

    def write(self, answer: str) -> str | None:
        """An object that holds the answer."""
        found: Any = answer
        for key in reversed(self._path):
            found = {key: found}
        return json.dumps(found, ensure_ascii=False)


WAYS = ("regex", "number", "json")
KEYS: Mapping[str, tuple[str, ...]] = {"regex": ("take", "ignore_case"), "number": (), "json": ()}
"""Way -> further keys that go with it."""


def extraction(raw: object, where: str) -> Extraction:
    """The way to read answers that a run file writes down.

    Raises: ConfigError, naming the place.
    """
    if not isinstance(raw, Mapping):
        raise ConfigError(f"{where} must be a mapping.", "Write {regex: 'answer is (.+)'}.")
    ways = [key for key in raw if key in WAYS]
    if len(ways) != 1:
        unknown = next((key for key in raw if key not in WAYS), None)
        problem = "has no way to read" if not ways else f"has both {ways[0]} and {ways[1]}"
        raise ConfigError(f"{where} {problem}.", nearest(str(unknown or ""), WAYS))
    way = ways[0]
    for key in raw:
        if key != way and key not in KEYS[way]:
            raise ConfigError(
                f"{where}: {way} has no {key!r:.60}.", nearest(str(key), (*WAYS, *KEYS[way]))
            )
    value = raw[way]
    if way == "regex":
        patterns = [value] if isinstance(value, str) else value
        if (
            not isinstance(patterns, list)
            or not patterns
            or not all(isinstance(p, str) for p in patterns)
        ):
            raise ConfigError(f"{where}.regex must be a pattern or a list of them.")
        ignore_case = raw.get("ignore_case", False)
        if not isinstance(ignore_case, bool):
            raise ConfigError(f"{where}.ignore_case must be true or false.")
        take = _take(raw.get("take", "first"), f"{where}.take")
        return RegexExtraction(patterns, f"{where}.regex", take=take, ignore_case=ignore_case)
    if way == "number":
        return NumberExtraction(_take(value, f"{where}.number"))
    if not isinstance(value, str) or not all(value.split(".")):
        raise ConfigError(f"{where}.json must be the name of a key.", "Write {json: answer}.")
    return JsonExtraction(value)


def _take(raw: object, where: str) -> Take:
    if raw == "first":
        return "first"
    if raw == "last":
        return "last"
    raise ConfigError(f"{where} must be first or last, not {raw!r:.40}.")
