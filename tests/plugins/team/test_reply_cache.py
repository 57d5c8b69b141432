import asyncio
import base64
import contextlib
import subprocess
import sys
import textwrap
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from math import inf
from pathlib import Path
from typing import Any

import pytest

from harness.calls.reply_cache import Payment, ReplyCache
from harness.errors import ConfigError, StoreFailed
from harness.plugins.team.database import TeamUnreachable, team_facts
from harness.plugins.team.layer import TeamReplyCache
from harness.records import Decoding, Message, Origin, Reply, Request
from tests.calls.paid import paid_calls
from tests.postgres import Postgres

KEY = "0123456789abcdef" * 2
SECRET, OTHER = (base64.b64encode(bytes([byte]) * 32).decode() for byte in (1, 2))


def request(text: str) -> Request:
    return Request("m", (Message("user", text),), Decoding(), 0, Origin("a", 0, 1))


class Provider:
    """Counts what it is asked, and answers when it may."""

    def __init__(self) -> None:
        self.asked: Counter[str] = Counter()
        self.may_answer = asyncio.Event()
        self.may_answer.set()

    async def __call__(self, request: Request) -> Reply:
        text = request.messages[0].content
        self.asked[text] += 1
        await self.may_answer.wait()
        return Reply(f"reply to {text}", "stop")


def machine(folder: Path, url: str, **options: Any) -> TeamReplyCache:
    folder.mkdir(exist_ok=True)
    return TeamReplyCache(folder / "replies.sqlite", url, **options)


async def until(condition: Callable[[], bool | Awaitable[bool]]) -> None:
    async with asyncio.timeout(60):
        while True:
            held = condition()
            if held if isinstance(held, bool) else await held:
                return
            await asyncio.sleep(0.01)


def rows(postgres: Postgres, url: str, table: str = "replies") -> list[tuple[Any, ...]]:
    return postgres.execute(f"SELECT * FROM harness.{table}", url.rpartition("/")[2])


async def test_machines_pay_for_the_same_calls_once(url: str, tmp_path: Path) -> None:
    provider = Provider()
    with machine(tmp_path / "a", url) as a, machine(tmp_path / "b", url) as b:
        stacks = [paid_calls(provider, a), paid_calls(provider, b)]
        calls = [stack(request(str(number))) for number in range(40) for stack in stacks]
        done = await asyncio.gather(*calls)
    assert sum(not call.cached for call in done) == 40
    assert provider.asked == Counter(map(str, range(40)))
    assert {call.reply.text for call in done} == {f"reply to {number}" for number in range(40)}


async def test_a_reply_of_the_team_is_saved_here_too(url: str, tmp_path: Path) -> None:
    with machine(tmp_path / "a", url) as a:
        await a.put(KEY, Reply("hi", "stop"), "backend", "model", run="run")
    with machine(tmp_path / "b", url) as b:
        assert b.get(KEY) is None
        assert await b.fetch(KEY) == Reply("hi", "stop")
        cached = b.look_up(KEY)
        assert cached is not None
        assert cached.was_paid_by({"run": inf})
        assert not cached.was_paid_by({"another": inf})
    with ReplyCache(tmp_path / "b" / "replies.sqlite") as alone:
        assert alone.get(KEY) == Reply("hi", "stop")


async def test_payments_of_a_run_are_added_up_over_machines(url: str, tmp_path: Path) -> None:
    with machine(tmp_path / "a", url) as a, machine(tmp_path / "b", url) as b:
        await a.put(KEY, Reply("hi", "stop"), "backend", "model", Payment("run", 0.5), "run")
        await a.charge("session 1", Payment("run", 3.0))
        await a.charge("session 1", Payment("run", -1.0))
        await b.charge("session 2", Payment("run", 4.0))
        await b.charge("session 2", Payment("another run", 8.0))
        expected = {bytes.fromhex(KEY): 0.5, b"session 1": 2.0, b"session 2": 4.0}
        assert a.payments_of("run") == b.payments_of("run") == expected


