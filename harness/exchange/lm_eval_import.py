"""Reads lm-eval's samples as a run.

A document is an instance with one sample; several readings of its answer (filters) are scores of
one attempt, ``METRIC,FILTER``. The model is named in the results that lm-eval writes beside the
samples. Reads the current form of lines and the older one, in which ``arguments`` is a list.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness.errors import HarnessError
from harness.exchange.imported_run import (
    MAX_BYTES,
    FoundScore,
    Imported,
    Verdicts,
    config,
    invalid,
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
    """One sample of a document: the place of its first line, and the metrics of all its lines."""

    offset: int
    number: int
    doc_id: str
    doc_hash: str
    sample: int
    metrics: dict[str, FoundScore] = field(default_factory=dict)


def is_lm_eval(path: Path) -> bool:
    """Return whether a file begins like lm-eval's samples; it may still be malformed."""
    with opened(path) as file:
        begins = file.read(1 << 16).lstrip()
    return begins[:1] == b"{" and b'"doc_id"' in begins


def read_lm_eval(path: Path, task: str = "", score: str = "") -> Imported:
    """Read a file of samples.

    Args:
        path: The file.
        task: Name for the task; by default the file's.
        score: The score that decides what passed; by default see `Verdicts`.
    """
    named = NAME.fullmatch(path.name)
    task = task or (encodable(named[1]) if named else "imported")
    results = _results(path.with_name(f"results_{named[2]}.json")) if named else {}
    model = encodable(_text(results.get("model_name")) or _text(results.get("model_source")))
    documents = _documents(path)
    verdicts = _verdicts(documents, score)
    hashes: dict[str, set[str]] = {}
    for one in documents:
        hashes.setdefault(one.doc_id, set()).add(one.doc_hash)
    names = [
        one.doc_id if len(hashes[one.doc_id]) == 1 else f"{one.doc_id}-{one.doc_hash[:8]}"
        for one in documents
    ]
    first = _Line(_line_at(path, documents[0]), str(path)) if documents else None
    data = {name: one.doc_hash for name, one in zip(names, documents, strict=True)}
    simulated = bool(first and first.simulated) or results.get("model_source") == "dummy"
    samples = 1 + max((one.sample for one in documents), default=0)
    return Imported(
        format="lm-eval",
        config=config(task, model, samples, first.decoding() if first else {}),
        manifest=manifest(task, model, data, verdicts.measure, simulated=simulated),
        attempts=_attempts(path, documents, names, verdicts),
    )


def _documents(path: Path) -> list[_Document]:
    lines: list[tuple[_Document, str, dict[str, FoundScore]]] = []
    documents: dict[tuple[str, str, int], _Document] = {}
    seen: set[tuple[tuple[str, str, int], str]] = set()
    offset = number = 0
    with opened(path) as file:
        while content := file.readline(MAX_BYTES + 1):
            number += 1
            where = f"{path}, line {number}"
            if len(content) > MAX_BYTES:
                raise invalid(where, f"longer than {MAX_BYTES:,} bytes")
            if content.strip():
                line = _Line(_parsed(content, where), where)
                key = (line.doc_id, line.doc_hash, line.sample)
                if (key, line.filter) in seen:  # nothing says which of them counts
                    raise invalid(where, f"the document {line.doc_id[:80]!r} occurs twice")
                seen.add((key, line.filter))
                document = documents.setdefault(key, _Document(offset, number, *key))
                lines.append((document, line.filter, line.metrics()))
            offset += len(content)
    several = len({reading for _, reading, _ in lines}) > 1
    for document, reading, metrics in lines:
        for name, found in metrics.items():
            document.metrics[f"{name},{reading or 'none'}" if several else name] = found
    return list(documents.values())


def _verdicts(documents: list[_Document], score: str) -> Verdicts:
    every = dict.fromkeys(name for document in documents for name in document.metrics)
    headlines = [name for wanted in HEADLINES for name in every if name.split(",")[0] == wanted]
    headline = next(iter(headlines), "")
    verdicts = Verdicts(lambda name: ACCURACY.fullmatch(name) is not None, score, headline)
    for document in documents:
        for name, found in document.metrics.items():
            verdicts.add(name, found)
    verdicts.decide()
    return verdicts


def _attempts(
    path: Path, documents: list[_Document], names: list[str], verdicts: Verdicts
) -> Iterator[tuple[str, Attempt]]:
    written = path.stat().st_mtime
    for name, document in zip(names, documents, strict=True):
        where = f"{path}, line {document.number}"
        line = _Line(_line_at(path, document), where)
        asked, answer = line.messages(), line.answer()
        scores = {one: verdicts.score(one, found) for one, found in document.metrics.items()}
        deciding = scores.get(verdicts.deciding)
        call = hashlib.blake2b(f"{path.name}/{document.number}".encode(), digest_size=16)
        attempt = Attempt(
            v=SCHEMA_VERSION,
            instance=name,
            sample=document.sample,
            round=1,
            groups={},
            cluster=messages_hash(asked),
            request={"messages_hash": messages_hash(asked), "messages": asked},
            outcome="empty" if answer is not None and not answer.strip() else "ok",
            started_at=written,
            ended_at=written,
            text=answer,
            passed=deciding.passed if deciding else None,
            scores=scores,
            call_id=call.hexdigest(),
            cached=True,  # this run has not paid for it
        )
        yield where, attempt


def _parsed(content: bytes, where: str) -> dict[str, Any]:
    try:
        found = json.loads(content)  # which reads NaN, as lm-eval writes it
    except (ValueError, RecursionError) as error:
        raise invalid(where, f"not JSON ({str(error)[:160]})") from None
    if not isinstance(found, dict):
        raise invalid(where, "not a mapping")
    return found


def _line_at(path: Path, document: _Document) -> dict[str, Any]:
    with opened(path) as file:
        file.seek(document.offset)
        return _parsed(file.readline(), f"{path}, line {document.number}")


def _results(path: Path) -> Mapping[str, Any]:
    """Return what lm-eval wrote about the same evaluation beside the samples; empty if missing."""
    try:
        with opened(path) as file:
            return _parsed(file.read(MAX_BYTES), str(path))
    except HarnessError:
        return {}


class _Line:
    """A line of samples.

    doc_id, doc_hash: of the document.
    sample: number among k samples.
    filter: which reading of the answer it is; empty if there is one.
    """

    def __init__(self, tree: Mapping[str, Any], where: str) -> None:
        """Read a decoded line.

        Raises:
            DataInvalid: It is not lm-eval's.
        """
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
