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

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from harness.analysis.clustered import Estimate, clustered_mean, rate_interval
from harness.analysis.gold_scores import gold_scores
from harness.analysis.metrics import (
    CallFigures,
    Group,
    JudgeFacts,
    Mean,
    Metrics,
    Rate,
    Rounds,
)
from harness.analysis.model_family import common_family
from harness.analysis.pass_at_k import pass_at_k, pass_hat_k
from harness.records import OUTCOMES, Outcome
from harness.store.calls import NO_CALLS, CallTotals
from harness.store.columns import AttemptTable, Ints


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
    grouped: bool = True,
    judges: Mapping[str, str] | None = None,
    panels: Mapping[str, Sequence[str]] | None = None,
    golds: AttemptTable | None = None,
) -> Metrics:
    """All figures of a run.

    run, task, model: names, for the tables.
    simulated: the answers are made up, and every table must say so.
    complete, n_planned, n_owed, measure: see `Metrics`.
    grouped: also of each label's groups, of which there may be thousands.
    judges: of the run, each with the name of its model.
    panels: of the run, each with the names of its judges.
    golds: the gold answers that judges have scored; None where they have none.
    """
    last = attempts.last_rounds()
    drawn = _drawn(last)
    n_solved = len(np.unique(attempts.instance[attempts.passed == 1]))
    own = _call_figures(calls)
    cost_usd = own["cost_usd"]
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
            for label in (attempts.labels() if grouped else ())
        },
        **_pass_k(drawn),
        n_solved=n_solved,
        rounds=_rounds(attempts),
        **own,
        cost_per_solved_usd=cost_usd / n_solved if cost_usd is not None and n_solved else None,
        model_calls=None if calls.model is None else CallFigures(**_call_figures(calls.model)),
        judges=_judges(judges or {}, panels or {}, model or "", calls),
        golds={} if golds is None else gold_scores(attempts, golds),
    )


def _judges(
    judges: Mapping[str, str], panels: Mapping[str, Sequence[str]], model: str, calls: CallTotals
) -> dict[str, JudgeFacts]:
    families = {name: common_family(asked, model) for name, asked in judges.items()}
    found = {
        name: JudgeFacts(
            model=asked,
            family=families[name],
            **_call_figures(calls.judges.get(name, NO_CALLS)),
        )
        for name, asked in judges.items()
    }
    for name, members in panels.items():
        common = dict.fromkeys(family for one in members if (family := families.get(one)))
        found[name] = JudgeFacts(
            family=", ".join(common) or None, of=tuple(members), **_call_figures(NO_CALLS)
        )
    return found


def _call_figures(calls: CallTotals) -> dict[str, Any]:
    """The fields of `CallFigures`."""
    return {
        "n_calls": calls.n,
        "usage": calls.usage,
        "n_calls_without_usage": calls.n_without_usage,
        "cost_usd": None if calls.n_without_cost else calls.known_cost_usd,
        "known_cost_usd": calls.known_cost_usd,
        "paid_usd": calls.paid_usd,
        "n_calls_without_cost": calls.n_without_cost,
    }


def _outcomes(attempts: AttemptTable) -> dict[Outcome, int]:
    counts = np.bincount(attempts.outcome, minlength=len(OUTCOMES))
    return {outcome: int(count) for outcome, count in zip(OUTCOMES, counts, strict=True)}


def _group(attempts: AttemptTable, fractions: Collection[str]) -> Group:
    last = attempts.last_rounds()
    here = np.unique(attempts.instance)
    return Group(
        instances=f"{int(np.bitwise_xor.reduce(attempts.instances.digest[here])) & 2**64 - 1:016x}",
        **msgspec.structs.asdict(_rate(last)),
        scores=_scores(last, fractions),
        **_pass_k(_drawn(last)),
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
        ci95=rate_interval(estimate, n_passed),
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


class _Drawn(NamedTuple):
    """(m,) of the instances with a judged sample: how many, how many of them passed, cluster."""

    n: Ints
    passed: Ints
    cluster: Ints


def _drawn(samples: AttemptTable) -> _Drawn:
    judged = samples.take(samples.judged)
    n = np.bincount(judged.instance).astype(np.int32)
    instances = n.nonzero()[0].astype(np.int32)
    passed = np.bincount(judged.instance, weights=judged.passed)[instances].astype(np.int32)
    return _Drawn(n[instances], passed, judged.instances.cluster[instances])


def _pass_k(drawn: _Drawn) -> dict[str, Any]:
    """pass@k and pass^k, their standard errors, and the number of instances they speak of."""
    most = int(drawn.n.min()) if len(drawn.n) else 0

    def means(of: Callable[..., Iterator[NDArray[np.float64]]]) -> dict[int, Estimate]:
        columns = of(drawn.n, drawn.passed, most)
        return {k: clustered_mean(one, drawn.cluster) for k, one in enumerate(columns, start=1)}

    at_k, hat_k = means(pass_at_k), means(pass_hat_k)
    return {
        "pass_at_k": _means(at_k),
        "pass_at_k_stderr": _stderrs(at_k),
        "pass_at_k_ci95": _intervals(at_k),
        "pass_at_k_instances": len(drawn.n),
        "pass_hat_k": _means(hat_k),
        "pass_hat_k_stderr": _stderrs(hat_k),
        "pass_hat_k_ci95": _intervals(hat_k),
    }


def _rounds(attempts: AttemptTable) -> Rounds:
    judged = attempts.take(attempts.judged)
    rounds = [int(number) for number in np.unique(judged.round)]
    each = {number: _mean(judged.take(judged.round == number)) for number in rounds}
    any_of_first = _any_of_first(judged, rounds)
    fixed, broken = _transitions(judged, rounds)
    return Rounds(
        each=_means(each),
        each_stderr=_stderrs(each),
        n={number: estimate.n for number, estimate in each.items()},
        any_of_first_k=_means(any_of_first),
        any_of_first_k_stderr=_stderrs(any_of_first),
        any_of_first_k_n={number: estimate.n for number, estimate in any_of_first.items()},
        fixed=fixed,
        broken=broken,
    )


def _transitions(judged: AttemptTable, rounds: list[int]) -> tuple[dict[int, int], dict[int, int]]:
    """For each round but the first, the samples that it fixed, and that it broke."""
    follows = ~judged.sample_starts()[1:] & (np.diff(judged.round) == 1)
    change = np.where(follows, np.diff(judged.passed), 0)
    into = judged.round[1:]
    fixed, broken = (
        {number: int(((change == way) & (into == number)).sum()) for number in rounds[1:]}
        for way in (1, -1)
    )
    return fixed, broken


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


def _intervals(estimates: dict[int, Estimate]) -> dict[int, tuple[float, float] | None]:
    return {key: estimate.ci95 for key, estimate in estimates.items()}
