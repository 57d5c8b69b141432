"""Stopping a run: no new work is taken, what is in flight is finished."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


class Stopping(Exception):
    """The run is stopping: this call is not made, its attempt stays owed."""


class TurnedBack(Exception):
    """A call that waited for its turn is sent back, since the provider is away: ask again."""


class Stop:
    """Shared by the scheduler, which sees that no work is taken, and the call stack."""

    def __init__(self) -> None:
        self._event = asyncio.Event()
        self._told: list[Callable[[], None]] = []

    @property
    def requested(self) -> bool:
        """Whether the run is stopping."""
        return self._event.is_set()

    def request(self) -> None:
        """Stop the run."""
        if not self.requested:
            self._event.set()
            for tell in self._told:
                tell()

    def tell(self, told: Callable[[], None]) -> None:
        """Have something called when the run stops."""
        self._told.append(told)

    async def sleep(self, seconds: float) -> None:
        """Sleep; ends at once by raising `Stopping` when the run stops."""
        try:
            async with asyncio.timeout(seconds):
                await self._event.wait()
        except TimeoutError:
            return
        raise Stopping
