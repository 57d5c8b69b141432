"""A gate decides whether runs meet their bounds, given the uncertainty of their figures.

A minimum is met if the whole interval of the figure is at or above it, and broken if the whole
interval is below it. For a maximum, the reverse holds. Otherwise there are too few instances to
tell. With 95% intervals, a figure whose true value is exactly at its bound is called broken in at
most 5% of runs (in simulations, 5.2% in the worst case: few prompts with many samples of each).
With several decisions, the intervals are widened (Bonferroni) to keep this for all of them
together.

Samples without a verdict do not count in a figure. A run that has too many of them does not pass.
"""

from __future__ import annotations

import dataclasses
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import ceil, inf, isfinite, isinf
from typing import Literal, get_args

import numpy as np
from msgspec import Struct
from msgspec.structs import replace
from numpy.typing import NDArray

from harness.analysis.breakdown import (
    has_score,
    instances_by,
    is_verdict,
    values_by,
    values_of,
)
from harness.analysis.clustered import rate, share_interval
from harness.analysis.comparable import (
    Run,
    Variant,
    read_run,
    refuse_incomparable,
    refuse_unknown_label,
    scored_runs,
)
from harness.analysis.comparison import Method, compare, pair
from harness.analysis.failures import Unjudged, unjudged
from harness.analysis.metrics import PASS_RATE, Interval
from harness.analysis.p_values import ALPHA, needed_instances, needed_verdicts, t_quantile
from harness.analysis.ratios import weighted_means
from harness.analysis.run_differences import differing, refuse_unlike_verdicts
from harness.analysis.summary import only_numbers
from harness.config.run_file import of_k
from harness.config.sections import (
    COST,
    COST_PER_SAMPLE,
    LATENCY,
    CheckSection,
    above_1,
    beyond_a_rate,
)
from harness.errors import ConfigError, RunConflict, nearest
from harness.store.calls import NO_CALLS, CallTotals, read_calls, timed_calls
from harness.store.columns import AttemptTable, natural
from harness.store.index import AttemptIndex, read_attempts, read_names
from harness.store.judgements import read_register
from harness.store.run_folder import RunFolder, read_prices

Outcome = Literal["failed", "too few to tell", "passed"]  # worst first

GateMethod = Literal["clustered mean", "weighted clustered mean", "exact"]
CHANGE = "change of "  # begins the name of a figure that is compared with the baseline
MEAN: GateMethod = "clustered mean"
WEIGHTED: GateMethod = "weighted clustered mean"


class Decision(Struct, frozen=True, kw_only=True):
    """The decision on a score's mean or change, a cost or a latency."""

    what: str  # the name of the score or figure; "change of …" against a baseline
    group: str = ""  # the group of the label that was asked for; empty for the whole run
    value: float | None
    ci95: Interval | None = None  # 95%, over all decisions together
    method: Method | GateMethod = MEAN
    bound: float
    at_most: bool = False  # whether the bound is a maximum
    n: int  # instances; with a baseline, those that both runs have
    n_clusters: int = 0
    stderr: float | None = None  # clustered
    degrees: float | None = None  # of freedom of t; by default, clusters minus 1
    effective_n: float | None = None  # of a share, as in `Statistic`
    outcome: Outcome = "too few to tell"
    needed: int | None = None  # instances that decide in 80% of cases if the true value is this one
    not_judged: int = 0  # pairs that are excluded because an answer of either run has no verdict
    bounds: Interval | None = None  # of a change, given the unjudged samples (`Comparison.bounds`)

    @property
    def beyond(self) -> bool:
        """Whether the value itself, without its uncertainty, breaks the bound."""
        if self.value is None:
            return False
        return self.value > self.bound if self.at_most else self.value < self.bound

    @property
    def biased(self) -> bool:
        """Whether the change could be beyond the bound if all unjudged samples were judged."""
        return self.bounds is not None and self.bounds[0] < self.bound


