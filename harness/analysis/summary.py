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
from harness.analysis.clustered import Estimate, clustered_means
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
from harness.store.columns import NOT_JUDGED, AttemptTable, change_mask
from harness.store.files import read_file
from harness.store.index import AttemptIndex, read_attempts
from harness.store.json_lines import convert_read_errors
from harness.store.judgements import RegisteredJudge, read_register
from harness.store.lost_lines import check_settings, is_unchanged, warn_of_loss
from harness.store.run_folder import RunFolder


class RunFacts(Struct, frozen=True, kw_only=True):
    """Facts about a run that do not follow from its attempts, with the fields of `Metrics`."""

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
        score: The primary metric. By default, it is the one recorded for the run, or else the first
            numeric score if the run has neither judges nor verdicts.
    """
    index = None
    if calls is None:
        calls = read_calls(folder.attempts)  # before the attempts, to save memory
        index = AttemptIndex(folder.attempts)
    if attempts is None:
        attempts = read_attempts(folder.attempts) if index is None else index.attempts
    judges = read_register(folder.path).judges
    manifest = folder.read_manifest()
    score = score or manifest.get("measure") or ("" if judges else default_measure(attempts))
    facts = _run_facts(folder, attempts, calls, score)
    weights = read_display(folder).weight_names if len(attempts.scores) > 1 else {}
    metrics = summarise(attempts, calls, facts, judges, grouped=grouped, weights=weights)
    aggregates = read_aggregates(folder.attempts)
    metrics = replace(
        metrics, aggregates={part: dict(values) for part, values in aggregates.items()}
    )
    return _add_plugin_fields(metrics, folder, attempts, index)


def _run_facts(folder: RunFolder, attempts: AttemptTable, calls: RunCalls, score: str) -> RunFacts:
    manifest = folder.read_manifest()
    complete, n_planned = folder.progress()
    n_owed = folder.count_unfinished()
    if loss := warn_of_loss(folder, attempts):
        complete = False
        n_owed = max(n_owed or 0, loss.n_samples)
    model_calls = calls.model or calls
    return RunFacts(
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


def _add_plugin_fields(
    metrics: Metrics, folder: RunFolder, attempts: AttemptTable, index: AttemptIndex | None
) -> Metrics:
    """Add the measurements and cautions of plug-ins, the latter only if there is an index."""
    fields: dict[str, Any] = {}
    for field, members in declared_members("measurements").items():
        value = members[0].load()(folder, attempts, index)
        if value is not None:
            fields[field] = value
    if index is not None and not metrics.simulated:
        cautions: list[str] = []
        for members in declared_members("cautions").values():
            for member in members:
                cautions += member.load()(index)
        fields["ignored_settings"] = cautions
    return replace(metrics, **fields)


def default_measure(attempts: AttemptTable) -> str:
    """Return the name of the first numeric score, or "" if there are verdicts or no such score."""
    answers = attempts.take(attempts.outcome == OUTCOMES.index("ok"))
    if answers.has_verdict.any():  # without refusals, which fail without a check
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
        weights: The names of the scores that weight other scores (`RunDisplay.weight_names`).
    """
    if not judges and default_measure(attempts):  # the only verdicts are on crashes, for example
        attempts = _drop_verdicts(attempts)
    n_solved = int(change_mask(attempts.instance[attempts.passed == 1]).sum())
    cost_per_solved_usd = None
    if calls.cost_usd is not None and n_solved:
        cost_per_solved_usd = calls.cost_usd / n_solved
    measure = facts.measure or ""
    labels = attempts.labels() if grouped else []
    return Metrics(
        **asdict(facts),
        n_instances=int(change_mask(attempts.instance).sum()),
        n_samples=int(attempts.sample_starts().sum()),
        n_attempts=len(attempts),
        n_clusters=int(np.count_nonzero(np.bincount(attempts.cluster))),
        outcomes=_count_outcomes(attempts),
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


def _count_outcomes(attempts: AttemptTable) -> dict[Outcome, int]:
    counts = np.bincount(attempts.outcome, minlength=len(OUTCOMES)).tolist()
    outcomes = dict(zip(OUTCOMES, counts, strict=True))
    if not outcomes["crashed"]:  # earlier versions cannot read this outcome
        del outcomes["crashed"]
    return outcomes


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
            members = [facts[member] for member in panel.members if member in facts]
            families = dict.fromkeys(member.family for member in members)
            family = ", ".join(filter(None, families)) or None
            facts[name] = JudgeFacts(family=family, of=panel.members, **_call_fields(NO_CALLS))
    return facts


def _turn_rates(
    attempts: AttemptTable, weights: Mapping[str, str]
) -> Iterator[tuple[int, TurnRate]]:
    """Yield the number of each turn, and the statistics of its answers."""
    for turn in np.unique(attempts.round).tolist():
        answers = select_round(attempts, turn)
        fields = _group_fields(answers, "", weights)[()]
        rate = asdict(fields["overall"])
        yield turn, TurnRate(n_answers=len(answers), **rate, scores=fields["scores"])


def _group_statistics(
    attempts: AttemptTable, label: str, measure: str, weights: Mapping[str, str]
) -> dict[str, Group]:
    groups = Groups.from_labels(attempts.instances, label)
    present = attempts.instance[change_mask(attempts.instance)]
    present = present[groups.group_of_instance[present] >= 0]
    digests = np.zeros(len(groups.names), np.int64)  # of the ids of each group's instances
    np.bitwise_xor.at(
        digests, groups.group_of_instance[present], attempts.instances.digest[present]
    )
    digest_of_key = dict(zip(groups.names, digests.tolist(), strict=True))
    statistics: dict[str, Group] = {}
    for key, fields in _group_fields(attempts, measure, weights, label).items():
        digest = f"{digest_of_key[key] & 2**64 - 1:016x}"
        rate = asdict(fields.pop("overall"))
        statistics[key[0]] = Group(instances=digest, **rate, **fields)
    return statistics


def _group_fields(
    attempts: AttemptTable, measure: str, weights: Mapping[str, str], *labels: str
) -> dict[Key, dict[str, Any]]:
    """Return the statistics of each group of ``labels``, as fields of `Metrics` and `Group`.

    Args:
        attempts: The attempts of all groups.
        measure: The primary metric, or "" for the pass rate.
        weights: The names of the scores that weight other scores, by these scores.
        labels: The labels. Without labels, the result has the only key ``()``.
    """
    last = attempts.last_rounds()
    groups = Groups.from_labels(attempts.instances, *labels)
    means = _means_by_score(last, groups, measure, weights, *labels)
    rates = _rates(last, groups)
    pass_k = _pass_k_fields(last, groups)
    if attempts.turns is not None:  # which are not rounds
        attempts = dataclasses.replace(last, round=np.ones_like(last.round))
    rounds = _round_statistics(attempts, groups)
    fields: dict[Key, dict[str, Any]] = {}
    for index, n in enumerate(groups.sizes(last)):
        if not n and groups.names[index]:
            continue
        scores = {}
        if n:
            scores = _measured_means({name: by_group[index] for name, by_group in means.items()})
        fields[groups.names[index]] = {
            "overall": rates[index],
            "scores": scores,
            "rounds": rounds[index],
            **pass_k[index],
        }
    return fields


def _means_by_score(
    samples: AttemptTable,
    groups: Groups,
    measure: str,
    weights: Mapping[str, str],
    *labels: str,
) -> dict[str, dict[int, SampleStatistic]]:
    """Return the mean of each score in each group, by the score's name and the group's index."""
    means = {name: groups.means(samples, name) for name in samples.scores}
    for name, weight in weights.items():
        if name in means and weight in means:
            weighted = weighted_mean_by_group(samples, name, weight, *labels)
            means[name] = {index: weighted[groups.names[index]] for index in means[name]}
    measured_rows = rows_for_score(samples, measure)
    if measured_rows is not samples:
        means[measure] = groups.means(measured_rows, measure)
    return means


def _rates(samples: AttemptTable, groups: Groups) -> list[Rate]:
    """Return the pass rate of each group, by the group's index."""
    n_passed = groups.sizes(samples.take(samples.passed == 1))
    estimates = groups.estimates(samples, PASS_RATE)
    cluster_rates = groups.cluster_rates(samples)
    rates = []
    for index, n in enumerate(groups.sizes(samples)):
        estimate = estimates.get(index, Estimate())
        cluster_rate = cluster_rates.get(index, Estimate())
        rate = Rate(
            **asdict(estimate.over_samples(n, share=True)),
            naive_stderr=estimate.naive_stderr,
            pass_rate_errors_as_failures=n_passed[index] / n if n else None,
            cluster_rate=cluster_rate.mean,
            cluster_rate_stderr=cluster_rate.stderr,
        )
        rates.append(rate)
    return rates


def _measured_means(statistics: Mapping[str, SampleStatistic]) -> dict[str, Mean]:
    return {name: Mean(**asdict(mean)) for name, mean in statistics.items() if mean.n}


def _pass_k_fields(samples: AttemptTable, groups: Groups) -> list[dict[str, Any]]:
    """Return the fields with pass@k and pass^k for each group, by the group's index."""
    judged = samples.take(samples.has_verdict & (groups.group_of_instance[samples.instance] >= 0))
    counts = np.bincount(judged.instance).astype(np.int32)
    (instances,) = counts.nonzero()
    drawn = counts[instances]
    group = groups.group_of_instance[instances]
    passed = np.bincount(judged.instance, weights=judged.passed)[instances].astype(np.int32)
    fields_by_group: list[dict[str, Any]] = []
    for n in np.bincount(group, minlength=len(groups.names)).tolist():
        fields_by_group.append({"pass_at_k_instances": n, "pass_at_k_n": {}})
        for name in ("pass_at_k", "pass_hat_k"):
            fields_by_group[-1] |= {name: {}, f"{name}_stderr": {}, f"{name}_ci95": {}}
    k_before = 0
    for k_max in np.unique(drawn).tolist():  # few distinct numbers of samples
        rows = drawn >= k_max
        unit = groups.unit_of_instance[instances[rows]]
        for name, estimator in (("pass_at_k", pass_at_k), ("pass_hat_k", pass_hat_k)):
            for k, values in enumerate(estimator(drawn[rows], passed[rows], k_max), start=1):
                if k <= k_before:  # already estimated from all instances with k samples
                    continue
                for index, estimate in clustered_means(values, unit, groups.group_of_unit).items():
                    fields = fields_by_group[index]
                    fields["pass_at_k_n"][k] = estimate.n
                    fields[name][k] = estimate.mean
                    fields[f"{name}_stderr"][k] = estimate.stderr
                    fields[f"{name}_ci95"][k] = estimate.ci95
        k_before = k_max
    return fields_by_group


def _round_statistics(attempts: AttemptTable, groups: Groups) -> list[Rounds]:
    """Return the statistics by round for each group, by the group's index."""
    judged = attempts.take(attempts.has_verdict)
    follows = ~judged.sample_starts()[1:] & (np.diff(judged.round) == 1)
    change = np.zeros(len(judged), np.int8)
    np.subtract(judged.passed[1:], judged.passed[:-1], out=change[1:], where=follows)
    fields = Rounds.__struct_fields__
    rounds_by_group = [Rounds(**{field: {} for field in fields}) for _ in groups.names]
    for k in np.bincount(judged.round).nonzero()[0].tolist():
        any_of_first_k = groups.means(best_of_first_rounds(judged, k), PASS_RATE)
        in_round = judged.round == k
        fixed = groups.sizes(judged.take((change == 1) & in_round))
        broken = groups.sizes(judged.take((change == -1) & in_round))
        for index, rate in groups.means(select_round(judged, k), PASS_RATE).items():
            rounds = rounds_by_group[index]
            any_rate = any_of_first_k[index]
            if rate.mean is None or any_rate.mean is None:
                continue
            if rounds.n:  # the group has an earlier round
                rounds.fixed[k] = fixed[index]
                rounds.broken[k] = broken[index]
            rounds.each[k] = rate.mean
            rounds.each_stderr[k] = rate.stderr
            rounds.n[k] = rate.n
            rounds.any_of_first_k[k] = any_rate.mean
            rounds.any_of_first_k_n[k] = any_rate.n
            rounds.any_of_first_k_stderr[k] = any_rate.stderr
    return rounds_by_group


def read_metrics(folder: RunFolder, manifest: dict[str, Any]) -> Metrics | None:
    """Return a run's metrics with its current progress, or None if it has no metrics yet.

    If they are missing, or a file of the run was changed after they were written, they are computed
    again, without groups.

    Args:
        folder: The run's folder.
        manifest: The content of its manifest.

    Raises:
        HarnessError: If a file of the run is unreadable.
    """
    check_settings(folder.path)
    n_owed = folder.count_unfinished(manifest)  # None: the run grows, or was killed
    metrics = None
    with convert_read_errors(folder.metrics):
        if folder.metrics.exists():
            metrics = decode_metrics(read_file(folder.metrics), folder.metrics)
    read_register(folder.path)  # raises an error if a judge is missing in it
    if metrics is None and (n_owed is None or not folder.attempts.exists()):
        return None
    if metrics is not None and (
        n_owed is None or (metrics.run == folder.name and is_unchanged(folder, manifest))
    ):
        complete, n_planned = folder.progress(manifest)
        return replace(metrics, complete=complete, n_planned=n_planned, n_owed=n_owed)
    return compute_metrics(folder, grouped=False)
