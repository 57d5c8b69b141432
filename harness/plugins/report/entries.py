"""The texts of an instance as the page shows them: prompts, answers, scores and judges' replies.

Long texts are cut: ``{"text": …, "length": …}``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec
import numpy as np
from msgspec import Struct, field
from numpy.typing import NDArray

from harness.plugins.report.parts import to_json
from harness.plugins.report.runs import RecordedTask
from harness.records import Message, Score
from harness.store.index import AttemptIndex, AttemptLine

LONGEST_TEXT = 200_000  # maximum characters of a text in the page
BRIEF = 60  # maximum characters of a score's details on one line


class Cut(Struct, frozen=True):
    """The beginning of a string, and the length of the whole string."""

    text: str
    length: int


Text = str | Cut


class _Request(Struct, gc=False):
    messages: list[Message] = []
    model: str = ""
    decoding: dict[str, Any] = {}
    seed: int | None = None


class JudgeReplies(Struct, gc=False):
    """A judge's replies about an attempt."""

    judge: str
    outcome: str
    replies: list[str] = []
    error: str | None = None


class TextLine(AttemptLine, kw_only=True, gc=False):
    """An attempt with its texts, and with the replies of the run's judges about it."""

    request: _Request
    scores: dict[str, Score] = field(default_factory=dict)
    judgements: list[JudgeReplies] = field(default_factory=list)


def read_texts(index: AttemptIndex, rows: NDArray[np.intp]) -> Iterator[TextLine]:
    """Yield attempts with their texts, given their rows in the index."""
    recorded = index.said(rows, msgspec.json.Decoder(JudgeReplies).decode)
    for line, judgements in zip(index.read(TextLine, rows), recorded, strict=True):
        line.judgements = [judgement for judgement in judgements if judgement is not None]
        yield line


FoundAttempts = Sequence[tuple[int, TextLine, int]]
"""An instance's attempts, each with the number of its run and its row in the run's index."""


def entry(
    attempts_found: FoundAttempts,
    extractions: Sequence[str] = (),
    answers: Sequence[RecordedTask | None] = (),
) -> dict[str, Any]:
    """Return the prompts and attempts of an instance, as the page shows them.

    For each run, ``extractions`` says how the answer is found in a reply ("": it is the whole
    reply). ``answers`` gives the task's references and the scored parts of replies (None: unknown).
    """
    references: dict[str, None] = {}
    prompts: dict[bytes, int] = {}
    conversations: list[list[tuple[str, Text]]] = []
    attempts = []
    for run, line, _ in attempts_found:
        prompt = None
        if messages := line.request.messages:
            prompt = prompts.setdefault(to_json(messages), len(conversations))
            if prompt == len(conversations):
                conversations.append(
                    [(message.role, _text(message.content)) for message in messages]
                )
        packed = _packed(line, prompt)
        if run < len(extractions) and extractions[run]:
            packed["extraction"] = extractions[run]
        if run < len(answers) and (task := answers[run]) is not None:
            turn = line.round if line.turns else 1
            if reference := task.reference(line.instance, turn):
                references[reference] = None
            if part := task.extracted(line.instance, line.text or "", turn):
                packed["extracted"] = _text(part)
        attempts.append(packed)
    known_references = {"references": list(map(_text, references))} if references else {}
    return {"prompts": conversations, "attempts": attempts, **known_references}


def _packed(line: TextLine, prompt: int | None) -> dict[str, object]:
    texts = ("text", "reasoning", "feedback", "error")
    every = {
        **{name: _text(text) for name in texts if (text := getattr(line, name)) is not None},
        "prompt": prompt,
        "judges": [_packed_judge(judgement, line.scores) for judgement in line.judgements] or None,
        "scores": [_packed_score(name, score) for name, score in line.scores.items()] or None,
        "turns": line.turns,
        "played": True if line.user else None,
        "ends": next((_text(turn.ends) for turn in line.user if turn.ends), None),
        "finish": line.finish_reason,
        "call": line.call_id,
        "usage": line.usage,
        "cost": line.cost_usd,
        "latency": line.latency_s,
        "cached": line.cached or None,
        "request": _sent(line.request),
    }
    return {name: value for name, value in every.items() if value is not None}


def _sent(request: _Request) -> Text | None:
    """Return a request without its prompt as JSON, or None if that leaves at most a seed."""
    sent = {"model": request.model, "decoding": request.decoding, "seed": request.seed}
    stated = {key: value for key, value in sent.items() if value not in ("", {}, None)}
    if not stated.keys() - {"seed"}:
        return None
    return _text(msgspec.json.format(to_json(stated), indent=1).decode())


