from __future__ import annotations

import asyncio
from itertools import count

import pytest

from harness.backends.openai import OpenAIBackend
from harness.calls.backend_layers import TimedCalls
from harness.calls.concurrency import (
    INITIAL_LIMIT,
    MAX_PUSHED_BACK_SHARE,
    MIN_PROBE_INTERVAL_ROUNDS,
    AdaptiveLimit,
    ConcurrencyLimiter,
)
from harness.calls.rate_limits import RateLimits
from harness.calls.signals import Stop, Stopping
from harness.errors import PromptRefused, TransientError
from harness.plugins.mock.server import MockServer
from harness.records import Decoding, Message, Origin, Request
from tests.conftest import Scripted

REQUEST = Request("m", (Message("user", "What is 1 + 1?"),), Decoding(), 0, Origin("a", 0, 1))


def lane(
    backend: Scripted,
    most: int = 1,
    *,
    stop: Stop | None = None,
    timeout_s: float = 10,
    rates: RateLimits | None = None,
) -> ConcurrencyLimiter:
    return ConcurrencyLimiter(
        TimedCalls(backend.generate, timeout_s),
        stop or Stop(),
        ceiling=most,
        rates=rates or RateLimits({}),
    )


async def test_no_more_calls_than_allowed_are_in_flight() -> None:
    backend = Scripted(delay=0.005)
    ask = lane(backend, 7)
    await asyncio.gather(*(ask(REQUEST) for _ in range(50)))
    assert backend.most_in_flight == 7
    assert ask.in_flight == 0


async def test_the_users_most_is_reached() -> None:
    backend = Scripted(delay=0.005)
    ask = lane(backend, 60)
    await asyncio.gather(*(ask(REQUEST) for _ in range(600)))
    assert backend.most_in_flight == 60 == ask.limit.current


async def test_it_is_reached_though_no_call_is_answered_yet() -> None:
    backend = Scripted(delay=60)
    ask = lane(backend, 20)
    calls = [asyncio.create_task(ask(REQUEST)) for _ in range(30)]
    for _ in range(1000):
        if backend.in_flight == 20:
            break
        await asyncio.sleep(0.02)
    for call in calls:
        call.cancel()
    await asyncio.gather(*calls, return_exceptions=True)
    assert backend.most_in_flight == 20


async def test_calls_wait_for_room_and_go_on_when_there_is_more() -> None:
    backend, stop, room = Scripted(delay=0.001), Stop(), [0]
    rates, most = RateLimits({}), 40
    ask = ConcurrencyLimiter(
        TimedCalls(backend.generate, 10),
        stop,
        ceiling=most,
        rates=rates,
        capacity=lambda: room[0],
        start=most,
    )
    calls = [asyncio.create_task(ask(REQUEST)) for _ in range(30)]
    await asyncio.sleep(0.01)
    assert backend.most_in_flight == 0
    assert ask.load.limited_by == "copies of the model"
    room[0] = 3
    await asyncio.gather(*calls)
    assert backend.most_in_flight == 3


async def test_fewer_are_in_flight_where_the_provider_protests() -> None:
    backend = Scripted(lambda _: TransientError("slow down", kind="rate_limited"), delay=0.001)
    ask = lane(backend, 64)
    await asyncio.gather(*(ask(REQUEST) for _ in range(200)), return_exceptions=True)
    assert ask.limit.current < 8
    backend.answer = lambda _: "2"
    await asyncio.gather(*(ask(REQUEST) for _ in range(400)))
    assert ask.limit.current > 8
    ask.admit_all()
    assert ask.limit.current == 16


@pytest.mark.parametrize("accepted", [1, 2, 7])
async def test_a_key_for_fewer_calls_at_once_costs_few_rejections(accepted: int) -> None:
    with MockServer(parallel_requests=accepted, latency=0.05, retry_after=60) as server:
        backend = OpenAIBackend(None, server.base_url, secret=str, concurrency=20, timeout_s=60)
        ask = ConcurrencyLimiter(backend.generate, Stop(), ceiling=20, rates=RateLimits({}))
        async with asyncio.timeout(60):
            replies = await asyncio.gather(*(ask(REQUEST) for _ in range(80)))
        await backend.aclose()
        statuses = server.stats().by_status
    assert all(reply.text for reply in replies)
    assert statuses[200] == 80
    assert INITIAL_LIMIT - accepted <= statuses[429] <= INITIAL_LIMIT - accepted + 6
    assert ask.load.rate_limited == statuses[429]
    assert ask.limit.current <= accepted + 1


async def test_a_rejected_call_is_the_next_to_be_sent() -> None:
    def answer(request: Request) -> str | Exception:
        return TransientError("full", kind="crowded") if backend.in_flight > 2 else "2"

    backend = Scripted(answer, delay=0.01)
    ask = lane(backend, 3)
    order: list[int] = []

    async def call(number: int) -> None:
        await ask(REQUEST)
        order.append(number)

    await asyncio.gather(*(call(number) for number in range(9)))
    assert order[:4] == [1, 2, 0, 3]


