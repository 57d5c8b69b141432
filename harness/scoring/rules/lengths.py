"""Parses the wording of a constraint and the amounts in it, and defines the rules on length.

``about 100``, ``a few`` and other wordings without a sharp bound are not amounts. Rules measure the
whole answer, without tolerance (docs/wildifeval.md).

>>> read('Don’t use the word "Snow".')
Wording(text="don't use the word «0»", quoted=('Snow',))
>>> NUMBER_WORDS["twenty"]
20
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from pathlib import Path

import msgspec

from harness.scoring.constraints.check import Splitter, UnicodeSplitter
from harness.scoring.text import comparable, count_words

VERSION = "1"  # of the rules; increment it when recognition or a verdict on English text changes


def rules_version() -> str:
    """Return the versions of the rules and of NLTK, on which verdicts depend."""
    return f"{VERSION}, nltk {version('nltk')}"


LONGEST = 400  # maximum characters of a constraint: longer ones say more than a rule can check

QUOTED = re.compile(
    r"""
      \u201c([^\u201c\u201d]*)\u201d
    | "([^"]*)"
    | \u2018([^\u2018\u2019]*)\u2019(?!\w)
    | (?<!\w)'([^']*)'(?!\w)
    | `([^`]*)`
    """,
    re.VERBOSE,
)
UNPAIRED = re.compile('[\u201c\u201d"\u2018`]')

MARK = "«([0-9]+)»"  # pattern of the mark that replaces a quoted text in a `Wording`


@dataclass(frozen=True, slots=True)
class Wording:
    """A constraint in lower case, with ``«0»`` for the quotation ``quoted[0]``, and so on."""

    text: str
    quoted: tuple[str, ...] = ()


def read(constraint: str) -> Wording | None:
    """Return the wording of a constraint, or None if it is too long or has unclear quotations."""
    if len(constraint) > LONGEST or "«" in constraint or "»" in constraint:
        return None
    quoted: list[str] = []

    def aside(found: re.Match[str]) -> str:
        quoted.append(next(one for one in found.groups() if one is not None))
        return f"«{len(quoted) - 1}»"

    text = QUOTED.sub(aside, constraint)
    if UNPAIRED.search(text) or not all(one.strip() for one in quoted):
        return None
    text = " ".join(text.replace("\u2019", "'").lower().split())
    return Wording(text.rstrip(" .!;,"), tuple(quoted))


def word_or_text(quoted: str, *, is_word: bool) -> str | None:
    """Return the word or text that a quotation means, or None if that is unclear.

    A final period or comma is dropped from a word, because American typesetting puts it inside the
    quotes.
    """
    bare = quoted.strip().rstrip(".,").strip()
    return bare or None if is_word or bare == quoted.strip() else None


_WORDS = (
    "one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen "
    "sixteen seventeen eighteen nineteen twenty"
)
NUMBER_WORDS = {word: number for number, word in enumerate(_WORDS.split(), start=1)}

NUMBER = rf"(?:\d{{1,3}}(?:,\d{{3}})+|\d{{1,6}}|(?:a )?single|{'|'.join(reversed(NUMBER_WORDS))})"

UNITS = {
    "times": "times?",
    "units": "words?|characters?|sentences?|paragraphs?|lines?|bullet points?|bullets",
}
"""Maps names to patterns of units. In patterns.yaml, ``{amount_of_NAME}`` stands for an amount in
these units."""


class _Wordings(msgspec.Struct):
    parts: dict[str, str | list[str]]
    patterns: dict[str, list[str]]


@cache
def patterns() -> dict[str, tuple[re.Pattern[str], ...]]:
    """Return the compiled patterns of the wordings that state each rule, by the rule's name."""
    file = Path(__file__).with_name("patterns.yaml")
    written = msgspec.yaml.decode(file.read_bytes(), type=_Wordings)
    parts = {"number": NUMBER, "mark": MARK, "unit": "{unit}"}  # units are filled in last

    def filled(text: str) -> str:
        return re.sub(r"\{([a-z_]+)\}", lambda name: parts[name[1]], text)

    for name, part in written.parts.items():
        parts[name] = filled(part if isinstance(part, str) else f"(?:{'|'.join(part)})")
    for name, unit in UNITS.items():
        parts[f"amount_of_{name}"] = parts["amount"].replace("{unit}", unit)
    return {
        rule: tuple(re.compile(filled(one)) for one in wordings)
        for rule, wordings in written.patterns.items()
    }


def matched(rule: str, text: str) -> re.Match[str] | None:
    """Match the whole text with a rule's patterns."""
    return next((found for one in patterns()[rule] if (found := one.fullmatch(text))), None)


@dataclass(frozen=True, slots=True)
class CountBounds:
    """A minimum and a maximum number, either of which may be None.

    ``bare`` marks an amount without a comparison, such as "9 words", which may be exact or not.
    """

    low: int | None
    high: int | None
    bare: bool = False

    def has(self, n: int) -> bool:
        """Return whether a number is within the bounds, inclusive."""
        return (self.low is None or n >= self.low) and (self.high is None or n <= self.high)

    def of(self, unit: str) -> str:
        """Return the bounds in words, such as "at most 9 words" for the unit "word"."""
        return f"{self} {unit}{'' if (self.high or self.low) == 1 else 's'}"

    def __str__(self) -> str:
        if self.low is None:
            return f"at most {self.high}"
        if self.high is None:
            return f"at least {self.low}"
        return f"exactly {self.low}" if self.low == self.high else f"{self.low} to {self.high}"


