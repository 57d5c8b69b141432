"""The replies, payments and claims of a team in its database.

A background thread talks to the database.

A claim is a row with an owner, which is one process, and a lease. The owner renews its lease while
it lives. All times are those of the database's clock. After the server starts, no lease ends before
its full length has passed, since owners cannot renew leases while the server is down.
"""

import asyncio
import socket
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, NamedTuple
from uuid import UUID, uuid4

from harness.calls.database import LOCK_TIMEOUT_S, PaymentRow, ReplyRow
from harness.calls.signals import Report
from harness.errors import StoreFailed
from harness.plugins.team.database import Cipher, Cursor, TeamDatabase, TeamUnreachable, join

LEASE_S = 60.0
"""Seconds after which the calls of a killed process, or of one that is cut off, may be made by
others."""
HELD = "7 days"  # how long the calls of a batch stay claimed if nobody collects its replies
RENEWALS = 6  # renewals of an owner's lease within its length
NOTICE_S = 2.0  # seconds without the database before the user is notified
_PAUSE_S = 0.2  # between attempts to reach the database

_FREE = """(
    c.owner IS NULL OR c.machine = %(machine)s OR (
        GREATEST(c.expires, pg_postmaster_start_time() + %(lease)s::interval) < clock_timestamp()
        AND NOT EXISTS (
            SELECT FROM harness.owners AS o
            WHERE o.team = current_user AND o.owner = c.owner AND o.expires >= clock_timestamp()
        )
    )
)"""
# Claims that are not free are left out first, so that waiting for them writes nothing. The rows are
# locked in the order of their keys: two processes could otherwise wait for each other.
_CLAIM = f"""
INSERT INTO harness.claims AS c (key, owner, machine, expires)
SELECT asked.key, %(owner)s, %(machine)s, clock_timestamp() + %(lease)s::interval
FROM unnest(%(keys)s::bytea[]) AS asked (key)
WHERE NOT EXISTS (
    SELECT FROM harness.claims AS c
    WHERE c.team = current_user AND c.key = asked.key AND NOT {_FREE}
)
ORDER BY asked.key
ON CONFLICT (team, key) DO UPDATE
SET owner = excluded.owner, machine = excluded.machine, expires = excluded.expires WHERE {_FREE}
RETURNING c.key
"""  # noqa: S608 (constants)
_OWN = """
WITH own AS (
    SELECT key FROM harness.claims
    WHERE team = current_user AND owner = %(owner)s AND key = ANY(%(keys)s) ORDER BY key FOR UPDATE
)
UPDATE harness.claims AS c SET {change} FROM own WHERE c.team = current_user AND c.key = own.key
"""
_RELEASE = _OWN.format(change="owner = NULL")
_HOLD = _OWN.format(
    change="owner = %(holder)s, machine = %(holder)s, "
    "expires = clock_timestamp() + %(held)s::interval"
)
_HELD_BY = """
SELECT count(*) FROM harness.claims
WHERE team = current_user AND owner = %(holder)s AND key = ANY(%(keys)s)
"""
_RENEW = """
INSERT INTO harness.owners (owner, host, expires)
VALUES (%(owner)s, %(host)s, clock_timestamp() + %(lease)s::interval)
ON CONFLICT (team, owner) DO UPDATE SET expires = excluded.expires
"""
_END = """
UPDATE harness.owners SET expires = clock_timestamp() WHERE team = current_user AND owner = %s
"""
_SAVE_REPLY = """
INSERT INTO harness.replies (key, reply, backend, model, created) VALUES (%s, %s, %s, %s, %s)
ON CONFLICT DO NOTHING
"""
_SAVE_PAYMENT = """
INSERT INTO harness.payments (run, key, usd, created, entry) VALUES (%s, %s, %s, %s, %s)
ON CONFLICT DO NOTHING
"""
_FIND = """
SELECT key, reply, backend, model, created FROM harness.replies
WHERE team = current_user AND key = ANY(%s)
"""
_BOOKED = """
SELECT entry, key, usd FROM harness.payments WHERE team = current_user AND run = %s
"""


class Unsent(NamedTuple):
    """A row that is saved on this machine, but perhaps not yet in the team's database."""

    reply: ReplyRow | None = None
    payment: PaymentRow | None = None


class ClaimAnswer(NamedTuple):
    """The answer about a call: whether this process now claims it, and its saved reply or None."""

    claimed: bool
    reply: ReplyRow | None


@dataclass(eq=False, slots=True)
class _Question:
    key: bytes
    claim: bool
    answer: Future[ClaimAnswer] = field(default_factory=Future)
    since: float = field(default_factory=time.monotonic)


