"""Creates, finds, polls and cancels the batches of one model, and commits their outcomes.

Each step is first recorded in the ledger, so that another process can continue if this one is
killed. Only one process at a time works on a batch: the one that holds the claim on its tag.
"""

import contextlib
import json
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from uuid import uuid4

from msgspec.structs import replace

from harness.calls.budget import ROUNDING_USD, Budget, plausible_usage, reply_cost, token_bounds
from harness.config.prices import Price
from harness.errors import (
    BudgetBroken,
    CallError,
    FatalCallError,
    PromptRefused,
    RequestRejected,
    TransientError,
)
from harness.plugins.batches.ledger import (
    CANCELLING,
    CREATING_STATUS,
    NOT_CREATED,
    PREPARING,
    UPLOADING,
    BatchedCall,
    BatchLedger,
    RecordedBatch,
    Settled,
)
from harness.plugins.batches.provider import (
    BatchProvider,
    BatchSection,
    BatchState,
    BatchUnsure,
    Outcome,
)
from harness.records import Reply, Request, Usage, budget_account, replace_surrogates

COMMITTED_TOGETHER = 500  # outcomes per transaction
READS = 3  # times that results are read before damaged or missing ones are given up
LEAST_BYTES = 1_000_000  # smallest limit on batches after a rate limit refuses the only open one


class MadeLive:
    """The outcome of a call that must now be made without a batch."""


LIVE = MadeLive()
Delivered = Outcome | MadeLive  # the outcome of a call, or None if it must be made again


