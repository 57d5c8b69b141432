"""Computes a run's `Metrics` from its attempts.

What each figure means is documented in `harness.analysis.metrics`. The figures of a group are
computed by the same functions as those of the run, from the group's rows. A killed run has written
no metrics: they are always computed from its attempts.

>>> from pathlib import Path
>>> from harness.store.calls import read_columns
>>> attempts, calls = read_columns(Path("runs/none/attempts.jsonl"))
>>> summarise(attempts, calls, RunFacts(run="none", task="collie")).overall.n
0
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from msgspec import Struct
from msgspec.structs import asdict
from numpy.typing import NDArray

from harness.analysis.breakdown import any_of_first, are_fractions, mean_of, of_round, value_of
from harness.analysis.clustered import Estimate, Statistic, clustered_mean
from harness.analysis.comparison import compare, pair
from harness.analysis.metrics import (
    PASS_RATE,
    CallFigures,
    Group,
    JudgeFacts,
    Mean,
    Metrics,
    Rate,
    ReferenceScore,
    Rounds,
)
from harness.analysis.self_preference import common_family
from harness.records import OUTCOMES
from harness.store.calls import NO_CALLS, CallTotals, read_calls
from harness.store.columns import AttemptTable
from harness.store.index import read_attempts
from harness.store.run_folder import JUDGES, REFERENCES, RunFolder


class RunFacts(Struct, frozen=True, kw_only=True):
    """What metrics say about a run besides its attempts and calls; see `Metrics`.

    Each judge has the name of its model, and each panel the names of its judges.
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