async def test_payments_from_before_the_machine_belonged_to_a_team_count(
    url: str, tmp_path: Path
) -> None:
    (tmp_path / "a").mkdir()
    with ReplyCache(tmp_path / "a" / "replies.sqlite") as alone:
        await alone.charge("session 1", Payment("run", 3.0))
    with machine(tmp_path / "a", url) as a:
        await a.charge("session 2", Payment("run", 1.0))
        assert a.payments_of("run") == {b"session 1": 3.0, b"session 2": 1.0}


async def test_a_claim_is_free_again_when_its_call_failed(url: str, tmp_path: Path) -> None:
    with machine(tmp_path / "a", url) as a, machine(tmp_path / "b", url) as b:
        assert await a.claim_shared(KEY)
        assert not await b.claim_shared(KEY)
        a.release(KEY)
        await until(lambda: b.claim_shared(KEY))  # the release is on its way
        assert not await a.claim_shared(KEY)


async def test_a_call_that_is_cancelled_before_it_is_claimed_is_free(
    url: str, tmp_path: Path
) -> None:
    with machine(tmp_path / "a", url) as a, machine(tmp_path / "b", url) as b:
        calls = paid_calls(Provider(), a)
        tasks = [asyncio.create_task(calls(request(str(number)))) for number in range(20)]
        for task in tasks:
            await asyncio.sleep(0.001)
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        provider = Provider()
        stack = paid_calls(provider, b)
        for number in range(20):
            call = await stack(request(str(number)))
            assert call.cached == (str(number) not in provider.asked)


HOLDER = """
    import asyncio, sys
    from pathlib import Path
    from harness.plugins.team.layer import TeamReplyCache

    async def main():
        with TeamReplyCache(Path(sys.argv[1]), sys.argv[2], lease_s=1.5) as replies:
            assert replies.claim(sys.argv[3]) and await replies.claim_shared(sys.argv[3])
            print("claimed", flush=True)
            await asyncio.sleep(3600)
    asyncio.run(main())
"""


@contextlib.contextmanager
def holder(folder: Path, url: str) -> Iterator[subprocess.Popen[str]]:
    """A process on a machine that has claimed a call."""
    folder.mkdir(exist_ok=True)
    started = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(HOLDER), folder / "replies.sqlite", url, KEY],
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert started.stdout is not None
        assert started.stdout.readline() == "claimed\n"
        yield started
    finally:
        started.kill()
        started.communicate()


async def test_a_killed_process_blocks_its_machine_not_at_all_and_others_for_the_lease(
    url: str, tmp_path: Path
) -> None:
    with holder(tmp_path / "a", url) as process, machine(tmp_path / "b", url) as b:
        for _ in range(30):  # twice the lease
            assert not await b.claim_shared(KEY)
            await asyncio.sleep(0.1)
        process.kill()
        process.wait()
        with machine(tmp_path / "a", url) as a:
            assert a.claim(KEY)
            assert await a.claim_shared(KEY)
            assert not await b.claim_shared(KEY)
    with holder(tmp_path / "c", url) as process, machine(tmp_path / "b", url, lease_s=1.5) as b:
        process.kill()
        await until(lambda: b.claim_shared(KEY))


async def test_a_restart_of_the_database_gives_no_call_away(
    postgres: Postgres, tmp_path: Path
) -> None:
    (url,) = postgres.database("acme")
    provider = Provider()
    provider.may_answer.clear()
    with machine(tmp_path / "a", url, lease_s=2) as a, machine(tmp_path / "b", url, lease_s=2) as b:
        first = asyncio.create_task(paid_calls(provider, a)(request("x")))
        await until(lambda: provider.asked["x"] == 1)
        await asyncio.to_thread(postgres.stop)
        await asyncio.sleep(3)  # longer than the lease
        await asyncio.to_thread(postgres.start)
        second = asyncio.create_task(paid_calls(provider, b)(request("x")))
        await asyncio.sleep(3)
        assert not second.done()
        provider.may_answer.set()
        assert not (await first).cached
        assert (await second).cached
    assert provider.asked == {"x": 1}


