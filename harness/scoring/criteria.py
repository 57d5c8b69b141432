"""From verdicts on criteria to scores: WildIFEval's strict and soft one.

Lior et al. 2025, "WildIFEval" (arXiv 2503.06573): strict asks for all constraints of a task,
soft is the share of them that are met.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from harness.records import Score


def criteria_scores(
    constraints: Sequence[Mapping[str, Any]],
    undecided: str = "The judge said neither yes nor no of: ",
) -> Mapping[str, Score]:
    """``strict``: whether all are satisfied; ``soft``: the share of those decided on.

    constraints: each with ``constraint``, its text, and ``passed``: true, false, or null where it
        was not decided on. They are kept as `harness.store.constraints` reads them. Strict is
        false with any false, otherwise null with any null.
    undecided: begins the reason where some are.
    """
    unsatisfied = [one["constraint"] for one in constraints if one["passed"] is False]
    open_ones = [one["constraint"] for one in constraints if one["passed"] is None]
    strict = False if unsatisfied else None if open_ones else True
    reason = ""
    if unsatisfied:
        reason = "Not satisfied: " + "; ".join(unsatisfied)
    elif open_ones:
        reason = undecided + "; ".join(open_ones)
    n = len(constraints) - len(open_ones)
    soft = (n - len(unsatisfied)) / n if n else None
    return {
        "strict": Score(strict, strict, reason, {"constraints": list(constraints)}),
        "soft": Score(soft, None, "", {"decided": n, "abstained": len(open_ones)}),
    }
