"""The runs in a report, and tables of runs for `harness ls`, for costs and for the HTML page."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from os.path import commonprefix
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol

from msgspec.structs import replace as replaced

from harness.analysis.breakdown import is_share, scored
from harness.analysis.comparable import Run, Variant, refuse_unknown_score, variant_of
from harness.analysis.constraints import (
    NO_FINDINGS,
    ConstraintFindings,
    ConstraintKind,
    kinds,
    read_findings,
)
from harness.analysis.failures import NO_FAILURES, Failures, merged, read_failures
from harness.analysis.judge_validation import JudgeValidation, against_people, against_rules
from harness.analysis.metrics import PASS_RATE, Metrics, all_from_cache, from_json
from harness.analysis.panels import PanelFindings, read_panels
from harness.analysis.rankings import InducedRankings, induced_rankings
from harness.analysis.run_comparison import (
    ComparisonOptions,
    PairMatrix,
    RunComparison,
    compare_runs,
    pair_matrix,
    with_planned,
)
from harness.analysis.suite import Suite, suite
from harness.analysis.summary import Latencies, latencies, measure
from harness.errors import ConfigError, HarnessError
from harness.ports import Effect
from harness.records import WITHOUT_REPLY
from harness.report.run_tables import PARTIAL, REFERENCE_COLUMNS, reference_cells
from harness.report.table import Cell, Column, ShownUnit, Table, TableDocument, table
from harness.report.text import (
    COMPUTED,
    interval,
    is_zero,
    number,
    task_shown,
    time_text,
    usd,
    with_error,
)
from harness.store.calls import CallTotals, read_latencies, sample_seconds
from harness.store.columns import AttemptTable
from harness.store.files import read_file
from harness.store.index import AttemptIndex
from harness.store.run_folder import RunFolder
from harness.wording import first_few

MOST_NAMED = 4  # runs named in a title


class TaskAnswers(Protocol):
    """What a report asks a run's task: reference answers, and the scored part of a reply."""

    def reference(self, instance: str, turn: int = 1) -> str | None:
        """Return the reference answer to an instance's turn, or None if none is known."""

    def extracted(self, instance: str, text: str, turn: int = 1) -> str | None:
        """Return the scored part of a reply, or None if all or none of the reply is scored."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportedRun:
    """A run in a report, with its metrics, attempts, settings and findings."""

    name: str
    metrics: Metrics
    marks: Sequence[str]
    index: AttemptIndex
    settings: Mapping[str, Any]
    manifest: Mapping[str, Any]
    latencies: Latencies | None  # of calls
    constraints: Sequence[ConstraintKind]
    effects: Sequence[Effect]  # the figures of the task's paper that the report draws
    sample_times: Latencies | None = None  # of samples with several rounds (`sample_seconds`)
    without_constraints: int = 0  # number of samples whose scores list no constraints
    failures: Failures = NO_FAILURES
    panels: Sequence[PanelFindings] = ()
    validations: Sequence[JudgeValidation] = ()  # of its judges, against rules and human labels
    explanations: Mapping[str, Mapping[str, str]] = field(default_factory=dict)  # by label, group
    answers: TaskAnswers | None = None

    @property
    def attempts(self) -> AttemptTable:
        """The run's attempts as columns."""
        return self.index.attempts

    @property
    def recorded(self) -> bool:
        """Whether recorded answers were replayed."""
        return self.manifest.get("backend") == "replay"

    def is_share(self, score: str) -> bool:
        """Return whether a score's (or `PASS_RATE`'s) values are verdicts or shares."""
        return is_share(scored(self.attempts.last_rounds(), score), score)

    @property
    def last_round(self) -> int:
        """The highest round of any attempt, or 0 without attempts. Turns are not rounds."""
        return self.attempts.most_rounds


FEW = 200  # with fewer samples than this, percentages have no decimals


def unit_of(runs: Sequence[ReportedRun]) -> ShownUnit:
    """Return the unit of the runs' primary metric: per cent if all values are shares."""
    n = max((run.metrics.overall.n for run in runs), default=0)
    shares = all(run.is_share(run.metrics.measure or PASS_RATE) for run in runs)
    return ShownUnit(shares, int(n >= FEW))


MOST_RANKED = 20  # maximum groups whose rankings are drawn


