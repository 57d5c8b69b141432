"""`harness batches`: the batches in the cache, and how to cancel one."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from urllib.parse import urlsplit

import typer

from harness.calls.reply_cache import ReplyCache
from harness.cli.options import JsonFormat
from harness.cli.verbs import VerbGroup
from harness.config.sections import LimitsSection, ModelSection
from harness.config.settings import Settings
from harness.engine.models import ModelBuilder, Resources
from harness.engine.replies import open_cache
from harness.errors import ConfigError, FatalCallError
from harness.plugins.batches.ledger import (
    CANCELLING,
    NOT_CREATED,
    BatchLedger,
    RecordedBatch,
    recorded_batches,
)
from harness.plugins.batches.provider import batch_provider
from harness.report.table import Column, Table, table
from harness.terminal.console import print_listing, say, show

batches = VerbGroup("batches")
batches.info.no_args_is_help = False


@batches.callback(invoke_without_command=True)
def listing(context: typer.Context, form: JsonFormat = "table") -> None:
    """List the batches of all runs, the latest first, or cancel one."""
    if context.invoked_subcommand is not None:
        return
    with _cache() as replies:
        recorded = _recorded(replies, created=form == "table")
    if not recorded and form == "table":
        say("There are no batches: runs with limits.batch create them (harness docs batches).")
        return
    data = [
        {name: v for name, v in batch._asdict().items() if name != "section"} for batch in recorded
    ]
    if form == "json":
        print_listing("", data, form)
    else:
        show(_table(recorded, time.time()))


@batches.verb("cancel")
def cancel(batch: str, force: bool = False) -> None:
    """Cancel a batch. Its finished requests are kept, and the others must be made again.

    Args:
        batch: The batch's id, as in the list.
        force: Do not ask the provider, and give the batch up: its calls may be paid for twice.
    """
    with _cache() as replies:
        matches = [
            recorded for recorded in _recorded(replies) if batch in (recorded.id, recorded.tag)
        ]
        if not matches:
            raise ConfigError(f"There is no batch {batch!r}.", "'harness batches' lists them.")
        (recorded,) = matches
        if recorded.ended is not None:
            raise ConfigError(f"The batch {batch} has ended: {recorded.status}.")
        if force:
            asyncio.run(_give_up(replies, recorded))
            return
        if recorded.id is None:
            remedy = "Run the run again: it looks for the batch, and learns the id."
            raise ConfigError(f"The id of the batch {batch} is not known yet.", remedy)
        asyncio.run(_cancel(replies, recorded, recorded.id))


def _cache() -> ReplyCache:
    return open_cache(Settings(), lambda text: say(text) if text else None)


def _recorded(replies: ReplyCache, *, created: bool = False) -> list[RecordedBatch]:
    """Return the batches, the latest first. With ``created``, those that were put off are left out.

    The provider knows nothing of them, and their calls are in others.
    """
    batches = reversed(recorded_batches(replies))
    return [batch for batch in batches if not (created and batch.status == NOT_CREATED)]


def _table(batches: Sequence[RecordedBatch], now: float) -> Table:
    headings = (
        Column("id", text=True),
        Column("provider", text=True, hide=2),
        Column("model", text=True),
        Column("state", text=True),
        *("requests", "done", "failed"),
        Column("age", text=True, hide=1),
        "cost",
    )
    rows = [
        [batch.id or batch.tag, urlsplit(batch.endpoint).netloc, batch.model, batch.status,
         batch.requests, batch.done, batch.failed, _age(now - batch.created), f"${batch.usd:,.2f}"]
        for batch in batches
    ]  # fmt: skip
    return table(headings, rows)


def _age(seconds: float) -> str:
    hours, minutes = divmod(round(seconds / 60), 60)
    return f"{hours // 24} d" if hours >= 48 else f"{hours} h {minutes} min"


async def _give_up(replies: ReplyCache, batch: RecordedBatch) -> None:
    if not replies.claim(batch.tag):
        raise ConfigError("A run is working on this batch.", "Stop the run first.")
    ledger = BatchLedger(replies, batch.backend, batch.endpoint, batch.model)
    await ledger.end(batch.tag, "given up")
    say(f"{batch.id or batch.tag} is given up. The next run makes its calls again.")


async def _cancel(replies: ReplyCache, batch: RecordedBatch, name: str) -> None:
    settings = Settings()
    ledger = BatchLedger(replies, batch.backend, batch.endpoint, batch.model)
    with Resources(settings) as resources:
        section = ModelSection.model_validate_json(batch.section)
        model = ModelBuilder(resources, LimitsSection(), settings.cache_dir).build(section)
        provider = batch_provider(section.backend, model.backend)
        assert provider is not None
        try:
            await provider.cancel_batch(name)
        except FatalCallError as error:
            if "404" not in error.message:
                raise
            await ledger.end(batch.tag, "gone")
            say(f"The provider does not know {name}: its calls are owed again.")
            return
        finally:
            await model.backend.aclose()
    await ledger.mark(batch.tag, CANCELLING)
    say(f"{name} is being cancelled. Run the run again to take what it has finished.")