@dataclass(frozen=True, slots=True)
class Gate:
    """All decisions on a run."""

    run: Variant
    baseline: Variant | None
    decisions: Sequence[Decision]
    unjudged: Sequence[Unjudged] = ()  # of the run and its baseline, if they have such samples
    too_few: Literal["pass", "fail"] | None = None  # what "too few to tell" counts as
    notes: Sequence[str] = ()  # how the run differs from its baseline
    n_calls: int = 0  # answered calls of the run's own model
    n_cached_calls: int = 0  # the part of them whose replies came from the cache
    n_crashed_calls: int = 0  # further calls, which crashed
    judges: Mapping[str, CallTotals] = dataclasses.field(default_factory=dict)

    @property
    def outcome(self) -> Outcome:
        """The worst of the outcomes. It is not ``passed`` if too many samples have no verdict."""
        found = {one.outcome for one in self.decisions}
        return worst(found if self.judged else {*found, "too few to tell"})

    @property
    def result(self) -> Outcome:
        """The outcome. If ``too_few`` is set, it decides what "too few to tell" becomes.

        The result is never "passed" if too many samples have no verdict, or if a figure without an
        interval, such as that of a single instance, breaks its bound.
        """
        if self.outcome != "too few to tell" or self.too_few is None:
            return self.outcome
        if self.too_few == "fail":
            return "failed"
        broken = any(one.ci95 is None and one.beyond for one in self.decisions)
        return "passed" if self.judged and not broken else self.outcome

    @property
    def judged(self) -> bool:
        """Whether enough samples have a verdict for the run to pass."""
        biased = any(one.biased for one in self.decisions)
        return all(one.allowed for one in self.unjudged) and not biased


def worst(outcomes: Collection[Outcome]) -> Outcome:
    """Return the worst of several outcomes, or "passed" if there are none."""
    return next((one for one in get_args(Outcome) if one in outcomes), "passed")


def check_runs(
    asked: Sequence[tuple[RunFolder, CheckSection]], find: Callable[[str], RunFolder]
) -> list[Gate]:
    """Return a gate for each run folder in ``asked``, with the decisions on its bounds.

    The intervals are widened for the decisions on all runs together. ``find`` returns the run that
    a baseline's name or path stands for.
    """
    measured = [_measure(folder, one, find) for folder, one in asked]
    n = sum(len(decisions) for _, decisions in measured)
    return [
        dataclasses.replace(gate, decisions=[*(one(n) for one in decisions), *gate.decisions])
        for gate, decisions in measured
    ]


ToDecide = Callable[[int], Decision]
"""A function that returns a decision, given the number of decisions."""


