"""The attempts in the page: their selection, their index, and their texts in chunks.

A chunk holds all texts of some instances, and is decompressed when one of them is opened or
searched.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harness.analysis.breakdown import is_verdict
from harness.plugins.comparisons.run_comparison import RunComparison
from harness.plugins.report.entries import (
    RunAttempt,
    entry,
    judges_of,
    read_texts,
)
from harness.plugins.report.overview import score_kind
from harness.plugins.report.parts import block, to_json
from harness.plugins.report.runs import ReportedRun
from harness.plugins.report.sections import extraction_of
from harness.records import OUTCOMES
from harness.store.columns import NOT_JUDGED, name_digest
from harness.store.index import AttemptIndex

LONGEST_SNIPPET = 160  # maximum characters of an answer in the list
CHUNK_BYTES = 1 << 19  # a chunk ends with the instance that reaches this size
ROW = ("instance", "run", "sample", "round", "last", "outcome", "passed", "snippet")  # of the index


@dataclass(frozen=True, slots=True)
class Selection:
    """The attempts that a report's page includes, by instance and run."""

    digest: NDArray[np.int64]  # (n,) digests of the instances, in page order
    rows: Sequence[NDArray[np.intp]]  # for each run, row numbers, instance by instance
    counts: Sequence[NDArray[np.intp]]  # for each run, (n,) number of rows of each instance


def select(runs: Sequence[AttemptIndex], limit: int | None) -> Selection:
    """Return the attempts to include in the page.

    At most ``limit`` attempts of each run are included (None: all), but at least one instance. All
    runs show the same pseudo-random sample of instances.
    """
    digests = []
    in_order = [np.zeros(0, np.int64)]  # as the instances first appear in the runs' files
    for run in runs:
        digest = run.attempts.instances.digest[run.attempts.instance]
        digests.append(digest)
        in_order.append(digest[run.ordered_rows()])
    every, first = np.unique(np.concatenate(in_order), return_index=True)
    n = len(every)
    places = []
    counts = []
    fitting = [n]  # as many as fit in every run, by ascending digest
    for digest in digests:
        place = np.searchsorted(every, digest)
        count = np.bincount(place, minlength=n)
        places.append(place)
        counts.append(count)
        if limit is not None:
            fitting.append(int(np.searchsorted(np.cumsum(count), limit, side="right")))
    chosen_instances = np.argsort(first[: max(1, min(fitting))], kind="stable")
    rank = np.full(n, -1)
    rank[chosen_instances] = np.arange(len(chosen_instances))
    rows = []
    for place in places:
        chosen = np.flatnonzero(rank[place] >= 0)
        rows.append(chosen[np.argsort(rank[place][chosen], kind="stable")])
    return Selection(every[chosen_instances], rows, [count[chosen_instances] for count in counts])


def write_chunks(
    runs: Sequence[ReportedRun],
    selection: Selection,
    comparison: RunComparison | None,
    write: Callable[[str], object],
    on_progress: Callable[[int], object] = lambda _: None,
) -> bytes:
    """Pass chunks of attempts as HTML elements to ``write``, and return their index as JSON.

    ``on_progress`` is called after each chunk with the number of attempts written so far.
    """
    instances: dict[str, list[Any]] = {"name": [], "chunk": [], "place": []}
    groups: list[Mapping[str, str]] = []
    columns: dict[str, list[object]] = {name: [] for name in ROW}
    rows: list[tuple[int, int]] = []  # the run and its row, for each row of the index
    reasons: dict[int, Sequence[str]] = {}  # why failed attempts failed, by row of the index
    chunk: list[bytes] = []
    size = 0
    number = 0
    extractions = list(map(extraction_of, runs))
    answers = [run.answers for run in runs]
    for instance, attempts in enumerate(_instances(runs, selection)):
        _, first, _ = attempts[0]
        instances["name"].append(first.instance)
        instances["chunk"].append(number)
        instances["place"].append(len(chunk))
        groups.append(first.groups)
        for cells in _rows(instance, attempts):
            for name, cell in zip(ROW, cells, strict=True):
                columns[name].append(cell)
        for run, line, row in attempts:
            texts = runs[run].failures.told.get(row)
            if line.passed is False and texts:
                reasons[len(rows)] = texts
            rows.append((run, row))
        chunk.append(to_json(entry(attempts, extractions, answers)))
        size += len(chunk[-1])
        if size >= CHUNK_BYTES or len(groups) == len(selection.digest):
            write(block(f"chunk-{number}", b"[" + b",".join(chunk) + b"]"))
            chunk = []
            size = 0
            number += 1
            on_progress(len(rows))
    labels: dict[str, None] = {}
    for groups_of_instance in groups:
        labels |= dict.fromkeys(groups_of_instance)
    index: dict[str, object] = {
        "runs": list(map(_run, runs)),
        "outcomes": OUTCOMES,
        "rounds": max((run.last_round for run in runs), default=0),
        "labels": [_label(label, groups) for label in labels],
        "instances": instances,
        "scores": list(_scores(runs, np.array(rows, np.intp).reshape(-1, 2))),
        "reasons": _reasons(runs, rows),
        "told": reasons,
        "rows": columns,
        "compared": None,
        "changes": [],
    }
    if comparison is not None:
        index["compared"] = {"round": comparison.asked.round}
        index["changes"] = _changes(comparison, [run.name for run in runs], instances["name"])
    return to_json(index)


