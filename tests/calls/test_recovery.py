"""A damaged file is survived: what can be read is saved, nothing is thrown away."""

import contextlib
import os
import random
import signal
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from harness.calls.recovery import marker
from harness.calls.reply_cache import Payment, ReplyCache
from harness.calls.salvage import salvage
from harness.errors import StoreFailed
from harness.records import Reply, Usage
from tests.calls.processes import output, process, spent

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


def saved(path: Path) -> tuple[set[int], float, list[str]]:
    """Open a file; the replies that it has then, all payments, and what the user was told."""
    told: list[str] = []
    with ReplyCache(path, notice=told.append) as replies:
        found = {number for number in range(N) if replies.get(key(number)) is not None}
        assert all(replies.get(key(number)) == reply(number) for number in found)
        paid = spent(replies, [f"run {number}" for number in range(3)])
    with contextlib.closing(sqlite3.connect(path)) as file:
        assert file.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        assert file.execute("SELECT count(*) FROM replies").fetchone() == (len(found),)
    assert not marker(path).exists()
    return found, paid, told


def overwrite(path: Path, at: int, content: bytes) -> bytes:
    """Overwrite a part of a file, or from a page on so many pages; what it holds then."""
    with path.open("r+b") as file:
        file.seek(at)
        file.write(content)
    return path.read_bytes()


def overwrite_pages(path: Path, place: float, number: int | None = None) -> None:
    """Overwrite so many pages, or all the rest, from that part of the file on."""
    pages = path.stat().st_size // PAGE
    first = 1 + int(place * pages)
    overwrite(path, first * PAGE, b"\xaa" * PAGE * (number or pages - first))


def replace(path: Path, content: bytes) -> bytes:
    path.write_bytes(content)
    return content


