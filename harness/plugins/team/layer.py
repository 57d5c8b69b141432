"""A team's layer: replies, rate limits and budgets in the database of ``HARNESS_CACHE_URL``.

The reply cache is a local file in front of the team's database.
"""

import contextlib
import socket
import sqlite3
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from uuid import UUID, uuid4, uuid5

import msgspec

from harness.calls.budget import SharedBudget
from harness.calls.database import LOCK_TIMEOUT_S, PaymentRow, ReplyRow, Restore, Statement, Write
from harness.calls.rate_limits import SharedRates
from harness.calls.reply_cache import MAX_LOCK_WAIT_S, ReplyCache
from harness.calls.signals import Report
from harness.engine.infrastructure import CallLayer
from harness.errors import HarnessError
from harness.plugin import CheckupFinding
from harness.plugins.team.budgets import TeamBudget
from harness.plugins.team.database import Cipher, TeamDatabase, TeamFacts, team_facts
from harness.plugins.team.rates import TeamRates
from harness.plugins.team.replies import LEASE_S, TeamReplies, Unsent
from harness.records import Reply, replace_surrogates

_MACHINES = UUID("6f0e1b5c-8f43-4f3c-9f0e-0f7a1f6b1d52")
_BATCHES = UUID("0c7e3f2a-5b1d-4c66-a3a5-94d1f2b86e07")
_TABLE = "CREATE TABLE IF NOT EXISTS unsent (id BLOB PRIMARY KEY, payment BLOB) WITHOUT ROWID"
# The id of a reply is its key. Payments have random ids.
_UNSENT = """
SELECT id, payment, key, reply, backend, model, created FROM unsent LEFT JOIN replies ON key = id
"""
_KEEP = "INSERT OR IGNORE INTO unsent VALUES (?, ?)"
_FORGET = "DELETE FROM unsent WHERE id = ?"


class TeamReplyCache(ReplyCache):
    """A cache whose replies, payments and claims are shared by the machines of a team.

    A `put` completes when the reply is in both the file and the database. While the database does
    not answer, replies to calls in flight are saved in the file alone, and sent later, if necessary
    by the next process that uses the file.

    Args:
        path: The local file.
        url: URL of the team's database.
        key: Encrypts the replies in the database, but not in the file. None: no encryption.
        patience_s: Seconds that a call waits for the database before it fails.
        lease_s: Seconds after which calls of a killed process may be made by other machines.
        notice: As for `ReplyCache`.
        restore: As for `ReplyCache`.
    """

    def __init__(
        self,
        path: Path,
        url: str,
        key: str | None = None,
        *,
        patience_s: float = MAX_LOCK_WAIT_S,
        lease_s: float = LEASE_S,
        notice: Report = lambda _: None,
        restore: Restore = tuple,
    ) -> None:
        cipher = None if key is None else Cipher(key)
        database = TeamDatabase(url)
        super().__init__(path, max_lock_wait_s=patience_s, notify=notice, restore=restore)
        try:
            self._change([(_TABLE, ())])
            unsent = self._read_unsent()
            self._team = TeamReplies(
                database,
                uuid4() if self._claims.unsupported else _machine(path.parent),
                cipher,
                unsent=unsent,
                patience_s=patience_s,
                lease_s=lease_s,
                notice=notice,
            )
        except BaseException:
            super().close()
            database.close()
            raise
        self.shared = self
        self.team = self._team.name
        self._kept = set(unsent)  # ids in the table `unsent`
        self._fetched: set[bytes] = set()  # keys of replies that come from the database

    def _change(self, statements: Collection[Statement]) -> None:
        """Execute statements in the caller's thread."""
        try:
            with (
                contextlib.closing(sqlite3.connect(self.path, timeout=LOCK_TIMEOUT_S)) as file,
                file,
            ):
                for statement, values in statements:
                    file.execute(statement, values)
        except sqlite3.Error as error:
            raise self._store_error("write", error) from None

    def _read_unsent(self) -> dict[bytes, Unsent]:
        decode = msgspec.msgpack.Decoder(PaymentRow).decode
        unsent = {}
        for name, payment, *reply in self.read(_UNSENT):
            row: ReplyRow | None = tuple(reply) if reply[0] is not None else None
            unsent[name] = Unsent(row, None if payment is None else decode(payment))
        return unsent

    async def fetch(self, key: str) -> Reply | None:
        """Return the team's reply for a key (None if there is none), and save it here too."""
        if (row := await self._team.find(bytes.fromhex(key))) is None:
            return None
        await self._add(row)
        return await self.find(key)

    async def claim_shared(self, key: str) -> bool:
        """Claim a call in the team, and save its reply here if the team has it.

        Returns:
            Whether this process has claimed the call, or its reply is in the cache.
        """
        claimed, row = await self._team.claim(bytes.fromhex(key))
        if row is not None:
            await self._add(row)
        return claimed or (row is not None and await self.find(key) is not None)

    async def keep_claims(self, tag: str, keys: Sequence[str]) -> bool:
        """Keep this process's claims on the calls of a batch, even after the process has ended.

        Return False if a claim has been lost while the database could not be reached.
        """
        return await self._team.hold([bytes.fromhex(key) for key in keys], uuid5(_BATCHES, tag))

    async def release_claims(self, tag: str, keys: Sequence[str]) -> None:
        """Release the claims that any process has kept for a batch with `keep_claims`."""
        await self._team.free([bytes.fromhex(key) for key in keys], uuid5(_BATCHES, tag))

    async def _add(self, row: ReplyRow) -> None:
        self._fetched.add(row[0])
        await self.write(Write([row]))

    def release(self, key: str) -> None:
        """Release this process's claim on a call, here and in the team."""
        super().release(key)
        self._team.release(bytes.fromhex(key))

    def payments_of(self, account: str) -> dict[bytes, float]:
        """Return an account's payments on all machines, as `ReplyCache.payments_of` does."""
        here = super().payments_of(account)
        shared = self._team.booked(replace_surrogates(account))
        # Payments from before the machine belonged to the team are only here.
        return {key: max(here.get(key, 0.0), shared.get(key, 0.0)) for key in here | shared}

    def _transact(
        self, replies: list[ReplyRow], payments: list[PaymentRow], statements: list[Statement]
    ) -> None:
        rows = {row[0]: Unsent(reply=row) for row in replies if row[0] not in self._fetched}
        rows |= {uuid4().bytes: Unsent(payment=row) for row in payments}
        sent = self._kept - self._team.unsent.keys()
        encode = msgspec.msgpack.encode
        keep: list[Statement] = [
            (_KEEP, (name, None if row.payment is None else encode(row.payment)))
            for name, row in rows.items()
        ]
        forget: list[Statement] = [(_FORGET, (name,)) for name in sent]
        super()._transact(replies, payments, [*statements, *forget, *keep])
        self._kept = self._kept - sent | rows.keys()
        self._fetched.difference_update(row[0] for row in replies)
        self._team.save(rows)

    def close(self) -> None:
        """Commit queued writes, send them to the team, release claims, and close connections."""
        super().close()
        self._team.close()
        self._change([(_FORGET, (name,)) for name in self._kept - self._team.unsent.keys()])