class Reported(NamedTuple):
    """The runs of a report and, if there are enough of them, their comparisons."""

    runs: list[ReportedRun]
    comparison: RunComparison | None = None  # with a baseline
    matrix: PairMatrix | None = None  # of every pair of runs
    rankings: InducedRankings | None = None  # by the groups of the comparison's label
    suite: Suite | None = None  # of the models on each task, for runs of several tasks


def report_on(
    folders: Sequence[RunFolder],
    asked: ComparisonOptions,
    baseline: str = "",
    *,
    indexes: Sequence[AttemptIndex] = (),
    texts: bool = True,
    quick: bool = False,
) -> Reported:
    """Read runs, and compare them with a baseline and with each other.

    Runs of different tasks are compared task by task (``suite``) unless a baseline or a label is
    given.

    Args:
        folders: The runs' folders.
        asked: What to compare.
        baseline: The name of the baseline (default: the first run).
        indexes: The runs' indexes, if they have been read already.
        texts: Whether to read the attempts' texts, which takes long for large runs.
        quick: Whether to omit texts, groups and comparisons.
    """
    variants: list[Run] = []
    runs: list[ReportedRun] = []
    findings: dict[str, ConstraintFindings] = {}
    texts = texts and not quick
    for place, folder in enumerate(folders):
        index = indexes[place] if indexes else AttemptIndex(folder.attempts)
        variant, run, run_findings = _read(folder, index, asked, texts=texts, quick=quick)
        variants.append((variant, index.attempts))
        runs.append(run)
        findings[folder.name] = run_findings
    failures = merged([run.failures for run in runs])
    runs = [
        replace(run, failures=run_failures)
        for run, run_failures in zip(runs, failures, strict=True)
    ]
    if quick or len(runs) < 2:
        return Reported(runs)
    if len({run.metrics.task for run in runs}) > 1 and not (baseline or asked.by):
        return Reported(runs, suite=suite(variants))
    groups = [run.metrics.groups for run in runs]
    shared = (label for label in groups[0] if all(label in run_groups for run_groups in groups))
    asked = replaced(asked, by=asked.by or next(shared, ""))
    if not all(len(run_findings.table) for run_findings in findings.values()):
        findings = {}
    comparison = compare_runs(variants, asked, baseline, findings=findings)
    pairs = pair_matrix(variants, asked.score, round_=asked.round, cluster=asked.cluster)
    rankings = None  # for three runs, tau-b has few possible values
    if len(runs) > 3 and 1 < len(groups[0].get(asked.by, ())) <= MOST_RANKED:
        rankings = induced_rankings(variants, asked.score, asked.by, round_=asked.round)
    return Reported(runs, comparison, with_planned(pairs, comparison), rankings)


def _read(
    folder: RunFolder, index: AttemptIndex, asked: ComparisonOptions, *, texts: bool, quick: bool
) -> tuple[Variant, ReportedRun, ConstraintFindings]:
    """Return a run to compare and to report, and the findings on its constraints."""
    metrics = None if texts else _saved(folder, index)
    if metrics is None:
        calls = None if texts else CallTotals(n_without_cost=1)
        metrics = measure(folder, index.attempts, calls, grouped=not quick, score=asked.score)
    variant = variant_of(folder, metrics)
    if asked.score:
        refuse_unknown_score(variant, index.attempts, asked.score)
    run = ReportedRun(
        name=folder.name,
        metrics=metrics,
        marks=variant.marks,
        index=index,
        settings=variant.settings,
        manifest=folder.read_manifest(),
        latencies=None,
        constraints=(),
        effects=variant.display.effects,
        explanations=variant.display.group_meanings,
    )
    if not texts:
        return variant, run, NO_FINDINGS
    findings = read_findings(index, asked.round)
    several_rounds = (index.attempts.round > 1).any()
    run = replace(
        run,
        latencies=latencies(read_latencies(index)),
        sample_times=latencies(sample_seconds(index)) if several_rounds else None,
        constraints=kinds(findings),
        without_constraints=findings.without,
        failures=read_failures(index),
        panels=read_panels(index),
        validations=_validations(index, folder.name),
    )
    return variant, run, findings


def _validations(index: AttemptIndex, run: str) -> list[JudgeValidation]:
    validations: list[JudgeValidation] = []
    if index.judgements is not None:
        with contextlib.suppress(ConfigError):  # no criterion that both decided on
            validations += against_rules(index, run)
        validations += against_people(index, run)
    return validations


