import asyncio
import contextlib
import math
import signal
import sqlite3
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.calls.database import Write, file_system_type
from harness.calls.reply_cache import Payment, ReplyCache
from harness.errors import StoreFailed
from harness.records import Reply, TokenLogprob, Usage
from tests.calls.processes import process, spent

REPLY = Reply("Grüße\n\0", "stop", Usage(1, 2, 3, 4), "m", 0.5)


def key(number: int) -> str:
    return f"{number:032x}"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "deep" / "replies.sqlite"


async def test_what_was_put_is_got_again_by_a_later_process(path: Path) -> None:
    with ReplyCache(path) as replies:
        assert replies.get(key(1)) is None
        await replies.put(key(1), REPLY, "openai", "m")
        assert replies.get(key(1)) == REPLY
    with ReplyCache(path) as replies:
        assert replies.get(key(1)) == REPLY


async def test_a_reply_that_the_provider_interrupted_is_replaced(path: Path) -> None:
    with ReplyCache(path) as replies:
        await replies.put(key(1), Reply("half", "network_error"), "openai", "m")
    with ReplyCache(path) as replies:
        assert replies.get(key(1)) is None
        await replies.put(key(1), REPLY, "openai", "m")
        assert replies.get(key(1)) == REPLY
    with ReplyCache(path) as replies:
        assert replies.get(key(1)) == REPLY


class EarlierReply(msgspec.Struct, frozen=True):
    """The fields of a reply that version 0.1 requires."""

    text: str
    finish_reason: str
    usage: Usage | None = None


LOGPROBS = ((TokenLogprob("a", -0.5),),)
FULL = Reply(
    *("a", "stop", Usage(1, 2, 3, 4, 5), "m", 0.5, "reasoning", LOGPROBS, LOGPROBS[0]),
    *(True, "{}", "flex", {1: Reply("Yes.", "stop", Usage(3, 1))}, 0.25),
)
"""A reply with all fields set."""
STORED = bytes.fromhex(
    "8fa474657874a161ad66696e6973685f726561736f6ea473746f70a5757361676585ac696e7075745f746f6b"
    "656e7301ad6f75747075745f746f6b656e7302b36361636865645f696e7075745f746f6b656e7303b0726561"
    "736f6e696e675f746f6b656e7304b263616368655f77726974655f746f6b656e7305a56d6f64656ca16da96c"
    "6174656e63795f73cb3fe0000000000000a9726561736f6e696e67a9726561736f6e696e67a86c6f6770726f"
    "6273919192a161cbbfe0000000000000af70726f6d70745f6c6f6770726f62739192a161cbbfe00000000000"
    "00a56261746368c3af726561736f6e696e675f7374617465a27b7da474696572a4666c6578a66f7468657273"
    "81018ca474657874a45965732ead66696e6973685f726561736f6ea473746f70a5757361676585ac696e7075"
    "745f746f6b656e7303ad6f75747075745f746f6b656e7301b36361636865645f696e7075745f746f6b656e73"
    "00b0726561736f6e696e675f746f6b656e7300b263616368655f77726974655f746f6b656e7300a56d6f6465"
    "6cc0a96c6174656e63795f73cb0000000000000000a9726561736f6e696e67c0a86c6f6770726f6273c0af70"
    "726f6d70745f6c6f6770726f6273c0a56261746368c2af726561736f6e696e675f7374617465c0a474696572"
    "c0a66f746865727380a8636f73745f757364cb3fd0000000000000a372756ea372756ea3637263c404aa7417"
    "ef"
)
"""The same in a cache, as written before the class of stored replies was introduced."""


async def test_a_stored_reply_has_the_same_form_as_before(path: Path) -> None:
    with ReplyCache(path) as replies:
        row = bytes.fromhex(key(1)), STORED, "openai", "m", 1.0
        await replies.write(Write([row]))
        await replies.put(key(2), FULL, "openai", "m")
        assert replies.get(key(1)) == replies.get(key(2)) == FULL
        assert replies.was_paid(key(1), ["run"])
        await replies.write(Write((), (), [("DELETE FROM replies", ())]))
        await replies.put(key(1), FULL, "openai", "m", run="run")
        [(stored,)] = replies.read("SELECT reply FROM replies")
    assert stored == STORED


