"""Real processes on one file of replies: killed in the middle, and after the same calls."""

import asyncio
import contextlib
import sqlite3
import time
from collections import Counter
from pathlib import Path

import pytest

from harness.calls.reply_cache import ReplyCache
from harness.calls.signals import Ask
from harness.records import Reply, Request
from tests.calls.paid import paid_calls
from tests.calls.processes import line, output, process, spent, tell
from tests.calls.test_calls import request
from tests.conftest import Scripted

# Asks for 300 calls, 20 at once, of a provider that writes every call down, and is slow.
ASKER = """
    log = os.open(sys.argv[2], os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    async def ask(request):
        text = request.messages[0].content
        os.write(log, f"{text} {os.getpid()}\\n".encode())
        await asyncio.sleep(0.02)
        return Reply(text, "stop")

    async def main():
        with ReplyCache(path) as replies:
            calls = paid_calls(ask, replies)
            print("ready", flush=True)
            sys.stdin.readline()
            numbers, paid = iter(range(300)), 0

            async def work():
                nonlocal paid
                for number in numbers:
                    call = await calls(request(number))
                    assert call.reply.text == str(number)
                    paid += not call.cached
            async with asyncio.TaskGroup() as group:
                for _ in range(20):
                    group.create_task(work())
            print(paid)
    asyncio.run(main())
"""