async def test_without_the_database_calls_in_flight_are_finished_and_sent_later(
    postgres: Postgres, tmp_path: Path
) -> None:
    (url,) = postgres.database("acme")
    provider = Provider()
    provider.may_answer.clear()
    said: list[str] = []
    with machine(tmp_path / "a", url, notice=said.append) as a:
        calls = paid_calls(provider, a, run_id="run")
        flying = [asyncio.create_task(calls(request(str(number)))) for number in range(5)]
        await until(lambda: provider.asked.total() == 5)
        await asyncio.to_thread(postgres.stop)
        provider.may_answer.set()
        for call in await asyncio.gather(*flying):
            assert a.get(call.id) == call.reply
        waiting = asyncio.create_task(calls(request("new")))
        await until(lambda: any("does not answer; waiting" in text for text in said))
        assert not waiting.done()
        assert "new" not in provider.asked
        await asyncio.to_thread(postgres.start)
        await waiting
        await until(lambda: said[-1] == "")
        assert len(rows(postgres, url)) == 6


async def test_what_a_killed_process_could_not_send_is_sent_by_the_next(
    postgres: Postgres, tmp_path: Path
) -> None:
    (url,) = postgres.database("acme")
    script = """
        import asyncio, os, signal, sys
        from pathlib import Path
        from harness.calls.reply_cache import Payment
        from harness.plugins.team.layer import TeamReplyCache
        from harness.records import Reply

        async def main():
            with TeamReplyCache(Path(sys.argv[1]), sys.argv[2]) as replies:
                print("open", flush=True)
                sys.stdin.readline()
                await replies.put(sys.argv[3], Reply("hi", "stop"), "b", "m", Payment("run", 0.5))
                os.kill(os.getpid(), signal.SIGKILL)
        asyncio.run(main())
    """
    path = tmp_path / "replies.sqlite"
    with subprocess.Popen(  # noqa: ASYNC220
        [sys.executable, "-c", textwrap.dedent(script), path, url, KEY],
        stdout=subprocess.PIPE,
        stdin=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "open\n"
        postgres.stop()
        process.communicate("go\n")
    postgres.start()
    assert rows(postgres, url) == []
    with TeamReplyCache(path, url) as next_one:
        assert next_one.payments_of("run") == {bytes.fromhex(KEY): 0.5}
        await until(lambda: rows(postgres, url) != [])
        assert next_one.payments_of("run") == {bytes.fromhex(KEY): 0.5}
    with ReplyCache(path) as alone:
        assert alone.read("SELECT * FROM unsent") == []


async def test_a_new_call_fails_when_its_patience_is_over(
    postgres: Postgres, tmp_path: Path
) -> None:
    (url,) = postgres.database("acme")
    provider = Provider()
    with machine(tmp_path / "a", url, patience_s=1) as a:
        postgres.stop()
        with pytest.raises(TeamUnreachable, match="cannot be reached"):
            await paid_calls(provider, a)(request("x"))
    assert not provider.asked


async def test_teams_pay_separately(postgres: Postgres, tmp_path: Path) -> None:
    acme, other = postgres.database("acme", "other")
    provider = Provider()
    with machine(tmp_path / "a", acme) as a, machine(tmp_path / "b", other) as b:
        await paid_calls(provider, a)(request("x"))
        await paid_calls(provider, b)(request("x"))
    assert provider.asked == {"x": 2}


async def test_prompts_and_encrypted_replies_are_not_in_the_database(
    postgres: Postgres, tmp_path: Path
) -> None:
    (url,) = postgres.database("acme")
    with machine(tmp_path / "a", url, key=SECRET) as a:
        call = await paid_calls(Provider(), a, run_id="run")(request("a private prompt"))
    assert call.reply.text == "reply to a private prompt"
    database = url.rpartition("/")[2]
    dumped = "".join(
        str(postgres.execute(f"SELECT t::text FROM harness.{table} t", database))
        for table in ("teams", "replies", "payments", "owners", "claims")
    )
    assert call.id in dumped
    for part in (b"private prompt", b"reply to"):
        assert part.decode() not in dumped
        assert part.hex() not in dumped
    with machine(tmp_path / "b", url, key=SECRET) as b:
        assert await b.fetch(call.id) == call.reply


@pytest.mark.parametrize(
    ("first", "second", "message"),
    [
        (SECRET, OTHER, "are encrypted with another key"),
        (SECRET, None, "are encrypted with a key"),
        (None, SECRET, "are not encrypted"),
    ],
)
def test_another_key_is_an_error_before_anything_is_paid(
    url: str, tmp_path: Path, first: str | None, second: str | None, message: str
) -> None:
    machine(tmp_path / "a", url, key=first).close()
    with pytest.raises(StoreFailed, match=message) as raised:
        machine(tmp_path / "b", url, key=second)
    assert "HARNESS_CACHE_KEY" in raised.value.remedy


async def test_calls_of_a_batch_stay_claimed_until_it_ends(url: str, tmp_path: Path) -> None:
    async with asyncio.timeout(60):
        with machine(tmp_path / "b", url, lease_s=0.2) as b:
            with machine(tmp_path / "a", url, lease_s=0.2) as a:
                assert await a.claim_shared(KEY)
                await a.keep_claims("tag", [KEY])
                a.release(KEY)
            await asyncio.sleep(0.5)  # longer than the lease
            assert not await b.claim_shared(KEY)
            with machine(tmp_path / "a", url, lease_s=0.2) as a:
                await a.release_claims("another", [KEY])
                assert not await b.claim_shared(KEY)
                await a.release_claims("tag", [KEY])
            assert await b.claim_shared(KEY)


def test_looking_at_a_team_does_not_decide_its_key(url: str, tmp_path: Path) -> None:
    assert team_facts(url, None).replies == 0
    machine(tmp_path / "a", url, key=SECRET).close()
    with pytest.raises(StoreFailed, match="are encrypted with a key"):
        team_facts(url, None)


@pytest.mark.parametrize("key", ["secret", "c2hvcnQ=", "ü"])
def test_a_malformed_key_is_not_quoted(url: str, tmp_path: Path, key: str) -> None:
    with pytest.raises(ConfigError, match="HARNESS_CACHE_KEY is not a key") as raised:
        machine(tmp_path, url, key=key)
    assert key not in str(raised.value).replace("HARNESS_CACHE_KEY", "")


async def test_a_reply_that_was_altered_in_the_database_is_paid_for_again(
    postgres: Postgres, tmp_path: Path
) -> None:
    (url,) = postgres.database("acme")
    said: list[str] = []
    with machine(tmp_path / "a", url, key=SECRET, lease_s=0.1) as a:
        await paid_calls(Provider(), a)(request("x"))
    postgres.execute("UPDATE harness.replies SET reply = reply || 'x'", url.rpartition("/")[2])
    provider = Provider()
    with machine(tmp_path / "b", url, key=SECRET, lease_s=0.1, notice=said.append) as b:
        call = await paid_calls(provider, b)(request("x"))
        assert b.get(call.id) == call.reply
    assert provider.asked == {"x": 1}
    assert any("is damaged" in text for text in said)


def test_a_machine_alone_imports_no_client_of_the_database(tmp_path: Path) -> None:
    script = """
        import sys
        from harness.config.settings import Settings
        from harness.engine.replies import open_cache
        open_cache(Settings()).close()
        print([name for name in sys.modules if "psycopg" in name or "team.database" in name])
    """
    said = subprocess.check_output(
        [sys.executable, "-c", textwrap.dedent(script)],
        env={"HARNESS_CACHE_DIR": str(tmp_path), "HOME": str(tmp_path)},
        text=True,
    )
    assert said == "[]\n"
