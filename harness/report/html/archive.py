"""The page's attempts: which ones, an index of all of them, and their texts in chunks.

The index is a table by columns, small enough to be unpacked when the page opens. A chunk holds the
texts of some instances, each with the attempts of all runs, and is unpacked when one of them is
opened or searched. Memory holds the index and one chunk. A text that is too long is cut, and
replaced by ``{"text": …, "length": …}``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
from msgspec import UNSET, Struct, UnsetType, field
from numpy.typing import NDArray

from harness.analysis.run_comparison import RunComparison
from harness.records import OUTCOMES, Message, Score, Usage
from harness.report.html.inline import block, to_json
from harness.report.runs import ReportedRun
from harness.store.columns import NOT_JUDGED, name_digest
from harness.store.index import AttemptIndex, AttemptLine

LONGEST_TEXT = 200_000
"""Characters of one text that the page has."""
LONGEST_SNIPPET = 160
"""Characters of an answer that the list has."""
CHUNK_BYTES = 1 << 19


@dataclass(frozen=True, slots=True)
class Selection:
    """Which attempts of several runs are in the page.

    Attributes:
        digest: (m,) digests of the instances, in the order of the page.
        rows: Each run's rows, instance by instance in that order.
        counts: For each run (m,) rows of each instance.
        n_instances: How many instances the runs have.
    """

    digest: NDArray[np.int64]
    rows: Sequence[NDArray[np.intp]]
    counts: Sequence[NDArray[np.intp]]
    n_instances: int


def select(runs: Sequence[AttemptIndex], most: int | None) -> Selection:
    """Choose instances: in the first run's order, then those that only the others have.

    If there are too many, whole instances are left out, in a pseudo-random order that is the same
    for all runs: the page then has a fair sample of every group, and all runs of each of its
    instances.

    Args:
        runs: The runs.
        most: Most attempts of any one run; None for all. At least one instance is chosen.
    """
    every = _in_order(runs)
    taken = every if most is None else every[_within(every, runs, most)]
    rows, counts = [], []
    for run in runs:
        place = _places_of(run, taken)
        chosen = np.flatnonzero(place >= 0)
        rows.append(chosen[np.argsort(place[chosen], kind="stable")])
        counts.append(np.bincount(place[chosen], minlength=len(taken)))
    return Selection(taken, rows, counts, len(every))


def _in_order(runs: Sequence[AttemptIndex]) -> NDArray[np.int64]:
    """Return (n,) digests of all instances, in the order in which the runs' files begin them."""
    digests = [run.attempts.instances.digest[run.attempts.instance[run.in_order()]] for run in runs]
    every, first = np.unique(np.concatenate([np.zeros(0, np.int64), *digests]), return_index=True)
    return every[np.argsort(first, kind="stable")]


def _within(every: NDArray[np.int64], runs: Sequence[AttemptIndex], most: int) -> NDArray[np.intp]:
    """Return the ascending indices of the chosen instances: the first ones by digest."""
    order = np.argsort(every, kind="stable")
    n = len(every)
    for run in runs:
        place = _places_of(run, every)
        so_far = np.cumsum(np.bincount(place, minlength=len(every))[order])
        n = min(n, int(np.searchsorted(so_far, most, side="right")))
    return np.sort(order[: max(1, n)])


def _places_of(run: AttemptIndex, digests: NDArray[np.int64]) -> NDArray[np.intp]:
    """Return, for each of a run's attempts, its instance's index in ``digests``, or -1."""
    if not len(digests):
        return np.full(len(run.attempts), -1, np.intp)
    order = np.argsort(digests, kind="stable")
    own = run.attempts.instances.digest
    at = np.minimum(np.searchsorted(digests, own, sorter=order), len(digests) - 1)
    place = np.where(digests[order[at]] == own, order[at], -1)
    of_attempts: NDArray[np.intp] = place[run.attempts.instance]
    return of_attempts


class Cut(Struct, frozen=True):
    """The beginning of a text, and the length of the whole text."""

    text: str
    length: int


Text = str | Cut


class _Request(Struct, gc=False):
    messages: list[Message] = []


class _Line(AttemptLine, kw_only=True, gc=False):
    """What the page shows of an attempt."""

    request: _Request
    scores: dict[str, Score] = field(default_factory=dict)


