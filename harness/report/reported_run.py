"""What a report knows of a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.analysis.constraints import ConstraintKind
from harness.analysis.metrics import Metrics
from harness.analysis.summary import Latencies
from harness.ports import Effect
from harness.store.columns import AttemptTable
from harness.store.whole import Places


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportedRun:
    """A run in a report.

    name: of its folder, the same for no two runs of a report.
    marks: what every table and picture must say of it (SIMULATED, INCOMPLETE).
    path, places: its attempts' file, and where in it they are.
    settings: of its run file, by dotted key, for the table of what the runs differ in.
    manifest: when, with which versions and data it was made.
    latencies: None where no call was timed.
    constraints: how often each kind of base constraint was met; none where the task
        tells none.
    without_constraints: samples whose scores tell of none, where others' do.
    effects: of the task (`harness.ports.Pictured`).
    """

    name: str
    metrics: Metrics
    marks: Sequence[str]
    path: Path
    places: Places
    settings: Mapping[str, Any]
    manifest: Mapping[str, Any]
    latencies: Latencies | None
    constraints: Sequence[ConstraintKind]
    effects: Sequence[Effect]
    without_constraints: int = 0

    @property
    def attempts(self) -> AttemptTable:
        """As columns."""
        return self.places.attempts

    @property
    def recorded(self) -> bool:
        """Whether its answers were recorded before, by another: nothing was timed or paid."""
        return self.manifest.get("backend") == "replay"
