"""Work on a stream over several processes: in order, with only a few pieces in hand at a time.

Owns what makes such processes well behaved: they begin when there is work for a second one, they
end with the process that began them, even where it was killed, and Ctrl-C is that one's business.

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
from types import TracebackType
from typing import TYPE_CHECKING, TypeVar

from harness.errors import HarnessError

if TYPE_CHECKING:
    from concurrent.futures import Future, ProcessPoolExecutor

T = TypeVar("T")
R = TypeVar("R")

PENDING = 2
"""Pieces that each process has or will have next: more would only take memory."""


class Workers:
    """Processes for the pieces of one build after another's.

    jobs: how many processes; 1 works in this one.
    """

    def __init__(self, jobs: int) -> None:
        self._jobs = jobs
        self._pool: ProcessPoolExecutor | None = None

    def __enter__(self) -> Workers:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._pool:
            self._pool.shutdown(wait=True, cancel_futures=True)
            self._pool = None

    def in_order(self, work: Callable[[T], R], pieces: Iterable[T]) -> Iterator[R]:
        """What ``work`` makes of each piece, in the order of the pieces.

        work: importable, as are the pieces' types: other processes do it.

        Raises: what ``work`` raises; HarnessError where a process is killed.
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
                "A process of the build ended before its work did.",
                "It may have been out of memory: take fewer --jobs. The same command goes on.",
            ) from None
        finally:
            for future in pending:
                future.cancel()

    def _started(self) -> ProcessPoolExecutor:
        if self._pool is None:
            import multiprocessing
            from concurrent.futures import ProcessPoolExecutor

            self._pool = ProcessPoolExecutor(
                self._jobs,
                # A fork may hold another thread's locks.
                mp_context=multiprocessing.get_context("spawn"),
                initializer=_begin,
            )
        return self._pool


def cores() -> int:
    """How many processes this machine lets this one use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _begin() -> None:
    """The first thing that a process does."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    logging.getLogger("harness").setLevel(logging.ERROR)  # the first process has said it
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    from multiprocessing import parent_process

    parent = parent_process()
    assert parent is not None
    wait([parent.sentinel])
    os._exit(1)
