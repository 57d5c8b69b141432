import asyncio
import contextlib
import sqlite3
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from msgspec.structs import replace

from harness.calls.budget import Budget, BudgetedCalls
from harness.calls.calls import CachedCalls, ReplyUnsaved, UncachedCalls
from harness.calls.keys import call_key
from harness.calls.reply_cache import Payment, ReplyCache
from harness.calls.signals import Stop, Stopping
from harness.errors import RequestRejected
from harness.records import Decoding, Message, Origin, Reply, Request
from tests.calls.paid import paid_calls
from tests.calls.processes import spent
from tests.conftest import Scripted


def request(number: int = 1, sample: int = 0, instance: str = "a") -> Request:
    messages = (Message("user", f"What is {number} + {number}?"),)
    return Request("m", messages, Decoding(), sample, Origin(instance, sample, 1))


@pytest.fixture
def replies(tmp_path: Path) -> Iterator[ReplyCache]:
    with ReplyCache(tmp_path / "replies.sqlite") as file:
        yield file


def paid(backend: Scripted, replies: ReplyCache) -> CachedCalls:
    return paid_calls(backend.generate, replies)


async def test_the_second_time_a_call_comes_from_the_cache(replies: ReplyCache) -> None:
    backend = Scripted()
    calls = paid(backend, replies)
    first, second = await calls(request()), await calls(request(instance="b"))
    assert (first.cached, second.cached) == (False, True)
    assert first.id == second.id
    assert first.reply == second.reply
    assert len(backend.requests) == 1


async def test_500_identical_calls_at_once_are_one(replies: ReplyCache) -> None:
    backend = Scripted(delay=0.01)
    calls = paid(backend, replies)
    found = await asyncio.gather(*(calls(request(instance=str(n))) for n in range(500)))
    assert len(backend.requests) == 1
    assert sum(not call.cached for call in found) == 1


async def test_samples_are_calls_of_their_own(replies: ReplyCache) -> None:
    backend = Scripted()
    calls = paid(backend, replies)
    ids = {(await calls(request(sample=sample))).id for sample in range(5)}
    assert len(ids) == len(backend.requests) == 5


async def test_an_error_reaches_all_who_wait_and_is_not_kept(replies: ReplyCache) -> None:
    backend = Scripted(lambda _: RequestRejected("no"), delay=0.01)
    calls = paid(backend, replies)
    found = await asyncio.gather(*(calls(request()) for _ in range(5)), return_exceptions=True)
    assert [type(error) for error in found] == [RequestRejected] * 5
    backend.answer = lambda _: "2"
    assert (await calls(request())).reply.text == "2"


async def test_an_empty_answer_is_not_kept(replies: ReplyCache) -> None:
    backend = Scripted(lambda _: Reply("", "stop"))
    calls = paid(backend, replies)
    first, second = await calls(request()), await calls(request(instance="b"))
    assert not second.cached
    assert first.id != second.id, "paid twice, counted twice"
    assert len(backend.requests) == 2


async def test_a_truncated_answer_is_kept_for_it_was_paid_for(replies: ReplyCache) -> None:
    backend = Scripted(lambda _: Reply("1", "length"))
    calls = paid(backend, replies)
    await calls(request())
    assert (await calls(request())).cached


async def test_when_the_one_that_pays_is_cancelled_another_takes_over(replies: ReplyCache) -> None:
    backend = Scripted(delay=0.05)
    calls = paid(backend, replies)
    payer = asyncio.create_task(calls(request()))
    await asyncio.sleep(0.01)
    waiter = asyncio.create_task(calls(request()))
    await asyncio.sleep(0.01)
    payer.cancel()
    assert (await waiter).reply.text == "2"
    assert payer.cancelled()


async def test_payer_and_waiter_cancelled_together_both_end(replies: ReplyCache) -> None:
    """As a task group cancels them: none takes over."""
    backend = Scripted(delay=0.05)
    calls = paid(backend, replies)
    tasks = [asyncio.create_task(calls(request())) for _ in range(3)]
    await asyncio.sleep(0.01)
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks, timeout=1)
    assert all(task.cancelled() for task in tasks)
    assert len(backend.requests) == 1


async def test_a_cancelled_waiter_leaves_the_call_to_the_one_that_pays(replies: ReplyCache) -> None:
    backend = Scripted(delay=0.5)
    calls = paid(backend, replies)
    payer = asyncio.create_task(calls(request()))
    await asyncio.sleep(0.01)
    waiter = asyncio.create_task(calls(request()))
    await asyncio.sleep(0.01)
    waiter.cancel()
    assert (await payer).reply.text == "2"
    assert waiter.cancelled()


