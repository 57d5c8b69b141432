"""Who is asked next: the seats of one or several servers, and those who wait for one.

A call goes to the server with the fewest in flight. Where all are full it waits, so that a server
that comes up later gets its share; the first come is the first served. One that must be asked
alone waits until a server has nothing else in flight, and holds all of it.

>>> seating = Seating([Seats(256)])
>>> seats = asyncio.run(seating.take())
>>> seats.load
1
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from typing import Generic, TypeVar


class Seats:
    """One server's.

    most: calls that it may have in flight.
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self.load = 0
        self.open = True  # whether it may be asked just now
        self.alone = False  # whether the one call that it has must be its only one


S = TypeVar("S", bound=Seats)


class Seating(Generic[S]):
    """The seats of all servers of a model."""

    def __init__(self, servers: Sequence[S]) -> None:
        self._servers = list(servers)
        self._waiting: deque[asyncio.Future[S]] = deque()
        self._wanting_all: deque[asyncio.Future[S]] = deque()

    async def take(self, *, alone: bool = False) -> S:
        """A seat, and whose it is; to be given back by `leave`.

        alone: the call is to be the only one that its server has in flight.

        Raises: what `send_away` is given.
        """
        turn: asyncio.Future[S] = asyncio.get_running_loop().create_future()
        (self._wanting_all if alone else self._waiting).append(turn)
        self.serve()
        try:
            return await turn
        except asyncio.CancelledError:
            if not turn.cancelled() and turn.exception() is None:  # served at the same moment
                self.leave(turn.result())
            raise

    def leave(self, server: S) -> None:
        """Give a seat back."""
        server.load -= 1
        server.alone = False
        self.serve()

    def serve(self) -> None:
        """Give free seats to those who wait; to be called when a server opens."""
        while True:
            free = [server for server in self._servers if server.open and not server.alone]
            if _anybody(self._wanting_all) and free:
                emptiest = min(free, key=_load)
                if emptiest.load == 0:
                    emptiest.alone = True
                    self._seat(emptiest, self._wanting_all)
                    continue
                free.remove(emptiest)  # it gets nothing new, and so it empties
            free = [server for server in free if server.load < server.most]
            if not (free and _anybody(self._waiting)):
                return
            self._seat(min(free, key=_load), self._waiting)

    def _seat(self, server: S, queue: deque[asyncio.Future[S]]) -> None:
        server.load += 1
        # Of equals the first one, and next time another: one after the other.
        self._servers.remove(server)
        self._servers.append(server)
        queue.popleft().set_result(server)

    def send_away(self, why: Exception) -> None:
        """Nobody who waits will get a seat."""
        for queue in (self._waiting, self._wanting_all):
            while _anybody(queue):
                queue.popleft().set_exception(why)


def _anybody(queue: deque[asyncio.Future[S]]) -> bool:
    """Whether somebody still waits in a queue; forgets those who were cancelled."""
    while queue and queue[0].done():
        queue.popleft()
    return bool(queue)


def _load(server: Seats) -> int:
    return server.load
