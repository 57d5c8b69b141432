"""Checks whether the text contains given strings."""

from __future__ import annotations

import re
from typing import Any, Literal

from harness.errors import ConfigError
from harness.ports import Checker
from harness.records import Instance, Score
from harness.scoring import quoted_list
from harness.scoring.text import Normalization, TextComparison, is_whole_word

_JOINED = re.compile(
    r"(?<!\d[.,])(?<![\d.,\[{])\d{1,3}(?:(?:,\d{3})++(?:\.\d++)?|(?:\.\d{3})++,\d++"
    r"|(?:['\u2019\xa0\u2009\u202f]\d{3})++(?:[.,]\d++)?)(?![.,]?\d)"  # 1,500.25
    r"|(?<![\w.,\[{])\d++,\d++(?!,?\d)"  # 1,5
    r"|(?<!\d)(?<!\d\.)\d++(?:\.\d++)++"  # 1.5
    r"|(?<![\w.,:/-])(?:\d++(?:[:/]\d++)++|\d{4}-\d\d-\d\d)(?!\w)"  # 10:30, 3/5, 2024-05-01
    r"|(?<![\w)\]])[-\u2212]?\.\d++|(?<![\w)\]])[-\u2212]\d++(?:[.,]\d++)*+"  # .5 and -5
    r"|[^\W_]\+\+|[^\W_][+#](?!\w)|(?<!\S)\.[^\W\d_]"  # C++, C# and .NET
    r"|(?i:n['\u2019]t|(?<=[^\W_])['\u2019](?:s|d|m|ll|re|ve))(?!\w)"  # don't
    r"|(?i:\b[oy]['\u2019][^\W\d_]++)"  # O'Neil
)
"""Matches what is one word despite its signs: numbers, names such as C++, and contractions."""
_UNDERSCORES = re.compile(r"(?<!\w)(?P<opening>_{1,3})(?=[^\s_])|(?<=[^\s_])_{1,3}(?!\w)|\n\s*\n")


class ContainsChecker(Checker):
    """Passes text that contains all, any or none of the targets.

    Args:
        target: A string, or a list of strings.
        mode: How many targets the text must contain: ``all``, ``any`` (one or more) or ``none``.
        ignore_case: Treat ``a`` and ``A`` as equal.
        whole_words: Find ``oak`` only as a whole word, not within ``oaken``, and neither ``5`` in
            ``1.5`` nor ``C`` in ``C++``. In scripts without spaces, words are those of ICU; without
            the extra ``icu``, any match counts.
        normalize: Unicode form in which texts are compared. NFKC also treats full-width characters
            and ligatures as equal to plain ones, and ``x²`` as equal to ``x2``.
        straight_quotes: Treat curly quotes and apostrophes as equal to straight ones.
    """

    def __init__(
        self,
        target: str | list[str],
        mode: Literal["all", "any", "none"] = "all",
        ignore_case: bool = False,
        whole_words: bool = False,
        normalize: Normalization = "NFC",
        straight_quotes: bool = False,
    ) -> None:
        self._targets = target if isinstance(target, list) else [target]
        if not self._targets or not all(self._targets):
            raise ConfigError("The checker 'contains' has no target, or an empty one.")
        self._mode = mode
        self._whole_words = whole_words
        self._form = TextComparison(ignore_case, normalize, straight_quotes)

    def check(self, text: str, instance: Instance[Any]) -> Score:
        """Return whether the text passes, with the missing or forbidden targets as the reason."""
        shown_text = self._form(text)
        contained = [target for target in self._targets if self._is_in(target, shown_text, text)]
        missing = [target for target in self._targets if target not in contained]
        passed, reason = {
            "none": (not contained, f"contains {quoted_list(contained)}"),
            "any": (bool(contained), f"contains none of {quoted_list(missing)}"),
            "all": (not missing, f"lacks {quoted_list(missing)}"),
        }[self._mode]
        details = {"found": len(contained), "of": len(self._targets)}
        return Score(passed, passed, "" if passed else reason, details)

    def _is_in(self, target: str, shown_text: str, text: str) -> bool:
        form = self._form(target)
        if not form:  # a character that does not show, such as a zero-width space
            return target in text
        if not self._whole_words:
            return form in shown_text
        return _has_word(form, shown_text) or _has_word(form, _without_emphasis(shown_text))


def _has_word(target: str, text: str) -> bool:
    if target not in text:
        return False
    inner = set[int]()
    for match in _JOINED.finditer(text):
        inner.update(range(match.start() + 1, match.end()))
    offset = text.find(target)
    while offset >= 0:
        inside = offset in inner or offset + len(target) in inner
        if not inside and is_whole_word(target, text, offset, apart=True):
            return True
        offset = text.find(target, offset + 1)
    return False


def _without_emphasis(text: str) -> str:
    """Return text with spaces in place of underscores around emphasis, as in ``_Paris_``."""
    characters = list(text)
    opened: dict[int, int] = {}  # offsets of opening underscores by their number
    for match in _UNDERSCORES.finditer(text):
        length = len(match[0])
        if "\n" in match[0]:
            opened.clear()
        elif match["opening"]:
            opened[length] = match.start()
        elif length in opened:
            start = opened.pop(length)
            characters[start : start + length] = " " * length
            characters[match.start() : match.end()] = " " * length
    return "".join(characters)


plugin = ContainsChecker
