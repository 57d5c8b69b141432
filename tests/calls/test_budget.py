from __future__ import annotations

import asyncio
import json
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.calls.budget import Budget, BudgetedCalls, plausible_usage, token_bounds
from harness.calls.signals import Stop, Stopping
from harness.errors import ConfigError, RequestRejected, StoreFailed, TransientError
from harness.records import Decoding, DecodingConstraint, Message, Origin, Reply, Request, Usage
from tests.conftest import Scripted


def asked(text: str = "What is 1 + 1?", **decoding: Any) -> Request:
    given_ = Decoding(**({"max_tokens": 100} | decoding))
    return Request("m", (Message("user", text),), given_, 0, Origin("a", 0, 1))


class Setting:
    """Calls that cost a dollar for an output token, and nothing else."""

    def __init__(self, usd: float, spent: float = 0.0, **backend: Any) -> None:
        self.stop = Stop()
        self.recorded: list[tuple[float, float]] = []
        self.budget = Budget(usd, spent, self.stop, save=self.record)
        self.backend = Scripted(**backend)
        self.charged: list[float] = []

        def charge(paid: float) -> asyncio.Future[None]:
            self.charged.append(paid)
            booked: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            booked.set_result(None)
            return booked

        self.budgeted = BudgetedCalls(
            self.backend.generate,
            self.budget,
            max_cost=lambda read, written: float(written),
            cost_of=lambda reply: (
                usage.output_tokens if (usage := plausible_usage(reply)) else None
            ),
            charge=charge,
        )

    async def ask(self, request: Request) -> Reply:
        """Make a call whose payment is on disk at once."""
        reply = await self.budgeted(request)
        self.budgeted.settle(request, reply)
        return reply

    async def record(self, more: float, most: float) -> None:
        """The disk, which takes its time."""
        await asyncio.sleep(0.001)
        self.recorded.append((more, most))

    async def all(self, calls: int) -> list[Any]:
        async with asyncio.timeout(20):
            return await asyncio.gather(
                *(self.ask(asked()) for _ in range(calls)), return_exceptions=True
            )


async def test_what_is_spent_never_exceeds_the_cap() -> None:
    setting = Setting(1000, delay=0.001)
    setting.backend.answer = lambda _: Reply("2", "stop", Usage(5, 70))
    answers = await setting.all(40)
    # 13 x 70 = 910, and what is left could not pay for 100 tokens.
    assert len(setting.backend.requests) == 13
    assert setting.budget.spent_usd == 910
    assert setting.budget.is_exhausted
    assert setting.stop.requested
    assert sum(isinstance(answer, Stopping) for answer in answers) == 27


async def test_what_is_reserved_is_on_disk_before_the_calls_are_sent() -> None:
    setting = Setting(100_000, delay=0.005)

    def answer(_: Request) -> Reply:
        reserved = sum(more for more, _ in setting.recorded)
        assert reserved >= 100 * setting.backend.in_flight
        assert setting.recorded[-1][1] >= setting.budget.spent_usd + 100 * setting.backend.in_flight
        return Reply("2", "stop", Usage(5, 70))

    setting.backend.answer = answer
    assert all(isinstance(one, Reply) for one in await setting.all(300))
    assert len(setting.recorded) < 20, "in steps, not with each call"
    await setting.budget.close()
    assert sum(more for more, _ in setting.recorded) == 0
    assert setting.recorded[-1][1] == setting.budget.spent_usd == 300 * 70


async def test_calls_that_cost_nothing_leave_no_negative_amount_on_disk() -> None:
    setting = Setting(5)
    for most in (0.3, 0.6):  # 0.3 + 0.6 - 0.3 - 0.6 is -1.1e-16 in binary floating point
        await setting.budget.reserve(most)
    for most in (0.3, 0.6):
        setting.budget.settle(most, 0.0)
    await setting.budget.close()
    assert setting.recorded[-1][1] == 0


async def test_a_call_whose_reservation_cannot_be_written_is_not_sent() -> None:
    setting = Setting(1000)

    async def full(more: float, most: float) -> None:
        raise StoreFailed("The disk is full.")

    setting.budget._save = full
    assert all(isinstance(one, StoreFailed) for one in await setting.all(3))
    assert not setting.backend.requests
    assert setting.budget.spent_usd == 0


