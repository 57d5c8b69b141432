"""Ctrl-C: once to finish what is in flight, twice to stop now."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Callable, Iterator

SIGNALS = (signal.SIGINT, signal.SIGTERM)


@contextlib.contextmanager
def interruptible(stop: Callable[[], None]) -> Iterator[None]:
    """Call ``stop`` on the first signal, cancel the running task on the second.

    If the event loop cannot watch signals, Ctrl-C stops at once.
    """
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    assert task is not None
    seen = 0

    def signalled() -> None:
        nonlocal seen
        seen += 1
        if seen == 1:
            stop()
        else:
            task.cancel()

    watched = []
    for number in SIGNALS:
        with contextlib.suppress(NotImplementedError):
            loop.add_signal_handler(number, signalled)
            watched.append(number)
    try:
        yield
    finally:
        for number in watched:
            loop.remove_signal_handler(number)