class TeamReplies:
    """The replies, payments and claims of a team, as one process uses them.

    Methods that need an answer from the database raise `TeamUnreachable` if it comes too late.

    Args:
        database: A connection, which this object closes.
        machine: Identifies this machine's cache. A call that another process has claimed on the
            same machine counts as free: claims within a machine are not made here.
        cipher: Encrypts replies. None: they are saved as they are.
        unsent: Rows that earlier processes have left, by a unique id.
        patience_s: Seconds that a call waits for the database before it fails.
        lease_s: Seconds after which the claims of a killed process are free.
        notice: Receives messages for the user, from any thread. "" clears the last message.
    """

    def __init__(
        self,
        database: TeamDatabase,
        machine: UUID,
        cipher: Cipher | None = None,
        *,
        unsent: Mapping[bytes, Unsent],
        patience_s: float,
        lease_s: float = LEASE_S,
        notice: Report = lambda _: None,
    ) -> None:
        self.name = database.name
        self.unsent = dict(unsent)
        self._database = database
        self._cipher = cipher
        self._notice = notice
        self._patience_s = patience_s
        self._renewal_s = lease_s / RENEWALS
        self._own = {
            "owner": uuid4(),
            "machine": machine,
            "host": socket.gethostname(),
            "lease": f"{lease_s} s",
        }
        self._changed = threading.Condition()
        self._questions: list[_Question] = []
        self._claimed: set[bytes] = set()  # claimed, or about to be
        self._released: set[bytes] = set()
        self._renewed = self._down_since = self._ends_at = 0.0
        self._noticed = False
        database.transact(lambda cursor: join(cursor, database.name, cipher), LOCK_TIMEOUT_S)
        self._thread = threading.Thread(target=self._work, name="team", daemon=True)
        self._thread.start()

    async def find(self, key: bytes) -> ReplyRow | None:
        """Return the saved reply to a call, or None.

        Raises:
            TeamUnreachable: If the database does not answer in time.
        """
        return (await self._ask(_Question(key, False))).reply

    async def claim(self, key: bytes) -> ClaimAnswer:
        """Claim a call if it is free, and then look up its saved reply."""
        return await self._ask(_Question(key, True))

    async def _ask(self, question: _Question) -> ClaimAnswer:
        with self._changed:
            if self._ends_at:
                raise StoreFailed(f"The connection to {self.name} is closed.")
            self._questions.append(question)
            if question.claim:
                self._claimed.add(question.key)
            self._changed.notify_all()
        return await asyncio.wrap_future(question.answer)

    def release(self, key: bytes) -> None:
        """Release this process's claim on a call, unless its reply is unsaved. Thread-safe."""
        with self._changed:
            if key not in self._claimed or key in self.unsent:
                return
            self._claimed.remove(key)
            self._released.add(key)
            for question in self._questions:
                if question.claim and question.key == key:
                    question.answer.cancel()
            self._questions = [
                question for question in self._questions if not question.answer.cancelled()
            ]
            self._changed.notify_all()

    async def hold(self, keys: list[bytes], holder: UUID) -> bool:
        """Hand this process's claims on calls over to a batch, for `HELD`.

        Return whether the batch now has all of them.
        """
        values = {**self._own, "keys": keys, "holder": holder, "held": HELD}
        claims_held = 0

        def work(cursor: Cursor) -> None:
            nonlocal claims_held
            cursor.execute(_HOLD, values)
            row = cursor.execute(_HELD_BY, values).fetchone()
            claims_held = int(row[0]) if row else 0

        await self._transact(work)
        with self._changed:
            self._claimed.difference_update(keys)
        return claims_held == len(set(keys))

    async def free(self, keys: list[bytes], holder: UUID) -> None:
        """Release a batch's claims on calls."""
        values = {"keys": keys, "owner": holder}
        await self._transact(lambda cursor: cursor.execute(_RELEASE, values))

    async def _transact(self, work: Callable[[Cursor], object]) -> None:
        end = time.monotonic() + self._patience_s
        while True:
            try:
                await asyncio.to_thread(self._database.transact, work, 0)
                return
            except TeamUnreachable:
                if time.monotonic() >= end:
                    raise
            await asyncio.sleep(_PAUSE_S)

    def save(self, rows: Mapping[bytes, Unsent]) -> None:
        """Save rows under unique ids: now or, if the database does not answer, later."""
        with self._changed:
            self.unsent.update(rows)
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._down_since or rows.keys().isdisjoint(self.unsent))

    def booked(self, run: str) -> dict[bytes, float]:
        """Return a run's payments in US dollars, by key, including those not yet sent."""
        with self._changed:
            unsent = [
                (UUID(bytes=name), *row.payment[1:3])
                for name, row in self.unsent.items()
                if row.payment and row.payment[0] == run
            ]
        sent = self._database.transact(
            lambda cursor: cursor.execute(_BOOKED, [run], binary=True).fetchall(), LOCK_TIMEOUT_S
        )
        booked: dict[bytes, float] = {}
        for key, usd in {entry: (key, usd) for entry, key, usd in [*unsent, *sent]}.values():
            booked[key] = booked.get(key, 0.0) + usd
        return booked

    def close(self) -> None:
        """Save the remaining rows, end the claims, and close the connection."""
        with self._changed:
            self._ends_at = time.monotonic() + LOCK_TIMEOUT_S
            self._changed.notify_all()
        self._thread.join()
        self._database.close()
        if self.unsent:
            self._notice(
                f"{len(self.unsent)} replies and payments are saved on this machine only, because "
                f"{self.name} does not answer. The next run here sends them."
            )

    def _work(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(self._is_needed, max(0.0, self._renewal_due()))
                questions = self._questions
                self._questions = []
                released = self._released
                self._released = set()
                unsent = dict(self.unsent)
            ending = bool(self._ends_at) and not questions
            try:
                if unsent or released or self._renewal_due() <= 0:
                    self._save(unsent, released)
                if questions:
                    self._answer(questions)
                if ending:
                    self._database.transact(
                        lambda cursor: cursor.execute(_END, [self._own["owner"]]), 0
                    )
            except Exception as error:  # without this, the callers would wait forever
                self._failed(error, questions, released)
                if self._ends_at and (not self.unsent or time.monotonic() >= self._ends_at):
                    return
            else:
                self._down_since = 0.0
                if self._noticed:
                    self._noticed = False
                    self._notice("")
                if ending:
                    return

    def _is_needed(self) -> bool:
        return bool(self._questions or self._released or self.unsent or self._ends_at)

    def _renewal_due(self) -> float:
        return self._renewed + self._renewal_s - time.monotonic()

    def _save(self, unsent: Mapping[bytes, Unsent], released: Iterable[bytes]) -> None:
        """Save rows, release claims, and renew the lease if due, in one transaction."""
        # In one order, so that two processes do not wait for each other.
        replies = sorted(row.reply for row in unsent.values() if row.reply)
        payments = [(*row.payment, UUID(bytes=name)) for name, row in unsent.items() if row.payment]
        sent = [self._cipher.encrypt(row) for row in replies] if self._cipher else replies

        began = time.monotonic()
        renewing = self._renewal_due() <= 0

        def work(cursor: Cursor) -> None:
            if renewing:
                cursor.execute(_RENEW, self._own)
            if sent:
                cursor.executemany(_SAVE_REPLY, sent)
            if payments:
                cursor.executemany(_SAVE_PAYMENT, payments)
            if released:
                cursor.execute(_RELEASE, {**self._own, "keys": list(released)})

        self._database.transact(work, 0)
        if renewing:
            self._renewed = began
        with self._changed:
            for name in unsent:
                self.unsent.pop(name, None)
            # These claims need not be released: whoever asks for such a call finds its reply.
            self._claimed.difference_update(row[0] for row in replies)
            self._changed.notify_all()

    def _answer(self, questions: list[_Question]) -> None:
        def work(cursor: Cursor) -> tuple[set[bytes], list[ReplyRow]]:
            keys = list({question.key for question in questions if question.claim})
            claimed = cursor.execute(_CLAIM, {**self._own, "keys": keys}, binary=True).fetchall()
            # After the claims: whoever had claimed one of them may have saved its reply.
            names = [question.key for question in questions]
            rows: list[Any] = cursor.execute(_FIND, [names], binary=True).fetchall()
            return set(chain.from_iterable(claimed)), rows

        claimed, rows = self._database.transact(work, 0)
        replies = {row[0]: self._cipher.decrypt(row) if self._cipher else row for row in rows}
        with self._changed:
            self._claimed.difference_update(
                question.key
                for question in questions
                if question.claim and question.key not in claimed
            )
        for question in questions:
            if question.answer.set_running_or_notify_cancel():
                question.answer.set_result(
                    ClaimAnswer(question.key in claimed, replies.get(question.key))
                )

    def _failed(self, error: Exception, questions: list[_Question], released: set[bytes]) -> None:
        """Fail the calls that have waited too long (or all, if the error is lasting), and pause."""
        now = time.monotonic()
        lasting = not isinstance(error, TeamUnreachable) or bool(self._ends_at)
        late = [
            question
            for question in questions
            if lasting or now >= question.since + self._patience_s
        ]
        with self._changed:
            self._questions[:0] = [question for question in questions if question not in late]
            self._released |= released
            began = self._down_since
            self._down_since = self._down_since or now
            self._changed.notify_all()
        for question in late:
            if question.answer.set_running_or_notify_cancel():
                question.answer.set_exception(error)
        if began and now >= began + NOTICE_S and not (lasting or self._noticed):
            self._noticed = True
            self._notice(f"The team's database {self.name} does not answer; waiting.")
        time.sleep(_PAUSE_S)
