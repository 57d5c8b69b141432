"""Which of another tool's scores are verdicts, and which one says what passed.

Owns the rule. A score gives verdicts where each of its values in the whole file is a grade
(correct, incorrect, no answer, partly); or 0 or 1, and its tool takes it for an accuracy or the
user names it. Of several, one decides: the named one, else the tool's headline, else the first. A
value that could not be made is none, and never 0.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from harness.errors import ConfigError, nearest
from harness.records import Score

PARTLY = 0.5
"""The value of a partly correct answer, which has not passed."""


@dataclass(slots=True)
class Found:
    """A value of a score in the file.

    graded: it is a grade, which is a verdict whatever its value.
    """

    value: float | None
    graded: bool = False
    reason: str = ""
    details: dict[str, object] = field(default_factory=dict)


@dataclass(slots=True)
class _Kind:
    binary: bool = True
    gradable: bool = True
    graded: bool = True
    n: int = 0


class Verdicts:
    """Learns from all values of a file, then says what each means.

    is_accuracy: of a score's name. wanted: the score that decides, empty for the rule's.
    headline: the tool's own.
    """

    def __init__(self, is_accuracy: Callable[[str], bool], wanted: str = "", headline: str = ""):
        self._is_accuracy = is_accuracy
        self._wanted = wanted
        self._headline = headline
        self._kinds: dict[str, _Kind] = {}

    def learn(self, name: str, found: Found) -> None:
        """Take account of a value."""
        kind = self._kinds.setdefault(name, _Kind())
        if found.value is None:
            return
        kind.n += 1
        kind.binary &= found.value in (0, 1)
        kind.gradable &= found.graded or found.value in (0, 1)
        kind.graded &= found.graded

    def decide(self) -> None:
        """Choose the score that decides, once all is learnt.

        Raises: ConfigError where the wanted one is not there.
        """
        if self._wanted and self._wanted not in self._kinds:
            raise ConfigError(
                f"--score: the file has no score {self._wanted!r}.",
                nearest(self._wanted, self._kinds) or "It has no scores at all.",
            )
        giving = [name for name in self._kinds if self.gives_verdicts(name)]
        names = giving or [name for name, kind in self._kinds.items() if kind.n]
        first = self._headline if self._headline in names else next(iter(names), "")
        self.deciding = self._wanted or first

    def gives_verdicts(self, name: str) -> bool:
        """Whether a score's values are verdicts."""
        kind = self._kinds[name]
        accuracy = name == self._wanted or kind.graded or self._is_accuracy(name)
        return bool(kind.n) and kind.gradable and accuracy

    @property
    def measure(self) -> str | None:
        """The score that the run is measured by; None where that is the pass rate."""
        kind = self._kinds.get(self.deciding)
        plain = kind is None or (self.gives_verdicts(self.deciding) and kind.binary)
        return None if plain else self.deciding

    def score(self, name: str, found: Found) -> Score:
        """A value as a score of a run."""
        value = found.value
        if value is None:
            return Score(None, None, found.reason, found.details)
        passed = value == 1 if self.gives_verdicts(name) else None
        made = bool(value) if self._kinds[name].binary else value
        return Score(made, passed, found.reason, found.details)
