"""What happens to a batch when its provider, or another process, does the unexpected."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Sequence
from pathlib import Path

import pytest

from harness.calls.budget import Budget
from harness.calls.database import Write
from harness.calls.reply_cache import ReplyCache
from harness.calls.signals import Stop
from harness.config.prices import Price
from harness.errors import CallError, FatalCallError, RequestRejected, TransientError
from harness.plugins.batches.jobs import LIVE, BatchJobs, Delivered
from harness.plugins.batches.ledger import (
    BatchedCall,
    BatchLedger,
    mark,
    recorded_batches,
)
from harness.plugins.batches.provider import (
    BatchLimits,
    BatchProvider,
    BatchSection,
    BatchState,
    Outcome,
)
from harness.records import Decoding, Message, Origin, Reply, Request, Usage

RUNNING, DONE = BatchState(False, 0, 0), BatchState(True, 2, 0)
PRICE = b'{"price": {"input": 0, "output": 1000000}}'  # a dollar a token
TAG = "0123456789abcdef"
KEYS = (f"{1:032x}", f"{2:032x}")


class Provider(BatchProvider):
    """A provider with one batch, whose answers a test chooses. It counts what it is asked."""

    batch_limits = BatchLimits(10, 1000)

    def __init__(self) -> None:
        self.states = [RUNNING]
        """The states of the batch, one for each question about it. The last one stays."""
        self.found: list[str | None] = [None]
        """The answers to the questions whether a tag has a batch. The last one stays."""
        self.file: str | None = "file"
        self.answers = 2
        self.further: list[tuple[str, Outcome]] = []
        """Results in addition to the answers."""
        self.asked: list[str] = []
        self.meanwhile: Callable[[], Awaitable[None]] | None = None
        self.refused: dict[str, CallError] = {}
        """The errors of the next requests of a kind."""

    def _ask(self, what: str) -> None:
        self.asked.append(what)
        if error := self.refused.pop(what, None):
            raise error

    def batch_bytes(self, request: Request) -> int:
        return 100

    async def upload_batch(self, tag: str, entries: Sequence[tuple[str, Request]]) -> str | None:
        self._ask("upload")
        return self.file

    async def create_batch(
        self, tag: str, entries: Sequence[tuple[str, Request]], file: str | None
    ) -> str:
        self._ask("create")
        return "batch"

    async def batch_file(self, tag: str) -> str | None:
        self._ask("file")
        return self.file

    async def delete_file(self, file: str) -> None:
        self._ask("delete")
        self.file = None

    async def find_batch(
        self, tag: str, since: float, requests: int, others: Collection[str]
    ) -> str | None:
        self._ask("find")
        return self.found.pop(0) if len(self.found) > 1 else self.found[0]

    async def poll_batch(self, batch: str) -> BatchState:
        self._ask("poll")
        if self.meanwhile is not None:
            await self.meanwhile()
        return self.states.pop(0) if len(self.states) > 1 else self.states[0]

    async def batch_outcomes(
        self, batch: str, request: Callable[[str], Request]
    ) -> AsyncIterator[tuple[str, Outcome]]:
        for key in KEYS[: self.answers]:
            yield f"{key}-{TAG}", Reply("Yes.", "stop", Usage(1, 3), batch=True)
        for result in self.further:
            yield result

    async def cancel_batch(self, batch: str) -> None:
        self._ask("cancel")

    async def generate(self, request: Request) -> Reply:
        raise NotImplementedError


class Jobs:
    """The batches of a run, with the outcomes that they deliver. Time is what a test says it is."""

    def __init__(
        self, replies: ReplyCache, run: str = "run", batching: BatchSection | None = None
    ) -> None:
        self.provider, self.now = Provider(), 1000.0
        self.ledger = BatchLedger(replies, "openai", "http://localhost", "m")
        self.delivered: dict[str, Delivered] = {}
        batching = batching or BatchSection(poll_s=1, search_s=10)
        self.jobs = BatchJobs(self.provider, self.ledger, batching, run=run, clock=self.time)
        self.jobs.deliver = self.delivered.__setitem__

    def time(self) -> float:
        return self.now

    async def intend(self, status: str, batch: str | None = None, section: bytes = b"{}") -> None:
        """Record a batch of an earlier session."""
        calls = [BatchedCall(key, TAG, "first", 9.0, (None, False)) for key in KEYS]
        await self.ledger.intend(TAG, calls, 200, "first", section)
        if batch is not None:
            await self.ledger.created(TAG, batch)
        await self.ledger.replies.write(Write((), (), [mark(TAG, status)]))

    async def look(self, seconds: float = 0.0) -> None:
        self.now += seconds
        await self.jobs.look()

    @property
    def status(self) -> str:
        (one,) = recorded_batches(self.ledger.replies)
        return one.status


@pytest.fixture
def replies(tmp_path: Path) -> ReplyCache:
    return ReplyCache(tmp_path / "replies.sqlite")


async def test_a_batch_that_was_being_uploaded_is_made_again_at_once(replies: ReplyCache) -> None:
    with replies:
        one = Jobs(replies)
        await one.intend("preparing")
        await one.look()
        assert (one.status, one.delivered, one.provider.asked) == (
            "not created",
            dict.fromkeys(KEYS),
            [],
        )


async def test_a_creation_that_succeeds_late_is_found(replies: ReplyCache) -> None:
    with replies:
        one = Jobs(replies)
        one.provider.found = [None, None, None, "batch"]  # while its file is being deleted
        await one.intend("creating")
        await one.look()
        await one.look(9)  # longer than ``poll_s``
        assert (one.status, one.provider.asked) == ("creating", ["find", "find"])
        assert one.jobs.searches_s == [1.0]
        await one.look(2)
        assert one.provider.asked[2:] == ["find", "file", "delete", "find"]
        assert (one.status, one.delivered) == ("in progress", {})


async def test_a_batch_is_made_again_only_when_its_file_is_gone(replies: ReplyCache) -> None:
    with replies:
        one = Jobs(replies)
        await one.intend("creating")
        await one.look()
        one.provider.refused["delete"] = TransientError("no")
        await one.look(11)
        assert (one.status, one.delivered) == ("uploading", {})
        await one.look(11)
        assert (one.status, one.provider.file) == ("not created", None)
        assert one.delivered == dict.fromkeys(KEYS)


async def test_a_session_killed_after_the_deletion_continues(replies: ReplyCache) -> None:
    with replies:
        one = Jobs(replies)
        one.provider.file = None
        await one.intend("uploading")  # as in a ledger of an earlier version, too
        await one.look()
        assert one.status == "uploading", "a request may be on its way"
        await one.look(11)
        assert one.status == "not created"


async def test_a_batch_of_another_account_is_not_made_again(replies: ReplyCache) -> None:
    with replies:
        one = Jobs(replies)
        one.provider.file = None
        await one.intend("creating")
        await one.look()
        with pytest.raises(FatalCallError, match="neither the batch") as refused:
            await one.look(11)
        assert "another key or project" in refused.value.remedy
        assert (one.status, one.delivered) == ("creating", {})
        one.provider.refused["poll"] = FatalCallError("404: no batch", "")
        await one.ledger.created(TAG, "batch")
        with pytest.raises(FatalCallError, match="The batch batch: 404") as refused:
            await one.look()
        assert "another key or project" in refused.value.remedy
        assert one.delivered == {}


async def test_a_batch_that_ends_while_it_is_being_cancelled_is_taken(replies: ReplyCache) -> None:
    with replies:
        one = Jobs(replies, batching=BatchSection.model_validate({"after": "1s", "then": "live"}))
        one.provider.states = [RUNNING, DONE]
        one.provider.refused["cancel"] = RequestRejected("It has ended.")
        await one.intend("in progress", "batch")
        query = "UPDATE batches SET created = created - 60"
        await replies.write(Write((), (), [(query, ())]))
        await one.look()
        assert one.delivered == {}
        await one.look()
        assert one.provider.asked == ["poll", "cancel", "poll", "poll"]
        assert all(isinstance(outcome, Reply) for outcome in one.delivered.values())
        assert one.status == "completed"


async def test_what_a_cancelled_batch_has_not_done_is_made_live(replies: ReplyCache) -> None:
    with replies:
        one = Jobs(replies, batching=BatchSection.model_validate({"after": "1s", "then": "live"}))
        one.provider.states, one.provider.answers = [BatchState(True, 1, 0, cancelled=True)], 1
        await one.intend("in progress", "batch")
        await one.look()
        assert isinstance(one.delivered[KEYS[0]], Reply)
        assert one.delivered[KEYS[1]] is LIVE


async def test_missing_results_are_waited_for(replies: ReplyCache) -> None:
    with replies:
        one = Jobs(replies)
        one.provider.states, one.provider.answers = [DONE], 1
        await one.intend("in progress", "batch")
        await one.look()
        assert (list(one.delivered), one.status) == ([KEYS[0]], "in progress")
        one.provider.answers = 2
        await one.look()
        assert (list(one.delivered), one.status) == ([*KEYS], "completed")


async def test_results_of_another_batch_do_not_stand_for_missing_ones(replies: ReplyCache) -> None:
    with replies:
        one = Jobs(replies)
        one.provider.states, one.provider.answers = [DONE], 1
        one.provider.further = [(f"{KEYS[1]}-another", Reply("No.", "stop", batch=True))]
        await one.intend("in progress", "batch")
        for _ in range(5):
            await one.look()
        assert (list(one.delivered), one.status) == ([KEYS[0]], "in progress")


@pytest.mark.parametrize("name", [f"{KEYS[1]}-{TAG}", ""], ids=["named", "unnamed"])
async def test_a_damaged_result_is_read_three_times_and_may_be_billed(
    replies: ReplyCache, name: str
) -> None:
    with replies:
        one = Jobs(replies, run="first")
        one.jobs.budget = budget = Budget(100.0, 0.0, Stop())
        one.jobs.price = Price(input=0, output=1_000_000)
        for key in KEYS:
            budget.reserve_batched(key, 9.0)
        damage = TransientError("Half a line.", kind="malformed")
        one.provider.states, one.provider.answers = [DONE], 1
        one.provider.further = [(name, damage)]
        await one.intend("in progress", "batch", PRICE)
        await one.look()
        await one.look()
        assert (list(one.delivered), one.status) == ([KEYS[0]], "in progress")
        await one.look()
        assert (list(one.delivered), one.status) == ([*KEYS], "completed")
        failure = one.delivered[KEYS[1]]
        assert isinstance(failure, TransientError)
        assert failure.kind == "malformed"
        assert budget.batched_reservation(KEYS[1]) == 0
        assert (budget.spent_usd, budget.unsure_usd) == (12.0, 9.0)
        payments = replies.payments_of("first")
        assert [payments[bytes.fromhex(key)] for key in KEYS] == [3.0, 9.0]


async def test_a_damaged_result_that_is_read_in_the_end_is_used(replies: ReplyCache) -> None:
    with replies:
        one = Jobs(replies)
        one.provider.states, one.provider.answers = [DONE], 1
        one.provider.further = [("", TransientError("Half a line.", kind="malformed"))]
        await one.intend("in progress", "batch")
        await one.look()
        one.provider.answers, one.provider.further = 2, []
        await one.look()
        assert all(isinstance(outcome, Reply) for outcome in one.delivered.values())
        assert (list(one.delivered), one.status) == ([*KEYS], "completed")


async def test_a_request_that_the_results_lack_has_not_expired(replies: ReplyCache) -> None:
    with replies:
        one = Jobs(replies)
        one.provider.states, one.provider.answers = [BatchState(True, 0, 0)], 1
        await one.intend("in progress", "batch")
        for _ in range(3):
            await one.look()
        lacking = one.delivered[KEYS[1]]
        assert isinstance(lacking, TransientError)
        assert "lack this request" in lacking.message


async def test_results_that_stay_incomplete_end_the_run(replies: ReplyCache) -> None:
    with replies:
        one = Jobs(replies)
        one.provider.states, one.provider.answers = [DONE], 1
        await one.intend("in progress", "batch")
        await one.look()
        with pytest.raises(FatalCallError, match="only 1") as raised:
            await one.look(601)
        assert "harness batches cancel --force batch" in raised.value.remedy
        assert (list(one.delivered), one.status) == ([KEYS[0]], "in progress")


async def test_a_run_pays_its_own_price_if_another_run_takes_the_outcome(
    replies: ReplyCache,
) -> None:
    with replies:
        one = Jobs(replies, run="second")
        one.provider.states = [DONE]
        await one.intend("in progress", "batch", PRICE)
        await one.look()
        assert replies.payments_of("first") == {bytes.fromhex(key): 3.0 for key in KEYS}
        assert replies.payments_of("second") == {}
        assert one.ledger.paid(KEYS[0], "first") == 3.0
        cached = replies.get(KEYS[0])
        assert cached is not None
        assert cached.cost_usd == 3.0


async def test_a_provider_without_room_is_asked_again_when_a_batch_has_ended(
    replies: ReplyCache,
) -> None:
    asked = Request("m", (Message("user", "?"),), Decoding(), 0, Origin("a", 0, 1))
    with replies:
        one = Jobs(replies)
        await one.intend("in progress", "batch")
        one.provider.refused["create"] = TransientError("Quota.", kind="rate_limited")
        third = f"{3:032x}"
        tag = one.jobs.begin()
        await one.jobs.create(tag, {third: asked}, 100)
        await one.look()
        assert one.delivered == {third: None}, "it was not created"
        assert "find" not in one.provider.asked
        assert one.jobs.fitting({third: asked}) == ([], 0)
        one.provider.states = [DONE]
        await one.look()
        assert one.jobs.fitting({third: asked}) == ([third], 100)


async def test_a_batch_that_another_process_has_created_meanwhile_is_not_made_again(
    replies: ReplyCache,
) -> None:
    with replies:
        one = Jobs(replies)
        await one.intend("in progress", "batch")
        other, key = "fedcba9876543210", f"{3:032x}"
        call = BatchedCall(key, other, "second", 9.0, (None, False))
        await one.ledger.intend(other, [call], 100, "second", b"{}")

        async def created() -> None:  # while this process waits for an answer about the first batch
            if one.provider.asked == ["poll"]:
                await one.ledger.created(other, "another")

        one.provider.meanwhile = created
        await one.look()
        assert one.delivered == {}
        assert [batch.status for batch in one.ledger.open()] == ["in progress"] * 2
