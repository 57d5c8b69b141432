"""The overview of a page's runs, as one document for the report and the live view.

The page draws this document, and computes no statistics itself.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterator, Mapping, Sequence
from datetime import datetime

from msgspec.structs import replace

from harness.analysis.breakdown import is_verdict, mean_score
from harness.analysis.failures import fence_hint
from harness.analysis.identical_samples import IDENTICAL_SAMPLES_PREFIX
from harness.analysis.metrics import PASS_RATE, SampleStatistic, all_cached_note
from harness.analysis.self_preference import self_preference_warnings
from harness.plugins.comparisons.comparison_document import (
    ShownUnit,
    captions,
    details,
    explained,
    score_name,
    serious,
    which_round,
)
from harness.plugins.comparisons.costs import Latencies
from harness.plugins.comparisons.p_values import ALPHA
from harness.plugins.comparisons.run_comparison import RunComparison
from harness.plugins.comparisons.run_differences import CONFOUNDED
from harness.plugins.report.answer import headline_of
from harness.plugins.report.figure import Figure
from harness.plugins.report.parts import (
    ComparisonOverview,
    Difference,
    FailureShare,
    Mark,
    Overview,
    RateValue,
    RunOverview,
    ScoreKind,
    ScoreMean,
    WithoutJudges,
    table_part,
)
from harness.plugins.report.runs import NOT_VALIDATED, Reported, ReportedRun, shortened, unit_of
from harness.plugins.report.sections import differences, origins, packages, sections, settings
from harness.records import OUTCOMES
from harness.report.runs import common_prefix
from harness.report.table import Column
from harness.report.text import escape_unprintable
from harness.wording import join_with_and

MOST_REASONS = 20  # reasons for failures listed, over all runs
_NOTES = {
    "SIMULATED": "The answers are made up and say nothing about any model.",
    "INCOMPLETE": "The figures cover only the samples begun; the rest, and rounds to come, may "
    "change them.",
    CONFOUNDED: "The prompts differ in more than the form of the answer.",
}
_INTERVALS = (
    "Intervals are 95% and, like standard errors, account for clusters: samples of one prompt are "
    "not independent. Rates have Clopper and Pearson's interval for the effective sample size.",
    "Not judged: an infrastructure error or a failed judge, which does not count as a failed "
    "answer. Refused, empty, truncated and unparseable answers fail.",
    f"Statistically tied: p of at least {ALPHA}, by Holm's method for more than two runs. "
    "Intervals are not adjusted.",
)


def overview(
    reported: Reported,
    title: str,
    made_at: datetime,
    *,
    figures: Sequence[Figure] = (),
    included: Sequence[int] | None = None,
) -> Overview:
    """Build the overview of some runs, without the common prefix of their names.

    ``included`` counts the attempts of each run on the page (default: all).
    """
    full_names = [run.name for run in reported.runs]
    reported = shortened(reported)
    runs = reported.runs
    unit = unit_of(runs)
    frequent = _frequent(runs)
    included = included or [len(run.attempts) for run in runs]
    overviews = []
    groups: dict[str, Mapping[str, str]] = {}
    for run, full_name, n in zip(runs, full_names, included, strict=True):
        overviews.append(_run(run, full_name, n, runs, frequent))
        groups |= run.explanations
    marks = list(_marks(runs, reported.comparison))
    method = [*_INTERVALS]
    comparison = None
    if reported.comparison is not None:
        method += _method(reported.comparison, unit)
        comparison = _comparison(reported.comparison, unit)
    differing_settings = differences(runs)
    difference_table = None
    if differing_settings is not None:
        difference_table = table_part(differing_settings, unit)
    provenance = [table_part(origins(runs), unit)]
    provenance.append(table_part(settings(runs), unit, folded=True))
    provenance.append(table_part(packages(runs), unit, folded=True))
    return Overview(
        title=title,
        made_at=made_at,
        digits=unit.digits,
        answer=headline_of(reported, overviews, marks, unit),
        marks=marks,
        warnings=_warnings(reported.comparison, runs, unit),
        prefix=common_prefix(full_names),
        runs=overviews,
        differences=difference_table,
        comparison=comparison,
        sections=sections(reported, unit, figures),
        judges=dict(_validated(runs)),
        groups=groups,
        method=method,
        provenance=provenance,
    )


def _run(
    run: ReportedRun,
    full_name: str,
    included: int,
    runs: Sequence[ReportedRun],
    frequent: Container[str],
) -> RunOverview:
    metrics = run.metrics
    primary = metrics.primary()
    measure = metrics.measure or "pass rate"
    if any(any_run.last_round > 1 for any_run in runs):
        measure += ", last round"
    failed = _failed(run)
    n_failed_calls = _failed_calls(run, failed)
    document = RunOverview(
        name=run.name,
        full_name=full_name,
        task=metrics.task,
        model=metrics.model or "",
        marks=list(run.marks),
        recorded=run.recorded,
        samples=metrics.n_samples,
        planned=metrics.n_planned,
        attempts=metrics.n_attempts,
        included=included,
        rate=RateValue(n=primary.n, **_value(primary)),
        measure=measure,
        unit=_unit(run, metrics.measure or PASS_RATE),
        scores=list(_scores(run)),
        failures=list(_failures(run, frequent)),
        n_failed=len(failed) - n_failed_calls,
        n_failed_calls=n_failed_calls,
        without=_without_judges(run),
        not_judged=metrics.overall.missing if metrics.overall.n else primary.missing,
        outcomes={outcome: metrics.outcomes.get(outcome, 0) for outcome in OUTCOMES},
        cost_usd=metrics.cost_usd,
        computed_usd=metrics.computed_usd,
        cost_per_solved_usd=metrics.cost_per_solved_usd,
        latency_s=_times(run.latencies),
        sample_s=_times(run.sample_times or run.latencies),
        calls=metrics.n_calls + metrics.n_crashed_calls,
    )
    if run.recorded:
        document = replace(document, cost_usd=None, cost_per_solved_usd=None)
    return document


def _unit(run: ReportedRun, score: str) -> str:
    return "%" if run.is_share(score) else ""


def _times(latencies: Latencies | None) -> dict[str, float] | None:
    if latencies is None:
        return None
    return {"median": latencies.median, "p95": latencies.quantiles[95]}


def _value(statistic: SampleStatistic) -> dict[str, float | None]:
    low, high = statistic.ci95 or (None, None)
    return {"value": statistic.mean, "low": low, "high": high}


def _scores(run: ReportedRun) -> Iterator[ScoreMean]:
    for name in run.attempts.scores:
        mean = run.metrics.scores.get(name) or SampleStatistic(missing=run.metrics.n_samples)
        yield ScoreMean(
            name=name,
            kind=score_kind(run, name),
            n=mean.n,
            missing=mean.missing,
            unit=_unit(run, name),
            **_value(mean),
        )


def score_kind(run: ReportedRun, score: str) -> ScoreKind:
    """Return a score's source: "panel", "judge", "check" (a verdict) or "score" (a number)."""
    for name, judge in run.metrics.judges.items():
        if score.startswith(f"{name}."):
            return "panel" if judge.of else "judge"
    return "check" if is_verdict(run.attempts, score) else "score"


