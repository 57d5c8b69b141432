"""The worker pool that does all paid work: samples, judgements and questions."""

import asyncio
import contextlib
import gc
from collections.abc import Awaitable, Callable, Iterator
from typing import TypeVar

from harness.calls.signals import Stop, Stopping

T = TypeVar("T")

OBJECTS_BETWEEN_COLLECTIONS = 50_000


async def work_off(
    items: Iterator[T], work: Callable[[T], Awaitable[None]], *, workers: int, stop: Stop
) -> None:
    """Process items with concurrent workers.

    A `Stopping` from ``work`` ends that worker. Any other exception requests a stop: the workers
    finish only their current items, and the first exception is then raised.
    """
    first: Exception | None = None

    async def pull() -> None:
        nonlocal first
        try:
            while not stop.requested and (item := next(items, None)) is not None:
                await work(item)
                # A cached or free call never yields to the event loop, but signals, the display
                # and the other workers need their turn.
                await asyncio.sleep(0)
        except Stopping:
            return
        except Exception as error:
            first = first or error
            stop.request()

    async with asyncio.TaskGroup() as group:
        for _ in range(workers):
            group.create_task(pull())
    if first is not None:
        raise first


@contextlib.contextmanager
def rare_collections() -> Iterator[None]:
    """Collect cyclic garbage less often within a ``with`` block.

    With Python's default threshold, nearly all collections found nothing, but took a third of a
    run's CPU time. Objects that exist already are not examined, which would take 0.1 s.
    """
    before, frozen = gc.get_threshold(), gc.get_freeze_count()
    if before[0]:  # 0 means never
        gc.set_threshold(max(before[0], OBJECTS_BETWEEN_COLLECTIONS), *before[1:])
    if not frozen:
        gc.freeze()
    try:
        yield
    finally:
        gc.set_threshold(*before)
        if not frozen:
            gc.unfreeze()
