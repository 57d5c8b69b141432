"""vLLM's engine in a thread with an event loop of its own.

The engine belongs to the loop that it was made in, and a run file's variants are run in one loop
after the other: so the engine, whose model took minutes to load, outlives them. Loading blocks
its own loop alone, and not the display or Ctrl-C.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Protocol

from harness.records import Reply, Request


class Engine(Protocol):
    """What answers."""

    @property
    def dead(self) -> bool:
        """Whether it answers nothing any more."""
        ...

    async def answer(self, request: Request, name: str) -> Reply:
        """The answer to a request; the name is unique."""
        ...

    def shutdown(self) -> None:
        """End it; blocks."""
        ...


class EngineThread:
    """Makes an engine and holds it; ended by `end`.

    make: makes the engine; blocks.
    """

    def __init__(self, make: Callable[[], Engine]) -> None:
        self._make = make
        self._engine: Engine | None = None
        self._loop = asyncio.new_event_loop()
        self._made: Future[None] = Future()
        self._thread = threading.Thread(target=self._run, name="vllm-engine", daemon=True)
        self._thread.start()

    async def made(self) -> None:
        """Return when the engine can be asked.

        Raises: what making it raises.
        """
        await asyncio.shield(asyncio.wrap_future(self._made))

    async def answer(self, request: Request, name: str) -> Reply:
        """The answer to a request; the name is unique.

        Raises: a `harness.errors.CallError`.
        """
        assert self._engine is not None
        return await asyncio.wrap_future(
            asyncio.run_coroutine_threadsafe(self._engine.answer(request, name), self._loop)
        )

    def ended(self) -> bool:
        """Whether it answers nothing any more."""
        if not self._made.done():
            return False
        return self._engine is None or self._engine.dead or not self._thread.is_alive()

    def end(self) -> None:
        """End the engine and its processes; waits until they are gone. Nothing if it has ended."""
        with contextlib.suppress(BaseException):
            self._made.result()  # a model that is being loaded cannot be called off
        with contextlib.suppress(RuntimeError):  # its loop is closed
            self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_until_complete(self._begin())
        try:
            if self._engine is not None:
                self._loop.run_forever()  # until `end`
        finally:
            if self._engine is not None:
                self._engine.shutdown()
            left = asyncio.all_tasks(self._loop)
            for task in left:
                task.cancel()
            if left:
                self._loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
            self._loop.close()

    async def _begin(self) -> None:
        """Make the engine while the loop runs, which vLLM wants."""
        try:
            self._engine = self._make()
        except BaseException as error:
            self._made.set_exception(error)
        else:
            # Whoever ends it now finds a loop that runs for ever.
            self._loop.call_soon(self._made.set_result, None)
