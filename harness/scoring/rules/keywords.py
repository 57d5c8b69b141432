"""Rules about words: a quoted word or phrase that must occur, must not, or a number of times.

A word stands by itself: ``run`` is not in ``running``, but it is in ``run-up``, and ``can`` is in
``can't``, since punctuation separates words.

>>> recognise(read('Do not use the word "snow".')).check("Snow fell.")
"there is 'snow'"
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from harness.scoring.rules.wording import (
    ENSURE,
    MARK,
    MODAL,
    NOUN,
    SUBJECT,
    CountBounds,
    Wording,
    amount,
    bounds_of,
    word_or_text,
)


@dataclass(frozen=True, slots=True)
class Keywords:
    """Quoted texts with required counts: ``keyword``, ``forbidden_word`` or ``keyword_count``."""

    name: str
    wanted: tuple[str, ...]
    bounds: CountBounds
    exact: bool = False

    def check(self, text: str) -> str:
        """Count each text."""
        shown = _plain(text, self.exact)
        reasons = []
        for one in self.wanted:
            n = occurrences(_plain(one, self.exact), shown)
            if self.bounds.has(n):
                continue
            if self.name == "keyword_count":
                reasons.append(f"{one!r} {n:,} times, not {self.bounds}")
            else:
                reasons.append(f"there is {'' if n else 'no '}{one!r}")
        return "; ".join(reasons)


def occurrences(wanted: str, text: str) -> int:
    """Count how often a text occurs in another, as whole words and without overlaps."""
    n = start = 0
    while (at := text.find(wanted, start)) >= 0:
        if stands(wanted, text, at):
            n += 1
            start = at + len(wanted)
        else:
            start = at + 1
    return n


def stands(wanted: str, text: str, at: int) -> bool:
    """Return whether the match at an offset is a whole word."""
    end = at + len(wanted)
    before = at > 0 and _joins(wanted[0]) and _joins(text[at - 1])
    after = end < len(text) and _joins(wanted[-1]) and _joins(text[end])
    return not (before or after)


def _joins(character: str) -> bool:
    return character.isalnum() or character == "_"


def _plain(text: str, exact: bool) -> str:
    spaced = " ".join(text.replace("\u2019", "'").split())
    return spaced if exact else spaced.lower()


_KIND = (
    r"(?:the )?(?P<exact>exact )?(?:following )?"
    r"(?P<kind>words?|phrases?|terms?|key ?words?|expressions?)"
)
_ALL = rf"{MARK}(?:(?:,? and|,) «[0-9]+»)*"
_ANY = rf"{MARK}(?:(?:,? and|,? or|,) «[0-9]+»)*"
_WHERE = rf"(?: (?:somewhere )?in (?:the|your) {NOUN})?"
_USE = "(?:include|use|mention|contain|incorporate|insert|say)s?"
_USING = "(?:using|including|mentioning|saying)"
_NOT = "(?:do not|don't|never|must not|mustn't|should not|shouldn't|may not|cannot|does not)"
_APPEAR = "(?:appear|occur|be used|be included|be mentioned|be contained)"

_INCLUDE = (
    re.compile(rf"{ENSURE}(?:(?:{SUBJECT}) (?:{MODAL} )?|to )?{_USE} {_KIND} {_ALL}{_WHERE}"),
    re.compile(rf"{ENSURE}{_KIND} {_ALL} (?:should|must|has to|have to) {_APPEAR}{_WHERE}"),
)
_AVOID = (
    re.compile(
        rf"{ENSURE}(?:{SUBJECT} )?{_NOT} (?:ever )?{_USE} (?:either of )?{_KIND} {_ANY}{_WHERE}"
    ),
    re.compile(
        rf"{ENSURE}(?:avoid|refrain from|without|exclude|omit)(?: {_USING})? {_KIND} {_ANY}{_WHERE}"
    ),
    re.compile(rf"{ENSURE}{_KIND} {_ANY} (?:should not|must not|may not) {_APPEAR}{_WHERE}"),
)
_TIMES = amount("times?")
_OFTEN = r"(?P<how>at least|at most|exactly|only|no more than|not more than) (?P<often>once|twice)"
_COUNT = (
    re.compile(
        rf"{ENSURE}(?:{SUBJECT} (?:{MODAL} )?)?{_USE} {_KIND} {MARK} (?:{_OFTEN}|{_TIMES}){_WHERE}"
    ),
    re.compile(
        rf"{ENSURE}{_KIND} {MARK} (?:(?:should|must|has to) )?(?:appears?|occurs?|be used|"
        rf"be included|be mentioned) (?:{_OFTEN}|{_TIMES}){_WHERE}"
    ),
)


def recognise(wording: Wording) -> Keywords | None:
    """Return the rule that a wording states; None if there is none or in doubt."""
    for patterns, name in ((_INCLUDE, "keyword"), (_AVOID, "forbidden_word")):
        if found := _first(patterns, wording.text):
            bounds = CountBounds(1, None) if name == "keyword" else CountBounds(None, 0)
            return _rule(name, found, wording, bounds)
    if found := _first(_COUNT, wording.text):
        often = _often(found)
        if often is not None and not often.bare:
            return _rule("keyword_count", found, wording, often)
    return None


def _first(patterns: tuple[re.Pattern[str], ...], text: str) -> re.Match[str] | None:
    return next((found for one in patterns if (found := one.fullmatch(text))), None)


def _often(found: re.Match[str]) -> CountBounds | None:
    if found["often"] is None:
        parsed = bounds_of(found)
        return parsed and parsed[0]
    n = 1 if found["often"] == "once" else 2
    low = None if found["how"] in ("at most", "no more than", "not more than") else n
    return CountBounds(low, None if found["how"] == "at least" else n)


def _rule(
    name: str, found: re.Match[str], wording: Wording, bounds: CountBounds
) -> Keywords | None:
    is_word = found["kind"].rstrip("s") in ("word", "keyword", "key word")
    quoted = [wording.quoted[int(number)] for number in re.findall(MARK, found[0])]
    wanted = [word_or_text(one, is_word=is_word) for one in quoted]
    if not all(wanted):
        return None
    return Keywords(name, tuple(filter(None, wanted)), bounds, bool(found["exact"]))