def _saved(folder: RunFolder, index: AttemptIndex) -> Metrics | None:
    """Return a run's saved metrics, or None if they are missing or do not cover the index."""
    with contextlib.suppress(HarnessError, OSError):
        metrics = from_json(read_file(folder.metrics), folder.metrics)
        # They cover more if the index does not yet have all attempts.
        latest = folder.metrics.stat().st_mtime_ns >= folder.attempts.stat().st_mtime_ns
        if len(index) == metrics.n_attempts or (latest and len(index) < metrics.n_attempts):
            return metrics
    return None


def common_start(names: Iterable[str]) -> str:
    """Return the common prefix of names, up to its last dot that is not a decimal point, or ""."""
    every = list(names)
    shared = commonprefix(every) if len(every) > 1 else ""  # noqa: RUF071 (names, not paths)
    while start := shared[: shared.rfind(".") + 1]:
        rests = [name.removeprefix(start).strip() for name in every]
        in_number = start[-2:-1].isdigit() and any(rest[:1].isdigit() for rest in rests)
        if all(rests) and not in_number:
            return start
        shared = start[:-1]
    return ""


def run_title(names: Sequence[str]) -> str:
    """Return a title that names the runs (or their number) after their common prefix."""
    start = common_start(names)
    rests = [name.removeprefix(start) for name in names]
    told = ", ".join(rests) if len(names) <= MOST_NAMED else f"{len(names)} runs"
    return f"{start.removesuffix('.')}: {told}" if start else told


def shortened(reported: Reported) -> Reported:
    """Return the runs and comparisons without the common prefix of the runs' names."""
    runs, comparison, matrix, *_ = reported
    if not (prefix := common_start([run.name for run in runs])):
        return reported
    runs = [replace(run, name=run.name.removeprefix(prefix)) for run in runs]
    if comparison is not None:
        others = [replaced(one, run=one.run.removeprefix(prefix)) for one in comparison.others]
        baseline = comparison.baseline.removeprefix(prefix)
        comparison = replaced(comparison, baseline=baseline, others=others)
    if matrix is not None:
        rows = [replaced(row, run=row.run.removeprefix(prefix)) for row in matrix.rows]
        matrix = replaced(matrix, rows=rows)
    return reported._replace(
        runs=runs,
        comparison=comparison,
        matrix=matrix,
    )


_UNANSWERABLE = "The simulated model knows no correct answer to some or all instances of"


def runs_table(
    runs: Mapping[str, Metrics | None], started: Mapping[str, float] = MappingProxyType({})
) -> Table:
    """Build a table with one row per run.

    ``started`` are the times (epoch seconds) at which the runs started.
    """
    times = {name: time_text(at) for name, at in started.items()}
    rows = [[name, *_run_cells(metrics), times.get(name, "")] for name, metrics in runs.items()]
    columns: list[Column | str | None] = [
        "run",
        Column("task", text=True, hide=2),
        Column("model", text=True),
        "n",
        "rate ± s.e.",
        Column("any of", hide=4) if any(row[5] for row in rows) else None,
        "not judged",
        Column("cost", hide=3),
        Column("started", hide=1) if times else None,
    ]
    known = [metrics.primary() for metrics in runs.values() if metrics]
    incomplete = any(metrics and not metrics.complete for metrics in runs.values())
    notes = [f"INCOMPLETE: {PARTIAL}"] if incomplete else []
    if any(is_zero(one.stderr) and one.ci95 for one in known):
        notes.append("In brackets: the 95% interval if all samples have the same verdict.")
    if any(metrics and metrics.computed_usd for metrics in runs.values()):
        notes.append(COMPUTED)
    if lacking := [name for name, metrics in runs.items() if metrics and metrics.unanswerable]:
        notes.append(f"{_UNANSWERABLE} {first_few(lacking, 3)}.")
    if cached := [name for name, metrics in runs.items() if metrics and metrics.from_cache]:
        notes.append(all_from_cache(first_few(cached, 3)))
    return table(columns, rows, notes=notes)


def runs_document(
    runs: Mapping[str, Metrics | None], started: Mapping[str, float] = MappingProxyType({})
) -> TableDocument:
    """Build a document with the `runs_table`."""
    times = {
        name: {"started_at": datetime.fromtimestamp(at, UTC).isoformat(timespec="seconds")}
        for name, at in started.items()
    }
    records = [
        {"run": name, **(_record(one) if one else {}), **times.get(name, {})}
        for name, one in runs.items()
    ]
    return TableDocument(parts=[runs_table(runs, started)], records=records, data=records)


