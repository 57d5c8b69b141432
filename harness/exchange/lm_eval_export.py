"""A run as the samples that lm-eval writes with ``--log_samples``, one line each.

Samples that could not be judged or measured are skipped: lm-eval has no failed calls. Each of k
samples is a filter, ``sample-0``, ``sample-1``, …, as lm-eval writes several readings of one
document. Of several rounds the last one is written, with the earlier ones in its prompt.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from harness.config.run_file import RunFile
from harness.exchange.exported_run import ExportedRun, conversation
from harness.records import Attempt
from harness.store.files import output_file

VERDICT = "acc"
"""The metric that says whether a sample passed."""

SIMULATED = "simulated"
"""Marks a document whose answers are simulated."""

NOT_METRICS = frozenset(
    {"doc_id", "doc", "target", "arguments", "resps", "filtered_resps", "filter", "metrics"}
    | {"doc_hash", "prompt_hash", "target_hash"}
)
"""Keys of a line that are not metrics."""

DECODING = {"temperature": "temperature", "top_p": "top_p", "max_tokens": "max_gen_toks"}
"""Decoding settings with lm-eval's names."""


def write_lm_eval(run: ExportedRun, config: RunFile, path: Path) -> tuple[int, int]:
    """Write the samples of a run; if that fails, an existing file is unchanged.

    Returns:
        The number of samples written, and the number skipped.
    """
    several = bool((run.index.attempts.sample > 0).any())
    given = config.decoding.given()
    options = {theirs: given[ours] for ours, theirs in DECODING.items() if ours in given}
    options = {"until": list(given.get("stop", ())), **options}
    encode = msgspec.json.Encoder().encode
    numbers: dict[str, int] = {}
    written = left_out = 0
    with output_file(path) as temporary, temporary.open("wb") as file:
        for rounds in run.samples():
            last = rounds[-1]
            doc_id = numbers.setdefault(last.instance, len(numbers))
            metrics = _metrics(last)
            if not metrics:
                left_out += 1
                continue
            written += 1
            doc: dict[str, Any] = {"id": last.instance, **last.groups}
            if run.simulated:
                doc[SIMULATED] = True
            reading = f"sample-{last.sample}" if several else "none"
            line = {"doc_id": doc_id, "doc": doc, "filter": reading}
            file.write(encode(line | _answer(rounds, doc, options) | metrics) + b"\n")
    return written, left_out


def _answer(
    rounds: Sequence[Attempt], doc: Mapping[str, Any], options: Mapping[str, Any]
) -> dict[str, Any]:
    turns = conversation(rounds)
    alone = len(turns) == 1 and turns[0]["role"] == "user"
    asked = turns[0]["content"] if alone else json.dumps(turns, ensure_ascii=False)
    text = rounds[-1].text or ""
    return {
        "target": "",
        "arguments": {"gen_args_0": {"arg_0": asked, "arg_1": options}},
        "resps": [[text]],
        "filtered_resps": [text],
        "metrics": list(_metrics(rounds[-1])),
        "doc_hash": _hash(json.dumps(doc, indent=2, ensure_ascii=False)),
        "prompt_hash": _hash(asked),
        "target_hash": _hash(""),
    }


def _metrics(attempt: Attempt) -> dict[str, float]:
    """Return the verdict and the scores, renamed if a line uses their name for something else."""
    verdict = {} if attempt.passed is None else {VERDICT: float(attempt.passed)}
    reserved = NOT_METRICS | {VERDICT}
    return verdict | {
        f"score_{name}" if name in reserved else name: float(score.value)
        for name, score in attempt.scores.items()
        if score.value is not None
    }


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