def _measure(
    folder: RunFolder, asked: CheckSection, find: Callable[[str], RunFolder]
) -> tuple[Gate, list[ToDecide]]:
    """Return a gate with the decisions on exact figures, and functions that make the others."""
    base = find(asked.baseline) if asked.baseline else None
    if base and base.path.resolve() == folder.path.resolve():
        base = None  # the run is the baseline itself, named among the runs
    before = read_run(base) if base else None
    run = read_run(folder)
    for variant, _ in filter(None, (run, before)):
        if not variant.metrics.complete:
            said = f"The run {variant.name!r} is not finished: {variant.metrics.progress} samples."
            raise RunConflict(said, "Run its run file again.")
    refuse_unknown_label("--by", asked.by, {run[0].name: run[1]})
    compared = [asked.score] if base and asked.max_drop is not None else []
    _refuse_without_verdicts(folder, run, [*asked.min, *asked.max, *compared])
    for kind, bounds in (("min", asked.min), ("max", asked.max)):
        for name, bound in bounds.items():
            if is_verdict(run[1], name) and not 0 <= bound <= 1:
                raise ConfigError(f"{beyond_a_rate(f'{kind}.{name}', bound)}.")
    scores, exact = list(asked.min), []
    figures = [one for name, low in asked.min.items() for one in _means(run, name, low, asked.by)]
    latencies: list[ToDecide] = []
    calls = read_calls(folder.attempts)
    for name, most in asked.max.items():
        if name in (COST, COST_PER_SAMPLE):
            exact.append(_cost(folder, run[0], calls, name, most))
        elif found := LATENCY.fullmatch(name):
            latencies.append(_latency(folder, run[1], int(found[1]), most))
        else:
            _refuse_unknown_figure(run, name)
            figures += (replace(one, at_most=True) for one in _means(run, name, most, asked.by))
            scores.append(name)
    notes: list[str] = []
    if base and before and asked.max_drop is not None:
        if asked.score == PASS_RATE or of_k(asked.score)[1]:
            refuse_unlike_verdicts(before[0], run[0])
        notes += differing(before[0], [run[0]], models=True)
        changes = list(_changes(before, run, asked.score, -asked.max_drop, asked.by))
        for one in changes:
            if one.value == 0 and one.method == "shared replies":
                exact.append(replace(one, method="exact", ci95=None, outcome="passed"))
            else:
                figures.append(one)
        scores.append(asked.score)
    lacking = [unjudged(folder, run, scores, asked.max_unjudged)]
    if base and before:
        lacking.append(unjudged(base, before, [asked.score], asked.max_unjudged))
    counted = [one for one in lacking if one.failed_calls or one.no_judgement or one.final]
    own = calls.model or calls
    gate = Gate(
        *(run[0], before[0] if before else None, exact, counted, asked.too_few, notes),
        n_calls=own.n,
        n_cached_calls=own.n_cached,
        n_crashed_calls=own.n_crashed,
        judges=calls.judges,
    )
    return gate, [*(partial(decided, one) for one in figures), *latencies]


def _refuse_without_verdicts(folder: RunFolder, run: Run, names: Collection[str]) -> None:
    variant, table = run
    rates = [one for one in names if (one == PASS_RATE or of_k(one)[1]) and one not in table.scores]
    decide = any(one.decides and one.verdicts for one in read_register(folder.path).judges.values())
    if rates and not decide and only_numbers(table):
        said = f"The run {variant.name!r} has no {rates[0].replace(PASS_RATE, 'pass rate')}."
        raise ConfigError(said, f"Its scores: {', '.join(table.scores)}.")


def _refuse_unknown_figure(run: Run, name: str) -> None:
    variant, table = run
    if not has_score(table, name) and not of_k(name)[1]:
        known = [PASS_RATE, *table.scores, COST, COST_PER_SAMPLE, "latency_p50", "latency_p95"]
        said = f"The run {variant.name!r} has no score or figure {name!r}."
        raise ConfigError(said, nearest(name, known))


def _cost(folder: RunFolder, run: Variant, calls: CallTotals, name: str, most: float) -> Decision:
    if calls.n_without_cost:
        unknown = f"{calls.n_without_cost:,} of {calls.n:,} calls"
        said = f"The cost of {unknown} of the run {run.name!r} is unknown."
        parts = {"model": (run.metrics.model, calls.model or calls)}
        if calls.user is not None:
            parts["user.model"] = "the played user", calls.user
        for judge, facts in run.metrics.judges.items():
            parts[f"judges.{judge}.model"] = facts.model, calls.judges.get(judge, NO_CALLS)
        lacking = {key: model for key, (model, own) in parts.items() if own.n_without_cost}
        keys = " and ".join(f"{key}.price ({model})" for key, model in lacking.items())
        remedy = f"Set {keys}, such as {{input: 0.15, output: 0.6}}, and run again: no call is"
        remedy += " repeated, and the cost of recorded calls is computed (harness docs prices)."
        if lacking.keys() <= read_prices(folder.path).keys():
            remedy = "Their replies report no tokens. Test another figure."
        raise ConfigError(said, remedy)
    value = calls.known_cost_usd / (1 if name == COST else max(run.metrics.n_samples, 1))
    return Decision(
        what=name,
        value=value,
        method="exact",
        bound=most,
        at_most=True,
        n=run.metrics.n_instances,
        outcome="passed" if value <= most else "failed",
    )