async def test_a_reply_that_cannot_be_kept_is_handed_over_with_the_error(
    replies: ReplyCache,
) -> None:
    with contextlib.closing(sqlite3.connect(replies.path)) as other, other:
        other.execute(
            "CREATE TRIGGER full BEFORE INSERT ON replies BEGIN SELECT raise(FAIL, '!'); END"
        )
    with pytest.raises(ReplyUnsaved, match="Cannot write the cache") as caught:
        await paid(Scripted(), replies)(request())
    assert caught.value.call.reply.text == "2"
    with contextlib.closing(sqlite3.connect(replies.path)) as other, other:
        other.execute("DROP TRIGGER full")
    assert not (await paid(Scripted(), replies)(request())).cached, "it holds no claim any more"


async def test_each_paid_reply_is_booked_and_those_from_the_cache_are_not(
    replies: ReplyCache,
) -> None:
    backend = Scripted(lambda request: "" if request.sample == 2 else "2")
    budgeted = BudgetedCalls(
        backend.generate,
        Budget(10.0, 0.0, Stop()),
        max_cost=lambda read, written: 0.5,
        cost_of=lambda reply: 0.5,
        charge=lambda usd: replies.charge("failed", Payment("run", usd)),
    )
    calls = paid_calls(budgeted, replies, run_id="run", budgeted=budgeted)
    for _ in range(2):
        for sample in range(3):
            await calls(replace(request(sample=sample), decoding=Decoding(max_tokens=9)))
    assert spent(replies, ["run"]) == 0.5 * 4, "the empty answer was paid twice"
    assert budgeted.budget.spent_usd == 0.5 * 4


async def test_two_stacks_in_one_process_pay_once(replies: ReplyCache) -> None:
    """As a model and a judge that are the same model."""
    backend = Scripted(delay=0.02)
    with ReplyCache(replies.path) as again:
        stacks = [paid(backend, file) for file in (replies, replies, again)]
        found = await asyncio.gather(
            *(calls(request(number)) for number in range(20) for calls in stacks)
        )
    assert len(backend.requests) == 20
    assert sum(not call.cached for call in found) == 20


async def test_a_call_that_is_cancelled_while_it_is_kept_is_paid_once(replies: ReplyCache) -> None:
    """The reply is on its way to the disk: who comes now must wait for it."""
    backend = Scripted()
    with contextlib.closing(sqlite3.connect(replies.path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        payer = asyncio.create_task(paid(backend, replies)(request()))
        await asyncio.sleep(0.1)
        assert backend.requests
        payer.cancel()
        waiter = asyncio.create_task(paid(backend, replies)(request()))
        await asyncio.sleep(0.1)
        assert payer.cancelled()
        assert not waiter.done()
        other.execute("COMMIT")
        assert (await waiter).cached
    assert len(backend.requests) == 1


async def test_a_call_that_fails_is_free_for_others(replies: ReplyCache) -> None:
    one, two = Scripted(lambda _: RequestRejected("no"), delay=0.05), Scripted()
    with ReplyCache(replies.path) as other:
        failing = asyncio.create_task(paid(one, other)(request()))
        await asyncio.sleep(0.02)
        assert (await paid(two, replies)(request())).reply.text == "2"
        with pytest.raises(RequestRejected):
            await failing


async def test_who_stops_does_not_wait_for_another(replies: ReplyCache) -> None:
    stop, backend = Stop(), Scripted(delay=60)
    calls = paid_calls(backend.generate, replies, sleep=stop.sleep)
    with ReplyCache(replies.path) as other:
        owner = asyncio.create_task(paid(backend, other)(request()))
        await asyncio.sleep(0.01)
        waiting = asyncio.create_task(calls(request()))
        await asyncio.sleep(0.1)
        stop.request()
        with pytest.raises(Stopping):
            await waiting
        owner.cancel()


async def test_the_user_hears_of_a_long_wait_and_of_its_end(tmp_path: Path) -> None:
    told: list[str] = []
    backend = Scripted()

    async def nap(seconds: float) -> None:
        await asyncio.sleep(0)

    path = tmp_path / "replies.sqlite"
    with ReplyCache(path) as other, ReplyCache(path, notify=told.append) as replies:
        backend.delay = 0.5
        owner = asyncio.create_task(paid(backend, other)(request()))
        await asyncio.sleep(0.01)
        calls = paid_calls(backend.generate, replies, sleep=nap)
        found = await asyncio.gather(calls(request()), calls(request(instance="b")), owner)
    assert [call.cached for call in found] == [True, True, False]
    assert len(told) == 2
    assert "Another process" in told[0]
    assert told[1] == ""


async def test_free_calls_share_an_id_by_prompt_or_by_instance() -> None:
    backend = Scripted()
    by_prompt = UncachedCalls(backend.generate, partial(call_key, "scripted", ""))
    by_instance = UncachedCalls(
        backend.generate, partial(call_key, "scripted", "", by_instance=True)
    )
    one, two = request(instance="a"), request(instance="b")
    assert (await by_prompt(one)).id == (await by_prompt(two)).id
    assert (await by_instance(one)).id != (await by_instance(two)).id
