"""Calls a run's observers. An observer that raises is dropped, and the run continues."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import msgspec

import harness
from harness.calls.signals import Notices
from harness.config.settings import Settings, shown_url
from harness.engine.job import Job
from harness.plugin_loader import kind
from harness.ports import Observer
from harness.records import Attempt, ObservedRun

if TYPE_CHECKING:
    from harness.analysis.metrics import Metrics  # not needed before the first call
    from harness.store.manifest import Manifest


def build_observers(settings: Settings) -> dict[str, Observer]:
    """Build the observers that ``HARNESS_OBSERVERS`` selects, by name."""
    names = dict.fromkeys(name.strip() for name in settings.observers.split(","))
    content = settings.observe_content
    return {name: kind("observers").build(name, {}, content=content) for name in names if name}


def observed_run(job: Job, manifest: Manifest) -> ObservedRun:
    """Return the facts about a run that its observers receive."""
    section = job.run.model
    return ObservedRun(
        id=manifest.run_id,
        name=job.folder.name,
        task=job.run.task.name,
        backend=section.backend,
        model=section.name,
        endpoint=shown_url(job.model.backend.endpoint),
        simulated=manifest.simulated,
        version=harness.__version__,
        config=job.run.model_dump(mode="json"),
    )


class Observation:
    """The observers of one session of a run, whose exceptions never reach the run."""

    def __init__(self, observers: Mapping[str, Observer], notices: Notices) -> None:
        self._observers, self._notices = dict(observers), notices

    def run_begun(self, run: ObservedRun) -> None:
        """Report that the session has begun."""
        self._each("run_begun", lambda observer: observer.run_begun(run))

    def attempt(self, attempt: Attempt) -> None:
        """Report an attempt that has been written to the run's folder."""
        if self._observers:
            self._each("attempt", lambda observer: observer.attempt(attempt))

    def run_ended(self, ended: str, metrics: Metrics | None) -> None:
        """Report how the session ended, and the metrics of the whole run, if available."""
        if self._observers:
            found = {} if metrics is None else msgspec.to_builtins(metrics, str_keys=True)
            self._each("run_ended", lambda observer: observer.run_ended(ended, found))

    def _each(self, event: str, tell: Callable[[Observer], None]) -> None:
        for name, observer in list(self._observers.items()):
            try:
                tell(observer)
            except Exception as error:  # an observer must neither stop nor lose paid work
                del self._observers[name]
                said = f"{type(error).__name__}: {str(error)[:200]}"
                self._notices.status(f"observer {name}")(
                    f"{event} failed ({said}); it is not called again in this session."
                )