async def test_a_call_that_no_other_one_of_this_program_crowds_out_fails() -> None:
    backend = Scripted(lambda _: TransientError("full", kind="crowded"))
    with pytest.raises(TransientError, match="full"):
        await lane(backend, 20)(REQUEST)
    assert len(backend.requests) == 1


async def test_the_load_says_what_waiting_calls_wait_for() -> None:
    backend = Scripted(delay=60)
    limits = {
        lane(backend, 2): "limits.concurrency (2)",
        lane(backend, 60): f"the provider's load ({INITIAL_LIMIT} calls at once)",
        lane(backend, 5, rates=RateLimits({"requests": 2})): "the limit of 2 requests a minute",
    }
    for ask, reason in limits.items():
        calls = [asyncio.create_task(ask(REQUEST)) for _ in range(INITIAL_LIMIT + 4)]
        await asyncio.sleep(0)
        assert ask.load.in_flight + ask.load.waiting == INITIAL_LIMIT + 4
        assert ask.load.limited_by == reason
        for call in calls:
            call.cancel()
        await asyncio.gather(*calls, return_exceptions=True)
        assert ask.load.in_flight == 0


async def test_the_load_counts_failures_that_are_retried() -> None:
    errors = iter(["rate_limited", "timed_out"])
    backend = Scripted(lambda _: TransientError("no", kind=next(errors)))  # type: ignore[arg-type]
    ask = lane(backend)
    await asyncio.gather(ask(REQUEST), ask(REQUEST), return_exceptions=True)
    backend.answer = lambda _: PromptRefused("never")
    await asyncio.gather(ask(REQUEST), return_exceptions=True)
    assert (ask.load.failed, ask.load.rate_limited) == (2, 1)


async def test_the_latency_is_the_backends_own() -> None:
    ask = lane(Scripted(delay=0.03))
    replies = await asyncio.gather(*(ask(REQUEST) for _ in range(3)))
    assert all(reply.latency_s >= 0.03 for reply in replies)
    clock = iter([1.0, 4.5])
    ask = TimedCalls(Scripted().generate, 10, clock=lambda: next(clock))
    assert (await ask(REQUEST)).latency_s == 3.5


async def test_a_call_that_takes_too_long_is_given_up_and_its_place_is_free() -> None:
    backend = Scripted(delay=60)
    ask = lane(backend, timeout_s=0.01)
    with pytest.raises(TransientError, match=r"limits\.timeout_s"):
        await ask(REQUEST)
    backend.delay = 0
    assert (await ask(REQUEST)).text == "2"


@pytest.mark.parametrize("error", [TransientError("x"), RuntimeError("x")])
async def test_a_failed_call_leaves_its_place_free(error: Exception) -> None:
    backend = Scripted(lambda _: error)
    ask = lane(backend, rates=RateLimits({"requests": 100}))
    with pytest.raises(type(error)):
        await ask(REQUEST)
    backend.answer = lambda _: "2"
    assert (await ask(REQUEST)).text == "2"


async def test_a_prompt_that_the_filter_refuses_has_that_for_an_answer() -> None:
    reply = await lane(Scripted(lambda _: PromptRefused("against our policy")))(REQUEST)
    assert (reply.text, reply.finish_reason) == ("against our policy", "content_filter")


async def test_no_call_begins_when_the_run_stops() -> None:
    backend, stop = Scripted(delay=0.02), Stop()
    ask = lane(backend, stop=stop)
    first, second = asyncio.create_task(ask(REQUEST)), asyncio.create_task(ask(REQUEST))
    await asyncio.sleep(0.005)
    stop.request()
    with pytest.raises(Stopping):
        await second  # at once: the first one is still on its way
    assert backend.in_flight == 1
    assert (await first).text == "2"
    with pytest.raises(Stopping):
        await ask(REQUEST)
    assert len(backend.requests) == 1


async def test_nobody_waits_for_a_rate_limit_when_the_run_stops() -> None:
    stop = Stop()
    ask = lane(Scripted(), 10, stop=stop, rates=RateLimits({"requests": 1}))
    await ask(REQUEST)
    waiting = asyncio.create_task(ask(REQUEST))
    await asyncio.sleep(0.01)
    assert not waiting.done()
    stop.request()
    async with asyncio.timeout(5):
        with pytest.raises(Stopping):
            await waiting


async def test_lanes_that_share_their_limits_hear_of_each_other() -> None:
    rates = RateLimits({"output_tokens": 1000})
    slow, quick = Scripted(delay=0.05), Scripted()
    first, second = lane(slow, rates=rates), lane(quick, rates=rates)
    large = Request("m", REQUEST.messages, Decoding(max_tokens=990), 0, REQUEST.origin)
    async with asyncio.timeout(5):  # and not after the minute that the first one seemed to take
        await asyncio.gather(first(large), second(large))


