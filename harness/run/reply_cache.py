"""Opens the cache of paid replies; a damaged one is refilled from the attempts of runs."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import msgspec

from harness.calls.reply_cache import ReplyCache, encoded
from harness.calls.signals import Report
from harness.config.settings import Settings
from harness.errors import HarnessError
from harness.records import REFUSALS, SCHEMA_VERSION, Reply, Usage
from harness.store.json_lines import lines
from harness.store.run_folder import all_runs


class _Decoding(msgspec.Struct):
    logprobs: int | None = None
    prompt_logprobs: bool | None = None


class _Request(msgspec.Struct):
    model: str
    decoding: _Decoding


class _Line(msgspec.Struct):
    v: int
    request: _Request
    ended_at: float
    call_id: str | None = None
    text: str | None = None
    reasoning: str | None = None
    finish_reason: str | None = None
    usage: Usage | None = None
    latency_s: float | None = None


def replies_path(settings: Settings) -> Path:
    """Return the file of the paid replies of all runs."""
    return settings.cache_dir / "replies.sqlite"


def open_cache(settings: Settings, notice: Report | None = None) -> ReplyCache:
    """Open the cache of paid replies, which calls ``notice`` with messages for the user."""
    restore = partial(recorded_replies, settings.runs_dir)
    return ReplyCache(replies_path(settings), notice=notice, restore=restore)


def recorded_replies(runs_dir: Path) -> Iterator[tuple[bytes, bytes, str, str, float]]:
    """Yield the replies that the attempts of all runs reproduce exactly, as rows of the cache.

    Replies with log-probabilities are skipped, since attempts do not record these, and so are empty
    ones, which are never cached.
    """
    decoder = msgspec.json.Decoder(_Line)
    for folder in all_runs(runs_dir):
        try:
            backend = folder.read_config().model.backend
            for _, text in lines(folder.attempts):
                try:
                    line = decoder.decode(text)
                    key = bytes.fromhex(line.call_id or "")
                except (msgspec.MsgspecError, UnicodeDecodeError, ValueError):
                    continue
                if (reply := _reply(line)) and len(key) == 16:
                    yield key, encoded(reply), backend, line.request.model, line.ended_at
        except HarnessError:  # a folder that cannot be read restores nothing
            continue


def _reply(line: _Line) -> Reply | None:
    decoding, text, reason = line.request.decoding, line.text, line.finish_reason
    if line.v != SCHEMA_VERSION or text is None or reason is None:
        return None
    if decoding.logprobs is not None or decoding.prompt_logprobs:
        return None
    if not text.strip() and reason not in REFUSALS:
        return None
    return Reply(
        text, reason, line.usage, latency_s=line.latency_s or 0.0, reasoning=line.reasoning
    )
