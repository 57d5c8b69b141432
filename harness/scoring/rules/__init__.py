"""Rules that recognise constraints in plain English and check them without a model.

Constraints that are unclear, or that only a reader can judge, have no rule; judges decide them.

>>> rule = recognise("Keep the text below 80 words.")
>>> rule.name, rule.check("word " * 80)
('word_count', 'at most 79 words, has 80')
>>> recognise("Keep the text short.") is None
True
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar, TypeAlias

from harness.scoring.rules import contents, lengths
from harness.scoring.rules.lengths import Wording, read, rules_version

__all__ = ["Every", "Rule", "recognise", "rules_version"]

Rule: TypeAlias = "lengths.Length | contents.Keywords | contents.Form | contents.Edge | Every"
"""A rule that decides in linear time whether an answer satisfies one constraint.

``name`` is the rule's kind, such as ``word_count``. ``check`` returns what is wrong, or "".
"""


@dataclass(frozen=True, slots=True)
class Every:
    """The rules of a compound constraint, which must all be satisfied."""

    rules: tuple[Rule, ...]
    name: ClassVar[str] = "compound"

    def check(self, text: str) -> str:
        """Return all violations in an answer, or "" if there are none."""
        return "; ".join(filter(None, (rule.check(text) for rule in self.rules)))


_JOINTS = re.compile(r",? (?:and|but) |; |\. |, ")
_NEGATION = re.compile(
    "(?:please )?(?:do not|don't|never|avoid|without|refrain|exclude|omit|"
    r"no(?! more| fewer| less| longer))\b"
)


@lru_cache(4_096)  # a task and its judges share constraints
def recognise(constraint: str) -> Rule | None:
    """Return the rule that decides a constraint completely, or None."""
    wording = read(constraint)
    return None if wording is None else _rule(wording, alone=True) or _compound(wording)


def _rule(wording: Wording, *, alone: bool) -> Rule | None:
    return lengths.recognise(wording.text, alone=alone) or contents.recognise(wording)


def _compound(wording: Wording) -> Rule | None:
    parts = [part.strip() for part in _JOINTS.split(wording.text)]
    if len(parts) < 2 or any(_NEGATION.match(part) for part in parts[:-1]):
        return None  # "do not … and …": the scope of the negation is unclear
    found = [_rule(Wording(part, wording.quoted), alone=False) for part in parts]
    rules = tuple(rule for rule in found if rule is not None)
    return Every(rules) if len(rules) == len(parts) else None