def _latency(folder: RunFolder, table: AttemptTable, percentile: int, most: float) -> ToDecide:
    """Return a function that decides on a percentile of the durations of a run's calls.

    The percentile q is at most the bound if and only if a share of at least q of the calls takes no
    longer than the bound. The decision is therefore made on this share. A call that timed out is
    not within any bound, because it would have taken longer.
    """
    timed = list(timed_calls(AttemptIndex(folder.attempts)))
    instance = table.instance[[call.row for call in timed]]
    seconds, q = np.array([call.seconds for call in timed]), percentile / 100
    timed_out = np.array([call.timed_out for call in timed], np.bool_)
    within = rate((seconds <= most) & ~timed_out, table.instances.cluster[instance])
    share = Decision(
        what="",
        value=within.mean,
        ci95=within.ci95,
        bound=q,
        n=len(set(instance)),
        n_clusters=within.n_clusters,
        stderr=within.stderr,
        effective_n=within.effective_n,
    )
    order = np.sort(np.where(timed_out, inf, seconds))

    def decide(decisions: int) -> Decision:
        one = decided(share, decisions)
        ci95 = percentile_interval(order, q, within.effective_n, decisions)
        value = None
        if timed:
            with np.errstate(invalid="ignore"):
                seconds_at = float(np.percentile(order, percentile))
            value = seconds_at if isfinite(seconds_at) else None  # None: above the time limit
        what = f"latency_p{percentile}"
        return replace(one, what=what, value=value, ci95=ci95, bound=most, at_most=True)

    return decide


def percentile_interval(
    ordered: NDArray[np.float64], q: float, effective_n: float | None, decisions: int = 1
) -> Interval | None:
    """Return the interval of a percentile, between two order statistics, or None if there are few.

    It consists of the bounds for which the share of values within them, by its exact interval, may
    be ``q``, so that it contains a bound if and only if the decision on the bound is open.

    Args:
        ordered: (n,) The values in ascending order, infinite where only a lower bound is known.
        q: The percentile as a share, from 0 to 1.
        effective_n: The number of independent values that are as informative (`Estimate`).
        decisions: The number of decisions made together, for which it is widened (Bonferroni).
    """
    if effective_n is None:
        return None
    n = len(ordered)

    def ends(within: int) -> Interval:
        return share_interval(within / n, effective_n, decisions)

    first = bisect_left(range(n + 1), True, key=lambda within: ends(within)[1] >= q)
    last = bisect_left(range(n + 1), True, key=lambda within: ends(within)[0] >= q)
    if first == 0 or last > n or isinf(ordered[last - 1]):
        return None
    return float(ordered[first - 1]), float(ordered[last - 1])


def _means(run: Run, score: str, least: float, by: str) -> Iterator[Decision]:
    [(_, table)], _, column = scored_runs([run], score, None)
    weight = run[0].display.weights.get(column, "")
    for labels in ((), (by,)) if by else ((),):
        instances = instances_by(table, column, *labels)
        values, method = values_by(table, column, *labels), MEAN
        if weight in table.scores:
            values, method = weighted_means(table, column, weight, *labels), WEIGHTED
        for key, one in values.items():
            yield Decision(
                what=score,
                group=key[0] if key else "",
                value=one.mean,
                ci95=one.ci95,
                method=method,
                bound=least,
                n=instances.get(key, 0),
                n_clusters=one.n_clusters,
                stderr=one.stderr,
                effective_n=one.effective_n,
            )


