"""Process pools that return results in order and keep few work items in memory.

The processes ignore Ctrl-C. They end when the process that started them ends, even if it is killed.
"""

from __future__ import annotations

import logging
import multiprocessing
import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from functools import cached_property
from itertools import chain, islice
from multiprocessing.connection import wait
from typing import TypeVar

from harness.errors import HarnessError

T = TypeVar("T")
R = TypeVar("R")

PENDING = 2  # pieces submitted per process; more would only take memory


class Workers:
    """A pool of ``jobs`` processes. If ``jobs`` is 1, the calling process does the work itself."""

    def __init__(self, jobs: int) -> None:
        self._jobs = jobs

    @cached_property
    def _pool(self) -> ProcessPoolExecutor:
        # A forked process could inherit locks held by other threads.
        context = multiprocessing.get_context("spawn")
        return ProcessPoolExecutor(self._jobs, mp_context=context, initializer=_begin)

    def __enter__(self) -> Workers:
        return self

    def __exit__(self, *_: object) -> None:
        if "_pool" in vars(self):
            self._pool.shutdown(cancel_futures=True)

    def in_order(self, work: Callable[[T], R], pieces: Iterable[T]) -> Iterator[R]:
        """Yield ``work(piece)`` for each piece, in the order of the pieces.

        ``work`` and the pieces must be picklable if there are several processes.

        Raises:
            HarnessError: If a process ends unexpectedly.
        """
        pieces = iter(pieces)
        first = list(islice(pieces, 2))
        if self._jobs == 1 or len(first) < 2:
            yield from map(work, chain(first, pieces))
            return
        pending: deque[Future[R]] = deque()
        try:
            for piece in chain(first, pieces):
                pending.append(self._pool.submit(work, piece))
                if len(pending) >= self._jobs * PENDING:
                    yield pending.popleft().result()
            while pending:
                yield pending.popleft().result()
        except BrokenProcessPool:
            remedy = "It may have run out of memory: use fewer --jobs. The same command resumes."
            message = "A process of the build ended before its work was done."
            raise HarnessError(message, remedy) from None
        finally:
            for future in pending:
                future.cancel()


def cores() -> int:
    """Return the number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _begin() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    logging.getLogger("harness").setLevel(logging.ERROR)  # the main process has already warned
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    wait([parent.sentinel])
    os._exit(1)
