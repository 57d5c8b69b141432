"""Searches text for users' regular expressions, within limits.

Some patterns, such as ``(a|a)*$``, can take practically forever. After `TIMEOUT_S`, a search raises
`PatternTooSlow`; after `MAX_TIMEOUTS` timeouts of one pattern, the run ends. The syntax is that of
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
MAX_TIMEOUTS = 10  # after this many, a pattern ends the run
MAX_PATTERN_CHARS = 10_000
MAX_PATTERN_PARTS = 100_000  # these take 30 to 80 MB

MatchPosition = Literal["first", "last"]


class PatternTooSlow(HarnessError):
    """The search took too long, so it is unknown whether the pattern matches."""


class Pattern:
    """A compiled regular expression whose searches have a time limit.

    Args:
        pattern: The regular expression.
        where: The beginning of error messages, such as "The option 'a'".
        ignore_case: Treat ``a`` and ``A`` as equal.
        full_case: When case is ignored, also treat ``ß`` and ``ss`` as equal.
        timeout_s: Time limit of one search, in seconds of CPU time.

    Raises:
        ConfigError: If the pattern is not a regular expression, or is too large.
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
        if len(pattern) > MAX_PATTERN_CHARS:
            raise ConfigError(
                f"{where}: the pattern has more than {MAX_PATTERN_CHARS:,} characters."
            )
        if count_pattern_parts(pattern) > MAX_PATTERN_PARTS:
            raise ConfigError(
                f"{where}: {truncate(pattern, 60)!r} takes too much memory.",
                f"With repetitions written out, it may have at most {MAX_PATTERN_PARTS:,} parts.",
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
            ConfigError: If searches for this pattern have timed out `MAX_TIMEOUTS` times.
        """
        return self._run(self._compiled.search, text)

    def fullmatch(self, text: str) -> Any:
        """Return the match of the whole text, or None. Raises the same errors as `search`."""
        return self._run(self._compiled.fullmatch, text)

    def findall(self, text: str) -> list[Any]:
        """Return all matches as `re.findall` does. Raises the same errors as `search`."""
        matches: list[Any] = self._run(self._compiled.findall, text)
        return matches

    def find(self, text: str, take: MatchPosition) -> Any:
        """Return the first or last match, or None. Raises the same errors as `search`."""
        if take == "first":
            return self.search(text)

        def find_last(text: str, timeout: float) -> Any:
            matches = self._compiled.finditer(text, timeout=timeout)
            return next(iter(deque(matches, maxlen=1)), None)

        return self._run(find_last, text)

    def _run(self, search: Callable[..., Any], text: str) -> Any:
        """Return the result of a search within the time limit, and count timeouts."""
        try:
            return search(text, timeout=self._timeout_s)
        except TimeoutError:
            self._timeouts += 1
        problem = (
            f"{self._where}: the pattern {truncate(self.pattern, 60)!r} takes more than "
            f"{self._timeout_s:g} s"
        )
        if self._timeouts >= MAX_TIMEOUTS:
            raise ConfigError(
                f"{problem}, and did so on {self._timeouts} answers.",
                "Write it without repetitions within repetitions, like (a+)+ or (a|a)*.",
            )
        raise PatternTooSlow(f"{problem} on this text.")


_UNCOUNTABLE_SYNTAX = re.compile(r"\[:|\(\?(?:[a-zA-Z]*[xV-]|#)|\{(?!\d*,?\d*\})")
"""Matches syntax that `_count_parts` misreads: [:alpha:], (?x), comments, and fuzzy {e<=1}."""
_TOKEN = re.compile(
    r"(?P<repetition>\+|\{(?P<minimum>\d*),?\d*\})|\[\^?\]?(?:\\.|[^\]\\])*\]|\\.|.", re.DOTALL
)
_SET_MEMBER = re.compile(r"\\.|.-.|.", re.DOTALL)  # one of a set such as [^a-z_]


def count_pattern_parts(pattern: str) -> float:
    """Return an upper bound (possibly infinite) of the number of parts of a compiled pattern."""
    if not _UNCOUNTABLE_SYNTAX.search(pattern):
        return _count_parts(pattern)
    # Assume that all repetitions are nested.
    if re.search(r"\{[\d\s]*#", pattern):  # a comment within a number
        return math.inf
    size = float(len(pattern))
    for repetition in re.findall(r"\+|\{[\d\s]*", pattern):
        digits = "".join(repetition[1:].split())[:9]
        size *= 2 if repetition == "+" else int(digits or 0) + 1
    return size


def _count_parts(pattern: str) -> int:
    """Count the parts of a valid pattern: "(?:ab{2}){3}" has (3 + 1) * (2 + 1 + 3)."""
    sizes = [0]  # parts so far of the pattern and of each open group
    last = 0  # parts of the last item, which a repetition repeats
    for token in _TOKEN.finditer(pattern):
        if token[0] == "(":
            sizes.append(0)
            continue
        if token["repetition"]:
            last *= int(token["minimum"] or token[0] == "+")
        elif token[0] == ")" and len(sizes) > 1:
            last = sizes.pop()
        else:
            last = len(_SET_MEMBER.findall(token[0]))
        sizes[-1] += last
    return sizes[0]


_LITERAL_OF_ESCAPE = {"s": " ", "n": "\n", "t": "\t", "b": "", "A": "", "Z": "", "z": ""}
"""Maps the letter of an escape to the literal text that it matches (``\\s``: one space)."""
_LITERAL_PIECE = r"(?:\\([^A-Za-z0-9]|[sntbAZz])|([^\\()\[\]{}*+?.|]))([?*+]?)"
_AROUND_GROUP = re.compile(
    rf"(?P<before>(?:{_LITERAL_PIECE})*)\((?:\?P<\w+>)?(?P<group>.*?)\)(?P<after>(?:{_LITERAL_PIECE})*)",
    re.DOTALL,
)


def literals_around_group(pattern: str) -> tuple[str, str] | None:
    r"""Return the literal text before and after the only group of a pattern, or None.

    Anchors and optional parts (``:?``, ``\s*``) are dropped.

    >>> literals_around_group(r"answer is:? \(([A-E])\)")
    ('answer is (', ')')
    """
    import regex

    if not (match := _AROUND_GROUP.fullmatch(pattern)):
        return None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            regex.compile(match["group"])
        except regex.error:  # several groups, or a non-capturing one
            return None
    return _literal_text(match["before"]), _literal_text(match["after"])


def _literal_text(pieces: str) -> str:
    text = ""
    for escaped, plain, quantifier in re.findall(_LITERAL_PIECE, pieces):
        if quantifier not in ("?", "*") and plain not in ("^", "$"):
            text += plain or _LITERAL_OF_ESCAPE.get(escaped, escaped)
    return text
