"""From a run's attempts to its `Metrics`.

Owns what is counted: which attempts, samples, instances and calls each figure
is made of (`harness.analysis.metrics` says it in words). Every figure of a
group is the same function applied to the group's rows.

>>> from pathlib import Path
>>> from harness.store.reader import read_columns
>>> attempts, calls = read_columns(Path("runs/none/attempts.jsonl"))
>>> summarise(attempts, calls, run="none", task="collie").overall.n
0
"""

from __future__ import annotations

from collections.abc import Collection

import msgspec
import numpy as np

from harness.analysis.clustered import Estimate, clustered_mean
from harness.analysis.metrics import Group, Mean, Metrics, Rate, Rounds
from harness.analysis.pass_at_k import pass_at_k
from harness.records import OUTCOMES, Outcome
from harness.store.columns import AttemptTable, CallTotals


def summarise(
    attempts: AttemptTable,
    calls: CallTotals,
    *,
    run: str,
    task: str,
    model: str | None = None,
    simulated: bool = False,
    complete: bool = True,
    n_planned: int | None = None,
    n_owed: int | None = None,
    measure: str | None = None,
) -> Metrics:
    """All figures of a run.

    run, task, model: names, for the tables.
    simulated: the answers are made up, and every table must say so.
    complete, n_planned, n_owed, measure: see `Metrics`.
    """
    last = attempts.last_rounds()
    at_k, at_k_stderr, at_k_instances = _pass_at_k(last)
    # Of the run, and not of a group: the intervals of a table shall be of one kind.
    fractions = {name for name in last.scores if _are_fractions(last, name)}
    return Metrics(
        run=run,
        task=task,
        model=model,
        simulated=simulated,
        complete=complete,
        n_planned=n_planned,
        n_owed=n_owed,
        n_instances=len(np.unique(attempts.instance)),
        n_samples=len(last),
        n_attempts=len(attempts),
        n_clusters=len(np.unique(attempts.cluster)),
        outcomes=_outcomes(attempts),
        overall=_rate(last),
        measure=measure,
        scores=_scores(last, fractions),
        groups={
            label: {group: _group(rows, fractions) for group, rows in attempts.by(label)}
            for label in attempts.labels()
        },
        pass_at_k=at_k,
        pass_at_k_stderr=at_k_stderr,
        pass_at_k_instances=at_k_instances,
        rounds=_rounds(attempts),
        n_calls=calls.n,
        usage=calls.usage,
        n_calls_without_usage=calls.n_without_usage,
        cost_usd=None if calls.n_without_cost else calls.known_cost_usd,
        known_cost_usd=calls.known_cost_usd,
        paid_usd=calls.paid_usd,
        n_calls_without_cost=calls.n_without_cost,
    )


def _outcomes(attempts: AttemptTable) -> dict[Outcome, int]:
    counts = np.bincount(attempts.outcome, minlength=len(OUTCOMES))
    return {outcome: int(count) for outcome, count in zip(OUTCOMES, counts, strict=True)}


def _group(attempts: AttemptTable, fractions: Collection[str]) -> Group:
    last = attempts.last_rounds()
    at_k, at_k_stderr, at_k_instances = _pass_at_k(last)
    here = np.unique(attempts.instance)
    return Group(
        instances=f"{int(np.bitwise_xor.reduce(attempts.instances.digest[here])) & 2**64 - 1:016x}",
        **msgspec.structs.asdict(_rate(last)),
        scores=_scores(last, fractions),
        pass_at_k=at_k,
        pass_at_k_stderr=at_k_stderr,
        pass_at_k_instances=at_k_instances,
        rounds=_rounds(attempts),
    )


