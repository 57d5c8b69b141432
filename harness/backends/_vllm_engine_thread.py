"""vLLM's engine in a thread with an event loop of its own.

The engine belongs to the loop that it was made in, and a run file's variants are run in one loop
after the other: so the engine, whose model took minutes to load, outlives them. Loading blocks
its own loop alone, and not the display or Ctrl-C.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from concurrent.futures import Future
from typing import Protocol

from harness.records import Reply, Request

END_S = 20.0
"""Seconds that an engine may take to end. Its processes have 10; and to import vLLM takes as long,
which cannot be called off."""


class Engine(Protocol):
    """What answers."""

    async def load(self) -> None:
        """Return when it can be asked; blocks."""
        ...

    def call_off(self) -> None:
        """Have `load` raise soon, from another thread."""
        ...

    @property
    def dead(self) -> bool:
        """Whether it answers nothing any more."""
        ...

    async def answer(self, request: Request, name: str) -> Reply:
        """The answer to a request; the name is unique."""
        ...

    async def shutdown(self) -> None:
        """End it, also one that could not be loaded; blocks."""
        ...


class EngineThread:
    """Loads an engine and holds it; ended by `end`.

    engine: neither loaded nor asked by anybody else.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._loop = asyncio.new_event_loop()
        self._over = asyncio.Event()
        self._loaded: Future[None] = Future()
        self._loaded.set_running_or_notify_cancel()  # so no waiter that is cancelled cancels it
        self._thread = threading.Thread(target=self._run, name="vllm-engine", daemon=True)
        self._thread.start()

    async def loaded(self) -> None:
        """Return when the engine can be asked.

        Raises: what loading it raises.
        """
        await asyncio.wrap_future(self._loaded)

    async def answer(self, request: Request, name: str) -> Reply:
        """The answer to a request; the name is unique.

        Raises: a `harness.errors.CallError`.
        """
        return await asyncio.wrap_future(
            asyncio.run_coroutine_threadsafe(self._engine.answer(request, name), self._loop)
        )

    def ended(self) -> bool:
        """Whether it answers nothing any more."""
        if not self._loaded.done():
            return False
        failed = self._loaded.exception() is not None
        return failed or self._engine.dead or not self._thread.is_alive()

    def end(self) -> None:
        """End the engine and its processes; waits until they are gone. Nothing if it has ended.

        One that is being loaded is called off. Where that does not help in time, its thread is
        left to itself, and ends with this process.
        """
        if not self._loaded.done():
            self._engine.call_off()
        with contextlib.suppress(RuntimeError):  # its loop is closed
            self._loop.call_soon_threadsafe(self._over.set)
        self._thread.join(END_S)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_until_complete(self._live())
        finally:
            left = asyncio.all_tasks(self._loop)
            for task in left:
                task.cancel()
            if left:
                self._loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
            self._loop.close()

    async def _live(self) -> None:
        """Load the engine in the loop that it is asked and ended in, as vLLM wants it."""
        try:
            await self._engine.load()
        except BaseException as error:
            try:
                await self._engine.shutdown()
            finally:
                self._loaded.set_exception(error)
        else:
            self._loaded.set_result(None)
            await self._over.wait()
            await self._engine.shutdown()