def _machine(folder: Path) -> UUID:
    """Return an id shared by the processes that see each other's file locks in a folder."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text()
        status = folder.stat()
    except OSError:
        return uuid4()
    return uuid5(_MACHINES, f"{socket.gethostname()} {boot} {status.st_dev} {status.st_ino}")


class TeamLayer(CallLayer):
    """Shares replies, rate limits and budgets with the machines of a team.

    Args:
        url: URL of the team's database.
        key: Encrypts the replies in the database. None: no encryption.
    """

    shares_calls = True

    def __init__(self, url: str, key: str | None) -> None:
        self._url = url
        self._key = key
        self._database: TeamDatabase | None = None

    def open_cache(self, path: Path, notice: Report, restore: Restore) -> ReplyCache:
        """Open the local file in front of the team's database."""
        return TeamReplyCache(path, self._url, self._key, notice=notice, restore=restore)

    def shared_rates(self, model_id: str) -> SharedRates:
        """Return this process's part of a model's rate limits in the team."""
        return TeamRates(self._opened(), model_id)

    def shared_budget(self, name: str, account: str, usd: float) -> SharedBudget:
        """Return an account's part of a budget of the team."""
        return TeamBudget(self._opened(), name, account, usd)

    def _opened(self) -> TeamDatabase:
        if self._database is None:
            self._database = TeamDatabase(self._url)
        return self._database

    def facts(self) -> Mapping[str, str]:
        """Return the team, its replies and its payments."""
        facts = self._facts()
        return {
            "team": f"{facts.team} in {facts.database}",
            "its replies": f"{facts.replies:,}",
            "its payments": f"${facts.usd:,.2f} by runs with a budget: {facts.runs:,}",
        }

    def check(self) -> Iterator[CheckupFinding]:
        """Check whether the team's database answers."""
        try:
            facts = self._facts()
        except HarnessError as error:
            yield CheckupFinding("broken", "team's cache", error.message, error.remedy)
            return
        replies = f"{facts.replies:,} replies of the team {facts.team}"
        yield CheckupFinding("ok", "team's cache", f"{facts.database} answers; {replies}")

    def _facts(self) -> TeamFacts:
        return team_facts(self._url, self._key)

    def close(self) -> None:
        """Close the connection."""
        if self._database is not None:
            self._database.close()
