"""Lettered options of multiple-choice questions: the right option, and a reply's choice.

>>> ChoiceExtraction(["Rome", "Paris"]).read("France's capital is not Rome. The answer is (B).")
'B'
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from string import ascii_uppercase
from typing import Any, ClassVar, Literal, NamedTuple

from harness.errors import DataInvalid, Unparseable
from harness.scoring import is_blank

LETTERS = ascii_uppercase
CHOICE = "choice"  # name of the score that says whether the right option was chosen
TargetKind = Literal["index", "letter", "text"]
MOST_SHOWN = 40  # characters of a target in an error message


def choice_texts(raw: object) -> tuple[str, ...]:
    """Return the texts of a row's options, given as a list or (in CSV) as a JSON list."""
    if isinstance(raw, str):
        with suppress(ValueError):
            raw = json.loads(raw)
    if not isinstance(raw, list) or not all(isinstance(one, str | int | float) for one in raw):
        remedy = 'Write "choices": ["…", "…"], or in a table the JSON list ["…", "…"].'
        raise DataInvalid("'choices' must be a list of texts.", remedy)
    found = tuple(map(_text, raw))
    if not 2 <= len(found) <= len(LETTERS):
        raise DataInvalid(f"'choices' has {len(found)} options; it must have 2 to {len(LETTERS)}.")
    if any(map(is_blank, found)) or len(set(found)) < len(found):
        raise DataInvalid("two 'choices' are equal, or one is empty.")
    return found


def right_choice(target: object, choices: Sequence[str], kind: TargetKind | None = None) -> int:
    """Return the index of the right option, given its index (from 0), letter or text.

    If ``kind`` is None, the target must not fit several options, such as one by its index and
    another by its text.
    """
    if not isinstance(target, str | int):
        raise DataInvalid("'target' must be the index, the letter or the text of one of 'choices'.")
    text = _text(target)
    meanings: dict[TargetKind, list[str]] = {
        "index": [] if isinstance(target, bool) else [str(at) for at in range(len(choices))],
        "letter": [*LETTERS[: len(choices)]],
        "text": [*choices],
    }
    found = {
        known.index(one)
        for meaning, known in meanings.items()
        if kind in (None, meaning)
        for one in (text, text.upper() if meaning == "letter" else text)
        if one in known
    }
    if len(found) == 1:
        return found.pop()
    which = "could mean several" if found else "is none"
    remedy = "Set task.choices.target to index, letter or text."
    if not found:
        last = LETTERS[len(choices) - 1]
        remedy = f"Write the index 0 to {len(choices) - 1}, a letter from A to {last}, or the text."
    raise DataInvalid(f"the target {text[:MOST_SHOWN]!r} {which} of the 'choices'.", remedy)


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value).strip()


class _Patterns(NamedTuple):
    """Patterns for the letters of n options."""

    letter: re.Pattern[str]
    more: re.Pattern[str]  # another letter, as in "A or B"
    right: re.Pattern[str]  # "B is correct"
    named: re.Pattern[str]  # "(B)", "option B"


@lru_cache(maxsize=32)
def _patterns(n: int) -> _Patterns:
    upper = LETTERS[:n]
    one, big = (
        rf"[(\[{{'\u2018]?\s*(?<![A-Za-z0-9])([{letters}])"
        r"(?![A-Za-z0-9]|['\u2019][A-Za-z])(?:\s*[)\]'\u2019])?"
        for letters in (upper + upper.lower(), upper)
    )
    named = r"(?:(?:option|choice|answer|letter)\s+)?"
    too = r"(?:possibly|maybe|perhaps|also|even)"
    return _Patterns(
        re.compile(one),
        re.compile(
            rf"\s*(?:,?\s*(?:and|or)\b(?:\s+{too})?|[/&])\s*{named}{big}"
            rf"|\s*,\s*{named}{big}(?=\s*(?:[,.;)]|and\b|or\b|\Z))"
        ),
        re.compile(
            rf"{big}\s*(?i:(?:is|seems|must be|would be|has to be)\s+(?:to be\s+)?(?:the\s+)?"
            r"(?:correct|right|(?:only|best|most\s+\w+)\s+(?:answer|option|choice|one)|answer)\b)"
        ),
        re.compile(rf"[(\[](?<![A-Za-z0-9])([{upper}])[)\]]|\b(?i:option|choice)\s+([{upper}])\b"),
    )


