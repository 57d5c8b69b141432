"""A model's rate limits, which the processes of a team share through the team's database.

Asking the database before each call would take too long. Each process therefore takes a grant, from
which it admits calls at once. A background task exchanges the calls that were sent for a new grant.
The whole grant counts as used until the process has reported its use, so the limits hold even if
the process is killed: its grant leaves the window like a call.

All times are those of the database's clock.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from math import hypot, inf
from typing import NamedTuple
from uuid import uuid4

import msgspec
from typing_extensions import override

from harness.calls.rate_limits import (
    LIMIT_KEYS,
    MAX_COUNTING_DELAY_S,
    ROUNDING,
    WINDOW_S,
    Amounts,
    Demand,
    SharedRates,
    SlidingWindow,
    Unit,
    Uses,
)
from harness.plugins.team.database import Cursor, Exchanger, TeamDatabase

GRANT_S = 2.0  # seconds for which a process may use a grant
COUNTED_S = GRANT_S + MAX_COUNTING_DELAY_S + WINDOW_S  # seconds for which a grant counts as used
SHARE_S = 1.0  # a grant is at most what the limit allows in this many seconds, or one call
PAUSE_S = 0.1  # minimum number of seconds between exchanges
AHEAD = 2.0  # amount to ask for in advance, as a multiple of the use since the last exchange
LIMITED_S = 0.5  # seconds between exchanges if less was granted than asked for
LONGEST_S = 1.0  # maximum number of seconds between exchanges, unless nothing is used
WAITS_S = 5.0  # seconds for which a process that was granted too little counts as waiting

Change = Callable[[SlidingWindow], None]


class Member(msgspec.Struct, array_like=True):
    """A process's entry in the record of a model's use."""

    number: int  # of its last exchange
    until: float  # when its grant leaves the window
    waits_until: float
    granted: dict[Unit, float]
    margins: dict[Unit, float]


class SharedUse(msgspec.Struct, array_like=True):
    """The use of a model by all processes: the calls sent, and the current grants."""

    uses: Uses = {}
    members: dict[str, Member] = {}


class Order(NamedTuple):
    """The use that a process reports, and its demand."""

    number: int  # counts a process's exchanges
    demand: Demand
    kept: Amounts  # the part of the last grant that the process keeps
    changes: Sequence[tuple[Unit, Change]]


class Grant(NamedTuple):
    """The amounts granted in an exchange, in addition to those that the process keeps."""

    amounts: Amounts
    until: float
    wait_s: float  # seconds until more may be granted; 0 if all was granted


def exchange(record: SharedUse, process: str, order: Order, now: float) -> Grant:
    """Apply a process's order, and return its grant. A repeated order gets its grant again."""
    limits, heads, queued, margins = order.demand
    remaining = order.kept
    before = record.members.pop(process, None)
    members = {id_: member for id_, member in record.members.items() if member.until > now}
    if before is not None and before.number == order.number:
        record.members = members | {process: before}
        more = {unit: amount - remaining.get(unit, 0.0) for unit, amount in before.granted.items()}
        return Grant(more, before.until - COUNTED_S + GRANT_S, LIMITED_S)
    windows: dict[Unit, SlidingWindow] = {}
    granting: dict[Unit, SlidingWindow] = {}  # in which the grants of others count as well
    for unit, limit in limits.items():
        windows[unit] = window = SlidingWindow(limit)
        window.restore(*record.uses.get(unit, (0.0, 0.0, {})))
        if before is not None:
            window.add_to_level(-before.granted.get(unit, 0.0), now)
        for of_unit, change in order.changes:
            if of_unit == unit:
                change(window)
        window.add_to_level(remaining.get(unit, 0.0), now)
        window.used_amount(now)  # removes what has left the window
        level, level_at, uses = window.state()
        granting[unit] = SlidingWindow(limit)
        granting[unit].restore(level, level_at, dict(uses))
        by_others = sum(member.granted.get(unit, 0.0) for member in members.values())
        granting[unit].add(by_others + remaining.get(unit, 0.0), now + WINDOW_S)
    spare = {
        unit: hypot(margins[unit], *(member.margins.get(unit, 0.0) for member in members.values()))
        for unit in limits
    }
    waiting = 1 + sum(member.waits_until > now for member in members.values())
    needed = {unit: max(0.0, heads[unit] - remaining.get(unit, 0.0)) for unit in limits}
    requested = {unit: max(0.0, queued[unit] - remaining.get(unit, 0.0)) for unit in limits}
    share = 1.0
    wait_s = 0.0
    more = dict.fromkeys(limits, 0.0)
    for unit, window in granting.items() if any(requested.values()) else ():
        wait_s = max(wait_s, window.wait_s(needed[unit], spare[unit], now))
        room = min(window.available(spare[unit], now) / waiting, window.limit * SHARE_S / WINDOW_S)
        share = min(share, room / max(requested[unit], ROUNDING))
    if not wait_s:
        more = {unit: max(needed[unit], share * requested[unit]) for unit in limits}
        wait_s = LIMITED_S if share < 1 else 0.0
    for unit, window in windows.items():
        window.add_to_level(more[unit], now)
        record.uses[unit] = window.state()
    waits_until = now + WAITS_S if wait_s else 0.0
    granted = {unit: remaining.get(unit, 0.0) + more[unit] for unit in limits}
    member = Member(order.number, now + COUNTED_S, waits_until, granted, margins)
    record.members = members | {process: member}
    return Grant(more, now + GRANT_S, wait_s)


