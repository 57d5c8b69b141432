"""Several servers of one model: who is asked, who is left out, and who is taken back.

A request goes to the server with the fewest in flight. One that does not answer its health is
left out, and what it had in flight is asked of the others; meanwhile it is brought back.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from enum import Enum, auto
from typing import Protocol

from harness.backends._seating import Seating, Seats
from harness.backends._suspects import Suspects
from harness.errors import (
    CallError,
    FatalCallError,
    HarnessError,
    TransientError,
)
from harness.records import Reply, Request

Tell = Callable[[str], None]


class Server(Protocol):
    """One server.

    owned: started by the harness: it is worth waiting for, and none of its deaths is the network's.
    """

    owned: bool

    async def ask(self, request: Request) -> Reply:
        """Its answer.

        Raises: a `harness.errors.CallError`.
        """
        ...

    async def well(self) -> bool:
        """Whether it answers its health.

        Raises: FatalCallError where it is not the server that was meant.
        """
        ...

    async def revive(self) -> None:
        """Return when it can be asked (again).

        Raises: FatalCallError where that will not be.
        """
        ...

    async def close(self) -> None:
        """Give back what it holds."""
        ...


class State(Enum):
    """A server's, as its answers and its health show it."""

    NEW = auto()  # not begun yet
    COMING = auto()  # being started, or waited for
    UP = auto()
    DOUBTED = auto()  # its health is being looked at: it gets nothing new
    FAILED = auto()  # it will not come back


class _Place(Seats):
    """A server's place among the others."""

    def __init__(self, server: Server, most: int) -> None:
        super().__init__(most)
        self.server = server
        self.state = State.NEW
        self.open = False
        self.life = 0
        self.failure: FatalCallError | None = None
        self.reviving: asyncio.Task[None] | None = None
        self.looking: asyncio.Task[bool] | None = None


class Replicas:
    """All servers of a model.

    servers: at least one, all owned by the harness or none.
    seats: calls that each may have in flight.

    Its ``tell`` is told of what the user should know.
    """

    def __init__(self, servers: Sequence[Server], seats: int) -> None:
        self._places = [_Place(server, seats) for server in servers]
        self._seating = Seating(self._places)
        self._suspects = Suspects()
        self._owned = servers[0].owned
        self._looked_at = False
        self._changed = asyncio.Event()
        self.tell: Tell = lambda _: None

    @property
    def ready(self) -> bool:
        """Whether one can be asked now; of servers of others, once met, that is to be tried."""
        return bool(self._standing()) if self._owned else self._looked_at

    async def start(self) -> None:
        """Wait until one can be asked; servers of others are all looked at first.

        Raises: FatalCallError where that will not be.
        """
        if self._owned:
            await self._one_up()
            return
        await asyncio.gather(*map(self._look, self._places))
        if failures := self._failures():
            raise failures[0]
        self._looked_at = True

    async def _one_up(self) -> None:
        for place in self._places:
            if place.state is State.NEW:
                self._revive(place)
        while not self._standing():
            if len(failures := self._failures()) == len(self._places):
                raise failures[0]
            self._changed.clear()
            await self._changed.wait()

    async def ask(self, request: Request) -> Reply:
        """The answer of the least loaded server; where that one falls out, of another.

        Raises: a `harness.errors.CallError`.
        """
        left = len(self._places)
        while True:
            alone = self._suspects.alone(request)
            if (nobody := self._nobody()) is not None:
                raise nobody
            place = await self._seating.take(alone=alone)
            left -= 1
            life = place.life
            try:
                reply = await place.server.ask(request)
            except TransientError as error:
                if error.kind == "timed_out":
                    self._look(place)
                    raise
                if await self._look(place) and place.life == life:
                    raise  # this one call's failure, and not its server's
                if self._owned and _arrived(error):
                    self._suspects.died(request, (id(place), life), alone=alone)
                if not left or not self._standing():
                    raise
            except asyncio.CancelledError:
                self._look(place)  # while this call goes its way
                raise
            else:
                self._suspects.answered(request)
                return reply
            finally:
                self._seating.leave(place)

    def _standing(self) -> list[_Place]:
        """The servers of which nothing worse than a doubt is known."""
        return [place for place in self._places if place.state in (State.UP, State.DOUBTED)]

    def _failures(self) -> list[FatalCallError]:
        return [place.failure for place in self._places if place.failure]

    def _nobody(self) -> CallError | None:
        """Why nobody can be asked; None where somebody can, or where that shows in a moment."""
        if self._standing() or any(place.open for place in self._places):
            return None
        if len(failures := self._failures()) == len(self._places):
            return failures[0]
        return TransientError(
            "No vLLM server is up.", "It is being started again.", kind="unreachable"
        )

    def _enter(self, place: _Place, state: State) -> None:
        """A server's state changes, and with it who may be asked."""
        place.state = state
        # Where no server of others is well, all are tried: for how long is the circuit's to say.
        tried = not self._owned and not self._standing()
        for one in self._places:
            one.open = one.state is State.UP or (tried and one.state is State.COMING)
        if (nobody := self._nobody()) is not None:
            self._seating.send_away(nobody)
        self._seating.serve()
        self._changed.set()

    def _look(self, place: _Place) -> asyncio.Future[bool]:
        """Whether a server is well; all who want to know at the same time look once."""
        if place.state in (State.NEW, State.UP):
            self._enter(place, State.DOUBTED)
            place.looking = asyncio.create_task(self._looked(place))
        if place.state is State.DOUBTED and place.looking is not None:
            return asyncio.shield(place.looking)
        known: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        known.set_result(False)
        return known

    async def _looked(self, place: _Place) -> bool:
        try:
            well = await place.server.well()
        except FatalCallError as error:
            self._fail(place, error)
            return False
        if well:
            self._enter(place, State.UP)
        else:
            self._revive(place)
        return well

    def _revive(self, place: _Place) -> None:
        """Bring a server up; meanwhile it is left out."""
        self._enter(place, State.COMING)
        place.reviving = asyncio.create_task(self._revived(place))

    async def _revived(self, place: _Place) -> None:
        try:
            await place.server.revive()
        except FatalCallError as error:
            self._fail(place, error)
        except HarnessError as error:
            self._fail(place, FatalCallError(error.message, error.remedy))
        except Exception as error:  # else nobody would hear of it, and all would wait
            self._fail(place, FatalCallError(f"Starting a vLLM server failed: {error!r}."))
        else:
            place.life += 1
            self._enter(place, State.UP)

    def _fail(self, place: _Place, failure: FatalCallError) -> None:
        place.failure = failure
        self._enter(place, State.FAILED)
        if self.ready and self._standing():
            self.tell(f"one server fewer: {failure.message}")

    async def close(self) -> None:
        """End whatever goes on, and give back what the servers hold."""
        going = [task for place in self._places for task in (place.reviving, place.looking) if task]
        for task in going:
            task.cancel()
        for task in going:
            with contextlib.suppress(asyncio.CancelledError, Exception):
                await task
        for place in self._places:
            await place.server.close()


def _arrived(error: CallError) -> bool:
    """Whether a failed call may have reached the server's engine."""
    return not (isinstance(error, TransientError) and error.kind == "unreachable")
