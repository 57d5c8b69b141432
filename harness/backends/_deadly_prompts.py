"""Prompts that were in flight when an engine died: asked again with care, and not without end.

A prompt can kill an engine whenever it is asked. So a prompt that was in flight at two deaths is
asked alone, and if the engine then dies again, the prompt is given up, with its other samples.
Everything else that was in flight is answered sooner or later, and cleared.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Hashable

from harness.errors import RequestRejected
from harness.records import Request

DEATHS = 2
"""Deaths in whose flight a prompt was, after which it is asked alone."""


class DeadlyPrompts:
    """The prompts of one model that may have killed its engine."""

    def __init__(self) -> None:
        self._deaths: dict[Hashable, set[Hashable]] = {}
        self._given_up: set[Hashable] = set()
        self._alone = asyncio.Lock()
        self._in_flight = 0
        self._idle = asyncio.Event()

    @contextlib.asynccontextmanager
    async def turn(self, request: Request) -> AsyncIterator[bool]:
        """Wait until a request may be asked; whether it is asked alone.

        Raises:
            RequestRejected: Its prompt has killed an engine three times.
        """
        name = _name(request) if self._deaths else None  # a name takes time
        if name in self._given_up:
            raise self._refusal(name)
        alone = len(self._deaths.get(name, ())) >= DEATHS
        if alone:
            async with self._alone:
                while self._in_flight:
                    self._idle.clear()
                    await self._idle.wait()
                yield True
            return
        while self._alone.locked():
            async with self._alone:
                pass
        self._in_flight += 1
        try:
            yield False
        finally:
            self._in_flight -= 1
            if not self._in_flight:
                self._idle.set()

    def died(self, request: Request, life: Hashable, *, alone: bool) -> None:
        """Count the death of an engine while it worked on a request.

        Args:
            request: The request.
            life: Tells this life of the engine from its others.
            alone: Whether the request was the only one in flight.

        Raises:
            RequestRejected: The request was alone, so its prompt is to blame.
        """
        name = _name(request)
        self._deaths.setdefault(name, set()).add(life)
        if alone:
            self._given_up.add(name)
            raise self._refusal(name)

    def answered(self, request: Request) -> None:
        """Clear a prompt that was answered."""
        if self._deaths:
            self._deaths.pop(_name(request), None)

    def _refusal(self, name: Hashable) -> RequestRejected:
        return RequestRejected(
            f"vLLM has died {len(self._deaths[name])} times of this prompt, the last time with "
            "nothing else in flight."
        )


def _name(request: Request) -> Hashable:
    """What the samples of a prompt have in common."""
    return request.model, request.messages, repr(request.decoding)
