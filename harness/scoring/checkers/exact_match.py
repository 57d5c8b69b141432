"""Whether a text is the expected one.

>>> ExactMatchChecker("Paris", ignore_case=True).check(" paris ", Instance("1", None)).passed
True
"""

from __future__ import annotations

import unicodedata
from typing import Any

from harness.errors import ConfigError
from harness.records import Instance, Score

Value = str | int | float | bool
"""Of data: numbers and true/false are compared as JSON writes them."""


class ExactMatchChecker:
    """Passes a text that is the expected one, or one of several; space around it is no part of it.

    target: the expected text, or a list of which any is right.
    ignore_case: whether ``paris`` is ``Paris``.
    ignore_punctuation: whether ``Paris.`` is ``Paris``.
    ignore_space: whether any run of spaces and line breaks is one space.

    Raises: ConfigError for no target.
    """

    def __init__(
        self,
        target: Value | list[Value],
        ignore_case: bool = False,
        ignore_punctuation: bool = False,
        ignore_space: bool = False,
    ) -> None:
        self._ignore_case = ignore_case
        self._ignore_punctuation = ignore_punctuation
        self._ignore_space = ignore_space
        targets = target if isinstance(target, list) else [target]
        if not targets:
            raise ConfigError("The checker 'exact_match' has an empty list of targets.")
        self._targets = frozenset(self._bare(written(one)) for one in targets)

    def check(self, text: str, instance: Instance[Any]) -> Score:
        """Compare the whole text. The reason never tells the target."""
        passed = self._bare(text) in self._targets
        return Score(passed, passed, "" if passed else f"{shown(text)} is not the expected answer")

    def _bare(self, text: str) -> str:
        text = unicodedata.normalize("NFC", text)
        if self._ignore_case:
            text = text.casefold()
        if self._ignore_punctuation:
            text = "".join(c for c in text if not unicodedata.category(c).startswith("P"))
        if self._ignore_space:
            text = " ".join(text.split())
        return text.strip()


def written(value: Value) -> str:
    """A target as a model would write it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def shown(text: str, length: int = 60) -> str:
    """A text in a reason: quoted and cut."""
    text = text.strip()
    return repr(text if len(text) <= length else f"{text[: length - 1]}…")


plugin = ExactMatchChecker
