"""The file of replies among others that hold it, or on a file system that cannot carry it."""

import asyncio
import contextlib
import os
import sqlite3
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.calls.reply_cache import ReplyCache, StoreBusy
from harness.errors import StoreFailed
from harness.records import Reply
from tests.calls.processes import line, output, process, spent

REPLY = Reply("x", "stop")

# Holds the file for some seconds, as a backup would, or until it is killed.
HOLDER = """
    import sqlite3
    file = sqlite3.connect(path, isolation_level=None)
    file.execute("BEGIN " + sys.argv[2])
    print("held", flush=True)
    time.sleep(float(sys.argv[3]))
    file.execute("COMMIT")
    print("free", flush=True)
"""


def key(number: int) -> str:
    return f"{number:032x}"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "replies.sqlite"


async def test_a_write_waits_for_one_who_holds_the_file_and_says_so_once(path: Path) -> None:
    told: list[str] = []
    with ReplyCache(path, notify=told.append) as replies:
        with process(HOLDER, path, "IMMEDIATE", 2.8) as other:
            assert line(other) == "held"
            await asyncio.gather(*(replies.put(key(n), REPLY, "b", "m") for n in range(20)))
            assert output(other) == "free\n"
        assert told == [f"The cache {path} is held by another process; waiting.", ""]
        assert all(replies.get(key(n)) == REPLY for n in range(20))


async def test_a_write_does_not_wait_for_ever(path: Path) -> None:
    with ReplyCache(path, max_lock_wait_s=0.2) as replies:
        with process(HOLDER, path, "IMMEDIATE", 60) as other:
            assert line(other) == "held"
            with pytest.raises(StoreFailed, match=r"another process holds it\..*Run again when"):
                await replies.put(key(1), REPLY, "b", "m")
        await replies.put(key(1), REPLY, "b", "m")
        assert replies.get(key(1)) == REPLY


