"""One thread that does whatever has gathered since it last looked, in one go.

A commit costs the same for one reply as for a hundred; the event loop never
waits for the disk, and nobody is told "done" before it is.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Generic, TypeVar

T = TypeVar("T")
_Waiting = tuple[asyncio.Future[None], Callable[[], None] | None]


class Batches(Generic[T]):
    """Hands items to a thread, many at once.

    do: called there with what has gathered; what it raises all of them get.
    """

    def __init__(self, do: Callable[[list[T]], None], name: str) -> None:
        self._do = do
        self._queue: SimpleQueue[tuple[T, _Waiting, asyncio.AbstractEventLoop] | None] = (
            SimpleQueue()
        )
        self.unheard = 0
        """Items that have failed and that nobody waited for any more."""
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)
        self._thread.start()

    def add(self, item: T, then: Callable[[], None] | None = None) -> asyncio.Future[None]:
        """Queue an item; the future is done when the item is, or has failed.

        then: called in the event loop at that time, even where nobody waits any more: a
            future that is cancelled does not stop what is queued.
        """
        loop = asyncio.get_running_loop()
        done: asyncio.Future[None] = loop.create_future()
        self._queue.put((item, (done, then), loop))
        return done

    def close(self) -> None:
        """Do what is queued, then end the thread."""
        self._queue.put(None)
        self._thread.join()

    def _work(self) -> None:
        closing = False
        while not closing:
            batch = [self._queue.get()]
            while not self._queue.empty():
                batch.append(self._queue.get())
            closing = None in batch
            added = [entry for entry in batch if entry is not None]
            failure: Exception | None = None
            try:
                if added:
                    self._do([item for item, _, _ in added])
            except Exception as error:  # nobody else would hear of it, and all would wait
                failure = error
            loops: dict[asyncio.AbstractEventLoop, list[_Waiting]] = {}
            for _, waiting, loop in added:
                loops.setdefault(loop, []).append(waiting)
            for loop, all_waiting in loops.items():
                if failure is not None:
                    self.unheard += sum(future.done() for future, _ in all_waiting)
                with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits
                    loop.call_soon_threadsafe(_settle, all_waiting, failure)


def _settle(all_waiting: list[_Waiting], failure: Exception | None) -> None:
    for future, then in all_waiting:
        if then is not None:
            then()
        if future.done():
            continue
        if failure is None:
            future.set_result(None)
        else:
            future.set_exception(failure)