# Puts until it is killed; says which puts have returned.
WRITER = """
    async def main():
        first = int(sys.argv[2])
        with ReplyCache(path) as replies:
            async def put(number):
                await replies.put(key(number), Reply(f"{number} " * 200, "stop"), "b", "m",
                                  Payment("run", 0.25))
                assert replies.get(key(number))
                sys.stdout.write(f"{number}\\n")
                sys.stdout.flush()
            numbers = iter(range(first, first + 1_000_000))
            async def work():
                for number in numbers:
                    await put(number)
            await asyncio.gather(*(work() for _ in range(30)))
    asyncio.run(main())
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "replies.sqlite"


def asked(log: Path) -> Counter[str]:
    return Counter(entry.split()[0] for entry in log.read_text().splitlines())


def test_processes_that_ask_for_the_same_pay_for_each_call_once(path: Path) -> None:
    number = 3
    log = path.with_name("calls.log")
    with contextlib.ExitStack() as started:
        askers = [started.enter_context(process(ASKER, path, log)) for _ in range(number)]
        assert [line(asker) for asker in askers] == ["ready"] * number
        for asker in askers:
            tell(asker)
        paid = [int(output(asker)) for asker in askers]
    assert asked(log) == {str(number): 1 for number in range(300)}
    assert sum(paid) == 300


def test_one_is_killed_the_other_pays_only_for_what_was_in_flight(path: Path) -> None:
    log = path.with_name("calls.log")
    with process(ASKER, path, log) as one, process(ASKER, path, log) as two:
        assert [line(asker) for asker in (one, two)] == ["ready"] * 2
        for asker in (one, two):
            tell(asker)
        end = time.monotonic() + 60
        while not log.exists() or len(log.read_text().splitlines()) < 100:
            assert time.monotonic() < end
            time.sleep(0.005)
        one.kill()
        output(two)
    found = asked(log)
    assert set(found) == {str(number) for number in range(300)}
    assert sum(found.values()) <= 300 + 20


async def test_who_is_killed_in_the_middle_of_a_call_holds_nobody_up(path: Path) -> None:
    script = """
        async def ask(request):
            print("asked", flush=True)
            await asyncio.sleep(60)

        async def main():
            with ReplyCache(path) as replies:
                calls = paid_calls(ask, replies)
                await calls(Request("m", (Message("user", "What is 1 + 1?"),), Decoding(), 0,
                                    Origin("a", 0, 1)))
        asyncio.run(main())
    """
    backend = Scripted()
    with ReplyCache(path) as replies, process(script, path) as owner:
        assert line(owner) == "asked"
        calls = paid_calls(backend.generate, replies)
        waiting = asyncio.create_task(calls(request()))
        await asyncio.sleep(0.5)
        assert not waiting.done()
        assert not backend.requests
        owner.kill()
        call = await asyncio.wait_for(waiting, 30)
    assert (call.reply.text, call.cached) == ("2", False)


async def test_what_another_process_has_paid_for_is_taken_when_it_is_there(path: Path) -> None:
    script = """
        async def ask(request):
            print("asked", flush=True)
            await asyncio.sleep(1)
            return Reply("theirs", "stop")

        async def main():
            with ReplyCache(path) as replies:
                calls = paid_calls(ask, replies)
                await calls(Request("m", (Message("user", "What is 1 + 1?"),), Decoding(), 0,
                                    Origin("a", 0, 1)))
                await asyncio.sleep(60)
        asyncio.run(main())
    """
    backend = Scripted()
    with ReplyCache(path) as replies, process(script, path) as owner:
        assert line(owner) == "asked"
        calls = paid_calls(backend.generate, replies)
        call = await asyncio.wait_for(calls(request()), 30)
    assert (call.reply.text, call.cached) == ("theirs", True)
    assert not backend.requests


@pytest.mark.parametrize("first", ["this", "the other"])
async def test_a_reply_that_came_while_a_call_waited_for_its_turn_is_taken(
    path: Path, first: str
) -> None:
    script = """
        async def ask(request):
            return Reply("theirs", "stop")

        async def main():
            with ReplyCache(path) as replies:
                print("open", flush=True)
                sys.stdin.readline()
                calls = paid_calls(ask, replies)
                await calls(Request("m", (Message("user", "What is 1 + 1?"),), Decoding(), 0,
                                    Origin("a", 0, 1)))
            print("paid", flush=True)
        asyncio.run(main())
    """
    backend, turn = Scripted(), asyncio.Event()

    def between(send: Ask) -> Ask:
        async def wait(request: Request) -> Reply:
            await turn.wait()
            return await send(request)

        return wait

    with contextlib.ExitStack() as stack:
        if first == "this":
            replies = stack.enter_context(ReplyCache(path))
        other = stack.enter_context(process(script, path))
        assert line(other) == "open"
        if first == "the other":
            replies = stack.enter_context(ReplyCache(path))
        calls = paid_calls(backend.generate, replies, between=between)
        waiting = asyncio.create_task(calls(request()))
        await asyncio.sleep(0)  # it has looked the reply up
        tell(other)
        assert line(other) == "paid"
        turn.set()
        call = await waiting
    assert (call.reply.text, call.cached) == ("theirs", True)
    assert not backend.requests


def test_every_put_that_returned_outlives_kill_9_of_many_writers(path: Path) -> None:
    said: set[int] = set()
    for attempt in range(2):
        with contextlib.ExitStack() as started:
            writers = [
                started.enter_context(process(WRITER, path, 10_000_000 * (3 * attempt + n)))
                for n in range(3)
            ]
            for writer in writers:
                said |= {int(line(writer)) for _ in range(100)}
            for writer in writers:
                writer.kill()
                said_last, _ = writer.communicate(timeout=60)
                rest = said_last.decode().split("\n")[:-1]  # the last line may be torn
                said |= {int(number) for number in rest}
        with contextlib.closing(sqlite3.connect(path)) as file:
            assert file.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    with ReplyCache(path) as replies, contextlib.closing(sqlite3.connect(path)) as file:
        assert len(said) >= 600
        for number in said:
            assert replies.get(f"{number:032x}") == Reply(f"{number} " * 200, "stop")
        kept, paid = file.execute(
            "SELECT (SELECT count(*) FROM replies), (SELECT count(*) FROM payments)"
        ).fetchone()
        assert kept == paid
        assert spent(replies, ["run"]) == 0.25 * kept
