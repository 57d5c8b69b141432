"""Rate limits that a team shares, on a real database."""

import asyncio
import time
from collections.abc import Iterator
from contextlib import closing

import msgspec
import pytest

from harness.calls.concurrency import ConcurrencyLimiter
from harness.calls.rate_limits import BURST_S, RateLimits
from harness.calls.signals import Stop
from harness.config.settings import Settings
from harness.engine.models import Resources
from harness.plugins.team.database import TeamDatabase
from harness.plugins.team.rates import SharedUse, TeamRates
from tests.calls.test_concurrency import REQUEST
from tests.conftest import Scripted
from tests.postgres import Postgres


@pytest.fixture
def database(url: str) -> Iterator[TeamDatabase]:
    with closing(TeamDatabase(url)) as opened:
        yield opened


def limiter(database: TeamDatabase, backend: Scripted, rpm: int) -> ConcurrencyLimiter:
    rates = RateLimits({"requests": rpm}, shared_rates=TeamRates(database, "model"))
    return ConcurrencyLimiter(backend.generate, Stop(), ceiling=16, rates=rates)


def record(database: TeamDatabase) -> SharedUse:
    query = "SELECT state FROM harness.rates"
    row = database.transact(lambda cursor: cursor.execute(query).fetchone(), 5)
    assert row is not None
    return msgspec.msgpack.decode(row[0], type=SharedUse)


async def test_two_processes_share_a_burst_and_then_the_rate(database: TeamDatabase) -> None:
    began, backend = time.monotonic(), Scripted(lambda request: "2")
    limiters = [limiter(database, backend, 600) for _ in range(2)]
    calls = [asyncio.create_task(each(REQUEST)) for each in limiters * 100]
    while len(backend.requests) < 10 * BURST_S + 20:  # noqa: ASYNC110
        await asyncio.sleep(0.01)
    passed = time.monotonic() - began
    assert len(backend.requests) <= 10 * (BURST_S + passed) + 2
    for call in calls:
        call.cancel()


async def test_a_process_asks_for_room_for_all_calls_that_it_could_send(
    database: TeamDatabase,
) -> None:
    team = TeamRates(database, "model")
    rates = RateLimits({"requests": 6000, "tokens": 1_000_000}, shared_rates=team)
    ask = ConcurrencyLimiter(Scripted().generate, Stop(), ceiling=3, rates=rates)
    calls = [asyncio.create_task(ask(REQUEST)) for _ in range(5)]
    await asyncio.sleep(0)
    demand = team.demand()
    for call in calls:
        call.cancel()
    assert (demand.next_calls["requests"], demand.queued["requests"]) == (1, 3)
    assert demand.next_calls["tokens"] > 0
    assert demand.queued["tokens"] == 3 * demand.next_calls["tokens"]


async def test_at_its_end_a_process_has_returned_what_it_has_not_used(
    database: TeamDatabase,
) -> None:
    backend = Scripted(lambda request: "2")
    rates = RateLimits({"requests": 6000}, shared_rates=TeamRates(database, "model"))
    ask = ConcurrencyLimiter(backend.generate, Stop(), ceiling=16, rates=rates)
    for _ in range(30):
        await ask(REQUEST)
    await rates.aclose()
    found = record(database)
    assert sum(found.uses["requests"][2].values()) == 30
    assert [member.granted for member in found.members.values()] == [{"requests": 0}]


async def test_no_call_is_sent_without_the_database_and_all_after_its_restart(
    database: TeamDatabase, postgres: Postgres
) -> None:
    backend = Scripted(lambda request: "2")
    ask = limiter(database, backend, 600)
    await ask(REQUEST)
    postgres.stop()
    calls = [asyncio.create_task(ask(REQUEST)) for _ in range(30)]
    while "cannot be reached" not in ask.load.limited_by:  # noqa: ASYNC110
        await asyncio.sleep(0.01)
    assert ask.load.limited_by.startswith("the shared rate limits: The team's database")
    sent = len(backend.requests)
    await asyncio.sleep(1.5)
    assert len(backend.requests) == sent < 30
    postgres.start()
    await asyncio.wait_for(asyncio.gather(*calls), 60)


def test_a_team_shares_limits_by_the_hash_of_the_providers_key(url: str) -> None:
    with Resources(Settings(cache_url=url)) as resources:
        first = resources.rate_limits("openai", "https://api.openai.com/v1", "m", "1/2", ["sk-1"])
        same = resources.rate_limits("openai", "https://api.openai.com/v1", "m", "2/2", ["sk-1"])
        other = resources.rate_limits("openai", "https://api.openai.com/v1", "m", "", ["sk-2"])
    assert first is same is not other
