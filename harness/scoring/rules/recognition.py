"""Which rule decides a constraint: the whole of it, or each of its parts.

>>> [rule.name for rule in recognise("Use at most 50 words and no commas.").rules]
['word_count', 'no_commas']
"""

from __future__ import annotations

import re
from functools import lru_cache

from harness.scoring.rules import forms, keywords, lengths
from harness.scoring.rules.rule import Every, Rule
from harness.scoring.rules.wording import Wording, read

REMEMBERED = 4_096
"""Constraints: an answer's are asked for more than once, by the task and by its judges."""

_JOINTS = re.compile(r",? (?:and|but) |; |\. |, ")
_NEGATION = re.compile(
    "(?:please )?(?:do not|don't|never|avoid|without|refrain|exclude|omit|"
    r"no(?! more| fewer| less| longer))\b"
)


@lru_cache(REMEMBERED)
def recognise(constraint: str) -> Rule | None:
    """The rule that decides a constraint fully; None where there is none, or doubt.

    A compound constraint has one where each of its parts has.
    """
    wording = read(constraint)
    if wording is None:
        return None
    return _rule(wording, alone=True) or _compound(wording)


def _rule(wording: Wording, *, alone: bool) -> Rule | None:
    return (
        lengths.recognise(wording.text, alone=alone)
        or keywords.recognise(wording)
        or forms.recognise(wording)
    )


def _compound(wording: Wording) -> Rule | None:
    parts = [part.strip() for part in _JOINTS.split(wording.text)]
    if len(parts) < 2 or any(_NEGATION.match(part) for part in parts[:-1]):
        return None  # "do not … and …": who can say how far the negation goes?
    found = [_rule(Wording(part, wording.quoted), alone=False) for part in parts]
    rules = tuple(rule for rule in found if rule is not None)
    return Every(rules) if len(rules) == len(parts) else None
