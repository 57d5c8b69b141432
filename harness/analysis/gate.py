"""A gate decides whether a run keeps its bounds, given how uncertain its figures are.

A bound is kept if the whole interval of the figure is at or above it, and broken if the whole
interval is below it. Otherwise there are too few instances to tell. With 95% intervals, a figure
that is exactly at its bound is called broken in at most 5% of runs. With several decisions, the
intervals are widened (Bonferroni) to keep this guarantee for all of them together.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import ceil, sqrt
from pathlib import Path
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from harness.analysis.breakdown import instances_by, values_by
from harness.analysis.clustered import Interval, wilson_size
from harness.analysis.comparable import (
    Run,
    Variant,
    read_run,
    refuse_incomparable,
    refuse_unknown_label,
    scored_runs,
)
from harness.analysis.comparison import ALPHA, POWER, Method, compare, pair
from harness.analysis.distributions import normal_quantile
from harness.config.sections import CheckSection
from harness.errors import ConfigError, RunConflict
from harness.store.run_folder import RunFolder, find_run

Outcome = Literal["passed", "failed", "too few to tell"]


class Decision(Struct, frozen=True, kw_only=True):
    """The decision on one figure of a run: a score's mean, or its change from a baseline."""

    what: str  # the score's name; "change of …" against a baseline
    group: str = ""  # the group of the label that was asked for; empty for the whole run
    value: float | None
    ci95: Interval | None = None  # 95%, over all decisions together
    method: Method | Literal["clustered mean"] = "clustered mean"
    bound: float
    n: int  # instances; with a baseline, those that both runs have
    outcome: Outcome = "too few to tell"
    needed: int | None = None  # instances that would tell in 80% of cases if this value is true


@dataclass(frozen=True, slots=True)
class Gate:
    """All decisions on a run, with the run and its baseline, if any."""

    run: Variant
    baseline: Variant | None
    decisions: Sequence[Decision]

    @property
    def outcome(self) -> Outcome:
        """The overall outcome: the worst of ``failed``, ``too few to tell`` and ``passed``."""
        found = {one.outcome for one in self.decisions}
        return next(one for one in ("failed", "too few to tell", "passed") if one in found)


def check_run(folder: RunFolder, asked: CheckSection, runs: Path) -> Gate:
    """Return the decisions on the bounds of a recorded run.

    Args:
        folder: The run's folder.
        asked: The bounds and, optionally, the name of a baseline.
        runs: The folder with the baseline's run folder.

    Raises:
        ConfigError: As `decide`.
        DataMissing: If there is no such baseline.
        RunConflict: As `decide`.
    """
    before = read_run(find_run(runs, asked.baseline)) if asked.baseline else None
    run = read_run(folder)
    return Gate(run[0], before[0] if before else None, decide(run, asked, before))


def decide(run: Run, asked: CheckSection, baseline: Run | None = None) -> list[Decision]:
    """Return a decision on each bound, for the whole run and then for each group.

    Raises:
        ConfigError: If a score or the label is unknown.
        RunConflict: If a run is unfinished, or cannot be compared with the baseline.
    """
    for variant, _ in filter(None, (run, baseline)):
        if not variant.metrics.complete:
            said = f"The run {variant.name!r} is not finished: {variant.metrics.progress} samples."
            raise RunConflict(said, "Run its run file again.")
    refuse_unknown_label("--by", asked.by, {run[0].name: run[1]})
    found = [one for name, least in asked.min.items() for one in _means(run, name, least, asked.by)]
    if baseline is not None and asked.max_drop is not None:
        found += _changes(baseline, run, asked.score, -asked.max_drop, asked.by)
    return [decided(one, len(found)) for one in found]


def _means(run: Run, score: str, least: float, by: str) -> Iterator[Decision]:
    [(_, table)], _, column = scored_runs([run], score, None)
    for labels in ((), (by,)) if by else ((),):
        instances = instances_by(table, column, *labels)
        for key, one in values_by(table, column, *labels).items():
            yield Decision(
                what=score,
                group=key[0] if key else "",
                value=one.mean,
                ci95=one.ci95,
                bound=least,
                n=instances.get(key, 0),
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
            method=one.method,
            bound=least,
            n=one.n,
        )


def decided(one: Decision, decisions: int) -> Decision:
    """Return a decision with its outcome, and with its interval widened (Bonferroni).

    ``decisions`` is the number of decisions on the run.
    """
    if one.value is None or one.ci95 is None:
        return one
    z = normal_quantile(1 - ALPHA / 2 / decisions)
    wider = z / normal_quantile(1 - ALPHA / 2)
    low, high = (one.value + (end - one.value) * wider for end in one.ci95)
    fraction = one.method == "clustered mean" and one.ci95[0] >= 0 and one.ci95[1] <= 1
    if fraction:
        low, high = max(low, 0.0), min(high, 1.0)
    outcome: Outcome = "too few to tell"
    if low >= one.bound or high < one.bound:
        outcome = "passed" if low >= one.bound else "failed"
    distance, needed = abs(one.value - one.bound), None
    if outcome == "too few to tell" and distance:
        z_power, reach = normal_quantile(POWER), (one.ci95[1] - one.ci95[0]) / 2
        # Of verdicts: the continuity correction of Fleiss, Levin and Paik (2003, section 2.5).
        correction = 1 / distance if fraction or one.method == "exact McNemar" else 0.0
        if fraction:  # Wilson's interval leaves a bound out by the error at the bound
            errors = [sqrt(p * (1 - p)) for p in (one.bound, one.value)]
            n = ((z * errors[0] + z_power * errors[1]) / distance) ** 2
            needed = ceil((n + correction) * one.n / wilson_size(one.value, reach))
        else:
            needed = ceil(one.n * (reach * wider * (1 + z_power / z) / distance) ** 2 + correction)
    return replace(one, ci95=(low, high), outcome=outcome, needed=needed)
