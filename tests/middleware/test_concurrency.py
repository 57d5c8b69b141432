import asyncio

import pytest

from harness.errors import TimedOut
from harness.middleware.concurrency import Concurrency
from harness.middleware.stopping import Stop, Stopping
from harness.records import Decoding, Message, Origin, Request
from tests.conftest import Scripted

REQUEST = Request("m", (Message("user", "What is 1 + 1?"),), Decoding(), 0, Origin("a", 0, 1))


async def test_no_more_calls_than_allowed_are_in_flight() -> None:
    backend = Scripted(delay=0.005)
    ask = Concurrency(backend, Stop(), most=7, timeout_s=10)
    await asyncio.gather(*(ask(REQUEST) for _ in range(50)))
    assert backend.most_in_flight == 7


async def test_the_latency_is_the_backends_own() -> None:
    ask = Concurrency(Scripted(delay=0.03), Stop(), most=1, timeout_s=10)
    replies = await asyncio.gather(*(ask(REQUEST) for _ in range(3)))
    assert all(reply.latency_s >= 0.03 for reply in replies)
    clock = iter([1.0, 4.5])
    ask = Concurrency(Scripted(), Stop(), most=1, timeout_s=10, clock=lambda: next(clock))
    assert (await ask(REQUEST)).latency_s == 3.5


async def test_a_call_that_takes_too_long_is_given_up_and_its_slot_is_free() -> None:
    backend = Scripted(delay=60)
    ask = Concurrency(backend, Stop(), most=1, timeout_s=0.01)
    with pytest.raises(TimedOut, match=r"limits\.timeout_s"):
        await ask(REQUEST)
    backend.delay = 0
    assert (await ask(REQUEST)).text == "2"


async def test_no_call_begins_when_the_run_stops() -> None:
    backend, stop = Scripted(delay=0.02), Stop()
    ask = Concurrency(backend, stop, most=1, timeout_s=10)
    first, second = asyncio.create_task(ask(REQUEST)), asyncio.create_task(ask(REQUEST))
    await asyncio.sleep(0.005)
    stop.request()
    assert (await first).text == "2"
    with pytest.raises(Stopping):
        await second
    assert len(backend.requests) == 1


async def test_a_sleep_ends_when_the_run_stops() -> None:
    stop = Stop()
    await stop.sleep(0)
    sleeping = asyncio.create_task(stop.sleep(3600))
    await asyncio.sleep(0)
    stop.request()
    with pytest.raises(Stopping):
        await sleeping
    with pytest.raises(Stopping):
        await stop.sleep(0)
