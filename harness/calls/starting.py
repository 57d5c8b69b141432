"""A backend that must come up first, such as a server of one's own: its calls wait here.

Loading a large model takes minutes, at the beginning or when it has died in the middle of a run.
So this stands above the lane, whose calls have a time limit, and below the circuit, whose one
call that goes on trying waits here too: no try of any call is used up by a start. The wait ends
when the run stops.
"""

from __future__ import annotations

import asyncio

from harness.calls.calls import Ask
from harness.calls.notices import Tell
from harness.calls.stopping import Stop, Stopping
from harness.ports import Startable
from harness.records import Reply, Request


class Starting:
    """Starts the backend when the first call needs it.

    ask: the stack below. tell: is told why the run waits.
    """

    def __init__(self, ask: Ask, backend: Startable, stop: Stop, tell: Tell) -> None:
        self._ask = ask
        self._backend = backend
        self._tell = tell
        self._stopped = asyncio.Event()
        self._going: asyncio.Task[None] | None = None
        stop.tell(self._stopped.set)

    async def __call__(self, request: Request) -> Reply:
        """Ask once the backend is ready.

        Raises: Stopping where the run stops before; FatalCallError where it never will be; what
            the stack below raises.
        """
        if not self._backend.ready:
            await self._ready()
        return await self._ask(request)

    async def _ready(self) -> None:
        """Wait for the one start that all calls share, or for the run's end."""
        if self._stopped.is_set():
            raise Stopping
        if self._going is None or self._going.done():
            self._going = asyncio.create_task(self._start())
        going, stopped = self._going, asyncio.ensure_future(self._stopped.wait())
        try:
            await asyncio.wait({going, stopped}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            stopped.cancel()
        if not going.done():
            going.cancel()
            raise Stopping
        await going

    async def _start(self) -> None:
        self._tell("starting; loading a large model takes minutes")
        try:
            await self._backend.start(self._tell)
        finally:
            self._tell("")
