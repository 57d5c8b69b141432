"""Writes a run as an Inspect log (``.eval`` or ``.json``), using Inspect's own library.

A log shows the last round of each sample. The sample's metadata holds all attempts, unchanged,
under the key ``harness``, which `harness import` reads. Inspect writes a log as a whole, so all
samples of the run must fit in memory.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from harness.analysis.metrics import Mean, Metrics, Rate
from harness.errors import ConfigError, import_extra
from harness.plugins.exchange.exported_run import ExportedRun
from harness.records import Attempt, Score, Usage
from harness.store.files import replace_output
from harness.store.index import read_names

SUFFIXES = (".eval", ".json")
HARNESS = "harness"  # the key in the metadata of a log and of a sample that `harness import` reads
VERDICT = "passed"  # the scorer with the harness's verdict, in addition to the task's
STOP_REASONS = {
    "stop": "stop",
    "length": "max_tokens",
    "content_filter": "content_filter",
    "refusal": "content_filter",
}
# Decoding settings with Inspect's names.
DECODING = {
    "temperature": "temperature",
    "max_tokens": "max_tokens",
    "top_p": "top_p",
    "stop": "stop_seqs",
}

# Keys of a manifest to export with a run; those about the machine are omitted.
MANIFEST_KEYS = (
    *("task", "model", "backend", "simulated", "measure", "variant", "fingerprint", "seed"),
    *("samples", "owed", "packages", "python", "started_at", "ended_at"),
)


def write_inspect(run: ExportedRun, path: Path) -> None:
    """Write a run as an Inspect log, to a path that ends in ``.eval`` or ``.json``.

    On failure, an existing file is unchanged.
    """
    if path.suffix not in SUFFIXES:
        message = f"--output {path}: an Inspect log ends with .eval or .json."
        raise ConfigError(message, "Inspect reads no other suffix.")
    inspect_log = import_extra("inspect_ai.log", "exchange")
    tree = _header(run)
    model = tree["eval"]["model"]
    log_id = tree["eval"]["eval_id"]
    with replace_output(path) as temporary:
        tree["samples"] = [
            inspect_log.EvalSample.model_validate(_sample(rounds, model, f"{log_id}-{number}"))
            for number, rounds in enumerate(run.read_samples(Attempt))
        ]
        log = inspect_log.EvalLog.model_validate(tree)
        inspect_log.write_eval_log(log, temporary, format=path.suffix[1:])


def _sample(rounds: Sequence[Attempt], model: str, uuid: str) -> dict[str, Any]:
    first = rounds[0]
    last = rounds[-1]
    text = last.text or ""
    content: Any = text
    if last.reasoning:
        reasoning = {"type": "reasoning", "reasoning": last.reasoning}
        content = [reasoning, {"type": "text", "text": text}]
    answer = {"role": "assistant", "content": content, "source": "generate", "model": model}
    messages: list[dict[str, Any]] = _conversation(rounds)
    choices = []
    if last.text is not None:
        messages.append(answer)
        stop = STOP_REASONS.get(last.finish_reason or "", "unknown")
        choices.append({"message": answer, "stop_reason": stop})
    error = None
    if last.outcome == "error":  # a crash is a failed sample with a score
        message = last.error or "the call failed"
        error = {"message": message, "traceback": message, "traceback_ansi": message}
    return {
        "id": _sample_id(last.instance),
        "epoch": last.sample + 1,
        "input": _prompt(rounds),
        "target": "",
        "messages": messages,
        "output": {
            "model": model,
            "choices": choices,
            "completion": text,
            "usage": _usage(last.usage, last.cost_usd) if last.usage else None,
            "time": last.latency_s,
        },
        "scores": _scores(last),
        "metadata": {
            "groups": last.groups,
            "cluster": last.cluster,
            "outcome": last.outcome,
            "passed": last.passed,
            "rounds": last.round,
            HARNESS: {"v": 1, "attempts": msgspec.to_builtins(rounds)},
        },
        "model_usage": _model_usage(rounds, model),
        "started_at": _date(first.started_at),
        "completed_at": _date(last.ended_at),
        "total_time": max(last.ended_at - first.started_at, 0.0),
        "uuid": uuid,
        "error": error,
        "turn_count": len(rounds),
    }


def _model_usage(rounds: Sequence[Attempt], model: str) -> dict[str, Any]:
    usages = [attempt.usage for attempt in rounds if attempt.usage is not None]
    if not usages:
        return {}
    costs = [attempt.cost_usd for attempt in rounds]
    cost = None if None in costs else math.fsum(cost or 0.0 for cost in costs)
    return {model: _usage(sum(usages, Usage()), cost)}


def _prompt(rounds: Sequence[Attempt]) -> list[dict[str, str]]:
    """Return the recorded messages of a sample's prompt."""
    messages = []
    for message in rounds[0].request.get("messages", ()):
        messages.append({"role": str(message["role"]), "content": str(message["content"])})
    return messages


def _conversation(rounds: Sequence[Attempt]) -> list[dict[str, str]]:
    """Return the turns before a sample's last answer."""
    turns = _prompt(rounds)
    for attempt in rounds[:-1]:
        turns.append({"role": "assistant", "content": attempt.text or ""})
        if attempt.feedback is not None:
            turns.append({"role": "user", "content": attempt.feedback})
    return turns