async def test_the_first_come_is_the_first_served() -> None:
    backend = Scripted(delay=0.001)
    ask = lane(backend)
    order: list[int] = []

    async def call(number: int) -> None:
        await ask(REQUEST)
        order.append(number)

    await asyncio.gather(*(call(number) for number in range(20)))
    assert order == list(range(20))


async def test_a_place_is_not_lost_to_calls_that_are_cancelled() -> None:
    backend = Scripted(delay=0.01)
    ask = lane(backend, 2)
    tasks = [asyncio.create_task(ask(REQUEST)) for _ in range(10)]
    await asyncio.sleep(0.015)  # some answered, some on their way, some waiting
    for task in tasks[::2]:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert ask.in_flight == 0
    async with asyncio.timeout(5):
        await asyncio.gather(*(ask(REQUEST) for _ in range(4)))


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


SECONDS = count(1, 2)


def rounds(limit: AdaptiveLimit, times: int, refused: float = 0.0, full: bool = True) -> None:
    """Rounds of as many answers as may be in flight, a share of them refusals."""
    for _ in range(times):
        sent = float(next(SECONDS))
        size = limit.current
        for answer in range(size):
            if answer < refused * size:
                limit.record_end(sent, sent + 1, pushed_back=True)
            else:
                limit.record_end(sent, sent + 1, full=full)


def test_it_begins_with_a_few_and_doubles_up_to_the_users_most() -> None:
    limit = AdaptiveLimit(500)
    assert limit.current == INITIAL_LIMIT
    rounds(limit, 1)
    assert limit.current == 2 * INITIAL_LIMIT
    rounds(limit, 5)
    assert limit.current == 500
    assert AdaptiveLimit(3).current == 3


def test_a_slow_model_is_not_held_to_a_few_until_it_has_answered() -> None:
    limit = AdaptiveLimit(500)
    for _ in range(9):
        limit.grow()
    assert limit.current == 500
    limit = AdaptiveLimit(500)
    limit.record_end(1.0, 1.1, pushed_back=True)
    limit.grow()
    assert limit.current == INITIAL_LIMIT


def test_calls_that_are_not_wanted_prove_nothing() -> None:
    limit = AdaptiveLimit(500)
    rounds(limit, 5, full=False)
    assert limit.current == INITIAL_LIMIT


def test_it_halves_where_all_are_refused_and_then_grows_by_one_a_round() -> None:
    limit = AdaptiveLimit(500)
    rounds(limit, 5)
    before = limit.current
    rounds(limit, 1, refused=1.0)
    assert limit.current == before // 2
    rounds(limit, 4)
    assert before // 2 + 3 <= limit.current <= before // 2 + 4


def test_it_never_falls_to_none() -> None:
    limit = AdaptiveLimit(500)
    for _ in range(100):
        rounds(limit, 1, refused=1.0)
    assert limit.current == 1
    rounds(limit, 30)
    assert limit.current > 1


def test_one_more_is_tried_ever_more_rarely_while_it_is_rejected() -> None:
    limit = AdaptiveLimit(64)
    limit.record_crowding(float(next(SECONDS)), 0.0, accepted=3)
    rejected = 0
    for _ in range(1000):
        sent = float(next(SECONDS))
        if limit.current > 3:
            limit.record_crowding(sent, sent, accepted=3)
            rejected += 1
        limit.record_end(sent, sent + 1, full=True)
    assert 5 <= rejected <= 10


def test_a_number_that_rises_is_found() -> None:
    limit = AdaptiveLimit(64)
    limit.record_crowding(float(next(SECONDS)), 0.0, accepted=2)
    rounds(limit, 70)
    assert limit.current == 64


def test_all_rejections_of_one_burst_count_as_one_failed_search() -> None:
    limit = AdaptiveLimit(64)
    sent = float(next(SECONDS))
    for others in range(15, 1, -1):
        limit.record_crowding(sent, sent + 1, others)
    assert limit.current == 2
    rounds(limit, MIN_PROBE_INTERVAL_ROUNDS)
    assert limit.current == 3


def test_a_few_stray_refusals_are_noise() -> None:
    limit = AdaptiveLimit(200)
    rounds(limit, 100, refused=MAX_PUSHED_BACK_SHARE - 0.05)
    assert limit.current == 200


def test_calls_that_were_sent_before_it_fell_do_not_lower_it_again() -> None:
    limit = AdaptiveLimit(64)
    rounds(limit, 3)
    size, sent = limit.current, float(next(SECONDS))
    for _ in range(3 * size):  # all sent at once, all refused
        limit.record_end(sent, sent + 1, pushed_back=True)
    assert limit.current == size // 2


def test_a_provider_that_was_away_is_met_with_a_few() -> None:
    limit = AdaptiveLimit(500)
    rounds(limit, 6)
    limit.restart()
    assert limit.current == INITIAL_LIMIT


def test_a_server_that_queues_is_given_all_at_once() -> None:
    limit = AdaptiveLimit(64, start=320)
    assert limit.current == 64
    assert AdaptiveLimit(500, start=320).current == 320
    limit.restart()
    assert limit.current == 64