class _PackedScore(Struct, frozen=True, omit_defaults=True):
    """A score in a chunk.

    Attributes:
        constraints: For each constraint its text, whether it is met, the observed value and the
            target.
        details: Other details from its checker or judge, as JSON.
    """

    name: str
    value: bool | float | None
    passed: bool | None = None
    reason: Text = ""
    constraints: list[tuple[Text, bool | None, Text, Text]] = []
    details: Text = ""


class _Packed(Struct, frozen=True, omit_defaults=True):
    """An attempt in a chunk; ``prompt`` is an index into the instance's, unset if its line has
    none.
    """

    text: Text | None = None
    prompt: int | UnsetType = UNSET
    reasoning: Text | None = None
    scores: list[_PackedScore] = []
    feedback: Text | None = None
    error: Text | None = None
    finish: str | None = None
    call: str | None = None
    usage: Usage | None = None
    cost: float | None = None
    latency: float | None = None
    cached: bool = False


class _Entry(Struct, frozen=True):
    """An instance in a chunk; its attempts are in the order of the index."""

    prompts: list[list[tuple[str, Text]]]
    attempts: list[_Packed]


class Archive:
    """Packs the attempts of runs.

    >>> archive = Archive(runs, selection)  # doctest: +SKIP
    >>> archive.write_chunks(file.write)  # doctest: +SKIP
    >>> file.write(block("index", archive.index(comparison)))  # doctest: +SKIP
    """

    def __init__(self, runs: Sequence[ReportedRun], selection: Selection) -> None:
        self._runs = runs
        self._selection = selection
        self._names: list[str] = []
        self._chunk_of: list[int] = []
        self._place_of: list[int] = []
        self._groups: list[Mapping[str, str]] = []
        self._rows: dict[str, list[Any]] = {
            name: []
            for name in (
                "instance", "run", "sample", "round", "last", "outcome", "passed", "snippet",
            )
        }  # fmt: skip

    def write_chunks(self, write: Callable[[str], object]) -> None:
        """Write all chunks as elements of the page, and collect what `index` returns.

        Raises:
            DataInvalid: A run contains something that is not an attempt.
            StoreFailed: A run cannot be read.
        """
        chunk: list[bytes] = []
        number = size = 0
        for entry in self._entries():
            self._chunk_of.append(number)
            self._place_of.append(len(chunk))
            chunk.append(to_json(entry))
            size += len(chunk[-1])
            if size >= CHUNK_BYTES:
                write(_chunk(number, chunk))
                chunk, size, number = [], 0, number + 1
        if chunk:
            write(_chunk(number, chunk))

    def index(self, comparison: RunComparison | None) -> bytes:
        """Return every attempt without its texts, as JSON."""
        labels = dict.fromkeys(label for groups in self._groups for label in groups)
        return to_json(
            {
                "runs": [
                    {"name": run.name, "marks": list(run.marks), "recorded": run.recorded}
                    for run in self._runs
                ],
                "outcomes": OUTCOMES,
                "labels": [self._label(label) for label in labels],
                "instances": {
                    "name": self._names,
                    "chunk": self._chunk_of,
                    "place": self._place_of,
                },
                "rows": self._rows,
                "compared": None if comparison is None else {"round": comparison.asked.round},
                "changes": self._changes(comparison),
            }
        )

    def _entries(self) -> Iterator[_Entry]:
        lines = [
            run.index.read(_Line, rows)
            for run, rows in zip(self._runs, self._selection.rows, strict=True)
        ]
        for place in range(len(self._selection.digest)):
            found = [
                (number, line)
                for number, counts in enumerate(self._selection.counts)
                for line in islice(lines[number], int(counts[place]))
            ]
            found.sort(key=lambda each: (each[1].sample, each[0], each[1].round))
            yield self._entry(place, found)

    def _entry(self, place: int, found: Sequence[tuple[int, _Line]]) -> _Entry:
        first = found[0][1]
        self._names.append(first.instance)
        self._groups.append(first.groups)
        prompts: dict[bytes, int] = {}
        told: list[list[tuple[str, Text]]] = []
        packed = []
        for at, (run, line) in enumerate(found):
            after = found[at + 1] if at + 1 < len(found) else None
            last = after is None or (after[0], after[1].sample) != (run, line.sample)
            self._add_row(place, run, line, last)
            prompt: int | UnsetType = UNSET
            if line.request.messages:
                messages = line.request.messages
                prompt = prompts.setdefault(to_json(messages), len(told))
                if prompt == len(told):
                    told.append([(each.role, _text(each.content)) for each in messages])
            packed.append(_packed(line, prompt))
        return _Entry(told, packed)

    def _add_row(self, place: int, run: int, line: _Line, last: bool) -> None:
        shown = line.text if line.text is not None else line.error or ""
        values = (
            place,
            run,
            line.sample,
            line.round,
            int(last),
            OUTCOMES.index(line.outcome),
            NOT_JUDGED if line.passed is None else int(line.passed),
            # Twice the length, because runs of spaces become one.
            " ".join(shown[: 2 * LONGEST_SNIPPET].split())[:LONGEST_SNIPPET],
        )
        for column, value in zip(self._rows.values(), values, strict=True):
            column.append(value)

    def _label(self, label: str) -> dict[str, Any]:
        """Return a label's groups, and the group of each instance (-1 for none)."""
        names = sorted({groups[label] for groups in self._groups if label in groups})
        number = {name: at for at, name in enumerate(names)}
        of = [number[groups[label]] if label in groups else -1 for groups in self._groups]
        return {"name": label, "groups": names, "of": of}

    def _changes(self, comparison: RunComparison | None) -> list[dict[str, Any]]:
        """List, for each run, the page's instances in which it is better and worse."""
        if comparison is None:
            return []
        place = {name_digest(name): at for at, name in enumerate(self._names)}
        number = {run.name: at for at, run in enumerate(self._runs)}
        return [
            {
                "run": number[one.run],
                "baseline": number[comparison.baseline],
                "better": [place[digest] for digest in one.better_digests if digest in place],
                "worse": [place[digest] for digest in one.worse_digests if digest in place],
            }
            for one in comparison.others
        ]


