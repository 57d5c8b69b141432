"""The ledger of batches in the reply cache: which calls are in which batch, and their reservations.

A row of ``batch_calls`` says that a call is in a batch that exists or is about to be created, so no
other process may make the call. The row is committed before the batch is created, and deleted in
the transaction that commits the call's outcome or the batch's end.
"""

import asyncio
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from harness.calls.database import CREATING_STATUS as CREATING_STATUS
from harness.calls.database import Statement, Write, batch_copy_path
from harness.calls.reply_cache import Payment, ReplyCache, payment_row, reply_row
from harness.records import Decoding, Origin, Reply, Request, budget_account, replace_surrogates
from harness.store.files import make_folder, replace_atomically

NOT_CREATED = "not created"  # the status of a batch that was put off: its calls are in others
PREPARING, CANCELLING = "preparing", "cancelling"
"""Statuses of a batch: not requested yet, being cancelled. `CREATING`: requested with a file."""
UPLOADING = "uploading"
"""The status of a batch whose creation may have been requested, and whose file may not exist.

Earlier versions use no other status until the id is known. Without a file, it replaces `CREATING`.
"""
_LOST_S = 2 * 86_400  # before which a batch whose row was lost has hardly been created
_COLUMNS = (
    "tag, id, backend, endpoint, model, section, run, created, ended, status, requests, bytes, "
    "done, failed, usd"
)


class RecordedBatch(NamedTuple):
    """A row of ``batches``. Times are Unix times; ``usd`` is the batch's cost so far."""

    tag: str
    id: str | None  # the provider's; None until it is known
    backend: str
    endpoint: str
    model: str
    section: bytes  # JSON of the model's section in the run file
    run: str  # id of the run that created it
    created: float
    ended: float | None
    status: str
    requests: int
    bytes: int
    done: int
    failed: int
    usd: float


class BatchedCall(NamedTuple):
    """A row of ``batch_calls``. ``usd`` is the amount that the run has reserved for the call."""

    key: str
    tag: str
    run: str
    usd: float
    logprobs: tuple[int | None, bool]  # requested: `Decoding.logprobs` and ``prompt_logprobs``

    def request(self, model: str) -> Request:
        """Return the call's request without messages."""
        top, prompt = self.logprobs
        decoding = Decoding(logprobs=top, prompt_logprobs=prompt or None)
        return Request(model, (), decoding, 0, Origin("", 0, 0))


@dataclass(frozen=True, slots=True)
class Settled:
    """A call of a batch whose outcome is known. ``reply`` is None if the call failed."""

    call: BatchedCall
    reply: Reply | None = None
    usd: float | None = None  # its cost, or None if that is unknown or it is not billed


