"""lm-eval's samples as a run.

Owns what of a file is what of a run. A document is an instance of one sample; several readings
of its answer (filters) are scores of one attempt, ``METRIC,FILTER``. The model is named in the
results that lm-eval writes beside the samples, where they are there.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from typing import Any

from harness.errors import HarnessError
from harness.exchange.foreign_json import MOST_WHOLE, invalid, json_lines, opened, parse, text
from harness.exchange.imported_run import Imported, config, manifest
from harness.exchange.lm_eval_line import Line
from harness.exchange.verdicts import Found, Verdicts
from harness.records import SCHEMA_VERSION, Attempt, encodable, messages_hash

NAME = re.compile(r"samples_(.+)_(\d{4}-\d\d-\d\dT[\d.-]+)\.jsonl")
ACCURACY = re.compile(r"(.*_)?(acc|accuracy|exact_match|em|pass@1|pass_at_1)(_norm|_bytes)?(,.*)?")
"""Metrics that lm-eval's tasks take for accuracies."""

FIRST = ("exact_match", "acc")


@dataclass(slots=True)
class _Document:
    """One sample of a document: where its first line is, and its metrics in all of its lines."""

    offset: int
    number: int
    doc_id: str
    doc_hash: str
    sample: int
    metrics: list[tuple[str, Found]] = field(default_factory=list)


def is_lm_eval(path: Path) -> bool:
    """Whether a file begins as lm-eval's samples do; it may still be broken."""
    with opened(path) as file:
        begins: bytes = file.read(1 << 16).lstrip()
    return begins[:1] == b"{" and b'"doc_id"' in begins


def read_lm_eval(path: Path, task: str = "", score: str = "") -> Imported:
    """What a file of samples holds.

    task, score: names that the user wants; by default what the file says.

    Raises: a `harness.errors.HarnessError`.
    """
    named = NAME.fullmatch(path.name)
    task = task or (encodable(named[1]) if named else "imported")
    results = _results(path, named[2]) if named else {}
    model = text(results.get("model_name")) or text(results.get("model_source"))
    documents = list(_documents(path).values())
    verdicts = _verdicts(documents, score)
    names = _names(documents)
    first = Line(_at(path, documents[0]), str(path)) if documents else None
    return Imported(
        format="lm-eval",
        config=config(
            task,
            encodable(model),
            1 + max((one.sample for one in documents), default=0),
            _decoding(first.options() if first else {}),
        ),
        manifest=manifest(
            task,
            encodable(model),
            {name: one.doc_hash for name, one in zip(names, documents, strict=True)},
            verdicts.measure,
            simulated=bool(first and first.simulated) or results.get("model_source") == "dummy",
        ),
        attempts=_attempts(path, documents, names, verdicts),
    )


def _documents(path: Path) -> dict[tuple[str, str, int], _Document]:
    lines: list[tuple[_Document, str, list[tuple[str, Found]]]] = []
    documents: dict[tuple[str, str, int], _Document] = {}
    told: set[tuple[tuple[str, str, int], str]] = set()
    for number, offset, content in json_lines(path):
        where = f"{path}, line {number}"
        line = Line(parse(content, where), where)
        key = (line.doc_id, line.doc_hash, line.sample)
        if (key, line.filter) in told:  # which of them counts is not for us to say
            raise invalid(where, f"the document {line.doc_id[:80]!r} is there twice")
        told.add((key, line.filter))
        document = documents.setdefault(key, _Document(offset, number, *key))
        lines.append((document, line.filter, list(line.metrics())))
    several = len({reading for _, reading, _ in lines}) > 1
    for document, reading, metrics in lines:
        for name, found in metrics:
            full = f"{name},{reading or 'none'}" if several else name
            document.metrics.append((full, found))
    return documents


def _verdicts(documents: list[_Document], score: str) -> Verdicts:
    every = dict.fromkeys(name for document in documents for name, _ in document.metrics)
    preferred = [name for wanted in FIRST for name in every if name.split(",")[0] == wanted]
    verdicts = Verdicts(
        lambda name: ACCURACY.fullmatch(name) is not None, score, next(iter(preferred), "")
    )
    for document in documents:
        for name, found in document.metrics:
            verdicts.learn(name, found)
    verdicts.decide()
    return verdicts


def _names(documents: list[_Document]) -> list[str]:
    """Of each document its id; with a part of its hash where others have the same id."""
    hashes: dict[str, set[str]] = {}
    for document in documents:
        hashes.setdefault(document.doc_id, set()).add(document.doc_hash)
    return [
        one.doc_id if len(hashes[one.doc_id]) == 1 else f"{one.doc_id}-{one.doc_hash[:8]}"
        for one in documents
    ]


def _attempts(
    path: Path, documents: list[_Document], names: list[str], verdicts: Verdicts
) -> Iterator[tuple[str, Attempt]]:
    written = path.stat().st_mtime
    for name, document in zip(names, documents, strict=True):
        where = f"{path}, line {document.number}"
        line = Line(_at(path, document), where)
        asked, said = line.messages(), line.answer()
        scores = {one: verdicts.score(one, found) for one, found in document.metrics}
        deciding = scores.get(verdicts.deciding)
        yield (
            where,
            Attempt(
                v=SCHEMA_VERSION,
                instance=name,
                sample=document.sample,
                round=1,
                groups={},
                cluster=messages_hash(asked),
                request={"messages_hash": messages_hash(asked), "messages": asked},
                outcome="empty" if said is not None and not said.strip() else "ok",
                started_at=written,
                ended_at=written,
                text=said,
                passed=deciding.passed if deciding else None,
                scores=scores,
                call_id=blake2b(
                    f"{path.name}/{document.number}".encode(), digest_size=16
                ).hexdigest(),
                cached=True,  # whatever it has cost, this run has not paid it
            ),
        )


def _at(path: Path, document: _Document) -> dict[str, Any]:
    with opened(path) as file:
        file.seek(document.offset)
        return parse(file.readline(), f"{path}, line {document.number}")


def _results(path: Path, stamp: str) -> Mapping[str, Any]:
    """What lm-eval wrote of the same evaluation beside the samples; empty where it is not there."""
    beside = path.with_name(f"results_{stamp}.json")
    try:
        with opened(beside) as file:
            return parse(file.read(MOST_WHOLE), str(beside))
    except HarnessError:
        return {}


def _decoding(options: Mapping[str, Any]) -> dict[str, Any]:
    names = {"temperature": "temperature", "top_p": "top_p", "max_gen_toks": "max_tokens"}
    until = options.get("until")
    stop = [one for one in until if isinstance(one, str)] if isinstance(until, list) else []
    found = {ours: options[theirs] for theirs, ours in names.items() if theirs in options}
    return found | ({"stop": stop} if stop else {})
