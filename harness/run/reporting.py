"""What a report says of runs, from their folders as they are now."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from harness.analysis.constraints import kinds
from harness.analysis.metrics import PASS_RATE
from harness.analysis.run_comparison import (
    ComparisonOptions,
    RunComparison,
    compare_runs,
    with_constraints,
)
from harness.analysis.summary import latencies
from harness.errors import HarnessError
from harness.plugins import kind
from harness.ports import Effect, Pictured
from harness.report.reported_run import ReportedRun
from harness.run.measuring import summary_of
from harness.run.variants import variant_of
from harness.store.calls import read_calls, read_latencies
from harness.store.constraints import Findings, read_findings
from harness.store.index import AttemptIndex
from harness.store.run_folder import RunFolder


def report_on(
    folders: Sequence[RunFolder], asked: ComparisonOptions, baseline: str = ""
) -> tuple[list[ReportedRun], RunComparison | None]:
    """The runs of a report and, of two or more, their comparison.

    asked: what is compared; without a score, what the runs are measured by, and without a
        label, the first that they all have.
    baseline: the name of the run that the others are compared with; by default the first.

    Raises: ConfigError; RunConflict where the runs cannot be compared; DataInvalid,
        StoreFailed where one cannot be read.
    """
    found, findings = [], dict[str, Findings]()
    for folder in folders:
        places = AttemptIndex(folder.attempts)
        findings[folder.name] = read_findings(places, asked.round)
        metrics = summary_of(folder, places.attempts, read_calls(folder.attempts))
        variant = variant_of(folder, metrics)
        run = ReportedRun(
            name=folder.name,
            metrics=metrics,
            marks=variant.marks,
            path=folder.attempts,
            places=places,
            settings=variant.settings,
            manifest=folder.read_manifest(),
            latencies=latencies(read_latencies(places)),
            constraints=kinds(findings[folder.name]),
            effects=_effects(metrics.task),
            without_constraints=findings[folder.name].without,
        )
        found.append((variant, run))
    runs = [run for _, run in found]
    if len(runs) < 2:
        return runs, None
    measures = {run.metrics.measure for run in runs}
    labels = [label for label in runs[0].metrics.groups if _all_have(runs, label)]
    asked = replace(
        asked,
        score=asked.score or (measures.pop() if len(measures) == 1 else None) or PASS_RATE,
        by=asked.by or next(iter(labels), ""),
    )
    comparison = compare_runs([(variant, run.attempts) for variant, run in found], asked, baseline)
    if all(len(one.table) for one in findings.values()):
        comparison = with_constraints(comparison, findings)
    return runs, comparison


def _all_have(runs: Sequence[ReportedRun], label: str) -> bool:
    return all(label in run.metrics.groups for run in runs)


def _effects(task: str) -> tuple[Effect, ...]:
    """What the task's paper draws; a task that is gone hides no report."""
    try:
        plugin: Any = kind("tasks").load(task)
        effects = plugin.effects if isinstance(plugin, Pictured) else ()
    except HarnessError:
        return ()
    return effects
