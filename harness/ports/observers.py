"""The members that an observer of runs must implement (example: docs/plugins.md)."""

from collections.abc import Mapping
from typing import Any, Protocol, runtime_checkable

from harness.records import Attempt, ObservedRun


@runtime_checkable
class Observer(Protocol):
    """A follower of one session of a run, which reports the session to another system.

    The run waits for each call, so methods must return at once and queue slow work. If a method
    raises an exception, the run continues, and the observer is not called again in this session.
    """

    def run_begun(self, run: ObservedRun) -> None:
        """Called when a session of a new or resumed run begins."""

    def attempt(self, attempt: Attempt) -> None:
        """Called when an attempt of this session has been written to ``attempts.jsonl``."""

    def run_ended(self, ended: str, metrics: Mapping[str, Any]) -> None:
        """Called when the session has ended and the run's metrics are written.

        Args:
            ended: ``finished``, ``interrupted``, ``budget`` or ``failed``.
            metrics: The content of ``metrics.json``. Empty if it could not be computed.
        """
