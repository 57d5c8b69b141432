"""A run's metrics, and inputs for comparisons and reports, from the run's folder.

A killed run has written no metrics: they are always computed from its attempts.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from harness.analysis.metrics import Metrics
from harness.analysis.summary import RunFacts, summarise
from harness.store.calls import NO_CALLS, CallTotals, read_columns
from harness.store.columns import AttemptTable
from harness.store.index import AttemptIndex, read_attempts
from harness.store.run_folder import JUDGES, REFERENCES, RunFolder

if TYPE_CHECKING:  # heavy, and no part of a run
    from harness.analysis.comparable import Variant
    from harness.analysis.run_comparison import ComparisonOptions, RunComparison
    from harness.ports import Effect
    from harness.report.runs import ReportedRun


def measure(folder: RunFolder) -> Metrics:
    """Compute the metrics of a run."""
    attempts, calls = read_columns(folder.attempts)
    return _summary(folder, attempts, calls)


def measured(folder: RunFolder, *, grouped: bool = True) -> tuple[Metrics, AttemptTable]:
    """Compute the metrics of a run without tokens and costs, with its attempts, for comparisons.

    Reading the calls as well would take 50% longer.

    Args:
        folder: The run's folder.
        grouped: Also compute metrics for each group of each label.
    """
    attempts = read_attempts(folder.attempts)
    return _summary(folder, attempts, NO_CALLS, grouped=grouped), attempts


def _summary(
    folder: RunFolder, attempts: AttemptTable, calls: CallTotals, *, grouped: bool = True
) -> Metrics:
    manifest = folder.read_manifest()
    complete, planned = folder.progress()
    judges: dict[str, Any] = {}
    if (folder.path / JUDGES).exists():
        from harness.store.judgements import read_register  # a run without judges spares the import

        known = read_register(folder.path).judges
        panels = {name: one.section["of"] for name, one in known.items() if one.members}
        models = {name: one.model for name, one in known.items() if name not in panels}
        judges = {"judges": models, "panels": panels}
    references = None
    if (folder.path / REFERENCES).is_dir():
        from harness.store.references import references_folder

        references = read_attempts(references_folder(folder).attempts)
    facts = RunFacts(
        run=folder.name,
        task=manifest.get("task", ""),
        model=manifest.get("model"),
        simulated=manifest.get("simulated", False),
        complete=complete,
        n_planned=planned,
        n_owed=folder.owed(),
        measure=manifest.get("measure"),
        **judges,
    )
    return summarise(attempts, calls, facts, grouped=grouped, references=references)


def variant_of(folder: RunFolder, metrics: Metrics, name: str = "") -> Variant:
    """Return a run as a variant to compare: with its settings, and those of its later judges.

    Args:
        folder: The run's folder.
        metrics: The run's metrics.
        name: Name of the variant; by default the run's.

    Raises:
        DataInvalid: A line cannot be read.
        StoreFailed: A file cannot be read.
    """
    from harness.analysis.comparable import Variant, judge_settings, settings

    run = folder.read_config()
    fingerprint: dict[str, str] = dict(folder.read_manifest().get("fingerprint", {}))
    later: dict[str, Any] = {}
    if (folder.path / JUDGES).exists():
        from harness.store.judgements import read_register

        own = {*(one.as_ for one in run.judges), *(one.as_ for one in run.panels)}
        for judge, known in read_register(folder.path).judges.items():
            if judge not in own:
                later |= judge_settings(judge, known.section)
                fingerprint |= {f"judge_{judge}_{key}": v for key, v in known.fingerprint.items()}
    return Variant(name or folder.name, metrics, settings(run), fingerprint, later)


def report_on(
    folders: Sequence[RunFolder], asked: ComparisonOptions, baseline: str = ""
) -> tuple[list[ReportedRun], RunComparison | None]:
    """Return the runs of a report and, if there are several, their comparison.

    Args:
        folders: The runs' folders.
        asked: What is compared. Without a score, the tasks' primary metric; without a label, the
            first that all runs have.
        baseline: Name of the run that the others are compared with; by default the first.

    Raises:
        RunConflict: The runs cannot be compared.
        ConfigError: A score, label or run does not exist.
        DataInvalid: A line cannot be read.
        StoreFailed: A file cannot be read.
    """
    from msgspec.structs import replace

    from harness.analysis.constraints import kinds
    from harness.analysis.metrics import PASS_RATE
    from harness.analysis.run_comparison import compare_runs, with_constraints
    from harness.analysis.summary import latencies
    from harness.report.runs import ReportedRun
    from harness.store.calls import read_calls, read_latencies
    from harness.store.constraints import read_findings

    variants, runs, findings = [], [], {}
    for folder in folders:
        index = AttemptIndex(folder.attempts)
        found = findings[folder.name] = read_findings(index, asked.round)
        metrics = _summary(folder, index.attempts, read_calls(folder.attempts))
        variant = variant_of(folder, metrics)
        variants.append((variant, index.attempts))
        runs.append(
            ReportedRun(
                name=folder.name,
                metrics=metrics,
                marks=variant.marks,
                index=index,
                settings=variant.settings,
                manifest=folder.read_manifest(),
                latencies=latencies(read_latencies(index)),
                constraints=kinds(found),
                effects=_effects(metrics.task),
                without_constraints=found.without,
            )
        )
    if len(runs) < 2:
        return runs, None
    measures = {run.metrics.measure for run in runs}
    measure = next(iter(measures)) if len(measures) == 1 else None
    shared = (
        label
        for label in runs[0].metrics.groups
        if all(label in run.metrics.groups for run in runs)
    )
    asked = replace(
        asked, score=asked.score or measure or PASS_RATE, by=asked.by or next(shared, "")
    )
    comparison = compare_runs(variants, asked, baseline)
    if all(len(one.table) for one in findings.values()):
        comparison = with_constraints(comparison, findings)
    return runs, comparison


def _effects(task: str) -> tuple[Effect, ...]:
    """Return the figures of the task's paper; a report does not need the task to be installed."""
    from harness.errors import HarnessError
    from harness.plugins import kind
    from harness.ports import Pictured

    try:
        plugin: Any = kind("tasks").load(task)
    except HarnessError:
        return ()
    return plugin.effects if isinstance(plugin, Pictured) else ()
