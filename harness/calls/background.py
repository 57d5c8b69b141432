"""Passes work to a background thread, which takes all queued items together.

Committing 100 replies together takes hardly longer than committing one.
"""

import asyncio
import contextlib
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Generic, TypeVar

T = TypeVar("T")


class BackgroundQueue(Generic[T]):
    """A queue whose items a background thread passes together to ``do``."""

    def __init__(self, do: Callable[[list[T]], None], name: str) -> None:
        self._do = do
        self._queue: SimpleQueue[tuple[T, asyncio.Future[None]] | None] = SimpleQueue()
        self.unretrieved = 0
        """Number of failed items whose future was cancelled, so that no caller got the error."""
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)
        self._thread.start()

    def add(self, item: T) -> asyncio.Future[None]:
        """Queue an item. The returned future completes when ``do`` has processed the item.

        The future fails if ``do`` fails. Cancelling it does not stop the work.
        """
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._queue.put((item, done))
        return done

    def close(self) -> None:
        """Wait until the queued items are processed, and end the thread."""
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
            futures = [future for _, future in added]
            failure: Exception | None = None
            try:
                if added:
                    self._do([item for item, _ in added])
            except Exception as error:  # without this, the callers would wait forever
                failure = error
                self.unretrieved += sum(future.done() for future in futures)
            if futures:
                with contextlib.suppress(RuntimeError):  # the loop is closed, so nothing is waiting
                    futures[0].get_loop().call_soon_threadsafe(_settle, futures, failure)


def _settle(futures: list[asyncio.Future[None]], failure: Exception | None) -> None:
    for future in futures:
        if future.done():
            continue
        if failure is None:
            future.set_result(None)
        else:
            future.set_exception(failure)
