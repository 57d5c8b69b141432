"""`harness cache`: what it holds, and clearing it out while others use it."""

import asyncio
import contextlib
import os
import sqlite3
import time
from pathlib import Path
from typing import Any

import pytest

from harness.calls.reply_cache import Payment, ReplyCache
from harness.errors import UserError
from harness.plugins.cache.verbs import _size, prune
from harness.records import Reply
from tests.calls.processes import spent
from tests.cli.command import begun, harness, mistake, words
from tests.cli.test_completion import offered
from tests.engine.test_infrastructure import LAYER
from tests.installed import install_plugin

DAY = 86_400


def key(number: int) -> str:
    return f"{number:032x}"


async def fill(path: Path, *, shared_memory: bool | None = None) -> None:
    with ReplyCache(path, shared_memory=shared_memory) as replies:
        for number in range(30):
            model = "gpt-4" if number % 3 else "o3"
            backend = "anthropic" if number % 10 == 0 else "openai"
            await replies.put(key(number), Reply("x" * 1000, "stop"), backend, model)
    with contextlib.closing(sqlite3.connect(path)) as file, file:
        for number in range(20):
            file.execute(
                "UPDATE replies SET created = ? WHERE key = ?",
                (time.time() - 40 * DAY, bytes.fromhex(key(number))),
            )


@pytest.fixture
def path() -> Path:
    return Path(os.environ["HARNESS_CACHE_DIR"]) / "replies.sqlite"


@pytest.fixture
async def cache(path: Path) -> Path:
    await fill(path)
    return path


def left(path: Path) -> set[int]:
    with contextlib.closing(sqlite3.connect(path)) as file:
        return {int.from_bytes(row[0]) for row in file.execute("SELECT key FROM replies")}


def test_stats(cache: Path) -> None:
    for width in (60, 80):
        ended = harness("cache", "stats", env=os.environ | {"COLUMNS": f"{width}"})
        assert ended.returncode == 0, ended.stderr
        assert "replies 30" in words(ended.stdout)
        assert "openai gpt-4 18" in words(ended.stdout)
        assert "all 30" in words(ended.stdout)
        assert all(len(line) <= width for line in ended.stdout.splitlines())
        assert str(cache) in "".join(ended.stdout.split())


def test_there_is_no_cache_yet(path: Path) -> None:
    for command in (["stats"], ["prune", "--older-than", "30d", "--yes"]):
        ended = harness("cache", *command)
        assert ended.returncode == 0, ended.stderr
        assert "There is no cache yet" in ended.stderr
    assert not path.parent.exists()


@pytest.mark.parametrize(
    ("filters", "kept"),
    [
        ({"older_than": "30d"}, set(range(20, 30))),
        ({"older_than": "1y"}, set(range(30))),
        ({"model": "o3"}, {n for n in range(30) if n % 3}),
        ({"backend": "anthropic", "model": "gpt-4"}, set(range(30)) - {10, 20}),
        ({"backend": "anthropic", "older_than": "5w"}, set(range(30)) - {0, 10}),
        ({"everything": True}, set()),
    ],
)
def test_every_filter_must_agree(cache: Path, filters: dict[str, Any], kept: set[int]) -> None:
    prune(**filters, dry_run=True)
    assert left(cache) == set(range(30))
    prune(**filters, yes=True)
    assert left(cache) == kept


def test_it_asks_first(cache: Path) -> None:
    command = ("cache", "prune", "--all")
    for answer in ("n\n", ""):
        said = mistake(harness(*command, input=answer))
        assert "Nothing was deleted." in said
    assert left(cache) == set(range(30))
    ended = harness(*command, input="y\n")
    assert ended.returncode == 0, ended.stderr
    assert "Delete these 30 paid replies?" in ended.stderr
    assert "Deleted 30 replies." in ended.stderr
    assert not left(cache)
    assert "needs either filters" in mistake(harness("cache", "prune", "--yes"))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({}, "needs either filters"),
        ({"everything": True, "model": "o3"}, "needs either filters"),
        ({"older_than": "month"}, "--older-than 'month' is not an age"),
        ({"older_than": "-3d"}, "is not an age"),
    ],
)
def test_a_slip_deletes_nothing(cache: Path, options: dict[str, Any], said: str) -> None:
    with pytest.raises(UserError) as error:
        prune(**options, yes=True)
    assert said in str(error.value)
    assert left(cache) == set(range(30))


