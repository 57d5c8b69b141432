"""Reads an Inspect log as a run, using Inspect's own library.

Each sample becomes one attempt, in round 1. A log that the harness exported is restored with all
attempts, unless a score is named.
"""

from __future__ import annotations

import hashlib
import math
import zipfile
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from itertools import product
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace
from pydantic import ValidationError

from harness.config.run_file import RunFile
from harness.config.validation import describe_errors
from harness.errors import import_extra
from harness.plugins.exchange import imported_run
from harness.plugins.exchange.imported_run import (
    MAX_BYTES,
    FoundScore,
    Imported,
    Placed,
    invalid,
    opened,
)
from harness.plugins.exchange.inspect_export import HARNESS, MANIFEST_KEYS
from harness.records import (
    SCHEMA_VERSION,
    Attempt,
    Message,
    Outcome,
    Usage,
    messages_hash,
    replace_surrogates,
)

EvalLog = Any
EvalSample = Any  # Inspect's types: the library is an extra, which type checking does not need

MAX_UNPACKED = 1 << 35  # size limit of a log's unpacked samples: 32 GiB
MAX_WHOLE = 1 << 30  # size limit of a ``.json`` log, which has to be read as a whole
MAX_MISSING = 200_000  # samples that a log names but lacks: a header can easily name millions
UNUSED = {"store", "events", "timelines"}  # fields of a sample that are not read
# A metadata field is a label if it has at most this many values, all texts of at most this length.
MAX_GROUPS = 50
MAX_GROUP_LENGTH = 60
NO_LABEL = ""  # stands for any other value

GRADES = {"C": 1.0, "I": 0.0, "N": 0.0, "P": 0.5}
WORDS = {"yes": 1.0, "true": 1.0, "no": 0.0, "false": 0.0}
OUTCOMES: Mapping[str, Outcome] = {
    "max_tokens": "truncated",
    "model_length": "truncated",
    "content_filter": "refused",
}
FINISH_REASONS = {"max_tokens": "length", "model_length": "length"}


def is_inspect_log(path: Path) -> bool:
    """Return whether a file begins like an Inspect log. The rest of it may be malformed."""
    with opened(path) as file:
        begins = file.read(1 << 16)
    if begins[:4] == b"PK\x03\x04":
        return True
    return begins.lstrip()[:1] == b"{" and b'"eval"' in begins and b'"doc_id"' not in begins


def _read_log(path: Path) -> EvalLog:
    reader = import_extra("inspect_ai.log", "exchange")
    with opened(path) as file:
        zipped = file.read(4) == b"PK\x03\x04"
    if zipped:
        _refuse_bomb(path)
    elif path.stat().st_size > MAX_WHOLE:
        remedy = "'inspect log convert --to eval' makes a .eval"
        raise invalid(str(path), f"longer than {MAX_WHOLE:,} bytes; {remedy}")
    options = {"resolve_attachments": "core", "format": "eval" if zipped else "json"}
    try:
        return reader.read_eval_log(path, **options, exclude_fields=UNUSED)
    except Exception as error:  # Inspect raises anything on a malformed log
        reason = " ".join(str(error).split())[:160]
        raise invalid(str(path), f"not a readable Inspect log ({reason})") from None


def _samples(path: Path, log: EvalLog) -> Iterator[tuple[str, EvalSample]]:
    places = {str(name): place for place, name in enumerate(log.eval.dataset.sample_ids or ())}
    samples = log.samples or ()  # sorted by epoch first

    def position(sample: EvalSample) -> tuple[int, int]:
        return places.get(str(sample.id), len(places)), sample.epoch

    for sample in sorted(samples, key=position):
        where = f"{path}, sample {str(sample.id)[:200]!r}, epoch {sample.epoch}"
        if not 1 <= sample.epoch < 2**31 or not str(sample.id):
            raise invalid(where, "a sample needs an id, and an epoch from 1")
        yield where, sample


