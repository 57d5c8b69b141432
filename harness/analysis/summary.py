"""Computes a run's `Metrics` from its attempts, even if the run was killed."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
from msgspec import Struct
from msgspec.structs import asdict, replace

from harness.analysis.breakdown import (
    Groups,
    Key,
    best_of_first_rounds,
    pass_at_k,
    pass_hat_k,
    rows_for_score,
    select_round,
    weighted_mean_by_group,
)
from harness.analysis.clustered import Estimate, clustered_means, to_sample_statistic
from harness.analysis.metrics import (
    PASS_RATE,
    Group,
    JudgeFacts,
    Mean,
    Metrics,
    Rate,
    Rounds,
    SampleStatistic,
    TurnRate,
    decode_metrics,
)
from harness.analysis.run_display import read_display
from harness.analysis.self_preference import common_family
from harness.declarations import declared_members
from harness.records import OUTCOMES, CallTotals, Outcome
from harness.store.aggregates import read_aggregates
from harness.store.calls import NO_CALLS, RunCalls, read_calls
from harness.store.columns import NOT_JUDGED, AttemptTable, changes
from harness.store.files import read_file
from harness.store.index import AttemptIndex, read_attempts
from harness.store.json_lines import reading
from harness.store.judgements import RegisteredJudge, read_register
from harness.store.lost_lines import is_unchanged, refuse_changed_settings, warn_of_loss
from harness.store.run_folder import RunFolder


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


def compute_metrics(
    folder: RunFolder,
    attempts: AttemptTable | None = None,
    calls: RunCalls | None = None,
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
    complete, n_planned = folder.progress()
    index = None
    if calls is None:
        calls = read_calls(folder.attempts)  # before the attempts, to save memory
        index = AttemptIndex(folder.attempts)
    model_calls = calls.model or calls
    if attempts is None:
        attempts = read_attempts(folder.attempts) if index is None else index.attempts
    n_owed = folder.unfinished()
    if loss := warn_of_loss(folder, attempts):
        complete = False
        n_owed = max(n_owed or 0, loss.samples)
    judges = read_register(folder.path).judges
    score = score or manifest.get("measure") or ("" if judges else default_measure(attempts))
    facts = RunFacts(
        run=folder.name,
        task=manifest.get("task", ""),
        model=manifest.get("model"),
        simulated=manifest.get("simulated", False),
        complete=complete,
        n_planned=n_planned,
        n_owed=n_owed,
        n_unanswerable=manifest.get("unanswerable", 0),
        from_cache=0 < model_calls.n_calls == model_calls.n_cached_calls,
        measure=score.removeprefix(PASS_RATE) or None,
    )
    weights = read_display(folder).weights if len(attempts.scores) > 1 else {}
    metrics = summarise(attempts, calls, facts, judges, grouped=grouped, weights=weights)
    saved = read_aggregates(folder.attempts)
    metrics = replace(metrics, aggregates={part: dict(values) for part, values in saved.items()})
    measurements: dict[str, Any] = {}
    for field, members in declared_members("measurements").items():
        value = members[0].load()(folder, attempts, index)
        if value is not None:
            measurements[field] = value
    metrics = replace(metrics, **measurements)
    if index is None or facts.simulated:
        return metrics
    cautions: list[str] = []
    for members in declared_members("cautions").values():
        for member in members:
            cautions += member.load()(index)
    return replace(metrics, ignored_settings=cautions)


def default_measure(attempts: AttemptTable) -> str:
    """Return the name of the first numeric score, or "" if none or if there are verdicts."""
    answers = attempts.take(attempts.outcome == OUTCOMES.index("ok"))
    if answers.judged.any():  # refusals, which fail without a check, are not among them
        return ""
    for name, values in answers.scores.items():
        if values.dtype.kind == "f" and np.isfinite(values).any():
            return name
    return ""


def summarise(
    attempts: AttemptTable,
    calls: RunCalls,
    facts: RunFacts,
    judges: Mapping[str, RegisteredJudge] = MappingProxyType({}),
    *,
    grouped: bool = True,
    weights: Mapping[str, str] = MappingProxyType({}),
) -> Metrics:
    """Compute a run's metrics from its attempts and facts, without reading files.

    Args:
        attempts: The run's attempts.
        calls: The totals of the run's calls.
        facts: Values that are copied to the metrics.
        judges: The run's judges and panels, by name.
        grouped: Whether the metrics cover the groups of each label as well.
        weights: The names of the scores that weight other scores (`RunDisplay.weights`).
    """
    if not judges and default_measure(attempts):  # a rate would be over crashes and the like alone
        attempts = _drop_verdicts(attempts)
    n_solved = int(changes(attempts.instance[attempts.passed == 1]).sum())
    cost_per_solved_usd = None
    if calls.cost_usd is not None and n_solved:
        cost_per_solved_usd = calls.cost_usd / n_solved
    outcomes: dict[Outcome, int] = {}
    for outcome, n in zip(
        OUTCOMES, np.bincount(attempts.outcome, minlength=len(OUTCOMES)).tolist(), strict=True
    ):
        if n or outcome != "crashed":  # which earlier versions cannot read
            outcomes[outcome] = n
    measure = facts.measure or ""
    labels = attempts.labels() if grouped else []
    return Metrics(
        **asdict(facts),
        n_instances=int(changes(attempts.instance).sum()),
        n_samples=int(attempts.sample_starts().sum()),
        n_attempts=len(attempts),
        n_clusters=int(np.count_nonzero(np.bincount(attempts.cluster))),
        outcomes=outcomes,
        groups={label: _group_statistics(attempts, label, measure, weights) for label in labels},
        **_group_fields(attempts, measure, weights)[()],
        n_solved=n_solved,
        turns={} if attempts.turns is None else dict(_turn_rates(attempts.turns, weights)),
        **_call_fields(calls),
        cost_per_solved_usd=cost_per_solved_usd,
        model_calls=calls.model,
        user_calls=calls.user,
        judges=_judge_facts(judges, facts.model or "", calls),
    )


def _drop_verdicts(attempts: AttemptTable) -> AttemptTable:
    turns = None if attempts.turns is None else _drop_verdicts(attempts.turns)
    passed = np.full_like(attempts.passed, NOT_JUDGED)
    return dataclasses.replace(attempts, passed=passed, turns=turns)


def _call_fields(calls: CallTotals) -> dict[str, Any]:
    return {name: getattr(calls, name) for name in CallTotals.__struct_fields__}


def _judge_facts(
    judges: Mapping[str, RegisteredJudge], model: str, calls: RunCalls
) -> dict[str, JudgeFacts]:
    facts: dict[str, JudgeFacts] = {}
    for name, judge in judges.items():
        if not judge.members:
            facts[name] = JudgeFacts(
                model=judge.model,
                family=common_family(judge.model, model),
                **_call_fields(calls.judges.get(name, NO_CALLS)),
            )
    for name, panel in judges.items():
        if panel.members:
            families = dict.fromkeys(
                facts[member].family for member in panel.members if member in facts
            )
            family = ", ".join(filter(None, families)) or None
            facts[name] = JudgeFacts(family=family, of=panel.members, **_call_fields(NO_CALLS))
    return facts


def _turn_rates(
    attempts: AttemptTable, weights: Mapping[str, str]
) -> Iterator[tuple[int, TurnRate]]:
    """Yield the number and figures of each turn."""
    for number in np.unique(attempts.round).tolist():
        answers = select_round(attempts, number)
        figures = _group_fields(answers, "", weights)[()]
        rate = asdict(figures["overall"])
        yield number, TurnRate(n_answers=len(answers), **rate, scores=figures["scores"])


def _group_statistics(
    attempts: AttemptTable, label: str, measure: str, weights: Mapping[str, str]
) -> dict[str, Group]:
    groups = Groups.by(attempts.instances, label)
    present = attempts.instance[changes(attempts.instance)]
    present = present[groups.of_instance[present] >= 0]
    digests = np.zeros(len(groups.names), np.int64)
    np.bitwise_xor.at(digests, groups.of_instance[present], attempts.instances.digest[present])
    digest_of = dict(zip(groups.names, digests.tolist(), strict=True))
    return {
        name[0]: Group(
            instances=f"{digest_of[name] & 2**64 - 1:016x}",
            **asdict(figures.pop("overall")),
            **figures,
        )
        for name, figures in _group_fields(attempts, measure, weights, label).items()
    }


def _group_fields(
    attempts: AttemptTable, measure: str, weights: Mapping[str, str], *labels: str
) -> dict[Key, dict[str, Any]]:
    """Return the figures of each group of ``labels``, as fields of `Metrics` and `Group`."""
    last = attempts.last_rounds()
    groups = Groups.by(attempts.instances, *labels)
    passed = groups.sizes(last.take(last.passed == 1))
    verdicts = groups.estimates(last, PASS_RATE)
    cluster_rates = groups.cluster_rates(last)
    means = {name: groups.means(last, name) for name in last.scores}
    for name, weight in weights.items():
        if name in means and weight in means:
            weighted = weighted_mean_by_group(last, name, weight, *labels)
            means[name] = {number: weighted[groups.names[number]] for number in means[name]}
    by_measure = rows_for_score(last, measure)
    if by_measure is not last:
        means[measure] = groups.means(by_measure, measure)
    pass_k = _pass_k_fields(last, groups)
    if attempts.turns is not None:  # which are not rounds
        attempts = dataclasses.replace(last, round=np.ones_like(last.round))
    rounds = _round_statistics(attempts, groups)
    figures: dict[Key, dict[str, Any]] = {}
    for number, n in enumerate(groups.sizes(last)):
        if not n and groups.names[number]:
            continue
        estimate = verdicts.get(number, Estimate())
        cluster_rate = cluster_rates.get(number, Estimate())
        rate = Rate(
            **asdict(to_sample_statistic(estimate.share(), n)),
            naive_stderr=estimate.naive_stderr,
            pass_rate_errors_as_failures=passed[number] / n if n else None,
            cluster_rate=cluster_rate.mean,
            cluster_rate_stderr=cluster_rate.stderr,
        )
        scores = {}
        if n:
            scores = _measured_means({name: by_group[number] for name, by_group in means.items()})
        figures[groups.names[number]] = {
            "overall": rate,
            "scores": scores,
            "rounds": rounds[number],
            **pass_k[number],
        }
    return figures


def _measured_means(statistics: Mapping[str, SampleStatistic]) -> dict[str, Mean]:
    return {name: Mean(**asdict(mean)) for name, mean in statistics.items() if mean.n}


def _pass_k_fields(samples: AttemptTable, groups: Groups) -> list[dict[str, Any]]:
    judged = samples.take(samples.judged & (groups.of_instance[samples.instance] >= 0))
    counts = np.bincount(judged.instance).astype(np.int32)
    (instances,) = counts.nonzero()
    drawn = counts[instances]
    group = groups.of_instance[instances]
    passed = np.bincount(judged.instance, weights=judged.passed)[instances].astype(np.int32)
    figures: list[dict[str, Any]] = []
    for n in np.bincount(group, minlength=len(groups.names)).tolist():
        figures.append({"pass_at_k_instances": n, "pass_at_k_n": {}})
        for name in ("pass_at_k", "pass_hat_k"):
            figures[-1] |= {name: {}, f"{name}_stderr": {}, f"{name}_ci95": {}}
    largest = 0
    for n_drawn in np.unique(drawn).tolist():  # few distinct numbers
        rows = drawn >= n_drawn
        unit = groups.unit[instances[rows]]
        for name, estimator in (("pass_at_k", pass_at_k), ("pass_hat_k", pass_hat_k)):
            for k, values in enumerate(estimator(drawn[rows], passed[rows], n_drawn), start=1):
                if k <= largest:  # known from all instances with at least k
                    continue
                for number, estimate in clustered_means(values, unit, groups.of_unit).items():
                    fields = figures[number]
                    fields["pass_at_k_n"][k] = estimate.n
                    fields[name][k] = estimate.mean
                    fields[f"{name}_stderr"][k] = estimate.stderr
                    fields[f"{name}_ci95"][k] = estimate.ci95
        largest = n_drawn
    return figures


def _round_statistics(attempts: AttemptTable, groups: Groups) -> list[Rounds]:
    judged = attempts.take(attempts.judged)
    follows = ~judged.sample_starts()[1:] & (np.diff(judged.round) == 1)
    change = np.zeros(len(judged), np.int8)
    np.subtract(judged.passed[1:], judged.passed[:-1], out=change[1:], where=follows)
    by_group = [Rounds(**{name: {} for name in Rounds.__struct_fields__}) for _ in groups.names]
    for k in np.bincount(judged.round).nonzero()[0].tolist():
        any_of_first_k = groups.means(best_of_first_rounds(judged, k), PASS_RATE)
        in_round = judged.round == k
        fixed = groups.sizes(judged.take((change == 1) & in_round))
        broken = groups.sizes(judged.take((change == -1) & in_round))
        for number, rate in groups.means(select_round(judged, k), PASS_RATE).items():
            rounds = by_group[number]
            any_rate = any_of_first_k[number]
            if rate.mean is None or any_rate.mean is None:
                continue
            if rounds.n:  # the group has an earlier round
                rounds.fixed[k] = fixed[number]
                rounds.broken[k] = broken[number]
            rounds.each[k] = rate.mean
            rounds.each_stderr[k] = rate.stderr
            rounds.n[k] = rate.n
            rounds.any_of_first_k[k] = any_rate.mean
            rounds.any_of_first_k_n[k] = any_rate.n
            rounds.any_of_first_k_stderr[k] = any_rate.stderr
    return by_group


def read_metrics(folder: RunFolder, manifest: dict[str, Any]) -> Metrics | None:
    """Return a run's metrics with its progress, None if it has none yet.

    They are computed again, without groups, if they are missing, or if a file of the run was
    changed since they were written.

    Raises:
        HarnessError: If a file of the run is unreadable.
    """
    refuse_changed_settings(folder.path)
    n_owed = folder.unfinished(manifest)  # None: the run grows, or was killed
    metrics = None
    with reading(folder.metrics):
        if folder.metrics.exists():
            metrics = decode_metrics(read_file(folder.metrics), folder.metrics)
    read_register(folder.path)  # raises an error if it lacks a judge
    if metrics is None and (n_owed is None or not folder.attempts.exists()):
        return None
    if metrics is not None and (
        n_owed is None or (metrics.run == folder.name and is_unchanged(folder, manifest))
    ):
        complete, n_planned = folder.progress(manifest)
        return replace(metrics, complete=complete, n_planned=n_planned, n_owed=n_owed)
    return compute_metrics(folder, grouped=False)
