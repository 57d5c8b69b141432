"""Error analysis as in Mishra et al. 2022 (Natural Instructions, table 5).

Draws failures for people to label, counts the labels, and measures the agreement of two people.
"""

from __future__ import annotations

import csv
import io
import logging
import random
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import msgspec
import numpy as np
from msgspec import Struct

from harness.analysis.failures import FailedLine, join_reasons, read_without_advisory_scores
from harness.analysis.metrics import Statistic
from harness.datasets.rows import read_rows
from harness.errors import ConfigError, DataInvalid, DataMissing
from harness.plugins.judging.validation import cohens_kappa
from harness.report.table import Note, Table, TableDocument, table
from harness.report.text import format_percent
from harness.store.columns import NOT_JUDGED
from harness.store.index import AttemptIndex, read_instance
from harness.store.lost_lines import warn_of_missing
from harness.store.run_folder import RunFolder
from harness.wording import format_count, truncate

logger = logging.getLogger("harness")

FORMULA = ("=", "+", "-", "@", "\t", "\r")
"""First characters of cells that a spreadsheet would execute; a quote before them prevents it."""


LONGEST_REASON = 2_000  # characters on a sheet


class Failure(Struct, frozen=True):
    """A failed answer on a sheet. A person fills in ``error`` (the kind of error) and ``note``."""

    run: str
    instance: str
    sample: int
    group: str
    prompt: str
    answer: str
    reason: str
    error: str = ""
    note: str = ""


COLUMNS = tuple(field.name for field in msgspec.structs.fields(Failure))


class _Failed(FailedLine, kw_only=True, gc=False):
    groups: dict[str, str]


def draw(folder: RunFolder, n: int, label: str = "", seed: int = 0) -> list[Failure]:
    """Draw up to ``n`` failed samples from each group of ``label``, with their last answers.

    If ``label`` is empty, the run is one group.
    """
    run = folder.name
    attempts = folder.attempts
    index = AttemptIndex(attempts)
    warn_of_missing(folder, index.attempts)
    last = index.last_rounds()
    verdicts = index.attempts.passed[last]
    if (verdicts == NOT_JUDGED).all():
        raise DataMissing(f"The run {run!r} has no verdicts, so no failures.", "Name a checker.")
    if label and label not in index.attempts.labels():
        remedy = f"Its labels: {', '.join(sorted(index.attempts.labels()))}."
        raise ConfigError(f"--by: instances of the run {run!r} have no label {label!r}.", remedy)
    by_group: dict[str, list[_Failed]] = defaultdict(list)
    for line in read_without_advisory_scores(index, _Failed, last[verdicts == 0]):
        by_group[line.groups.get(label, "")].append(line)
    if not by_group:
        raise DataMissing(f"No answer of the run {run!r} failed.", "There is nothing to label.")
    chosen = random.Random(seed)
    failures = []
    for group, failed in sorted(by_group.items()):
        for line in chosen.sample(failed, min(n, len(failed))):
            failure = Failure(
                run=run,
                instance=line.instance,
                sample=line.sample,
                group=group,
                prompt=_prompt(attempts, line),
                answer=line.text or "",
                reason=truncate(join_reasons(line.scores), LONGEST_REASON),
            )
            failures.append(failure)
    return failures


def _prompt(attempts: Path, failed: _Failed) -> str:
    for attempt in read_instance(attempts, failed.instance):
        if attempt.sample == failed.sample:
            if attempt.round > 1:  # the line of the first round is lost
                return ""
            return str(attempt.request["messages"][-1]["content"])
    raise LookupError(failed.instance)


def write_sheet(failures: Iterable[Failure]) -> str:
    """Return failures as a CSV sheet, escaping cells that a spreadsheet program would execute."""
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(COLUMNS)
    for failure in failures:
        values = map(str, msgspec.structs.astuple(failure))
        writer.writerow(f"'{value}" if value.startswith(FORMULA) else value for value in values)
    return file.getvalue()


