"""A gate decides whether a run keeps its bounds, given how uncertain its figures are.

A bound is kept if the whole interval of the figure is at or above it, and broken if the whole
interval is below it. Otherwise there are too few instances to tell. With 95% intervals, a figure
that is exactly at its bound is called broken in at most 5% of runs. With several decisions, the
intervals are widened (Bonferroni) to keep this guarantee for all of them together.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import ceil
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from harness.analysis.breakdown import values_by
from harness.analysis.clustered import Interval
from harness.analysis.comparable import (
    Run,
    refuse_incomparable,
    refuse_unknown_label,
    scored_runs,
)
from harness.analysis.comparison import POWER, compare, pair
from harness.analysis.metrics import PASS_RATE
from harness.errors import ConfigError, RunConflict

Outcome = Literal["passed", "failed", "too few to tell"]

_TAIL = 0.025  # probability outside a 95% interval, at each end


class Decision(Struct, frozen=True, kw_only=True):
    """The decision on one figure of a run: a score's mean, or its change from a baseline."""

    what: str  # the score's name; "change of …" against a baseline
    group: str = ""  # the group of the label that was asked for; empty for the whole run
    value: float | None
    ci95: Interval | None = None  # 95%, over all decisions together
    bound: float
    n: int  # samples, or paired instances
    outcome: Outcome = "too few to tell"
    needed: int | None = None  # as `n`: would tell in 80% of cases if the true value is this one


def decide(
    run: Run,
    minimums: Mapping[str, float],
    baseline: Run | None = None,
    max_drop: float | None = None,
    *,
    score: str = PASS_RATE,
    by: str = "",
) -> list[Decision]:
    """Decide whether a run keeps its bounds.

    Args:
        run: The run to check.
        minimums: The lowest acceptable mean by score (`PASS_RATE` for the pass rate).
        baseline: The run to compare with.
        max_drop: How much ``score`` may fall below the baseline's, paired by instance.
        score: The score that ``max_drop`` applies to.
        by: Label whose groups must also keep each bound, or empty for none.

    Raises:
        ConfigError: If a score or the label is unknown.
        RunConflict: If the run is unfinished, or cannot be compared with the baseline.
    """
    for variant, _ in filter(None, (run, baseline)):
        if not variant.metrics.complete:
            said = f"The run {variant.name!r} is not finished: {variant.metrics.progress} samples."
            raise RunConflict(said, "Run its run file again.")
    refuse_unknown_label("--by", by, {run[0].name: run[1]})
    found = [one for name, least in minimums.items() for one in _means(run, name, least, by)]
    if baseline is not None and max_drop is not None:
        found += _changes(baseline, run, score, -max_drop, by)
    return [decided(one, len(found)) for one in found]


def overall(decisions: Sequence[Decision]) -> Outcome:
    """Return ``failed`` if any decision is, else ``too few to tell`` if any is, else ``passed``."""
    found = {one.outcome for one in decisions}
    return next(one for one in ("failed", "too few to tell", "passed") if one in found)


def _means(run: Run, score: str, least: float, by: str) -> Iterator[Decision]:
    [(_, table)], _, column = scored_runs([run], score, None)
    for labels in ((), (by,)) if by else ((),):
        for key, one in values_by(table, column, *labels).items():
            yield Decision(
                what=score,
                group=key[0] if key else "",
                value=one.mean,
                ci95=one.ci95,
                bound=least,
                n=one.n,
            )


def _changes(baseline: Run, run: Run, score: str, least: float, by: str) -> Iterator[Decision]:
    refuse_incomparable(baseline[0], [run[0]])
    [(_, before), (_, after)], _, column = scored_runs([baseline, run], score, None)
    pairs = pair(before, after, score=column)
    if not len(pairs):
        raise ConfigError("The runs have no instance in common.", "Name runs of the same data.")
    parts = {"": pairs}
    if by:
        parts |= {group: pairs.take(rows) for group, rows in pairs.group(by).items()}
    for group, part in parts.items():
        one = compare(part)
        yield Decision(
            what=f"change of {score}",
            group=group,
            value=one.difference,
            ci95=one.ci95,
            bound=least,
            n=one.n,
        )


def decided(one: Decision, decisions: int) -> Decision:
    """Decide on one figure, with its interval widened for the number of decisions."""
    if one.value is None or one.ci95 is None:
        return one
    from scipy.special import ndtri  # SciPy takes longer to load than the rest of the harness

    z = float(ndtri(1 - _TAIL / decisions))
    wider = z / float(ndtri(1 - _TAIL))
    low, high = (one.value + (end - one.value) * wider for end in one.ci95)
    if one.ci95[0] >= 0 and one.ci95[1] <= 1:
        low, high = max(low, 0.0), min(high, 1.0)
    outcome: Outcome = "too few to tell"
    if low >= one.bound or high < one.bound:
        outcome = "passed" if low >= one.bound else "failed"
    distance, needed = one.value - one.bound, None
    if outcome == "too few to tell" and distance:
        needed = ceil(one.n * ((high - low) / 2 * (1 + float(ndtri(POWER)) / z) / distance) ** 2)
    return replace(one, ci95=(low, high), outcome=outcome, needed=needed)
