"""Presents a study: in a terminal, and as an HTML page that loads nothing from the network.

Each cell has our value, the number in the paper and the result of the official code, as far as they
exist. The page draws them, with our interval, on an axis that all cells of the exhibit share. The
drawings use style sheets, and no script.
"""

from __future__ import annotations

from collections import Counter
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
from harness.report.text import interval, number

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
    counts: dict[tuple[str, str], Counter[str]] = {}
    without_reference = 0
    for finding in findings:
        comparisons = list(finding.comparisons())
        without_reference += not comparisons
        for reference, comparison in comparisons:
            counts.setdefault((finding.exhibit, reference), Counter())[comparison.verdict] += 1
    rows = []
    for exhibit in study.exhibits:
        for reference, heading in REFERENCES.items():
            if verdicts := counts.get((exhibit.name, reference)):
                cells = [_count(verdicts, verdict) for verdict in VERDICTS]
                rows.append([exhibit.name, exhibit.shows, heading, *cells])
    columns = ["exhibit", Column("shows", text=True), "compared with", *VERDICTS]
    parts: list[Table | Note] = [table(columns, rows, notes=[LEGEND])]
    parts += _unequal_cells(study, findings)
    reasons = Counter(
        comparison.why or finding.why
        for finding in findings
        for _, comparison in finding.comparisons()
        if comparison.verdict == "not comparable"
    )
    parts += [Note(f"Not comparable: {n:,} values, {why}.") for why, n in reasons.most_common()]
    if without_reference:
        parts.append(Note(f"Cells without a value to compare with: {without_reference:,}."))
    records = [_record(finding) for finding in findings]
    return TableDocument(title=study.title, parts=parts, records=records, data=findings)


def _record(finding: Finding) -> dict[str, object]:
    """Return a cell as a row of a CSV file."""
    record: dict[str, object] = {
        "exhibit": finding.exhibit,
        "row": finding.row,
        "column": finding.column,
        "ours": finding.ours,
        "ci95_low": finding.ci95[0] if finding.ci95 else None,
        "ci95_high": finding.ci95[1] if finding.ci95 else None,
        "n": finding.n,
        "run": finding.run,
        "why": finding.why,
    }
    for reference in REFERENCES:
        comparison: ReferenceValue | None = getattr(finding, reference)
        record[reference] = comparison.value if comparison else None
        record[f"{reference}_verdict"] = comparison.verdict if comparison else None
        record[f"{reference}_why"] = comparison.why if comparison else None
    return record


def _unequal_cells(study: Study, findings: Sequence[Finding]) -> Iterator[Table | Note]:
    """Yield a table of the cells whose reference values are not equal to ours, and reasons."""
    exhibits = {exhibit.name: exhibit for exhibit in study.exhibits}
    unequal = [
        finding
        for finding in findings
        if any(comparison.verdict in UNEQUAL for _, comparison in finding.comparisons())
    ]
    if not unequal:
        return
    rows = []
    for finding in unequal[:_MOST]:
        exhibit = exhibits[finding.exhibit]
        values = [
            value_text(getattr(finding, reference), exhibit.decimals(reference))
            for reference in REFERENCES
        ]
        ours = number(finding.ours, exhibit.digits)
        between = interval(finding.ci95, exhibit.digits)
        rows.append([finding.exhibit, finding.row, finding.column, *values, ours, between])
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
    return f"{number(comparison.value, digits)} ({comparison.verdict})"


def _count(counts: Counter[str], verdict: Verdict) -> TableCell:
    return TableCell(counts[verdict] or "", style=STYLES[verdict] if counts[verdict] else "")


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
    return page_template(folder / "study.html.j2").render(
        study=study,
        style=Markup(style),  # noqa: S704 (ours)
        made_at=datetime.fromtimestamp(made_at, UTC).strftime("%Y-%m-%d %H:%M UTC"),
        totals=_totals(findings),
        references=REFERENCES,
        simulated=sorted({finding.run for finding in findings if finding.why == "simulated"}),
        exhibits=[_exhibit_view(exhibit, findings) for exhibit in study.exhibits],
        facts=facts,
        cautions=cautions,
    )


def _totals(findings: Sequence[Finding]) -> list[tuple[str, list[tuple[str, int]]]]:
    """Return each reference's heading with its verdicts and their numbers, without zeros."""
    counts = {reference: Counter[str]() for reference in REFERENCES}
    for finding in findings:
        for reference, comparison in finding.comparisons():
            counts[reference][comparison.verdict] += 1
    return [
        (heading, [(verdict, counts[reference][verdict]) for verdict in VERDICTS
                   if counts[reference][verdict]])
        for reference, heading in REFERENCES.items()
        if counts[reference]
    ]  # fmt: skip


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
    axis = [number(end, exhibit.digits) for end in (low, high)] if ends else None
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
            return interval(finding.ci95, exhibit.digits)
        return f"n = {finding.n}" if finding.ours is not None else ""

    def drawn(finding: Finding) -> dict[str, Any]:
        references = []
        for reference, comparison in finding.comparisons():
            references.append({
                "name": reference,
                "heading": REFERENCES[reference],
                "value": number(comparison.value, exhibit.decimals(reference)),
                "verdict": comparison.verdict,
                "why": comparison.why or finding.why,
                "mark": position(comparison.value),
            })  # fmt: skip
        line = None
        if finding.ci95:
            length = 96 * (finding.ci95[1] - finding.ci95[0]) / width
            line = position(finding.ci95[0]), f"{length:.2f}%"
        return {
            "finding": finding,
            "ours": number(finding.ours, exhibit.digits),
            "precision": precision(finding),
            "references": references,
            "dot": "" if finding.ours is None else position(finding.ours),
            "line": line,
        }

    for row in exhibit.row_names:
        yield row, [drawn(finding) for finding in findings if finding.row == row]