async def test_a_write_that_has_waited_long_is_not_lost_when_the_run_ends(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is closing waits for the holder from then on, as its replies have been paid for."""
    monkeypatch.setattr("harness.calls.reply_cache.LOCK_TIMEOUT_S", 1.0)
    replies = ReplyCache(path)
    with process(HOLDER, path, "IMMEDIATE", 2.0) as other:
        assert line(other) == "held"
        saved = replies.put(key(1), REPLY, "b", "m")
        await asyncio.sleep(1.3)
        replies.close()
        await saved
        assert output(other) == "free\n"


async def test_closing_does_not_wait_for_ever(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("harness.calls.reply_cache.LOCK_TIMEOUT_S", 0.2)
    replies = ReplyCache(path)
    with process(HOLDER, path, "IMMEDIATE", 60) as other:
        assert line(other) == "held"
        saved = replies.put(key(1), REPLY, "b", "m")
        replies.close()
        with pytest.raises(StoreFailed, match="another process holds it"):
            await saved


async def test_in_the_safe_mode_a_read_waits_and_the_event_loop_goes_on(path: Path) -> None:
    told: list[str] = []
    with ReplyCache(path, shared_memory=False, notify=told.append) as replies:
        await replies.put(key(1), REPLY, "b", "m")
        ticks = 0

        async def tick() -> None:
            nonlocal ticks
            while True:
                await asyncio.sleep(0.01)
                ticks += 1

        with process(HOLDER, path, "EXCLUSIVE", 2.4) as other:
            assert line(other) == "held"
            with pytest.raises(StoreBusy):
                replies.get(key(1))
            ticking = asyncio.create_task(tick())
            assert await replies.find(key(1)) == REPLY
            ticking.cancel()
            assert output(other) == "free\n"
        assert ticks > 20
        assert told == [f"The cache {path} is held by another process; waiting."]
        await replies.put(key(2), REPLY, "b", "m")
        assert told[1:] == [""]


async def test_a_read_may_wait_in_its_thread(path: Path) -> None:
    """As that of a dry run, for which nobody else waits."""
    with ReplyCache(path, shared_memory=False) as replies:
        await replies.put(key(1), REPLY, "b", "m")
        with process(HOLDER, path, "EXCLUSIVE", 0.5) as other:
            assert line(other) == "held"
            assert replies.get(key(1), wait_s=60) == REPLY


async def test_a_read_in_the_safe_mode_does_not_wait_for_ever(path: Path) -> None:
    with (
        ReplyCache(path, shared_memory=False, max_lock_wait_s=0.2) as replies,
        process(HOLDER, path, "EXCLUSIVE", 60) as other,
    ):
        assert line(other) == "held"
        with pytest.raises(StoreFailed, match="another process holds it"):
            await replies.find(key(1))
        with pytest.raises(StoreFailed, match="another process holds it"):
            replies.get(key(1))


async def test_two_files_in_the_safe_mode_share_what_they_write(path: Path) -> None:
    with ReplyCache(path, shared_memory=False) as one, ReplyCache(path, shared_memory=False) as two:
        await asyncio.gather(
            *((one, two)[n % 2].put(key(n), REPLY, "b", "m") for n in range(100)),
            *((one, two)[n % 2].find(key(n)) for n in range(100)),
        )
        for n in range(100):
            assert await one.find(key(n)) == await two.find(key(n)) == REPLY


async def test_where_the_log_cannot_be_turned_on_the_safe_mode_is_used(path: Path) -> None:
    told: list[str] = []
    path.with_name("replies.sqlite-shm").mkdir()  # where SQLite maps the shared memory
    with ReplyCache(path, shared_memory=True, notify=told.append) as replies:
        assert replies.journal_mode == "delete"
        await replies.put(key(1), REPLY, "b", "m")
        assert replies.get(key(1)) == REPLY
    assert len(told) == 1
    assert "safe mode" in told[0]


async def test_a_file_with_a_log_where_none_can_be_had(path: Path) -> None:
    """As when a cache moves to another file system."""
    with ReplyCache(path, shared_memory=True) as replies:
        await replies.put(key(1), REPLY, "b", "m")
    path.with_name("replies.sqlite-shm").mkdir()
    with ReplyCache(path, shared_memory=True) as replies:
        assert replies.get(key(1)) == REPLY
        await replies.put(key(2), REPLY, "b", "m")
        assert replies.journal_mode == "delete"
        assert replies.get(key(2)) == REPLY


OLD = """
CREATE TABLE replies (
    key BLOB PRIMARY KEY, reply BLOB NOT NULL, backend TEXT NOT NULL, model TEXT NOT NULL,
    created REAL NOT NULL
)
"""


def database(path: Path, *statements: str) -> None:
    with contextlib.closing(sqlite3.connect(path)) as file, file:
        for statement in statements:
            file.execute(statement)


def version(path: Path) -> int:
    with contextlib.closing(sqlite3.connect(path)) as file:
        found: int = file.execute("PRAGMA user_version").fetchone()[0]
        return found


async def test_a_file_of_before_the_payments_is_taken_over_in_silence(path: Path) -> None:
    with ReplyCache(path) as replies:
        await replies.put(key(1), REPLY, "b", "m")
    database(path, "DROP TABLE payments", "PRAGMA user_version = 0")
    told: list[str] = []
    with ReplyCache(path, notify=told.append) as replies:
        assert replies.get(key(1)) == REPLY
        assert spent(replies, ["run"]) == 0
    assert told == []
    assert version(path) == 1


@pytest.mark.parametrize(
    ("statements", "said"),
    [
        ([OLD, "PRAGMA user_version = 2"], r"written by a newer harness \(format 2, here 1\)"),
        ([OLD.replace("backend TEXT NOT NULL, ", "")], "other tables or columns"),
        ([OLD, "CREATE TABLE payments (run, usd)"], "other tables or columns"),
        (["CREATE TABLE bookmarks (id)"], "other tables or columns"),
    ],
)
def test_a_file_that_is_not_ours_is_left_as_it_is(
    path: Path, statements: list[str], said: str
) -> None:
    database(path, *statements)
    before = path.read_bytes()
    with pytest.raises(StoreFailed, match=said) as caught:
        ReplyCache(path)
    assert "HARNESS_CACHE_DIR" in caught.value.remedy
    assert path.read_bytes() == before


def test_in_a_new_folder_there_is_nothing_to_tell(tmp_path: Path) -> None:
    told: list[str] = []
    with ReplyCache(tmp_path / "deep" / "er" / "replies.sqlite", notify=told.append) as replies:
        assert replies.journal_mode == "wal"
    assert told == []


def test_a_folder_in_its_place_is_an_error(path: Path) -> None:
    path.mkdir()
    with pytest.raises(StoreFailed, match=r"Cannot open the cache .*replies\.sqlite"):
        ReplyCache(path)


@pytest.fixture
def unwritable(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "closed"
    folder.mkdir()
    folder.chmod(stat.S_IRUSR | stat.S_IXUSR)
    yield folder / "replies.sqlite"
    folder.chmod(stat.S_IRWXU)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_may_not_be_written(unwritable: Path) -> None:
    with pytest.raises(StoreFailed, match="permissions"):
        ReplyCache(unwritable)
