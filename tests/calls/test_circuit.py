from __future__ import annotations

import asyncio
from collections.abc import Callable
from itertools import count, pairwise
from typing import Any

import pytest

from harness.calls.circuit import FAILURES_IN_A_ROW, Circuit
from harness.calls.concurrency import ConcurrencyLimiter
from harness.calls.rate_limits import RateLimits
from harness.calls.signals import Stop, Stopping
from harness.calls.time_limit import Timed
from harness.errors import (
    AccessDenied,
    FailureKind,
    FatalCallError,
    RequestRejected,
    TransientError,
)
from harness.records import Decoding, Message, Origin, Reply, Request
from tests.conftest import Scripted

REQUEST = Request("m", (Message("user", "What is 1 + 1?"),), Decoding(), 0, Origin("a", 0, 1))


def request(number: int) -> Request:
    return Request("m", REQUEST.messages, Decoding(), 0, Origin(f"sum/{number}", 0, 1))


MOST = FAILURES_IN_A_ROW[1]


class World:
    """A circuit over a scripted provider, in a time of its own."""

    def __init__(self, *, outage_s: float = 600.0, tries: int = 99) -> None:
        self.now = 0.0
        self.backend = Scripted()
        self.said: list[str] = []
        self.restored = 0
        self.ask = Circuit(
            self.backend.generate,
            tries=tries,
            outage_s=outage_s,
            sleep=self.sleep,
            status=self.said.append,
            restored=self._restore,
            clock=lambda: self.now,
        )

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(0)
        self.now += seconds

    def _restore(self) -> None:
        self.restored += 1

    def fails_until(self, time: float, error: Callable[[], Exception]) -> None:
        self.backend.answer = lambda _: error() if self.now < time else "2"

    async def all(self, calls: int) -> list[Any]:
        async with asyncio.timeout(20):
            return await asyncio.gather(
                *(self.ask(request(number)) for number in range(calls)), return_exceptions=True
            )


async def test_a_stray_failure_is_handed_on() -> None:
    world, number = World(), count()
    world.backend.answer = lambda _: TransientError("x") if next(number) % 3 == 0 else "2"
    answers = await world.all(60)
    assert sum(isinstance(answer, TransientError) for answer in answers) == 20
    assert not world.said


@pytest.mark.parametrize("kind", ["server_failed", "timed_out", "unreachable", "malformed"])
async def test_an_outage_is_waited_out_and_costs_no_call_its_tries(kind: FailureKind) -> None:
    world = World()
    await world.ask(REQUEST)
    world.backend.requests.clear()
    began = world.now
    world.fails_until(began + 20, lambda: TransientError("down", kind=kind))
    answers = await world.all(50)
    failed = [answer for answer in answers if isinstance(answer, Exception)]
    assert len(failed) == MOST - 1  # handed on before the circuit opened
    assert world.now >= 20
    # Not one of those waiting hammered: each was tried once in the outage, at the most.
    assert len(world.backend.requests) < 50 + 50 + 8
    assert any("paused until" in text and "down" in text for text in world.said)
    assert world.said[-1] == ""
    assert world.restored == 1


async def test_the_steps_between_two_tries_grow_and_stay_bounded() -> None:
    world = World(outage_s=300)
    await world.ask(REQUEST)
    times: list[float] = []

    def answer(_: Request) -> TransientError:
        times.append(world.now)
        return TransientError("down")

    world.backend.answer = answer
    assert isinstance((await world.all(MOST))[-1], FatalCallError)
    steps = [later - sooner for sooner, later in pairwise(times) if later > sooner]
    assert steps == sorted(steps)
    assert steps[0] == 0.5
    assert steps[-1] == 30.0


async def test_a_provider_that_stays_down_ends_the_run() -> None:
    world = World(outage_s=60)
    await world.ask(REQUEST)
    world.backend.answer = lambda _: TransientError("down")
    answers = await world.all(MOST)
    assert isinstance(answers[-1], FatalCallError)
    assert "limits.outage_s" in answers[-1].remedy
    assert world.now <= 60