async def test_a_text_of_no_tokens_costs_the_most_it_can_and_is_unsure() -> None:
    setting = Setting(150)
    setting.backend.answer = lambda _: Reply("2", "stop", Usage(0, 0))
    await setting.ask(asked())
    assert setting.budget.spent_usd == setting.budget.unsure_usd == 100
    assert plausible_usage(Reply("", "stop", Usage(0, 0))) == Usage(0, 0), "nothing was written"
    assert plausible_usage(Reply("No.", "refusal", Usage(0, 0))) == Usage(0, 0)


async def test_a_call_above_its_maximum_ends_the_run() -> None:
    setting = Setting(1000)
    setting.backend.answer = lambda _: Reply("2", "stop", Usage(5, 500))
    await setting.ask(asked())
    assert setting.budget.spent_usd == 500
    assert setting.stop.requested
    assert "500 output tokens" in str(setting.budget.broken)


async def test_after_a_call_above_its_maximum_the_others_are_cancelled_and_none_is_sent() -> None:
    setting = Setting(1000)
    sent = 0

    async def generate(request: Request) -> Reply:
        nonlocal sent
        sent += 1
        if sent == 4:
            return Reply("2", "stop", Usage(5, 500))
        await asyncio.sleep(3600)
        raise AssertionError

    setting.budgeted.ask = generate
    answers = await setting.all(15)
    assert sum(isinstance(answer, Stopping) for answer in answers) == 14
    assert setting.charged == [100] * 3
    assert (setting.budget.spent_usd, setting.budget.unsure_usd) == (500 + 300, 300)
    with pytest.raises(Stopping):
        await setting.ask(asked())
    assert sent == 4, "nothing is sent after the reply"


async def test_a_reply_that_has_arrived_is_kept_when_the_budget_is_broken() -> None:
    setting = Setting(1000)
    arrived = asyncio.Event()
    costs = iter((500, 1))

    async def generate(request: Request) -> Reply:
        written = next(costs)
        await arrived.wait()
        return Reply("2", "stop", Usage(5, written))

    setting.budgeted.ask = generate
    calls = asyncio.gather(*(setting.ask(asked()) for _ in range(2)))
    await asyncio.sleep(0.05)
    arrived.set()
    assert [reply.text for reply in await calls] == ["2", "2"]
    assert setting.budget.spent_usd == 501


async def test_a_call_that_waits_for_the_disk_is_not_sent_once_the_run_stops() -> None:
    setting = Setting(1000)
    call = asyncio.create_task(setting.ask(asked()))
    await asyncio.sleep(0)
    setting.stop.request()
    with pytest.raises(Stopping):
        await call
    assert not setting.backend.requests
    assert setting.budget.spent_usd == 0


async def test_a_call_that_does_not_fit_waits_for_those_on_the_way() -> None:
    setting = Setting(200, delay=0.001)
    setting.backend.answer = lambda _: Reply("2", "stop", Usage(5, 1))
    assert all(isinstance(answer, Reply) for answer in await setting.all(50))
    assert setting.backend.most_in_flight == 2


async def test_a_wait_for_calls_in_flight_is_named_until_it_ends() -> None:
    said: list[str] = []
    budget = Budget(150, 0, Stop(), status=said.append)
    await budget.reserve(100)
    waiting = asyncio.ensure_future(budget.reserve(100))
    await asyncio.sleep(0)
    assert "waiting for calls in flight" in said[-1]
    budget.settle(100, 1)
    await waiting
    assert said[-1] == ""


async def test_what_the_provider_did_not_count_costs_the_most_it_can() -> None:
    setting = Setting(150)
    setting.backend.answer = lambda _: Reply("2", "stop", None)
    await setting.ask(asked())
    assert setting.budget.spent_usd == 100


@pytest.mark.parametrize(
    ("error", "spent"),
    [
        (TransientError("x", kind="timed_out"), 100),
        (TransientError("x", kind="malformed"), 100),
        (TransientError("x", kind="connection_lost"), 100),
        (TransientError("x", kind="interrupted"), 100),
        (TransientError("x"), 0),
        (TransientError("x", kind="rate_limited"), 0),
        (RequestRejected("x"), 0),
        (RuntimeError("x"), 0),
    ],
)
async def test_a_failure_costs_what_the_provider_may_bill(error: Exception, spent: int) -> None:
    setting = Setting(1000)
    setting.backend.answer = lambda _: error
    with pytest.raises(type(error)):
        await setting.ask(asked())
    assert setting.budget.spent_usd == spent
    assert setting.charged == ([spent] if spent else [])