def _changes(baseline: Run, run: Run, score: str, least: float, by: str) -> Iterator[Decision]:
    refuse_incomparable(baseline[0], [run[0]])
    [(_, before), (_, after)], _, column = scored_runs([baseline, run], score, None)
    pairs = pair(before, after, score=column)
    pairs = pairs.sharing(baseline[0].replies().same_as(run[0].replies()))
    if not len(pairs):
        raise ConfigError("The runs have no instance in common.", "Name runs of the same data.")
    if pairs.verdicts and -least > 1:
        raise ConfigError(f"{above_1(-least)}.")
    parts = {"": pairs}
    if by:
        parts |= {group: pairs.take(rows) for group, rows in pairs.group(by).items()}
    for group, part in parts.items():
        one = compare(part)
        yield Decision(
            what=f"{CHANGE}{score}",
            group=group,
            value=one.difference,
            ci95=one.ci95,
            method=one.method,
            bound=least,
            n=one.n,
            n_clusters=one.n_clusters,
            stderr=one.stderr,
            degrees=one.degrees,
            not_judged=one.not_judged or 0,
            bounds=one.bounds if column == PASS_RATE else None,
        )


def failing(gate: Gate, one: Decision) -> list[str]:
    """Return the ids of instances with an answer beyond a decision's bound, in natural order.

    For a bound on a verdict's change, instances that also fail in the baseline are left out.
    """
    score = one.what.removeprefix(CHANGE)
    found = _beyond(gate.run, one, score)
    if gate.baseline is not None and score != one.what:
        found -= _beyond(gate.baseline, one, score)
    return sorted(found, key=natural)


def _beyond(run: Variant, one: Decision, score: str) -> set[str]:
    assert run.attempts is not None, "it has been read"
    table, score = read_attempts(run.attempts).last_rounds(), PASS_RATE if of_k(score)[1] else score
    known, values = values_of(table, score)
    if is_verdict(table, score):
        beyond = values == one.at_most
    else:
        beyond = (values > one.bound if one.at_most else values < one.bound) & (one.what == score)
    of, names = table.instances, read_names(run.attempts)
    rows = np.unique(table.instance[known][beyond])
    own = (row for row in rows if one.group in ("", *of.groupings[of.grouping[row]].values()))
    return {names[int(of.digest[row])] for row in own}


def decided(one: Decision, decisions: int) -> Decision:
    """Return a decision with its outcome, its widened interval and the instances ``needed``.

    The interval is widened (Bonferroni) for the number of ``decisions`` that are made together. A
    decision without a value or an interval is returned unchanged.
    """
    if one.value is None or one.ci95 is None:
        return one
    units = one.n_clusters or one.n
    degrees = one.degrees or max(units - 1.0, 1.0)
    t = t_quantile(degrees, 1 - ALPHA / 2)
    if one.effective_n is not None:
        low, high = share_interval(one.value, one.effective_n, decisions)
    else:
        wider = t_quantile(degrees, 1 - ALPHA / 2 / decisions) / t
        low, high = (one.value + (end - one.value) * wider for end in one.ci95)
    outcome: Outcome = "too few to tell"
    above, below = low >= one.bound, high < one.bound
    if one.at_most:
        above, below = low > one.bound, high <= one.bound
    if above or below:
        outcome = "passed" if above != one.at_most else "failed"
    if outcome == "passed" and one.biased:
        return replace(one, ci95=(low, high))
    distance, needed = abs(one.value - one.bound), None
    if outcome == "too few to tell" and distance:
        if one.effective_n is not None:
            verdicts = needed_verdicts(one.value, one.bound, decisions)
            each = one.effective_n / one.n
            if one.stderr:  # more instances also give the error more degrees of freedom
                each = max(each, one.value * (1 - one.value) / one.stderr**2 / one.n)
            needed = ceil(one.n + (verdicts - one.effective_n) / each)
        else:
            stderr = one.stderr or (one.ci95[1] - one.ci95[0]) / 2 / t
            error = stderr / distance
            needed = needed_instances(one.n, units, degrees, error, decisions)
            if one.method == "exact McNemar":
                # The continuity correction of Fleiss, Levin and Paik (2003, section 2.5).
                needed = ceil(needed + one.n / units / distance)
        needed = max(needed, one.n + 1)
    return replace(one, ci95=(low, high), outcome=outcome, needed=needed)
