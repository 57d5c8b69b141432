"""Types that the layers of the call stack share, such as reasons for not sending a call."""

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable
from typing import NamedTuple

from harness.records import Reply, Request

Ask = Callable[[Request], Awaitable[Reply]]
"""A layer of the call stack: sends a request to the layer below and returns its reply."""

Report = Callable[[str], None]  # takes a status text; an empty text clears it


class NotSent(Exception):
    """A call was not sent. Subclasses say why."""


class Stopping(NotSent):
    """The run is stopping, so this call is not made."""


class CircuitOpen(NotSent):
    """The provider is down. The circuit breaker sends the call again later."""


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
        """Sleep for a number of seconds, or raise Stopping as soon as the run stops."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._event.wait()
            raise Stopping


class Load(NamedTuple):
    """Counts of a model's calls: in flight and waiting now, and failed in this session."""

    in_flight: int = 0
    waiting: int = 0
    failed: int = 0  # transient failures, such as timeouts and 429s
    rate_limited: int = 0  # those that the provider refused because of its rate limit (429)
    limited_by: str = ""  # what waiting calls wait for


class Notices:
    """The current status of each part of the call stack. Thread-safe.

    Attributes:
        listen: Called with each new status text.
        loads: For each model, by its section's place in the run file (such as ``model``), a
            function that returns its current load.
        pauses: For each model, the Unix time at which its latest long pause ends.
    """

    def __init__(self) -> None:
        self.on_status: Report = lambda _: None
        self.loads: dict[str, Callable[[], Load]] = {}
        self.pauses: dict[str, float] = {}
        self._now: dict[str, str] = {}

    def reporter(self, source: str) -> Report:
        """Return a function that sets the status of a source. An empty text clears it."""

        def report(text: str) -> None:
            if not text:
                self._now.pop(source, None)
                return
            self._now[source] = f"{source}: {text}" if source else text
            self.on_status(self._now[source])

        return report

    @property
    def pause_s(self) -> float:
        """For how many more seconds a model pauses, or 0."""
        return max([0.0, *(end - time.time() for end in list(self.pauses.values()))])

    @property
    def messages(self) -> list[str]:
        """The current status texts, at most one per source."""
        return list(self._now.values())
