"""Work on a stream over several processes: in order, with only a few pieces in hand at a time.

Owns what makes such processes well behaved: they end with the one that began them, even where it
was killed, and Ctrl-C is that one's business alone.

>>> list(in_order(str.upper, iter(["a", "b"]), jobs=1))
['A', 'B']
"""

from __future__ import annotations

import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from multiprocessing.connection import wait
from typing import TypeVar

from harness.errors import HarnessError

T = TypeVar("T")
R = TypeVar("R")

PENDING = 2
"""Pieces that each process has or will have next: more would only take memory."""


def in_order(
    work: Callable[[T], R],
    pieces: Iterable[T],
    *,
    jobs: int,
) -> Iterator[R]:
    """What ``work`` makes of each piece, in the order of the pieces.

    work: importable, as are the pieces' types, where there are several processes.
    jobs: how many processes; 1 works in this one.

    Raises: what ``work`` raises; HarnessError where a process is killed.
    """
    if jobs == 1:
        yield from map(work, pieces)
        return
    import multiprocessing
    from concurrent.futures import ProcessPoolExecutor
    from concurrent.futures.process import BrokenProcessPool

    pool = ProcessPoolExecutor(
        jobs,
        mp_context=multiprocessing.get_context("spawn"),  # a fork may hold another thread's locks
        initializer=_begin,
    )
    pending: deque[Future[R]] = deque()
    try:
        for piece in pieces:
            pending.append(pool.submit(work, piece))
            if len(pending) >= jobs * PENDING:
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()
    except BrokenProcessPool:
        raise HarnessError(
            "A process of the build ended before its work did.",
            "It may have been out of memory: take fewer --jobs. The same command goes on.",
        ) from None
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def cores() -> int:
    """How many processes this machine lets this one use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _begin() -> None:
    """The first thing that a process does."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    from multiprocessing import parent_process

    parent = parent_process()
    assert parent is not None
    wait([parent.sentinel])
    os._exit(1)