class GrantedWindow(SlidingWindow):
    """A process's part of a shared limit. It admits calls as long as the grant lasts."""

    def __init__(self, unit: Unit, rates: TeamRates) -> None:
        super().__init__(inf)
        self._unit = unit
        self._rates = rates

    @property
    def reason(self) -> str:  # type: ignore[override]
        """The reason other than the limit why no calls are admitted."""
        return self._rates.trouble

    @override
    def wait_s(self, amount: float, margin: float, now: float) -> float:
        """Return 0 if the grant covers an amount, else ask for more and return a pause."""
        if self._rates.covers(self._unit, amount, now):
            return 0.0
        self._rates.ask()
        return GRANT_S  # the next grant comes earlier, and then the limiters admit calls

    @override
    def reserve(self, amount: float, now: float) -> None:
        """Use a part of the grant for a call that is sent at the time ``now``."""
        self._rates.use(self._unit, amount)
        self._change(SlidingWindow.reserve, amount, now)

    @override
    def settle(self, expected: float, actual: float, sent_at: float, now: float) -> None:
        """Replace the expected use of a call with its actual use."""
        self._change(SlidingWindow.settle, expected, actual, sent_at, now)

    @override
    def observe(self, used: float, now: float, until: float) -> None:
        """Attribute to others the use that only the provider has recorded."""
        self._change(SlidingWindow.observe, used, now, until)

    def _change(self, change: Callable[..., None], *values: float) -> None:
        self._rates.change(self._unit, lambda window: change(window, *values))


class TeamRates(Exchanger[tuple[Grant, float]], SharedRates):
    """A process's part of the rate limits of a model that a team shares.

    Args:
        database: The team's database.
        model: Id of the model and of the provider's key.
    """

    shares = "the shared rate limits"
    longest_s = LONGEST_S

    def __init__(self, database: TeamDatabase, model: str) -> None:
        super().__init__(database)
        self._model = model
        self._process = uuid4().hex
        self._ahead_s = time.time() - time.monotonic()
        self._number = 0
        self._left: Amounts = {}
        self._until = 0.0
        self._sent: Amounts = {}
        self._changes: list[tuple[Unit, Change]] = []
        self._granted: Mapping[Unit, float] = {}
        self.windows: dict[Unit, SlidingWindow] = {
            unit: GrantedWindow(unit, self) for unit in LIMIT_KEYS
        }
        self.demand: Callable[[], Demand] = lambda: Demand({}, {}, {}, {})
        self.admit: Callable[[], None] = lambda: None

    def clock(self) -> float:
        """Return the database's time in seconds, or slightly later."""
        return time.monotonic() + self._ahead_s

    def covers(self, unit: Unit, amount: float, now: float) -> bool:
        """Return whether the grant still covers an amount of a unit."""
        return now < self._until and amount <= self._left.get(unit, 0.0) + ROUNDING

    def use(self, unit: Unit, amount: float) -> None:
        """Use an amount of the grant."""
        self._left[unit] = self._left.get(unit, 0.0) - amount
        self._sent[unit] = self._sent.get(unit, 0.0) + amount
        if self._left[unit] < self._granted.get(unit, 0.0) / 2:
            self.ask()

    def change(self, unit: Unit, change: Change) -> None:
        """Report a change of the shared use with the next exchange."""
        self._changes.append((unit, change))
        self.ensure_working()

    @property
    def active(self) -> bool:
        """Whether there is a grant to return or a use to report."""
        return bool(self._changes) or any(self._granted.values())

    def prepared(self, *, last: bool) -> Callable[[Cursor], tuple[Grant, float]]:
        """Return the next exchange. Unless it is the ``last``, it also asks for future calls."""
        self._number += 1
        demand = self.demand()
        if not last:
            for unit in demand.queued:
                demand.queued[unit] += AHEAD * self._sent.get(unit, 0.0)
        if self.clock() >= self._until:
            self._left = {}
        remaining = {
            unit: min(left, demand.queued.get(unit, 0.0)) for unit, left in self._left.items()
        }
        order = Order(self._number, demand, remaining, self._changes)
        self._changes = []
        self._sent = {}
        self._left = dict(remaining)
        return partial(self._exchange, order)

    def _exchange(self, order: Order, cursor: Cursor) -> tuple[Grant, float]:
        key = [self._model]
        cursor.execute(
            "SELECT pg_advisory_xact_lock(hashtextextended('rates ' || current_user || %s, 0))", key
        )
        before = time.monotonic()
        row = cursor.execute(
            "SELECT (SELECT state FROM harness.rates WHERE team = current_user AND model = %s),"
            " extract(epoch FROM clock_timestamp())::float8",
            key,
        ).fetchone()
        assert row is not None
        record = SharedUse()
        with contextlib.suppress(msgspec.MsgspecError):
            record = msgspec.msgpack.decode(row[0] or b"", type=SharedUse)
        grant = exchange(record, self._process, order, row[1])
        cursor.execute(
            "INSERT INTO harness.rates (model, state) VALUES (%s, %s)"
            " ON CONFLICT (team, model) DO UPDATE SET state = excluded.state",
            [self._model, msgspec.msgpack.encode(record)],
        )
        return grant, row[1] - before

    def apply(self, result: tuple[Grant, float]) -> float:
        """Use a new grant, and admit calls. Return the pause until the next exchange."""
        grant, self._ahead_s = result
        left = {unit: self._left.get(unit, 0.0) + more for unit, more in grant.amounts.items()}
        self._left = left
        self._granted = dict(left)
        self._until = grant.until
        self.admit()
        return max(PAUSE_S, min(grant.wait_s, GRANT_S))
