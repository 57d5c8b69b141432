"""Reads a run's attempts while the run is in progress."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import TypeVar, cast

from harness.errors import HarnessError
from harness.store.attempt_lines import AttemptLines
from harness.store.index import AttemptIndex
from harness.store.run_folder import JUDGEMENTS, RunFolder

T = TypeVar("T")

POLL_S = 0.5  # between looks at a file
PART_BYTES = 16 << 20  # of a file, read at a time
NICE = 10  # priority of work in the background: a tenth of a run's share of a busy processor
SHARE = 0.1  # of a processor's time, for indexing what is new


async def in_thread(work: Callable[[], T], *, yielding: bool = False) -> T:
    """Return the result of a function that runs in a daemon thread.

    If ``yielding``, the thread has a lower priority (on Linux), to spare the run that is followed.
    """
    loop = asyncio.get_running_loop()
    done: asyncio.Future[T] = loop.create_future()

    def settle(result: T | None, error: BaseException | None) -> None:
        if done.done():  # cancelled
            return
        if error is not None:
            done.set_exception(error)
        else:
            done.set_result(cast("T", result))

    def call() -> None:
        result = failed = None
        if yielding and sys.platform == "linux":  # elsewhere, it takes no thread's id
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), NICE)
        try:
            result = work()
        except BaseException as error:
            failed = error
        with contextlib.suppress(RuntimeError):  # the loop has ended
            loop.call_soon_threadsafe(settle, result, failed)

    threading.Thread(target=call, name="view", daemon=True).start()
    return await done


def timed(work: Callable[[], T]) -> tuple[T, float]:
    """Return a function's result and the processor time, in seconds, that its thread used."""
    began = time.thread_time()
    return work(), time.thread_time() - began


class Followed:
    """A run whose file of attempts is read while it grows.

    ``version`` counts the replacements of ``index``.
    """

    def __init__(self, folder: RunFolder) -> None:
        self.folder = folder
        self.index = AttemptIndex(folder.attempts, lines=AttemptLines(folder.attempts, "followed"))
        self.recorded = folder.read_manifest().get("backend") == "replay"
        self.version = 0
        self.size = 0  # of the file
        self.behind = False  # whether more of the file waits to be read
        self.problem = ""
        self.ready = asyncio.Event()  # set after the first look at the file
        self._lines: AttemptLines | None = None
        self._state: tuple[object, ...] = ()
        self._rest_until = 0.0
        self._task = asyncio.create_task(self._follow())

    @property
    def indexed(self) -> int:
        """The size in bytes of the part of the file that is indexed."""
        return 0 if self._lines is None else self._lines.size

    async def _follow(self) -> None:
        while True:
            try:
                await self._look()
                self.problem = ""
            except (HarnessError, OSError) as error:
                self.behind, self.problem = False, str(error)
                self._lines = None
            self.ready.set()
            await asyncio.sleep(0 if self.behind else POLL_S)

    async def _look(self) -> None:
        """Read the next part of the file, and update the index if it is due."""
        path = self.folder.attempts
        self.size = path.stat().st_size if path.exists() else 0
        judgements = self.folder.path / JUDGEMENTS
        judged = judgements.stat().st_size if judgements.exists() else 0
        if self._lines is None or self.size < self._lines.size:
            self._lines = AttemptLines(path, "followed")
        lines = self._lines
        before = lines.size
        if self.size > before:
            await in_thread(lambda: lines.read_on(PART_BYTES), yielding=True)
        behind = lines.size > before and self.size > lines.size
        state = (lines.size, judged)
        at_end = self.behind and not behind
        if state != self._state and (at_end or time.monotonic() >= self._rest_until):
            work = partial(AttemptIndex, path, lines=lines)
            self.index, took = await in_thread(partial(timed, work), yielding=True)
            self._rest_until = time.monotonic() + max(POLL_S, took / SHARE)
            self._state = state
            self.version += 1
        self.behind = behind