async def test_a_call_that_is_stopped_in_the_middle_may_be_billed() -> None:
    setting = Setting(1000, delay=5)
    call = asyncio.create_task(setting.ask(asked()))
    await asyncio.sleep(0.1)
    call.cancel()
    await asyncio.gather(call, return_exceptions=True)
    assert setting.charged == [100]
    assert setting.budget.spent_usd == setting.budget.unsure_usd == 100


async def test_what_was_spent_before_counts() -> None:
    setting = Setting(1000, spent=950)
    assert isinstance((await setting.all(1))[0], Stopping)
    assert not setting.backend.requests


async def test_a_stopping_run_lets_nobody_wait() -> None:
    setting = Setting(100, delay=0.05)
    tasks = [asyncio.create_task(setting.ask(asked())) for _ in range(5)]
    while not setting.backend.requests:  # noqa: ASYNC110
        await asyncio.sleep(0.001)
    setting.stop.request()
    answers = await asyncio.gather(*tasks, return_exceptions=True)
    assert sum(isinstance(answer, Stopping) for answer in answers) == 4
    assert not setting.budget.is_exhausted
    with pytest.raises(Stopping):
        await setting.ask(asked())


async def test_a_cancelled_wait_takes_nothing() -> None:
    setting = Setting(100, delay=0.02)
    setting.backend.answer = lambda _: Reply("2", "refusal", Usage(5, 0))
    tasks = [asyncio.create_task(setting.ask(asked())) for _ in range(5)]
    await asyncio.sleep(0.005)
    for task in tasks[1:3]:
        task.cancel()
    answers = await asyncio.gather(*tasks, return_exceptions=True)
    assert sum(isinstance(answer, Reply) for answer in answers) == 3
    assert (await setting.ask(asked())).text == "2"


@settings(max_examples=30, deadline=None)
@given(
    st.integers(1, 400),
    st.lists(st.tuples(st.integers(0, 100), st.integers(0, 4)), max_size=60),
)
def test_the_cap_holds_in_every_order_of_answers(usd: int, calls: list[tuple[int, int]]) -> None:
    async def run() -> None:
        setting = Setting(usd)
        answers = iter(calls)

        async def generate(request: Request) -> Reply:
            written, turns = next(answers)
            for _ in range(turns):
                await asyncio.sleep(0)
            return Reply("2", "stop", Usage(1, written))

        setting.budgeted.ask = generate
        results = await setting.all(len(calls))
        assert setting.budget.spent_usd <= usd
        assert setting.budget.is_exhausted == any(isinstance(r, Stopping) for r in results)

    asyncio.run(run())


def test_reasoning_that_is_sent_back_is_read_again() -> None:
    answer = Message("assistant", "2", reasoning_state="x" * 1000)
    request = msgspec.structs.replace(asked(), messages=(*asked().messages, answer))
    plain = msgspec.structs.replace(
        asked(), messages=(*asked().messages, Message("assistant", "2"))
    )
    assert token_bounds(request)[0] == token_bounds(plain)[0] + 1000


def test_a_text_has_no_more_tokens_than_bytes() -> None:
    read, written = token_bounds(asked("ä" * 10))
    assert read >= 20
    assert written == 100
    assert token_bounds(asked(extra={"max_completion_tokens": 500}))[1] == 500
    assert token_bounds(asked(extra={"n": 3}))[1] == 300
    assert token_bounds(asked(extra={"best_of": 4, "n": 2}))[1] == 400
    assert token_bounds(asked(extra={"tools": ["x" * 500]}))[0] > read - 20 + 500
    schema = {"properties": {f"property{n}": {"type": "string"} for n in range(100)}}
    constraint = DecodingConstraint(json_schema=schema)
    compact = json.dumps(schema, separators=(",", ":"))
    assert token_bounds(asked(constraint=constraint))[0] > read - 20 + len(compact)
    with pytest.raises(ConfigError, match="max_tokens"):
        token_bounds(asked(max_tokens=None))


def test_a_text_without_output_tokens_is_not_free() -> None:
    assert plausible_usage(Reply("Yes.", "stop", Usage(40, 0))) is None
    assert plausible_usage(Reply("", "stop", Usage(40, 0))) == Usage(40, 0)
    assert plausible_usage(Reply("No.", "refusal", Usage(40, 0))) == Usage(40, 0)
