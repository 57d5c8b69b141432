from __future__ import annotations

import asyncio
import itertools
import random
import re
from collections import Counter
from itertools import count, pairwise
from typing import Any

import pytest
from msgspec.structs import replace

from harness.calls.backend_layers import TimedCalls
from harness.calls.circuit import CONTROL_PROMPT, MAX_FAILURES_IN_A_ROW, Circuit
from harness.calls.concurrency import ConcurrencyLimiter
from harness.calls.rate_limits import RateLimits
from harness.calls.signals import CircuitOpen, Stop, Stopping
from harness.errors import (
    AccessDenied,
    CallError,
    FailureKind,
    FatalCallError,
    RequestRejected,
    TransientError,
)
from harness.records import Decoding, Message, Origin, Reply, Request
from tests.conftest import Scripted

ERRORS = [
    TransientError("500"),
    TransientError("503", kind="overloaded"),
    TransientError("429", kind="rate_limited"),
    TransientError("timeout", kind="timed_out"),
    TransientError("reset", kind="connection_lost"),
    TransientError("half a body", kind="malformed"),
]


def request(number: int) -> Request:
    messages = (Message("user", f"What is {number} + 1?"),)
    return Request("m", messages, Decoding(), 0, Origin(f"sum/{number}", 0, 1))


def is_control(request: Request) -> bool:
    return request.messages[0].content.startswith(CONTROL_PROMPT)


def copied(error: CallError) -> CallError:
    """Return another exception like this one: one exception is one failure."""
    if isinstance(error, TransientError):
        return TransientError(error.message, kind=error.kind or "server_failed")
    assert isinstance(error, AccessDenied)
    return AccessDenied(error.message, error.remedy)


class World:
    """A circuit over a scripted provider, in a time of its own."""

    def __init__(self, *, outage_s: float = 600.0, tries: int = 6, total_s: float = 1800) -> None:
        self.now = 0.0
        self.backend = Scripted()
        self.statuses: list[str] = []
        self.sleeps: list[float] = []
        self.restored = 0
        self._targets: list[float] = []
        self.call = Circuit(
            self.backend.generate,
            self.backend.generate,
            max_tries=tries,
            outage_s=outage_s,
            max_retrying_s=total_s,
            sleep=self.sleep,
            status=self.statuses.append,
            on_restored=self._restore,
            clock=lambda: self.now,
        )

    async def sleep(self, seconds: float) -> None:
        """Let time pass once all calls wait."""
        if seconds:
            self.sleeps.append(seconds)
        target = self.now + seconds
        self._targets.append(target)
        try:
            for _ in range(20):
                await asyncio.sleep(0)
            while self.now < target:
                await asyncio.sleep(0)
                if target == min(self._targets):
                    self.now = target
        finally:
            self._targets.remove(target)

    def _restore(self) -> None:
        self.restored += 1

    def fails_until(self, time: float, error: CallError) -> None:
        self.backend.answer = lambda _: copied(error) if self.now < time else "2"

    def fails_for(self, error: CallError, *numbers: int) -> None:
        """Let only these prompts fail."""
        bad = {request(number).messages for number in numbers}
        self.backend.answer = lambda sent: copied(error) if sent.messages in bad else "2"

    async def all(self, *numbers: int) -> list[Any]:
        async with asyncio.timeout(20):
            return await asyncio.gather(
                *(self.call(request(number)) for number in numbers), return_exceptions=True
            )

    def sent(self) -> Counter[str]:
        """Count the requests by prompt."""
        return Counter(
            CONTROL_PROMPT if is_control(request) else request.messages[0].content
            for request in self.backend.requests
        )


# Retries


@pytest.mark.parametrize("error", ERRORS)
async def test_a_failed_call_is_retried(error: CallError) -> None:
    world, number = World(), count()
    world.backend.answer = lambda _: copied(error) if next(number) % 3 == 0 else "2"
    assert all(isinstance(answer, Reply) for answer in await world.all(*range(60)))
    assert not any(world.statuses)


@pytest.mark.parametrize("error", [RequestRejected("no"), FatalCallError("no"), ValueError("no")])
async def test_other_errors_are_not_retried(error: Exception) -> None:
    world = World()
    world.backend.answer = lambda _: error
    assert await world.all(1) == [error]
    assert len(world.backend.requests) == 1


