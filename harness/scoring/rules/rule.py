"""What a rule is: a name, and a verdict on a text that follows from the text alone."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.metadata import version
from typing import ClassVar, Protocol

VERSION = "1"
"""To be raised with any change of what is recognised, or of a verdict."""


def rules_version() -> str:
    """What verdicts depend on besides the text, for manifests: ours and that of NLTK's sentences.

    >>> rules_version().partition(",")[0]
    '1'
    """
    return f"{VERSION}, nltk {version('nltk')}"


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether a text keeps a constraint; a reason where it does not."""

    passed: bool
    reason: str = ""


class Rule(Protocol):
    """Decides one constraint."""

    @property
    def name(self) -> str:
        """Its kind: ``word_count``, ``forbidden_word``, ``json``."""
        ...

    def check(self, text: str) -> Verdict:
        """The verdict on a whole answer: pure, for any text, in time that grows with its length."""
        ...


@dataclass(frozen=True, slots=True)
class Every:
    """Several rules, all of which must hold: a compound constraint.

    >>> Every(()).check("anything").passed
    True
    """

    rules: tuple[Rule, ...]
    name: ClassVar[str] = "compound"

    def check(self, text: str) -> Verdict:
        """Passed where each is; the reasons of those that are not."""
        failed = [found.reason for rule in self.rules if not (found := rule.check(text)).passed]
        return Verdict(not failed, "; ".join(failed))
