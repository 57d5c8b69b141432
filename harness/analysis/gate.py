"""A gate decides whether a run meets its bounds, given the uncertainty of its figures.

A bound is kept if the whole interval of the figure is at or above it, and broken if the whole
interval is below it. Otherwise there are too few instances to tell. With 95% intervals, a figure
that is exactly at its bound is called broken in at most 5% of runs. With several decisions, the
intervals are widened (Bonferroni) to keep this guarantee for all of them together.

Samples without a verdict do not count in a figure. A run that has too many of them does not pass.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import ceil, sqrt
from pathlib import Path
from typing import Literal

import numpy as np
from msgspec import Struct
from msgspec.json import Decoder
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
from harness.records import OUTCOMES
from harness.store.columns import AttemptTable, Bools
from harness.store.index import AttemptIndex
from harness.store.judgements import FAILED, Judgement
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


class Unjudged(Struct, frozen=True, kw_only=True):
    """The samples of a run that have no verdict, by their last round."""

    run: str
    n_samples: int  # all samples of the run
    failed_calls: int
    no_judgement: int  # answers whose judgement failed or is missing
    allowed: bool  # whether their share is at most ``max_unjudged``


@dataclass(frozen=True, slots=True)
class Gate:
    """All decisions on a run, with the run and its baseline, if any."""

    run: Variant
    baseline: Variant | None
    decisions: Sequence[Decision]
    unjudged: Sequence[Unjudged] = ()  # of the run and its baseline, where there are such samples

    @property
    def outcome(self) -> Outcome:
        """The overall outcome: the worst of ``failed``, ``too few to tell`` and ``passed``.

        It is not ``passed`` if too many samples have no verdict.
        """
        found = {one.outcome for one in self.decisions}
        if not all(one.allowed for one in self.unjudged):
            found.add("too few to tell")
        return next(one for one in ("failed", "too few to tell", "passed") if one in found)


def check_run(folder: RunFolder, asked: CheckSection, runs: Path) -> Gate:
    """Return the decisions on the bounds of a recorded run.

    Args:
        folder: The run's folder.
        asked: The bounds and, optionally, the name of a baseline.
        runs: The folder with the baseline's run folder.

    Raises:
        ConfigError: If a score or the label is unknown.
        DataMissing: If there is no such baseline.
        RunConflict: If a run is unfinished, or cannot be compared with the baseline.
    """
    base = find_run(runs, asked.baseline) if asked.baseline else None
    before = read_run(base) if base else None
    run = read_run(folder)
    decisions = decide(run, asked, before)
    scores = [*asked.min, *([asked.score] if before else [])]
    found = [_unjudged(folder, run, scores, asked.max_unjudged)]
    if base and before:
        found.append(_unjudged(base, before, [asked.score], asked.max_unjudged))
    unjudged = [one for one in found if one.failed_calls or one.no_judgement]
    return Gate(run[0], before[0] if before else None, decisions, unjudged)


def _unjudged(folder: RunFolder, run: Run, scores: Sequence[str], allowed: float) -> Unjudged:
    table, last = run[1], run[1].is_last_round()
    lacking = np.zeros(len(table), np.bool_)
    for score in scores:
        lacking |= last & _lacks(folder, table, score)
    n = int(lacking.sum())
    failed = int((table.outcome[lacking] == OUTCOMES.index("error")).sum())
    return Unjudged(
        run=run[0].name,
        n_samples=int(last.sum()),
        failed_calls=failed,
        no_judgement=n - failed,
        allowed=n <= allowed * int(last.sum()),
    )


def _lacks(folder: RunFolder, table: AttemptTable, score: str) -> Bools:
    """Return an (n,) mask of the attempts that should have the score, or a verdict, but do not.

    An answer with a verdict may lack a score that does not apply to it.
    """
    if score not in table.scores:
        return ~table.judged
    absent = ~table.measured(score)
    if not absent.any():
        return absent
    index, judge = AttemptIndex(folder.attempts), score.partition(".")[0]
    known = index.judgements.register.judges if index.judgements else {}
    if judge in known:
        rows = np.flatnonzero(absent & table.judged)
        said = index.said(rows, Decoder(Judgement).decode, known[judge].members or (judge,))
        kept = [not any(one and one.outcome in FAILED for one in found) for found in said]
        absent[rows[kept]] = False
        return absent
    return absent & ~table.judged


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