@pytest.mark.parametrize("error", ERRORS)
async def test_a_prompt_that_always_fails_is_given_up(error: CallError) -> None:
    world = World(tries=4)
    world.fails_for(error, 3)
    answers = await world.all(*range(8))
    assert [isinstance(answer, Reply) for answer in answers] == [n != 3 for n in range(8)]
    assert answers[3].message == error.message
    assert world.sent() == {
        **{request(n).messages[0].content: 1 for n in range(8)},
        request(3).messages[0].content: 4,
        CONTROL_PROMPT: 1,  # no other call was left
    }


async def test_no_try_begins_after_the_total_time() -> None:
    world = World(tries=99, total_s=100)
    world.fails_for(TransientError("no"), 1)
    assert isinstance((await world.all(1))[0], TransientError)
    assert 100 < world.now < 230  # a pause takes up to 60 s, and those of outages do not count


async def test_a_pause_is_at_least_what_the_provider_asks_for() -> None:
    world, tries = World(), count()
    error = TransientError("slow down", kind="rate_limited", retry_after=20.0)
    world.backend.answer = lambda _: error if next(tries) < 1 else "2"
    await world.all(1)
    assert 20.0 <= world.sleeps[0] <= 20.5


async def test_pauses_are_jittered_and_grow() -> None:
    firsts, lasts = [], []
    for _ in range(50):
        world, tries = World(), count()
        world.backend.answer = lambda _, tries=tries: (
            TransientError("x") if next(tries) < 5 else "2"
        )
        await world.all(1)
        firsts.append(world.sleeps[0])
        lasts.append(world.sleeps[-1])
    assert max(firsts) <= 0.5
    assert len(set(firsts)) > 40
    assert sum(lasts) > 4 * sum(firsts)


# Outages


@pytest.mark.parametrize("tries", [1, 6])
@pytest.mark.parametrize("calls", [1, 2, 50])
@pytest.mark.parametrize("error", ERRORS)
async def test_an_outage_is_waited_out_and_costs_no_call_its_tries(
    error: CallError, calls: int, tries: int
) -> None:
    world = World(tries=tries)
    await world.all(0)
    world.backend.requests.clear()
    began = world.now
    world.fails_until(began + 100, error)
    assert all(isinstance(answer, Reply) for answer in await world.all(*range(calls)))
    assert world.now >= began + 100
    # Those that wait do not hammer: each was tried once before the circuit opened.
    assert len(world.backend.requests) < 2 * calls + 2 * MAX_FAILURES_IN_A_ROW
    assert any("paused until" in text and error.message in text for text in world.statuses)
    assert world.statuses[-1] == ""
    assert world.restored == 1


@pytest.mark.parametrize("failures", range(MAX_FAILURES_IN_A_ROW))
@pytest.mark.parametrize("tries", [2, 3])
async def test_an_outage_of_few_failures_costs_no_call_its_tries(tries: int, failures: int) -> None:
    world, number = World(tries=tries), count()
    world.backend.answer = lambda _: TransientError("503") if next(number) < failures else "2"
    assert all(isinstance(answer, Reply) for answer in await world.all(1, 2, 3))


async def test_only_tries_before_and_after_an_outage_count() -> None:
    world = World(tries=3)
    times: list[float] = []

    def answer(sent: Request) -> str | Exception:
        if sent.messages == request(9).messages:
            times.append(world.now)
            return TransientError("no", kind="rate_limited", retry_after=4)
        return TransientError("down") if 6 < world.now < 60 else "2"

    async def call_others() -> None:
        while world.now < 100:
            await asyncio.gather(*(world.call(request(number)) for number in range(9)))
            await world.sleep(0.5)

    world.backend.answer = answer
    calls = asyncio.gather(call_others(), world.call(request(9)), return_exceptions=True)
    async with asyncio.timeout(20):
        failed = (await calls)[1]
    assert isinstance(failed, TransientError)
    outside = [time for time in times if not 6 < time < 60]
    assert len(outside) == 3
    assert len(times) > 3


