"""Names of runs without the beginning that they all share: variants of one run file have one.

>>> shared(["glue.zero", "glue.four"])
'glue.'
>>> shared(["glue.zero", "squad.four"])
''
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import takewhile

from msgspec.structs import replace as replaced

from harness.analysis.run_comparison import RunComparison
from harness.report.reported_run import ReportedRun


def shared(names: Sequence[str]) -> str:
    """What all of several names begin with, up to a ``.``; empty for nothing."""
    if len(names) < 2:
        return ""
    parts = zip(*(name.split(".")[:-1] for name in names), strict=False)
    same = takewhile(lambda part: len(set(part)) == 1, parts)
    prefix = "".join(f"{part[0]}." for part in same)
    return "" if prefix in names else prefix


def shortened(
    runs: Sequence[ReportedRun], comparison: RunComparison | None = None
) -> tuple[list[ReportedRun], RunComparison | None]:
    """The runs and their comparison, with names that lack what all of them begin with."""
    prefix = shared([run.name for run in runs])
    short = [replace(run, name=run.name.removeprefix(prefix)) for run in runs]
    if comparison is None or not prefix:
        return short, comparison
    others = [replaced(one, run=one.run.removeprefix(prefix)) for one in comparison.others]
    baseline = comparison.baseline.removeprefix(prefix)
    return short, replaced(comparison, baseline=baseline, others=others)