_FILL = (
    r"(?:[\s:\uff1a=]|\b(?:is|the|correct|final|best|right|option|choice|letter|answer|clearly"
    r"|definitely|probably|likely|most|therefore|thus|indeed|simply|just)\b)*+"
)
_ANNOUNCED = re.compile(
    r"\b(?:answer|option|choice|response|solution)\s*"
    r"(?:is|was|would\s+be|must\s+be|should\s+be|will\s+be|[:\uff1a=→]|->|[-\u2013—](?=\s))"
    + _FILL,
    re.I,
)
_CONCLUDED = re.compile(
    r"\b(?:(?:choose|pick|select|say|go(?:ing)?\s+with)\b|it(?:['\u2019]s|\s+is|\s+must\s+be)\b"
    r"|(?:therefore|thus|so|hence)\b,?)" + _FILL,
    re.I,
)
_ENDS = re.compile(
    r"\s*(?:\Z|\n|[.](?=\s|\Z)|[,;:!?)\]/&]|[-\u2013—]+(?=\s)|(?:because|since|as|which|and|or)\b)"
)
_DENIED = re.compile(r"\s*(?:is|was|are)?\s*(?:n['\u2019]t|not|wrong|incorrect|false)\b", re.I)
_NOT = re.compile(r"(?:\bnot|n['\u2019]t|\bneither|\bnor)\s+(?:be\s+|the\s+)?\Z", re.I)
_OPEN = re.compile(r"(?:\b(?:and|or|nor|neither|either|if|whether|why)|/)\s*(?:option\s*)?\Z", re.I)
_DELIMITER = re.compile(r"\s*(?:\Z|\n|[.](?=\s)|[):,;]|[-\u2013—]+(?=\s))")
_COLON = re.compile(r"[:\uff1a]")
_BOXED = re.compile(r"\\(?:boxed|fbox)\s*\{|<(?:final_?)?answer>", re.I)
_MARKUP = re.compile(
    r"\\(?:text|textbf|textit|mathrm|mathbf)\s*\{|\\[()\[\]]|</?\w{1,20}>|[*_`\"“”$}]"
)


def _plain(text: str) -> str:
    """Return a reply without emphasis, quotes and LaTeX commands."""
    return _MARKUP.sub("", _BOXED.sub(" answer: ", text)).strip()


def _bare(text: str) -> str:
    return " ".join(_plain(text).casefold().split()).rstrip(".!")


