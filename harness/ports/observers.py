"""What an observer of runs must implement; docs/plugins.md has an example."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, runtime_checkable

from harness.records import Attempt, ObservedRun


@runtime_checkable
class Observer(Protocol):
    """Follows one session of a run, to report it elsewhere.

    The run waits for each call, so return at once: queue what takes time. An observer that raises
    is not called again in this session, and the user is warned; the run continues.
    """

    def run_begun(self, run: ObservedRun) -> None:
        """A session of the run has begun: a new run, or one that is resumed."""

    def attempt(self, attempt: Attempt) -> None:
        """An attempt of this session is finished, and its line is in ``attempts.jsonl``."""

    def run_ended(self, ended: str, metrics: Mapping[str, Any]) -> None:
        """The session has ended; the run's metrics are written.

        Args:
            ended: ``finished``, ``interrupted``, ``budget`` or ``failed``.
            metrics: The contents of ``metrics.json``; empty if they could not be computed.
        """