async def test_the_room_is_given_back_and_another_process_goes_on(path: Path) -> None:
    """This test is the other process: it writes and reads all the while."""
    with ReplyCache(path) as replies:
        text = "x" * 20_000
        await asyncio.gather(
            *(replies.put(key(n), Reply(text, "stop"), "openai", "old") for n in range(1500))
        )
        size = _size(path)
        process = begun("cache", "prune", "--model", "old", "--yes")
        written = 0
        while process.poll() is None or written < 20:
            await replies.put(key(10_000 + written), Reply("new", "stop"), "openai", "new")
            assert replies.get(key(10_000 + written)) == Reply("new", "stop")
            written += 1
            await asyncio.sleep(0.005)
        _, said = process.communicate()
        assert process.returncode == 0, said
        assert "Deleted 1,500 replies." in said
        assert left(path) == set(range(10_000, 10_000 + written))
    assert size > 30e6
    assert _size(path) < 1e6


async def test_the_safe_mode_without_a_log(path: Path) -> None:
    await fill(path, shared_memory=False)
    assert harness("cache", "stats").returncode == 0
    assert harness("cache", "prune", "--model", "o3", "--yes").returncode == 0
    assert len(left(path)) == 20


def test_a_damaged_file_is_mended_by_the_next_run(path: Path) -> None:
    path.parent.mkdir()
    path.write_text("not a database, but long enough to be taken for one at first sight" * 20)
    for verb in (["stats"], ["prune", "--all", "--yes"]):
        said = mistake(harness("cache", *verb))
        assert "Cannot read the cache" in said
        assert "The next 'harness run' moves it aside" in said
    with ReplyCache(path):
        assert len(list(path.parent.glob("*.damaged-*"))) == 1
    assert harness("cache", "stats").returncode == 0


async def test_what_was_paid_is_shown_and_never_pruned(path: Path) -> None:
    with ReplyCache(path) as replies:
        await replies.put(key(1), Reply("x", "stop"), "openai", "m", Payment("one", 1.5))
        await replies.charge("empty", Payment("two", 0.25))
    assert "$1.75 by 2 runs with a budget" in words(harness("cache", "stats").stdout)
    assert harness("cache", "prune", "--all", "--yes").returncode == 0
    with ReplyCache(path) as replies:
        assert spent(replies, ["one", "two"]) == 1.75


async def test_a_file_of_before_the_payments(cache: Path) -> None:
    with contextlib.closing(sqlite3.connect(cache)) as file, file:
        file.execute("DROP TABLE payments")
    assert "budget" not in harness("cache", "stats").stdout


async def test_hostile_names(path: Path) -> None:
    with ReplyCache(path) as replies:
        await replies.put(key(1), Reply("x", "stop"), "openai", "[red]\x1b[2J" + "x" * 200)
    for width in (60, 80):
        ended = harness("cache", "stats", env=os.environ | {"COLUMNS": f"{width}"})
        assert "[red]\\x1b[2" in ended.stdout
        assert "\x1b" not in ended.stdout
        assert all(len(line) <= width for line in ended.stdout.splitlines())


def test_the_shell_completes_its_commands() -> None:
    assert {"stats", "prune"} == set(offered("harness cache "))


def test_the_facts_of_a_call_layer_are_shown(tmp_path: Path) -> None:
    install_plugin(tmp_path / "site", LAYER, {"call_layers": {"facts": "layer"}})
    env = os.environ | {"PYTHONPATH": str(tmp_path / "site"), "HARNESS_OBSERVE_CONTENT": "1"}
    ended = harness("cache", "stats", env=env)
    assert "a fact" in ended.stdout, ended.stderr


def test_a_mistyped_verb_names_the_valid_ones() -> None:
    ended = harness("cache", "clear-all")
    assert (ended.returncode, "Valid names: prune, stats." in ended.stderr) == (2, True)
