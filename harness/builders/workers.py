"""Processes a stream of pieces in several processes: results in order, few pieces in memory.

The processes start when there are at least two pieces, end with the process that started them (even
if it is killed), and leave Ctrl-C to it.

>>> with Workers(jobs=2) as workers:
...     list(workers.in_order(str.upper, ["a"]))
['A']
"""

from __future__ import annotations

import logging
import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from itertools import chain, islice
from multiprocessing.connection import wait
from typing import TYPE_CHECKING, TypeVar

from harness.errors import HarnessError

if TYPE_CHECKING:
    from concurrent.futures import Future, ProcessPoolExecutor

T = TypeVar("T")
R = TypeVar("R")

PENDING = 2
"""Pieces submitted for each process; more would only take memory."""


class Workers:
    """A pool of processes; ``jobs=1`` works in this one."""

    def __init__(self, jobs: int) -> None:
        self._jobs = jobs
        self._pool: ProcessPoolExecutor | None = None

    def __enter__(self) -> Workers:
        return self

    def __exit__(self, *_: object) -> None:
        if self._pool:
            self._pool.shutdown(wait=True, cancel_futures=True)
            self._pool = None

    def in_order(self, work: Callable[[T], R], pieces: Iterable[T]) -> Iterator[R]:
        """Apply a function to each piece; results come in the order of the pieces.

        Args:
            work: An importable function of importable types; it runs in other processes.
            pieces: What to work on, taken one by one.

        Raises:
            HarnessError: A process was killed. Exceptions of ``work`` pass through.
        """
        pieces = iter(pieces)
        first = list(islice(pieces, 2))
        if self._jobs == 1 or len(first) < 2:
            yield from map(work, chain(first, pieces))
            return
        from concurrent.futures.process import BrokenProcessPool

        pool = self._started()
        pending: deque[Future[R]] = deque()
        try:
            for piece in chain(first, pieces):
                pending.append(pool.submit(work, piece))
                if len(pending) >= self._jobs * PENDING:
                    yield pending.popleft().result()
            while pending:
                yield pending.popleft().result()
        except BrokenProcessPool:
            raise HarnessError(
                "A process of the build ended before its work was done.",
                "It may have run out of memory: use fewer --jobs. The same command resumes.",
            ) from None
        finally:
            for future in pending:
                future.cancel()

    def _started(self) -> ProcessPoolExecutor:
        if self._pool is None:
            import multiprocessing
            from concurrent.futures import ProcessPoolExecutor

            # A forked process could inherit locks that other threads hold.
            context = multiprocessing.get_context("spawn")
            self._pool = ProcessPoolExecutor(self._jobs, mp_context=context, initializer=_begin)
        return self._pool


def cores() -> int:
    """Return the number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _begin() -> None:
    """Set up a new process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    logging.getLogger("harness").setLevel(logging.ERROR)  # the first process has warned already
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    from multiprocessing import parent_process

    parent = parent_process()
    assert parent is not None
    wait([parent.sentinel])
    os._exit(1)
