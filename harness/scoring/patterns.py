"""Searches text for users' regular expressions, within limits.

Some patterns, such as ``(a|a)*$``, can take practically forever. After `TIMEOUT_S`, a search raises
`PatternTooSlow`; after `MOST_TIMEOUTS` timeouts of one pattern, the run ends. The syntax is that of
the ``regex`` package (https://pypi.org/project/regex), a superset of Python's.
"""

from __future__ import annotations

import math
import re
import warnings
from collections import deque
from collections.abc import Callable
from typing import Any, Literal

from harness.errors import ConfigError, HarnessError
from harness.wording import truncate

TIMEOUT_S = 1.0  # time limit of one search, in seconds of CPU time
MOST_TIMEOUTS = 10  # number of timeouts after which a pattern ends the run
LONGEST_PATTERN = 10_000  # maximum number of characters in a pattern
MOST_PARTS = 100_000  # maximum number of `parts` of a pattern, which take 30 to 80 MB

Take = Literal["first", "last"]


class PatternTooSlow(HarnessError):
    """The search took too long, so it is unknown whether the pattern matches."""


class Pattern:
    """A compiled regular expression, searched within ``timeout_s`` seconds of CPU time.

    Error messages begin with ``where``, such as "The option 'a'". With ``full_case``, ignoring case
    also treats ``ß`` and ``ss`` as equal.
    """

    def __init__(
        self,
        pattern: str,
        where: str,
        *,
        ignore_case: bool = False,
        full_case: bool = False,
        timeout_s: float = TIMEOUT_S,
    ) -> None:
        import regex  # takes 20 ms, and most runs need no patterns

        self.pattern = pattern
        self._where = where
        self._timeout_s = timeout_s
        self._timeouts = 0
        flags = regex.IGNORECASE if ignore_case else 0
        if full_case and ignore_case:
            flags |= regex.FULLCASE
        if len(pattern) > LONGEST_PATTERN:
            raise ConfigError(f"{where}: the pattern has more than {LONGEST_PATTERN:,} characters.")
        if parts(pattern) > MOST_PARTS:
            raise ConfigError(
                f"{where}: {truncate(pattern, 60)!r} takes too much memory.",
                f"With repetitions written out, it may have at most {MOST_PARTS:,} parts.",
            )
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # about syntax whose meaning may change
                self._compiled: Any = regex.compile(pattern, flags)
        except (regex.error, RecursionError, OverflowError, MemoryError, ValueError) as error:
            raise ConfigError(
                f"{where}: {truncate(pattern, 60)!r} is not a regular expression "
                f"({str(error) or type(error).__name__}).",
                "In YAML put it in single quotes, where backslashes stay as they are.",
            ) from None

    @property
    def groups(self) -> int:
        """The number of capturing groups in the pattern."""
        return int(self._compiled.groups)

    def search(self, text: str) -> Any:
        """Return the leftmost match, or None.

        Raises:
            PatternTooSlow: If the search takes longer than the time limit.
            ConfigError: If searches for this pattern have timed out `MOST_TIMEOUTS` times.
        """
        return self._bounded(self._compiled.search, text)

    def fullmatch(self, text: str) -> Any:
        """Return the match of the whole text, or None. Raises the same errors as `search`."""
        return self._bounded(self._compiled.fullmatch, text)

    def findall(self, text: str) -> list[Any]:
        """Return all matches as `re.findall` does. Raises the same errors as `search`."""
        matches: list[Any] = self._bounded(self._compiled.findall, text)
        return matches

    def find(self, text: str, take: Take) -> Any:
        """Return the first or last match, or None. Raises the same errors as `search`."""
        if take == "first":
            return self.search(text)

        def last(text: str, timeout: float) -> Any:
            matches = self._compiled.finditer(text, timeout=timeout)
            return next(iter(deque(matches, maxlen=1)), None)

        return self._bounded(last, text)

    def _bounded(self, look: Callable[..., Any], text: str) -> Any:
        try:
            return look(text, timeout=self._timeout_s)
        except TimeoutError:
            self._timeouts += 1
        problem = (
            f"{self._where}: the pattern {truncate(self.pattern, 60)!r} takes more than "
            f"{self._timeout_s:g} s"
        )
        if self._timeouts >= MOST_TIMEOUTS:
            raise ConfigError(
                f"{problem}, and did so on {self._timeouts} answers.",
                "Write it without repetitions within repetitions, like (a+)+ or (a|a)*.",
            )
        raise PatternTooSlow(f"{problem} on this text.")


