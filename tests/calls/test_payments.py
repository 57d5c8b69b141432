"""The book of payments: written with the replies, summed over runs, there after a crash."""

import contextlib
import math
import signal
import sqlite3
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.calls.reply_cache import Payment, ReplyCache
from harness.records import Reply
from tests.calls.processes import process, spent

REPLY = Reply("x", "stop")


def key(number: int) -> str:
    return f"{number:032x}"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "replies.sqlite"


def rows(path: Path) -> int:
    with contextlib.closing(sqlite3.connect(path)) as file:
        found: int = file.execute("SELECT count(*) FROM payments").fetchone()[0]
        return found


async def test_a_payment_stands_beside_its_reply_and_outlives_the_session(path: Path) -> None:
    with ReplyCache(path) as replies:
        await replies.put(key(1), REPLY, "b", "m", Payment("one", 0.1))
        await replies.put(key(1), REPLY, "b", "m", Payment("two", 0.2))
        await replies.charge("a call that was answered with nothing", Payment("one", 0.3))
        await replies.charge(b"\0\xff", Payment("one", 0.0))
    with ReplyCache(path) as replies:
        assert spent(replies, ["one"]) == math.fsum([0.1, 0.3])
        assert spent(replies, ["one", "two", "one"]) == math.fsum([0.1, 0.2, 0.3])
        assert spent(replies, []) == spent(replies, ["none"]) == 0.0
        assert replies.get(key(1)) == REPLY


async def test_what_is_paid_again_has_cost_both_times(path: Path) -> None:
    with ReplyCache(path) as replies:
        for usd in (0.25, 0.5):
            await replies.put(key(1), REPLY, "b", "m", Payment("run", usd))
        assert spent(replies, ["run"]) == 0.75
    assert rows(path) == 1


async def test_a_run_without_a_budget_writes_no_payments(path: Path) -> None:
    with ReplyCache(path) as replies:
        await replies.put(key(1), REPLY, "b", "m")
    assert rows(path) == 0


async def test_names_that_no_file_could_hold(path: Path) -> None:
    with ReplyCache(path) as replies:
        await replies.put(key(1), REPLY, "b\ud800", "m\ud800", Payment("run\ud800", 1.0))
        assert spent(replies, ["run\ud800"]) == 1.0


@settings(max_examples=10, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["a", "b", "c"]),
            st.floats(0, 1e6, allow_subnormal=False),
            st.booleans(),
        ),
        max_size=40,
    )
)
async def test_the_sum_is_that_of_all_payments(paid: list[tuple[str, float, bool]]) -> None:
    with tempfile.TemporaryDirectory() as folder, ReplyCache(Path(folder) / "r.sqlite") as replies:
        for number, (run, usd, kept) in enumerate(paid):
            if kept:
                await replies.put(key(number), REPLY, "b", "m", Payment(run, usd))
            else:
                await replies.charge(key(number), Payment(run, usd))
        for runs in ({"a"}, {"b", "c"}, {"a", "b", "c"}):
            assert spent(replies, runs) == math.fsum(usd for run, usd, _ in paid if run in runs)


def test_reply_and_payment_are_there_both_or_neither_after_kill_9(path: Path) -> None:
    script = """
        async def main():
            with ReplyCache(path) as replies:
                async def put(n):
                    await replies.put(key(n), Reply("x" * 3000, "stop"), "b", "m",
                                      Payment("run", 0.5))
                    if n == 300:
                        os.kill(os.getpid(), signal.SIGKILL)
                await asyncio.gather(*(put(n) for n in range(10_000)))
        asyncio.run(main())
    """
    with process(script, path) as dying:
        assert dying.wait(timeout=60) == -signal.SIGKILL
    with ReplyCache(path) as replies, contextlib.closing(sqlite3.connect(path)) as file:
        kept, lone = file.execute(
            "SELECT count(*), sum(p.key IS NULL) FROM replies LEFT JOIN payments p USING (key)"
        ).fetchone()
        assert kept > 300
        assert not lone
        assert spent(replies, ["run"]) == 0.5 * kept
