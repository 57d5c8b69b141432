"""`harness cache`: inspect and clear the file of paid replies.

Other processes may be using the file, so rows are deleted a few thousand at a time, and the file is
compacted only if that is quick. Payments of runs with a budget are never deleted.
"""

import contextlib
import re
import sqlite3
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer

from harness.calls.database import NAME_PREFIX, PRUNED_ACCOUNT, is_damage, mark_damaged
from harness.cli.options import JsonFormat, ask_yes_no
from harness.cli.verbs import VerbGroup
from harness.config.settings import Settings
from harness.engine.infrastructure import call_layers
from harness.engine.replies import replies_path
from harness.errors import ConfigError, StoreFailed, UserError
from harness.report.table import Column, Row, Table, table
from harness.report.text import format_date, format_size
from harness.terminal.console import output, print_facts, print_listing, say, show

cache = VerbGroup("cache")

BATCH = 5_000  # number of row ids that one transaction examines
VACUUM_S = 5.0  # time limit for compacting, in seconds: other processes wait longer (`LOCKED_S`)
_UNITS = {"h": 3600, "d": 86_400, "w": 7 * 86_400, "y": 365 * 86_400}  # in seconds
_CONDITION = (
    "(:until IS NULL OR created <= :until) AND (:backend IS NULL OR backend = :backend)"
    " AND (:model IS NULL OR model = :model)"
)


class CachedReplies(NamedTuple):
    """A model's cached replies. ``size`` is in bytes, and times are in epoch seconds."""

    backend: str
    model: str
    replies: int
    size: int
    oldest: float
    newest: float


@cache.verb("stats")
def stats(form: JsonFormat = "table") -> None:
    """Show the path and size of the cache, and its replies by backend and model.

    If HARNESS_CACHE_URL is set, also show what the team's database holds.
    """
    settings = Settings()
    shared = dict[str, str]()
    for layer in call_layers(settings):
        shared |= layer.facts()
    if shared and not replies_path(settings).exists():
        print_listing("", shared, form) if form == "json" else print_facts(shared)
        return
    with _opened("ro") as (path, file):
        rows = _kept(file, {"until": None, "backend": None, "model": None})
        runs = 0
        usd = 0.0
        if file.execute("SELECT 1 FROM sqlite_master WHERE name = 'payments'").fetchone():
            query = "SELECT count(DISTINCT run), total(usd) FROM payments WHERE run NOT LIKE ?"
            paid = file.execute(query, [f"{NAME_PREFIX}%"])
            runs, usd = paid.fetchone()
    replies = f"{sum(row.replies for row in rows):,}"
    facts = {"file": str(path), "size": format_size(_size(path)), "replies": replies}
    if rows:
        oldest = min(row.oldest for row in rows)
        newest = max(row.newest for row in rows)
        facts["from"] = f"{format_date(oldest)} to {format_date(newest)}"
    if runs:
        # An upper bound: sessions that were killed leave what they had reserved.
        by = f"{runs:,} {'runs' if runs > 1 else 'run'} with a budget"
        facts["paid"] = f"at most ${usd:,.2f} by {by}"
    facts |= shared
    if form == "json":
        print_listing("", facts | {"of": [row._asdict() for row in rows]}, form)
        return
    print_facts(facts)
    if rows:
        output.print()
        show(cache_table(rows))


@cache.verb("prune")
def prune(
    older_than: Annotated[str | None, typer.Option(metavar="AGE")] = None,
    backend: str | None = None,
    model: str | None = None,
    everything: Annotated[bool, typer.Option("--all")] = False,
    dry_run: bool = False,
    yes: bool = False,
) -> None:
    """Delete the paid replies that match every given filter, after confirmation.

    A run that needs a deleted reply pays for it again, unless the team's database has it: nothing
    is deleted there.

    Args:
        older_than: Only replies older than this age, such as 12h, 30d, 8w or 1y.
        backend: Only replies of this backend.
        model: Only replies of this model.
        everything: Delete every reply.
        dry_run: Show what would be deleted, without deleting it.
        yes: Do not ask for confirmation.
    """
    if everything == any(value is not None for value in (older_than, backend, model)):
        remedy = "Give --older-than 30d, --backend NAME or --model NAME, or --all."
        raise ConfigError("harness cache prune needs either filters or --all.", remedy)
    until = time.time() - (0 if older_than is None else _seconds(older_than))
    chosen = {"until": until, "backend": backend, "model": model}
    with _opened("ro") as (path, file):
        matching = _kept(file, chosen)
        if not matching:
            say("No cached reply matches; 'harness cache stats' lists backends and models.")
            return
    show(cache_table(matching))
    if dry_run:
        say("Nothing was deleted (--dry-run).")
        return
    number = sum(row.replies for row in matching)
    if not (yes or ask_yes_no(f"Delete these {number:,} paid replies?")):
        raise UserError("Nothing was deleted.", "Answer y, or use --yes.")
    before = _size(path)
    with _opened("rw") as (path, file):
        deleted = _delete(file, chosen)
        shrunk = _shrink(file)
    say(f"Deleted {deleted:,} replies.")
    if shrunk:
        say(f"The file shrank from {format_size(before)} to {format_size(_size(path))}.")
    else:
        say(f"The file keeps its size, for new replies. To compact it: sqlite3 {path} VACUUM")