@pytest.mark.parametrize("kind", ["unreachable", "malformed", "timed_out"])
async def test_one_that_was_never_reached_ends_it_soon(kind: FailureKind) -> None:
    world = World()
    world.ask.program = True  # a program that hangs has no address that could be wrong
    world.backend.answer = lambda _: TransientError("refused", "Check the URL.", kind=kind)
    answers = await world.all(MOST)
    down = next(answer for answer in answers if isinstance(answer, FatalCallError))
    assert "refused" in down.message
    assert "Check the URL." in down.remedy
    assert world.now <= 3


async def test_once_it_has_ended_the_run_it_does_not_open_again() -> None:
    world = World()
    world.backend.answer = lambda _: TransientError("refused", kind="unreachable")
    answers = await world.all(5 * MOST)
    assert sum(isinstance(answer, FatalCallError) for answer in answers) > 4 * MOST
    assert world.now <= 3
    assert sum("paused" in said for said in world.said) == 2


async def test_one_that_answers_with_failures_only_is_waited_for_from_the_start() -> None:
    world = World()
    world.fails_until(20, lambda: TransientError("starting"))
    assert (await world.all(MOST))[-1].text == "2"


async def test_it_waits_as_long_as_the_provider_asks() -> None:
    world = World()
    await world.ask(REQUEST)
    world.fails_until(
        33, lambda: TransientError("slow down", kind="rate_limited", retry_after=34.0)
    )
    answers = await world.all(MOST)
    assert answers[-1].text == "2"
    assert world.now == 34.0


async def test_it_does_not_wait_for_a_provider_that_asks_for_more_than_there_is_time() -> None:
    world = World(outage_s=100)
    await world.ask(REQUEST)
    world.backend.answer = lambda _: TransientError(
        "daily limit", kind="rate_limited", retry_after=600.0
    )
    answers = await world.all(MOST)
    assert isinstance(answers[-1], FatalCallError)
    assert "asks to wait 600 s" in answers[-1].message
    assert world.now == 0


async def test_a_refusal_now_and_then_is_no_outage() -> None:
    world, number = World(), count()
    world.backend.answer = lambda _: (
        TransientError("x", kind="rate_limited") if next(number) % 2 else "2"
    )
    assert sum(isinstance(answer, TransientError) for answer in await world.all(60)) == 30
    assert not world.said


async def test_a_rejected_request_is_an_answer() -> None:
    world = World()
    world.backend.answer = lambda _: RequestRejected("too long")
    answers = await world.all(5 * MOST)
    assert all(isinstance(answer, RequestRejected) for answer in answers)
    assert not world.said


async def test_an_open_circuit_closes_for_what_ends_the_run() -> None:
    world = World()
    await world.ask(REQUEST)
    tries = count()
    world.backend.answer = lambda _: (
        TransientError("down") if next(tries) < MOST else FatalCallError("no")
    )
    answers = await world.all(30)
    assert any(isinstance(answer, FatalCallError) for answer in answers)


async def test_stopping_ends_every_wait_at_once() -> None:
    backend, stop = Scripted(lambda _: TransientError("down")), Stop()
    ask = Circuit(backend.generate, tries=99, outage_s=3600, sleep=stop.sleep)
    calls = [asyncio.create_task(ask(request(number))) for number in range(30)]
    await asyncio.sleep(0.05)
    stop.request()
    async with asyncio.timeout(5):
        answers = await asyncio.gather(*calls, return_exceptions=True)
    assert sum(isinstance(answer, Stopping) for answer in answers) == 30 - (MOST - 1)


async def test_with_few_attempts_it_opens_before_a_call_is_given_up() -> None:
    world = World(tries=6)
    await world.ask(REQUEST)
    world.fails_until(20, lambda: TransientError("down"))
    failed = 0
    for number in range(5):
        try:
            await world.ask(request(number))
        except TransientError:
            failed += 1
    assert failed == 4