def _scores(attempt: Attempt) -> dict[str, dict[str, Any]]:
    scores = dict(attempt.scores)
    if attempt.passed is not None:
        reasons = filter(None, (score.reason for score in attempt.scores.values()))
        reason = attempt.error or "; ".join(reasons)
        scores[_verdict_name(attempt.scores)] = Score(attempt.passed, reason=reason)
    exported = {}
    for name, score in scores.items():
        value: float | str | None = score.value
        if value is None:
            continue
        if isinstance(value, bool):
            value = "C" if value else "I"
        exported[name] = {
            "value": value,
            "answer": attempt.text,
            "explanation": score.reason or None,
            "metadata": dict(score.details) or None,
        }
    return exported


def _header(run: ExportedRun) -> dict[str, Any]:
    config = run.config
    manifest = run.manifest
    metrics = run.metrics
    instances = list(read_names(run.index.path).values())
    model = config.model.backend
    if config.model.name:
        model = f"{model}/{config.model.name}"
    started = _date(manifest.get("started_at"))
    ended = _date(manifest.get("ended_at"))
    measured: dict[str, Rate | Mean] = {_verdict_name(metrics.scores): metrics.overall}
    scores = []
    for name, metric in (measured | metrics.scores).items():
        result = _result(name, metric, metrics)
        if result["metrics"]:
            scores.append(result)
    fingerprint = manifest.get("fingerprint", {})
    settings = config.decoding.specified_fields()
    decoding = {theirs: settings[ours] for ours, theirs in DECODING.items() if ours in settings}
    run_id = manifest.get("id", metrics.run)
    exported_manifest = {key: manifest[key] for key in MANIFEST_KEYS if key in manifest}
    metadata = {"v": 1, "config": config.model_dump(mode="json"), "manifest": exported_manifest}
    title = metrics.task
    tags = None
    if metrics.simulated:
        title = f"{title} SIMULATED"
        tags = ["SIMULATED"]
    model_usage = {}
    if metrics.usage:
        model_usage[model] = _usage(metrics.usage, metrics.cost_usd)
    return {
        "status": "success" if metrics.complete else "cancelled",
        "eval": {
            "eval_id": run_id,
            "run_id": run_id,
            "created": started or _date(0),
            "task": metrics.task,
            "task_id": f"{metrics.task}-{metrics.run}",
            "task_display_name": title,
            "task_args": config.task.model_dump(mode="json", exclude={"name"}),
            "solver": "generate",
            "tags": tags,
            "dataset": {
                "name": str(fingerprint.get("dataset") or metrics.task),
                "samples": len(instances),
                "sample_ids": list(map(_sample_id, instances)),
                "shuffled": False,
            },
            "model": model,
            "model_generate_config": decoding,
            "config": {"epochs": config.samples, "log_samples": True},
            "packages": {"harness": str(manifest.get("packages", {}).get("harness", ""))},
            "metadata": {HARNESS: metadata},
            "scorers": [{"name": result["name"]} for result in scores],
        },
        "plan": {"steps": [{"solver": "generate"}], "config": decoding},
        "results": {
            "total_samples": metrics.n_samples,
            "completed_samples": metrics.n_samples - metrics.overall.missing,
            "scores": scores,
        },
        "stats": {
            "started_at": started or "",
            "completed_at": ended or "",
            "model_usage": model_usage,
        },
    }


def _result(name: str, metric: Rate | Mean, metrics: Metrics) -> dict[str, Any]:
    values: dict[str, float | None] = {"mean": metric.mean}
    if isinstance(metric, Rate):
        values = {"pass_rate": metric.mean}
        values |= {f"pass_at_{k}": value for k, value in metrics.pass_at_k.items()}
    low, high = metric.ci95 or (None, None)
    values |= {"stderr": metric.stderr, "ci95_low": low, "ci95_high": high}
    exported = {}
    for key, value in values.items():
        if value is not None:
            exported[key] = {"name": key, "value": value}
    return {
        "name": name,
        "scorer": name,
        "scored_samples": metric.n,
        "unscored_samples": metric.missing,
        "metrics": exported,
    }


def _verdict_name(scores: Iterable[str]) -> str:
    """Return a name for the verdict that no score has."""
    return f"{HARNESS}_{VERDICT}" if VERDICT in scores else VERDICT


def _sample_id(instance: str) -> str:
    return instance.replace("\0", "\ufffd")  # the names of zip members must not contain NUL


def _usage(usage: Usage, cost: float | None) -> dict[str, Any]:
    new = usage.input_tokens - usage.cached_input_tokens - usage.cache_write_tokens
    return {
        "input_tokens": max(new, 0),  # without those read from or written to a cache
        "output_tokens": usage.output_tokens,
        "total_tokens": usage.input_tokens + usage.output_tokens,
        "input_tokens_cache_read": usage.cached_input_tokens or None,
        "input_tokens_cache_write": usage.cache_write_tokens or None,
        "reasoning_tokens": usage.reasoning_tokens or None,
        "total_cost": cost,
    }


def _date(seconds: float | None) -> str | None:
    if seconds is None:
        return None
    try:
        return datetime.fromtimestamp(seconds, UTC).isoformat()
    except (OverflowError, ValueError, OSError):
        return None