def _refuse_bomb(path: Path) -> None:
    """Raise DataInvalid for a zip archive that is broken, or too large when unpacked."""
    try:
        with zipfile.ZipFile(path) as log:
            members = {member.filename: member for member in log.infolist()}
    except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError) as error:
        raise invalid(str(path), f"not a complete zip ({error})") from None
    total = 0
    for name, member in members.items():
        total += member.file_size
        if member.file_size > MAX_BYTES:
            raise invalid(f"{path}, {name[:200]}", f"more than {MAX_BYTES:,} bytes when unpacked")
    if total > MAX_UNPACKED:
        raise invalid(str(path), f"more than {MAX_UNPACKED:,} bytes when unpacked")


def read_inspect(path: Path, task: str = "", score: str = "") -> Imported:
    """Read an Inspect log as a run of ``task`` (default: the log's own task).

    ``score`` decides whether an answer passes (default: see `imported_run.judged`).
    """
    log = _read_log(path)
    spec = log.eval
    samples = _samples(path, log)
    exported = (spec.metadata or {}).get(HARNESS)
    if isinstance(exported, dict) and "config" in exported and not score:
        return _exported(path, samples, exported, task)
    task = task or replace_surrogates(spec.task) or "imported"
    model = replace_surrogates(spec.model)
    settings = log.plan.config.merge(spec.model_generate_config)
    decoding = settings.model_dump(include={"temperature", "max_tokens", "top_p"})
    started = _seconds(log.stats.started_at) or _seconds(spec.created) or 0.0
    data: dict[str, str] = {}
    scored = []
    for where, sample in samples:
        attempt = _attempt(sample, where, model, started)
        data[attempt.instance] = _data_hash(sample)
        scores = {} if sample.error else dict(_grades(sample, where))
        scored.append(((where, attempt), scores))
    headline = ""
    if log.results and log.results.headline:
        headline = log.results.headline.scorer or ""
    attempts, measure = imported_run.judged(scored, _is_accuracy(log), score, headline)
    attempts = _with_groups(attempts)
    notes = []
    errors = 0
    epochs = max(1, spec.config.epochs or 1)
    for _, attempt in attempts:
        errors += attempt.outcome == "error"
        epochs = max(epochs, attempt.sample + 1)
    if errors:
        notes.append(f"{errors:,} samples have an error: not judged.")
    missing = _missing(path, log, attempts, epochs, model, started)
    if missing:
        notes.append(f"{len(missing):,} samples are named but missing: not judged.")
    others: dict[str, Any] = {"simulated": model.startswith("mockllm/"), "started_at": started}
    others["ended_at"] = _seconds(log.stats.completed_at)
    return Imported(
        format="inspect",
        config=imported_run.config(task, model, epochs, decoding),
        manifest=imported_run.manifest(task, model, data, measure, **others),
        attempts=attempts + missing,
        notes=notes,
    )


def _data_hash(sample: EvalSample) -> str:
    """Return a hash of a sample's target or, without one, of its prompt, with the choices."""
    data = sample.target
    if not data:
        data = sample.input
        if not isinstance(data, str):
            data = msgspec.to_builtins(_conversation(data))
    content = repr((data, sample.choices)).encode(errors="replace")
    return hashlib.sha256(content).hexdigest()


def _exported(
    path: Path, samples: Iterator[tuple[str, EvalSample]], exported: Mapping[str, Any], task: str
) -> Imported:
    try:
        run = RunFile.model_validate(exported["config"])
    except ValidationError as error:
        problem = f"its run file is not valid ({describe_errors(error, RunFile)[0]})"
        raise invalid(str(path), problem) from None
    recorded = exported.get("manifest")
    if not isinstance(recorded, dict):
        recorded = {}
    manifest = {key: recorded[key] for key in MANIFEST_KEYS if key in recorded}
    for key in ("started_at", "ended_at"):
        manifest[key] = imported_run.number(manifest.get(key), str(path))
    if task:
        run = run.model_copy(update={"task": run.task.model_copy(update={"name": task})})
        manifest["task"] = task

    def attempts() -> Iterator[tuple[str, Attempt]]:
        for where, sample in samples:
            try:
                for attempt in sample.metadata[HARNESS]["attempts"]:
                    yield where, msgspec.convert(attempt, Attempt)
            except (KeyError, TypeError, msgspec.ValidationError, RecursionError) as error:
                problem = f"not a sample that the harness exported ({str(error)[:160]})"
                raise invalid(where, problem) from None

    return Imported(format="inspect", config=run, manifest=manifest, attempts=attempts())


