"""Records the attempts of a session: writes their lines, counts them, and notifies observers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from harness.calls.backend_layers import ModelAnswers
from harness.calls.signals import Notices
from harness.config.settings import Settings
from harness.engine.assessment import ScoreWarnings, score_warnings
from harness.engine.progress import NO_VERDICTS, Tally, Verdicts
from harness.plugin_loader import kind
from harness.ports import Observer
from harness.records import SCHEMA_VERSION, Attempt, ObservedRun
from harness.store.json_lines import JsonLinesWriter

if TYPE_CHECKING:
    from harness.analysis.metrics import Metrics  # not needed before the first call


class AttemptRecorder:
    """Records attempts, but holds back crashes until any call of the run has been answered.

    If all calls crash, the cause is probably outside the prompts, such as a failed import or an
    outage. The crashes are then failed calls, which have no verdict and are made again.

    Args:
        writer: Appends to the run's ``attempts.jsonl``.
        tally: Counts the attempts.
        observers: Receive the attempts.
        answered: Whether a call has been answered, in this session or an earlier one.
    """

    def __init__(
        self,
        writer: JsonLinesWriter,
        tally: Tally,
        observers: Observers,
        answered: ModelAnswers,
    ) -> None:
        self._writer = writer
        self._tally = tally
        self._observers = observers
        self._answered = answered
        self._held_back: list[Attempt] = []
        self.score_warnings = ScoreWarnings()

    def record(self, attempt: Attempt, passed: bool | None, before: Verdicts) -> None:
        """Record an attempt, or hold it back if it is a crash and no call has been answered.

        Args:
            attempt: The attempt.
            passed: Its verdict.
            before: The verdicts on the sample's earlier rounds.
        """
        if self._answered.has_any:
            self.release()
        elif attempt.outcome == "crashed":
            self._held_back.append(attempt)
            return
        self._write(attempt, passed, before)

    def release(self) -> None:
        """Record the crashes still held back: as failed calls, if no call has been answered."""
        for crash in self._held_back:
            attempt = crash
            if not self._answered.has_any:
                attempt = replace(crash, v=SCHEMA_VERSION, outcome="error", passed=None, scores={})
            self._write(attempt, attempt.passed, NO_VERDICTS)
        self._held_back.clear()

    def _write(self, attempt: Attempt, passed: bool | None, before: Verdicts) -> None:
        self._writer.append(attempt)
        for warning in score_warnings(attempt.scores):
            self.score_warnings[warning] += 1
        self._tally.record(attempt, passed, before)
        self._observers.attempt(attempt)


def build_observers(settings: Settings) -> dict[str, Observer]:
    """Build the observers that ``HARNESS_OBSERVERS`` selects, by name."""
    observers: dict[str, Observer] = {}
    for entry in settings.observers.split(","):
        name = entry.strip()
        if name and name not in observers:
            content = settings.observe_content
            observers[name] = kind("observers").build(name, {}, content=content)
    return observers


class Observers:
    """The observers of one session of a run.

    An observer that raises an exception is dropped, and the run continues.
    """

    def __init__(self, observers: Mapping[str, Observer], notices: Notices) -> None:
        self._observers = dict(observers)
        self._notices = notices

    def run_begun(self, run: ObservedRun) -> None:
        """Report that the session has begun."""
        self._notify("run_begun", lambda observer: observer.run_begun(run))

    def attempt(self, attempt: Attempt) -> None:
        """Report an attempt that has been written to the run's folder."""
        if self._observers:
            self._notify("attempt", lambda observer: observer.attempt(attempt))

    def run_ended(self, ended: str, metrics: Metrics | None) -> None:
        """Report how the session ended, and the metrics of the whole run, if available."""
        if self._observers:
            content = {} if metrics is None else msgspec.to_builtins(metrics, str_keys=True)
            self._notify("run_ended", lambda observer: observer.run_ended(ended, content))

    def _notify(self, event: str, call: Callable[[Observer], None]) -> None:
        for name, observer in list(self._observers.items()):
            try:
                call(observer)
            except Exception as error:  # an observer must neither stop nor lose paid work
                del self._observers[name]
                problem = f"{type(error).__name__}: {str(error)[:200]}"
                self._notices.reporter(f"observer {name}")(
                    f"{event} failed ({problem}); it is not called again in this session."
                )
