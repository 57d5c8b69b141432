"""Regular expressions of the user's, bounded in time.

A pattern can take longer than the universe lasts (``(a|a)*$``), and the text that sets it off
is a model's. A search that takes too long is no verdict on the text: it raises `PatternTooSlow`,
which checkers make a score that could not be made. A pattern that does it again and again ends
the run. The syntax is that of the ``regex`` package (https://pypi.org/project/regex), which is
Python's own and more.

>>> Pattern(r"answer is (\\w+)", "The option 'regex'").search("The answer is blue.")[1]
'blue'
"""

from __future__ import annotations

import warnings
from collections import deque
from collections.abc import Callable
from typing import Any, Literal

from harness.errors import ConfigError, HarnessError

TIMEOUT_S = 1.0
"""Of one search, in seconds of CPU."""
MOST_TIMEOUTS = 10
"""Searches of a pattern that may run out of time before it ends the run."""
LONGEST_PATTERN = 10_000
"""Characters."""


class PatternTooSlow(HarnessError):
    """A search took too long: whether the pattern matches is not known."""


class Pattern:
    """A compiled pattern.

    where: how a message names its place ("The checker 'regex_match'").

    Raises: ConfigError where it is no pattern.
    """

    def __init__(
        self, pattern: str, where: str, *, ignore_case: bool = False, timeout_s: float = TIMEOUT_S
    ) -> None:
        import regex  # 20 ms, and most runs need none

        self.pattern = pattern
        self._where = where
        self._timeout_s = timeout_s
        self._timeouts = 0
        if len(pattern) > LONGEST_PATTERN:
            raise ConfigError(f"{where}: a pattern of more than {LONGEST_PATTERN:,} characters.")
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of syntax that may change its meaning one day
                self._compiled: Any = regex.compile(pattern, regex.IGNORECASE if ignore_case else 0)
        except (regex.error, RecursionError, OverflowError, MemoryError, ValueError) as error:
            raise ConfigError(
                f"{where}: {_cut(pattern)!r} is no regular expression "
                f"({str(error) or type(error).__name__}).",
                "In YAML put it in single quotes, where backslashes stay as they are.",
            ) from None

    @property
    def groups(self) -> int:
        """Number of its capturing groups."""
        found: int = self._compiled.groups
        return found

    def search(self, text: str) -> Any:
        """The leftmost match anywhere in the text, or None.

        Raises: PatternTooSlow; ConfigError when that has happened too often.
        """
        return self._bounded(lambda: self._compiled.search(text, timeout=self._timeout_s))

    def match(self, text: str, start: int = 0) -> Any:
        """The match that begins at a place of the text, or None. Raises: as `search`."""
        return self._bounded(lambda: self._compiled.match(text, start, timeout=self._timeout_s))

    def fullmatch(self, text: str) -> Any:
        """The match of the whole text, or None. Raises: as `search`."""
        return self._bounded(lambda: self._compiled.fullmatch(text, timeout=self._timeout_s))

    def find(self, text: str, take: Literal["first", "last"]) -> Any:
        """The first or the last match, or None. Raises: as `search`."""
        if take == "first":
            return self.search(text)

        def last() -> Any:
            matches = self._compiled.finditer(text, timeout=self._timeout_s)
            return next(iter(deque(matches, maxlen=1)), None)

        return self._bounded(last)

    def _bounded(self, look: Callable[[], Any]) -> Any:
        try:
            return look()
        except TimeoutError:
            problem = (
                f"{self._where}: the pattern {_cut(self.pattern)!r} takes more than "
                f"{self._timeout_s:g} s"
            )
        self._timeouts += 1
        if self._timeouts >= MOST_TIMEOUTS:
            raise ConfigError(
                f"{problem}, and did so on {self._timeouts} answers.",
                "Write it without repetitions within repetitions, like (a+)+ or (a|a)*.",
            )
        raise PatternTooSlow(f"{problem} on this text.")


def answer_in(match: Any) -> str:
    """What a match says: its first group that took part, or all of it where it has none."""
    groups = match.groups()
    if not groups:
        return str(match[0])
    return str(next((group for group in groups if group is not None), ""))


def _cut(text: str, length: int = 60) -> str:
    return text if len(text) <= length else f"{text[: length - 1]}…"
