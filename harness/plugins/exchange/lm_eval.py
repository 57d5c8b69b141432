"""Reads lm-eval's samples (``--log_samples``) as a run.

Several extractions (filters) of a document's answer become scores of one attempt, named
``METRIC,FILTER``. In files that earlier versions of the harness wrote, the filters ``sample-0``,
``sample-1`` and so on are several samples of an instance.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from harness.errors import HarnessError
from harness.plugins.exchange import imported_run
from harness.plugins.exchange.imported_run import (
    CONTRADICTIONS,
    MAX_BYTES,
    FoundScore,
    Imported,
    invalid,
    opened,
)
from harness.plugins.lm_eval.scoring import ACCURACY
from harness.records import SCHEMA_VERSION, Attempt, Message, messages_hash, replace_surrogates

SIMULATED = "simulated"  # marks a document of an earlier version whose answers are simulated
# Keys of a line that are not metrics.
NOT_METRICS = frozenset(
    {"doc_id", "doc", "target", "arguments", "resps", "filtered_resps", "filter", "metrics"}
    | {"doc_hash", "prompt_hash", "target_hash"}
)

# Decoding settings with lm-eval's names.
DECODING = {"temperature": "temperature", "top_p": "top_p", "max_tokens": "max_gen_toks"}
NAME = re.compile(r"samples_(.+)_(\d{4}-\d\d-\d\dT[\d.-]+)\.jsonl")
ROUNDING = 1e-4  # the difference that rounding may make between two means
HEADLINES = ("exact_match", "acc")
SAMPLE = re.compile(r"sample-(\d{1,9})")  # the filter of one of k samples


def is_lm_eval(path: Path) -> bool:
    """Return whether a file begins like lm-eval's samples."""
    with opened(path) as file:
        begins = file.read(1 << 16).lstrip()
    return begins[:1] == b"{" and b'"doc_id"' in begins


def read_lm_eval(path: Path, task: str = "", score: str = "") -> Imported:
    """Read lm-eval's samples as a run.

    ``task`` is the task's name (default: the one in the file's name, or ``imported``). ``score``
    decides whether an answer passes.
    """
    results: Mapping[str, Any] = {}
    match = NAME.fullmatch(path.name)
    if match:
        task = task or replace_surrogates(match[1])
        results_path = path.with_name(f"results_{match[2]}.json")
        with contextlib.suppress(HarnessError), opened(results_path) as file:  # it may be missing
            results = _parsed(file.read(MAX_BYTES), str(results_path))
    task = task or "imported"
    model = replace_surrogates(
        _text(results.get("model_name")) or _text(results.get("model_source"))
    )
    documents = _documents(path)
    distinct = {(document.doc_id, document.doc_hash) for document in documents}
    ids = Counter(doc_id for doc_id, _ in distinct)
    filters = set[str]().union(*[document.readings for document in documents])
    data: dict[str, str] = {}
    scored = []
    score_names: dict[str, None] = {}  # in order
    for document in documents:
        name = document.doc_id
        if ids[name] > 1:
            name = f"{name}-{document.doc_hash[:8]}"
        data[name] = document.doc_hash
        scores = document.scores(several=len(filters) > 1)
        score_names |= dict.fromkeys(scores)
        scored.append(((document.where, _attempt(path, name, document)), scores))
    attempts, measure = imported_run.judged(scored, _is_accuracy, score, _headline(score_names))
    simulated = results.get("model_source") == "dummy"
    decoding: dict[str, Any] = {}
    if documents:
        simulated = simulated or documents[0].simulated
        decoding = documents[0].decoding()
    samples = 1 + max((document.sample for document in documents), default=0)
    missing = _evaluated(results, task) - len(distinct)
    progress: dict[str, Any] = {}
    notes = []
    if missing > 0:
        progress = {"samples": len(documents) + missing * samples, "owed": missing * samples}
        notes.append(
            f"Incomplete: {path.name} has {len(distinct):,} documents, but lm-eval's results say "
            f"that {len(distinct) + missing:,} were evaluated."
        )
    else:
        contradictions = list(_contradictions(results, task, len(distinct), -missing, documents))
        if contradictions:
            progress[CONTRADICTIONS] = contradictions
            notes += contradictions
    return Imported(
        format="lm-eval",
        config=imported_run.config(task, model, samples, decoding),
        manifest=imported_run.manifest(task, model, data, measure, simulated=simulated, **progress),
        attempts=attempts,
        notes=notes,
    )


def _is_accuracy(score: str) -> bool:
    return ACCURACY.fullmatch(score) is not None


def _headline(scores: Iterable[str]) -> str:
    """Return the name of the score that lm-eval shows first, or "" if there is none."""
    metrics = {score.split(",")[0]: score for score in reversed(list(scores))}
    for headline in HEADLINES:
        if headline in metrics:
            return metrics[headline]
    return ""


