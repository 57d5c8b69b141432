"""A backend that starts before its first call."""

import asyncio
from collections.abc import Callable

import pytest

from harness.calls.backend_layers import Startup
from harness.calls.signals import Stop, Stopping
from harness.errors import FatalCallError
from harness.records import Decoding, Message, Origin, Reply, Request

ASKED = Request("m", (Message("user", "What is 1 + 1?"),), Decoding(), 0, Origin("a", 0, 1))


class Slow:
    """Comes up when it is let."""

    def __init__(self, failure: Exception | None = None) -> None:
        self.ready = False
        self.starts = 0
        self.let = asyncio.Event()
        self.failure = failure

    async def start(self, tell: Callable[[str], None]) -> None:
        self.starts += 1
        tell("starting")
        await self.let.wait()
        if self.failure:
            raise self.failure
        self.ready = True


async def answer(request: Request) -> Reply:
    return Reply("yes", "stop")


def around(backend: Slow, stop: Stop | None = None) -> tuple[Startup, list[str]]:
    told: list[str] = []
    return Startup(answer, backend, stop or Stop(), told.append), told


async def test_all_calls_share_one_start_and_the_user_hears_of_it() -> None:
    backend = Slow()
    starting, told = around(backend)
    calls = [asyncio.create_task(starting(ASKED)) for _ in range(5)]
    await asyncio.sleep(0)
    backend.let.set()
    assert [reply.text for reply in await asyncio.gather(*calls)] == ["yes"] * 5
    assert backend.starts == 1
    assert told[0] == "starting"
    assert told[-1] == ""
    backend.ready = False  # it died
    await starting(ASKED)
    assert backend.starts == 2


async def test_a_failed_start_is_told_to_every_call() -> None:
    backend = Slow(FatalCallError("no memory"))
    backend.let.set()
    starting, told = around(backend)
    found = await asyncio.gather(*(starting(ASKED) for _ in range(3)), return_exceptions=True)
    assert [str(one) for one in found] == ["no memory"] * 3
    assert told[-1] == ""


async def test_the_runs_end_ends_the_wait() -> None:
    stop, backend = Stop(), Slow()
    starting, _ = around(backend, stop)
    call = asyncio.create_task(starting(ASKED))
    await asyncio.sleep(0.01)
    stop.request()
    with pytest.raises(Stopping):
        await call
    with pytest.raises(Stopping):
        await starting(ASKED)
    assert backend.starts == 1


async def test_a_call_that_is_given_up_does_not_end_the_others_start() -> None:
    backend = Slow()
    starting, _ = around(backend)
    first, second = (asyncio.create_task(starting(ASKED)) for _ in range(2))
    await asyncio.sleep(0)
    first.cancel()
    await asyncio.sleep(0)
    backend.let.set()
    assert (await second).text == "yes"
    assert backend.starts == 1
