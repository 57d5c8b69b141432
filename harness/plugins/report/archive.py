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
from harness.plugins.report.entries import FoundAttempts, entry, judges_of, read_texts
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
    digests = [run.attempts.instances.digest[run.attempts.instance] for run in runs]
    # In the order in which the instances first appear in the runs' files.
    in_order = [digest[run.in_order()] for run, digest in zip(runs, digests, strict=True)]
    every, first = np.unique(np.concatenate([np.zeros(0, np.int64), *in_order]), return_index=True)
    places = [np.searchsorted(every, digest) for digest in digests]
    counts = [np.bincount(place, minlength=len(every)) for place in places]
    n = len(every)
    if limit is not None:  # as many as fit in every run, by ascending digest
        fitting = [int(np.searchsorted(np.cumsum(count), limit, side="right")) for count in counts]
        n = max(1, min(fitting, default=0))
    chosen_instances = np.argsort(first[:n], kind="stable")
    rank = np.full(len(every), -1)
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
    names: list[str] = []
    groups: list[Mapping[str, str]] = []
    places: list[tuple[int, int]] = []
    rows: list[tuple[object, ...]] = []
    every: list[tuple[int, int]] = []  # the run and its row, for each row of the index
    reasons: dict[int, Sequence[str]] = {}  # why failed attempts failed, by row of the index
    chunk: list[bytes] = []
    size = number = 0
    extractions = list(map(extraction_of, runs))
    answers = [run.answers for run in runs]
    for instance, attempts in enumerate(_instances(runs, selection)):
        names.append(attempts[0][1].instance)
        groups.append(attempts[0][1].groups)
        rows += _rows(instance, attempts)
        for run, line, row in attempts:
            if line.passed is False and (texts := runs[run].failures.told.get(row)):
                reasons[len(every)] = texts
            every.append((run, row))
        places.append((number, len(chunk)))
        chunk.append(to_json(entry(attempts, extractions, answers)))
        size += len(chunk[-1])
        if size >= CHUNK_BYTES or len(names) == len(selection.digest):
            write(block(f"chunk-{number}", b"[" + b",".join(chunk) + b"]"))
            chunk = []
            size = 0
            number = number + 1
            on_progress(len(rows))
    labels = dict.fromkeys(label for groups_of_instance in groups for label in groups_of_instance)
    return to_json(
        {
            "runs": [
                {
                    "name": run.name,
                    "marks": list(run.marks),
                    "recorded": run.recorded,
                    "judges": judges_of(run.index),
                }
                for run in runs
            ],
            "outcomes": OUTCOMES,
            "rounds": max((run.last_round for run in runs), default=0),
            "labels": [_label(label, groups) for label in labels],
            "instances": {
                "name": names,
                "chunk": [chunk_number for chunk_number, _ in places],
                "place": [place for _, place in places],
            },
            "scores": list(_scores(runs, np.array(every, np.intp).reshape(-1, 2))),
            "reasons": _reasons(runs, every),
            "told": reasons,
            "rows": {name: [row[column] for row in rows] for column, name in enumerate(ROW)},
            "compared": None if comparison is None else {"round": comparison.asked.round},
            "changes": _changes(comparison, [run.name for run in runs], names),
        }
    )


def _instances(runs: Sequence[ReportedRun], selection: Selection) -> Iterator[FoundAttempts]:
    lines = [
        zip(read_texts(run.index, rows), rows.tolist(), strict=True)
        for run, rows in zip(runs, selection.rows, strict=True)
    ]
    for place in range(len(selection.digest)):
        attempts = [
            (number, line, row)
            for number, counts in enumerate(selection.counts)
            for line, row in islice(lines[number], int(counts[place]))
        ]
        yield sorted(
            attempts, key=lambda attempt: (attempt[1].sample, attempt[0], attempt[1].round)
        )


def _rows(instance: int, attempts: FoundAttempts) -> Iterator[tuple[object, ...]]:
    for position, (run, line, _) in enumerate(attempts):
        after = attempts[position + 1] if position + 1 < len(attempts) else None
        last = after is None or (after[0], after[1].sample) != (run, line.sample)
        yield (
            instance,
            run,
            line.sample,
            line.round,
            int(last),
            OUTCOMES.index(line.outcome),
            NOT_JUDGED if line.passed is None else int(line.passed),
            snippet(line.text, line.error),
        )


def snippet(text: str | None, error: str | None) -> str:
    """Return the beginning of an answer, or of the error if there is no answer, on one line."""
    beginning = text if text is not None else error or ""
    # Twice the length, because runs of spaces are collapsed.
    return " ".join(beginning[: 2 * LONGEST_SNIPPET].split())[:LONGEST_SNIPPET]


def _scores(runs: Sequence[ReportedRun], rows: NDArray[np.intp]) -> Iterator[dict[str, object]]:
    """Yield each score's name, kind and values (None: missing), and whether it is a verdict."""
    for name in dict.fromkeys(name for run in runs for name in run.attempts.scores):
        having = [number for number, run in enumerate(runs) if name in run.attempts.scores]
        values = np.full(len(rows), np.nan)
        for number in having:
            is_of_run = rows[:, 0] == number
            table = runs[number].attempts
            chosen = rows[is_of_run, 1]
            measured = table.measured(name)[chosen]
            values[is_of_run] = np.where(measured, table.scores[name][chosen], np.nan)
        yield {
            "name": name,
            "kind": score_kind(runs[having[0]], name),
            "verdict": all(is_verdict(runs[number].attempts, name) for number in having),
            # Whole numbers as integers, and others with 6 significant digits, to save space.
            "values": list(map(_compact, values.tolist())),
        }


def _compact(number: float) -> float | None:
    if number != number:
        return None
    return int(number) if number.is_integer() else float(f"{number:.6g}")


def _reasons(
    runs: Sequence[ReportedRun], rows: Sequence[tuple[int, int]]
) -> list[dict[str, object]]:
    """Return each reason for failures with the positions in ``rows`` of its attempts."""
    places_by_reason: dict[str, list[int]] = {}
    for place, (run, row) in enumerate(rows):
        failures = runs[run].failures
        for reason in failures.of.get(row, ()):
            places_by_reason.setdefault(failures.reasons[reason], []).append(place)
    return [{"text": text, "rows": places} for text, places in places_by_reason.items()]


def _label(label: str, groups: Sequence[Mapping[str, str]]) -> dict[str, Any]:
    names = sorted({own_groups[label] for own_groups in groups if label in own_groups})
    number = {name: position for position, name in enumerate(names)}
    group_numbers = [
        number[own_groups[label]] if label in own_groups else -1 for own_groups in groups
    ]
    return {"name": label, "groups": names, "of": group_numbers}


def _changes(
    comparison: RunComparison | None, runs: Sequence[str], names: Sequence[str]
) -> list[dict[str, Any]]:
    if comparison is None:
        return []
    place = {name_digest(name): position for position, name in enumerate(names)}
    return [
        {
            "run": runs.index(against.run),
            "baseline": runs.index(comparison.baseline),
            "better": [place[digest] for digest in against.better_digests if digest in place],
            "worse": [place[digest] for digest in against.worse_digests if digest in place],
        }
        for against in comparison.others
    ]