async def test_the_steps_between_two_tries_grow_and_stay_bounded() -> None:
    world = World(outage_s=300, tries=1)
    await world.all(0)
    times: list[float] = []

    def answer(_: Request) -> TransientError:
        times.append(world.now)
        return TransientError("down")

    world.backend.answer = answer
    answers = await world.all(*range(MAX_FAILURES_IN_A_ROW))
    assert all(isinstance(answer, FatalCallError) for answer in answers)
    steps = [round(later - sooner, 3) for sooner, later in pairwise(times) if later > sooner]
    assert steps[:-1] == sorted(steps[:-1])
    assert steps[0] == 0.5
    assert steps[-2] == 30.0
    assert steps[-1] < 30.0  # what was left of the outage


async def test_waiting_calls_take_turns() -> None:
    world = World(outage_s=300)
    world.backend.answer = lambda _: TransientError("down")
    await world.all(*range(20))
    during = [sent for sent in world.backend.requests[20:] if not is_control(sent)]
    assert len({sent.messages for sent in during}) == len(during) > 5


async def test_a_provider_that_answers_all_but_the_control_is_not_down() -> None:
    world = World(tries=2)
    bad = {request(number).messages for number in range(20)}
    world.backend.answer = lambda sent: (
        TransientError("no") if is_control(sent) or sent.messages in bad else "2"
    )
    answers = await world.all(*range(21))
    assert isinstance(answers[20], Reply)


async def test_a_provider_that_stays_down_ends_the_run() -> None:
    world = World(outage_s=60)
    await world.all(0)
    began = world.now
    world.backend.answer = lambda _: TransientError("down")
    answers = await world.all(*range(40))
    assert all(isinstance(answer, FatalCallError) for answer in answers)
    assert "limits.outage_s" in answers[-1].remedy
    assert world.now - began == 60  # the last call is sent then


@pytest.mark.parametrize("outage_s", [1, 15, 20, 60, 600])
@pytest.mark.parametrize("answered", [True, False])
async def test_the_last_call_is_sent_at_the_end_of_the_longest_outage(
    outage_s: float, answered: bool
) -> None:
    for lasts, ends in ((outage_s, Reply), (outage_s + 0.1, FatalCallError)):
        world = World(outage_s=outage_s, tries=1)
        if answered:
            await world.all(0)
        world.fails_until(lasts, TransientError("down"))
        answers = await world.all(1)
        assert isinstance(answers[0], ends)
        assert world.now == outage_s


@pytest.mark.parametrize("kind", ["unreachable", "malformed", "timed_out"])
async def test_one_that_was_never_reached_ends_it_soon(kind: FailureKind) -> None:
    world = World()
    world.call.is_program = True  # a program that hangs has no address that could be wrong
    world.backend.answer = lambda _: TransientError("refused", "Check the URL.", kind=kind)
    answers = await world.all(*range(100))
    assert all(isinstance(answer, FatalCallError) for answer in answers)
    assert "refused" in answers[0].message
    assert "Check the URL." in answers[0].remedy
    assert world.now <= 3
    assert sum("paused" in status for status in world.statuses) == 3


async def test_one_that_answers_with_failures_only_is_waited_for_from_the_start() -> None:
    world = World()
    world.fails_until(20, TransientError("starting"))
    assert all(isinstance(answer, Reply) for answer in await world.all(*range(10)))


async def test_it_waits_as_long_as_the_provider_asks() -> None:
    world = World()
    world.backend.answer = lambda _: (
        TransientError("slow down", kind="rate_limited", retry_after=34.0)
        if world.now < 33
        else "2"
    )
    answers = await world.all(*range(20))
    assert all(isinstance(answer, Reply) for answer in answers)
    assert 33 <= world.now <= 35


async def test_it_does_not_wait_for_a_provider_that_asks_for_more_than_there_is_time() -> None:
    world = World(outage_s=100, tries=1)
    await world.all(0)
    world.backend.answer = lambda _: TransientError(
        "daily limit", kind="rate_limited", retry_after=600.0
    )
    answers = await world.all(*range(20))
    assert isinstance(answers[-1], FatalCallError)
    assert "asks to wait 600 s" in answers[-1].message
    assert world.now == 0


async def test_a_rejected_request_is_an_answer() -> None:
    world = World()
    world.backend.answer = lambda _: RequestRejected("too long")
    answers = await world.all(*range(50))
    assert all(isinstance(answer, RequestRejected) for answer in answers)
    assert not world.statuses