def _rate(samples: AttemptTable) -> Rate:
    """The pass rate of samples, one row for each."""
    judged = samples.take(samples.judged)
    estimate = _mean(judged)
    n_passed = int(judged.passed.sum())
    return Rate(
        pass_rate=estimate.mean,
        stderr=estimate.stderr,
        ci95=estimate.ci95,
        n=estimate.n,
        n_clusters=estimate.n_clusters,
        naive_stderr=estimate.naive_stderr,
        not_judged=len(samples) - len(judged),
        pass_rate_errors_as_failures=n_passed / len(samples) if len(samples) else None,
    )


def _are_fractions(samples: AttemptTable, name: str) -> bool:
    values = samples.scores[name][samples.measured(name)]
    return bool(np.all((values >= 0) & (values <= 1)))


def _scores(samples: AttemptTable, fractions: Collection[str]) -> dict[str, Mean]:
    """The means of the scores that any of the samples has.

    fractions: names of those whose values are between 0 and 1.
    """
    means = {}
    for name in samples.scores:
        measured = samples.measured(name)
        values = samples.scores[name][measured]
        estimate = clustered_mean(values, samples.cluster[measured])
        if estimate.mean is not None:
            means[name] = Mean(
                mean=estimate.mean,
                stderr=estimate.stderr,
                ci95=estimate.ci95 if name in fractions else estimate.ci95_unbounded,
                n=estimate.n,
                n_clusters=estimate.n_clusters,
                not_measured=len(samples) - estimate.n,
            )
    return means


def _mean(judged: AttemptTable) -> Estimate:
    return clustered_mean(judged.passed, judged.cluster)


def _pass_at_k(samples: AttemptTable) -> tuple[dict[int, float], dict[int, float | None], int]:
    """pass@k, its standard errors, and the number of instances they speak of."""
    judged = samples.take(samples.judged)
    if not len(judged):
        return {}, {}, 0
    drawn = np.bincount(judged.instance).astype(np.int32)
    instances = drawn.nonzero()[0].astype(np.int32)
    passed = np.bincount(judged.instance, weights=judged.passed)[instances].astype(np.int32)
    drawn, clusters = drawn[instances], judged.instances.cluster[instances]
    columns = pass_at_k(drawn, passed, int(drawn.min()))
    estimates = {k: clustered_mean(values, clusters) for k, values in enumerate(columns, start=1)}
    return _means(estimates), _stderrs(estimates), len(instances)


def _rounds(attempts: AttemptTable) -> Rounds:
    judged = attempts.take(attempts.judged)
    rounds = [int(number) for number in np.unique(judged.round)]
    each = {number: _mean(judged.take(judged.round == number)) for number in rounds}
    any_of_first = _any_of_first(judged, rounds)
    return Rounds(
        each=_means(each),
        each_stderr=_stderrs(each),
        n={number: estimate.n for number, estimate in each.items()},
        any_of_first_k=_means(any_of_first),
        any_of_first_k_stderr=_stderrs(any_of_first),
        any_of_first_k_n={number: estimate.n for number, estimate in any_of_first.items()},
    )


def _any_of_first(judged: AttemptTable, rounds: list[int]) -> dict[int, Estimate]:
    """For each round k, the rate of samples that passed in a round up to k."""
    starts = judged.sample_starts()
    sample = np.cumsum(starts, dtype=np.int32) - np.int32(1)
    never = np.int32(np.iinfo(np.int32).max)
    first_judged = judged.round[starts]
    first_pass = np.full(len(first_judged), never)
    np.minimum.at(first_pass, sample, np.where(judged.passed == 1, judged.round, never))
    cluster = judged.cluster[starts]
    estimates = {}
    for k in rounds:
        known = first_judged <= k
        estimates[k] = clustered_mean(first_pass[known] <= k, cluster[known])
    return estimates


def _means(estimates: dict[int, Estimate]) -> dict[int, float]:
    return {key: estimate.mean for key, estimate in estimates.items() if estimate.mean is not None}


def _stderrs(estimates: dict[int, Estimate]) -> dict[int, float | None]:
    return {key: estimate.stderr for key, estimate in estimates.items()}
