"""What a report knows of a run."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from msgspec.structs import replace as replaced

from harness.analysis.constraints import ConstraintKind
from harness.analysis.metrics import Metrics
from harness.analysis.run_comparison import RunComparison
from harness.analysis.summary import Latencies
from harness.ports import Effect
from harness.store.columns import AttemptTable
from harness.store.index import AttemptIndex


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportedRun:
    """A run in a report.

    Attributes:
        name: The name of its folder, unique within a report.
        marks: What qualifies it in every table and figure (SIMULATED, INCOMPLETE).
        index: Its attempts: what counts, and where each line is.
        settings: Its run file by dotted key, for the table of what runs differ in.
        manifest: When, and with which versions and data, it was made.
        latencies: None if no call was timed.
        constraints: How often each kind of base constraint was met, if the task has any.
        effects: The figures of the task's paper (`harness.ports.Pictured`).
        without_constraints: Samples whose scores mention no constraint, where others do.
    """

    name: str
    metrics: Metrics
    marks: Sequence[str]
    index: AttemptIndex
    settings: Mapping[str, Any]
    manifest: Mapping[str, Any]
    latencies: Latencies | None
    constraints: Sequence[ConstraintKind]
    effects: Sequence[Effect]
    without_constraints: int = 0

    @property
    def attempts(self) -> AttemptTable:
        """Its attempts as columns."""
        return self.index.attempts

    @property
    def recorded(self) -> bool:
        """Whether its answers were recorded before: nothing was timed or paid for."""
        return self.manifest.get("backend") == "replay"

    @property
    def last_round(self) -> int:
        """How many rounds it has; 0 without attempts."""
        return int(self.attempts.round.max(initial=0))


def common_start(names: Iterable[str]) -> str:
    """What all of several names begin with, up to a dot: variants begin with their run file's name.

    Something is left of each name without it, and the dot of a number does not count: "gpt-4.1"
    and "gpt-4.5" share nothing. Empty for fewer than two names.

    >>> common_start(["collie.four", "collie.zero"])
    'collie.'
    """
    every = list(names)
    if len(every) < 2:
        return ""
    for dot in reversed(list(re.finditer(r"\.", every[0]))):
        start = every[0][: dot.end()]
        rests = [name[dot.end() :].strip() for name in every if name.startswith(start)]
        in_number = start[-2:-1].isdigit() and any(rest[:1].isdigit() for rest in rests)
        if len(rests) == len(every) and all(rests) and not in_number:
            return start
    return ""


def shortened(
    runs: Sequence[ReportedRun], comparison: RunComparison | None = None
) -> tuple[list[ReportedRun], RunComparison | None]:
    """Runs and their comparison, with names that lack what all of them begin with."""
    prefix = common_start([run.name for run in runs])
    short = [replace(run, name=run.name.removeprefix(prefix)) for run in runs]
    if comparison is None or not prefix:
        return short, comparison
    others = [replaced(one, run=one.run.removeprefix(prefix)) for one in comparison.others]
    baseline = comparison.baseline.removeprefix(prefix)
    return short, replaced(comparison, baseline=baseline, others=others)
