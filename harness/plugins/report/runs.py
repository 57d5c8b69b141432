"""The runs in a report, with their comparisons."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, TypeVar

import numpy as np
from msgspec.structs import replace as replaced
from numpy.typing import NDArray

from harness.analysis.breakdown import is_share, rows_for_score
from harness.analysis.metrics import PASS_RATE, Metrics, decode_metrics
from harness.analysis.summary import compute_metrics
from harness.config.settings import mask_secrets
from harness.declarations import DISTRIBUTION, PluginMember, declared_members, describe_exception
from harness.errors import HarnessError
from harness.plugins.comparisons.comparable import (
    Run,
    Variant,
    common_labels,
    refuse_unknown_score,
    variant_of,
)
from harness.plugins.comparisons.comparison_document import ShownUnit
from harness.plugins.comparisons.constraints import (
    NO_FINDINGS,
    ConstraintFindings,
    ConstraintKind,
    kinds,
    read_findings,
)
from harness.plugins.comparisons.costs import Latencies, TimedLine, latencies, read_latencies
from harness.plugins.comparisons.pair_matrix import (
    InducedRankings,
    PairMatrix,
    induced_rankings,
    pair_matrix,
    with_planned,
)
from harness.plugins.comparisons.run_comparison import (
    ComparisonOptions,
    RunComparison,
    compare_runs,
)
from harness.plugins.comparisons.suite import Suite, suite_of
from harness.plugins.report.entries import (
    NO_FAILURES,
    Failures,
    RecordedTask,
    merged,
    read_failures,
)
from harness.plugins.report.figure import Figure
from harness.ports import Effect
from harness.report.run_tables import REFERENCE_COLUMNS, reference_cells
from harness.report.runs import common_prefix
from harness.report.table import Note, Table, table
from harness.store.calls import RunCalls
from harness.store.columns import AttemptTable
from harness.store.files import read_file
from harness.store.index import AttemptIndex
from harness.store.run_folder import RunFolder

NOT_VALIDATED = "not validated against human labels"


class ReportSection:
    """What a plug-in adds to a section of a report about one run: a base class.

    Args:
        index: The run's attempts.
        run: The run's name.
        texts: Whether there is time to read the attempts' texts.
    """

    def __init__(self, index: AttemptIndex, run: str, texts: bool) -> None:
        self.index = index
        self.texts = texts

    def tables(self, run: str) -> Iterator[Table | Note]:
        """Yield tables and notes. ``run`` is the run's name as it is shown."""
        yield from ()

    def figures(self) -> Iterator[Figure]:
        """Yield figures. This is called only if figures can be drawn."""
        yield from ()

    def judge_note(self, judge: str) -> str | None:
        """Return whether a judge was validated: a text, `NOT_VALIDATED`, or "" if unknown.

        The result is None if this section does not say.
        """
        return None

    def doubts(self, judge: str) -> bool:
        """Return whether the verdicts of a judge of the run should not be trusted yet."""
        return False


S = TypeVar("S")


class IsolatedSection(ReportSection):
    """Another package's section. If it raises an exception, a note of the page says so.

    Attributes:
        problem: A sentence about the first exception, or "".
    """

    def __init__(self, member: PluginMember, name: str, index: AttemptIndex, run: str, texts: bool):
        super().__init__(index, run, texts)
        self.problem = ""
        self._where = f"The section {name!r} of {member.package}"
        self._section = ReportSection(index, run, texts)
        self._section = self._call(lambda: member.load()(index, run, texts), self._section)

    def _call(self, function: Callable[[], S], default: S) -> S:
        """Call a function of the section, and return ``default`` if it raises an exception."""
        try:
            return function()
        except Exception as error:  # a third party's code may raise anything
            if not self.problem:  # pages are shared, and an exception may quote a key
                self.problem = f"{self._where} failed ({mask_secrets(describe_exception(error))})."
            return default

    def tables(self, run: str) -> Iterator[Table | Note]:
        """Yield the section's tables and notes and, if it failed, a note that says so."""
        yield from self._call(lambda: _of_types(self._section.tables(run), Table, Note), [])
        if self.problem:
            yield Note(self.problem)

    def figures(self) -> Iterator[Figure]:
        """Yield the section's figures."""
        yield from self._call(lambda: _of_types(self._section.figures(), Figure), [])

    def judge_note(self, judge: str) -> str | None:
        """Return the section's note on a judge."""
        return self._call(lambda: self._section.judge_note(judge), None)

    def doubts(self, judge: str) -> bool:
        """Return whether the section doubts the verdicts of a judge."""
        return self._call(lambda: self._section.doubts(judge), False)


def _of_types(parts: Iterable[Any], *types: type) -> list[Any]:
    """Return the parts of a section. Raise TypeError if one is not of these types."""
    checked = []
    for part in parts:
        if not isinstance(part, types):
            expected = " nor a ".join(kind.__name__ for kind in types)
            raise TypeError(f"a {type(part).__name__} is no {expected}")
        checked.append(part)
    return checked


def _sections(index: AttemptIndex, run: str, texts: bool) -> Iterator[tuple[str, ReportSection]]:
    """Yield what plug-ins add to the report of a run, with the sections' names."""
    for name, members in declared_members("report_sections").items():
        for member in members:
            if member.package == DISTRIBUTION:
                yield name, member.load()(index, run, texts)
            else:
                yield name, IsolatedSection(member, name, index, run, texts)


MOST_NAMED = 4  # runs named in a title


