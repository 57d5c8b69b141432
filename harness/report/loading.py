"""The runs of a report and their comparison, read from the runs' folders."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from harness.analysis.comparable import variant_of
from harness.analysis.constraints import kinds, read_findings
from harness.analysis.run_comparison import ComparisonOptions, RunComparison, compare_runs
from harness.analysis.summary import latencies, measure
from harness.errors import HarnessError
from harness.plugins import kind
from harness.ports import Effect, Pictured
from harness.report.runs import ReportedRun
from harness.store.calls import read_latencies
from harness.store.index import AttemptIndex
from harness.store.run_folder import RunFolder


def report_on(
    folders: Sequence[RunFolder], asked: ComparisonOptions, baseline: str = ""
) -> tuple[list[ReportedRun], RunComparison | None]:
    """Return the runs of a report and, if there are several, their comparison.

    Args:
        folders: The runs' folders.
        asked: What is compared. Without a score, the tasks' primary metric; without a label, the
            first that all runs have.
        baseline: Name of the run that the others are compared with; by default the first.
    """
    variants, runs, findings = [], [], {}
    for folder in folders:
        index = AttemptIndex(folder.attempts)
        found = findings[folder.name] = read_findings(index, asked.round)
        metrics = measure(folder, index.attempts)
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
    shared = (
        label
        for label in runs[0].metrics.groups
        if all(label in run.metrics.groups for run in runs)
    )
    asked = replace(asked, by=asked.by or next(shared, ""))
    known = findings if all(len(one.table) for one in findings.values()) else {}
    return runs, compare_runs(variants, asked, baseline, findings=known)


def _effects(task: str) -> tuple[Effect, ...]:
    """Return the figures of the task's paper; a report does not need the task to be installed."""
    try:
        plugin: Any = kind("tasks").load(task)
    except HarnessError:
        return ()
    return plugin.effects if isinstance(plugin, Pictured) else ()