class ChoiceExtraction:
    """An extraction of the letter of the option that a reply chooses.

    The reply may be the letter, the option's text or both, or it may announce a choice ("The answer
    is B"). The last announcement counts, unless the last line just names an option. Without either,
    a conclusion ("so B"), the first words or the only option named counts.
    """

    expects: ClassVar[tuple[str, ...]] = ()

    def __init__(self, choices: Sequence[str]) -> None:
        self._letters = LETTERS[: len(choices)]
        self._known = _patterns(len(choices))
        self._longest = 2 * max(map(len, choices)) + 40
        bare = [_bare(choice) for choice in choices]
        single = {text for text in bare if text and bare.count(text) == 1}
        self._texts = {
            text: letter
            for text, letter in zip(bare, self._letters, strict=True)
            if text in single and text.upper() not in self._letters
        }

    def read(self, text: str) -> str:
        """Return the letter, in upper case.

        Raises:
            Unparseable: If the reply names no option, or several without choosing one.
        """
        found = self._found(_plain(text))
        if len(found) == 1:
            return found
        last = self._letters[-1]
        if found:
            raise Unparseable(f"The reply chooses several options: {', '.join(found)}.")
        raise Unparseable(f"The reply does not choose one of the options A to {last}.")

    def write(self, answer: str) -> str:
        """Return the answer unchanged."""
        return answer

    def _found(self, text: str) -> str:
        """Return the letters that a reply chooses, or ""."""
        if letter := self._texts.get(_bare(text)):
            return letter
        announced = [*self._last_line(text), *self._announced(text)]
        if announced:
            return max(announced)[1]
        for match in reversed([*_CONCLUDED.finditer(text)]):
            if found := self._at(text, match.end()):
                return found
        return self._first(text) or self._only(text)

    def _announced(self, text: str) -> Iterator[tuple[int, str]]:
        """Yield the offset and the letters of a reply's last announcements."""
        for match in reversed([*_ANNOUNCED.finditer(text)]):
            if found := self._at(text, match.end(), loose=True):
                yield match.end(), found
                break
        for match in reversed([*self._known.right.finditer(text)]):
            if not _OPEN.search(text, max(0, match.start() - 20), match.start()):
                yield match.start(), match[1]
                break

    def _at(self, text: str, start: int, *, loose: bool = False) -> str:
        """Return the letters of the option at an offset.

        With ``loose``, any word may follow a letter that is not a word itself.
        """
        line = self._line(text, start)
        spelt = [
            one
            for one in self._texts
            if line.startswith(one) and not line[len(one) : len(one) + 1].isalnum()
        ]
        if spelt:
            return self._texts[max(spelt, key=len)]
        match = self._known.letter.match(text, start)
        if match is None or _DENIED.match(text, match.end()):
            return ""
        letter, end = match[1], match.end()
        word = letter.islower() or letter in "AI" or not loose
        if match[0].rstrip()[-1] == letter and word and not _ENDS.match(text, end):
            return letter.upper() if self._begins(self._line(text, end), letter) else ""
        return "".join(dict.fromkeys([letter.upper(), *self._others(text, end)]))

    def _line(self, text: str, start: int) -> str:
        """Return the rest of the line at an offset, cut to the length of an option."""
        return _bare(text[start : start + self._longest].partition("\n")[0])

    def _begins(self, after: str, letter: str) -> bool:
        own = (text for text, one in self._texts.items() if one == letter.upper())
        return any(after.startswith(text) for text in own)

    def _others(self, text: str, end: int) -> Iterator[str]:
        while match := self._known.more.match(text, end):
            yield next(filter(None, match.groups()))
            end = match.end()

    def _last_line(self, text: str) -> Iterator[tuple[int, str]]:
        """Yield the offset and the letter of the last line, if that line only names an option."""
        lines = [line for line in text.splitlines() if line.strip()][-len(self._letters) :]
        listed = "".join(map(self._named, lines)) == self._letters
        if (letter := self._named(text[text.rfind("\n") + 1 :])) and not listed:
            yield text.rfind("\n") + 1, letter

    def _named(self, line: str) -> str:
        """Return the letter of the option that a line names without saying more, or ""."""
        line = line.strip()
        match = self._known.letter.match(line)
        after = self._known.letter.fullmatch(_COLON.split(line)[-1].strip(" ."))
        if letter := self._texts.get(_bare(line)):
            return letter
        if match is not None:
            rest = _bare(line[match.end() :].lstrip(" .:,)-\u2013—"))
            return match[1].upper() if not rest or self._texts.get(rest) == match[1].upper() else ""
        return after[1].upper() if after is not None else ""

    def _first(self, text: str) -> str:
        """Return the letters with which a reply begins, unless a later line begins with another."""
        match = self._known.letter.match(text)
        if match is None or not match[1].isupper():
            return ""
        closed = match[0].rstrip()[-1] != match[1] or _DELIMITER.match(text, match.end())
        if not closed and not self._begins(self._line(text, match.end()), match[1]):
            return ""
        for line in text.splitlines()[1:]:
            other = self._known.letter.match(line.strip())
            if other and other[1] != match[1] and _DELIMITER.match(line.strip(), other.end(1)):
                return ""
        return "".join(dict.fromkeys([match[1], *self._others(text, match.end())]))

    def _only(self, text: str) -> str:
        found = {
            match[1] or match[2]
            for match in self._known.named.finditer(text)
            if not _NOT.search(text, max(0, match.start() - 20), match.start())
            and not _DENIED.match(text, match.end())
        }
        return found.pop() if len(found) == 1 else ""


def chosen_details(chosen: int, right: int, n: int) -> Mapping[str, Any]:
    """Return the part of a score's details from which the position bias is computed.

    Positions are those in the order shown, from 0; ``n`` is the number of options.
    """
    return {"positions": {"chosen": chosen, "right": right, "of": n}}