def _with_groups(attempts: list[Placed]) -> list[Placed]:
    """Return the attempts without the labels whose values are many or long."""
    values: dict[str, set[str]] = {}
    for _, attempt in attempts:
        for label, value in attempt.groups.items():
            values.setdefault(label, set()).add(value)
    grouped = []
    for where, attempt in attempts:
        groups = {}
        for label, value in attempt.groups.items():
            if len(values[label]) <= MAX_GROUPS and NO_LABEL not in values[label]:
                groups[label] = value
        grouped.append((where, replace(attempt, groups=groups)))
    return grouped


def _missing(
    path: Path, log: EvalLog, attempts: list[Placed], epochs: int, model: str, started: float
) -> list[Placed]:
    """Return an attempt with the outcome ``error`` for each sample that the log lacks."""
    clusters = {attempt.instance: attempt.cluster for _, attempt in reversed(attempts)}
    seen = {(attempt.instance, attempt.sample) for _, attempt in attempts}
    listed = [replace_surrogates(str(name)) for name in log.eval.dataset.sample_ids or ()]
    if len(listed) * epochs > len(seen) + MAX_MISSING:
        names = f"it names {len(listed):,} samples of {epochs:,} epochs"
        raise invalid(str(path), f"{names} but holds {len(seen):,} of them")
    missing = []
    for name, number in product(listed, range(epochs)):
        if (name, number) in seen:
            continue
        attempt = Attempt(
            v=SCHEMA_VERSION,
            instance=name,
            sample=number,
            round=1,
            groups={},
            cluster=clusters.get(name) or messages_hash((Message("user", name),)),
            request={"model": model},
            outcome="error",
            started_at=started,
            ended_at=started,
            error="the log names this sample but does not contain it",
        )
        missing.append((str(path), attempt))
    return missing


def _attempt(sample: EvalSample, where: str, model: str, log_started: float) -> Attempt:
    name = replace_surrogates(str(sample.id))
    content = sample.output.completion
    stop = ""
    if sample.output.choices:
        content = sample.output.choices[0].message.content
        stop = sample.output.choices[0].stop_reason
    answer: str | None = _text(content)
    outcome = OUTCOMES.get(stop, "ok") if answer and answer.strip() else "empty"
    error = None
    if sample.error:
        outcome = "error"
        error = replace_surrogates(sample.error.message) or "an error"
        answer = answer or None
    prompt = _conversation(sample.messages)
    answers = [place for place, turn in enumerate(prompt) if turn.role == "assistant"]
    if answers:
        prompt = prompt[: answers[-1]]
    opening = _conversation(sample.input)
    prompt = prompt or opening
    usage, cost = _usage(sample, where)
    started = _seconds(sample.started_at) or log_started
    call = f"{sample.uuid}/{name}/{sample.epoch}/{started}".encode(errors="replace")
    return Attempt(
        v=SCHEMA_VERSION,
        instance=name,
        sample=sample.epoch - 1,
        round=1,
        groups={label: _label(value) for label, value in sample.metadata.items()},
        cluster=messages_hash(opening),
        request={"model": model, "messages_hash": messages_hash(prompt), "messages": prompt},
        outcome=outcome,
        started_at=started,
        ended_at=_seconds(sample.completed_at) or started,
        text=answer,
        reasoning=_reasoning(content),
        finish_reason=FINISH_REASONS.get(stop, stop) or None,
        call_id=hashlib.blake2b(call, digest_size=16).hexdigest(),
        usage=usage,
        cost_usd=cost,
        latency_s=imported_run.number(sample.output.time, where),
        cached=True,  # not paid for by this run
        error=error,
    )


