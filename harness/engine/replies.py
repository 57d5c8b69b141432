"""The reply cache, which all runs share: where it is, what refills it, and whose calls it has."""

import contextlib
from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path

import msgspec

from harness.calls.reply_cache import ReplyCache, encoded
from harness.calls.signals import Report
from harness.config.settings import Settings
from harness.engine.infrastructure import call_layers
from harness.errors import HarnessError
from harness.records import REFUSALS, SCHEMA_VERSION, Attempt, Reply, Usage
from harness.store.files import make_folder
from harness.store.json_lines import lines
from harness.store.judgements import read_register
from harness.store.run_folder import RunFolder
from harness.store.runs import all_runs
from harness.store.unrecorded import UnrecordedCalls


def replies_path(settings: Settings) -> Path:
    """Return the path of the reply cache, which all runs share."""
    return settings.cache_dir / "replies.sqlite"


def open_cache(settings: Settings, notice: Report = lambda _: None) -> ReplyCache:
    """Open the reply cache, which may be a plug-in's. ``notice`` receives warnings."""
    with contextlib.suppress(OSError):  # opening the cache reports why
        make_folder(settings.cache_dir)
    restore = partial(recorded_replies, settings.runs_dir)
    path = replies_path(settings)
    for layer in call_layers(settings):
        if (replies := layer.open_cache(path, notice, restore)) is not None:
            return replies
    return ReplyCache(path, notice=notice, restore=restore)


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
    text = attempt.text
    reason = attempt.finish_reason
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


class _PaidReply(msgspec.Struct):
    usage: Usage | None = None
    cost_usd: float | None = None
    run: str = ""


_PAID_REPLIES = "SELECT key, model, reply FROM replies WHERE instr(reply, ?)"


def count_unrecorded(
    replies: ReplyCache, folder: RunFolder, run_ids: Iterable[str]
) -> dict[str, UnrecordedCalls]:
    """Return the calls that a run has paid for, but whose lines are lost, by the model's key.

    ``run_ids`` are the run's id and those of the runs that were merged into it. A superseded answer
    or judgement whose line is lost, and which no session restores, is thereby still part of the
    run's cost. Calls of models that have the same name only count for the run.
    """
    from harness.store.calls import read_call_ids  # NumPy takes 0.2 s to import

    counts: dict[str, UnrecordedCalls] = {}
    recorded = read_call_ids(folder.attempts)
    run = folder.read_config()
    keys: dict[str | None, list[str]] = defaultdict(list)  # of models, by name
    keys[run.model.name].append("model")
    if run.polish is not None:
        keys[run.polish.name].append("polish")
    if run.user is not None:
        keys[run.user.model.name].append("user.model")
    for judge_name, judge in read_register(folder.path).judges.items():
        keys[judge.model].append(f"judges.{judge_name}.model")
    decode = msgspec.msgpack.Decoder(_PaidReply).decode
    for run_id in run_ids:
        for key, name, content in replies.read(_PAID_REPLIES, [run_id.encode()]):
            if key.hex() in recorded:
                continue
            try:
                reply = decode(content)
            except msgspec.MsgspecError:  # damaged
                continue
            if reply.run != run_id:
                continue
            call = UnrecordedCalls(
                1,
                reply.usage or Usage(),
                int(reply.usage is None),
                reply.cost_usd or 0.0,
                int(reply.cost_usd is None),
            )
            for where in ("", *(keys[name] if len(keys[name]) == 1 else ())):
                counts[where] = counts.get(where, UnrecordedCalls()) + call
    return counts
