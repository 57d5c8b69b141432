"""Runs and their comparison under names without the beginning that all of them share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from msgspec.structs import replace as replaced

from harness.analysis.run_comparison import RunComparison
from harness.report.reported_run import ReportedRun
from harness.report.run_names import common_start


def shortened(
    runs: Sequence[ReportedRun], comparison: RunComparison | None = None
) -> tuple[list[ReportedRun], RunComparison | None]:
    """The runs and their comparison, with names that lack what all of them begin with."""
    prefix = common_start([run.name for run in runs])
    short = [replace(run, name=run.name.removeprefix(prefix)) for run in runs]
    if comparison is None or not prefix:
        return short, comparison
    others = [replaced(one, run=one.run.removeprefix(prefix)) for one in comparison.others]
    baseline = comparison.baseline.removeprefix(prefix)
    return short, replaced(comparison, baseline=baseline, others=others)