async def test_an_error_that_ends_the_run_closes_the_circuit() -> None:
    world = World()
    await world.all(0)
    tries = count()
    world.backend.answer = lambda _: (
        TransientError("down") if next(tries) < 30 else FatalCallError("no")
    )
    answers = await world.all(*range(30))
    assert any(isinstance(answer, FatalCallError) for answer in answers)


async def test_stopping_ends_every_wait_at_once() -> None:
    backend, stop = Scripted(lambda _: TransientError("down")), Stop()
    call = Circuit(
        backend.generate, backend.generate, max_tries=99, outage_s=3600, sleep=stop.sleep
    )
    calls = [asyncio.create_task(call(request(number))) for number in range(30)]
    await asyncio.sleep(0.05)
    stop.request()
    async with asyncio.timeout(5):
        answers = await asyncio.gather(*calls, return_exceptions=True)
    assert all(isinstance(answer, Stopping) for answer in answers)


async def test_calls_that_wait_for_a_turn_below_are_sent_back_and_come_again() -> None:
    backend, stop = Scripted(delay=0.001), Stop()
    turns = ConcurrencyLimiter(
        TimedCalls(backend.generate, 10), stop, ceiling=4, rates=RateLimits({"requests": 120})
    )
    call = Circuit(
        turns,
        turns,
        max_tries=6,
        outage_s=60,
        sleep=stop.sleep,
        on_probe=turns.admit_only,
        on_restored=turns.admit_all,
    )
    tries = count()
    backend.answer = lambda _: (
        TransientError("busy", kind="overloaded") if next(tries) < 12 else "2"
    )
    calls = [asyncio.create_task(call(request(number))) for number in range(40)]
    for _ in range(1000):
        if any(call.done() and not call.exception() for call in calls):
            break
        await asyncio.sleep(0.01)
    # Of forty, no more than were let in before it opened; the rest did not try.
    assert len(backend.requests) <= 4 + 12 + 3
    stop.request()
    await asyncio.gather(*calls, return_exceptions=True)


async def test_calls_that_fail_with_one_request_are_one_failure() -> None:
    world, tries = World(tries=3), count()
    joint = TransientError("busy", kind="rate_limited")
    world.backend.answer = lambda _: joint if next(tries) < 50 else "2"
    assert all(isinstance(answer, Reply) for answer in await world.all(*range(50)))
    assert not world.restored  # it did not open


async def test_a_success_of_a_call_in_flight_closes_the_circuit() -> None:
    world, sent = World(), asyncio.Event()
    slow = request(99)

    async def ask(request: Request) -> Reply:
        if request.messages == slow.messages:
            await sent.wait()
        return await world.backend.generate(request)

    world.call.ask = world.call.control = ask
    answering = asyncio.create_task(world.call(slow))
    world.backend.answer = lambda asked: (
        "2" if asked.messages == slow.messages else TransientError("failed")
    )

    async def sleep(seconds: float) -> None:
        if world.call._outage and seconds:
            sent.set()
            world.backend.answer = lambda _: "2"
            await asyncio.sleep(60)  # cancelled: nothing else ends it
        await asyncio.sleep(0)

    world.call.sleep = sleep
    answers = await world.all(*range(20))
    assert (await answering).text == "2"
    assert [answer.text for answer in answers] == ["2"] * 20
    assert world.restored == 1


async def test_a_cancelled_call_passes_its_turn_on() -> None:
    world = World()
    world.backend.answer = lambda _: TransientError("down")
    calls = [asyncio.create_task(world.call(request(number))) for number in range(12)]
    wait = world.sleep

    async def sleep(seconds: float) -> None:
        if world.call._outage and seconds:
            world.backend.answer = lambda _: "2"
            for call in calls[:8]:
                call.cancel()
        await wait(seconds)

    world.call.sleep = sleep
    async with asyncio.timeout(20):
        answers = await asyncio.gather(*calls, return_exceptions=True)
    assert [getattr(answer, "text", "") for answer in answers[8:]] == ["2"] * 4


# Prompts at fault


BAD_AND_HEALTHY = [
    pytest.param(
        bad,
        healthy,
        marks=()
        if (bad, healthy) in {(1, 1), (2, 300), (300, 0), (300, 300)}
        else pytest.mark.exhaustive,
    )
    for bad, healthy in itertools.product((1, 2, 300), (0, 1, 300))
]