class BatchLedger:
    """The ledger of a model's batches. Awaiting a change waits for its commit."""

    def __init__(self, replies: ReplyCache, backend: str, endpoint: str, model: str) -> None:
        self.replies = replies
        self.backend = backend
        self._place = (
            replace_surrogates(backend),
            replace_surrogates(endpoint),
            replace_surrogates(model),
        )
        self.model = model

    def tag(self, key: str) -> str | None:
        """Return the tag of the batch that a call is in, or None."""
        query = "SELECT tag FROM batch_calls WHERE key = ?"
        rows = self.replies.read(query, [bytes.fromhex(key)])
        return rows[0][0] if rows else None

    def open(self) -> list[RecordedBatch]:
        """Return the batches that have not ended, the oldest first."""
        where = "WHERE backend = ? AND endpoint = ? AND model = ? AND ended IS NULL"
        return recorded_batches(self.replies, where, *self._place)

    def find(self, tag: str) -> RecordedBatch | None:
        """Return the open batch with a tag, or None if it has ended or is unknown."""
        batches = recorded_batches(self.replies, "WHERE tag = ? AND ended IS NULL", tag)
        return batches[0] if batches else None

    def ids(self) -> set[str]:
        """Return the provider's ids of all recorded batches at this endpoint, for any model."""
        query = "SELECT id FROM batches WHERE id IS NOT NULL AND backend = ? AND endpoint = ?"
        return {row[0] for row in self.replies.read(query, self._place[:2])}

    def calls(self, tag: str) -> list[BatchedCall]:
        """Return a batch's calls whose outcomes are not known yet."""
        return batched_calls(self.replies, "tag = ?", tag)

    def keys(self, tag: str) -> set[str]:
        """Return the keys of a batch's calls whose outcomes are not known yet."""
        return {call.key for call in self.calls(tag)}

    def paid(self, key: str, account: str) -> float:
        """Return the amount that an account has paid for a call (US dollars; 0 if nothing)."""
        query = "SELECT usd FROM payments WHERE run = ? AND key = ?"
        rows = self.replies.read(query, [replace_surrogates(account), bytes.fromhex(key)])
        return float(rows[0][0]) if rows else 0.0

    async def intend(
        self, tag: str, calls: Sequence[BatchedCall], size: int, run: str, section: bytes
    ) -> None:
        """Record a batch before it is created, with those of its calls that are in no other batch.

        If any of the team's claims on these calls is lost, the batch is recorded without calls.

        ``size`` is the batch's size in bytes, ``run`` the id of the run that creates it, and
        ``section`` the JSON of the model's section in the run file.
        """
        about = (
            *self._place,
            section,
            replace_surrogates(run),
            time.time(),
            PREPARING,
            len(calls),
            size,
        )
        begin = (
            "INSERT INTO batches (tag, backend, endpoint, model, section, run, created, status, "
            "requests, bytes) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (tag, *about),
        )
        await self.replies.write(Write((), (), [begin, *map(_insert, calls)]))
        keys = [call.key for call in calls]
        if self.replies.shared and not await self.replies.shared.keep_claims(tag, keys):
            await self._free(tag, keys)
            lost = ("DELETE FROM batch_calls WHERE tag = ?", [tag])
            await self.replies.write(Write((), (), [lost]))
        await self._copy(tag)

    async def created(self, tag: str, batch: str) -> None:
        """Record the provider's id of a batch, and that the batch is in progress."""
        statement = "UPDATE batches SET id = ?, status = 'in progress' WHERE tag = ?"
        await self.replies.write(Write((), (), [(statement, (batch, tag))]))
        await self._copy(tag)

    async def _copy(self, tag: str) -> None:
        """Copy a batch's rows beside the cache, so that they survive if that is damaged."""
        [batch] = recorded_batches(self.replies, "WHERE tag = ?", tag)
        if batch.id is None:
            batch = batch._replace(status=CREATING_STATUS)
        query = "SELECT key, tag, run, usd, logprobs FROM batch_calls WHERE tag = ?"
        calls = self.replies.read(query, [tag])
        content = msgspec.msgpack.encode((batch, calls))
        await asyncio.to_thread(_write_copy, batch_copy_path(self.replies.path, tag), content)

    async def adopt(self, tag: str) -> None:
        """Record a batch again if a damaged cache has lost its row, but not those of its calls.

        The batch is then looked for like any other whose id was lost.
        """
        if recorded_batches(self.replies, "WHERE tag = ?", tag):
            return
        calls = self.calls(tag)
        if not calls:
            return
        row = (
            tag,
            *self._place,
            b"{}",
            calls[0].run,
            time.time() - _LOST_S,
            CREATING_STATUS,
            len(calls),
        )
        insert = (
            "INSERT OR IGNORE INTO batches (tag, backend, endpoint, model, section, run, created, "
            "status, requests, bytes) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, 0)"
        )
        await self.replies.write(Write((), (), [(insert, row)]))

    def set_progress(self, tag: str, done: int, failed: int) -> asyncio.Future[None]:
        """Record how many requests of a batch have been answered, and how many failed."""
        statement = "UPDATE batches SET done = ?, failed = ? WHERE tag = ?"
        return self.replies.write(Write((), (), [(statement, (done, failed, tag))]))

    async def settle(self, settled: Iterable[Settled]) -> None:
        """Commit the replies to calls, and the run's payments for them.

        The payment for an empty reply is recorded, but the reply is not cached. The team's claims
        on calls without an answer are released before these calls are deleted, so that the next
        session releases the claims if this process is killed in between.
        """
        replies = []
        payments = []
        answered: list[Statement] = []
        unanswered: list[Statement] = []
        failed: dict[str, list[str]] = {}  # keys by tag
        for outcome in settled:
            call = outcome.call
            reply = outcome.reply
            statements = answered
            if reply is None or not reply.is_answer:
                failed.setdefault(call.tag, []).append(call.key)
                statements = unanswered
            statements.append(("DELETE FROM batch_calls WHERE key = ?", [bytes.fromhex(call.key)]))
            if reply is not None and reply.is_answer:
                replies.append(reply_row(call.key, reply, self.backend, self.model, call.run))
            if outcome.usd is not None:
                paid = "UPDATE batches SET usd = usd + ? WHERE tag = ?"
                statements.append((paid, [outcome.usd, call.tag]))
                if call.usd:
                    payments.append(
                        payment_row(call.key, Payment(budget_account(call.run), outcome.usd))
                    )
        if failed and self.replies.shared is not None:
            cached_keys = {row[0] for row in replies}
            first = [row for row in payments if row[1] in cached_keys]
            await self.replies.write(Write(replies, first, answered))
            for tag, keys in failed.items():
                await self._free(tag, keys)
            rest = [row for row in payments if row[1] not in cached_keys]
            replies = []
            payments = rest
            answered = []
        await self.replies.write(Write(replies, payments, [*answered, *unanswered]))

    async def end(self, tag: str, status: str) -> None:
        """Record that a batch has ended, and drop its calls without an outcome."""
        keys = sorted(self.keys(tag))
        statement = "UPDATE batches SET ended = ?, status = ? WHERE tag = ?"
        calls = "DELETE FROM batch_calls WHERE tag = ?"
        ending: list[Statement] = [(calls, [tag]), (statement, [time.time(), status, tag])]
        await self._free(tag, keys)  # first: nobody would release the claims of forgotten calls
        await self.replies.write(Write((), (), ending))
        batch_copy_path(self.replies.path, tag).unlink(missing_ok=True)

    async def _free(self, tag: str, keys: Sequence[str]) -> None:
        if self.replies.shared is not None and keys:
            await self.replies.shared.release_claims(tag, keys)

    def mark(self, tag: str, status: str) -> asyncio.Future[None]:
        """Record the status of a batch that has not ended."""
        return self.replies.write(Write((), (), [mark(tag, status)]))


