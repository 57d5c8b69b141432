"""Checks whether the text equals the expected text."""

from __future__ import annotations

import re
import unicodedata
from typing import Any

from harness.errors import ConfigError
from harness.ports import Checker
from harness.records import Instance, Score
from harness.scoring.extraction import ExtractedValue
from harness.scoring.text import Normalization, TextComparison
from harness.wording import truncated

_SIGN = "[-\u2010-\u2013\u2212\ufe63\uff0d]"  # hyphens, short dashes and minus signs
_MINUS = re.compile(rf"(?<![^\W\d_]{{2}})(?<![A-Z]){_SIGN}(?=[$€£¥]?\.?\d)")
"""Matches the sign of a number, or a hyphen between numbers (``2-1``) or after a variable
(``x-1``). After a word or a capital letter, as in ``covid-19``, a hyphen is punctuation."""
_GROUPS = re.compile(
    r"(?<![\d.,])[1-9]\d{0,2}(?:,\d{3})+(?![\d,])|[1-9]\d{0,2}(?:['\u2019_]\d{3})+(?!\d)"
)
_IN_NUMBERS = re.compile(
    r"(?<=\d)(?:[^\w\s]|_)+(?=\d)"  # 1.5, 3:30, 1/2
    r"|(?<![\w.])\.(?=\d)"  # .5
    r"|(?<=\d)[%‰٪\uff05]|(?<=\d\s)[%‰٪\uff05]|[%‰٪\uff05](?=\s?\d)"
    r"|(?<=[^\W\d_])\#"  # C#
    r"|(?<=(?<!\w)[A-Z])[-\u2010-\u2013\u2212](?![\w-])"  # a grade: A-
)
"""Matches punctuation that changes the meaning of a number or name."""


class ExactMatchChecker(Checker):
    """Passes text that equals the expected text, ignoring leading and trailing white space.

    A number that ``extract`` has read equals a target with the same value: 1200 and ``1,200``.

    Args:
        target: The expected text, or a list of alternatives.
        ignore_case: Treat ``paris`` and ``Paris`` as equal.
        ignore_punctuation: Treat ``Paris.`` and ``Paris`` as equal, and ``1,000`` and ``1000``.
            Signs, separators between digits, percent signs beside numbers, the ``#`` of ``C#`` and
            the ``-`` of ``A-`` still count: ``-5`` does not equal ``5``, nor ``1.5`` ``15``. Text
            that is nothing but punctuation is compared as it is.
        ignore_space: Treat any run of spaces and line breaks as one space.
        normalize: Unicode form in which texts are compared. NFKC also treats full-width characters
            and ligatures as equal to plain ones, and ``x²`` as equal to ``x2``.
        straight_quotes: Treat curly quotes and apostrophes as equal to straight ones.
    """

    def __init__(
        self,
        target: str | int | float | bool | list[str | int | float | bool],
        ignore_case: bool = False,
        ignore_punctuation: bool = False,
        ignore_space: bool = False,
        normalize: Normalization = "NFC",
        straight_quotes: bool = False,
    ) -> None:
        self._form = TextComparison(ignore_case, normalize, straight_quotes)
        self._ignore_space = ignore_space
        self._ignore_punctuation = ignore_punctuation
        if not (targets := target if isinstance(target, list) else [target]):
            raise ConfigError("The checker 'exact_match' has an empty list of targets.")
        # true and false are written as in JSON
        self._written = [
            str(value).lower() if isinstance(value, bool) else str(value) for value in targets
        ]
        self._targets = frozenset(map(self._bare, self._written))

    def check(self, text: str, instance: Instance[Any]) -> Score:
        """Return True or False, with a reason that never reveals the target."""
        passed = self._bare(text) in self._targets
        if isinstance(text, ExtractedValue):
            passed = passed or any(map(text.equals, self._written))
        reason = f"{truncated(text.strip(), 60)!r} is not the expected answer"
        return Score(passed, passed, "" if passed else reason)

    def _bare(self, text: str) -> str:
        if self._ignore_punctuation:  # capital letters tell names from variables
            text = _without_punctuation(text)
        text = self._form(text)
        if self._ignore_space:
            text = " ".join(text.split())
        return text.strip()


def _without_punctuation(text: str) -> str:
    original = text
    text = _GROUPS.sub(lambda number: re.sub(r"\D", "", number[0]), text)
    text = _MINUS.sub("\u2212", text)  # a mathematical symbol, not punctuation
    meaningful = set[int]()
    for match in _IN_NUMBERS.finditer(text):
        meaningful.update(range(*match.span()))
    characters = []
    for offset, character in enumerate(text):
        is_punctuation = character == "`" or unicodedata.category(character)[0] == "P"
        if offset in meaningful or not is_punctuation:
            characters.append(character)
    bare = "".join(characters)
    return bare if bare.strip() else original


plugin = ExactMatchChecker
