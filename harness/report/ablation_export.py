"""An ablation for other programs and documents: Markdown, CSV and JSON.

Nothing is rounded in CSV and JSON, and nothing that is not known is 0 there:
it is empty, or null.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable

import msgspec

from harness.analysis.ablation import AblationRow
from harness.analysis.claims import Findings
from harness.report.ablation_figures import (
    by_mean,
    by_percent,
    by_size,
    captions,
    cells,
    field_cells,
    field_notes,
    whole,
)
from harness.report.markdown import escaped, markdown_lines


def as_json(findings: Findings) -> str:
    """Everything, in ASCII: no character of it can reach a terminal as a control."""
    return json.dumps(msgspec.to_builtins(findings), indent=2) + "\n"


def as_csv(findings: Findings) -> str:
    """A line for each variant."""
    table = findings.table
    by = list(table.rows[0].by)
    named = ["variant", "baseline", "marks", "groups", "mean", "same_groups", "common_groups"]
    figures = ["gain_percent", "difference", "ci95_low", "ci95_high", "p_value", "p_holm"]
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    groups = [f"{what} {whole(name)}" for name in by for what in ("mean", "gain_percent")]
    writer.writerow([*named, *figures, *groups])
    for row in table.rows:
        low, high = row.ci95 or (None, None)
        gain = None if row.is_baseline else row.gain.percent
        writer.writerow(
            [
                *(whole(row.variant), row.is_baseline, "; ".join(row.marks)),
                *(row.n_groups, row.mean, row.same_groups, row.gain.n),
                *(gain, row.difference, low, high, row.p_value, row.p_holm),
                *(value for name in by for value in _by(row, name)),
            ]
        )
    return file.getvalue()


def _by(row: AblationRow, name: str) -> tuple[float | None, float | None]:
    gain = row.by[name]
    return gain.mean, None if row.is_baseline else gain.percent


def as_markdown(findings: Findings) -> str:
    """The tables as they are in the terminal, with every column."""
    return "\n".join(_markdown(findings)) + "\n"


def _markdown(findings: Findings) -> Iterable[str]:
    table = findings.table
    by = list(table.rows[0].by)
    headings = [*cells(table.rows[0], table.over)]
    for name in by:
        headings += [f"{name} ({by_size(table, name)})", "gain %"]
    rows = []
    for row in table.rows:
        marks = f" ({'; '.join(row.marks)})" if row.marks else ""
        gains = [figure(row, name) for name in by for figure in (by_mean, by_percent)]
        rows.append([row.variant + marks, *cells(row, table.over).values(), *gains])
    yield from markdown_lines(["variant", *headings], rows)
    yield from ("", *(escaped(note) for note in captions(table)))
    if findings.fields:
        yield ""
        found = [
            [
                gain.field + ("†" if gain.other_forms else ""),
                *(gain.less, gain.more, *field_cells(gain)),
            ]
            for gain in findings.fields
        ]
        yield from markdown_lines(
            ["field", "without", "with", "difference", "95%", f"more on ({table.over})"], found
        )
        yield from ("", *(escaped(note) for note in field_notes(findings.fields)))
    if findings.claims:
        yield ""
        told = [[c.verdict, f"“{c.says}”", c.source, c.evidence] for c in findings.claims]
        yield from markdown_lines(["verdict", "claim", "source", "evidence"], told)
