"""Keeps a run going even if some prompts crash the model's engine every time."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Hashable

from harness.errors import RequestRejected
from harness.records import Request

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
            self._in_flight, self._alone = self._in_flight + 1, alone
        try:
            yield alone
        finally:
            self._in_flight, self._alone = self._in_flight - 1, False
            async with self._changed:
                self._changed.notify_all()


def _name(request: Request) -> Hashable:
    return request.model, request.messages, repr(request.decoding)
