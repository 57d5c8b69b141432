"""Shares and ends the local servers and engines of this process, and spares them deadly prompts."""

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator, Callable, Collection, Hashable
from dataclasses import dataclass
from typing import Protocol, TypeVar, cast

from harness.errors import RequestRejected
from harness.records import Request


class Running(Protocol):
    """A local server or engine that can be ended."""

    def ended(self) -> bool: ...

    def end(self) -> None:
        """End the server or engine, and wait until it is dead. May be called repeatedly."""


R = TypeVar("R", bound=Running)


@dataclass(eq=False)
class Lease:
    """A run's claim on a named server, until the run ends."""

    name: str
    used: bool = False  # whether the run has needed the server yet


class OwnedServers(contextlib.AbstractContextManager["OwnedServers"]):
    """The servers and engines that this process has started. Runs share them.

    A server is stopped after the last run that needs it. If no run uses it at the moment, it is
    stopped before another server starts, because two large models rarely fit on one machine, and
    started again when needed.
    """

    def __init__(self) -> None:
        self._running: dict[str, Running] = {}
        self._leases: list[Lease] = []
        self._lock = threading.Lock()

    def lease(self, name: str) -> Lease:
        """Return a new lease on a server. A server ends with its last lease at the latest."""
        self._leases.append(lease := Lease(name))
        return lease

    def renew(self, lease: Lease, failed: Running | None, launch: Callable[[], R]) -> R:
        """Return the server of a lease. Blocks while it is launched.

        It is launched if it is not running, or if it is ``failed``, the server that the caller has
        seen fail. Servers not in use are ended first.
        """
        with self._lock:
            lease.used = True
            running = self._running.get(lease.name)
            if running is not None and running is not failed and not running.ended():
                return cast("R", running)
            in_use = {remaining.name for remaining in self._leases if remaining.used} - {lease.name}
            self._end(self._running.keys() - in_use)
            self._running[lease.name] = launched = launch()
            return launched

    def give_up(self, lease: Lease) -> None:
        """End a lease and, if no other lease remains, its server. Blocks. May be repeated."""
        with self._lock:
            if lease in self._leases:
                self._leases.remove(lease)
                self._end({lease.name} - {remaining.name for remaining in self._leases})

    def _end(self, names: Collection[str]) -> None:
        for name in list(names):
            if (server := self._running.pop(name, None)) is not None:
                server.end()

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._end(self._running)


DEATHS = 2  # number of crashes with a prompt in flight after which it is sent alone


class DeadlyPrompts:
    """A record of the prompts that were in flight when a model's engine died.

    After a prompt has been in flight in two crashes, its requests are sent alone. If the engine
    dies during such a request, the prompt is abandoned with all its samples.

    Args:
        engine: The engine's name in messages.
    """

    def __init__(self, engine: str = "vLLM") -> None:
        self._engine = engine
        self._deaths: dict[Hashable, set[Hashable]] = {}
        self._given_up: set[Hashable] = set()

    def suspects(self, request: Request) -> bool:
        """Return whether a request must be sent alone.

        Raises:
            RequestRejected: If the request's prompt has been abandoned.
        """
        if not self._deaths:
            return False  # naming takes time
        name = _name(request)
        if name in self._given_up:
            raise self._refusal(name)
        return len(self._deaths.get(name, ())) >= DEATHS

    def died(self, request: Request, life: Hashable, *, alone: bool) -> None:
        """Record that an engine died while a request was in flight.

        ``life`` identifies the instance of the engine: each crash counts once.

        Raises:
            RequestRejected: If the request was sent alone. Its prompt is then abandoned.
        """
        name = _name(request)
        self._deaths.setdefault(name, set()).add(life)
        if alone:
            self._given_up.add(name)
            raise self._refusal(name)

    def answered(self, request: Request) -> None:
        if self._deaths:
            self._deaths.pop(_name(request), None)

    def _refusal(self, name: Hashable) -> RequestRejected:
        times = f"{len(self._deaths[name])} times on this prompt"
        return RequestRejected(
            f"{self._engine} has died {times}, the last time with nothing else in flight."
        )


class Turns:
    """A gate in front of one engine: a request suspected by `DeadlyPrompts` is sent alone."""

    def __init__(self, prompts: DeadlyPrompts) -> None:
        self._prompts = prompts
        self._changed = asyncio.Condition()
        self._in_flight = 0
        self._alone = False

    @contextlib.asynccontextmanager
    async def turn(self, request: Request) -> AsyncIterator[bool]:
        """Wait until a request may be sent. Yield whether it must be sent alone.

        Raises:
            RequestRejected: If the request's prompt has been abandoned.
        """
        alone = self._prompts.suspects(request)
        async with self._changed:
            await self._changed.wait_for(lambda: not (self._alone or (alone and self._in_flight)))
            self._in_flight += 1
            self._alone = alone
        try:
            yield alone
        finally:
            self._in_flight -= 1
            self._alone = False
            async with self._changed:
                self._changed.notify_all()


def _name(request: Request) -> Hashable:
    return request.model, request.messages, repr(request.decoding)
