"""Reads lm-eval's samples as a run.

A document is an instance with one sample; several readings of its answer (filters) are scores of
one attempt, ``METRIC,FILTER``. The model is named in the results that lm-eval writes beside the
samples. Reads the current format of lines and the older one, in which ``arguments`` is a list.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness.errors import HarnessError
from harness.exchange.imported_run import (
    MAX_BYTES,
    FoundScore,
    Imported,
    config,
    invalid,
    judged,
    manifest,
    number,
    opened,
)
from harness.exchange.lm_eval_export import DECODING, NOT_METRICS, SIMULATED
from harness.records import SCHEMA_VERSION, Attempt, Message, encodable, messages_hash

NAME = re.compile(r"samples_(.+)_(\d{4}-\d\d-\d\dT[\d.-]+)\.jsonl")
ACCURACY = re.compile(r"(.*_)?(acc|accuracy|exact_match|em|pass@1|pass_at_1)(_norm|_bytes)?(,.*)?")
"""Metrics that lm-eval's tasks treat as accuracies."""
HEADLINES = ("exact_match", "acc")
SAMPLE = re.compile(r"sample-(\d{1,9})")
"""The filter of one of k samples, in files that the harness has exported."""


@dataclass(slots=True)
class _Document:
    """One sample of a document: its first line, and the metrics of all its lines by filter."""

    where: str
    number: int
    line: _Line
    metrics: dict[str, dict[str, FoundScore]] = field(default_factory=dict)


def is_lm_eval(path: Path) -> bool:
    """Return whether a file begins like lm-eval's samples; it may still be malformed."""
    with opened(path) as file:
        begins = file.read(1 << 16).lstrip()
    return begins[:1] == b"{" and b'"doc_id"' in begins


def read_lm_eval(path: Path, task: str = "", score: str = "") -> Imported:
    """Read a file of samples; `judged` says which score decides if `score` is not given."""
    named = NAME.fullmatch(path.name)
    task = task or (encodable(named[1]) if named else "imported")
    results = _results(path.with_name(f"results_{named[2]}.json")) if named else {}
    model = encodable(_text(results.get("model_name")) or _text(results.get("model_source")))
    documents = _documents(path)
    hashes: dict[str, set[str]] = {}
    for one in documents:
        hashes.setdefault(one.line.doc_id, set()).add(one.line.doc_hash)
    several = len({reading for one in documents for reading in one.metrics}) > 1
    data: dict[str, str] = {}
    found = []
    for one in documents:
        name, line = one.line.doc_id, one.line
        if len(hashes[name]) > 1:
            name = f"{name}-{line.doc_hash[:8]}"
        data[name] = line.doc_hash
        scores = {
            f"{metric},{reading or 'none'}" if several else metric: value
            for reading, metrics in one.metrics.items()
            for metric, value in metrics.items()
        }
        found.append(((one.where, _attempt(path, name, one)), scores))
    every = dict.fromkeys(name for _, scores in found for name in scores)
    headlines = [name for wanted in HEADLINES for name in every if name.split(",")[0] == wanted]
    attempts, measure = judged(
        found, lambda name: bool(ACCURACY.fullmatch(name)), score, next(iter(headlines), "")
    )
    first = documents[0].line if documents else None
    simulated = bool(first and first.simulated) or results.get("model_source") == "dummy"
    samples = 1 + max((one.line.sample for one in documents), default=0)
    return Imported(
        format="lm-eval",
        config=config(task, model, samples, first.decoding() if first else {}),
        manifest=manifest(task, model, data, measure, simulated=simulated),
        attempts=attempts,
    )


def _documents(path: Path) -> list[_Document]:
    documents: dict[tuple[str, str, int], _Document] = {}
    number = 0
    with opened(path) as file:
        while content := file.readline(MAX_BYTES + 1):
            number += 1
            where = f"{path}, line {number}"
            if len(content) > MAX_BYTES:
                raise invalid(where, f"longer than {MAX_BYTES:,} bytes")
            if not content.strip():
                continue
            line = _Line(_parsed(content, where), where)
            key = (line.doc_id, line.doc_hash, line.sample)
            document = documents.setdefault(key, _Document(where, number, line))
            if line.filter in document.metrics:  # nothing says which of them counts
                raise invalid(where, f"the document {line.doc_id[:80]!r} occurs twice")
            document.metrics[line.filter] = line.metrics()
    return list(documents.values())


def _attempt(path: Path, name: str, document: _Document) -> Attempt:
    asked, answer = document.line.messages(), document.line.answer()
    written = path.stat().st_mtime
    call = hashlib.blake2b(f"{path.name}/{document.number}".encode(), digest_size=16)
    return Attempt(
        v=SCHEMA_VERSION,
        instance=name,
        sample=document.line.sample,
        round=1,
        groups={},
        cluster=messages_hash(asked),
        request={"messages_hash": messages_hash(asked), "messages": asked},
        outcome="empty" if answer is not None and not answer.strip() else "ok",
        started_at=written,
        ended_at=written,
        text=answer,
        call_id=call.hexdigest(),
        cached=True,  # this run has not paid for it
    )


def _parsed(content: bytes, where: str) -> dict[str, Any]:
    try:
        found = json.loads(content)  # which reads NaN, as lm-eval writes it
    except (ValueError, RecursionError) as error:
        raise invalid(where, f"not JSON ({str(error)[:160]})") from None
    if not isinstance(found, dict):
        raise invalid(where, "not a mapping")
    return found


def _results(path: Path) -> Mapping[str, Any]:
    """Return lm-eval's results file for the samples; empty if missing."""
    try:
        with opened(path) as file:
            return _parsed(file.read(MAX_BYTES), str(path))
    except HarnessError:
        return {}