@pytest.mark.parametrize("kind", ["server_failed", "timed_out", "malformed", "rate_limited"])
async def test_a_call_that_alone_keeps_failing_is_given_up_and_ends_no_run(
    kind: FailureKind,
) -> None:
    world = World(tries=6)
    world.backend.answer = lambda _: TransientError("this one always fails", kind=kind)
    for _ in range(20):
        with pytest.raises(TransientError):
            await world.ask(REQUEST)
    assert not world.said


@pytest.mark.parametrize("kind", ["unreachable", "overloaded"])
async def test_what_is_no_calls_fault_is_an_outage_for_one_call_too(kind: FailureKind) -> None:
    world = World(tries=6)
    await world.ask(REQUEST)
    began = world.now
    world.backend.answer = lambda _: (
        TransientError("down", kind=kind) if world.now < began + 9 else "2"
    )
    failed = 0
    for _ in range(6):
        try:
            await world.ask(REQUEST)
        except TransientError:
            failed += 1
    assert failed == 4
    assert world.now >= began + 9


async def test_who_waits_for_a_turn_below_is_sent_back_and_comes_again() -> None:
    backend, stop = Scripted(delay=0.001), Stop()
    turns = ConcurrencyLimiter(
        Timed(backend.generate, 10), stop, most=4, rates=RateLimits({"requests": 120})
    )
    ask = Circuit(
        turns,
        tries=6,
        outage_s=60,
        sleep=stop.sleep,
        opened=turns.admit_only,
        restored=turns.admit_all,
    )
    tries = count()
    backend.answer = lambda _: TransientError("busy", kind="overloaded") if next(tries) < 6 else "2"
    calls = [asyncio.create_task(ask(request(number))) for number in range(40)]
    for _ in range(1000):
        if any(call.done() and not call.exception() for call in calls):
            break
        await asyncio.sleep(0.01)
    # Of forty, no more than were let in before it opened; the rest did not try.
    assert len(backend.requests) <= 4 + 6 + 3
    stop.request()
    await asyncio.gather(*calls, return_exceptions=True)


async def test_calls_that_fail_with_one_request_are_one_failure() -> None:
    world = World()
    await world.ask(REQUEST)
    joint = TransientError("busy", kind="rate_limited")
    world.backend.answer = lambda _: joint
    assert await world.all(50) == [joint] * 50
    assert not world.restored  # it did not open


async def test_each_try_in_an_outage_is_that_of_another_call() -> None:
    world = World(tries=6, outage_s=60)
    world.backend.answer = lambda _: TransientError("down")
    await world.all(12)
    tried = [one.origin.instance for one in world.backend.requests]
    during = tried[12:]  # after the first try of each
    assert len(set(during)) == len(during) > 5


async def test_a_success_of_a_call_in_flight_closes_the_circuit() -> None:
    world, sent = World(tries=6), asyncio.Event()
    slow = request(99)

    async def ask(asked: Request) -> Reply:
        if asked is slow:
            await sent.wait()
        return await world.backend.generate(asked)

    world.ask.ask = ask
    answering = asyncio.create_task(world.ask(slow))
    world.backend.answer = lambda asked: "2" if asked is slow else TransientError("failed")

    async def sleep(seconds: float) -> None:
        if seconds:
            sent.set()
            world.backend.answer = lambda _: "2"
            await asyncio.sleep(60)  # cancelled: nothing else ends it

    world.ask.sleep = sleep
    answers = await world.all(8)
    assert (await answering).text == "2"
    assert [getattr(answer, "text", "") for answer in answers[4:]] == ["2"] * 4
    assert world.restored == 1


async def answered(world: World, calls: int) -> None:
    world.backend.answer = lambda _: "2"
    await world.all(calls)
    world.backend.requests.clear()


