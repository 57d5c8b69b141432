"""Presents a study in a terminal: how many cells agree, and which do not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from harness.analysis.study import VERDICTS, Finding, Study, Verdict
from harness.report.table import Cell, Column, Note, Table, TableDocument, table
from harness.report.text import interval, number

STYLES = {"equal": "green", "within": "green", "outside": "bold red", "not comparable": "dim"}

_MOST = 30  # maximum number of cells outside the interval to list


def study_document(study: Study, found: Sequence[Finding]) -> TableDocument:
    """Build a study's summary: cells by exhibit and verdict, then cells outside our interval."""
    counts = {exhibit.name: Counter[str]() for exhibit in study.exhibits}
    for one in found:
        counts[one.exhibit][one.verdict] += 1
    rows = [
        [exhibit.name, exhibit.shows, *(_count(counts[exhibit.name], v) for v in VERDICTS)]
        for exhibit in study.exhibits
    ]
    note = (
        "equal: to the published digits. within, outside: the published value is in, or not in, "
        "our 95% interval."
    )
    columns = ["exhibit", Column("shows", text=True), *VERDICTS]
    parts: list[Table | Note] = [table(columns, rows, notes=[note])]
    outside = [one for one in found if one.verdict == "outside"]
    if outside:
        digits = {exhibit.name: exhibit.digits for exhibit in study.exhibits}
        parts.append(table(
            ["outside", "row", "column", "published", "ours", "95%"],
            [[one.exhibit, one.row, one.column, number(one.published, digits[one.exhibit]),
              number(one.ours, digits[one.exhibit]), interval(one.ci95, digits[one.exhibit])]
             for one in outside[:_MOST]],
        ))  # fmt: skip
    reasons = Counter(one.why for one in found if one.verdict == "not comparable")
    parts += [Note(f"Not comparable: {n:,} cells, {why}.") for why, n in reasons.most_common()]
    return TableDocument(title=study.title, parts=parts)


def _count(counts: Counter[str], verdict: Verdict) -> Cell:
    return Cell(counts[verdict] or "", style=STYLES[verdict] if counts[verdict] else "")
