"""The ledger of batches, and the reservations of their calls."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.calls import database
from harness.calls.budget import Budget
from harness.calls.reply_cache import ReplyCache
from harness.calls.signals import Stop
from harness.plugins.batches.ledger import BatchedCall, BatchLedger, Settled, recorded_batches
from harness.records import Reply

PLACE = ("openai", "http://localhost", "m")


def key(number: int) -> str:
    return f"{number:032x}"


def call(number: int, tag: str = "t", usd: float = 0.5) -> BatchedCall:
    return BatchedCall(key(number), tag, "run", usd, (None, False))


async def intended(ledger: BatchLedger, *numbers: int, tag: str = "t") -> None:
    await ledger.intend(tag, [call(one, tag) for one in numbers], 10, "run", b"{}")


async def test_a_call_is_in_its_batch_until_its_outcome_is_committed(tmp_path: Path) -> None:
    with ReplyCache(tmp_path / "replies.sqlite") as replies:
        ledger = BatchLedger(replies, *PLACE)
        await intended(ledger, 1, 2, 3)
        assert [ledger.tag(key(one)) for one in (1, 4)] == ["t", None]
        assert ledger.open()[0].id is None
        await ledger.created("t", "batch_1")
        assert (ledger.open()[0].id, ledger.ids()) == ("batch_1", {"batch_1"})
        paid = Settled(call(1), Reply("Yes.", "stop", batch=True), 0.25)
        await ledger.settle([paid, Settled(call(2))])
        assert ledger.keys("t") == {key(3)}
        assert replies.get(key(1)) == Reply("Yes.", "stop", batch=True)
        assert replies.get(key(2)) is None
        assert replies.payments_of("run") == {bytes.fromhex(key(1)): 0.25}
        await ledger.end("t", "expired")
        assert (ledger.open(), ledger.keys("t")) == ([], set())
        (ended,) = recorded_batches(replies)
        assert (ended.status, ended.usd, ended.requests) == ("expired", 0.25, 3)


async def test_an_empty_reply_is_paid_for_but_not_kept(tmp_path: Path) -> None:
    with ReplyCache(tmp_path / "replies.sqlite") as replies:
        ledger = BatchLedger(replies, *PLACE)
        await intended(ledger, 1)
        await ledger.settle([Settled(call(1), Reply(" ", "stop", batch=True), 0.25)])
        assert replies.get(key(1)) is None
        assert sum(replies.payments_of("run").values()) == 0.25


async def test_other_models_have_their_own_batches(tmp_path: Path) -> None:
    with ReplyCache(tmp_path / "replies.sqlite") as replies:
        await intended(BatchLedger(replies, *PLACE), 1)
        other = BatchLedger(replies, "openai", "http://localhost", "n")
        assert other.open() == []
        assert other.tag(key(1)) == "t", "no other call may be made under this key"


async def test_a_damaged_cache_keeps_its_batches(tmp_path: Path) -> None:
    path = tmp_path / "replies.sqlite"
    with ReplyCache(path) as replies:
        await intended(BatchLedger(replies, *PLACE), 1, 2)
    database.mark_damaged(path)
    with ReplyCache(path) as replies:
        ledger = BatchLedger(replies, *PLACE)
        assert [one.tag for one in ledger.open()] == ["t"]
        assert ledger.calls("t") == [call(1), call(2)]


async def test_reservations_of_batches_are_part_of_the_budget() -> None:
    stop = Stop()
    budget = Budget(1.0, 0.0, stop)
    budget.reserve_batched("earlier", 0.6)
    await budget.reserve(0.3, "a")
    assert budget.batched_reservation("a") == 0.3
    budget.settle_batched("earlier", 0.2)
    budget.settle_batched("earlier", 0.2)  # what is released is charged once
    assert budget.spent_usd == pytest.approx(0.2)
    await budget.reserve(0.5, "b")
    budget.settle_batched("a")
    budget.settle_batched("b", 0.5)
    assert budget.spent_usd == pytest.approx(0.7)
    assert not stop.requested
