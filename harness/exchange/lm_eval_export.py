"""A run as the samples that lm-eval's ``--log_samples`` writes, a line each.

Owns what has no place there. A sample that nobody could judge or measure is left out: lm-eval
knows no failed call. Of k samples each is a filter of its own, ``sample-0``, ``sample-1``, …,
as lm-eval writes several readings of one document. Of several rounds the last one stands there,
with those before it in its prompt.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from harness.config.run_file import RunFile
from harness.exchange.attempt_rows import ExportedRun
from harness.exchange.conversation import followed, samples
from harness.records import Attempt
from harness.store.files import output_file

VERDICT = "acc"
"""The metric that says whether a sample passed."""

SIMULATED = "simulated"
"""In a document: its answers are made up, and no table may leave that out."""


def write_lm_eval(run: ExportedRun, config: RunFile, path: Path) -> tuple[int, int]:
    """Write the samples; how many, and how many were left out.

    Raises: a `harness.errors.HarnessError`; the file is then as it was.
    """
    several = bool((run.places.attempts.sample > 0).any())
    options = _options(config)
    mark = {SIMULATED: True} if run.simulated else {}
    encode = msgspec.json.Encoder().encode
    numbers: dict[str, int] = {}
    written = left_out = 0
    with output_file(path) as temporary, temporary.open("wb") as file:
        for rounds in samples(run):
            doc_id = numbers.setdefault(rounds[-1].instance, len(numbers))
            metrics = _metrics(rounds[-1])
            if not metrics:
                left_out += 1
                continue
            written += 1
            doc = {"id": rounds[-1].instance, **rounds[-1].groups, **mark}
            line = _line(doc_id, doc, rounds, metrics, options, several=several)
            file.write(encode(line) + b"\n")
    return written, left_out


def _line(
    doc_id: int,
    doc: Mapping[str, Any],
    rounds: Sequence[Attempt],
    metrics: Mapping[str, float],
    options: Mapping[str, Any],
    *,
    several: bool,
) -> dict[str, Any]:
    last = rounds[-1]
    turns = followed(rounds)
    alone = len(turns) == 1 and turns[0]["role"] == "user"
    asked = turns[0]["content"] if alone else json.dumps(turns, ensure_ascii=False)
    text = last.text or ""
    return {
        "doc_id": doc_id,
        "doc": doc,
        "target": "",
        "arguments": {"gen_args_0": {"arg_0": asked, "arg_1": options}},
        "resps": [[text]],
        "filtered_resps": [text],
        "filter": f"sample-{last.sample}" if several else "none",
        "metrics": list(metrics),
        "doc_hash": _hash(json.dumps(doc, indent=2, ensure_ascii=False)),
        "prompt_hash": _hash(asked),
        "target_hash": _hash(""),
        **metrics,
    }


def _metrics(attempt: Attempt) -> dict[str, float]:
    found = {
        _metric(name): float(score.value)
        for name, score in attempt.scores.items()
        if score.value is not None
    }
    verdict = {} if attempt.passed is None else {VERDICT: float(attempt.passed)}
    return verdict | found


RESERVED = frozenset(
    {"doc_id", "doc", "target", "arguments", "resps", "filtered_resps", "filter", "metrics"}
    | {"doc_hash", "prompt_hash", "target_hash", VERDICT}
)


def _metric(name: str) -> str:
    """A score's name, where a line does not mean something else by it."""
    return f"score_{name}" if name in RESERVED else name


def _options(config: RunFile) -> dict[str, Any]:
    """The decoding by lm-eval's names."""
    given = config.decoding.given()
    names = {"temperature": "temperature", "top_p": "top_p", "max_tokens": "max_gen_toks"}
    found = {theirs: given[ours] for ours, theirs in names.items() if ours in given}
    return {"until": list(given.get("stop", ()))} | found


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