def test_replies_of_a_version_with_more_fields_are_read(path: Path) -> None:
    """MessagePack encodes a map of 16 or more keys differently."""
    later = """
        import asyncio, sys
        from pathlib import Path
        import msgspec
        from harness import records

        fields = [(name, int, number) for number, name in enumerate(("x", "y", "z"))]
        records.Reply = msgspec.defstruct("Reply", fields, bases=(records.Reply,), frozen=True)

        from harness.calls.reply_cache import ReplyCache

        async def main() -> None:
            with ReplyCache(Path(sys.argv[1])) as replies:
                reply = records.Reply("Yes.", "stop", z=7)
                await replies.put(f"{1:032x}", reply, "openai", "m", run="run")
                assert replies.get(f"{1:032x}") == reply

        asyncio.run(main())
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(later), str(path)], check=True)
    with ReplyCache(path) as replies:
        assert replies.get(key(1)) == Reply("Yes.", "stop")
        assert replies.was_paid(key(1), ["run"])


async def test_an_earlier_version_reads_a_reply_with_all_fields_set(path: Path) -> None:
    with ReplyCache(path) as replies:
        await replies.put(key(1), FULL, "openai", "m", run="run")
        assert replies.get(key(1)) == FULL
        assert replies.was_paid(key(1), ["run"])
        [(stored,)] = replies.read("SELECT reply FROM replies")
    read = msgspec.msgpack.decode(stored, type=EarlierReply)
    assert read == EarlierReply("a", "stop", Usage(1, 2, 3, 4, 5))


@pytest.mark.parametrize("locked", [True, False])
async def test_a_reply_that_nobody_waits_for_and_that_is_not_saved_is_reported(
    path: Path, locked: bool
) -> None:
    notices: list[str] = []
    replies = ReplyCache(path, max_lock_wait_s=0, notify=notices.append)
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as other:
        if locked:
            other.execute("BEGIN EXCLUSIVE")
        for number in range(2):
            replies.put(key(number), REPLY, "openai", "m").cancel()  # as by Ctrl-C
        replies.close()
    expected = [f"2 paid replies could not be saved in {path}."] if locked else []
    assert notices == expected


async def test_the_first_reply_of_a_key_stays(path: Path) -> None:
    with ReplyCache(path) as replies:
        await replies.put(key(1), REPLY, "openai", "m")
        await replies.put(key(1), Reply("other", "stop"), "openai", "m")
        assert replies.get(key(1)) == REPLY


async def test_many_puts_at_once_are_all_there(path: Path) -> None:
    with ReplyCache(path) as replies:
        await asyncio.gather(
            *(replies.put(key(n), Reply(str(n), "stop"), "b", "m") for n in range(500))
        )
        texts = [reply.text for n in range(500) if (reply := replies.get(key(n)))]
        assert texts == [str(n) for n in range(500)]


async def test_two_open_files_share_their_replies(path: Path) -> None:
    with ReplyCache(path) as one, ReplyCache(path) as two:
        await one.put(key(1), REPLY, "b", "m")
        await two.put(key(2), REPLY, "b", "m")
        assert one.get(key(2)) == two.get(key(1)) == REPLY


def test_a_put_that_returned_survives_kill_9(path: Path) -> None:
    script = """
        import asyncio, os, signal, sys
        from pathlib import Path
        from harness.calls.reply_cache import ReplyCache
        from harness.records import Reply

        async def main() -> None:
            replies = ReplyCache(Path(sys.argv[1]))
            await asyncio.gather(
                *(replies.put(f"{n:032x}", Reply(str(n), "stop"), "b", "m") for n in range(100))
            )
            os.kill(os.getpid(), signal.SIGKILL)

        asyncio.run(main())
    """
    died = subprocess.run([sys.executable, "-c", textwrap.dedent(script), str(path)], check=False)
    assert died.returncode == -signal.SIGKILL
    with ReplyCache(path) as replies:
        assert all(replies.get(key(n)) for n in range(100))


async def test_safe_mode_needs_no_shared_memory(path: Path) -> None:
    with ReplyCache(path, shared_memory=False) as replies:
        assert replies.journal_mode == "delete"
        await replies.put(key(1), REPLY, "b", "m")
        assert not list(path.parent.glob("*-shm"))
    with ReplyCache(path, shared_memory=True) as replies:
        assert replies.journal_mode == "wal"
        assert replies.get(key(1)) == REPLY


def test_the_file_system_of_a_path_is_that_of_its_deepest_mount(tmp_path: Path) -> None:
    home = tmp_path / "home"
    (home / "me here").mkdir(parents=True)
    mounts = tmp_path / "mounts"
    spaced = str(home / "me here").replace(" ", "\\040")
    mounts.write_text(
        f"/dev/a / ext4 rw 0 0\nserver:/x {home} nfs4 rw 0 0\nd {spaced} tmpfs rw 0 0\n"
    )
    assert file_system_type(tmp_path, mounts) == "ext4"
    assert file_system_type(home / "you", mounts) == "nfs4"
    assert file_system_type(home / "me here" / "x", mounts) == "tmpfs"
    assert file_system_type(home, tmp_path / "none") == ""


async def test_a_write_that_fails_is_an_error_and_earlier_replies_stay(path: Path) -> None:
    with ReplyCache(path) as replies:
        await replies.put(key(1), REPLY, "b", "m")
        with contextlib.closing(sqlite3.connect(path)) as other, other:
            other.execute("DROP TABLE replies")
        with pytest.raises(StoreFailed, match="Cannot write the cache"):
            await replies.put(key(2), REPLY, "b", "m")


def test_a_full_disk_is_an_error_and_not_a_crash(tmp_path: Path) -> None:
    """RLIMIT_FSIZE stands for the full disk: writing past it fails in the same way."""
    script = """
        import asyncio, resource, signal, sys
        from pathlib import Path
        from harness.errors import StoreFailed
        from harness.calls.reply_cache import ReplyCache
        from harness.records import Reply

        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 18, 1 << 18))

        async def main() -> None:
            with ReplyCache(Path(sys.argv[1])) as replies:
                for n in range(1000):
                    await replies.put(f"{n:032x}", Reply("x" * 5000, "stop"), "b", "m")

        try:
            asyncio.run(main())
        except StoreFailed as error:
            print(error)
    """
    path = tmp_path / "replies.sqlite"
    ended = subprocess.run(
        [sys.executable, "-B", "-c", textwrap.dedent(script), str(path)],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "Cannot write the cache" in ended.stdout
    assert "Free some space" in ended.stdout
    with ReplyCache(path) as replies:
        assert replies.get(key(0)) == Reply("x" * 5000, "stop")


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


def test_a_cache_with_a_second_name_is_refused(path: Path) -> None:
    """Under another name, another process would not see the claims on calls of this one."""
    ReplyCache(path).close()
    other = path.with_name("other.sqlite")
    other.hardlink_to(path)
    for name in (path, other):
        with pytest.raises(StoreFailed, match="has a second name"):
            ReplyCache(name)
    other.unlink()
    ReplyCache(path).close()