def _evaluated(results: Mapping[str, Any], task: str) -> int:
    """Return the number of a task's documents that lm-eval's results state, or 0 if none."""
    count = _mapping(_mapping(results.get("n-samples")).get(task)).get("effective")
    return count if isinstance(count, int) and count < 1 << 31 else 0


def _contradictions(
    results: Mapping[str, Any], task: str, n: int, surplus: int, documents: Sequence[_Line]
) -> Iterator[str]:
    """Yield what lm-eval's results say otherwise than the samples of all ``n`` documents.

    ``surplus`` is the number of documents beyond those that the results state.
    """
    if 0 < surplus < n:
        yield (
            f"The samples contradict lm-eval's results: they have {n:,} documents, and the "
            f"results say that {n - surplus:,} were evaluated."
        )
    scores = _mapping(_mapping(results.get("results")).get(task))
    values: dict[tuple[str, str], list[float]] = {}
    for document in documents:
        for reading, metrics in document.readings.items():
            for metric, score in metrics.items():
                if score.value is not None and ACCURACY.fullmatch(metric):
                    values.setdefault((metric, reading), []).append(score.value)
    for (metric, reading), numbers in values.items():
        stated = scores.get(f"{metric},{reading or 'none'}", scores.get(metric))
        mean = math.fsum(numbers) / len(numbers)
        if isinstance(stated, int | float) and abs(stated - mean) > ROUNDING:
            yield (
                f"The samples contradict lm-eval's results: the mean of {metric} is {mean:.4f} in "
                f"the samples, and {stated:.4f} in the results."
            )


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _documents(path: Path) -> list[_Line]:
    """Return the first line of each sample, with the readings of all its metrics."""
    documents: dict[tuple[str, str, int], _Line] = {}
    with opened(path) as file:
        contents = iter(lambda: file.readline(MAX_BYTES + 1), b"")
        for number, content in enumerate(contents, start=1):
            where = f"{path}, line {number}"
            if len(content) > MAX_BYTES:
                raise invalid(where, f"longer than {MAX_BYTES:,} bytes")
            if not content.strip():
                continue
            line = _Line(_parsed(content, where), where, number)
            key = (line.doc_id, line.doc_hash, line.sample)
            readings = documents.setdefault(key, line).readings
            if line.filter in readings:  # it is unknown which one counts
                raise invalid(where, f"the document {line.doc_id[:80]!r} occurs twice")
            readings[line.filter] = line.metrics()
    return list(documents.values())


def _attempt(path: Path, name: str, line: _Line) -> Attempt:
    prompt = line.messages()
    answer = line.answer()
    is_empty = answer is not None and not answer.strip()
    written = path.stat().st_mtime
    call = hashlib.blake2b(f"{path.name}/{line.number}".encode(), digest_size=16)
    return Attempt(
        v=SCHEMA_VERSION,
        instance=name,
        sample=line.sample,
        round=1,
        groups={},
        cluster=messages_hash(prompt),
        request={"messages_hash": messages_hash(prompt), "messages": prompt},
        outcome="empty" if is_empty else "ok",
        started_at=written,
        ended_at=written,
        text=answer,
        call_id=call.hexdigest(),
        cached=True,  # not paid for by this run
    )


def _parsed(content: bytes, where: str) -> dict[str, Any]:
    try:
        value = json.loads(content)  # unlike msgspec, it reads NaN, which lm-eval writes
    except (ValueError, RecursionError) as error:
        raise invalid(where, f"not JSON ({str(error)[:160]})") from None
    if not isinstance(value, dict):
        raise invalid(where, "not a mapping")
    return value


