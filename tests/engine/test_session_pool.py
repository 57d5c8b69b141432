import asyncio

import pytest

from harness.calls.signals import Stop, Stopping
from harness.engine.session import process_all


async def test_a_few_workers_process_every_item_once() -> None:
    done: list[int] = []

    async def work(number: int) -> None:
        await asyncio.sleep(0)
        done.append(number)

    await process_all(iter(range(9)), work, workers=2, stop=Stop())
    assert sorted(done) == list(range(9))


async def test_the_first_error_is_raised_once_items_in_flight_are_done() -> None:
    failed, all_begun, done = asyncio.Event(), asyncio.Event(), list[int]()

    async def work(number: int) -> None:
        if number == 0:
            await all_begun.wait()
            failed.set()
            raise KeyError
        if number == 2:
            all_begun.set()
        await failed.wait()
        done.append(number)
        if number == 1:
            raise ZeroDivisionError

    with pytest.raises(KeyError):
        await process_all(iter(range(9)), work, workers=3, stop=Stop())
    assert done == [1, 2]


async def test_stopping_leaves_the_item_unfinished_and_is_not_an_error() -> None:
    stop, taken = Stop(), []

    async def work(number: int) -> None:
        taken.append(number)
        stop.request()
        raise Stopping

    await process_all(iter(range(9)), work, workers=1, stop=stop)
    assert taken == [0]