def measure(
    folder: RunFolder,
    attempts: AttemptTable | None = None,
    calls: CallTotals | None = None,
    *,
    grouped: bool = True,
) -> Metrics:
    """Compute the metrics of a run.

    Args:
        folder: The run's folder.
        attempts: Its attempts, if they were read before.
        calls: Its calls, if they were read before, or `NO_CALLS` for metrics without tokens and
            costs: reading the calls as well takes 50% longer.
        grouped: As in `summarise`.
    """
    manifest = folder.read_manifest()
    complete, planned = folder.progress()
    judges: dict[str, str] = {}
    panels: dict[str, Sequence[str]] = {}
    if (folder.path / JUDGES).exists():
        from harness.store.judgements import read_register  # not imported for a run without judges

        for name, one in read_register(folder.path).judges.items():
            if one.members:
                panels[name] = one.section["of"]
            else:
                judges[name] = one.model
    references = None
    if (folder.path / REFERENCES).is_dir():
        from harness.store.references import references_folder

        references = read_attempts(references_folder(folder).attempts)
    # One after the other, to save memory.
    calls = read_calls(folder.attempts) if calls is None else calls
    attempts = read_attempts(folder.attempts) if attempts is None else attempts
    facts = RunFacts(
        run=folder.name,
        task=manifest.get("task", ""),
        model=manifest.get("model"),
        simulated=manifest.get("simulated", False),
        complete=complete,
        n_planned=planned,
        n_owed=folder.owed(),
        measure=manifest.get("measure"),
        judges=judges,
        panels=panels,
    )
    return summarise(attempts, calls, facts, grouped=grouped, references=references)


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
        grouped: Also compute the figures of each label's groups, of which there may be thousands.
        references: Reference answers that judges have scored.
    """
    last = attempts.last_rounds()
    n_solved = len(np.unique(attempts.instance[attempts.passed == 1]))
    own = _call_figures(calls)
    cost_usd = own["cost_usd"]
    # By the run, not by the group: the intervals in a table should be of one kind.
    fractions = {name for name in last.scores if are_fractions(last, name)}
    outcomes = np.bincount(attempts.outcome, minlength=len(OUTCOMES)).tolist()
    named = asdict(facts)
    del named["judges"], named["panels"]
    return Metrics(
        **named,
        n_instances=len(np.unique(attempts.instance)),
        n_samples=len(last),
        n_attempts=len(attempts),
        n_clusters=len(np.unique(attempts.cluster)),
        outcomes=dict(zip(OUTCOMES, outcomes, strict=True)),
        overall=_rate(last),
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
    found = {
        name: JudgeFacts(
            model=asked,
            family=common_family(asked, facts.model or ""),
            **_call_figures(calls.judges.get(name, NO_CALLS)),
        )
        for name, asked in facts.judges.items()
    }
    panels = {}
    for name, members in facts.panels.items():
        common = dict.fromkeys(found[one].family or "" for one in members if one in found)
        panels[name] = JudgeFacts(
            family=", ".join(filter(None, common)) or None,
            of=tuple(members),
            **_call_figures(NO_CALLS),
        )
    return found | panels


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
    estimate = clustered_mean(judged.passed, judged.cluster)
    n = len(samples)
    return Rate(
        pass_rate=estimate.mean,
        stderr=estimate.stderr,
        ci95=estimate.rate_ci95,
        n=estimate.n,
        n_clusters=estimate.n_clusters,
        naive_stderr=estimate.naive_stderr,
        not_judged=n - estimate.n,
        pass_rate_errors_as_failures=int(judged.passed.sum()) / n if n else None,
    )


def _scores(samples: AttemptTable, fractions: Collection[str]) -> dict[str, Mean]:
    """Return the means of the scores that any of the samples has."""
    means = {}
    for name in samples.scores:
        found = asdict(mean_of(samples, name, name in fractions))
        if found["n"]:
            means[name] = Mean(not_measured=found.pop("missing"), **found)
    return means


def reference_scores(attempts: AttemptTable, references: AttemptTable) -> dict[str, ReferenceScore]:
    """Compare judges' scores of the reference answers with those of the run's answers."""
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


def _pass_k(samples: AttemptTable) -> dict[str, Any]:
    """Compute pass@k and pass^k of the instances with a judged sample, with their errors."""
    judged = samples.take(samples.judged)
    drawn = np.bincount(judged.instance).astype(np.int32)
    (instances,) = drawn.nonzero()
    drawn = drawn[instances]
    passed = np.bincount(judged.instance, weights=judged.passed)[instances].astype(np.int32)
    cluster = judged.instances.cluster[instances]
    largest = int(drawn.min()) if len(drawn) else 0
    found: dict[str, Any] = {"pass_at_k_instances": len(drawn)}
    for name, estimator in (("pass_at_k", pass_at_k), ("pass_hat_k", pass_hat_k)):
        by_k = enumerate(estimator(drawn, passed, largest), start=1)
        estimates = {k: clustered_mean(values, cluster) for k, values in by_k}
        found[name] = _means(estimates)
        found[f"{name}_stderr"] = {k: estimate.stderr for k, estimate in estimates.items()}
        found[f"{name}_ci95"] = {k: estimate.ci95 for k, estimate in estimates.items()}
    return found


def pass_at_k(
    drawn: NDArray[Any], passed: NDArray[Any], k_max: int
) -> Iterator[NDArray[np.float64]]:
    """Yield the chance that one of k samples passes, (m,) per instance for each k = 1 … k_max.

    The unbiased estimate 1 - C(n - c, k) / C(n, k) of Chen et al. 2021, "Evaluating Large Language
    Models Trained on Code" (arXiv 2107.03374), equation 1.

    Args:
        drawn: (m,) n, the number of samples of each instance, at least k_max.
        passed: (m,) c, how many of them passed.
        k_max: The largest k.

    >>> [float(at_k[0].round(3)) for at_k in pass_at_k(np.array([3]), np.array([1]), 3)]
    [0.333, 0.667, 1.0]
    """
    for all_fail in pass_hat_k(drawn, drawn - passed, k_max):
        yield 1 - all_fail


def pass_hat_k(
    drawn: NDArray[Any], passed: NDArray[Any], k_max: int
) -> Iterator[NDArray[np.float64]]:
    """Yield the chance that all of k samples pass, C(c, k) / C(n, k), as in `pass_at_k`.

    Yao et al. 2024, "τ-bench" (arXiv 2406.12045), section 3: how reliably an instance is solved,
    where pass@k says whether it can be. The quotient is the chance that k samples drawn from the n
    without replacement are all among the c, a product of k factors of at most 1: no binomial
    coefficient is computed, so nothing overflows.
    """
    if len(drawn) and k_max > drawn.min():
        raise ValueError(f"k = {k_max} needs {k_max} samples of each instance")
    chance = np.ones(len(drawn))
    for taken in range(k_max):
        chance = chance * (np.maximum(passed - taken, 0) / (drawn - taken))
        yield chance


def _rounds(attempts: AttemptTable) -> Rounds:
    judged = attempts.take(attempts.judged)
    rounds = [int(number) for number in np.unique(judged.round)]
    each = {k: value_of(of_round(judged, k), PASS_RATE) for k in rounds}
    any_of = {k: value_of(any_of_first(judged, k), PASS_RATE) for k in rounds}
    follows = ~judged.sample_starts()[1:] & (np.diff(judged.round) == 1)
    change = np.where(follows, np.diff(judged.passed), 0)

    def changed(by: int) -> dict[int, int]:
        return {k: int(((change == by) & (judged.round[1:] == k)).sum()) for k in rounds[1:]}

    return Rounds(
        each=_means(each),
        each_stderr={k: found.stderr for k, found in each.items()},
        n={k: found.n for k, found in each.items()},
        any_of_first_k=_means(any_of),
        any_of_first_k_stderr={k: found.stderr for k, found in any_of.items()},
        any_of_first_k_n={k: found.n for k, found in any_of.items()},
        fixed=changed(1),
        broken=changed(-1),
    )


def _means(found: Mapping[int, Statistic | Estimate]) -> dict[int, float]:
    return {k: one.mean for k, one in found.items() if one.mean is not None}


class Latencies(Struct, frozen=True, kw_only=True):
    """Percentiles 0 to 100 of the seconds that n calls took, without cached and failed calls."""

    n: int
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
    return Latencies(n=len(values), quantiles=tuple(quantiles.tolist()))