def _validated(runs: Sequence[ReportedRun]) -> Iterator[tuple[str, str]]:
    """Yield judges, each with a note: its agreement with human labels, or that there are none.

    Judges whose labels have not been read or compared are left out.
    """
    judges: dict[str, None] = {}
    for run in runs:
        judges |= dict.fromkeys(run.metrics.judges)
    for name in judges:
        texts = []
        validated: set[bool] = set()
        for run in runs:
            for _, section in run.added:
                note = section.judge_note(name)
                if note is None:
                    continue
                validated.add(note != NOT_VALIDATED)
                if note not in ("", NOT_VALIDATED):
                    texts.append(f"{note}, in {run.name}" if len(runs) > 1 else note)
        if texts:
            yield name, "; ".join(texts)
        elif validated == {False}:
            yield name, NOT_VALIDATED


def _without_judges(run: ReportedRun) -> WithoutJudges | None:
    """Return a run's verdicts without the deciding judges that a plug-in's section doubts.

    The result is None if there are none, or if the primary metric is not the pass rate.
    """
    names = []
    for name, judge in run.index.register.judges.items():
        if judge.decides and any(section.doubts(name) for _, section in run.added):
            names.append(name)
    if not names or run.metrics.measure:
        return None
    rest = run.index.attempts_without(names).last_rounds()
    failed = run.attempts.last_rounds().passed == 0
    alone = failed & (rest.passed != 0)
    return WithoutJudges(
        judges=names,
        value=mean_score(rest, PASS_RATE).mean,
        failed=int(failed.sum()),
        alone=int(alone.sum()),
    )


