"""A team's PostgreSQL database: its tables, its key, and a connection that outlives restarts.

A team is a role of the server. Except in ``versions``, each row names the team that wrote it, and a
policy on each table shows a role only its own team's rows. The tables grant no right to delete, and
replies and payments cannot be changed either. The role that creates the tables owns them; the teams
need none of its rights.
"""

import asyncio
import base64
import binascii
import contextlib
import hmac
import os
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeAlias, TypeVar

from harness.calls.database import ReplyRow
from harness.calls.signals import Report
from harness.errors import ConfigError, StoreFailed, import_extra

if TYPE_CHECKING:
    import psycopg
    from psycopg import conninfo
else:
    psycopg = import_extra("psycopg", "team")
    conninfo = psycopg.conninfo

Connection: TypeAlias = "psycopg.Connection[tuple[Any, ...]]"
Cursor: TypeAlias = "psycopg.Cursor[tuple[Any, ...]]"
T = TypeVar("T")

CONNECT_S = 5  # time limit for connecting; a silent peer is given up after three times this
REFUSED_S = 1.0  # seconds after which a refused password is an error
NOTICE_S = 2.0  # seconds without the database before the user is notified
FIRST_PAUSE_S = 0.05  # between attempts to connect
LONGEST_PAUSE_S = 1.0
MIGRATION_LOCK = 0x6861726E65737331  # id of the advisory lock that migrations hold

_OWN_ROWS = """
ALTER TABLE harness.{table} ENABLE ROW LEVEL SECURITY;
ALTER TABLE harness.{table} FORCE ROW LEVEL SECURITY;
CREATE POLICY own_team ON harness.{table} USING (team = current_user);
GRANT {rights} ON harness.{table} TO PUBLIC;
"""


def own_rows(table: str, rights: str) -> str:
    """Return SQL that restricts each team to its own rows of a table, and grants rights on it.

    The table needs the column ``team name NOT NULL DEFAULT current_user``. Queries must also filter
    by this column, since superusers see all rows.
    """
    return _OWN_ROWS.format(table=table, rights=rights)


MIGRATIONS = (
    """
    CREATE SCHEMA harness;
    GRANT USAGE ON SCHEMA harness TO PUBLIC;
    CREATE TABLE harness.versions (version integer PRIMARY KEY);
    GRANT SELECT ON harness.versions TO PUBLIC;
    CREATE TABLE harness.teams (
        team name PRIMARY KEY DEFAULT current_user, key_check bytea NOT NULL
    );
    CREATE TABLE harness.replies (
        team name NOT NULL DEFAULT current_user, key bytea, reply bytea NOT NULL,
        backend text NOT NULL, model text NOT NULL, created double precision NOT NULL,
        PRIMARY KEY (team, key)
    );
    CREATE TABLE harness.payments (
        team name NOT NULL DEFAULT current_user, run text, key bytea, entry uuid,
        usd double precision NOT NULL, created double precision NOT NULL,
        PRIMARY KEY (team, run, key, entry)
    );
    CREATE TABLE harness.owners (
        team name NOT NULL DEFAULT current_user, owner uuid, host text NOT NULL,
        expires timestamptz NOT NULL, PRIMARY KEY (team, owner)
    );
    CREATE TABLE harness.claims (
        team name NOT NULL DEFAULT current_user, key bytea, owner uuid, machine uuid NOT NULL,
        expires timestamptz NOT NULL, PRIMARY KEY (team, key)
    );
    """
    + own_rows("teams", "SELECT, INSERT")
    + own_rows("replies", "SELECT, INSERT")
    + own_rows("payments", "SELECT, INSERT")
    + own_rows("owners", "SELECT, INSERT, UPDATE")
    + own_rows("claims", "SELECT, INSERT, UPDATE"),
    """
    CREATE TABLE harness.rates (
        team name NOT NULL DEFAULT current_user, model text, state bytea NOT NULL,
        PRIMARY KEY (team, model)
    );
    CREATE TABLE harness.budgets (
        team name NOT NULL DEFAULT current_user, budget text, session uuid, run text NOT NULL,
        usd double precision NOT NULL, spent double precision NOT NULL,
        expires timestamptz NOT NULL, PRIMARY KEY (team, budget, session)
    );
    """
    + own_rows("rates", "SELECT, INSERT, UPDATE")
    + own_rows("budgets", "SELECT, INSERT, UPDATE"),
)
"""Scripts that each bring the tables from one version to the next. The first makes version 1."""


