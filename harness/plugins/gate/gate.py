"""A gate decides whether runs meet their bounds, given the uncertainty of their figures.

A minimum is met if the whole interval of the figure is at or above it, and broken if the whole
interval is below it. For a maximum, the reverse holds. Otherwise there are too few instances to
tell. With 95% intervals, a figure whose true value is exactly at its bound is called broken in at
about 2.5% of runs (in simulations, 3.1% at most, with a standard error of 0.35%). With several
decisions, the intervals are widened (Bonferroni) to keep 5% for all of them together.

Samples without a verdict do not count in a figure. A run that has too many of them does not pass.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import inf, isfinite
from typing import Literal

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from harness.analysis.breakdown import Groups, Key, is_verdict, mean_by_group, score_values
from harness.analysis.clustered import clustered_rate
from harness.analysis.metrics import PASS_RATE
from harness.analysis.summary import default_measure
from harness.config.sections import split_k
from harness.errors import ConfigError, RunConflict, suggest_name
from harness.plugin_loader import PYTHON_SUFFIX
from harness.plugins.comparisons.comparable import (
    Run,
    Variant,
    has_score,
    read_run,
    refuse_incomparable,
    refuse_unknown_label,
    scored_runs,
)
from harness.plugins.comparisons.comparison import compare, pair
from harness.plugins.comparisons.costs import timed_calls
from harness.plugins.comparisons.run_differences import differing, refuse_unlike_verdicts
from harness.plugins.gate.decision import (
    CHANGE,
    MEAN,
    WEIGHTED,
    Decision,
    Outcome,
    decided,
    percentile_interval,
    worst,
)
from harness.plugins.gate.section import (
    COST,
    COST_PER_SAMPLE,
    COUNTS,
    LATENCY,
    WORSE,
    CheckSection,
    above_1,
    beyond_a_rate,
)
from harness.plugins.gate.unjudged import Unjudged, unjudged
from harness.records import OUTCOMES, CallTotals, Time
from harness.report.text import format_time
from harness.store.calls import NO_CALLS, RunCalls, read_calls
from harness.store.columns import AttemptTable, natural_sort_key
from harness.store.index import AttemptIndex, read_attempts, read_names
from harness.store.judgements import read_register
from harness.store.run_folder import RunFolder, read_prices


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
    score: str = PASS_RATE  # by which the run and its baseline are compared

    @property
    def outcome(self) -> Outcome:
        """The worst of the outcomes. It is not ``passed`` if too many samples have no verdict."""
        outcomes = {decision.outcome for decision in self.decisions}
        if not self.judged:
            outcomes.add("too few to tell")
        return worst(outcomes)

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
        exact = [decision for decision in self.decisions if decision.ci95 is None]
        if not self.judged or any(decision.value_breaks_bound for decision in exact):
            return self.outcome
        return "passed"

    @property
    def judged(self) -> bool:
        """Whether enough samples have a verdict for the run to pass."""
        biased = any(decision.biased for decision in self.decisions)
        return all(unjudged.allowed for unjudged in self.unjudged) and not biased


def check_runs(
    checks: Sequence[tuple[RunFolder, CheckSection]], find: Callable[[str], RunFolder]
) -> list[Gate]:
    """Return a gate for each run folder and its bounds.

    The intervals are widened for the decisions on all runs together. ``find`` returns the run that
    a baseline's name or path stands for.
    """
    measured = [_measure(folder, check, find) for folder, check in checks]
    n = sum(len(undecided) for _, undecided in measured)
    gates = []
    for gate, undecided in measured:
        decisions = [decide(n) for decide in undecided]
        gates.append(dataclasses.replace(gate, decisions=[*decisions, *gate.decisions]))
    return gates


ToDecide = Callable[[int], Decision]
"""A function that returns a decision, given the number of decisions."""


def _measure(
    folder: RunFolder, check: CheckSection, find: Callable[[str], RunFolder]
) -> tuple[Gate, list[ToDecide]]:
    """Return a gate with the decisions on exact figures, and functions that make the others."""
    run = _read_finished(folder)
    variant, table = run
    baseline_folder = find(check.baseline) if check.baseline else folder
    baseline = None
    if baseline_folder.path.resolve() != folder.path.resolve():
        baseline = _read_finished(baseline_folder)
    refuse_unknown_label("--by", check.by, {variant.name: table})
    bounded = [*check.min, *check.max]
    if baseline is not None:
        bounded.append(check.score)
    _refuse_without_verdicts(folder, run, bounded)
    for kind, bounds in (("min", check.min), ("max", check.max)):
        for name, bound in bounds.items():
            if is_verdict(table, name) and not 0 <= bound <= 1:
                raise ConfigError(f"{beyond_a_rate(f'{kind}.{name}', bound)}.")
    scores = list(check.min)
    uncertain: list[Decision] = []
    for name, low in check.min.items():
        uncertain += _means(run, name, low, check.by)
    exact: list[Decision] = []
    latencies: list[ToDecide] = []
    calls = read_calls(folder.attempts)
    for name, high in check.max.items():
        if name in (COST, COST_PER_SAMPLE):
            exact.append(_cost(folder, variant, calls, name, high))
        elif match := LATENCY.fullmatch(name):
            latencies.append(_latency(folder, table, int(match[1]), high))
        elif name in COUNTS and not has_score(table, name):
            if name == WORSE and not is_verdict(table, check.score):
                problem = f"worse counts verdicts, but the score {check.score!r:.60} is a number."
                raise ConfigError(problem, "Set max_drop for it, or score to a verdict.")
            n = len(_counted_ids(name, variant, baseline and baseline[0], check.score))
            exact.append(_count(variant, name, n, high))
        else:
            _refuse_unknown_figure(run, name)
            means = _means(run, name, high, check.by)
            uncertain += (replace(decision, at_most=True) for decision in means)
            scores.append(name)
    notes: list[str] = []
    if (answered_at := application_answered_at(folder)) is not None:
        notes.append(application_note(variant.name, answered_at))
    if baseline is not None:
        refuse_incomparable(baseline[0], [variant])
        if check.score == PASS_RATE or split_k(check.score)[1]:
            refuse_unlike_verdicts(baseline[0], variant)
        notes += differing(baseline[0], [variant], models=True)
        scores.append(check.score)
    if baseline is not None and check.max_drop is not None:
        for decision in _changes(baseline, run, check.score, -check.max_drop, check.by):
            if decision.value == 0 and decision.method == "shared replies":
                exact.append(replace(decision, method="exact", ci95=None, outcome="passed"))
            else:
                uncertain.append(decision)
    without_score = [unjudged(folder, run, scores, check.max_unjudged)]
    baseline_variant = None
    if baseline is not None:
        baseline_variant = baseline[0]
        without_score.append(unjudged(baseline_folder, baseline, [check.score], check.max_unjudged))
    model_calls = calls.model or calls
    gate = Gate(
        variant,
        baseline_variant,
        exact,
        [counts for counts in without_score if counts.n],
        check.too_few,
        notes,
        n_calls=model_calls.n_calls,
        n_cached_calls=model_calls.n_cached_calls,
        n_crashed_calls=model_calls.n_crashed_calls,
        judges=calls.judges,
        score=check.score,
    )
    return gate, [*(partial(decided, decision) for decision in uncertain), *latencies]


class _Answered(Struct, gc=False):
    ended_at: Time


def application_answered_at(folder: RunFolder) -> float | None:
    """Return when the user's own application gave its last answer in a run, in epoch seconds.

    For the model of a provider, and without answers, return None.
    """
    section = folder.read_config().model
    if section.on_error is None and not section.backend.endswith(PYTHON_SUFFIX):
        return None
    index = AttemptIndex(folder.attempts, judges=False)
    attempts = index.read(_Answered, np.arange(len(index)), judged=False)
    return max((attempt.ended_at for attempt in attempts), default=None)


def application_note(run: str, answered_at: float) -> str:
    """Return a sentence on when the application of a run gave its last answer."""
    return (
        f"The last answer of your application in {run} is from {format_time(answered_at)}. Later "
        "changes of it, or of files that it reads, are not covered: 'harness run' with --fresh "
        "asks it again."
    )


def _read_finished(folder: RunFolder) -> Run:
    run = read_run(folder)
    variant, _ = run
    if not variant.metrics.complete:
        progress = variant.metrics.progress
        problem = f"The run {variant.name!r} is not finished: {progress} samples."
        raise RunConflict(problem, "Run its run file again.")
    return run


def _refuse_without_verdicts(folder: RunFolder, run: Run, names: Collection[str]) -> None:
    variant, table = run
    rates = []
    for name in names:
        if (name == PASS_RATE or split_k(name)[1]) and name not in table.scores:
            rates.append(name)
    judges = read_register(folder.path).judges.values()
    judged = any(judge.decides and judge.verdicts for judge in judges)
    if rates and not judged and default_measure(table):
        rate_name = rates[0].replace(PASS_RATE, "pass rate")
        problem = f"The run {variant.name!r} has no {rate_name}."
        raise ConfigError(problem, f"Its scores: {', '.join(table.scores)}.")


def _refuse_unknown_figure(run: Run, name: str) -> None:
    variant, table = run
    if not has_score(table, name) and not split_k(name)[1]:
        latencies = ["latency_p50", "latency_p95"]
        figures = [PASS_RATE, *table.scores, COST, COST_PER_SAMPLE, *latencies, *COUNTS]
        problem = f"The run {variant.name!r} has no score or figure {name!r}."
        raise ConfigError(problem, suggest_name(name, figures))


def _cost(folder: RunFolder, run: Variant, calls: RunCalls, name: str, high: float) -> Decision:
    if calls.n_calls_without_cost:
        unpriced = _unpriced_models(run, calls)
        prices = " and ".join(f"{key}.price ({model})" for key, model in unpriced.items())
        remedy = (
            f"Set {prices}, such as {{input: 0.15, output: 0.6}}, and run again: no call is "
            "repeated, and the cost of recorded calls is computed (harness docs prices)."
        )
        if unpriced.keys() <= read_prices(folder.path).keys():
            remedy = "Their replies report no tokens. Test another figure."
        n_unknown = f"{calls.n_calls_without_cost:,} of {calls.n_calls:,} calls"
        raise ConfigError(f"The cost of {n_unknown} of the run {run.name!r} is unknown.", remedy)
    value = calls.known_cost_usd
    if name == COST_PER_SAMPLE:
        value /= max(run.metrics.n_samples, 1)
    outcome: Outcome = "passed" if value <= high else "failed"
    return Decision(
        what=name,
        value=value,
        method="exact",
        bound=high,
        at_most=True,
        n=run.metrics.n_instances,
        outcome=outcome,
    )


def _count(run: Variant, name: str, count: int, high: float) -> Decision:
    return Decision(
        what=name,
        value=float(count),
        method="exact",
        bound=high,
        at_most=True,
        n=run.metrics.n_instances,
        outcome="passed" if count <= high else "failed",
    )


def _counted_ids(name: str, run: Variant, baseline: Variant | None, score: str) -> set[str]:
    """Return the ids of the instances that a figure of `COUNTS` counts.

    Args:
        name: The figure's name.
        run: The run.
        baseline: Its baseline, or None if the run is the baseline.
        score: The verdict that the figure "worse" compares: all of an instance's answers pass in
            the baseline, and one fails in the run.
    """
    if name == WORSE:
        if baseline is None:
            return set()
        fails = Decision(what=score, value=None, bound=1.0, n=0)
        passes = replace(fails, at_most=True)
        passed_before = _beyond(baseline, passes, score) - _beyond(baseline, fails, score)
        return _beyond(run, fails, score) & passed_before
    assert run.attempts is not None, "it has been read"
    table = read_attempts(run.attempts).last_rounds()
    names = read_names(run.attempts)
    rows = np.unique(table.instance[table.outcome == OUTCOMES.index(name)])
    return {names[int(table.instances.digest[row])] for row in rows}


def _unpriced_models(run: Variant, calls: RunCalls) -> dict[str, str | None]:
    """Return the names of the models that made calls of unknown cost, by their key."""
    parts: dict[str, tuple[str | None, CallTotals]] = {
        "model": (run.metrics.model, calls.model or calls)
    }
    if calls.user is not None:
        parts["user.model"] = "the played user", calls.user
    for name, facts in run.metrics.judges.items():
        parts[f"judges.{name}.model"] = facts.model, calls.judges.get(name, NO_CALLS)
    return {key: model for key, (model, figures) in parts.items() if figures.n_calls_without_cost}


def _latency(folder: RunFolder, table: AttemptTable, percentile: int, high: float) -> ToDecide:
    """Return a function that decides on a percentile of the durations of a run's calls.

    The percentile q is at most the bound if and only if a share of at least q of the calls takes no
    longer than the bound. The decision is therefore made on this share. A call that timed out is
    not within any bound, because it would have taken longer.
    """
    calls = list(timed_calls(AttemptIndex(folder.attempts)))
    instance = table.instance[[call.row for call in calls]]
    seconds = np.array([call.seconds for call in calls])
    timed_out = np.array([call.timed_out for call in calls], np.bool_)
    within = clustered_rate((seconds <= high) & ~timed_out, table.instances.cluster[instance])
    share = Decision(
        what="",
        value=within.mean,
        ci95=within.ci95,
        bound=percentile / 100,
        n=len(set(instance)),
        n_clusters=within.n_clusters,
        stderr=within.stderr,
        effective_n=within.effective_n,
    )
    ordered = np.sort(np.where(timed_out, inf, seconds))
    value = None
    if calls:
        with np.errstate(invalid="ignore"):
            value = float(np.percentile(ordered, percentile))
        if not isfinite(value):
            value = None  # above the time limit

    def decide(decisions: int) -> Decision:
        return replace(
            decided(share, decisions),
            what=f"latency_p{percentile}",
            value=value,
            ci95=percentile_interval(ordered, share.bound, within.effective_n, decisions),
            bound=high,
            at_most=True,
        )

    return decide


def _means(run: Run, score: str, bound: float, by: str) -> Iterator[Decision]:
    [(_, table)], _, column = scored_runs([run], score, None)
    weight = run[0].weight(column)
    groupings: list[tuple[str, ...]] = [()]
    if by:
        groupings.append((by,))
    for labels in groupings:
        instances = instances_by(table, column, *labels)
        values = mean_by_group(table, column, *labels, weight=weight)
        method = WEIGHTED if weight in table.scores else MEAN
        for key, mean in values.items():
            yield Decision(
                what=score,
                group=key[0] if key else "",
                value=mean.mean,
                ci95=mean.ci95,
                method=method,
                bound=bound,
                n=instances.get(key, 0),
                n_clusters=mean.n_clusters,
                stderr=mean.stderr,
                effective_n=mean.effective_n,
            )


def instances_by(samples: AttemptTable, score: str, *labels: str) -> dict[Key, int]:
    """Count instances with a value of a score, by group (without labels: the group ``()``)."""
    groups = Groups.from_labels(samples.instances, *labels)
    has_value, _ = score_values(samples, score)
    group = groups.group_of_instance[np.unique(samples.instance[has_value])]
    counts = np.bincount(group[group >= 0], minlength=len(groups.names)).tolist()
    return dict(zip(groups.names, counts, strict=True))


def _changes(baseline: Run, run: Run, score: str, bound: float, by: str) -> Iterator[Decision]:
    [(_, before), (_, after)], _, column = scored_runs([baseline, run], score, None)
    pairs = pair(before, after, score=column, weight=baseline[0].weight(column))
    pairs = pairs.sharing(baseline[0].replies().same_as(run[0].replies()))
    if not len(pairs):
        raise ConfigError("The runs have no instance in common.", "Name runs of the same data.")
    if pairs.verdicts and -bound > 1:
        raise ConfigError(f"{above_1(-bound)}.")
    parts = {"": pairs}
    if by:
        parts |= {group: pairs.take(rows) for group, rows in pairs.group(by).items()}
    for group, part in parts.items():
        change = compare(part)
        yield Decision(
            what=f"{CHANGE}{score}",
            group=group,
            value=change.difference,
            ci95=change.ci95,
            method=change.method,
            bound=bound,
            n=change.n,
            n_clusters=change.n_clusters,
            stderr=change.stderr,
            degrees=change.degrees,
            not_judged=change.not_judged or 0,
            bounds=change.bounds if column == PASS_RATE else None,
        )


def failing(gate: Gate, decision: Decision) -> list[str]:
    """Return the ids of instances with an answer beyond a decision's bound, in natural order.

    For a bound on a verdict's change, instances that also fail in the baseline are left out.
    """
    score = decision.what.removeprefix(CHANGE)
    if decision.method == "exact" and score in COUNTS:
        ids = _counted_ids(score, gate.run, gate.baseline, gate.score)
        return sorted(ids, key=natural_sort_key)
    ids = _beyond(gate.run, decision, score)
    if gate.baseline is not None and score != decision.what:
        ids -= _beyond(gate.baseline, decision, score)
    return sorted(ids, key=natural_sort_key)


def _beyond(run: Variant, decision: Decision, score: str) -> set[str]:
    assert run.attempts is not None, "it has been read"
    table = read_attempts(run.attempts).last_rounds()
    if split_k(score)[1]:
        score = PASS_RATE
    has_value, values = score_values(table, score)
    if is_verdict(table, score):
        beyond = values == decision.at_most
    elif decision.what != score:
        return set()
    else:
        beyond = values > decision.bound if decision.at_most else values < decision.bound
    instances = table.instances
    names = read_names(run.attempts)
    ids = set()
    for row in np.unique(table.instance[has_value][beyond]):
        groups = instances.groupings[instances.grouping[row]]
        if decision.group in ("", *groups.values()):
            ids.add(names[int(instances.digest[row])])
    return ids
