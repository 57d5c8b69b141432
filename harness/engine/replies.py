"""The reply cache, which all runs share: where it is, what refills it, and whose calls it has."""

import asyncio
import contextlib
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from ipaddress import ip_address
from pathlib import Path
from urllib.parse import urlsplit

import msgspec

from harness.backends.openai import PRESETS
from harness.calls.database import PRUNED_ACCOUNT, ReplyRow, Write
from harness.calls.reply_cache import ReplyCache, encode_reply
from harness.calls.signals import Report
from harness.config.sections import ModelSection
from harness.config.settings import Settings
from harness.engine.infrastructure import call_layers
from harness.errors import ConfigError, DataInvalid, HarnessError
from harness.plugin_loader import kind
from harness.ports import Backend, plugin_class
from harness.records import (
    INTERRUPTIONS,
    REFUSALS,
    SCHEMA_VERSION,
    Attempt,
    Reply,
    Usage,
    replace_surrogates,
)
from harness.store.file_states import LineSeals
from harness.store.files import make_folder
from harness.store.json_lines import read_lines
from harness.store.judgements import read_register
from harness.store.run_folder import RunFolder
from harness.store.runs import all_runs
from harness.store.unrecorded import UnrecordedCalls


def replies_path(settings: Settings) -> Path:
    """Return the path of the reply cache, which all runs share."""
    return settings.cache_dir / "replies.sqlite"


def open_cache(settings: Settings, notice: Report = lambda _: None) -> ReplyCache:
    """Open the reply cache, which may be a plug-in's.

    Args:
        settings: The settings.
        notice: Receives warnings.
    """
    with contextlib.suppress(OSError):  # opening the cache reports why
        make_folder(settings.cache_dir)
    restore = partial(recorded_replies, settings.runs_dir)
    path = replies_path(settings)
    for layer in call_layers(settings):
        if (replies := layer.open_cache(path, notice, restore)) is not None:
            return replies
    return ReplyCache(path, notify=notice, restore=restore)


def recorded_replies(runs_dir: Path) -> Iterator[ReplyRow]:
    """Yield the replies in all runs' attempts, as rows for a new cache.

    Replies of runs that were made here come first: the cache keeps the first reply to a call. Runs
    that were made elsewhere count only if their model is the same on each machine.
    """
    own_runs: list[RunFolder] = []
    foreign_runs: list[RunFolder] = []
    for folder in all_runs(runs_dir):
        with contextlib.suppress(HarnessError):  # skip a folder that cannot be read
            if folder.was_made_here():
                own_runs.append(folder)
            elif not _is_machine_specific(folder.read_config().model):
                foreign_runs.append(folder)
    for folder in (*own_runs, *foreign_runs):
        with contextlib.suppress(HarnessError):
            yield from _read_replies(folder)


def _is_machine_specific(model: ModelSection) -> bool:
    """Return whether a model may differ between machines.

    Such models are the user's own code, and servers whose addresses are local to a network.
    """
    if kind("backends").is_user_code(model.backend):
        return True
    url = model.options.get("base_url")
    preset = PRESETS.get(str(model.options.get("preset")))
    if not url and preset is not None:
        url = preset.url
    if not url:  # the vendor's own server, or weights that the keys of calls identify
        return False
    try:
        host = urlsplit(str(url)).hostname or ""
    except ValueError:
        return True
    try:
        return not ip_address(host).is_global
    except ValueError:
        return "." not in host or host.endswith(_LOCAL_DOMAINS)


_LOCAL_DOMAINS = (".local", ".localhost", ".localdomain", ".internal", ".lan", ".home.arpa")


def _read_replies(folder: RunFolder) -> Iterator[ReplyRow]:
    """Yield the replies in a run's attempts, except those in lines that were edited.

    Replies with log-probabilities are skipped, because attempts do not record log-probabilities.
    """
    decoder = msgspec.json.Decoder(Attempt)
    backend = folder.read_config().model.backend
    seals = LineSeals(folder.path)
    for line_number, (_, text) in enumerate(read_lines(folder.attempts), 1):
        try:
            seals.check(text, folder.attempts, line_number)
            attempt = decoder.decode(text)
            key = bytes.fromhex(attempt.call_id or "")
            reply = _reply_of(attempt)
            content = b"" if reply is None else encode_reply(reply)
        except (msgspec.MsgspecError, DataInvalid, ValueError, OverflowError):
            continue
        model = attempt.request.get("model")
        if content and len(key) == 16 and isinstance(model, str):
            yield (
                key,
                content,
                replace_surrogates(backend),
                replace_surrogates(model),
                attempt.ended_at,
            )


