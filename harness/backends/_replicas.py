"""Several servers of one model: who is asked, who is left out, and who is taken back.

A request goes to the server with the fewest in flight. One that does not answer its health is
left out, and what it had in flight is asked of the others; meanwhile it is brought back.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from typing import Protocol

from harness.errors import (
    ConnectionFailed,
    FatalCallError,
    HarnessError,
    MalformedReply,
    ServerFailed,
)
from harness.records import Reply, Request

Tell = Callable[[str], None]


class Server(Protocol):
    """One server.

    owned: started by the harness: it is worth waiting for.
    """

    owned: bool

    async def ask(self, request: Request) -> Reply:
        """Its answer.

        Raises: a `harness.errors.CallError`.
        """
        ...

    async def well(self) -> bool:
        """Whether it answers its health."""
        ...

    async def revive(self) -> None:
        """Return when it can be asked (again).

        Raises: FatalCallError where that will not be.
        """
        ...

    async def close(self) -> None:
        """Give back what it holds."""
        ...


class _Place:
    """A server's place among the others."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.load = 0
        self.up = not server.owned
        self.failure: FatalCallError | None = None
        self.reviving: asyncio.Task[None] | None = None
        self.asking: asyncio.Task[bool] | None = None


class Replicas:
    """All servers of a model.

    servers: at least one. Those that the harness owns are down until `start`.

    Its ``tell`` is told of what the user should know.
    """

    def __init__(self, servers: Sequence[Server]) -> None:
        self._places = [_Place(server) for server in servers]
        self._changed = asyncio.Event()
        self.tell: Tell = lambda _: None

    @property
    def ready(self) -> bool:
        """Whether one can be asked now; of servers of others that is to be tried."""
        return any(place.up or not place.server.owned for place in self._places)

    async def start(self) -> None:
        """Wait until one can be asked.

        Raises: FatalCallError where that will not be.
        """
        while not self.ready:
            for place in self._places:
                self._revive(place)
            self._changed.clear()
            if all(place.failure for place in self._places):
                failure = self._places[0].failure
                assert failure is not None
                raise failure
            await self._changed.wait()

    async def ask(self, request: Request) -> Reply:
        """The answer of the least loaded server; where that one falls out, of another.

        Raises: a `harness.errors.CallError`.
        """
        left = len(self._places)
        while True:
            place = self._least_loaded()
            left -= 1
            place.load += 1
            try:
                return await place.server.ask(request)
            except (ConnectionFailed, ServerFailed, MalformedReply):
                if await self._well(place):
                    raise  # this one call's failure, and not its server's
                self._drop(place)
                if not left or not any(other.up for other in self._places):
                    raise
            finally:
                place.load -= 1

    def _least_loaded(self) -> _Place:
        up = [place for place in self._places if place.up]
        tried = up or [place for place in self._places if not place.server.owned]
        if not tried:
            raise ConnectionFailed("No vLLM server is up.", "It is being started again.")
        least = min(tried, key=lambda place: place.load)
        # Of equals the first one, and next time another: one after the other.
        self._places.remove(least)
        self._places.append(least)
        return least

    async def _well(self, place: _Place) -> bool:
        """Whether a server is well; all who want to know at the same time ask once."""
        if not place.up:
            return False
        if place.asking is None:
            place.asking = asyncio.create_task(place.server.well())
            place.asking.add_done_callback(lambda _: setattr(place, "asking", None))
        return await asyncio.shield(place.asking)

    def _drop(self, place: _Place) -> None:
        """Leave a server out, and bring it back."""
        place.up = False
        self._revive(place)

    def _revive(self, place: _Place) -> None:
        if place.up or place.failure is not None or place.reviving is not None:
            return
        place.reviving = asyncio.create_task(self._revived(place))

    async def _revived(self, place: _Place) -> None:
        try:
            await place.server.revive()
            place.up = True
        except HarnessError as error:
            place.failure = FatalCallError(error.message, error.remedy)
        except Exception as error:  # else nobody would hear of it, and all would wait
            place.failure = FatalCallError(f"Starting a vLLM server failed: {error!r}.")
        finally:
            place.reviving = None
            self._changed.set()
        if place.failure is not None and any(other.up for other in self._places):
            self.tell(f"one server fewer: {place.failure.message}")

    async def close(self) -> None:
        """End whatever goes on, and give back what the servers hold."""
        going = [task for place in self._places for task in (place.reviving, place.asking) if task]
        for task in going:
            task.cancel()
        for task in going:
            with contextlib.suppress(asyncio.CancelledError, Exception):
                await task
        for place in self._places:
            await place.server.close()
