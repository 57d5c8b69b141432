"""A damaged file is survived: it is kept, and a new one holds what is recorded elsewhere."""

import contextlib
import os
import random
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.calls.database import ReplyRow, marker_path
from harness.calls.reply_cache import Payment, ReplyCache, encode_reply
from harness.errors import StoreFailed
from harness.records import Reply, Usage
from tests.calls.processes import line, output, process, spent

PAGE = 4096
N = 400


def key(number: int) -> str:
    return f"{number * 0x9E3779B97F4A7C15F39CC0605CEDC835 % (1 << 128):032x}"


def reply(number: int) -> Reply:
    """Short ones, of which a page holds several, and some that need pages of their own."""
    text = f"{number}: " + "Grüße " * (3000 if number % 50 == 7 else 60)
    return Reply(text, "stop", Usage(number, 2), "m", 0.5)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "replies.sqlite"


async def fill(path: Path) -> None:
    with ReplyCache(path) as replies:
        for number in range(N):
            payment = Payment(f"run {number % 3}", float(number))
            await replies.put(key(number), reply(number), "b", "m", payment)


def kept_aside(path: Path) -> list[Path]:
    names = sorted(path.parent.glob(f"{path.name}.damaged-*"))
    return [name for name in names if not name.name.endswith(("-wal", "-shm", "-journal"))]


def overwrite(path: Path, at: float, content: bytes) -> bytes:
    """Overwrite a file from a byte, or from the page at a fraction; what it holds then."""
    if 0 < at < 1:
        at = int(at * path.stat().st_size) // PAGE * PAGE
    with path.open("r+b") as file:
        file.seek(int(at))
        file.write(content)
    return path.read_bytes()


def replace(path: Path, content: bytes) -> bytes:
    path.write_bytes(content)
    return content


def recorded() -> list[ReplyRow]:
    """What runs have recorded: every other reply."""
    return [(bytes.fromhex(key(n)), encode_reply(reply(n)), "b", "m", 1.0) for n in RECORDED]


RECORDED = range(0, N, 2)
ALL = sum(range(N))


def opened(path: Path) -> tuple[set[int], float, list[str]]:
    """Open a file; the replies that it has then, all payments, and what the user was told."""
    told: list[str] = []
    with ReplyCache(path, notify=told.append, restore=recorded) as replies:
        found = {number for number in range(N) if replies.get(key(number)) is not None}
        assert all(replies.get(key(number)) == reply(number) for number in found)
        paid = spent(replies, [f"run {number}" for number in range(3)])
    with contextlib.closing(sqlite3.connect(path)) as file:
        assert file.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        assert file.execute("SELECT count(*) FROM replies").fetchone() == (len(found),)
    assert not marker_path(path).exists()
    return found, paid, told


