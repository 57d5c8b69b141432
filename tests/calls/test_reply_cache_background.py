import asyncio
import threading

import pytest

from harness.calls.reply_cache import BackgroundQueue


async def test_what_gathers_is_done_in_one_go_and_told_afterwards() -> None:
    begin, done = threading.Event(), list[list[int]]()

    def do(items: list[int]) -> None:
        begin.wait(10)
        done.append(items)

    batches = BackgroundQueue(do, "test")
    futures = [batches.add(number) for number in range(5)]
    await asyncio.sleep(0.05)
    assert not any(future.done() for future in futures)
    begin.set()
    await asyncio.gather(*futures)
    assert sorted(number for items in done for number in items) == list(range(5))
    assert len(done) <= 2
    batches.close()


async def test_a_failure_reaches_all_of_its_batch_and_the_thread_goes_on() -> None:
    def do(items: list[int]) -> None:
        if 0 in items:
            raise ValueError("no")

    batches = BackgroundQueue(do, "test")
    with pytest.raises(ValueError, match="no"):
        await batches.add(0)
    await batches.add(1)
    batches.close()


async def test_cancelled_waiting_stops_nothing_and_what_comes_after_comes() -> None:
    begin, done = threading.Event(), list[int]()

    def do(items: list[int]) -> None:
        begin.wait(10)
        done.extend(items)

    batches = BackgroundQueue(do, "test")
    batches.add(1).cancel()
    begin.set()
    await batches.add(2)
    assert done == [1, 2]
    batches.close()


def test_what_is_queued_when_the_loop_ends_is_still_done() -> None:
    done = list[int]()
    batches = BackgroundQueue(done.extend, "test")

    async def main() -> None:
        batches.add(1)

    asyncio.run(main())
    batches.close()
    assert done == [1]