def _write_copy(copy: Path, content: bytes) -> None:
    make_folder(copy.parent)
    with replace_atomically(copy) as temporary:
        temporary.write_bytes(content)


def mark(tag: str, status: str) -> Statement:
    """Return the SQL statement that records the status of a batch that has not ended."""
    return "UPDATE batches SET status = ? WHERE tag = ? AND ended IS NULL", (status, tag)


def _insert(call: BatchedCall) -> Statement:
    logprobs = msgspec.msgpack.encode(call.logprobs)
    row = bytes.fromhex(call.key), call.tag, replace_surrogates(call.run), call.usd, logprobs
    return "INSERT OR IGNORE INTO batch_calls VALUES (?, ?, ?, ?, ?)", row


def batched_calls(replies: ReplyCache, where: str, *values: Any) -> list[BatchedCall]:
    """Return the batched calls for which an SQL condition with placeholders holds."""
    query = f"SELECT key, tag, run, usd, logprobs FROM batch_calls WHERE {where}"  # noqa: S608
    decode: Callable[[bytes], Any] = msgspec.msgpack.Decoder(tuple[int | None, bool]).decode
    rows = replies.read(query, values)
    return [BatchedCall(key.hex(), tag, run, usd, decode(how)) for key, tag, run, usd, how in rows]


def calls_of_account(replies: ReplyCache, account: str) -> list[BatchedCall]:
    """Return the calls in batches that an account pays for, including those of deleted runs."""
    return batched_calls(replies, "run = ? OR run LIKE ? || '.%'", account, account)


def recorded_batches(replies: ReplyCache, where: str = "", *values: Any) -> list[RecordedBatch]:
    """Return batches, the oldest first, selected by a WHERE clause if one is given."""
    query = f"SELECT {_COLUMNS} FROM batches {where} ORDER BY created"  # noqa: S608
    return [RecordedBatch(*row) for row in replies.read(query, values)]
