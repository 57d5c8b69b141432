"""The list of all runs in some folders, with their progress."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from threading import Lock
from typing import Any, Literal

from msgspec import Struct

from harness.analysis.metrics import Metrics, from_json
from harness.errors import HarnessError
from harness.store.files import read_file
from harness.store.json_lines import reading
from harness.store.run_folder import ATTEMPTS, RunFolder
from harness.store.run_status import STATUS, RunStatus, read_status
from harness.store.runs import all_runs

FILES = ("manifest.json", "metrics.json", ATTEMPTS, STATUS)
SCAN_S = 0.5  # between two looks at all folders

State = Literal["running", "stopping", "complete", "interrupted", "failed", "unreadable"]


class RunSummary(Struct, frozen=True, kw_only=True):
    """A run's entry in the list of runs."""

    name: str
    task: str = ""
    model: str = ""
    tags: list[str] = []  # backend, variant, SIMULATED
    state: State = "complete"
    rate: float | None = None  # so far, of the samples begun
    low: float | None = None
    high: float | None = None
    n: int = 0  # samples with a verdict
    not_judged: int = 0  # samples begun without one: a call or a judge failed
    measure: str = "pass rate"
    done: int | None = None  # samples
    planned: int | None = None
    cost_usd: float | None = None  # paid by the run, in all its sessions
    started_at: float | None = None  # times in epoch seconds
    line_at: float | None = None  # when the last attempt was written
    eta_s: float | None = None
    limited_by: list[str] = []
    problem: str = ""
    revision: int = 0  # of the list, when this entry changed


class RunList:
    """The runs in some folders, of which `look` reads only those that have changed."""

    def __init__(self, roots: Iterable[Path]) -> None:
        self._roots = list(dict.fromkeys(roots))
        self._known: dict[str, tuple[object, RunStatus | None]] = {}
        self._looked_at = float("-inf")
        self._lock = Lock()
        self.folders: dict[str, RunFolder] = {}
        self.summaries: dict[str, RunSummary] = {}
        self.revision = 0

    def look(self) -> None:
        """Look for changes at most once every `SCAN_S` seconds. Thread-safe."""
        with self._lock:
            self._look()

    def _look(self) -> None:
        now = time.monotonic()
        if now - self._looked_at < SCAN_S:
            return
        found = [run for root in reversed(self._roots) for run in all_runs(root)]
        folders = {run.name: run for run in found}
        if folders.keys() != self.folders.keys():
            self.revision += 1
        for name in self.folders.keys() - folders.keys():
            del self._known[name], self.summaries[name]
        self.folders = folders
        for name, folder in folders.items():
            self._look_at(name, folder)
        self._looked_at = time.monotonic()

    def _look_at(self, name: str, folder: RunFolder) -> None:
        seen = {one: stamp(folder.path / one) for one in FILES}
        before, status = self._known.get(name, (None, None))
        works = status is not None and status.works()
        if before == (seen, works):
            return
        status = read_status(folder.path)
        works = status is not None and status.works()
        self._known[name] = (seen, works), status
        self.revision += 1
        line = seen[ATTEMPTS]
        line_at = line[0] / 1e9 if line else None
        try:
            found = summary(folder, status, line_at, self.revision)
        except HarnessError as error:
            found = RunSummary(
                name=name, state="unreadable", problem=error.message, revision=self.revision
            )
        self.summaries[name] = found


def summary(
    folder: RunFolder, status: RunStatus | None, line_at: float | None, revision: int = 0
) -> RunSummary:
    """Return a run's entry in the list of runs, given the status of its latest session, if any."""
    manifest = folder.read_manifest()
    metrics: Metrics | None = None
    with reading(folder.metrics):
        if folder.metrics.exists():
            metrics = from_json(read_file(folder.metrics), folder.metrics)
    shown: dict[str, Any] = {}
    if metrics is not None:
        found = metrics.primary()
        low, high = found.ci95 or (None, None)
        shown = {"rate": found.mean, "low": low, "high": high, "n": found.n}
        shown |= {"not_judged": found.missing, "measure": metrics.measure or "pass rate"}
        unknown = metrics.n_calls_without_cost
        shown["cost_usd"] = None if unknown else metrics.paid_usd
    planned, owed = manifest.get("samples"), folder.owed()
    done = None if planned is None or owed is None else planned - owed
    state: State = _state(manifest)
    works = status is not None and status.works()
    # During a session and after a kill, only the status has figures.
    if status is not None and (works or done is None):
        done, planned = status.done, status.planned
        rate = status.passed / status.judged if status.judged else None
        shown = {"rate": rate, "n": status.judged, "cost_usd": status.cost_usd}
        shown |= {"not_judged": status.outcomes.get("error", 0)}
    if status is not None and works:
        state = "stopping" if status.stopping else "running"
        shown |= {"eta_s": status.eta_s, "limited_by": [*status.limited_by, *status.notices]}
    tags = [str(manifest.get(key) or "") for key in ("backend", "variant")]
    return RunSummary(
        name=folder.name,
        task=manifest.get("task", ""),
        model=manifest.get("model") or "",
        tags=[*filter(None, tags), *["SIMULATED"] * bool(manifest.get("simulated"))],
        state=state,
        done=done,
        planned=planned,
        problem="" if works else why_ended(manifest),
        started_at=manifest.get("started_at"),
        line_at=line_at,
        revision=revision,
        **shown,
    )


def _state(manifest: Mapping[str, Any]) -> State:
    sessions = manifest.get("sessions") or [{"ended": "finished"}]
    match sessions[-1].get("ended"):
        case "finished":
            return "complete" if not manifest.get("owed") else "interrupted"
        case "failed":
            return "failed"
    return "interrupted"


def why_ended(manifest: Mapping[str, Any]) -> str:
    """Return why the latest session ended early, or "" if it did not or the user stopped it."""
    session = (manifest.get("sessions") or [{}])[-1]
    match session.get("ended"):
        case "failed":
            return str(session.get("problem") or "The session failed.")
        case "killed":
            return "The session's process was killed, or its machine stopped."
        case "budget":
            return "The budget is used up."
    return ""


def stamp(path: Path) -> tuple[int, int] | None:
    """Return a file's modification time (ns) and size (bytes), or None if there is no such file."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size
