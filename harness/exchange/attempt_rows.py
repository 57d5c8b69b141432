"""Runs as one table: a row for each attempt that counts, a column for each thing it tells.

Owns the columns' names and kinds, and what stands in a cell. What is not known is None, never
0, and texts are as they are in the run. Memory holds where the lines are, not what they say.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import msgspec

from harness.records import Usage
from harness.store.index import AttemptIndex, AttemptLine

Kind = Literal["text", "integer", "number", "flag"]
Cell = str | int | float | bool | None


@dataclass(frozen=True, slots=True)
class ExportedRun:
    """A run that is exported.

    name, task, model, simulated: as its manifest and its folder say.
    path, places: its attempts' file, and where in it they are.
    """

    name: str
    task: str
    model: str | None
    simulated: bool
    path: Path
    places: AttemptIndex


class _Score(msgspec.Struct, gc=False):
    value: bool | float | None
    reason: str = ""
    details: msgspec.Raw = msgspec.Raw(b"{}")


class _Request(msgspec.Struct, gc=False):
    messages: msgspec.Raw = msgspec.Raw(b"")


class _Row(AttemptLine, kw_only=True, gc=False):
    """What a row tells of an attempt; JSON that is only passed on stays as it is written."""

    request: _Request
    scores: dict[str, _Score] = msgspec.field(default_factory=dict)


FIXED: Mapping[str, Kind] = {"run": "text", "task": "text", "model": "text", "simulated": "flag"}
"""The columns that are the same in every row of a run; made-up answers must not pass for others."""

Reader = Callable[[_Row], Cell]


class AttemptRows:
    """The table of some runs.

    columns: kind of each column by its name, in order.
    """

    def __init__(self, runs: Sequence[ExportedRun]) -> None:
        self.runs = runs
        labels = dict.fromkeys(label for run in runs for label in run.places.attempts.labels())
        scores = dict.fromkeys(name for run in runs for name in run.places.attempts.scores)
        self.columns: dict[str, Kind] = dict(FIXED)
        self._readers: list[Reader] = []
        for name, kind, reader in _columns(labels, scores):
            self.columns[_free(name, self.columns)] = kind
            self._readers.append(reader)

    def __len__(self) -> int:
        return sum(len(run.places.attempts) for run in self.runs)

    def __iter__(self) -> Iterator[tuple[Cell, ...]]:
        """The rows run by run, instance by instance, each by sample and round.

        Raises: `harness.errors.DataInvalid`, `harness.errors.StoreFailed`.
        """
        readers = self._readers
        for run in self.runs:
            fixed = (run.name, run.task, run.model, run.simulated)
            for line in run.places.read(_Row):
                yield (*fixed, *[reader(line) for reader in readers])


def _columns(labels: Iterable[str], scores: Iterable[str]) -> Iterator[tuple[str, Kind, Reader]]:
    yield "instance", "text", lambda row: row.instance
    yield "sample", "integer", lambda row: row.sample
    yield "round", "integer", lambda row: row.round
    for label in labels:
        yield f"group_{label}", "text", _group(label)
    yield "cluster", "text", lambda row: row.cluster
    yield "outcome", "text", lambda row: row.outcome
    yield "passed", "flag", lambda row: row.passed
    for name in scores:
        yield f"score_{name}", "number", _value(name)
        yield f"reason_{name}", "text", _reason(name)
    yield "details", "text", _details
    yield "prompt", "text", _prompt
    yield "text", "text", lambda row: row.text
    yield "reasoning", "text", lambda row: row.reasoning
    yield "feedback", "text", lambda row: row.feedback
    yield "finish_reason", "text", lambda row: row.finish_reason
    yield "call_id", "text", lambda row: row.call_id
    for field in Usage.__struct_fields__:
        yield field, "integer", _tokens(field)
    yield "cost_usd", "number", lambda row: row.cost_usd
    yield "latency_s", "number", lambda row: row.latency_s
    yield "cached", "flag", lambda row: row.cached
    yield "started_at", "number", lambda row: row.started_at
    yield "ended_at", "number", lambda row: row.ended_at
    yield "error", "text", lambda row: row.error


def _free(name: str, taken: Mapping[str, Kind]) -> str:
    """The name, or NAME_2, …: databases do not tell columns apart by case."""
    name = name.replace("\0", "\ufffd")
    lowered = {other.lower() for other in taken}
    number, free = 1, name
    while free.lower() in lowered:
        number += 1
        free = f"{name}_{number}"
    return free


def _group(label: str) -> Reader:
    return lambda row: row.groups.get(label)


def _value(name: str) -> Reader:
    def value(row: _Row) -> Cell:
        score = row.scores.get(name)
        return None if score is None or score.value is None else float(score.value)

    return value


def _reason(name: str) -> Reader:
    def reason(row: _Row) -> Cell:
        score = row.scores.get(name)
        return score.reason if score is not None else None

    return reason


def _tokens(field: str) -> Reader:
    return lambda row: None if row.usage is None else getattr(row.usage, field)


def _details(row: _Row) -> str | None:
    told = {n: score.details for n, score in row.scores.items() if bytes(score.details) != b"{}"}
    return msgspec.json.encode(told).decode() if told else None


def _prompt(row: _Row) -> str | None:
    return bytes(row.request.messages).decode() or None