def _failed(run: ReportedRun) -> list[int]:
    """Return the row numbers of samples' last attempts that failed."""
    failures = run.failures.of
    if not failures:
        return []
    return [row for row in run.index.last_rounds().tolist() if row in failures]


def _failed_calls(run: ReportedRun, rows: Sequence[int]) -> int:
    """Return the number of attempts in ``rows`` whose calls failed."""
    return int((run.attempts.outcome[rows] == OUTCOMES.index("error")).sum())


def _frequent(runs: Sequence[ReportedRun]) -> dict[str, None]:
    """Return the most frequent reasons for failures, over all runs."""
    counts = Counter[str]()
    for run in runs:
        for row in _failed(run):
            for kind in run.failures.of[row]:
                counts[run.failures.reasons[kind]] += 1
    return dict.fromkeys(reason for reason, _ in counts.most_common(MOST_REASONS))


def _of_call(reason: str) -> bool:
    return reason.startswith("error: ")


def _failures(run: ReportedRun, frequent: Container[str]) -> Iterator[FailureShare]:
    failures = run.failures
    failed = _failed(run)
    n_failed_calls = _failed_calls(run, failed)
    rows_by_kind: dict[str, list[int]] = {}
    for row in failed:
        for kind in failures.of[row]:
            rows_by_kind.setdefault(kind, []).append(row)

    def by_answers_first(kind: str) -> tuple[bool, int]:
        return _of_call(failures.reasons[kind]), -len(rows_by_kind[kind])

    for kind in sorted(rows_by_kind, key=by_answers_first):
        reason = failures.reasons[kind]
        rows = rows_by_kind[kind]
        if reason not in frequent:
            continue
        example = rows[0]
        for row in rows:
            if len(failures.of[row]) == 1:  # an example of this reason alone
                example = row
                break
        hint = ""
        if reason.startswith("unparseable: ") and "JSON" in reason:
            hint = fence_hint(run.index, run.settings)
        total = len(failed) - n_failed_calls
        if _of_call(reason):
            total = n_failed_calls
        yield FailureShare(
            reason=reason,
            n=len(rows),
            of=total,
            hint=hint,
            example=failures.names[example],
            alone=len(failures.of[example]) == 1,
            filter={"where": run.name, "reason": reason},
        )


def _marks(runs: Sequence[ReportedRun], comparison: RunComparison | None) -> Iterator[Mark]:
    marks_by_run = {run.name: list(run.marks) for run in runs}
    if comparison is not None:
        for against in comparison.others:
            marks_by_run.setdefault(against.run, []).extend(against.marks)
    runs_by_mark: dict[str, dict[str, None]] = {}
    for name, marks in marks_by_run.items():
        for mark in marks:
            runs_by_mark.setdefault(mark, {})[name] = None
    for mark, names in runs_by_mark.items():
        word, _, _ = mark.partition(" ")
        yield Mark(mark, list(names), _NOTES.get(word, ""))


def _warnings(
    comparison: RunComparison | None, runs: Sequence[ReportedRun], unit: ShownUnit
) -> list[str]:
    """Return warnings about unfair comparisons and the limits of the figures."""
    warnings = []
    cautions = []
    cached = []
    for run in runs:
        warnings += [f"{run.name}: {note}." for note in self_preference_warnings(run.metrics)]
        cautions += [f"{run.name}: {caution}" for caution in run.metrics.cautions]
        if run.metrics.from_cache:
            cached.append(run.name)
    warnings += cautions
    if cached:
        warnings.append(all_cached_note(", ".join(cached)))
    if comparison is not None:
        for note in serious(comparison.notes):
            if not note.startswith(IDENTICAL_SAMPLES_PREFIX):  # the runs' cautions report them
                warnings.append(note)
        warnings += _different_models(runs)
        warnings += unequal(comparison, runs)
    if comparison is None or comparison.asked.round != 1:
        warnings += _unaided(runs, unit)
    return warnings