def _chunk(number: int, entries: Sequence[bytes]) -> str:
    return block(f"chunk-{number}", b"[" + b",".join(entries) + b"]")


def _packed(line: _Line, prompt: int | UnsetType) -> _Packed:
    return _Packed(
        text=_text_or_none(line.text),
        prompt=prompt,
        reasoning=_text_or_none(line.reasoning),
        scores=[_packed_score(name, score) for name, score in line.scores.items()],
        feedback=_text_or_none(line.feedback),
        error=_text_or_none(line.error),
        finish=line.finish_reason,
        call=line.call_id,
        usage=line.usage,
        cost=line.cost_usd,
        latency=line.latency_s,
        cached=line.cached,
    )


def _packed_score(name: str, score: Score) -> _PackedScore:
    details = dict(score.details)
    constraints = details.get("constraints")
    rows = []
    if isinstance(constraints, list) and all(_is_constraint(each) for each in constraints):
        rows = [(_text(each["constraint"]), *_checked(each)) for each in details.pop("constraints")]
    return _PackedScore(
        name=name,
        value=score.value,
        passed=score.passed,
        reason=_text(score.reason),
        constraints=rows,
        details=_text(to_json(details).decode()) if details else "",
    )


def _is_constraint(found: Any) -> bool:
    return isinstance(found, dict) and isinstance(found.get("constraint"), str)


def _checked(constraint: Mapping[str, Any]) -> tuple[bool | None, Text, Text]:
    passed = constraint.get("passed")
    return (
        passed if isinstance(passed, bool) else None,
        _value(constraint.get("observed")),
        _value(constraint.get("target")),
    )


def _value(found: Any) -> Text:
    """Format an observed value or target: a text unchanged, a list with one line per item."""
    if isinstance(found, list):
        return _text("\n".join(each if isinstance(each, str) else _plain(each) for each in found))
    return _text(found if isinstance(found, str) else _plain(found))


def _plain(found: Any) -> str:
    return "" if found is None else to_json(found).decode()


def _text_or_none(text: str | None) -> Text | None:
    return None if text is None else _text(text)


def _text(text: str) -> Text:
    return text if len(text) <= LONGEST_TEXT else Cut(text[:LONGEST_TEXT], len(text))