DAMAGE: dict[str, Callable[[Path], bytes]] = {
    "truncated": lambda path: replace(path, path.read_bytes()[: path.stat().st_size // 2 + 100]),
    "header garbled": lambda path: overwrite(path, 0, b"\xff" * 100),
    "schema overwritten": lambda path: overwrite(path, 100, b"\x55" * 1000),
    "random": lambda path: replace(path, random.Random(1).randbytes(50 * PAGE)),
    "text": lambda path: replace(path, b"no database, but long enough " * 1000),
}


@pytest.mark.parametrize("how", DAMAGE)
async def test_a_damaged_file_is_kept_and_a_new_one_filled(path: Path, how: str) -> None:
    await fill(path)
    damaged = DAMAGE[how](path)
    found, paid, told = opened(path)
    assert found == set(RECORDED)
    assert paid <= ALL
    [kept] = kept_aside(path)
    assert kept.read_bytes() == damaged
    assert len(told) == 1
    assert f"{len(found):,} replies" in told[0]
    assert f"sqlite3 {kept} .recover" in told[0]
    assert opened(path) == (found, paid, []), "once"


@pytest.mark.parametrize("content", [b"", b"S"])
async def test_an_emptied_file_is_damaged(path: Path, content: bytes) -> None:
    """A full disk or a failed copy empties a file. Without its log, it looks like a new one."""
    await fill(path)
    replace(path, content)
    found, paid, messages = opened(path)
    assert found == set(RECORDED)
    assert paid == 0.0
    assert "was damaged" in messages[0]
    [kept] = kept_aside(path)
    assert kept.read_bytes() == content
    assert opened(path) == (found, paid, []), "once"


@pytest.mark.parametrize("content", [b"", b"S"])
async def test_the_log_of_an_emptied_file_is_kept(path: Path, content: bytes) -> None:
    """SQLite would delete it. A process that was killed has left it behind."""
    killed = path.with_name("killed.sqlite")
    with ReplyCache(path) as replies:
        await replies.put(key(1), reply(1), "b", "m")
        log = path.with_name(f"{path.name}-wal").read_bytes()
    killed.write_bytes(content)
    killed.with_name(f"{killed.name}-wal").write_bytes(log)
    found, paid, told = opened(killed)
    assert (found, paid, len(told)) == (set(RECORDED), 0.0, 1)
    [kept] = kept_aside(killed)
    assert kept.with_name(f"{kept.name}-wal").read_bytes() == log


async def test_a_page_in_the_middle_is_met_in_a_run_and_recovered_by_the_next(path: Path) -> None:
    await fill(path)
    for place in (0.5, 0.25):
        overwrite(path, place, b"\xaa" * 3 * PAGE)
    with ReplyCache(path) as replies, pytest.raises(StoreFailed, match="Run again: it will be"):
        [replies.get(key(number)) for number in range(N)]
    assert marker_path(path).exists()
    found, paid, told = opened(path)
    assert found == set(RECORDED)
    assert paid > 0, "payments that SQLite can read count against the budget"
    assert len(told) == 1


DAMAGED_ROWS = {
    "a flipped bit": "UPDATE replies SET reply = CAST(replace(reply, '3:', '2:') AS BLOB)",
    "not a reply": "UPDATE replies SET reply = x'ffff'",
    "a number": "UPDATE replies SET reply = 7",
    "a text": "UPDATE replies SET reply = 'text'",
    "cut short": "UPDATE replies SET reply = substr(reply, 1, 40)",
    "the reply of another call": "UPDATE replies SET reply = "
    "(SELECT reply FROM replies AS other WHERE other.rowid = 1)",
}


@pytest.mark.parametrize("how", DAMAGED_ROWS)
async def test_a_damaged_row_is_a_miss_that_is_named_and_replaced(path: Path, how: str) -> None:
    """Not a verdict on a text that the model did not write."""
    await fill(path)
    with contextlib.closing(sqlite3.connect(path)) as file, file:
        file.execute(f"{DAMAGED_ROWS[how]} WHERE key = ?", (bytes.fromhex(key(3)),))
    told: list[str] = []
    with ReplyCache(path, notify=told.append) as replies:
        assert replies.get(key(3)) is None
        assert replies.get(key(3)) is None
        assert len(told) == 1, "once"
        assert f"The reply {key(3)} in the cache" in told[0]
        assert replies.get(key(2)) == reply(2)
        await replies.put(key(3), reply(3), "b", "m")
        assert replies.get(key(3)) == reply(3)
    found, paid, told = opened(path)
    assert (len(found), paid, told) == (N, ALL, []), "the rest of the file is as it was"


async def test_payments_that_are_no_amounts_are_an_error(path: Path) -> None:
    await fill(path)
    with contextlib.closing(sqlite3.connect(path)) as file, file:
        file.execute("UPDATE payments SET usd = 'much' WHERE run = 'run 1'")
    with ReplyCache(path) as replies:
        assert replies.payments_of("run 0")
        with pytest.raises(StoreFailed, match=r"is damaged: .*'much'\. Move the file away"):
            replies.payments_of("run 1")


async def test_damage_met_by_a_write(path: Path) -> None:
    await fill(path)
    with ReplyCache(path) as replies:
        overwrite(path, PAGE, b"\xaa" * 300 * PAGE)
        with pytest.raises(StoreFailed, match=r"damaged.*Run again"):
            await replies.put(key(N), reply(N), "b", "m")
    assert marker_path(path).exists()
    assert opened(path)[0] == set(RECORDED)


async def test_a_recovery_that_was_cut_short_is_taken_up_again(path: Path) -> None:
    await fill(path)
    kept = path.with_name(f"{path.name}.damaged-T")
    # Killed when it had chosen a name.
    marker_path(path).write_text(kept.name)
    content = overwrite(path, 0, bytes(PAGE))
    assert opened(path)[0] == set(RECORDED)
    assert kept.read_bytes() == content
    # When the damaged file was moved and the new one half made.
    os.unlink(path)  # noqa: PTH108
    marker_path(path).write_text(kept.name)
    path.with_name(f"{path.name}.rebuilding").write_text("half a database")
    path.with_name(f"{path.name}.rebuilding-journal").write_text("half a journal")
    assert opened(path)[0] == set(RECORDED)
    # When all was done except for removing the marker.
    marker_path(path).write_text(kept.name)
    assert opened(path) == (set(RECORDED), 0.0, [])
    assert kept_aside(path) == [kept]


async def test_a_damaged_file_that_was_moved_away_by_hand(path: Path) -> None:
    marker_path(path).touch()
    assert opened(path) == (set(), 0.0, [])


async def test_two_processes_that_open_a_damaged_file_at_once_recover_it_once(path: Path) -> None:
    await fill(path)
    overwrite(path, 0, b"\xff" * 100)
    script = """
        told = []
        with ReplyCache(path, notify=told.append) as replies:
            print(len(told), sum(replies.get(name) is not None for name in sys.argv[2:]))
    """
    keys = [key(number) for number in range(N)]
    with process(script, path, *keys) as one, process(script, path, *keys) as two:
        assert sorted([output(one), output(two)]) == ["0 0\n", "1 0\n"]
    assert len(kept_aside(path)) == 1


async def test_a_damaged_file_that_another_run_has_open_is_left_to_it(path: Path) -> None:
    script = """
        with ReplyCache(path) as replies:
            print("open", flush=True)
            time.sleep(60)
    """
    await fill(path)
    with process(script, path) as other:
        assert line(other) == "open"
        marker_path(path).touch()
        with pytest.raises(StoreFailed, match="another run still uses it"):
            ReplyCache(path)
    assert opened(path)[0] == set(RECORDED)