def run_title(names: Sequence[str]) -> str:
    """Return a title that names the runs (or their number) after their common prefix."""
    start = common_prefix(names)
    title = f"{len(names)} runs"
    if len(names) <= MOST_NAMED:
        title = ", ".join(name.removeprefix(start) for name in names)
    if start:
        title = f"{start.removesuffix('.')}: {title}"
    return title


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
    added: Sequence[tuple[str, ReportSection]] = ()  # by plug-ins, with the sections' names
    explanations: Mapping[str, Mapping[str, str]] = field(default_factory=dict)  # by label, group
    answers: RecordedTask | None = None

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
        return is_share(rows_for_score(self.attempts.last_rounds(), score), score)

    @property
    def last_round(self) -> int:
        """The highest round of any attempt, or 0 without attempts. Turns are not rounds."""
        return self.attempts.max_round


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
    options: ComparisonOptions,
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
        options: What to compare.
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
        variant, run, run_findings = _read(folder, index, options, texts=texts, quick=quick)
        variants.append((variant, index.attempts))
        runs.append(run)
        findings[folder.name] = run_findings
    for place, failures in enumerate(merged([run.failures for run in runs])):
        runs[place] = replace(runs[place], failures=failures)
    if quick or len(runs) < 2:
        return Reported(runs)
    if len({run.metrics.task for run in runs}) > 1 and not (baseline or options.by):
        return Reported(runs, suite=suite_of(variants))
    if not options.by:
        labels = common_labels(run.metrics for run in runs)
        options = replaced(options, by=next(iter(labels), ""))
    if not all(len(run_findings.table) for run_findings in findings.values()):
        findings = {}
    comparison = compare_runs(variants, options, baseline, findings=findings)
    pairs = pair_matrix(variants, options.score, round_=options.round, cluster=options.cluster)
    rankings = None  # for three runs, tau-b has few possible values
    n_groups = len(runs[0].metrics.groups.get(options.by, ()))
    if len(runs) > 3 and 1 < n_groups <= MOST_RANKED:
        rankings = induced_rankings(variants, options.score, options.by, round_=options.round)
    return Reported(runs, comparison, with_planned(pairs, comparison), rankings)


def _read(
    folder: RunFolder, index: AttemptIndex, options: ComparisonOptions, *, texts: bool, quick: bool
) -> tuple[Variant, ReportedRun, ConstraintFindings]:
    """Return a run to compare and to report, and the findings on its constraints."""
    metrics = None
    calls = None
    if not texts:
        metrics = _saved(folder, index)
        calls = RunCalls(n_calls_without_cost=1)
    if metrics is None:
        metrics = compute_metrics(
            folder, index.attempts, calls, grouped=not quick, score=options.score
        )
    variant = variant_of(folder, metrics)
    if options.score:
        refuse_unknown_score(variant, index.attempts, options.score)
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
        added=list(_sections(index, folder.name, texts)),
    )
    if not texts:
        return variant, run, NO_FINDINGS
    findings = read_findings(index, options.round)
    run = replace(
        run,
        latencies=latencies(read_latencies(index)),
        constraints=kinds(findings),
        without_constraints=findings.without,
        failures=read_failures(index),
    )
    if (index.attempts.round > 1).any():
        run = replace(run, sample_times=latencies(sample_seconds(index)))
    return variant, run, findings


def _saved(folder: RunFolder, index: AttemptIndex) -> Metrics | None:
    """Return a run's saved metrics, or None if they are missing or do not cover the index."""
    with contextlib.suppress(HarnessError, OSError):
        metrics = decode_metrics(read_file(folder.metrics), folder.metrics)
        # They cover more if the index does not yet have all attempts.
        latest = folder.metrics.stat().st_mtime_ns >= folder.attempts.stat().st_mtime_ns
        if len(index) == metrics.n_attempts or (latest and len(index) < metrics.n_attempts):
            return metrics
    return None


def shortened(reported: Reported) -> Reported:
    """Return the runs and comparisons without the common prefix of the runs' names."""
    prefix = common_prefix([run.name for run in reported.runs])
    if not prefix:
        return reported
    runs = []
    for run in reported.runs:
        runs.append(replace(run, name=run.name.removeprefix(prefix)))
    comparison = reported.comparison
    if comparison is not None:
        others = []
        for against in comparison.others:
            others.append(replaced(against, run=against.run.removeprefix(prefix)))
        baseline = comparison.baseline.removeprefix(prefix)
        comparison = replaced(comparison, baseline=baseline, others=others)
    matrix = reported.matrix
    if matrix is not None:
        rows = []
        for row in matrix.rows:
            rows.append(replaced(row, run=row.run.removeprefix(prefix)))
        matrix = replaced(matrix, rows=rows)
    return reported._replace(runs=runs, comparison=comparison, matrix=matrix)


def references(runs: Sequence[ReportedRun]) -> Table | None:
    """Build a table of judges' scores of reference answers, or None if no run has such scores."""
    rows = []
    for run in runs:
        for name, statistics in run.metrics.references.items():
            rows.append([run.name, name, *reference_cells(statistics)])
    if not rows:
        return None
    title = "Reference answers, and each run's own"
    return table(["run", "score", *REFERENCE_COLUMNS], rows, title=title, names=2)


def sample_seconds(index: AttemptIndex) -> NDArray[np.float64]:
    """Return how many seconds the calls of each sample's rounds took together.

    A cached reply counts with its call's duration, and a crash with the time until it. Samples
    with a failed call, or one of unknown duration, are left out. Judges' calls do not count.
    """
    lines = index.read(TimedLine, np.arange(len(index)))
    durations = np.array([line.duration for line in lines], np.float64)
    sample = np.cumsum(index.attempts.sample_starts()) - 1
    sums = np.bincount(sample, durations)
    complete: NDArray[np.float64] = sums[~np.isnan(sums)]
    return complete
