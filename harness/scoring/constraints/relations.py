"""Whether a relation holds between what was observed and what was asked.

Texts are compared without case and without the marks around them ("Bird," is
"bird"), unless nothing else is left. A missing value (the ninth of five words)
is in no order with anything and equals nothing.

>>> holds("==", "Bird,", "bird"), holds(">=", None, 3)
(True, False)
"""

from __future__ import annotations

import operator
import string
from functools import lru_cache
from typing import TypeAlias

from harness.scoring.constraints.grammar import Relation, Target

Observed: TypeAlias = "int | str | tuple[Observed, ...] | None"
"""What a transformation made of a text; None where there is nothing at a position."""

MARKS = string.punctuation + " "
ORDERS = {"<": operator.lt, ">": operator.gt, "<=": operator.le, ">=": operator.ge}


def holds(relation: Relation, observed: Observed, target: Target) -> bool:
    """Whether ``observed`` stands in the relation to ``target``.

    ``in``: the observed text or list contains the target, or every one of them.
    ``not in``: it contains none of them.
    """
    if relation in ("in", "not in"):
        wanted = target if isinstance(target, tuple) else (target,)
        contained = [observed is not None and _contains(observed, part) for part in wanted]
        return all(contained) if relation == "in" else not any(contained)
    if isinstance(target, tuple) and len(target) == 1 and not isinstance(observed, tuple):
        target = target[0]
    if relation in ORDERS:
        if not isinstance(observed, int) or not isinstance(target, int):
            return False
        return bool(ORDERS[relation](observed, target))
    return (bare(observed) == bare(target)) is (relation == "==")


def bare(value: Observed) -> Observed:
    """A text, or those of a list, in lower case and without the marks around it."""
    if isinstance(value, str):
        stripped = value.lower().strip(MARKS)
        return stripped or value
    return _all_bare(value) if isinstance(value, tuple) else value


@lru_cache(maxsize=128)  # several "does not contain the word …" on one text
def _all_bare(values: tuple[Observed, ...]) -> tuple[Observed, ...]:
    return tuple([bare(value) if isinstance(value, str) else value for value in values])


def _contains(observed: Observed, target: Target) -> bool:
    haystack, needle = bare(observed), bare(target)
    if isinstance(haystack, str):
        return isinstance(needle, str) and needle in haystack
    return isinstance(haystack, tuple) and needle in haystack