class TeamUnreachable(StoreFailed):
    """The team's database does not answer; a retry may succeed."""


_MALFORMED = (
    "HARNESS_CACHE_URL is not the URL of a PostgreSQL database.",
    "Write it like postgresql://USER:PASSWORD@HOST:5432/DATABASE, with %2F for / in the password, "
    "%3F for ?, %23 for # and %40 for @.",
)


class TeamDatabase:
    """A connection to a team's database, opened when needed and reopened if it breaks.

    Each thread that should not wait for other threads needs a separate connection.

    Args:
        url: A ``postgresql://`` URL. Its password appears in no message.
        notice: Receives messages for the user, from any thread. "" clears the last message.
    """

    def __init__(self, url: str, notice: Report = lambda _: None) -> None:
        try:
            parts = conninfo.conninfo_to_dict(url)
        except psycopg.Error:  # its message would quote the URL
            raise ConfigError(*_MALFORMED) from None
        port = str(parts.get("port") or 5432)
        database = str(parts.get("dbname") or "")
        if "@" in database or not port.replace(",", "").isdigit():
            raise ConfigError(*_MALFORMED)  # a "/" in a password begins the database
        self.name = f"{parts.get('host') or 'localhost'}:{port}/{database}"
        """The server and the database, for messages."""
        defaults: dict[str, str | int] = {
            "connect_timeout": CONNECT_S,
            "keepalives_idle": CONNECT_S,
            "tcp_user_timeout": 3_000 * CONNECT_S,
            "application_name": "harness",
        }
        self._conninfo = conninfo.make_conninfo(
            url, **{name: value for name, value in defaults.items() if name not in parts}
        )
        self._notice = notice
        self._noticed = False
        self._connection: Connection | None = None
        self._lock = threading.Lock()
        self._closing = threading.Event()

    def transact(self, work: Callable[[Cursor], T], patience_s: float) -> T:
        """Run statements in a transaction, and return the result of ``work``. Thread-safe.

        If the connection breaks, the transaction is repeated on a new connection. It may
        already have been committed, so ``work`` must have the same effect when it is repeated.

        Args:
            work: Executes the statements with a cursor.
            patience_s: Seconds to keep trying while the database does not answer.

        Raises:
            TeamUnreachable: If the database does not answer in time.
            StoreFailed: If the database refuses the statements, or its tables have a newer version
                or cannot be updated.
        """
        since = time.monotonic()
        pause = FIRST_PAUSE_S
        with self._lock:
            while True:
                try:
                    if self._connection is None:
                        self._connection = self._connect()
                    with self._connection.transaction(), self._connection.cursor() as cursor:
                        result = work(cursor)
                    if self._noticed:
                        self._noticed = False
                        self._notice("")
                    return result
                except (psycopg.OperationalError, psycopg.InterfaceError) as error:
                    self._disconnect()
                    self._wait(error, time.monotonic() - since, pause, patience_s)
                    pause = min(2 * pause, LONGEST_PAUSE_S)
                except psycopg.Error as error:
                    raise StoreFailed(
                        f"The team's database {self.name} refuses this: {_first_line(error)}.",
                        "Check the rights of its role (harness docs team).",
                    ) from None

    def _wait(self, error: psycopg.Error, waited: float, pause: float, patience_s: float) -> None:
        """Pause before the next attempt, or raise TeamUnreachable if it is time to give up."""
        # The password was probably refused. A stopping server may also give one such answer.
        refused = error.pgconn is not None and error.pgconn.used_password and waited >= REFUSED_S
        if waited >= patience_s or refused or self._closing.wait(pause):
            raise TeamUnreachable(
                f"The team's database {self.name} cannot be reached: {_first_line(error)}.",
                "Check HARNESS_CACHE_URL and the server, or unset it to use this machine's cache "
                "alone.",
            ) from None
        if waited >= NOTICE_S and not self._noticed:
            self._noticed = True
            self._notice(f"The team's database {self.name} does not answer; waiting.")

    def _connect(self) -> Connection:
        # Prepared statements would not survive a pooler's change of the server's session.
        connection = psycopg.connect(self._conninfo, autocommit=True, prepare_threshold=None)
        try:
            self._migrate(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def _migrate(self, connection: Connection) -> None:
        saved = _version(connection)
        if saved < len(MIGRATIONS):
            try:
                with connection.transaction():
                    connection.execute("SELECT pg_advisory_xact_lock(%s)", [MIGRATION_LOCK])
                    for script in MIGRATIONS[_version(connection) :]:
                        connection.execute(script)
                    connection.execute(
                        "INSERT INTO harness.versions VALUES (%s) ON CONFLICT DO NOTHING",
                        [len(MIGRATIONS)],
                    )
            except psycopg.errors.InsufficientPrivilege:
                raise StoreFailed(
                    f"The team's database {self.name} lacks tables that this harness needs "
                    f"(version {saved}, here {len(MIGRATIONS)}), and its role may not create them.",
                    "Run 'harness cache stats' once with the URL of the database's owner.",
                ) from None
        elif saved > len(MIGRATIONS):
            raise StoreFailed(
                f"The tables of the team's database {self.name} were made by a newer harness "
                f"(version {saved}, here {len(MIGRATIONS)}).",
                "Update the harness.",
            )

    def _disconnect(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def close(self) -> None:
        """Close the connection, and give up a transaction that waits for the database."""
        self._closing.set()
        with self._lock:
            self._disconnect()


def _version(connection: Connection) -> int:
    """Return the version of a database's tables (0: none)."""
    # `to_regclass` would not see tables that were made during this transaction.
    query = "SELECT FROM pg_tables WHERE schemaname = 'harness' AND tablename = 'versions'"
    if connection.execute(query).fetchone() is None:
        return 0
    row = connection.execute("SELECT max(version) FROM harness.versions").fetchone()
    return int(row[0] or 0) if row else 0


def _first_line(error: psycopg.Error) -> str:
    """Return the first line of an error's message, which contains no password."""
    text = error.diag.message_primary or str(error)
    return (text.splitlines() or [type(error).__name__])[0].rstrip(".")


RETRY_S = 1.0  # seconds between attempts while the database is away
CLOSE_S = 5.0  # seconds that the last exchange may take


class Exchanger(ABC, Generic[T]):
    """A background task that exchanges data with the database on request and at intervals.

    It runs while there is something to exchange. Transactions run in a thread.

    Attributes:
        trouble: Why the database does not answer, or "".
        report: Called with ``trouble`` when it changes.
    """

    shares: str  # what is shared, for messages
    longest_s: float  # maximum number of seconds between exchanges

    def __init__(self, database: TeamDatabase) -> None:
        self._database = database
        self._task: asyncio.Task[None] | None = None
        self._asked = self._closing = False
        self.trouble = ""
        self.report: Report = lambda _: None

    @abstractmethod
    def prepared(self, *, last: bool) -> Callable[[Cursor], T]:
        """Return the work of the next exchange (the final one if ``last``). It may be run again."""

    @abstractmethod
    def apply(self, result: T) -> float:
        """Apply an exchange's result, and return the minimum number of seconds until the next."""

    @property
    @abstractmethod
    def active(self) -> bool:
        """Whether there is anything to exchange."""

    def ask(self) -> None:
        """Request an exchange, and start the task if necessary."""
        self._asked = True
        self.ensure_working()
        self._wake.set()

    def ensure_working(self) -> None:
        """Start the task if it is not running."""
        if self._task is None:
            self._closing = False
            self._wake = asyncio.Event()
            self._task = asyncio.create_task(self._work())

    async def aclose(self) -> None:
        """End the task, if it is running, after a last exchange."""
        if self._task is not None:
            self._closing = True
            self._wake.set()
            await asyncio.wait([self._task], timeout=CLOSE_S)

    async def _work(self) -> None:
        try:
            while self._asked or self.active:
                self._asked = False
                last = self._closing
                result = await self._transacted(self.prepared(last=last))
                if result is None:
                    return
                pause_s = self.apply(result)
                if last:
                    return
                # If the database is slow or busy, this halves the load.
                await self._sleep(max(pause_s, min(self._took_s, self.longest_s)))
                if not self._asked:
                    await self._sleep(self.longest_s, until_asked=True)
        finally:
            self._task = None

    async def _transacted(self, work: Callable[[Cursor], T]) -> T | None:
        """Return the result of a transaction, or None if the session ends first."""
        while True:
            began = time.monotonic()
            try:
                result = await asyncio.to_thread(self._database.transact, work, 0.0)
                self._took_s = time.monotonic() - began
                self._set_trouble("")
                return result
            except StoreFailed as error:
                self._set_trouble(f"{self.shares}: {error.message.rstrip('.')}")
            if self._closing:
                return None
            await self._sleep(RETRY_S)

    def _set_trouble(self, trouble: str) -> None:
        if trouble != self.trouble:
            self.trouble = trouble
            self.report(trouble)

    async def _sleep(self, seconds: float, *, until_asked: bool = False) -> None:
        """Sleep. Wake early if the session ends or, with ``until_asked``, on request."""
        end = time.monotonic() + seconds
        while not self._closing and not (until_asked and self._asked):
            self._wake.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(end - time.monotonic()):
                    await self._wake.wait()
                    continue
            return


_JOIN = "INSERT INTO harness.teams (key_check) VALUES (%s) ON CONFLICT DO NOTHING"
_KEY_CHECK = "SELECT team, key_check FROM harness.teams WHERE team = current_user"
_FACTS = """
SELECT current_user,
    (SELECT count(*) FROM harness.replies WHERE team = current_user),
    (SELECT count(DISTINCT run) FROM harness.payments WHERE team = current_user),
    (SELECT coalesce(sum(usd), 0) FROM harness.payments WHERE team = current_user)
"""


class Cipher:
    """Encrypts replies with AES-256-GCM, each bound to its call's key.

    Args:
        key: 32 bytes in Base64.
    """

    def __init__(self, key: str) -> None:
        try:
            secret = base64.b64decode(key, validate=True)
        except (binascii.Error, ValueError):
            secret = b""
        if len(secret) != 32:
            raise ConfigError(
                "HARNESS_CACHE_KEY is not a key: 32 bytes in Base64.",
                "To make one for the team: openssl rand -base64 32",
            )
        aead = import_extra("cryptography.hazmat.primitives.ciphers.aead", "team")
        self._aead: Any = aead.AESGCM(secret)
        self.check = hmac.digest(secret, b"harness team cache", "sha256")
        """Identifies the key without revealing it."""

    def encrypt(self, row: ReplyRow) -> ReplyRow:
        """Return a row with its reply encrypted."""
        nonce = os.urandom(12)
        return row[0], nonce + self._aead.encrypt(nonce, row[1], row[0]), *row[2:]

    def decrypt(self, row: ReplyRow) -> ReplyRow:
        """Return a row with its reply decrypted. A damaged reply becomes empty."""
        invalid = import_extra("cryptography.exceptions", "team").InvalidTag
        try:
            return row[0], self._aead.decrypt(row[1][:12], row[1][12:], row[0]), *row[2:]
        except (invalid, ValueError):
            return row[0], b"", *row[2:]


def join(cursor: Cursor, database: str, cipher: Cipher | None) -> None:
    """Record how the team's replies are encrypted, if nobody has yet, and check the key."""
    cursor.execute(_JOIN, [cipher.check if cipher else b""])
    check_key(cursor, database, cipher)


def check_key(cursor: Cursor, database: str, cipher: Cipher | None) -> None:
    """Raise StoreFailed if the team's first process encrypted replies in a different way."""
    check = cipher.check if cipher else b""
    row = cursor.execute(_KEY_CHECK).fetchone()
    if row is None or row[1] == check:
        return
    team, expected = row
    remedy = "Set HARNESS_CACHE_KEY to the team's key."
    if not expected:
        state = "not encrypted"
        remedy = "Unset HARNESS_CACHE_KEY, or use another role or database."
    else:
        state = "encrypted with another key" if check else "encrypted with a key"
    raise StoreFailed(f"The replies of the team {team} in {database} are {state}.", remedy)


class TeamFacts(NamedTuple):
    """A team's saved data. ``runs`` counts runs with a budget, and ``usd`` is what they paid."""

    database: str
    team: str
    replies: int
    runs: int
    usd: float


def team_facts(url: str, key: str | None) -> TeamFacts:
    """Summarise the data that a team has saved in the database at ``url``.

    ``key`` is the key that encrypts the team's replies (None: they are not encrypted).
    """
    cipher = None if key is None else Cipher(key)
    with contextlib.closing(TeamDatabase(url)) as database:

        def work(cursor: Cursor) -> Any:
            check_key(cursor, database.name, cipher)
            return cursor.execute(_FACTS).fetchone()

        return TeamFacts(database.name, *database.transact(work, 0))
