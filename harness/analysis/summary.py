"""Computes a run's `Metrics` from its attempts, even if the run was killed."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
from msgspec import Struct
from msgspec.structs import asdict, replace

from harness.analysis.breakdown import (
    Groups,
    Key,
    any_of_first,
    of_round,
    pass_at_k,
    pass_hat_k,
    scored,
    values_by,
)
from harness.analysis.clustered import Estimate, clustered_means, over_samples
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
    SampleStatistic,
    TurnRate,
    from_json,
)
from harness.analysis.positions import read_positions
from harness.analysis.ratios import weighted_means
from harness.analysis.run_display import read_display
from harness.analysis.self_preference import common_family
from harness.declarations import declared_members
from harness.records import OUTCOMES
from harness.scoring import CHOICE
from harness.store.aggregates import read_aggregates
from harness.store.calls import NO_CALLS, CallTotals, read_calls
from harness.store.columns import AttemptTable, changes
from harness.store.files import read_file
from harness.store.index import AttemptIndex, read_attempts
from harness.store.json_lines import reading
from harness.store.judgements import RegisteredJudge, read_register
from harness.store.lost_lines import is_unchanged, refuse_changed_settings, warn_of_loss
from harness.store.references import references_folder
from harness.store.run_folder import REFERENCES, RunFolder

_PARTS = ("", "_stderr", "_ci95")


class RunFacts(Struct, frozen=True, kw_only=True):
    """Facts about a run that `summarise` takes as given, with fields as in `Metrics`."""

    run: str
    task: str
    model: str | None = None
    simulated: bool = False
    complete: bool = True
    n_planned: int | None = None
    n_owed: int | None = None
    n_unanswerable: int = 0
    from_cache: bool = False
    measure: str | None = None


def measure(
    folder: RunFolder,
    attempts: AttemptTable | None = None,
    calls: CallTotals | None = None,
    *,
    grouped: bool = True,
    score: str = "",
) -> Metrics:
    """Compute a run's metrics.

    Args:
        folder: The run's folder.
        attempts: The run's attempts; read from the folder if None.
        calls: The totals of the run's calls; read from the folder if None. With totals, the
            position bias is omitted. `NO_CALLS` also omits tokens and costs.
        grouped: Whether the metrics cover the groups of each label as well.
        score: The primary metric; by default the one recorded for the run, or else the first
            numeric score if the run has neither judges nor verdicts.
    """
    manifest = folder.read_manifest()
    complete, planned = folder.progress()
    references = None
    if (folder.path / REFERENCES).is_dir():
        references = read_attempts(references_folder(folder).attempts)
    index = None
    if calls is None:
        calls = read_calls(folder.attempts)  # before the attempts, to save memory
        index = AttemptIndex(folder.attempts)
    own = calls.model or calls
    if attempts is None:
        attempts = read_attempts(folder.attempts) if index is None else index.attempts
    owed = folder.owed()
    if loss := warn_of_loss(folder, attempts):
        complete = False
        owed = max(owed or 0, loss.samples)
    judges = read_register(folder.path).judges
    score = score or manifest.get("measure") or ("" if judges else only_numbers(attempts))
    facts = RunFacts(
        run=folder.name,
        task=manifest.get("task", ""),
        model=manifest.get("model"),
        simulated=manifest.get("simulated", False),
        complete=complete,
        n_planned=planned,
        n_owed=owed,
        n_unanswerable=manifest.get("unanswerable", 0),
        from_cache=0 < own.n == own.n_cached,
        measure=score.removeprefix(PASS_RATE) or None,
    )
    weights = read_display(folder).weights if len(attempts.scores) > 1 else {}
    metrics = summarise(
        attempts, calls, facts, judges, grouped=grouped, references=references, weights=weights
    )
    aggregates = {name: dict(one) for name, one in read_aggregates(folder.attempts).items()}
    positions = None
    ignored: list[str] = []
    if index is not None:
        if CHOICE in attempts.scores:
            positions = read_positions(index)
        if not facts.simulated:
            for members in declared_members("cautions").values():
                for member in members:
                    ignored += member.load()(index)
    return replace(metrics, aggregates=aggregates, positions=positions, ignored_settings=ignored)


def only_numbers(attempts: AttemptTable) -> str:
    """Return the name of the first numeric score, or "" if none or if there are verdicts."""
    answers = attempts.take(attempts.outcome == OUTCOMES.index("ok"))
    if answers.judged.any():  # refusals, which fail without a check, are not among them
        return ""
    numbers = (name for name, of in answers.scores.items() if np.isfinite(of).any())
    return next((name for name in numbers if answers.scores[name].dtype.kind == "f"), "")


def summarise(
    attempts: AttemptTable,
    calls: CallTotals,
    facts: RunFacts,
    judges: Mapping[str, RegisteredJudge] = MappingProxyType({}),
    *,
    grouped: bool = True,
    references: AttemptTable | None = None,
    weights: Mapping[str, str] = MappingProxyType({}),
) -> Metrics:
    """Compute a run's metrics, as `measure` does, from tables and facts that have been read.

    ``judges`` includes panels. ``references`` are the data set's reference answers, scored like
    attempts. ``weights`` are `RunDisplay.weights`.
    """
    n_solved = int(changes(attempts.instance[attempts.passed == 1]).sum())
    own = _call_figures(calls)
    cost_usd = own["cost_usd"]
    outcomes = np.bincount(attempts.outcome, minlength=len(OUTCOMES)).tolist()
    return Metrics(
        **asdict(facts),
        n_instances=int(changes(attempts.instance).sum()),
        n_samples=int(attempts.sample_starts().sum()),
        n_attempts=len(attempts),
        n_clusters=int(np.count_nonzero(np.bincount(attempts.cluster))),
        outcomes={
            outcome: n
            for outcome, n in zip(OUTCOMES, outcomes, strict=True)
            if n or outcome != "crashed"  # which earlier versions cannot read
        },
        groups={
            label: _groups(attempts, label, facts.measure or "", weights)
            for label in (attempts.labels() if grouped else ())
        },
        **_figures(attempts, facts.measure or "", weights)[()],
        n_solved=n_solved,
        turns={} if attempts.turns is None else dict(_turns(attempts.turns, weights)),
        **own,
        cost_per_solved_usd=cost_usd / n_solved if cost_usd is not None and n_solved else None,
        model_calls=None if calls.model is None else CallFigures(**_call_figures(calls.model)),
        user_calls=None if calls.user is None else CallFigures(**_call_figures(calls.user)),
        judges=_judges(judges, facts.model or "", calls),
        references={} if references is None else reference_scores(attempts, references),
    )


def _judges(
    judges: Mapping[str, RegisteredJudge], model: str, calls: CallTotals
) -> dict[str, JudgeFacts]:
    found = {
        name: JudgeFacts(
            model=judge.model,
            family=common_family(judge.model, model),
            **_call_figures(calls.judges.get(name, NO_CALLS)),
        )
        for name, judge in judges.items()
        if not judge.members
    }
    for name, panel in judges.items():
        if panel.members:
            common = dict.fromkeys(found[one].family for one in panel.members if one in found)
            family = ", ".join(filter(None, common)) or None
            found[name] = JudgeFacts(family=family, of=panel.members, **_call_figures(NO_CALLS))
    return found


def _turns(attempts: AttemptTable, weights: Mapping[str, str]) -> Iterator[tuple[int, TurnRate]]:
    """Yield the number and figures of each turn."""
    for number in np.unique(attempts.round).tolist():
        answers = of_round(attempts, number)
        found = _figures(answers, "", weights)[()]
        rate, scores = found["overall"], found["scores"]
        yield number, TurnRate(n_answers=len(answers), **asdict(rate), scores=scores)


def _call_figures(calls: CallTotals) -> dict[str, Any]:
    return {
        "n_calls": calls.n,
        "n_cached_calls": calls.n_cached,
        "n_crashed_calls": calls.n_crashed,
        "usage": calls.usage,
        "n_calls_without_usage": calls.n_without_usage,
        "cost_usd": None if calls.n_without_cost else calls.known_cost_usd,
        "known_cost_usd": calls.known_cost_usd,
        "paid_usd": calls.paid_usd,
        "computed_usd": calls.computed_usd,
        "n_calls_without_cost": calls.n_without_cost,
    }


def _groups(
    attempts: AttemptTable, label: str, measure: str, weights: Mapping[str, str]
) -> dict[str, Group]:
    groups = Groups.by(attempts.instances, label)
    present = attempts.instance[changes(attempts.instance)]
    present = present[groups.of_instance[present] >= 0]
    digests = np.zeros(len(groups.names), np.int64)
    np.bitwise_xor.at(digests, groups.of_instance[present], attempts.instances.digest[present])
    number = {name: place for place, name in enumerate(groups.names)}
    found = _figures(attempts, measure, weights, label)
    return {
        name[0]: Group(
            instances=f"{int(digests[number[name]]) & 2**64 - 1:016x}",
            **asdict(own.pop("overall")),
            **own,
        )
        for name, own in found.items()
    }


def _figures(
    attempts: AttemptTable, measure: str, weights: Mapping[str, str], *labels: str
) -> dict[Key, dict[str, Any]]:
    """Return the figures of each group of ``labels``, as fields of `Metrics` and `Group`."""
    last, groups = attempts.last_rounds(), Groups.by(attempts.instances, *labels)
    passed = groups.sizes(last.take(last.passed == 1))
    verdicts, of_clusters = groups.estimates(last, PASS_RATE), groups.cluster_rates(last)
    means = {name: groups.means(last, name) for name in last.scores}
    for name, weight in weights.items():
        if name in means and weight in means:
            weighted = weighted_means(last, name, weight, *labels)
            means[name] = {n: weighted[groups.names[n]] for n in means[name]}
    if (of_k := scored(last, measure)) is not last:
        means[measure] = groups.means(of_k, measure)
    pass_k = _pass_k(last, groups)
    if attempts.turns is not None:  # which are not rounds
        attempts = dataclasses.replace(last, round=np.ones_like(last.round))
    rounds = _rounds(attempts, groups)
    found = {}
    for number, n in enumerate(groups.sizes(last)):
        if n or not groups.names[number]:
            one = verdicts.get(number, Estimate())
            rate = Rate(
                **asdict(over_samples(one.share(), n)),
                naive_stderr=one.naive_stderr,
                pass_rate_errors_as_failures=passed[number] / n if n else None,
                cluster_rate=(cluster := of_clusters.get(number, Estimate())).mean,
                cluster_rate_stderr=cluster.stderr,
            )
            scores = _scores({name: of[number] for name, of in means.items() if n})
            own = {"overall": rate, "scores": scores, "rounds": rounds[number]}
            found[groups.names[number]] = own | pass_k[number]
    return found


def _scores(found: Mapping[str, SampleStatistic]) -> dict[str, Mean]:
    return {name: Mean(**asdict(one)) for name, one in found.items() if one.n}


def reference_scores(attempts: AttemptTable, references: AttemptTable) -> dict[str, ReferenceScore]:
    """Return each score's mean over the reference answers, and the run's difference from it."""
    whole = {name: values_by(references, name)[()] for name in references.scores}
    found = {}
    for name, mean in _scores(whole).items():
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


def _pass_k(samples: AttemptTable, groups: Groups) -> list[dict[str, Any]]:
    judged = samples.take(samples.judged & (groups.of_instance[samples.instance] >= 0))
    counts = np.bincount(judged.instance).astype(np.int32)
    (instances,) = counts.nonzero()
    drawn, group = counts[instances], groups.of_instance[instances]
    passed = np.bincount(judged.instance, weights=judged.passed)[instances].astype(np.int32)
    fields = [f"{name}{part}" for name in ("pass_at_k", "pass_hat_k") for part in _PARTS]
    found: list[dict[str, Any]] = [
        {"pass_at_k_instances": n, "pass_at_k_n": {}, **{field: {} for field in fields}}
        for n in np.bincount(group, minlength=len(groups.names)).tolist()
    ]
    largest = 0
    for n_drawn in np.unique(drawn).tolist():  # few distinct numbers
        rows = drawn >= n_drawn
        unit = groups.unit[instances[rows]]
        for name, estimator in (("pass_at_k", pass_at_k), ("pass_hat_k", pass_hat_k)):
            for k, values in enumerate(estimator(drawn[rows], passed[rows], n_drawn), start=1):
                if k <= largest:  # known from all instances with at least k
                    continue
                for number, one in clustered_means(values, unit, groups.of_unit).items():
                    found[number]["pass_at_k_n"][k] = one.n
                    for part, value in zip(_PARTS, (one.mean, one.stderr, one.ci95), strict=True):
                        found[number][f"{name}{part}"][k] = value
        largest = n_drawn
    return found


def _rounds(attempts: AttemptTable, groups: Groups) -> list[Rounds]:
    judged = attempts.take(attempts.judged)
    follows = ~judged.sample_starts()[1:] & (np.diff(judged.round) == 1)
    change = np.zeros(len(judged), np.int8)
    np.subtract(judged.passed[1:], judged.passed[:-1], out=change[1:], where=follows)
    found = [Rounds(**{name: {} for name in Rounds.__struct_fields__}) for _ in groups.names]
    for k in np.bincount(judged.round).nonzero()[0].tolist():
        any_of = groups.means(any_of_first(judged, k), PASS_RATE)
        own_round = judged.round == k
        fixed, broken = (groups.sizes(judged.take((change == by) & own_round)) for by in (1, -1))
        for number, one in groups.means(of_round(judged, k), PASS_RATE).items():
            own, any_one = found[number], any_of[number]
            if one.mean is None or any_one.mean is None:
                continue
            if own.n:  # the group has an earlier round
                own.fixed[k], own.broken[k] = fixed[number], broken[number]
            own.each[k], own.each_stderr[k], own.n[k] = one.mean, one.stderr, one.n
            own.any_of_first_k[k], own.any_of_first_k_n[k] = any_one.mean, any_one.n
            own.any_of_first_k_stderr[k] = any_one.stderr
    return found


class Latencies(Struct, frozen=True, kw_only=True):
    """The percentiles 0, 1, … 100 of the latencies of n calls, in seconds."""

    n: int
    quantiles: tuple[float, ...]

    @property
    def median(self) -> float:
        """The median latency, in seconds."""
        return self.quantiles[50]


def latencies(seconds: Iterable[float]) -> Latencies | None:
    """Return percentiles of the latencies of calls, in seconds, or None if there are no calls.

    >>> latencies([1.0, 3.0]).median
    2.0
    """
    values = np.fromiter(seconds, np.float64)
    if not len(values):
        return None
    quantiles = np.percentile(values, np.arange(101))
    return Latencies(n=len(values), quantiles=tuple(quantiles.tolist()))


def read_metrics(folder: RunFolder, manifest: dict[str, Any]) -> Metrics | None:
    """Return a run's metrics with its progress, None if it has none yet.

    They are computed again, without groups, if they are missing, or if a file of the run was
    changed since they were written.

    Raises:
        HarnessError: If a file of the run is unreadable.
    """
    refuse_changed_settings(folder.path)
    owed = folder.owed(manifest)  # None: the run grows, or was killed
    metrics = None
    with reading(folder.metrics):
        if folder.metrics.exists():
            metrics = from_json(read_file(folder.metrics), folder.metrics)
    read_register(folder.path)  # raises an error if it lacks a judge
    if metrics is not None and (
        owed is None or (metrics.run == folder.name and is_unchanged(folder, manifest))
    ):
        complete, planned = folder.progress(manifest)
        return replace(metrics, complete=complete, n_planned=planned, n_owed=owed)
    if metrics is None and (owed is None or not folder.attempts.exists()):
        return None
    from harness.analysis.summary import measure  # NumPy takes 0.2 s to import

    return measure(folder, grouped=False)