def _different_models(runs: Sequence[ReportedRun]) -> Iterator[str]:
    """Yield a sentence on which runs use which model, if the models differ."""
    names: dict[str, list[str]] = {}
    for run in runs:
        names.setdefault(run.metrics.model or "an unknown model", []).append(run.name)
    if len(names) > 1:
        models = [f"{model} ({join_with_and(same)})" for model, same in names.items()]
        yield escape_unprintable(f"The runs use different models: {join_with_and(models)}.")


def _unaided(runs: Sequence[ReportedRun], unit: ShownUnit) -> Iterator[str]:
    """Yield a warning about gains over rounds of feedback, if there are several rounds."""
    several = [run for run in runs if run.last_round > 1]
    if not several:
        return
    warning = (
        "Feedback between rounds tells the model what the checks found, and the same checks score "
        "its next answer: a gain over rounds is not a gain in unaided ability."
    )
    first_answers = []
    for run in several:
        rates = run.metrics.rounds.each
        if not run.metrics.measure and 1 in rates:
            first_answers.append(f"{run.name} {unit.show(rates[1], Column('', rate=True))}")
    if first_answers:
        warning += f" First answers pass: {join_with_and(first_answers)}."
    yield escape_unprintable(warning)


def _comparison(comparison: RunComparison, unit: ShownUnit) -> ComparisonOverview:
    rows = []
    for against in comparison.others:
        overall = against.overall
        low, high = overall.ci95 or (None, None)
        difference = Difference(
            run=against.run,
            difference=overall.difference,
            low=low,
            high=high,
            p=overall.p_value,
            p_adjusted=overall.p_adjusted,
            better=overall.better,
            worse=overall.worse,
            n=overall.n,
        )
        rows.append(difference)
    return ComparisonOverview(
        baseline=comparison.baseline,
        score=score_name(comparison.asked.score),
        unit=unit.sign,
        round=comparison.asked.round,
        rows=rows,
        notes=list(captions(comparison)),
    )


def _method(comparison: RunComparison, unit: ShownUnit) -> Iterator[str]:
    yield from captions(comparison)
    for against in comparison.others:
        sentences = " ".join(details(against, comparison, unit))
        if sentences:
            yield f"{against.run}: {sentences}"


def unequal(comparison: RunComparison, runs: Sequence[ReportedRun]) -> Iterator[str]:
    """Yield a warning for each way in which the runs differ: rounds, samples or instances."""
    options = comparison.asked
    rounds = _several(runs, "rounds.max", [run.last_round for run in runs])
    if rounds:
        used = f"each sample's {which_round(options.round)}"
        if options.round == 1:
            used = "first rounds"
        yield f"The runs have {rounds} rounds; the comparison uses {used}."
    n_samples = [int(run.attempts.sample.max(initial=0)) + 1 for run in runs]
    samples = _several(runs, "samples", n_samples)
    if samples:
        used = "each instance's mean"
        if explained(options.score):
            used = options.score
        elif options.score == PASS_RATE:
            used = "each instance's share of passed samples"
        yield f"The runs have {samples} samples per instance; the comparison uses {used}."
    for against in comparison.others:
        if against.overall.only_first or against.overall.only_second:
            sizes = ", ".join(f"{run.name} {run.metrics.n_instances:,}" for run in runs)
            yield (
                f"The runs do not have the same instances ({sizes}). Tables and figures of a run "
                "cover all of its instances; the comparison covers those that both runs have."
            )
            break


def _several(runs: Sequence[ReportedRun], key: str, defaults: Sequence[int]) -> str:
    """Return a setting's values, such as "1, 2 and 4", or "" if all runs have the same value."""
    values = set()
    for run, default in zip(runs, defaults, strict=True):
        values.add(int(run.settings.get(key) or default))
    if len(values) < 2:
        return ""
    texts = [f"{value:,}" for value in sorted(values)]
    return join_with_and(texts, len(texts))
