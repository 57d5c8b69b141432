"""Opens the reply cache of all runs, and fills a new cache from recorded runs."""

import contextlib
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import msgspec

from harness.calls.reply_cache import ReplyCache, encoded
from harness.calls.signals import Report
from harness.config.settings import Settings
from harness.errors import HarnessError
from harness.records import REFUSALS, SCHEMA_VERSION, Attempt, Reply
from harness.store.files import make_folder
from harness.store.json_lines import lines
from harness.store.runs import all_runs


def replies_path(settings: Settings) -> Path:
    """Return the path of the reply cache, which all runs share."""
    return settings.cache_dir / "replies.sqlite"


def open_cache(settings: Settings, notice: Report = lambda _: None) -> ReplyCache:
    """Open the reply cache, and the team's database if configured. ``notice`` receives warnings."""
    with contextlib.suppress(OSError):  # opening the cache reports why
        make_folder(settings.cache_dir)
    restore = partial(recorded_replies, settings.runs_dir)
    path = replies_path(settings)
    if settings.cache_url is None:
        return ReplyCache(path, notice=notice, restore=restore)
    from harness.calls.team.reply_cache import TeamReplyCache  # needs the extra

    return TeamReplyCache(path, *team_secrets(settings), notice=notice, restore=restore)


def team_secrets(settings: Settings) -> tuple[str, str | None]:
    """Return the URL, which must be set, and the key (or None) of the team's database."""
    assert settings.cache_url is not None
    key = settings.cache_key
    return settings.cache_url.get_secret_value(), key.get_secret_value() if key else None


def recorded_replies(runs_dir: Path) -> Iterator[tuple[bytes, bytes, str, str, float]]:
    """Yield the replies in all runs' attempts, as rows for a new cache.

    A row holds the call's key, encoded reply, backend, model and Unix time. Replies with
    log-probabilities are skipped, because attempts do not record these.
    """
    decoder = msgspec.json.Decoder(Attempt)
    for folder in all_runs(runs_dir):
        try:
            backend = folder.read_config().model.backend
            for _, text in lines(folder.attempts):
                try:
                    attempt = decoder.decode(text)
                    key = bytes.fromhex(attempt.call_id or "")
                except (msgspec.MsgspecError, ValueError):
                    continue
                model = attempt.request.get("model")
                if (reply := _reply(attempt)) and len(key) == 16 and isinstance(model, str):
                    yield key, encoded(reply), backend, model, attempt.ended_at
        except HarnessError:  # skip a folder that cannot be read
            continue


def _reply(attempt: Attempt) -> Reply | None:
    text, reason = attempt.text, attempt.finish_reason
    if attempt.v != SCHEMA_VERSION or text is None or reason is None:
        return None
    decoding = attempt.request.get("decoding")
    if not isinstance(decoding, dict) or decoding.keys() & {"logprobs", "prompt_logprobs"}:
        return None
    if not text.strip() and reason not in REFUSALS:  # empty replies are never cached
        return None
    return Reply(
        text,
        reason,
        attempt.usage,
        attempt.answered_by or None,
        latency_s=attempt.latency_s or 0.0,
        reasoning=attempt.reasoning,
        reasoning_state=attempt.reasoning_state or None,
        cost_usd=attempt.cost_usd,
    )