async def test_the_last_calls_are_not_held_if_they_are_few() -> None:
    world = World(tries=6)
    await answered(world, 30)
    world.backend.answer = lambda _: TransientError("failed", kind="overloaded")
    last = [request(number) for number in range(10)]
    for _ in range(6):
        answers = await asyncio.gather(*map(world.ask, last), return_exceptions=True)
        assert all(isinstance(answer, TransientError) for answer in answers)
    assert not any(world.said)


async def test_calls_of_earlier_sessions_count_as_answered() -> None:
    world = World(tries=6)
    world.ask.answered_before = lambda: 6
    world.backend.answer = lambda _: TransientError("failed")
    last = [request(number) for number in range(2)]
    for _ in range(6):
        answers = await asyncio.gather(*map(world.ask, last), return_exceptions=True)
        assert not any(isinstance(answer, FatalCallError) for answer in answers)
    assert not any(world.said)


@pytest.mark.parametrize("reason", ["many", "never sent", "more to come"])
async def test_the_last_calls_are_held_if_an_outage_is_likelier(reason: str) -> None:
    world = World(tries=6, outage_s=60)
    await answered(world, 30)
    world.ask.idle = lambda: reason != "more to come"
    kind: FailureKind = "unreachable" if reason == "never sent" else "server_failed"
    world.backend.answer = lambda _: TransientError("failed", kind=kind)
    answers = await world.all(11 if reason == "many" else 10)
    assert sum(isinstance(answer, FatalCallError) for answer in answers) == len(answers) - 4
    assert world.now > 30


async def test_a_denied_call_fails_alone_if_another_one_is_answered() -> None:
    world = World()
    world.backend.answer = lambda asked: (
        "2" if asked.origin.instance == "sum/9" else AccessDenied("403", "Check the key.")
    )
    answers = await world.all(10)
    assert [type(answer) for answer in answers] == [RequestRejected] * 9 + [Reply]
    assert not world.now


@pytest.mark.parametrize(("rejects_key", "most"), [(True, 2), (False, 25)])
async def test_the_run_ends_if_all_calls_are_denied(rejects_key: bool, most: int) -> None:
    world = World()
    world.backend.answer = lambda _: AccessDenied("no", "Check it.", rejects_key=rejects_key)
    for number in range(most):
        calls = world.all(2) if number == 0 else world.all(1)
        answers = await calls
        if isinstance(answers[-1], FatalCallError):
            break
    assert isinstance(answers[-1], FatalCallError)
    assert answers[-1].remedy == "Check it."


async def test_a_key_that_is_rejected_in_two_calls_ends_the_run() -> None:
    world = World()
    await answered(world, 100)
    world.backend.answer = lambda _: AccessDenied("401", rejects_key=True)
    first = (await world.all(1))[0]
    assert type(first) is RequestRejected
    assert isinstance((await world.all(1))[0], FatalCallError)


async def test_many_calls_denied_in_a_row_end_the_run() -> None:
    world = World()
    await answered(world, 100)
    world.backend.answer = lambda _: AccessDenied("403")
    answers = await world.all(60)
    assert sum(type(answer) is RequestRejected for answer in answers) == 33  # a quarter of 133
    assert isinstance(answers[-1], FatalCallError)


async def test_a_cancelled_call_passes_its_turn_on() -> None:
    world = World(tries=6)
    world.backend.answer = lambda _: TransientError("down")
    calls = [asyncio.create_task(world.ask(request(number))) for number in range(12)]
    wait = world.sleep

    async def sleep(seconds: float) -> None:
        if seconds:
            world.backend.answer = lambda _: "2"
            for call in calls[:8]:
                call.cancel()
        await wait(seconds)

    world.ask.sleep = sleep
    async with asyncio.timeout(20):
        answers = await asyncio.gather(*calls, return_exceptions=True)
    assert [getattr(answer, "text", "") for answer in answers[8:]] == ["2"] * 4