def _run(run: ReportedRun) -> dict[str, object]:
    judges = judges_of(run.index)
    return {
        "name": run.name,
        "marks": list(run.marks),
        "recorded": run.recorded,
        "judges": judges,
    }


def _instances(runs: Sequence[ReportedRun], selection: Selection) -> Iterator[Sequence[RunAttempt]]:
    lines = []
    for run, rows in zip(runs, selection.rows, strict=True):
        lines.append(zip(read_texts(run.index, rows), rows.tolist(), strict=True))
    for place in range(len(selection.digest)):
        attempts: list[RunAttempt] = []
        for number, counts in enumerate(selection.counts):
            for line, row in islice(lines[number], int(counts[place])):
                attempts.append((number, line, row))
        yield sorted(attempts, key=_page_order)


def _page_order(attempt: RunAttempt) -> tuple[int, int, int]:
    run, line, _ = attempt
    return line.sample, run, line.round


def _rows(instance: int, attempts: Sequence[RunAttempt]) -> Iterator[tuple[object, ...]]:
    for position, (run, line, _) in enumerate(attempts, start=1):
        last = True
        if position < len(attempts):
            next_run, next_line, _ = attempts[position]
            last = (next_run, next_line.sample) != (run, line.sample)
        passed = NOT_JUDGED if line.passed is None else int(line.passed)
        outcome = OUTCOMES.index(line.outcome)
        answer = snippet(line.text, line.error)
        yield instance, run, line.sample, line.round, int(last), outcome, passed, answer


def snippet(text: str | None, error: str | None) -> str:
    """Return the beginning of an answer, or of the error if there is no answer, on one line."""
    beginning = text if text is not None else error or ""
    # Twice the length, because runs of spaces are collapsed.
    return " ".join(beginning[: 2 * LONGEST_SNIPPET].split())[:LONGEST_SNIPPET]


def _scores(runs: Sequence[ReportedRun], rows: NDArray[np.intp]) -> Iterator[dict[str, object]]:
    """Yield each score's name, kind and values (None: missing), and whether it is a verdict."""
    runs_with: dict[str, list[int]] = {}
    for number, run in enumerate(runs):
        for name in run.attempts.scores:
            runs_with.setdefault(name, []).append(number)
    for name, numbers in runs_with.items():
        values = np.full(len(rows), np.nan)
        verdict = True
        for number in numbers:
            is_of_run = rows[:, 0] == number
            table = runs[number].attempts
            chosen = rows[is_of_run, 1]
            measured = table.has_score(name)[chosen]
            values[is_of_run] = np.where(measured, table.scores[name][chosen], np.nan)
            verdict = verdict and is_verdict(table, name)
        yield {
            "name": name,
            "kind": score_kind(runs[numbers[0]], name),
            "verdict": verdict,
            # Whole numbers as integers, and others with 6 significant digits, to save space.
            "values": list(map(_compact, values.tolist())),
        }


def _compact(number: float) -> float | None:
    if number != number:
        return None
    if number.is_integer():
        return int(number)
    return float(f"{number:.6g}")


def _reasons(
    runs: Sequence[ReportedRun], rows: Sequence[tuple[int, int]]
) -> list[dict[str, object]]:
    """Return each reason for failures with the positions in ``rows`` of its attempts."""
    places_by_reason: dict[str, list[int]] = {}
    for place, (run, row) in enumerate(rows):
        failures = runs[run].failures
        for kind in failures.of.get(row, ()):
            places_by_reason.setdefault(failures.reasons[kind], []).append(place)
    return [{"text": text, "rows": places} for text, places in places_by_reason.items()]


def _label(label: str, groups: Sequence[Mapping[str, str]]) -> dict[str, Any]:
    names = sorted({own_groups[label] for own_groups in groups if label in own_groups})
    number = {name: position for position, name in enumerate(names)}
    group_numbers = []
    for own_groups in groups:
        group_numbers.append(number[own_groups[label]] if label in own_groups else -1)
    return {"name": label, "groups": names, "of": group_numbers}


def _changes(
    comparison: RunComparison, runs: Sequence[str], names: Sequence[str]
) -> list[dict[str, Any]]:
    place = {name_digest(name): position for position, name in enumerate(names)}

    def places(digests: Sequence[int]) -> list[int]:
        return [place[digest] for digest in digests if digest in place]

    changes = []
    for against in comparison.others:
        changes.append(
            {
                "run": runs.index(against.run),
                "baseline": runs.index(comparison.baseline),
                "better": places(against.better_digests),
                "worse": places(against.worse_digests),
            }
        )
    return changes