@dataclass(eq=False)
class BatchJobs:
    """The batches of one model.

    Args:
        provider: The provider of the batches.
        ledger: The ledger of the model's batches.
        batching: The run file's section ``limits.batch``.
        run: Id of the run.
        section: JSON of the model's section, from which `harness batches` builds the backend.
        price: The model's price outside of batches, or None if it is unknown.
        budget: The run's budget, or None if it has none or the calls have no price.
        outage_s: Seconds for which requests about batches may fail before the run ends.
    """

    provider: BatchProvider
    ledger: BatchLedger
    batching: BatchSection
    _: KW_ONLY
    run: str
    section: bytes = b"{}"
    price: Price | None = None
    budget: Budget | None = None
    outage_s: float = 600
    clock: Callable[[], float] = time.monotonic

    def __post_init__(self) -> None:
        self.deliver: Callable[[str, Delivered], None] = lambda key, outcome: None
        """Called with a call's key and outcome, once the outcome is committed."""
        self.ours: dict[str, float] = {}
        """When this object created or claimed each of its batches (time of ``clock``), by tag."""
        self.running: set[str] = set()
        """The tags of batches that the provider, as far as is known, is working on."""
        self._most_bytes: int | None = None  # of all unfinished batches, inferred from refusals
        self._failing_since: float | None = None
        self._reads = Counter[str]()  # of the results of batches, by tag

    def begin(self) -> str:
        """Claim a new batch's tag for this process, and return it."""
        tag = uuid4().hex[:16]
        self.ledger.replies.claim(tag)
        self.ours[tag] = self.clock()
        return tag

    def close(self) -> None:
        """Release the claims on the batches, so that other processes can work on them."""
        for tag in self.ours:
            self.ledger.replies.release(tag)

    def fitting(self, requests: Mapping[str, Request]) -> tuple[list[str], int]:
        """Return the keys of the first requests that fit into a batch, and their size in bytes.

        If no batch is open, the first request is included even if it exceeds the size limit.
        """
        limits = self.provider.batch_limits
        enqueued = sum(batch.bytes for batch in self.ledger.open())
        limit = limits.bytes
        if self._most_bytes is not None:
            limit = min(limit, self._most_bytes - enqueued)
        keys: list[str] = []
        size = 0
        for key, request in requests.items():
            request_bytes = self.provider.batch_bytes(request)
            alone = not keys and not enqueued  # one that never fits is for the provider to refuse
            if len(keys) >= limits.requests or (size + request_bytes > limit and not alone):
                break
            keys.append(key)
            size += request_bytes
        return keys, size

    async def reserve(self, key: str, request: Request) -> None:
        """Wait until a call's maximum cost fits into the budget, if there is one, and reserve it.

        Raises:
            Stopping: If the cost can never fit, or the run is stopping.
        """
        if self.budget is not None and self.price is not None:
            await self.budget.reserve(self.price.batch.max_cost(*token_bounds(request)), key)

    def unreserve(self, key: str, *, elsewhere: bool = False) -> None:
        """End a call's reservation.

        If another process has taken the outcome (``elsewhere``), the amount that it has booked to
        this run's account replaces the reservation.
        """
        if self.budget is not None:
            paid = self.ledger.paid(key, budget_account(self.run)) if elsewhere else 0.0
            self.budget.settle_batched(key, paid)

    async def create(self, tag: str, requests: Mapping[str, Request], size: int) -> None:
        """Record and create a batch. If the reply is lost, `look` searches for the batch.

        ``requests`` are by key, and ``size`` is in bytes.

        Raises:
            FatalCallError: If the provider refuses the batch, or requests have failed for too long.
        """
        replies = self.ledger.replies
        calls = [self._call(key, tag, request) for key, request in requests.items()]
        await self.ledger.intend(tag, calls, size, self.run, self.section)
        for key in requests:
            replies.release(key)
        if len(self.ledger.keys(tag)) < len(calls):  # only where claims do not work
            await self._abandon(tag, NOT_CREATED)
            return
        entries = [(f"{key}-{tag}", request) for key, request in requests.items()]
        try:
            file = await self.provider.upload_batch(tag, entries)
            await self.ledger.mark(tag, UPLOADING if file is None else CREATING_STATUS)
            batch = await self.provider.create_batch(tag, entries, file)
        except TransientError as error:
            if error.kind == "rate_limited":  # so it was not created
                await self.ledger.mark(tag, PREPARING)
                others = sum(open_batch.bytes for open_batch in self.ledger.open()) - size
                self._most_bytes = others or max(LEAST_BYTES, size // 2)
            self._failed(error)
        except CallError as error:
            await self._abandon(tag, "refused", error)
            raise FatalCallError(
                f"The provider refused a batch: {error.message}",
                f"{error.remedy} Without batches: -o limits.batch=null".strip(),
            ) from None
        else:
            await self.ledger.created(tag, batch)
            self.running.add(tag)
            self._failing_since = None
        self.ours[tag] = self.clock()

    def _call(self, key: str, tag: str, request: Request) -> BatchedCall:
        usd = self.budget.batched_reservation(key) if self.budget is not None else 0.0
        decoding = request.decoding
        return BatchedCall(
            key, tag, self.run, usd, (decoding.logprobs, bool(decoding.prompt_logprobs))
        )

    async def _abandon(self, tag: str, status: str, outcome: Delivered = None) -> None:
        """End a batch without outcomes, and deliver ``outcome`` for each of its calls."""
        calls = self.ledger.calls(tag)
        await self.ledger.end(tag, status)
        self._release(calls, outcome)
        self._disown(tag)

    def _release(self, calls: Iterable[BatchedCall], outcome: Delivered) -> None:
        for call in calls:
            self.unreserve(call.key)
            self.deliver(call.key, outcome)

    def _disown(self, tag: str) -> None:
        self.ours.pop(tag, None)
        self.running.discard(tag)
        self.ledger.replies.release(tag)

    async def cancel(self) -> None:
        """Cancel this run's batches. The next session collects what they have finished.

        Batches that cannot be cancelled, for example because their id is lost, continue.
        """
        for batch in self.ledger.open():
            theirs = budget_account(batch.run) != budget_account(self.run)
            if batch.id is None or batch.tag not in self.ours or theirs:
                continue
            with contextlib.suppress(CallError):
                await self.provider.cancel_batch(batch.id)
                await self.ledger.mark(batch.tag, CANCELLING)

    async def look(self) -> None:
        """Advance each open batch that no other process works on.

        Raises:
            CallError: If a batch has failed, is lost or was cancelled by somebody; if the provider
                rejects a request about it; or if such requests have failed for too long.
        """
        for tag in [open_batch.tag for open_batch in self.ledger.open()]:
            if tag not in self.ours:
                if not self.ledger.replies.claim(tag):
                    self.running.add(tag)
                    continue
                self.ours[tag] = self.clock()
            # Read only now: until the claim, another process may have worked on it.
            if (batch := self.ledger.find(tag)) is None:
                self._disown(tag)
                continue
            try:
                await self._advance(batch)
            except TransientError as error:
                self._failed(error)
            else:
                self._failing_since = None

    def _failed(self, error: TransientError) -> None:
        """Record that a request about a batch has failed.

        Raises:
            FatalCallError: If such requests have failed for more than ``outage_s`` seconds.
        """
        now = self.clock()
        self._failing_since = self._failing_since or now
        if (failing_s := now - self._failing_since) > self.outage_s:
            raise FatalCallError(
                f"Requests about batches have failed for {failing_s:.0f} s. "
                f"Last error: {error.message}",
                error.remedy or "The batches go on: run again when the provider works.",
            )

    async def _advance(self, batch: RecordedBatch) -> None:
        """Take a batch's next step: abandon, find, poll or cancel it, or collect its outcomes."""
        if batch.status == PREPARING:
            return await self._abandon(batch.tag, NOT_CREATED)
        if batch.id is None:
            return await self._search(batch)
        try:
            state = await self.provider.poll_batch(batch.id)
        except RequestRejected as error:  # too large, for example: the batch goes on
            raise FatalCallError(f"The batch {batch.id}: {error.message}", error.remedy) from None
        except FatalCallError as error:
            raise FatalCallError(
                f"The batch {batch.id}: {error.message}",
                f"If another key or project has created it, use that one. {error.remedy} "
                f"To make its calls again: harness batches cancel {batch.id}",
            ) from None
        if (state.done, state.failed) != (batch.done, batch.failed):
            await self.ledger.set_progress(batch.tag, state.done, state.failed)
        if state.ended:
            return await self._collect(batch, batch.id, state)
        self.running.add(batch.tag)
        after = self.batching.after
        late = after is not None and time.time() - batch.created > after
        if late and batch.status != CANCELLING:
            try:
                await self.provider.cancel_batch(batch.id)
            except TransientError:
                raise
            except CallError:
                if (await self.provider.poll_batch(batch.id)).ended:
                    return  # it ended in between; the next look takes its outcomes
                raise
            await self.ledger.mark(batch.tag, CANCELLING)

    @property
    def searches_s(self) -> list[float]:
        """For how many more seconds this object looks for each batch whose id was lost."""
        lost = [batch.tag for batch in self.ledger.open() if batch.id is None]
        ends = [self.ours[tag] + self.batching.search_s for tag in lost if tag in self.ours]
        return [max(0.0, end - self.clock()) for end in ends]

    async def _search(self, batch: RecordedBatch) -> None:
        """Look for a batch whose id was lost.

        The creation request may still be on its way, and the provider's list may lag behind, so the
        search takes ``search_s`` seconds. Then the batch's uploaded file is deleted, so that the
        request can no longer succeed.

        Raises:
            FatalCallError: If neither the batch nor its file is found, although the file was
                uploaded. They may belong to another account.
        """
        began = self.clock()
        try:
            batch_id = await self._find(batch)
            if batch_id is None and began - self.ours[batch.tag] >= self.batching.search_s:
                file = await self.provider.batch_file(batch.tag)
                if file is None and batch.status == CREATING_STATUS:
                    raise FatalCallError(
                        f"The provider knows neither the batch {batch.tag} nor its file.",
                        "If another key or project has created it, use that one. To make its "
                        f"calls again: harness batches cancel --force {batch.tag}",
                    )
                if file is not None:
                    await self.ledger.mark(batch.tag, UPLOADING)
                    await self.provider.delete_file(file)
                    batch_id = await self._find(batch)
                if batch_id is None:
                    return await self._abandon(batch.tag, NOT_CREATED)
        except BatchUnsure:
            self.running.add(batch.tag)
        else:
            if batch_id is not None:
                await self.ledger.created(batch.tag, batch_id)
                self.running.add(batch.tag)

    async def _find(self, batch: RecordedBatch) -> str | None:
        others = self.ledger.ids()
        return await self.provider.find_batch(batch.tag, batch.created, batch.requests, others)

    async def _collect(self, batch: RecordedBatch, name: str, state: BatchState) -> None:
        """Commit the outcomes of a batch that has ended, and deliver them."""
        if state.too_many_tokens:
            others = sum(open_batch.bytes for open_batch in self.ledger.open()) - batch.bytes
            self._most_bytes = max(1, (others + batch.bytes) // 2)
            return await self._abandon(batch.tag, "failed: too many enqueued tokens")
        if state.problem:
            await self._abandon(batch.tag, f"failed: {state.problem[:200]}")
            remedy = "None of its requests has an answer."
            raise FatalCallError(f"The batch {name} failed: {state.problem}", remedy)
        calls = {call.key: call for call in self.ledger.calls(batch.tag)}
        damaged = await self._read(batch, name, calls)
        outcomes = batch.requests - len(calls) + len(damaged)
        if outcomes < state.done:  # the others would be paid for again
            raise TransientError(
                f"The batch {name} has {state.done:,} answers, but its results only {outcomes:,}.",
                f"To make the calls without a result again: harness batches cancel --force {name}",
                kind="malformed",
            )
        if calls and not (state.cancelled or state.expired):
            problem = f"The results of the batch {name} lack this request."
            lost = TransientError(problem, kind="malformed")
            damaged |= {key: lost for key in calls if key not in damaged}
        self._reads[batch.tag] += 1
        if damaged and self._reads[batch.tag] < READS:
            error = next(iter(damaged.values()))
            raise TransientError(error.message, error.remedy, kind="malformed")
        price = _price(batch) or self.price
        settled = [(calls.pop(key), error) for key, error in damaged.items() if key in calls]
        await self._commit(settled, price)
        status = "cancelled" if state.cancelled else "expired" if calls else "completed"
        watched = batch.tag in self.running
        await self.ledger.end(batch.tag, status)
        self._disown(batch.tag)
        if self._most_bytes is not None:
            self._most_bytes *= 2  # other programs may have used up the limit
        missed: Delivered = TransientError(f"The batch {name} has expired.", kind="timed_out")
        if state.cancelled:
            missed = LIVE if self.batching.then == "live" else None
            if missed is None and watched:  # somebody has cancelled it while the run was waiting
                message = (
                    f"The batch {name} was cancelled: {len(calls):,} of its {batch.requests:,} "
                )
                remedy = "Run again to submit them in another batch."
                missed = FatalCallError(f"{message}requests have no answer.", remedy)
        self._release(calls.values(), missed)

    async def _read(
        self, batch: RecordedBatch, name: str, calls: dict[str, BatchedCall]
    ) -> dict[str, CallError]:
        """Commit and deliver the outcomes in a batch's results, and remove them from ``calls``.

        Returns:
            The errors of damaged results, by their calls' keys or, if unknown, their numbers.
        """
        price = _price(batch) or self.price
        uncommitted: list[tuple[BatchedCall, Outcome]] = []
        damaged: dict[str, CallError] = {}

        def request(entry: str) -> Request:
            call = calls.get(entry.partition("-")[0])
            unknown = BatchedCall("", "", "", 0.0, (None, False))
            return (call or unknown).request(self.ledger.model)

        try:
            async for entry, outcome in self.provider.batch_outcomes(name, request):
                key, _, tag = entry.partition("-")
                if isinstance(outcome, CallError) and not entry:
                    damaged[str(len(damaged))] = outcome
                if tag != batch.tag or outcome is None or key not in calls:
                    continue  # another batch's, not executed, or known already
                if isinstance(outcome, TransientError) and outcome.kind == "malformed":
                    damaged[key] = outcome
                    continue
                damaged.pop(key, None)  # it is listed twice
                uncommitted.append((calls.pop(key), outcome))
                if len(uncommitted) >= COMMITTED_TOGETHER:
                    await self._commit(uncommitted, price)
                    uncommitted = []
        finally:
            await self._commit(uncommitted, price)
        return damaged

    async def _commit(
        self, outcomes: Sequence[tuple[BatchedCall, Outcome]], price: Price | None
    ) -> None:
        """Commit and deliver outcomes at the price of the run that created the batch."""
        settled = []
        for call, outcome in outcomes:
            reply = _reply(outcome)
            usd = None
            if reply is not None:
                usd = reply_cost(reply, self.price if call.run == self.run else price)
                reply = replace(reply, cost_usd=usd)
            if usd is None and (reply is not None or _is_billed(outcome)):
                usd = call.usd or None  # at most this
            settled.append(Settled(call, reply, usd))
        await self.ledger.settle(settled)
        for settlement, (call, outcome) in zip(settled, outcomes, strict=True):
            if budget_account(call.run) == budget_account(
                self.run
            ):  # else another run has reserved it
                self._charge(settlement)
            self.deliver(call.key, settlement.reply or outcome)

    def _charge(self, settled: Settled) -> None:
        call = settled.call
        usd = settled.usd or 0.0
        budget = self.budget
        if budget is None:
            return
        reply = settled.reply
        budget.settle_batched(call.key, usd, unsure=reply is None or plausible_usage(reply) is None)
        if call.usd and usd > call.usd + ROUNDING_USD:
            problem = f"A call of a batch has cost ${usd:,.4f}, and at most ${call.usd:,.4f} was "
            problem += "expected. The budget cannot be kept."
            remedy = "Raise decoding.max_tokens to what its answers use, or remove budget.usd."
            budget.abort(BudgetBroken(problem, remedy))


def _price(batch: RecordedBatch) -> Price | None:
    """Return the price recorded with a batch, if any. Earlier versions rarely recorded one."""
    price = json.loads(batch.section).get("price")
    return None if price is None else Price(**price)


def _is_billed(outcome: Outcome) -> bool:
    """Return whether a failed request of a batch may be billed: it has an unreadable answer."""
    if isinstance(outcome, TransientError) and outcome.kind == "malformed":
        return True
    return isinstance(outcome, CallError) and outcome.billed


def _reply(outcome: Outcome) -> Reply | None:
    if isinstance(outcome, PromptRefused):
        return Reply(replace_surrogates(outcome.message), "content_filter", Usage(), batch=True)
    if not isinstance(outcome, Reply):
        return None
    reasoning = outcome.reasoning and replace_surrogates(outcome.reasoning)
    return replace(outcome, text=replace_surrogates(outcome.text), reasoning=reasoning, batch=True)
