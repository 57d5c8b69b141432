"""Shares and stops the local servers of this process, and isolates prompts that crash them."""

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator, Callable, Collection, Hashable
from dataclasses import dataclass
from typing import Protocol, TypeVar, cast

from harness.errors import RequestRejected
from harness.records import Request


class RunningServer(Protocol):
    """A local server or engine that can be ended."""

    def has_ended(self) -> bool: ...

    def end(self) -> None:
        """End the server or engine, and wait until it is dead. May be called repeatedly."""


R = TypeVar("R", bound=RunningServer)


@dataclass(eq=False)
class Lease:
    """A run's claim on the server with a name, until the run ends."""

    name: str
    used: bool = False  # whether the run has needed the server yet


class OwnedServers(contextlib.AbstractContextManager["OwnedServers"]):
    """The local servers and engines that this process has started, shared by its runs.

    A server is stopped after the last run that needs it. A server that no run is using is also
    stopped before another one starts, because two large models rarely fit on one machine. It is
    started again when needed.
    """

    def __init__(self) -> None:
        self._running: dict[str, RunningServer] = {}
        self._leases: list[Lease] = []
        self._lock = threading.Lock()

    def lease(self, name: str) -> Lease:
        """Return a new lease on a server, which is stopped with its last lease at the latest."""
        lease = Lease(name)
        self._leases.append(lease)
        return lease

    def acquire(self, lease: Lease, failed: RunningServer | None, launch: Callable[[], R]) -> R:
        """Return the running server of a lease. Blocks while the server is launched.

        Args:
            lease: A lease that has not been released.
            failed: The server that the caller has seen fail, which is replaced, or None.
            launch: Starts a server. It is called if none is running, after servers that are not in
                use have been stopped.
        """
        with self._lock:
            lease.used = True
            running = self._running.get(lease.name)
            if running is not None and running is not failed and not running.has_ended():
                return cast("R", running)
            in_use = {remaining.name for remaining in self._leases if remaining.used} - {lease.name}
            self._end(self._running.keys() - in_use)
            self._running[lease.name] = launched = launch()
            return launched

    def release(self, lease: Lease) -> None:
        """End a lease, and stop its server if no other lease remains.

        Blocks until the server is dead. May be called repeatedly.
        """
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


MIN_DEATHS = 2  # number of crashes with a prompt in flight after which it is sent alone


class DeadlyPrompts:
    """A record of the prompts that were in flight when a model's engine died.

    After two crashes with a prompt in flight, its requests are sent alone. If the engine dies
    during such a request, the prompt is abandoned with all its samples.

    Args:
        engine: The engine's name in messages.
    """

    def __init__(self, engine: str = "vLLM") -> None:
        self._engine = engine
        self._deaths: dict[Hashable, set[Hashable]] = {}
        self._abandoned: set[Hashable] = set()

    def must_send_alone(self, request: Request) -> bool:
        """Return whether a request must be sent alone.

        Raises:
            RequestRejected: If the request's prompt has been abandoned.
        """
        if not self._deaths:
            return False  # computing the key takes time
        prompt = _prompt_key(request)
        if prompt in self._abandoned:
            raise self._abandoned_error(prompt)
        return len(self._deaths.get(prompt, ())) >= MIN_DEATHS

    def record_death(self, request: Request, life: Hashable, *, alone: bool) -> None:
        """Record that an engine died while a request was in flight.

        Args:
            request: The request.
            life: Identifies the instance of the engine, so that each crash counts once.
            alone: Whether no other request was in flight.

        Raises:
            RequestRejected: If the request was sent alone. Its prompt is then abandoned.
        """
        prompt = _prompt_key(request)
        self._deaths.setdefault(prompt, set()).add(life)
        if alone:
            self._abandoned.add(prompt)
            raise self._abandoned_error(prompt)

    def record_answer(self, request: Request) -> None:
        """Clear the crashes of a request's prompt, because the engine has answered it."""
        if self._deaths:
            self._deaths.pop(_prompt_key(request), None)

    def _abandoned_error(self, prompt: Hashable) -> RequestRejected:
        times = f"{len(self._deaths[prompt])} times on this prompt"
        return RequestRejected(
            f"{self._engine} has died {times}, the last time with nothing else in flight."
        )


class EngineGate:
    """A gate that admits requests to an engine, and those suspected by `DeadlyPrompts` alone."""

    def __init__(self, prompts: DeadlyPrompts) -> None:
        self._prompts = prompts
        self._changed = asyncio.Condition()
        self._in_flight = 0
        self._alone = False

    @contextlib.asynccontextmanager
    async def admit(self, request: Request) -> AsyncIterator[bool]:
        """Wait until a request may be sent, and yield whether it is sent alone.

        The ``with`` block sends the request.

        Raises:
            RequestRejected: If the request's prompt has been abandoned.
        """
        alone = self._prompts.must_send_alone(request)
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


def _prompt_key(request: Request) -> Hashable:
    return request.model, request.messages, repr(request.decoding)
