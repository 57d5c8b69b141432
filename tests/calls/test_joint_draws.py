"""Several samples of a prompt are drawn with one call, and each is a reply of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from harness.calls.budget import Budget, BudgetedCalls, token_bounds
from harness.calls.joint_draws import JointDraws, divide_usage
from harness.calls.keys import call_key
from harness.calls.rate_limits import RateLimits
from harness.calls.reply_cache import Payment, ReplyCache
from harness.calls.signals import Stop, Stopping
from harness.errors import TransientError
from harness.records import Decoding, Message, Origin, Reply, Request, Usage
from tests.calls.paid import paid_calls


def sample(number: int, text: str = "A colour?", seed: int | None = None) -> Request:
    origin = Origin("a", number, 1)
    return Request("m", (Message("user", text),), Decoding(max_tokens=10), number, origin, seed)


class Provider:
    """Draws what it is asked for, notes it, and leaves out samples or fails if told so."""

    def __init__(self) -> None:
        self.drawn: list[list[int]] = []
        self.lacks: set[int] = set()
        self.errors: list[Exception] = []
        self.second = asyncio.Event()

    async def __call__(self, request: Request) -> Reply:
        self.drawn.append([request.sample, *request.others])
        if len(self.drawn) == 2:
            self.second.set()
        await asyncio.sleep(0.01)
        if self.errors:
            raise self.errors.pop()
        others = [number for number in request.others if number not in self.lacks]
        replies = {number: Reply(f"answer {number}", "stop") for number in others}
        usage = Usage(7, 10 * (1 + len(others)), reasoning_tokens=1)
        return Reply(f"answer {request.sample}", "stop", usage, others=replies)


async def test_requests_for_one_prompt_are_one_call() -> None:
    provider = Provider()
    calls = JointDraws(provider, 4)
    replies = await asyncio.gather(*(calls(sample(n)) for n in range(6)))
    assert provider.drawn == [[0, 1, 2, 3], [4, 5]]
    assert [reply.text for reply in replies] == [f"answer {n}" for n in range(6)]
    assert not any(reply.others for reply in replies)
    usages = [reply.usage for reply in replies if reply.usage]
    assert [usage.input_tokens for usage in usages] == [7, 0, 0, 0, 7, 0]
    assert [usage.output_tokens for usage in usages] == [10] * 6


async def test_other_prompts_and_seeded_samples_are_calls_of_their_own() -> None:
    provider = Provider()
    calls = JointDraws(provider, 4)
    asked = [sample(0), sample(1, "A town?"), sample(0, seed=5), sample(1, seed=6)]
    await asyncio.gather(*map(calls, asked))
    assert sorted(provider.drawn) == [[0], [0], [1], [1]]


async def test_what_a_reply_lacks_is_asked_for_again() -> None:
    provider = Provider()
    provider.lacks = {1, 2}
    calls = JointDraws(provider, 3)
    replies = await asyncio.gather(*(calls(sample(n)) for n in range(3)))
    assert [reply.text for reply in replies] == ["answer 0", "answer 1", "answer 2"]
    assert provider.drawn == [[0, 1, 2], [1, 2], [2]]


async def test_a_call_that_fails_fails_for_all_of_its_samples() -> None:
    provider = Provider()
    provider.errors = [TransientError("gone")]
    calls = JointDraws(provider, 3)
    found = await asyncio.gather(*(calls(sample(n)) for n in range(3)), return_exceptions=True)
    assert [type(one) for one in found] == [TransientError] * 3
    assert provider.drawn == [[0, 1, 2]]


async def test_one_that_is_cancelled_or_not_sent_leaves_the_others_to_ask_again() -> None:
    provider = Provider()
    calls = JointDraws(provider, 3)
    asked = [asyncio.create_task(calls(sample(n))) for n in range(3)]
    await asyncio.sleep(0.005)
    asked[0].cancel()
    assert [(await one).text for one in asked[1:]] == ["answer 1", "answer 2"]
    provider.errors = [Stopping()]
    found = await asyncio.gather(*(calls(sample(n)) for n in range(3)), return_exceptions=True)
    assert [type(one) for one in found] == [Stopping, Reply, Reply]


@given(st.integers(0, 2**31), st.integers(0, 2**31), st.integers(1, 128))
def test_the_parts_of_a_usage_add_up_to_the_bill(read: int, written: int, parts: int) -> None:
    usage = Usage(read, written, read // 2, written // 3, read // 4)
    found = divide_usage(usage, parts)
    assert sum((one for one in found if one), Usage()) == usage
    assert divide_usage(None, parts) == [None] * parts


async def test_each_sample_is_cached_and_paid_for_under_its_own_key(tmp_path: Path) -> None:
    provider, stop = Provider(), Stop()
    budget = Budget(1000.0, 0.0, stop)
    with ReplyCache(tmp_path / "replies.sqlite") as replies:

        def charge(usd: float) -> asyncio.Future[None]:
            return replies.charge("failed", Payment("run", usd))

        most: Callable[[int, int], float] = lambda read, written: read + written  # noqa: E731

        def cost(reply: Reply) -> float:
            assert reply.usage is not None
            return reply.usage.input_tokens + reply.usage.output_tokens / 10

        budgeted = BudgetedCalls(provider, budget, max_cost=most, cost_of=cost, charge=charge)
        calls = paid_calls(
            budgeted,
            replies,
            between=lambda ask: JointDraws(ask, 4),
            run_id="run",
            budgeted=budgeted,
        )
        # One of them is there already, and another process is paying for the next.
        key = partial(call_key, "scripted", "")
        await replies.put(key(sample(1)), Reply("earlier", "stop"), "scripted", "m")
        assert replies.claim(key(sample(2)))
        provider.lacks = {3}
        asked = [asyncio.create_task(calls(sample(n))) for n in range(4)]
        await provider.second.wait()
        assert provider.drawn == [[0, 3], [3]]
        await replies.put(key(sample(2)), Reply("theirs", "stop"), "scripted", "m")
        texts = [(await one).reply.text for one in asked]
        assert texts == ["answer 0", "earlier", "theirs", "answer 3"]
        assert [reply.text for n in range(4) if (reply := replies.get(key(sample(n))))] == texts
        booked = replies.payments_of("run")
    assert booked == {bytes.fromhex(key(sample(n))): 7 + 1 for n in (0, 3)}
    assert budget.spent_usd == pytest.approx(16)
    assert budget._reserved == pytest.approx(0)


def test_limits_and_budget_count_each_sample_and_the_call_once() -> None:
    limits = RateLimits({"requests": 10, "output_tokens": 1000})
    joint = replace(sample(0), others=(1, 2, 3))
    taken = limits.reserve(joint)
    assert taken is not None
    assert taken.amounts == {"requests": 1, "output_tokens": 40}
    limits.settle(taken, joint, Usage(5, 20))
    again = limits.reserve(sample(0))
    assert again is not None
    assert again.amounts["output_tokens"] == 10  # at most three times the mean of 5, up to 10
    assert token_bounds(joint) == token_bounds(sample(0))