@pytest.mark.parametrize(("bad", "healthy"), BAD_AND_HEALTHY)
@pytest.mark.parametrize("error", [*ERRORS, AccessDenied("403"), AccessDenied("404")])
async def test_only_the_prompts_at_fault_fail(error: CallError, bad: int, healthy: int) -> None:
    world = World(tries=3)
    world.fails_for(error, *range(bad))
    answers = await world.all(*range(bad + healthy))
    assert [isinstance(answer, Reply) for answer in answers] == [False] * bad + [True] * healthy
    assert not any(isinstance(answer, FatalCallError) for answer in answers)
    assert not any(world.statuses)  # no call has paused for others
    tries = 1 if isinstance(error, AccessDenied) else 3
    assert max((n for text, n in world.sent().items() if text != CONTROL_PROMPT)) == tries
    assert world.sent()[CONTROL_PROMPT] <= 1 + bad * tries / 2


@pytest.mark.parametrize("bad", [1, 30])
@pytest.mark.parametrize("healthy", [1, 30])
@pytest.mark.parametrize("error", [*ERRORS, AccessDenied("403")])
@pytest.mark.parametrize("of_control", [AccessDenied("404"), TransientError("500")])
async def test_if_the_control_fails_an_answered_request_is_sent_instead(
    of_control: CallError, error: CallError, healthy: int, bad: int
) -> None:
    world = World(tries=3)
    prompts = {request(number).messages for number in range(bad)}

    def answer(sent: Request) -> str | CallError:
        if is_control(sent):
            return copied(of_control)
        return copied(error) if sent.messages in prompts else "2"

    world.backend.answer = answer
    answers = await world.all(*range(bad + healthy))
    assert [isinstance(answer, Reply) for answer in answers] == [False] * bad + [True] * healthy
    assert not any(isinstance(answer, FatalCallError) for answer in answers)
    assert world.sent()[CONTROL_PROMPT] <= 1 + bad


async def test_a_second_control_is_no_copy_of_the_answered_request() -> None:
    world = World(tries=1)
    await world.all(0)
    world.backend.requests.clear()
    world.backend.answer = lambda sent: (
        TransientError("500") if is_control(sent) or sent.messages == request(1).messages else "2"
    )
    await world.all(1)
    bad, control, second, *_ = (sent.messages[-1].content for sent in world.backend.requests)
    assert bad == "What is 1 + 1?"
    assert control.startswith(CONTROL_PROMPT)
    assert re.fullmatch(r"What is 0 \+ 1\? \(\d+\)", second)


async def test_a_request_of_an_earlier_session_can_be_the_second_control() -> None:
    world = World(tries=2)
    world.call.find_earlier = lambda: request(0)
    world.backend.answer = lambda sent: (
        "2" if sent.messages[0].content.startswith("What is 0") else AccessDenied("403")
    )
    (error,) = await world.all(1)
    assert type(error) is CallError


# Denials


async def test_calls_in_flight_may_show_that_not_all_are_denied() -> None:
    world, denied = World(), asyncio.Event()
    slow = request(3)

    async def ask(sent: Request) -> Reply:
        if sent.messages == slow.messages:
            await denied.wait()
        if is_control(sent):
            asyncio.get_running_loop().call_later(0.01, denied.set)
        return await world.backend.generate(sent)

    world.call.ask = world.call.control = ask
    world.backend.answer = lambda sent: (
        "2" if sent.messages[0].content.startswith("What is 3") else AccessDenied("403")
    )
    *errors, reply = await world.all(0, 1, 2, 3)
    assert isinstance(reply, Reply)
    assert {type(error) for error in errors} == {CallError}


@pytest.mark.parametrize("denied", [1, 2])
async def test_a_few_denied_prompts_do_not_end_the_run(denied: int) -> None:
    world = World()
    bad = {request(number).messages for number in range(denied)}
    world.backend.answer = lambda sent: (
        AccessDenied("403") if is_control(sent) or sent.messages in bad else "2"
    )
    *errors, reply = await world.all(*range(denied + 1))
    assert isinstance(reply, Reply)
    assert {type(error) for error in errors} == {CallError}
    assert not world.now