class _Line:
    """A line of lm-eval's samples; ``filter`` is the extraction, or "" for the answer as it is."""

    def __init__(self, tree: Mapping[str, Any], where: str, number: int) -> None:
        self._tree = tree
        self.where = where
        self.number = number
        self.readings: dict[str, dict[str, FoundScore]] = {}  # metrics by filter
        doc_id = tree.get("doc_id")
        if not isinstance(doc_id, str | int) or isinstance(doc_id, bool) or not str(doc_id):
            raise invalid(where, "not a sample of lm-eval: it has no doc_id")
        if not isinstance(tree.get("resps"), list):
            raise invalid(where, "not a sample of lm-eval: it has no resps")
        self.doc_id = replace_surrogates(str(doc_id))
        hashed = f"{tree.get('doc_hash')}/{tree.get('target_hash')}"
        if not isinstance(tree.get("doc_hash"), str):
            hashed = json.dumps([tree.get("doc"), tree.get("target")], default=str)
        self.doc_hash = hashlib.sha256(hashed.encode()).hexdigest()
        self.simulated = _mapping(tree.get("doc")).get(SIMULATED) is True
        self.sample = 0
        self.filter = replace_surrogates(_text(tree.get("filter")))
        sample = SAMPLE.fullmatch(self.filter)
        if sample:
            self.sample = int(sample[1])
        if sample or self.filter == "none":
            self.filter = ""

    def scores(self, *, several: bool) -> dict[str, FoundScore]:
        """Return the scores of all readings by name, with the filter's name if ``several``."""
        scores: dict[str, FoundScore] = {}
        for reading, metrics in self.readings.items():
            suffix = f",{reading or 'none'}" if several else ""
            scores |= {f"{metric}{suffix}": score for metric, score in metrics.items()}
        return scores

    def metrics(self) -> dict[str, FoundScore]:
        """Return the line's metrics by name. A metric that is not a number has the value None."""
        listed = self._tree.get("metrics")
        names = map(str, listed) if isinstance(listed, list) else self._tree
        metrics = {}
        for name in names:
            if name in self._tree and name not in NOT_METRICS:
                metrics[replace_surrogates(name)] = self._score(self._tree[name])
        return metrics

    def _score(self, value: Any) -> FoundScore:
        if isinstance(value, str):  # a numpy value, written as text
            value = {"true": True, "false": False}.get(value.lower(), value)
            try:
                value = float(value)
            except ValueError:
                return FoundScore(None, details={"value": replace_surrogates(value)})
        if isinstance(value, list | dict):
            return FoundScore(None, details={"value": value})
        return FoundScore(imported_run.number(value, self.where))

    def messages(self) -> tuple[Message, ...]:
        arguments = self._arguments()
        prompt = arguments[0][0] if arguments and arguments[0] else ""
        if isinstance(prompt, list) and len(prompt) == 1:  # some versions wrap a chat
            prompt = prompt[0]
        turns: Any = prompt
        if not isinstance(prompt, list):
            turns = _chat(_text(prompt))
        if turns is None:
            return (Message("user", replace_surrogates(_text(prompt))),)
        return tuple(_message(_mapping(turn)) for turn in turns)

    def answer(self) -> str | None:
        """Return the first reply or, in multiple choice, the likeliest option, if any."""
        first = next(iter(self._tree["resps"]), None)
        while isinstance(first, list) and first:
            if len(first) == 2 and str(first[1]) in ("True", "False"):  # a likelihood
                break
            first = first[0]
        if isinstance(first, str):
            return replace_surrogates(first)
        likelihoods = list(map(_likelihood, _list(self._tree.get("filtered_resps"))))
        arguments = self._arguments()
        if len(likelihoods) != len(arguments) or len(arguments) < 2:
            return None
        likeliest = arguments[likelihoods.index(max(likelihoods))]
        if len(likeliest) > 1 and isinstance(likeliest[1], str):
            return replace_surrogates(likeliest[1])
        return None

    def decoding(self) -> dict[str, Any]:
        arguments = self._arguments()
        if not arguments or len(arguments[0]) < 2:
            return {}
        options = _mapping(arguments[0][1])
        settings = {ours: options[theirs] for ours, theirs in DECODING.items() if theirs in options}
        stop = [text for text in _list(options.get("until")) if isinstance(text, str)]
        if stop:
            settings["stop"] = stop
        return settings

    def _arguments(self) -> list[list[Any]]:
        arguments = self._tree.get("arguments")
        if not isinstance(arguments, dict):
            return list(map(_list, _list(arguments)))
        requests = []
        for name in sorted(arguments, key=lambda name: (len(name), name)):  # gen_args_10 after _9
            request = _mapping(arguments[name])
            requests.append([request[key] for key in sorted(request)])
        return requests


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _chat(prompt: str) -> list[Any] | None:
    """Return the messages in a prompt if it is a chat encoded as JSON, otherwise None."""
    with contextlib.suppress(ValueError, RecursionError):
        turns = json.loads(prompt) if prompt.startswith('[{"') else []
        if turns and all(isinstance(turn, dict) and _text(turn.get("role")) for turn in turns):
            return list(turns)
    return None


def _message(turn: Mapping[str, Any]) -> Message:
    content = turn.get("content")
    if not isinstance(content, str):
        texts = [part.get("text") for part in _list(content) if isinstance(part, dict)]
        content = "\n".join(map(_text, texts))
    return Message(imported_run.role(turn.get("role")), replace_surrogates(content))


def _likelihood(reply: Any) -> float:
    try:
        likelihood = float(reply[0] if isinstance(reply, list) else reply)
    except (TypeError, ValueError, IndexError):
        return -math.inf
    return -math.inf if math.isnan(likelihood) else likelihood