def _packed_score(name: str, score: Score) -> dict[str, object]:
    details = dict(score.details)
    constraints = details.get("constraints")
    packed: dict[str, object] = {"name": name, "value": score.value}
    if score.passed is not None:
        packed["passed"] = score.passed
    if score.reason:
        packed["reason"] = _text(score.reason)
    if isinstance(constraints, list) and all(
        isinstance(entry, dict) and isinstance(entry.get("constraint"), str)
        for entry in constraints
    ):
        del details["constraints"]
        packed["constraints"] = [
            (
                _text(entry["constraint"]),
                passed if isinstance(passed := entry.get("passed"), bool) else None,
                _value(entry.get("observed")),
                _value(entry.get("target")),
                _votes(entry),
            )
            for entry in constraints
        ]
    elif isinstance(errors := details.get("errors"), list) and all(map(_is_violation, errors)):
        # A place in a document, and what its schema wants there, is a constraint as well.
        packed["constraints"] = [
            (_text(f"{entry['path'] or 'document'}: {entry['keyword']}"), False,
             _value(entry["found"]), _value(entry["expected"]), "")
            for entry in errors
        ]  # fmt: skip
        if details.get("n_errors") == len(errors):
            details = {}
    if details:
        packed["details"] = _text(_in_words(details))
    return packed


def _is_violation(error: object) -> bool:
    return isinstance(error, dict) and {"path", "keyword", "found", "expected"} <= error.keys()


def _in_words(details: Mapping[str, Any]) -> str:
    """Return short details as words, such as ``words 41``, and others as JSON."""
    brief = all(value is None or isinstance(value, int | float | str) for value in details.values())
    words = ", ".join(f"{name} {_plain(value)}" for name, value in details.items())
    words = words.replace(", of ", " of ")
    return words if brief and len(words) < BRIEF else to_json(details).decode()


def _votes(constraint: Mapping[str, Any]) -> str:
    """Return in words how a criterion was decided, or ""."""
    sentences = []
    votes = constraint.get("votes")
    panel = constraint.get("panel")
    if isinstance(panel, dict):
        sentences += [f"{judge}: {_vote(vote)}" for judge, vote in panel.items()]
    elif isinstance(votes, list) and votes:
        neither = votes.count(None)
        more = f", {neither} neither" if neither else ""
        sentences.append(f"{sum(vote is True for vote in votes)} of {len(votes)} yes{more}")
    elif constraint.get("decided_by") == "rule":
        sentences.append("decided by a rule")
    elif isinstance(probability := constraint.get("probability"), int | float):
        sentences.append(f"yes with probability {probability:.2f}")
    if isinstance(rule := constraint.get("rule"), bool):
        sentences.append(f"a rule says {_vote(rule)}")
    return "; ".join(sentences)


def _vote(vote: object) -> str:
    if isinstance(vote, bool):
        return "yes" if vote else "no"
    if vote is None:
        return "no vote"
    return f"{vote:.2f}" if isinstance(vote, float) else str(vote)


def judges_of(index: AttemptIndex) -> dict[str, str]:
    """Describe a run's judges and panels in words, by name."""
    descriptions = {}
    for name, judge in index.register.judges.items():
        kind = str(judge.section.get("name", ""))
        prompt = judge.section.get("prompt")
        words = [kind if judge.members == () else f"panel of {', '.join(judge.members)}"]
        words += [f"model {judge.model}"] if judge.model else []
        words += ["simulated"] if judge.simulated else []
        words += [f"prompt {prompt}"] if isinstance(prompt, str) and prompt != kind else []
        descriptions[name] = ", ".join(words)
    return descriptions


def _packed_judge(judgement: JudgeReplies, scores: Mapping[str, Score]) -> dict[str, object]:
    """Return a judge's replies, each with its criterion if known."""
    about = [
        entry["constraint"]
        for name, score in scores.items()
        if name.startswith(f"{judgement.judge}.")
        and isinstance(constraints := score.details.get("constraints"), list)
        for entry in constraints
        if entry.get("decided_by") != "rule"
    ]
    n = len(judgement.replies) // len(about) if about and judgement.replies else 0
    titled = n * len(about) == len(judgement.replies)
    replies = [
        (about[number // n] if n and titled else "", _text(reply))
        for number, reply in enumerate(judgement.replies)
    ]
    packed: dict[str, object] = {"name": judgement.judge, "replies": replies}
    if judgement.outcome != "ok":
        packed |= {"outcome": judgement.outcome, "error": _text(judgement.error or "")}
    return packed


def _value(value: Any) -> Text:
    if isinstance(value, list):
        return _text("\n".join(map(_plain, value)))
    return _text(_plain(value))


def _plain(value: Any) -> str:
    if isinstance(value, str):
        return value
    return "" if value is None else to_json(value).decode()


def _text(text: str) -> Text:
    return text if len(text) <= LONGEST_TEXT else Cut(text[:LONGEST_TEXT], len(text))
