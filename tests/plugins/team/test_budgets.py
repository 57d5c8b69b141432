"""Budgets that the runs of a team share, on a real database."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from pydantic import ValidationError

from harness.calls.budget import ROUNDING_USD, Budget
from harness.calls.signals import Stop, Stopping
from harness.config.sections import BudgetSection
from harness.plugins.mock.server import MockServer
from harness.plugins.team.budgets import TeamBudget
from harness.plugins.team.database import TeamDatabase
from tests.cli.command import Begun
from tests.conftest import run_file
from tests.plugins.team.team_runs import team_run
from tests.postgres import Postgres

PRICE = {"input": 100.0, "output": 100.0}  # US dollars per million tokens


@pytest.fixture
def database(url: str) -> Iterator[TeamDatabase]:
    with closing(TeamDatabase(url)) as opened:
        yield opened


@contextlib.asynccontextmanager
async def session(
    database: TeamDatabase, run: str, usd: float = 1.0
) -> AsyncIterator[tuple[Budget, TeamBudget]]:
    """A session's budget: the session is killed at the end unless it is closed."""
    team = TeamBudget(database, "team", run, usd)
    spent = await team.join()
    stop = Stop()
    by_others = spent.by_others
    budget = Budget(
        usd, spent.by_run + by_others, stop, spent_by_others=by_others, shared_budget=team
    )
    team.ensure_working()
    yield budget, team


def bounds(database: TeamDatabase) -> float:
    query = "SELECT coalesce(sum(usd), 0) FROM harness.budgets"
    row = database.transact(lambda cursor: cursor.execute(query).fetchone(), 5)
    assert row is not None
    return float(row[0])


async def test_two_sessions_reserve_no_more_than_the_budget(database: TeamDatabase) -> None:
    async with session(database, "a") as (one, _), session(database, "b") as (two, _):
        calls = [asyncio.create_task(each.reserve(0.09)) for each in (one, two) * 8]
        while sum(call.done() for call in calls) < 11:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        assert bounds(database) <= 1.0 + ROUNDING_USD
        for call in calls:
            call.cancel()


async def test_what_a_call_has_not_cost_is_given_to_another_session(
    database: TeamDatabase,
) -> None:
    async with session(database, "a") as (one, _), session(database, "b") as (two, _):
        await one.reserve(0.9)
        waiting = asyncio.create_task(two.reserve(0.5))
        await asyncio.sleep(0.3)
        assert not waiting.done()
        one.settle(0.9, 0.1)
        await asyncio.wait_for(waiting, 30)
        assert two.spent_usd == pytest.approx(0.1, abs=0.02)


async def test_a_session_ends_when_nobody_can_release_anything(database: TeamDatabase) -> None:
    async with session(database, "a") as (one, team):
        await one.reserve(0.9)
        one.settle(0.9, 0.9)
        await team.aclose()
    async with session(database, "b") as (two, _):
        with pytest.raises(Stopping):
            await two.reserve(0.2)
        assert two.is_exhausted
        assert two.spent_usd == pytest.approx(0.9)


async def test_a_session_that_waits_for_its_own_calls_uses_what_they_leave(
    database: TeamDatabase,
) -> None:
    async with session(database, "a") as (one, _):
        await one.reserve(0.4)
        waiting = asyncio.create_task(one.reserve(0.8))
        await asyncio.sleep(0.3)
        assert not waiting.done()
        one.settle(0.4, 0.1)
        await asyncio.wait_for(waiting, 30)


async def test_what_a_killed_session_has_reserved_counts_as_spent(database: TeamDatabase) -> None:
    async with session(database, "a") as (one, team):
        await one.reserve(0.7)
        one.settle(0.1, 0.05)
        await team.aclose()
    assert bounds(database) == pytest.approx(0.65)
    run = TeamBudget(database, "team", "a", 1.0)
    assert await run.join() == pytest.approx((0.65, 0.0, 0.6))
    assert await run.join() == pytest.approx((0.65, 0.0, 0.6))
    assert bounds(database) == pytest.approx(0.65)


async def test_no_call_is_made_without_the_database_and_all_after_its_restart(
    database: TeamDatabase, postgres: Postgres
) -> None:
    said: list[str] = []
    async with session(database, "a") as (one, team):
        team.report = said.append
        await one.reserve(0.1)
        postgres.stop()
        waiting = asyncio.create_task(one.reserve(0.5))
        while not said:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        assert not waiting.done()
        assert said[0].startswith("the shared budget: The team's database")
        postgres.start()
        await asyncio.wait_for(waiting, 60)
        assert said[-1] == ""
        await team.aclose()


def spend(
    folder: Path, postgres: Postgres, usd: float, count: int, kills: int = 0, restarts: int = 0
) -> float:
    """The cost at the provider of processes that spend a budget.

    In the meantime, some are killed and started again, and so is the database.
    """
    (url,) = postgres.database("acme")
    with MockServer(latency=0.1) as mock, contextlib.ExitStack() as stack:
        model = {"backend": "openai", "name": "m", "base_url": mock.base_url, "price": PRICE}
        budget = {"usd": usd, "shared": "team"}

        def start(number: int) -> Begun:
            name = f"p{number}"
            run = team_run(folder, name, url, mock, 1000, model=model, budget=budget)
            return stack.enter_context(run)

        running = [start(number) for number in range(count)]
        for kill in range(kills):
            before, number = mock.stats().requests, kill % count
            while mock.stats().requests < before + 20 and running[number].poll() is None:
                time.sleep(0.01)
            running[number].kill()
            running[number].communicate()
            running[number] = start(number)
            if kill < restarts:
                postgres.stop()
                postgres.start()
        for process in running:
            said = process.communicate(timeout=300)
            assert process.returncode == 3, said
        tokens = mock.stats().prompt_tokens + mock.stats().completion_tokens
    return tokens * PRICE["input"] / 1e6


def test_processes_spend_a_budget_and_no_more(tmp_path: Path, postgres: Postgres) -> None:
    assert 0.9 <= spend(tmp_path, postgres, usd=1.0, count=3) <= 1.0


def test_a_shared_budget_needs_a_database_and_a_cap() -> None:
    with pytest.raises(ValidationError, match=r"budget\.shared needs budget\.usd"):
        BudgetSection(shared="team")
    assert run_file(budget={"usd": 3, "shared": "team"}, shard="1/3").budget_usd == 3


@pytest.mark.exhaustive
def test_killed_processes_do_not_exceed_a_budget(
    tmp_path: Path, postgres: Postgres, capsys: pytest.CaptureFixture[str]
) -> None:
    cost = spend(tmp_path, postgres, usd=5.0, count=6, kills=12, restarts=3)
    with capsys.disabled():
        said = "6 processes, 12 kill -9, 3 restarts of the database, a budget of $5"
        print(f"\n{said}: cost ${cost:.4f}")
    assert 2.0 <= cost <= 5.0