class _Line:
    """A decoded line of samples; `filter` names the extraction, if there are several."""

    def __init__(self, tree: Mapping[str, Any], where: str) -> None:
        self._tree = tree
        self._where = where
        doc_id = tree.get("doc_id")
        if not isinstance(doc_id, str | int) or isinstance(doc_id, bool) or not str(doc_id):
            raise invalid(where, "not a sample of lm-eval: it has no doc_id")
        if not isinstance(tree.get("resps"), list):
            raise invalid(where, "not a sample of lm-eval: it has no resps")
        self.doc_id = encodable(str(doc_id))
        hashed = f"{tree.get('doc_hash')}/{tree.get('target_hash')}"
        if not isinstance(tree.get("doc_hash"), str):
            hashed = json.dumps([tree.get("doc"), tree.get("target")], default=str)
        self.doc_hash = hashlib.sha256(hashed.encode()).hexdigest()
        reading = encodable(_text(tree.get("filter")))
        sampled = SAMPLE.fullmatch(reading)
        self.sample = int(sampled[1]) if sampled else 0
        self.filter = "" if sampled or reading == "none" else reading
        doc = tree.get("doc")
        self.simulated = isinstance(doc, dict) and doc.get(SIMULATED) is True

    def metrics(self) -> dict[str, FoundScore]:
        """Return the metrics by name; a metric that is not a number has no value."""
        listed = self._tree.get("metrics")
        names = map(str, listed) if isinstance(listed, list) else self._tree
        return {
            encodable(name): self._found(self._tree[name])
            for name in names
            if name in self._tree and name not in NOT_METRICS
        }

    def _found(self, value: Any) -> FoundScore:
        if isinstance(value, str):  # numpy's values in JSON
            value = {"true": True, "false": False}.get(value.lower(), value)
            try:
                value = float(value)
            except ValueError:
                return FoundScore(None, details={"value": encodable(value)})
        if isinstance(value, list | dict):
            return FoundScore(None, details={"value": value})
        return FoundScore(number(value, self._where))

    def messages(self) -> tuple[Message, ...]:
        """Return the prompt."""
        arguments = self._arguments()
        asked = arguments[0][0] if arguments and arguments[0] else ""
        if isinstance(asked, list) and len(asked) == 1:  # a chat, as some versions wrap it
            asked = asked[0]
        turns = asked if isinstance(asked, list) else _chat(_text(asked))
        if turns is None:
            return (Message("user", encodable(_text(asked))),)
        return tuple(_message(turn if isinstance(turn, dict) else {}) for turn in turns)

    def answer(self) -> str | None:
        """Return the first reply; for a choice, the likeliest; None if nothing was written."""
        first = next(iter(self._tree["resps"]), None)
        while isinstance(first, list) and first and not _is_likelihood(first):
            first = first[0]
        if isinstance(first, str):
            return encodable(first)
        likelihoods = [_likelihood(reply) for reply in _list(self._tree.get("filtered_resps"))]
        arguments = self._arguments()
        if len(likelihoods) != len(arguments) or len(arguments) < 2:
            return None
        best = arguments[max(range(len(likelihoods)), key=likelihoods.__getitem__)]
        return encodable(best[1]) if len(best) > 1 and isinstance(best[1], str) else None

    def decoding(self) -> dict[str, Any]:
        """Return the decoding settings of the first request."""
        arguments = self._arguments()
        options = arguments[0][1] if arguments and len(arguments[0]) > 1 else None
        if not isinstance(options, dict):
            return {}
        stop = [one for one in _list(options.get("until")) if isinstance(one, str)]
        found = {ours: options[theirs] for ours, theirs in DECODING.items() if theirs in options}
        return found | ({"stop": stop} if stop else {})

    def _arguments(self) -> list[list[Any]]:
        """Return the arguments of each request, in order."""
        arguments = self._tree.get("arguments")
        if not isinstance(arguments, dict):
            return [_list(one) for one in _list(arguments)]

        def place(name: str) -> tuple[int, str]:
            digits = re.search(r"(\d{1,9})$", name)  # gen_args_10 follows gen_args_9
            return (int(digits[1]) if digits else 0, name)

        requests = [arguments[name] for name in sorted(arguments, key=place)]
        return [
            [one[name] for name in sorted(one)] if isinstance(one, dict) else [] for one in requests
        ]


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _chat(asked: str) -> list[Any] | None:
    """Return the turns of a prompt that is a chat in JSON, or None if it is not."""
    if not asked.startswith('[{"') or '"role"' not in asked:
        return None
    try:
        turns = json.loads(asked)
    except (ValueError, RecursionError):
        return None
    fit = all(isinstance(turn, dict) and isinstance(turn.get("role"), str) for turn in turns)
    return turns if fit else None


def _message(turn: Mapping[str, Any]) -> Message:
    content = turn.get("content")
    if not isinstance(content, str):
        parts = [part.get("text") for part in _list(content) if isinstance(part, dict)]
        content = "\n".join(map(_text, parts))
    role = turn.get("role")
    return Message(role if role in ("system", "assistant") else "user", encodable(content))


def _is_likelihood(reply: list[Any]) -> bool:
    """Return whether a reply is a log likelihood with whether it was the greedy choice."""
    return len(reply) == 2 and str(reply[1]) in ("True", "False")


def _likelihood(reply: Any) -> float:
    try:
        found = float(reply[0] if isinstance(reply, list) else reply)
    except (TypeError, ValueError, IndexError):
        return float("-inf")
    return found if found == found else float("-inf")
