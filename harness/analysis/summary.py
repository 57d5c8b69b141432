"""Computes a run's `Metrics` from its attempts.

What each figure means is documented in `harness.analysis.metrics`. The figures of a group are
computed by the same functions as those of the run, from the group's rows.

>>> from pathlib import Path
>>> from harness.store.calls import read_columns
>>> attempts, calls = read_columns(Path("runs/none/attempts.jsonl"))
>>> summarise(attempts, calls, RunFacts(run="none", task="collie")).overall.n
0
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from msgspec import Struct
from msgspec.structs import asdict
from numpy.typing import NDArray

from harness.analysis.clustered import Estimate, clustered_mean
from harness.analysis.comparison import compare, pair
from harness.analysis.metrics import (
    CallFigures,
    Group,
    JudgeFacts,
    Mean,
    Metrics,
    Rate,
    ReferenceScore,
    Rounds,
)
from harness.analysis.pass_at_k import pass_at_k, pass_hat_k
from harness.analysis.self_preference import common_family
from harness.records import OUTCOMES
from harness.store.calls import NO_CALLS, CallTotals
from harness.store.columns import AttemptTable


class RunFacts(Struct, frozen=True, kw_only=True):
    """What metrics say about a run besides its attempts and calls; see `Metrics`.

    Attributes:
        judges: Each judge of the run with the name of its model.
        panels: Each panel of the run with the names of its judges.
    """

    run: str
    task: str
    model: str | None = None
    simulated: bool = False
    complete: bool = True
    n_planned: int | None = None
    n_owed: int | None = None
    measure: str | None = None
    judges: Mapping[str, str] = {}
    panels: Mapping[str, Sequence[str]] = {}


def summarise(
    attempts: AttemptTable,
    calls: CallTotals,
    facts: RunFacts,
    *,
    grouped: bool = True,
    references: AttemptTable | None = None,
) -> Metrics:
    """Compute all figures of a run.

    Args:
        attempts: The run's attempts.
        calls: Its calls.
        facts: Names and settings of the run.
        grouped: Also compute the figures of each label's groups, of which there may be
            thousands.
        references: Reference answers that judges have scored; None if there are none.
    """
    last = attempts.last_rounds()
    n_solved = len(np.unique(attempts.instance[attempts.passed == 1]))
    own = _call_figures(calls)
    cost_usd = own["cost_usd"]
    # By the run, not by the group: the intervals in a table should be of one kind.
    fractions = {name for name in last.scores if are_fractions(last, name)}
    outcomes = np.bincount(attempts.outcome, minlength=len(OUTCOMES)).tolist()
    return Metrics(
        run=facts.run,
        task=facts.task,
        model=facts.model,
        simulated=facts.simulated,
        complete=facts.complete,
        n_planned=facts.n_planned,
        n_owed=facts.n_owed,
        n_instances=len(np.unique(attempts.instance)),
        n_samples=len(last),
        n_attempts=len(attempts),
        n_clusters=len(np.unique(attempts.cluster)),
        outcomes=dict(zip(OUTCOMES, outcomes, strict=True)),
        overall=_rate(last),
        measure=facts.measure,
        scores=_scores(last, fractions),
        groups={
            label: {group: _group(rows, fractions) for group, rows in attempts.by(label)}
            for label in (attempts.labels() if grouped else ())
        },
        **_pass_k(last),
        n_solved=n_solved,
        rounds=_rounds(attempts),
        **own,
        cost_per_solved_usd=cost_usd / n_solved if cost_usd is not None and n_solved else None,
        model_calls=None if calls.model is None else CallFigures(**_call_figures(calls.model)),
        judges=_judges(facts, calls),
        references={} if references is None else reference_scores(attempts, references),
    )


def _judges(facts: RunFacts, calls: CallTotals) -> dict[str, JudgeFacts]:
    families = {
        name: common_family(asked, facts.model or "") for name, asked in facts.judges.items()
    }
    found = {
        name: JudgeFacts(
            model=asked,
            family=families[name],
            **_call_figures(calls.judges.get(name, NO_CALLS)),
        )
        for name, asked in facts.judges.items()
    }
    for name, members in facts.panels.items():
        common = dict.fromkeys(family for one in members if (family := families.get(one)))
        found[name] = JudgeFacts(
            family=", ".join(common) or None, of=tuple(members), **_call_figures(NO_CALLS)
        )
    return found


def _call_figures(calls: CallTotals) -> dict[str, Any]:
    """Compute the fields of `CallFigures`."""
    return {
        "n_calls": calls.n,
        "usage": calls.usage,
        "n_calls_without_usage": calls.n_without_usage,
        "cost_usd": None if calls.n_without_cost else calls.known_cost_usd,
        "known_cost_usd": calls.known_cost_usd,
        "paid_usd": calls.paid_usd,
        "n_calls_without_cost": calls.n_without_cost,
    }


def _group(attempts: AttemptTable, fractions: Collection[str]) -> Group:
    last = attempts.last_rounds()
    digests = attempts.instances.digest[np.unique(attempts.instance)]
    return Group(
        instances=f"{int(np.bitwise_xor.reduce(digests)) & 2**64 - 1:016x}",
        **asdict(_rate(last)),
        scores=_scores(last, fractions),
        **_pass_k(last),
        rounds=_rounds(attempts),
    )


def _rate(samples: AttemptTable) -> Rate:
    """Return the pass rate of samples, given one row for each."""
    judged = samples.take(samples.judged)
    estimate = _mean(judged)
    return Rate(
        pass_rate=estimate.mean,
        stderr=estimate.stderr,
        ci95=estimate.rate_ci95,
        n=estimate.n,
        n_clusters=estimate.n_clusters,
        naive_stderr=estimate.naive_stderr,
        not_judged=len(samples) - estimate.n,
        pass_rate_errors_as_failures=(
            int(judged.passed.sum()) / len(samples) if len(samples) else None
        ),
    )


def are_fractions(samples: AttemptTable, score: str) -> bool:
    """Return whether all values of a score are between 0 and 1."""
    values = samples.scores[score][samples.measured(score)]
    return bool(np.all((values >= 0) & (values <= 1)))


def _scores(samples: AttemptTable, fractions: Collection[str]) -> dict[str, Mean]:
    """Return the means of the scores that any of the samples has.

    Args:
        samples: One row for each sample.
        fractions: Names of the scores whose values are between 0 and 1.
    """
    means = {}
    for name in samples.scores:
        measured = samples.measured(name)
        estimate = clustered_mean(samples.scores[name][measured], samples.cluster[measured])
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


def reference_scores(attempts: AttemptTable, references: AttemptTable) -> dict[str, ReferenceScore]:
    """Judges' scores of the reference answers, compared with those of the run's answers.

    The model's answers to an instance, averaged, less the reference answer to it, over the
    instances that have both (`harness.analysis.comparison`).

    Args:
        attempts: The run's attempts.
        references: The reference answers that judges have scored.
    """
    fractions = {name for name in references.scores if are_fractions(references, name)}
    found = {}
    for name, mean in _scores(references, fractions).items():
        pairs = compare(pair(references, attempts, score=name))
        found[name] = ReferenceScore(
            **asdict(mean),
            n_pairs=pairs.n,
            n_pair_clusters=pairs.n_clusters,
            difference=pairs.difference,
            difference_stderr=pairs.stderr,
            difference_ci95=pairs.ci95,
        )
    return found


def _mean(judged: AttemptTable) -> Estimate:
    return clustered_mean(judged.passed, judged.cluster)


def _pass_k(samples: AttemptTable) -> dict[str, Any]:
    """Compute pass@k and pass^k of the instances with a judged sample, with their errors."""
    judged = samples.take(samples.judged)
    drawn = np.bincount(judged.instance).astype(np.int32)
    (instances,) = drawn.nonzero()
    drawn = drawn[instances]
    passed = np.bincount(judged.instance, weights=judged.passed)[instances].astype(np.int32)
    cluster = judged.instances.cluster[instances]
    largest = int(drawn.min()) if len(drawn) else 0

    def means(of: Callable[..., Iterator[NDArray[np.float64]]]) -> dict[int, Estimate]:
        by_k = enumerate(of(drawn, passed, largest), start=1)
        return {k: clustered_mean(values, cluster) for k, values in by_k}

    at_k, hat_k = means(pass_at_k), means(pass_hat_k)
    return {
        "pass_at_k": _means(at_k),
        "pass_at_k_stderr": _stderrs(at_k),
        "pass_at_k_ci95": {k: estimate.ci95 for k, estimate in at_k.items()},
        "pass_at_k_instances": len(drawn),
        "pass_hat_k": _means(hat_k),
        "pass_hat_k_stderr": _stderrs(hat_k),
        "pass_hat_k_ci95": {k: estimate.ci95 for k, estimate in hat_k.items()},
    }


def _rounds(attempts: AttemptTable) -> Rounds:
    judged = attempts.take(attempts.judged)
    rounds = [int(number) for number in np.unique(judged.round)]
    each = {number: _mean(judged.take(judged.round == number)) for number in rounds}
    any_of_first = _any_of_first(judged, rounds)
    follows = ~judged.sample_starts()[1:] & (np.diff(judged.round) == 1)
    change = np.where(follows, np.diff(judged.passed), 0)

    def changed(by: int) -> dict[int, int]:
        return {k: int(((change == by) & (judged.round[1:] == k)).sum()) for k in rounds[1:]}

    return Rounds(
        each=_means(each),
        each_stderr=_stderrs(each),
        n={number: estimate.n for number, estimate in each.items()},
        any_of_first_k=_means(any_of_first),
        any_of_first_k_stderr=_stderrs(any_of_first),
        any_of_first_k_n={number: estimate.n for number, estimate in any_of_first.items()},
        fixed=changed(1),
        broken=changed(-1),
    )


def _any_of_first(judged: AttemptTable, rounds: list[int]) -> dict[int, Estimate]:
    """Compute, for each round k, the rate of samples that passed in any round up to k."""
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


class Latencies(Struct, frozen=True, kw_only=True):
    """Durations of calls in seconds, each call once, without cached and failed calls.

    Attributes:
        n: Number of calls.
        quantiles: (101,) percentiles 0 to 100.
    """

    n: int
    mean: float
    quantiles: tuple[float, ...]

    @property
    def median(self) -> float:
        """The 50th percentile."""
        return self.quantiles[50]


def latencies(seconds: Iterable[float]) -> Latencies | None:
    """Summarise durations of calls; None without any.

    >>> latencies([1.0, 3.0]).median
    2.0
    """
    values = np.fromiter(seconds, np.float64)
    if not len(values):
        return None
    quantiles = np.percentile(values, np.arange(101))
    return Latencies(n=len(values), mean=float(values.mean()), quantiles=tuple(quantiles.tolist()))