def cached_calls(folder: RunFolder) -> set[str]:
    """Return the ids of a run's calls whose replies are cached if they are complete.

    Calls of judges that are not in the run file are omitted, because their backend is not known.
    """
    from harness.store.calls import read_callers  # NumPy takes 0.2 s to import

    run = folder.read_config()
    backends = {judge.as_: judge.model.backend for judge in run.judges}
    backends[""] = run.model.backend
    cacheable = {caller for caller, backend in backends.items() if _is_cacheable(backend)}
    callers = read_callers(folder.attempts)
    return {call_id for call_id, caller in callers.items() if caller in cacheable}


def _is_cacheable(name: str) -> bool:
    try:
        backend = kind("backends").load(name)
    except ConfigError:  # code that is not executed, for example
        return True
    return plugin_class(backend, Backend).cacheable  # type: ignore[type-abstract]


async def save_replies(replies: ReplyCache, folder: RunFolder, call_ids: Collection[str]) -> int:
    """Save a run's replies that a cache has lost, before the run is deleted.

    They are not saved if the run was made elsewhere, or if the user has deleted them from the
    cache.

    Args:
        replies: The cache.
        folder: The run's folder.
        call_ids: The ids of the run's recorded calls.

    Returns:
        The number of replies that the cache still lacks.
    """
    missing = _missing_keys(replies, [bytes.fromhex(call_id) for call_id in call_ids])
    if not missing:
        return 0
    [(pruned_at,)] = replies.read(
        "SELECT total(created) FROM payments WHERE run = ?", [PRUNED_ACCOUNT]
    )
    writes: list[asyncio.Future[None]] = []
    if folder.was_made_here():
        for row in _read_replies(folder):
            key = row[0]
            created_at = row[-1]
            if key in missing and created_at > pruned_at:
                writes.append(replies.write(Write([row])))
                missing.remove(key)
            if len(writes) >= _ROWS_AT_ONCE:
                await asyncio.gather(*writes)
                writes.clear()
    await asyncio.gather(*writes)
    return len(missing - _incomplete_calls(folder))


_ROWS_AT_ONCE = 500


def _missing_keys(replies: ReplyCache, keys: Sequence[bytes]) -> set[bytes]:
    """Return the keys of calls that have no reply in the cache."""
    missing = {*keys}
    for start in range(0, len(keys), _ROWS_AT_ONCE):
        batch = keys[start : start + _ROWS_AT_ONCE]
        placeholders = ", ".join("?" * len(batch))
        query = f"SELECT key FROM replies WHERE key IN ({placeholders})"  # noqa: S608
        missing.difference_update(key for (key,) in replies.read(query, batch))
    return missing


def _incomplete_calls(folder: RunFolder) -> set[bytes]:
    """Return the keys of a run's calls whose replies were not complete, and thus never cached."""
    incomplete = set[bytes]()
    decoder = msgspec.json.Decoder(Attempt)
    for _, text in read_lines(folder.attempts):
        with contextlib.suppress(msgspec.MsgspecError):
            attempt = decoder.decode(text)
            is_empty = not (attempt.text or "").strip() and attempt.finish_reason not in REFUSALS
            if attempt.call_id and (is_empty or attempt.finish_reason in INTERRUPTIONS):
                incomplete.add(bytes.fromhex(attempt.call_id))
    return incomplete


def _reply_of(attempt: Attempt) -> Reply | None:
    """Return the reply that an attempt records, or None if it is not recorded completely."""
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
    """Count the calls that a run has paid for but whose lines are lost, by the model's key.

    The key "" stands for the whole run. Thus a superseded answer or judgement whose line is lost,
    and which no session restores, is still part of the run's cost. Calls of models with the same
    name only count for the whole run.

    Args:
        replies: The cache.
        folder: The run's folder.
        run_ids: The ids of the run, and of the runs that were merged into it.
    """
    from harness.store.calls import read_call_ids  # NumPy takes 0.2 s to import

    counts: dict[str, UnrecordedCalls] = {}
    recorded_ids = read_call_ids(folder.attempts)
    model_keys = _model_keys(folder)
    decode = msgspec.msgpack.Decoder(_PaidReply).decode
    for run_id in run_ids:
        for key, model_name, content in replies.read(_PAID_REPLIES, [run_id.encode()]):
            if key.hex() in recorded_ids:
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
            keys = model_keys[model_name]
            for where in ("", *(keys if len(keys) == 1 else ())):
                counts[where] = counts.get(where, UnrecordedCalls()) + call
    return counts


def _model_keys(folder: RunFolder) -> Mapping[str | None, list[str]]:
    """Return the keys of a run's models in its run file, by the model's name."""
    run = folder.read_config()
    keys: dict[str | None, list[str]] = defaultdict(list)
    keys[run.model.name].append("model")
    if run.polish is not None:
        keys[run.polish.name].append("polish")
    if run.user is not None:
        keys[run.user.model.name].append("user.model")
    for judge_name, judge in read_register(folder.path).judges.items():
        keys[judge.model].append(f"judges.{judge_name}.model")
    return keys