def read_sheet(path: Path) -> list[Failure]:
    """Return the rows of a sheet from `write_sheet`, each once. Escaped cells keep their quotes."""
    try:
        failures = []
        for _, row in read_rows(path):
            if lacking := [name for name in COLUMNS if name not in row]:
                raise DataInvalid(f"no column {lacking[0]!r}")
            failures.append(msgspec.convert(row, Failure, strict=False))
    except (DataInvalid, msgspec.ValidationError) as error:
        remedy = f"Keep the columns {', '.join(COLUMNS)} when you fill in 'error'."
        raise DataInvalid(f"{path} is not a sheet of failures ({error}).", remedy) from None
    return _unique(failures, path)


def _unique(failures: Iterable[Failure], path: Path) -> list[Failure]:
    """Return the failures of a sheet without the copies of rows, and warn of them.

    Raises:
        DataInvalid: If two rows label the same failure differently.
    """
    unique: dict[tuple[str, str, int], Failure] = {}
    copies = 0
    for failure in failures:
        first = unique.setdefault(_place(failure), failure)
        if first is failure:
            continue
        copies += 1
        if _kind(first) != _kind(failure):
            where = f"{failure.instance!r:.80}, sample {failure.sample}, of {failure.run!r:.80}"
            problem = f"{path} labels a failure twice, and differently: {where}."
            raise DataInvalid(problem, "Remove one of the two rows.")
    if copies:
        logger.warning(f"{path} has {format_count(copies, 'row')} twice: each counts once.")
    return list(unique.values())


def _place(failure: Failure) -> tuple[str, str, int]:
    return failure.run, failure.instance, failure.sample


class ErrorTally(Struct, frozen=True, kw_only=True):
    """Counts of a sheet's labels, and their agreement with a second person's."""

    labels: Mapping[str, Mapping[str, int]]  # failures by kind, most frequent first, and group
    unlabelled: int  # failures without a kind of error
    agreement: Statistic | None = None  # kappa on the failures labelled in both; None for one sheet


def tally(first: Sequence[Failure], second: Sequence[Failure] | None = None) -> ErrorTally:
    """Return the counts of a sheet's labels and, given a second sheet, the agreement of both."""
    labels: dict[str, Counter[str]] = defaultdict(Counter)
    for failure in first:
        if kind := _kind(failure):
            labels[kind][failure.group] += 1
    ordered = sorted(labels.items(), key=lambda item: (-item[1].total(), item[0]))
    unlabelled = len(first) - sum(counts.total() for counts in labels.values())
    agreement = None if second is None else _agreement(first, second)
    return ErrorTally(labels=dict(ordered), unlabelled=unlabelled, agreement=agreement)


def _kind(failure: Failure) -> str:
    return " ".join(failure.error.split()).lower()


def _agreement(first: Sequence[Failure], second: Sequence[Failure]) -> Statistic:
    others = {_place(failure): _kind(failure) for failure in second}
    first_kinds = []
    second_kinds = []
    instances = []
    for failure in first:
        kind = _kind(failure)
        other_kind = others.get(_place(failure))
        if kind and other_kind:
            first_kinds.append(kind)
            second_kinds.append(other_kind)
            instances.append(failure.instance)
    if not instances:
        raise ConfigError("The two sheets have no labelled failure in common.")
    _, codes = np.unique([*first_kinds, *second_kinds], return_inverse=True)
    _, cluster = np.unique(instances, return_inverse=True)
    return cohens_kappa(codes[: len(instances)], codes[len(instances) :], cluster)


def error_document(analysis: ErrorTally) -> TableDocument:
    """Build an error analysis: kinds of error by group, and the agreement of two annotators."""
    groups: set[str] = set()
    total = 0
    for counts in analysis.labels.values():
        groups.update(filter(None, counts))
        total += sum(counts.values())
    columns = ["kind of error", "failures", "share", *sorted(groups)]
    rows = []
    for kind, counts in analysis.labels.items():
        n = sum(counts.values())
        rows.append(
            [kind, n, format_percent(n, total), *[counts.get(name, 0) for name in columns[3:]]]
        )
    parts: list[Table | Note] = [table(columns, rows)]
    if analysis.unlabelled:
        parts.append(Note(f"Not labelled, and not counted: {analysis.unlabelled:,}.", "yellow"))
    kappa = analysis.agreement
    if kappa is not None:
        row = ["Cohen's kappa", kappa, kappa.ci95, kappa.n]
        parts.append(table(["agreement", "value ± s.e.", "95%", "n"], [row]))
    return TableDocument(parts=parts, data=analysis)