def truncate(path: Path) -> bytes:
    return replace(path, path.read_bytes()[: path.stat().st_size * 2 // 3 + 100])


ALL = sum(range(N))
# How the file is damaged, and how many replies must be saved all the same.
DAMAGE: dict[str, tuple[Callable[[Path], bytes], int]] = {
    "truncated": (truncate, N // 3),
    "header garbled": (lambda path: overwrite(path, 0, b"\xff" * 100), N),
    "first page overwritten": (lambda path: overwrite(path, 0, bytes(PAGE)), N),
    "first bytes overwritten": (lambda path: overwrite(path, 0, b"hello"), N),
    "schema overwritten": (lambda path: overwrite(path, 100, b"\x55" * 1000), N),
    "other page size stated": (lambda path: overwrite(path, 16, b"\x02\x00"), N),
    "emptied": (lambda path: replace(path, b""), 0),
    "one byte": (lambda path: replace(path, b"S"), 0),
    "random": (lambda path: replace(path, random.Random(1).randbytes(50 * PAGE)), 0),
    "text": (lambda path: replace(path, b"no database, but long enough " * 1000), 0),
}


@pytest.mark.parametrize("how", DAMAGE)
async def test_what_is_damaged_so_that_it_shows_when_it_is_opened(path: Path, how: str) -> None:
    await fill(path)
    damage, least = DAMAGE[how]
    damaged = damage(path)
    found, paid, told = saved(path)
    assert len(found) >= least
    if least == N:
        assert paid == ALL
    if how in ("emptied", "one byte"):
        assert told == [], "that is no damage, but a new file"
        return
    assert [aside.read_bytes() for aside in kept_aside(path)] == [damaged]
    assert len(told) == 1
    assert f"{len(found):,} replies" in told[0]
    assert kept_aside(path)[0].name in told[0]
    assert saved(path) == (found, paid, []), "once"


@pytest.mark.parametrize("places", [(0.5, 0.25), (0.9,), (0.001,)], ids=str)
async def test_a_page_in_the_middle_is_met_in_a_run_and_mended_by_the_next(
    path: Path, places: tuple[float, ...]
) -> None:
    await fill(path)
    for place in places:  # the last one: the roots of all tables
        overwrite_pages(path, place, 3)
    with ReplyCache(path) as replies, pytest.raises(StoreFailed, match="Run again: it will be"):
        [replies.get(key(number)) for number in range(N)]
    assert marker(path).exists()
    found, _, told = saved(path)
    assert len(told) == 1
    assert len(found) >= N - 30 * len(places)


async def test_damage_met_by_a_write(path: Path) -> None:
    await fill(path)
    with ReplyCache(path) as replies:
        overwrite_pages(path, 0)
        with pytest.raises(StoreFailed, match=r"damaged.*Run again"):
            await replies.put(key(N), reply(N), "b", "m")
    assert marker(path).exists()
    assert saved(path)[0] == set()


async def test_a_reply_that_does_not_decode_is_damage_too(path: Path) -> None:
    await fill(path)
    with contextlib.closing(sqlite3.connect(path)) as file, file:
        name = bytes.fromhex(key(3))
        file.execute("UPDATE replies SET reply = x'ffff' WHERE key = ?", (name,))
    with ReplyCache(path) as replies, pytest.raises(StoreFailed, match="Run again"):
        replies.get(key(3))
    assert saved(path)[0] == set(range(N)) - {3}, "that one is asked for anew"


@pytest.mark.parametrize("damage", [b"", b"\xaa"], ids=["emptied", "garbled"])
async def test_what_is_only_in_the_log_is_saved(path: Path, damage: bytes) -> None:
    script = """
        async def main():
            replies = ReplyCache(path)
            for n in range(40):
                await replies.put(key(n), Reply(str(n), "stop"), "b", "m", Payment("run", 1.0))
            os.kill(os.getpid(), signal.SIGKILL)
        asyncio.run(main())
    """
    with process(script, path) as dying:
        assert dying.wait(timeout=60) == -signal.SIGKILL
    replace(path, damage * 8 * PAGE)
    with ReplyCache(path) as replies:
        texts = [got.text for n in range(40) if (got := replies.get(f"{n:032x}"))]
        assert texts == [str(n) for n in range(40)]
        assert spent(replies, ["run"]) == 40.0


async def test_pruned_replies_do_not_come_back(path: Path) -> None:
    await fill(path)
    with contextlib.closing(sqlite3.connect(path)) as file, file:
        file.execute("DELETE FROM replies WHERE rowid <= 300")
    marker(path).touch()
    assert saved(path)[0] == set(range(300, N))


async def test_a_repair_that_was_cut_short_is_taken_up_again(path: Path) -> None:
    await fill(path)
    rebuilt = path.with_name(f"{path.name}.rebuilt")
    # Half-made; the next one has to begin again.
    overwrite(path, 0, bytes(PAGE))
    path.with_name(f"{path.name}.rebuilding").write_text("half a database")
    path.with_name(f"{path.name}.rebuilding-journal").write_text("half a journal")
    assert saved(path)[0] == set(range(N))
    # Complete, but nothing was moved yet, and the old file may have grown since.
    with ReplyCache(path) as replies:
        await replies.put("ab" * 16, reply(0), "b", "m")
    rebuilt.write_text("older")
    with ReplyCache(path) as replies:
        assert replies.get("ab" * 16)
        await replies.put(key(0), reply(0), "b", "m")
    # The damaged file was moved, its successor not yet.
    os.rename(path, rebuilt)  # noqa: PTH104
    marker(path).touch()
    with ReplyCache(path) as replies:
        assert replies.get("ab" * 16)
    assert not rebuilt.exists()


async def test_a_damaged_file_that_was_moved_away_by_hand(path: Path) -> None:
    marker(path).touch()
    assert saved(path) == (set(), 0.0, [])


async def test_two_processes_that_open_a_damaged_file_at_once_mend_it_once(path: Path) -> None:
    await fill(path)
    overwrite(path, 0, b"\xff" * 100)
    script = """
        told = []
        with ReplyCache(path, notice=told.append) as replies:
            print(len(told), sum(replies.get(name) is not None for name in sys.argv[2:]))
    """
    keys = [key(number) for number in range(N)]
    with process(script, path, *keys) as one, process(script, path, *keys) as two:
        assert sorted([output(one), output(two)]) == [f"0 {N}\n", f"1 {N}\n"]
    assert len(kept_aside(path)) == 1


async def test_who_has_the_damaged_file_open_changes_over_to_the_new_one(path: Path) -> None:
    await fill(path)
    with ReplyCache(path) as old:
        marker(path).touch()
        with ReplyCache(path) as new:
            await new.put("aa" * 16, Reply("new", "stop"), "b", "m")
            await old.put("bb" * 16, Reply("old", "stop"), "b", "m")
            assert new.get("bb" * 16) == Reply("old", "stop")
            assert old.get("aa" * 16) is None, "what it reads is of the old file"
            assert old.claim("aa" * 16)
            assert old.get("aa" * 16) == Reply("new", "stop"), "but not where it is to pay"
            assert {number for number in range(N) if new.get(key(number))} == set(range(N))


async def test_puts_go_on_where_someone_deletes_the_file(path: Path) -> None:
    with ReplyCache(path) as replies:
        await replies.put(key(1), reply(1), "b", "m")
        for part in path.parent.glob("replies.sqlite*"):
            part.unlink()
        await replies.put(key(2), reply(2), "b", "m")
    assert saved(path)[0] == {2}


@settings(
    max_examples=40,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(st.lists(st.tuples(st.floats(0, 0.999), st.binary(min_size=1, max_size=600)), max_size=6))
def test_whatever_is_overwritten_the_rest_is_saved(
    whole: Path, blows: list[tuple[float, bytes]]
) -> None:
    battered = whole.with_name("battered.sqlite")
    content = bytearray(whole.read_bytes())
    for place, blow in blows:
        at = int(place * len(content))
        content[at : at + len(blow)] = blow[: len(content) - at]
    battered.write_bytes(content)
    replies = [row for row in salvage(battered) if len(row) == 5]
    assert len(replies) >= N - 30 * len(blows)


@pytest.fixture
async def whole(path: Path) -> Path:
    await fill(path)
    return path