_UNUSUAL = re.compile(r"\[:|\(\?(?:[a-zA-Z]*[xV-]|#)|\{(?!\d*,?\d*\})")
"""Matches syntax that `_expanded` misreads: [:alpha:], (?x), comments, and fuzzy {e<=1}."""
_TOKEN = re.compile(
    r"(?P<repetition>\+|\{(?P<least>\d*),?\d*\})|\[\^?\]?(?:\\.|[^\]\\])*\]|\\.|.", re.DOTALL
)
_MEMBER = re.compile(r"\\.|.-.|.", re.DOTALL)  # of a set such as [^a-z_]


def parts(pattern: str) -> float:
    """Return an upper bound (possibly infinite) on the number of a compiled pattern's parts."""
    if not _UNUSUAL.search(pattern):
        return _expanded(pattern)
    # Assume that all repetitions are nested.
    if re.search(r"\{[\d\s]*#", pattern):  # a comment within a number
        return math.inf
    size = float(len(pattern))
    for repetition in re.findall(r"\+|\{[\d\s]*", pattern):
        digits = "".join(repetition[1:].split())[:9]
        size *= 2 if repetition == "+" else int(digits or 0) + 1
    return size


def _expanded(pattern: str) -> int:
    """Count the parts of a valid pattern: "(?:ab{2}){3}" has (3 + 1) * (2 + 1 + 3)."""
    sizes = [0]  # parts so far of the pattern and of each open group
    last = 0  # parts of the last item, which a repetition repeats
    for token in _TOKEN.finditer(pattern):
        if token[0] == "(":
            sizes.append(0)
            continue
        if token["repetition"]:
            last *= int(token["least"] or token[0] == "+")
        elif token[0] == ")" and len(sizes) > 1:
            last = sizes.pop()
        else:
            last = len(_MEMBER.findall(token[0]))
        sizes[-1] += last
    return sizes[0]


_ESCAPED = {"s": " ", "n": "\n", "t": "\t", "b": "", "A": "", "Z": "", "z": ""}
"""Maps the letter of an escape to the literal text that it matches (``\\s``: one space)."""
_PIECE = r"(?:\\([^A-Za-z0-9]|[sntbAZz])|([^\\()\[\]{}*+?.|]))([?*+]?)"
_AROUND = re.compile(
    rf"(?P<before>(?:{_PIECE})*)\((?:\?P<\w+>)?(?P<group>.*?)\)(?P<after>(?:{_PIECE})*)", re.DOTALL
)


def around_group(pattern: str) -> tuple[str, str] | None:
    r"""Return the literal text before and after the only group of a pattern, or None.

    Anchors and optional parts (``:?``, ``\s*``) are dropped.

    >>> around_group(r"answer is:? \(([A-E])\)")
    ('answer is (', ')')
    """
    import regex

    if not (match := _AROUND.fullmatch(pattern)):
        return None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            regex.compile(match["group"])
        except regex.error:  # several groups, or a non-capturing one
            return None
    return _literal(match["before"]), _literal(match["after"])


def _literal(pieces: str) -> str:
    text = ""
    for escaped, plain, quantifier in re.findall(_PIECE, pieces):
        if quantifier not in ("?", "*") and plain not in ("^", "$"):
            text += plain or _ESCAPED.get(escaped, escaped)
    return text