async def test_denied_samples_of_one_prompt_do_not_end_the_run() -> None:
    world = World()
    samples = [replace(request(0), sample=sample) for sample in range(9)]
    waiting, opened = request(1), asyncio.Event()

    async def ask(sent: Request) -> Reply:
        if sent is waiting and not opened.is_set():
            await opened.wait()
            raise CircuitOpen  # it was waiting below
        return await world.backend.generate(sent)

    world.call.ask = world.call.control = ask
    world.call.on_probe = lambda _: opened.set()
    world.backend.answer = lambda sent: (
        "2" if sent.messages[0].content.startswith("What is 1") else AccessDenied("403")
    )
    async with asyncio.timeout(20):
        calls = [world.call(sent) for sent in (*samples, waiting)]
        *errors, reply = await asyncio.gather(*calls, return_exceptions=True)
    assert isinstance(reply, Reply)
    assert {type(error) for error in errors} == {CallError}


@pytest.mark.parametrize("calls", [1, 2])
async def test_the_run_ends_if_the_few_calls_that_are_left_are_all_denied(calls: int) -> None:
    world = World()
    world.backend.answer = lambda _: AccessDenied("403")
    answers = await world.all(*range(calls))
    assert all(isinstance(answer, FatalCallError) for answer in answers)
    assert len(world.backend.requests) == calls + 1
    assert not world.now


async def test_the_run_ends_if_all_calls_are_denied() -> None:
    world = World()
    world.backend.answer = lambda _: AccessDenied("403", "Check the key.")
    answers = await world.all(*range(5))
    assert all(isinstance(answer, FatalCallError) for answer in answers)
    assert answers[0].remedy == "Check the key."
    assert len(world.backend.requests) == 6
    assert not world.now


async def test_access_that_is_lost_during_a_run_ends_it() -> None:
    world = World()
    await world.all(*range(100))
    world.backend.requests.clear()
    world.backend.answer = lambda _: AccessDenied("401")
    answers = await world.all(*range(60))
    assert all(isinstance(answer, FatalCallError) for answer in answers)
    assert len(world.backend.requests) == 62  # with two controls


async def test_a_denial_during_an_outage_does_not_end_the_run() -> None:
    world = World()
    await world.all(0)
    tries = count()
    world.backend.answer = lambda sent: (
        [AccessDenied("403"), TransientError("503")][next(tries) % 2] if world.now < 20 else "2"
    )
    answers = await world.all(*range(20))
    assert all(isinstance(answer, Reply) for answer in answers)


async def test_calls_of_other_programs_use_up_no_tries() -> None:
    world = World(tries=3)
    tries = count()

    def answer(sent: Request) -> str | CallError:
        crowded_out = sent.messages == request(1).messages and next(tries) < 9
        return TransientError("full", kind="crowded") if crowded_out else "2"

    world.backend.answer = answer
    assert [reply.text for reply in await world.all(1, 2)] == ["2", "2"]
    assert next(tries) == 10


async def test_a_call_that_is_always_crowded_out_is_given_up() -> None:
    world = World(total_s=600)
    world.fails_for(TransientError("full", kind="crowded"), 1)
    error, reply = await world.all(1, 2)
    assert isinstance(error, TransientError)
    assert reply.text == "2"
    assert world.now > 600


@pytest.mark.parametrize("error", [AccessDenied("404", "Check it."), TransientError("500")])
@pytest.mark.parametrize("cooldown_s", [1.0, 5.0, 20.0])
async def test_a_call_that_makes_a_gateway_reject_all_others_is_given_up(
    error: CallError, cooldown_s: float
) -> None:
    random.seed(0)  # with 1 in 100 draws of the waits, one of the other calls is given up, too
    world = World(outage_s=3600)
    until = 0.0

    def answer(sent: Request) -> str | CallError:
        nonlocal until
        if world.now < until:
            wait = until - world.now
            return TransientError("cooling down", kind="rate_limited", retry_after=wait)
        if sent.messages != request(1).messages:
            return "2"
        until = world.now + cooldown_s
        return copied(error)

    world.backend.answer = answer
    failure, *replies = await world.all(*range(1, 30))
    assert isinstance(failure, CallError)
    assert not isinstance(failure, FatalCallError)
    assert all(isinstance(reply, Reply) for reply in replies)
