"""A budget that the runs of a team share through the team's database.

The database holds an upper bound on the cost of each session. The sum of all bounds never exceeds
the budget. A session raises its bound before it makes calls that need more, and lowers it when its
calls have cost less. The bound of a killed session remains, since its calls may have been billed.
"""

import asyncio
import platform
from collections.abc import Callable
from functools import partial
from math import inf
from typing import NamedTuple
from uuid import uuid4

from harness.calls.budget import ROUNDING_USD, Need, PastSpending, SharedBudget
from harness.calls.signals import Report
from harness.plugins.team.database import Cursor, Exchanger, TeamDatabase

AHEAD = 0.01  # part of the budget that a session reserves beyond the calls that it makes
DENIED_S = 1.0  # seconds until the next attempt if other sessions may still release something
LONGEST_S = 5.0  # maximum number of seconds between exchanges
OPENING_S = 15.0  # seconds that a session waits for the database
EXPIRES_S = 20.0  # seconds without an exchange after which a session counts as killed


class BudgetGrant(NamedTuple):
    """The database's answer to a session (US dollars)."""

    granted: float
    by_others: float  # the bounds of all other sessions
    reserved_by_others: float  # the part of `by_others` that sessions in progress may release


class TeamBudget(Exchanger[BudgetGrant], SharedBudget):
    """A session's part of a budget that a team shares. All amounts are in US dollars.

    Args:
        database: The team's database.
        name: The budget's name.
        run: Id of the run. A session continues the earlier sessions of its run.
        usd: The cap on the cost of all runs.
    """

    shares = "the shared budget"
    longest_s = LONGEST_S
    active = True

    def __init__(self, database: TeamDatabase, name: str, run: str, usd: float) -> None:
        super().__init__(database)
        # Runs at the same path of two machines may have the same id.
        self._name = name
        self._run = f"{platform.node()} {run}"
        self._usd = usd
        self._session = uuid4()
        self._most = inf  # the largest amount that can ever be granted
        self.granted = 0.0
        self.need: Callable[[], Need] = lambda: Need(0.0, 0.0, 0.0, 0.0)
        self.on_answer: Callable[[float], None] = lambda by_others: None

    async def join(self) -> PastSpending:
        """Take over the spending of the run's earlier sessions, and return all past spending."""
        return await asyncio.to_thread(self._database.transact, self._join, OPENING_S)

    def start(self, report: Report) -> None:
        """Start the exchanges with the database. ``report`` receives what prevents them."""
        self.report = report
        self.ensure_working()

    def _join(self, cursor: Cursor) -> PastSpending:
        self._lock(cursor)
        parameters = {"budget": self._name, "run": self._run}
        row = cursor.execute(
            "SELECT coalesce(sum(usd) FILTER (WHERE run = %(run)s), 0),"
            " coalesce(sum(usd) FILTER (WHERE run <> %(run)s), 0),"
            " coalesce(sum(usd - spent) FILTER (WHERE run = %(run)s), 0)"
            " FROM harness.budgets WHERE team = current_user AND budget = %(budget)s",
            parameters,
        ).fetchone()
        assert row is not None
        spent = PastSpending(*row)
        cursor.execute(
            "UPDATE harness.budgets SET usd = 0, spent = 0"
            " WHERE team = current_user AND budget = %(budget)s AND run = %(run)s",
            parameters,
        )
        self._save(cursor, spent.by_run, spent.by_run - spent.unsure, EXPIRES_S)
        self.granted = spent.by_run
        return spent

    def request_more(self) -> bool:
        """Return whether the amount that the run needs may be granted, and ask for it if so."""
        if self.need().with_next > self._most + ROUNDING_USD:
            return False
        self.ask()
        return True

    def prepared(self, *, last: bool) -> Callable[[Cursor], BudgetGrant]:
        """Return the next exchange. Until it is made, ``granted`` is the amount that is kept."""
        need = self.need()
        ahead = 0.0 if last else AHEAD * self._usd
        waits = need.with_next > need.reserved  # then no call is admitted until the answer
        reduced = need.reserved if waits else min(self.granted, need.reserved + ahead)
        self.granted = max(reduced, need.reserved)
        return partial(self._exchange, need, self.granted, ahead, 0.0 if last else EXPIRES_S)

    def _exchange(
        self, need: Need, current: float, ahead: float, expires_s: float, cursor: Cursor
    ) -> BudgetGrant:
        self._lock(cursor)
        row = cursor.execute(
            "SELECT coalesce(sum(usd), 0),"
            " coalesce(sum(usd - spent) FILTER (WHERE expires > clock_timestamp()), 0)"
            " FROM harness.budgets WHERE team = current_user AND budget = %s AND session <> %s",
            [self._name, self._session],
        ).fetchone()
        assert row is not None
        by_others, reserved_by_others = row
        left = self._usd - by_others
        granted = current
        if left >= need.with_next - ROUNDING_USD:
            granted = max(current, min(need.with_all + ahead, left))
        self._save(cursor, granted, need.spent, expires_s)
        return BudgetGrant(granted, by_others, reserved_by_others)

    def _lock(self, cursor: Cursor) -> None:
        lock = "SELECT pg_advisory_xact_lock(hashtextextended('budget ' || current_user || %s, 0))"
        cursor.execute(lock, [self._name])

    def _save(self, cursor: Cursor, usd: float, spent: float, expires_s: float) -> None:
        cursor.execute(
            "INSERT INTO harness.budgets (budget, session, run, usd, spent, expires)"
            " VALUES (%s, %s, %s, %s, %s, clock_timestamp() + %s * interval '1 second')"
            " ON CONFLICT (team, budget, session) DO UPDATE"
            " SET usd = excluded.usd, spent = excluded.spent, expires = excluded.expires",
            [self._name, self._session, self._run, usd, spent, expires_s],
        )

    def apply(self, result: BudgetGrant) -> float:
        """Use the amount that was granted. Return the pause (s) before the next exchange."""
        self.granted = result.granted
        final = result.reserved_by_others <= ROUNDING_USD
        self._most = self._usd - result.by_others if final else inf
        self.on_answer(result.by_others)
        return DENIED_S if self.need().with_next > self.granted + ROUNDING_USD else 0.0