def _kept(file: sqlite3.Connection, chosen: dict[str, Any]) -> list[CachedReplies]:
    rows = file.execute(
        "SELECT backend, model, count(*), sum(length(reply)), min(created), max(created) "  # noqa: S608 (constants)
        f"FROM replies WHERE {_CONDITION} GROUP BY 1, 2 ORDER BY 1, 2",
        chosen,
    )
    return [CachedReplies(*row) for row in rows]


def _delete(file: sqlite3.Connection, chosen: dict[str, Any]) -> int:
    first, last = file.execute("SELECT min(rowid), max(rowid) FROM replies").fetchone()
    deleted = 0
    for start in range(first or 0, (last or 0) + 1, BATCH):
        with file:
            deleted += file.execute(
                f"DELETE FROM replies WHERE rowid >= :start AND rowid < :end AND {_CONDITION}",  # noqa: S608
                {"start": start, "end": start + BATCH, **chosen},
            ).rowcount
    _record_pruning(file)
    return deleted


def _record_pruning(file: sqlite3.Connection) -> None:
    """Record when replies were deleted, so that no other command saves them again."""
    if not file.execute("SELECT 1 FROM sqlite_master WHERE name = 'payments'").fetchone():
        return  # an early file
    row = "INSERT OR REPLACE INTO payments (run, key, usd, created) VALUES (?, ?, 0.0, ?)"
    with file:
        file.execute(row, [PRUNED_ACCOUNT, b"pruned", time.time()])


def _shrink(file: sqlite3.Connection) -> bool:
    """Compact the cache. Return False if that takes too long, or the file is locked."""
    end = time.monotonic() + VACUUM_S
    file.set_progress_handler(lambda: time.monotonic() > end, 10_000)
    try:
        file.execute("VACUUM")
        file.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    except sqlite3.OperationalError:  # locked or interrupted: unchanged
        return False
    finally:
        file.set_progress_handler(None, 0)
    return True


@contextlib.contextmanager
def _opened(mode: str) -> Iterator[tuple[Path, sqlite3.Connection]]:
    """Yield the cache's path and a connection to it, or end the command without a cache."""
    path = replies_path(Settings())
    remedy = "Fix its permissions, or try again when no other process uses it."
    try:
        if not path.exists():
            say(f"There is no cache yet at {path}.")
            raise typer.Exit
        url = f"{path.resolve().as_uri()}?mode={mode}"
        with contextlib.closing(sqlite3.connect(url, uri=True, timeout=30)) as file:
            yield path, file
    except (sqlite3.Error, OSError) as error:
        if is_damage(error):
            mark_damaged(path)
            remedy = "The next 'harness run' moves it aside and rebuilds it from your attempts."
        verb = "read" if mode == "ro" else "change"
        raise StoreFailed(f"Cannot {verb} the cache {path}: {error}.", remedy) from None


def _size(path: Path) -> int:
    files = path, path.with_name(f"{path.name}-wal")
    return sum(file.stat().st_size for file in files if file.exists())


def _seconds(age: str) -> float:
    if match := re.fullmatch(r"(\d{1,6})([hdwy])", age):
        return float(match[1]) * _UNITS[match[2]]
    raise ConfigError(f"--older-than {age!r} is not an age.", "Write it like 12h, 30d, 8w or 1y.")


def cache_table(replies: Sequence[CachedReplies]) -> Table:
    """Build a table of replies by backend and model, with a total if there are several rows."""
    rows: list[list[object]] = [
        [row.backend, row.model, row.replies, format_size(row.size),
         format_date(row.oldest), format_date(row.newest)]
        for row in replies
    ]  # fmt: skip
    size = format_size(sum(row.size for row in replies))
    total = Row(["all", "", sum(row.replies for row in replies), size, "", ""])
    days = (Column("oldest", hide=1), Column("newest", hide=1))
    headings = ("backend", Column("model", text=True), "replies", "size", *days)
    return table(headings, rows, footer=total if len(replies) > 1 else None)