def _record(metrics: Metrics) -> dict[str, object]:
    found = metrics.primary()
    record = {key: getattr(metrics, key) for key in ("task", "model", "simulated", "complete")}
    record |= {"measure": metrics.measure or "pass_rate"}
    record |= {key: getattr(found, key) for key in ("mean", "stderr", "n", "n_clusters", "missing")}
    low, high = found.ci95 or (None, None)
    record |= {"ci95_low": low, "ci95_high": high}
    costs = {"cost_usd": metrics.cost_usd, "computed_usd": metrics.computed_usd}
    return record | {"n_planned": metrics.n_planned, **costs}


def _run_cells(metrics: Metrics | None) -> list[object]:
    if metrics is None:
        return ["", "", "", Cell("not finished", style="dim"), "", "", ""]
    found = metrics.primary()
    equal = f" ({interval(found.ci95)})" if is_zero(found.stderr) and found.ci95 else ""
    model = Cell(metrics.model or "")
    if metrics.simulated:  # if there is no room for both, the mark matters more than the model
        model = Cell(f"SIMULATED {metrics.model or ''}".strip(), style="bold yellow")
    return [
        task_shown(metrics.task),
        model,
        found.n if metrics.complete else Cell(metrics.progress, style="yellow"),
        f"{metrics.measure or ''} {with_error(found.mean, found.stderr)}{equal}".strip(),
        _any_passed(metrics),
        found.missing,
        usd(metrics.cost_usd, computed=metrics.computed_usd),
    ]


def _any_passed(metrics: Metrics) -> str:
    several = {"samples": metrics.pass_at_k, "rounds": metrics.rounds.any_of_first_k}
    for unit, series in several.items():
        if (last := max(series, default=1)) > 1:
            return f"{number(series[last])} of {last:,} {unit}"
    return ""


def cost_table(runs: Sequence[tuple[Metrics, Latencies | None]]) -> Table:
    """Build a table of runs' calls, tokens, latencies (s) and costs."""
    cached = any(metrics.own_calls.n_cached_calls for metrics, _ in runs)
    played = any(metrics.user_calls for metrics, _ in runs)
    judged = any(judge.n_calls for metrics, _ in runs for judge in metrics.judges.values())
    rows: list[list[object]] = []
    for metrics, took in runs:
        own, user = metrics.own_calls, metrics.user_calls
        usage, counted = own.usage, own.n_calls - own.n_calls_without_usage
        tokens = f"{usage.input_tokens:,}, {usage.output_tokens:,}" if usage else None
        each = f"{usage.output_tokens / counted:,.1f}" if usage and counted else None
        seconds = f"{took.median:.2f}, {took.quantiles[95]:.2f}" if took else None
        cost = None if own.cost_usd is None else usd(own.cost_usd, computed=own.computed_usd)
        failed = sum(metrics.outcomes.get(outcome, 0) for outcome in WITHOUT_REPLY)
        calls = [own.n_calls + own.n_crashed_calls, own.n_cached_calls, failed]
        others = [None if user is None else usd(user.cost_usd), usd(metrics.judging_usd)]
        rows.append([metrics.run, *calls, tokens, each, seconds, cost, *others])
    note = (
        "Each call counts once, even if attempts share it. cached: calls made by other runs, at "
        "the cost that these paid. Seconds: median and 95th percentile of "
        "calls that were answered or crashed, excluding answers from the cache. failed: attempts "
        "without an answer."
    )
    notes = [note, *[COMPUTED] * any(metrics.own_calls.computed_usd for metrics, _ in runs)]
    columns: list[Column | str | None] = [
        *("run", "calls", Column("cached") if cached else None, "failed"),
        *("tokens in, out", "out a call", "median, 95% s", "cost"),
        "user's cost" if played else None,
        "judges' cost" if judged else None,
    ]
    if played or judged:
        notes.append("calls, failed, tokens, seconds and cost: of the run's own model alone.")
    return table(columns, rows, notes=notes)


def references(runs: Sequence[ReportedRun]) -> Table | None:
    """Build a table of judges' scores of reference answers, or None if no run has such scores."""
    rows = [
        [run.name, name, *reference_cells(found)]
        for run in runs
        for name, found in run.metrics.references.items()
    ]
    title = "Reference answers, and each run's own"
    return table(["run", "score", *REFERENCE_COLUMNS], rows, title=title, names=2) if rows else None