def _label(value: Any) -> str:
    short = isinstance(value, str) and 0 < len(value) <= MAX_GROUP_LENGTH
    return replace_surrogates(value) if short else NO_LABEL


def _usage(sample: EvalSample, where: str) -> tuple[Usage | None, float | None]:
    """Return a sample's usage and, if it is known for every model, its cost in US dollars."""
    if not sample.model_usage:
        return None, None
    total = Usage()
    total_cost: float | None = 0.0
    for usage in sample.model_usage.values():
        read = usage.input_tokens_cache_read or 0
        written = usage.input_tokens_cache_write or 0
        input_tokens = usage.input_tokens + read + written
        reasoning = usage.reasoning_tokens or 0
        counts = (input_tokens, usage.output_tokens, read, reasoning, written)
        valid_counts = [count if 0 <= count < 2**31 else 0 for count in counts]
        total += Usage(*valid_counts)
        cost = imported_run.number(usage.total_cost, where)
        if cost is None or cost < 0 or total_cost is None:
            total_cost = None
        else:
            total_cost += cost
    return total, total_cost


def _is_accuracy(log: EvalLog) -> Callable[[str], bool]:
    """Return a function that says whether the score of a name may be an accuracy."""
    metrics: dict[str, set[str]] = {}
    for score in log.results.scores if log.results else ():
        name = score.scorer
        if score.name != score.scorer:
            name = f"{score.scorer}.{score.name}"
        metrics.setdefault(name, set()).update(score.metrics)
    return lambda name: name not in metrics or "accuracy" in metrics[name]


def _grades(sample: EvalSample, where: str) -> Iterator[tuple[str, FoundScore]]:
    for scorer, score in (sample.scores or {}).items():
        reason = replace_surrogates(score.explanation or "")
        details: dict[str, Any] = {}
        if score.answer:
            details["answer"] = replace_surrogates(score.answer)
        if score.metadata:
            details["metadata"] = score.metadata
        if not isinstance(score.value, Mapping):
            yield replace_surrogates(scorer), _grade(score.value, where, reason, details)
            continue
        for key, value in score.value.items():
            name = f"{scorer}.{key}" if key else scorer
            yield replace_surrogates(name), _grade(value, where, reason, details)


def _grade(value: Any, where: str, reason: str, details: dict[str, Any]) -> FoundScore:
    """Convert a grade, boolean or number. Any other value is kept in the details."""
    if isinstance(value, bool):
        return FoundScore(float(value), True, reason, details)
    if isinstance(value, str):
        if value in GRADES:
            return FoundScore(GRADES[value], True, reason, details | {"grade": value})
        if value.lower() in WORDS:
            return FoundScore(WORDS[value.lower()], True, reason, details)
        try:
            value = float(value)
        except ValueError:
            details = details | {"value": replace_surrogates(value)}
            value = None
    if isinstance(value, list | dict):
        details = details | {"value": value}
    return FoundScore(imported_run.number(value, where), False, reason, details)


def _conversation(messages: Any) -> tuple[Message, ...]:
    """Convert Inspect's messages, or one string."""
    if isinstance(messages, str):
        return (Message("user", replace_surrogates(messages)),)
    return tuple(Message(imported_run.role(turn.role), _text(turn.content)) for turn in messages)


def _text(content: Any) -> str:
    """Return a message's text without reasoning, with ``[TYPE]`` for other content."""
    if isinstance(content, str):
        return replace_surrogates(content)
    texts = []
    for part in content:
        if part.type == "text":
            texts.append(part.text)
        elif part.type != "reasoning":
            texts.append(f"[{part.type}]")
    return replace_surrogates("\n".join(texts))


def _reasoning(content: Any) -> str | None:
    if isinstance(content, str):
        return None
    thoughts = [part.reasoning for part in content if part.type == "reasoning"]
    return replace_surrogates("\n".join(filter(None, thoughts))) or None


def _seconds(date: str | None) -> float | None:
    try:
        seconds = datetime.fromisoformat(date or "").timestamp()
    except (ValueError, OverflowError, OSError):
        return None
    return seconds if math.isfinite(seconds) else None
