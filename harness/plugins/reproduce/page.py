"""Presents a study: in a terminal, and as an HTML page that loads nothing from the network.

Each cell has our value, the number in the paper and the result of the official code, as far as they
exist. The page draws them, with our interval, on an axis that all cells of the exhibit share. The
drawings use style sheets, and no script.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from markupsafe import Markup

from harness.plugins.report.parts import built, page_template
from harness.plugins.reproduce.study import (
    REFERENCES,
    VERDICTS,
    Exhibit,
    Finding,
    ReferenceValue,
    Study,
    Verdict,
)
from harness.report.table import Cell as TableCell
from harness.report.table import Column, Note, Table, TableDocument, table
from harness.report.text import format_interval, format_number

STYLES = {
    "equal": "green",
    "within": "green",
    "outside": "bold red",
    "differs": "bold red",
    "not comparable": "dim",
}
UNEQUAL = ("within", "outside", "differs")  # verdicts of cells that are listed

_MOST = 30  # maximum number of cells to list

LEGEND = (
    f"{REFERENCES['paper']}: the number printed in the paper. {REFERENCES['official']}: what the "
    "authors' code gives. equal: in all digits. within, outside: the value is in, or not in, our "
    "95% interval. differs: not equal, although computed from the same answers."
)


def study_document(study: Study, findings: Sequence[Finding]) -> TableDocument:
    """Build a study's summary: counts of verdicts, and up to `_MOST` cells that are not equal.

    Its CSV and JSON have all cells.
    """
    counts = defaultdict[tuple[str, str], Counter[str]](Counter)
    reasons = Counter[str]()
    without_reference = 0
    for finding in findings:
        comparisons = list(finding.comparisons())
        without_reference += not comparisons
        for reference, comparison in comparisons:
            counts[finding.exhibit, reference][comparison.verdict] += 1
            if comparison.verdict == "not comparable":
                reasons[comparison.why or finding.why] += 1
    rows = []
    for exhibit in study.exhibits:
        for reference, heading in REFERENCES.items():
            if verdicts := counts.get((exhibit.name, reference)):
                cells = [_count(verdicts, verdict) for verdict in VERDICTS]
                rows.append([exhibit.name, exhibit.shows, heading, *cells])
    columns = ["exhibit", Column("shows", text=True), "compared with", *VERDICTS]
    parts: list[Table | Note] = [table(columns, rows, notes=[LEGEND])]
    parts += _unequal_cells(study, findings)
    for why, n in reasons.most_common():
        parts.append(Note(f"Not comparable: {n:,} values, {why}."))
    if without_reference:
        parts.append(Note(f"Cells without a value to compare with: {without_reference:,}."))
    records = [_record(finding) for finding in findings]
    return TableDocument(title=study.title, parts=parts, records=records, data=findings)


def _record(finding: Finding) -> dict[str, object]:
    """Return a cell as a row of a CSV file."""
    low, high = finding.ci95 or (None, None)
    record: dict[str, object] = {
        "exhibit": finding.exhibit,
        "row": finding.row,
        "column": finding.column,
        "ours": finding.ours,
        "ci95_low": low,
        "ci95_high": high,
        "n": finding.n,
        "run": finding.run,
        "why": finding.why,
    }
    for reference in REFERENCES:
        comparison: ReferenceValue | None = getattr(finding, reference)
        for column, field in (("", "value"), ("_verdict", "verdict"), ("_why", "why")):
            record[reference + column] = getattr(comparison, field, None)
    return record


def _unequal_cells(study: Study, findings: Sequence[Finding]) -> Iterator[Table | Note]:
    """Yield a table of the cells whose reference values are not equal to ours, and reasons."""
    exhibits = {exhibit.name: exhibit for exhibit in study.exhibits}
    unequal = []
    for finding in findings:
        verdicts = {comparison.verdict for _, comparison in finding.comparisons()}
        if verdicts.intersection(UNEQUAL):
            unequal.append(finding)
    if not unequal:
        return
    rows = []
    for finding in unequal[:_MOST]:
        exhibit = exhibits[finding.exhibit]
        row = [finding.exhibit, finding.row, finding.column]
        for reference in REFERENCES:
            row.append(value_text(getattr(finding, reference), exhibit.decimals(reference)))
        row.append(format_number(finding.ours, exhibit.digits))
        row.append(format_interval(finding.ci95, exhibit.digits))
        rows.append(row)
    yield table(["not equal", "row", "column", *REFERENCES.values(), "ours", "95%"], rows)
    if len(unequal) > _MOST:
        yield Note(f"… and {len(unequal) - _MOST:,} more cells (see the page).")
    for name in dict.fromkeys(finding.exhibit for finding in unequal):
        if exhibits[name].why:
            yield Note(f"{name}: {exhibits[name].why}")


def value_text(comparison: ReferenceValue | None, digits: int) -> str:
    """Return a reference value and its verdict, such as "0.66 (equal)", or ""."""
    if comparison is None:
        return ""
    return f"{format_number(comparison.value, digits)} ({comparison.verdict})"


def _count(counts: Counter[str], verdict: Verdict) -> TableCell:
    if not counts[verdict]:
        return TableCell("")
    return TableCell(counts[verdict], style=STYLES[verdict])


def study_page(
    study: Study,
    findings: Sequence[Finding],
    facts: Mapping[str, str],
    cautions: Sequence[str],
    made_at: float,
) -> str:
    """Return a study as an HTML page, with cautions at the top.

    ``facts`` are further facts by name. ``made_at`` is in epoch seconds.
    """
    folder = Path(__file__).parent
    style = built("app.css") + (folder / "study.css").read_text("utf-8")
    simulated = {finding.run for finding in findings if finding.why == "simulated"}
    return page_template(folder / "study.html.j2").render(
        study=study,
        style=Markup(style),  # noqa: S704 (ours)
        made_at=datetime.fromtimestamp(made_at, UTC).strftime("%Y-%m-%d %H:%M UTC"),
        totals=_totals(findings),
        references=REFERENCES,
        simulated=sorted(simulated),
        exhibits=[_exhibit_view(exhibit, findings) for exhibit in study.exhibits],
        facts=facts,
        cautions=cautions,
    )


def _totals(findings: Sequence[Finding]) -> list[tuple[str, list[tuple[str, int]]]]:
    """Return each reference's heading with its verdicts and their numbers, without zeros."""
    totals = []
    for reference, heading in REFERENCES.items():
        counts = Counter[str]()
        for finding in findings:
            if comparison := getattr(finding, reference):
                counts[comparison.verdict] += 1
        if counts:
            present = [verdict for verdict in VERDICTS if counts[verdict]]
            totals.append((heading, [(str(verdict), counts[verdict]) for verdict in present]))
    return totals


