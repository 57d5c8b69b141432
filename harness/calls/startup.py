"""Starts the backend of a model before its first call, and again if it is no longer ready."""

import asyncio
from dataclasses import dataclass

from harness.calls.signals import Ask, Report, Stop, Stopping
from harness.ports import Startable
from harness.records import Reply, Request


@dataclass(eq=False)
class Startup:
    """The layer that starts a backend such as a local server.

    Calls wait until the backend is ready or the run stops. As loading a large model takes minutes,
    this layer is above the limiter, below which calls have a time limit. It is below the circuit so
    that waiting uses up no tries.
    """

    ask: Ask
    backend: Startable
    stop: Stop
    status: Report

    def __post_init__(self) -> None:
        self._going: asyncio.Task[None] | None = None
        self.stop.on_stop(self._cancel)

    async def __call__(self, request: Request) -> Reply:
        """Send the request once the backend is ready, and return the reply.

        Raises:
            Stopping: If the run stops first.
            CallError: If the backend cannot be started, or the call fails.
        """
        if not self.backend.ready:
            if self.stop.requested:
                raise Stopping
            if self._going is None or self._going.done():
                self._going = asyncio.create_task(self._start())
            going = self._going  # the one startup that all calls share
            await asyncio.wait({going})
            if going.cancelled():
                raise Stopping
            await going
        return await self.ask(request)

    def _cancel(self) -> None:
        if self._going is not None:
            self._going.cancel()

    async def _start(self) -> None:
        try:
            await self.backend.start(self.status)
        finally:
            self.status("")