def bounds_of(found: re.Match[str]) -> tuple[CountBounds, str] | None:
    """Return a matched amount's bounds and unit, or None if it is unclear, as in "9 to 2 words"."""
    group = found.groupdict()
    if group["b1"] or group["r1"]:
        low, high = number(group["b1"] or group["r1"]), number(group["b2"] or group["r2"])
        if low > high or (group["or"] and high > low + 1):  # "2 or 10" is not a range
            return None
        return CountBounds(low, high), group["ub"] or group["ur"]
    n = number(group["c"] or group["n"] or group["m"])
    if n == 0 or (group["lt"] and n == 1):
        return None
    bounds = CountBounds(n, n, bare=not group["eq"])
    if group["ge"] or group["gt"] or group["more1"] or group["more2"]:
        bounds = CountBounds(n + bool(group["gt"]), None)
    elif group["le"] or group["lt"] or group["less1"] or group["less2"]:
        bounds = CountBounds(None, n - bool(group["lt"]))
    return bounds, group["uc"] or group["us"] or group["um"]


def number(text: str) -> int:
    """Return the integer for text that matches `NUMBER`, such as "1,000" or "twelve"."""
    if text.endswith("single"):
        return 1
    return NUMBER_WORDS.get(text) or int(text.replace(",", ""))


LONGEST_FOR_SENTENCES = 100_000  # characters; Punkt takes seconds for a million
FEW = 5  # up to this number, wordings like ``in three words`` are exact; above it, they may not be
PERSONS = 20  # below this (less 1, for ``fewer than 20``), ``characters`` may be a story's

_BULLET = re.compile(
    r"[ \t]*(?:[-*+][ \t]|[\u2022\u2023\u25e6\u25aa\u25cf\u25cb\u00b7\u2043][ \t]?)"
)


@dataclass(frozen=True, slots=True)
class Length:
    """A rule on the answer's length. ``unit`` names the things counted."""

    unit: str
    bounds: CountBounds

    @property
    def name(self) -> str:
        """The name of the rule, such as ``word_count``."""
        return f"{self.unit.partition(' ')[0]}_count"

    def check(self, text: str) -> str:
        """Return the violation, such as "at most 79 words, has 80", or an empty string.

        Raises:
            Uncountable: If the text has a script in which the units cannot be counted.
        """
        n = _MEASURES[self.unit](text)
        return "" if self.bounds.has(n) else f"{self.bounds.of(self.unit)}, has {n:,}"


def sentences(text: str) -> int:
    """Count sentences with a letter or digit, in the first `LONGEST_FOR_SENTENCES` characters."""
    units = _splitter().units(comparable(text[:LONGEST_FOR_SENTENCES]), "sentence")
    return sum(any(map(str.isalnum, one)) for one in units)


def paragraphs(text: str) -> int:
    """Count paragraphs, which are separated by blank lines."""
    filled = [bool(line.strip()) for line in text.splitlines()]
    return sum(here and not before for before, here in zip([False, *filled], filled, strict=False))


def bullets(text: str) -> int:
    """Count lines that begin with a bullet and contain a letter or digit."""
    lines = text.splitlines()
    return sum(bool(_BULLET.match(line)) and any(map(str.isalnum, line)) for line in lines)


_MEASURES: Mapping[str, Callable[[str], int]] = {
    "word": count_words,
    "character": lambda text: len(text.strip()),
    "sentence": sentences,
    "paragraph": paragraphs,
    "line": lambda text: sum(bool(line.strip()) for line in text.splitlines()),
    "bullet point": bullets,
}


@cache
def _splitter() -> Splitter:
    from harness.scoring import punkt  # imports NLTK

    return UnicodeSplitter(punkt.own(), punkt.word_tokens)


def recognise(text: str, *, alone: bool = True) -> Length | None:
    """Return a rule on length, or None if the wording does not clearly state one.

    A bare number in a compound (not ``alone``) is unclear: it may belong to another part.
    """
    if hyphened := matched("length_before_noun", text):
        n = number(hyphened["n"])
        return _sure(hyphened["u"], CountBounds(n, n, bare=True)) if alone and n else None
    found = matched("length", text)
    parsed = bounds_of(found) if found else None
    if found is None or parsed is None:
        return None
    bounds, named = parsed
    if bounds.bare:
        if not alone or found["keep"] or found["include"]:  # unclear: at most or at least?
            return None
        if found["limit"]:
            bounds = CountBounds(None, bounds.high)
    return _sure(named.removesuffix("s"), bounds)


def _sure(named: str, bounds: CountBounds) -> Length | None:
    """Return a rule, or None if its unit ("characters" of a story?) or bare amount is unclear."""
    unit = "bullet point" if named.startswith("bullet") else named
    least = min(bound for bound in (bounds.low, bounds.high) if bound is not None)
    if unit == "character" and least < PERSONS - 1:
        return None
    if bounds.bare and (unit == "character" or (unit == "word" and least > FEW)):
        return None
    return Length(unit, CountBounds(bounds.low, bounds.high))
