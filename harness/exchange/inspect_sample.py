"""A sample as an Inspect log holds it (schema version 2).

Owns what of a sample has a place there: the last round's answer and scores, the conversation,
tokens, the error. All of it, exactly, is in the metadata under ``harness``, for `harness import`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from harness.exchange.conversation import followed, prompt
from harness.records import Attempt, Score, Usage

HARNESS = "harness"
"""The key of the metadata, of a log and of a sample, that `harness import` reads."""

VERDICT = "passed"
"""The scorer that says what the harness does, beside those of the task."""

STOP_REASONS = {
    "stop": "stop",
    "length": "max_tokens",
    "content_filter": "content_filter",
    "refusal": "content_filter",
}
SHORT = 300
"""Characters of a text in a summary: the viewer's lists show no more."""


def inspect_sample(rounds: Sequence[Attempt], model: str, uuid: str) -> dict[str, Any]:
    """A sample of a log.

    rounds: the sample's attempts. uuid: of the sample, unique in the log.
    """
    last = rounds[-1]
    reasons = [{"type": "reasoning", "reasoning": last.reasoning}] if last.reasoning else []
    answer: dict[str, Any] = {
        "role": "assistant",
        "content": [*reasons, {"type": "text", "text": last.text}] if reasons else last.text or "",
        "source": "generate",
        "model": model,
    }
    answered = last.text is not None
    usage = _total([attempt.usage for attempt in rounds])
    sample: dict[str, Any] = {
        "id": sample_id(last.instance),
        "epoch": last.sample + 1,
        "input": prompt(rounds),
        "target": "",
        "messages": [*followed(rounds), *([answer] if answered else [])],
        "output": {
            "model": model,
            "choices": [
                {
                    "message": answer,
                    "stop_reason": STOP_REASONS.get(last.finish_reason or "", "unknown"),
                }
            ]
            if answered
            else [],
            "completion": last.text or "",
            "usage": inspect_usage(last.usage, last.cost_usd) if last.usage else None,
            "time": last.latency_s,
        },
        "scores": scores(last),
        "metadata": {
            "groups": last.groups,
            "cluster": last.cluster,
            "outcome": last.outcome,
            "passed": last.passed,
            "rounds": last.round,
            HARNESS: {"v": 1, "attempts": rounds},
        },
        "store": {},
        "events": [],
        "model_usage": {model: inspect_usage(usage, _cost(rounds))} if usage else {},
        "started_at": moment(rounds[0].started_at),
        "completed_at": moment(last.ended_at),
        "total_time": max(last.ended_at - rounds[0].started_at, 0.0),
        "uuid": uuid,
        "attachments": {},
        "turn_count": len(rounds),
    }
    if last.outcome == "error":
        said = last.error or "the call failed"
        sample["error"] = {"message": said, "traceback": said, "traceback_ansi": said}
    return sample


def sample_id(instance: str) -> str:
    """An instance's name, fit for that of a zip's member, by which Inspect finds a sample."""
    return instance.replace("\0", "\ufffd")


def summary(sample: Mapping[str, Any]) -> dict[str, Any]:
    """A sample in the list that a log has of its samples."""
    metadata = {key: value for key, value in sample["metadata"].items() if key != HARNESS}
    asked = "\n".join(turn["content"] for turn in sample["input"])
    kept = ("id", "epoch", "target", "model_usage", "started_at", "completed_at", "total_time")
    return {
        **{key: sample[key] for key in (*kept, "uuid", "turn_count")},
        "input": asked[:SHORT],
        "metadata": metadata,
        "scores": {
            name: {**score, "answer": (score["answer"] or "")[:SHORT], "metadata": None}
            for name, score in sample["scores"].items()
        },
        "error": sample["error"]["message"][:SHORT] if "error" in sample else None,
        "completed": True,
        "message_count": len(sample["messages"]),
    }


def scores(attempt: Attempt) -> dict[str, dict[str, Any]]:
    """The scores that could be made, and the verdict; what could not is no score there."""
    found = {
        name: _score(attempt, score)
        for name, score in attempt.scores.items()
        if score.value is not None
    }
    if attempt.passed is not None:
        reason = attempt.error or "; ".join(s.reason for s in attempt.scores.values() if s.reason)
        found[verdict_name(attempt.scores)] = _score(attempt, Score(attempt.passed, reason=reason))
    return found


def verdict_name(scores: Mapping[str, Any]) -> str:
    """`VERDICT`, or a name that no score of the task has."""
    return VERDICT if VERDICT not in scores else f"{HARNESS}_{VERDICT}"


def inspect_usage(usage: Usage, cost: float | None = None) -> dict[str, Any]:
    """Tokens as Inspect counts them: those read from a cache are no input tokens."""
    return {
        "input_tokens": max(usage.input_tokens - usage.cached_input_tokens, 0),
        "output_tokens": usage.output_tokens,
        "total_tokens": usage.input_tokens + usage.output_tokens,
        "input_tokens_cache_read": usage.cached_input_tokens or None,
        "reasoning_tokens": usage.reasoning_tokens or None,
        "total_cost": cost,
    }


def moment(seconds: float | None) -> str | None:
    """Seconds since the epoch as ISO 8601; None where that is no date."""
    try:
        return None if seconds is None else datetime.fromtimestamp(seconds, UTC).isoformat()
    except (OverflowError, ValueError, OSError):
        return None


def _score(attempt: Attempt, score: Score) -> dict[str, Any]:
    value: Any = score.value
    if isinstance(value, bool):
        value = "C" if value else "I"
    elif value is not None and math.isfinite(value) and value == int(value) and abs(value) < 2**53:
        value = int(value)
    return {
        "value": value,
        "answer": attempt.text,
        "explanation": score.reason or None,
        "metadata": dict(score.details) or None,
        "history": [],
    }


def _total(usages: Sequence[Usage | None]) -> Usage | None:
    counted = [usage for usage in usages if usage is not None]
    return sum(counted[1:], counted[0]) if counted else None


def _cost(rounds: Sequence[Attempt]) -> float | None:
    costs = [attempt.cost_usd for attempt in rounds]
    return None if None in costs else math.fsum(cost or 0.0 for cost in costs)
