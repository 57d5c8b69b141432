"""Types that the layers of the call stack share, such as reasons for not sending a call."""

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable
from typing import NamedTuple

from harness.records import Reply, Request

Ask = Callable[[Request], Awaitable[Reply]]
"""A layer of the call stack: sends a request to the layer below, and returns the reply."""

Report = Callable[[str], None]
"""Shows a status text to the user. An empty text clears the previous one."""


class NotSent(Exception):
    """The base class of reasons why a call is not sent."""


class Stopping(NotSent):
    """The call is not made because the run is stopping."""


class CircuitOpen(NotSent):
    """The call is not sent now because the provider is down. The circuit breaker retries it."""


class Stop:
    """A switch that stops a run: no new work is started, and work in flight is finished."""

    def __init__(self) -> None:
        self._event = asyncio.Event()
        self._callbacks: list[Callable[[], None]] = []

    @property
    def requested(self) -> bool:
        """Whether the run is stopping."""
        return self._event.is_set()

    def request(self) -> None:
        """Ask the run to stop. Only the first call has an effect."""
        if not self.requested:
            self._event.set()
            for callback in self._callbacks:
                callback()

    def on_stop(self, callback: Callable[[], None]) -> None:
        """Register a function to call when a stop is first requested."""
        self._callbacks.append(callback)

    async def sleep(self, seconds: float) -> None:
        """Sleep for a number of seconds.

        Raises:
            Stopping: As soon as the run stops.
        """
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._event.wait()
            raise Stopping


class Load(NamedTuple):
    """Counts of a model's calls in a session."""

    in_flight: int = 0  # now
    waiting: int = 0  # now
    failed: int = 0  # transient failures so far, such as timeouts and 429s
    rate_limited: int = 0  # failures so far because of the provider's rate limit (429)
    limited_by: str = ""  # the limit for which calls are waiting


class Notices:
    """The current status of each source, such as a model's limits. Thread-safe.

    Attributes:
        on_status: Called with each new status text.
        loads: Functions that return a model's current load, by the key of the model's section in
            the run file (such as ``judges.grader.model``).
        pauses: The Unix time at which a model's latest long pause ends, by the same key.
    """

    def __init__(self) -> None:
        self.on_status: Report = lambda _: None
        self.loads: dict[str, Callable[[], Load]] = {}
        self.pauses: dict[str, float] = {}
        self._texts: dict[str, str] = {}

    def reporter(self, source: str) -> Report:
        """Return a function that sets the status text of a source. "" clears the status."""

        def report(text: str) -> None:
            if not text:
                self._texts.pop(source, None)
                return
            self._texts[source] = f"{source}: {text}" if source else text
            self.on_status(self._texts[source])

        return report

    @property
    def pause_s(self) -> float:
        """The seconds until the last of the models' long pauses ends, or 0."""
        last_end = max(list(self.pauses.values()), default=0.0)
        return max(0.0, last_end - time.time())

    @property
    def messages(self) -> list[str]:
        """The current status texts, at most one per source."""
        return list(self._texts.values())