def _exhibit_view(exhibit: Exhibit, findings: Sequence[Finding]) -> tuple[Any, ...]:
    exhibit_findings = [finding for finding in findings if finding.exhibit == exhibit.name]
    ends: list[float] = []
    for finding in exhibit_findings:
        ends += [comparison.value for _, comparison in finding.comparisons()]
        ends += finding.ci95 or ()
        if finding.ours is not None:
            ends.append(finding.ours)
    low = min(ends, default=0.0)
    high = max(ends, default=1.0)
    axis = None
    if ends:
        axis = [format_number(low, exhibit.digits), format_number(high, exhibit.digits)]
    rows = list(_rows(exhibit, exhibit_findings, low, (high - low) or 1.0))
    return exhibit, exhibit.column_names, axis, rows


def _rows(
    exhibit: Exhibit, findings: Sequence[Finding], low: float, width: float
) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Yield each row of an exhibit, with its cells. Positions are in per cent of a shared axis."""

    def position(value: float) -> str:
        return f"{2 + 96 * (value - low) / width:.2f}%"

    def precision(finding: Finding) -> str:
        if finding.ci95:
            return format_interval(finding.ci95, exhibit.digits)
        return f"n = {finding.n}" if finding.ours is not None else ""

    def drawn(finding: Finding) -> dict[str, Any]:
        references = []
        for reference, comparison in finding.comparisons():
            references.append({
                "name": reference,
                "heading": REFERENCES[reference],
                "value": format_number(comparison.value, exhibit.decimals(reference)),
                "verdict": comparison.verdict,
                "why": comparison.why or finding.why,
                "mark": position(comparison.value),
            })  # fmt: skip
        dot = ""
        line = None
        if finding.ours is not None:
            dot = position(finding.ours)
        if finding.ci95:
            lower, upper = finding.ci95
            line = (position(lower), f"{96 * (upper - lower) / width:.2f}%")
        return {
            "finding": finding,
            "ours": format_number(finding.ours, exhibit.digits),
            "precision": precision(finding),
            "references": references,
            "dot": dot,
            "line": line,
        }

    for row in exhibit.row_names:
        yield row, [drawn(finding) for finding in findings if finding.row == row]
