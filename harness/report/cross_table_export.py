"""A results table for other programs and documents: Markdown, LaTeX, CSV and JSON.

Nothing is rounded in CSV and JSON, and nothing that is not known is 0 there: it is
empty, or null.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator, Sequence
from itertools import groupby

import msgspec

from harness.analysis.cross_table import CrossTable, TableRow
from harness.report.ablation_figures import whole
from harness.report.cross_table_figures import captions, cell_text, group_of, settings_text
from harness.report.latex import escaped_latex
from harness.report.markdown import escaped, markdown_lines


def as_json(found: CrossTable) -> str:
    """Everything, in ASCII: no character of it can reach a terminal as a control."""
    return json.dumps(msgspec.to_builtins(found), indent=2, allow_nan=False) + "\n"


def as_csv(found: CrossTable) -> str:
    """A line for each cell that there is; the column is empty over all of them."""
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    names = ["model", "settings", "runs", "marks", "label", "group", "figure", "task"]
    values = ["value", "stderr", "ci95_low", "ci95_high", "n", "n_clusters", "not_measured"]
    writer.writerow([*names, "column_label", "column", *values])
    for row in found.rows:
        named = [row.model, settings_text(row), "; ".join(row.runs), "; ".join(row.marks)]
        for column, cell in zip(found.columns, row.cells, strict=True):
            if cell is None:
                continue
            figure = found.figures[column.figure]
            texts = [*named, found.row_label, row.group, figure.name, figure.task]
            texts += [found.column_label, column.group or ""]
            low, high = cell.ci95 or (None, None)
            figures = [cell.value, cell.stderr, low, high]
            counts = [cell.n, cell.n_clusters, cell.not_measured]
            writer.writerow([*map(whole, texts), *figures, *counts])
    return file.getvalue()


def as_markdown(found: CrossTable) -> str:
    """The table as it is in a wide terminal."""
    return "\n".join(_markdown(found)) + "\n"


def as_latex(found: CrossTable) -> str:
    """A tabular with each figure over its columns (package booktabs), its notes as comments."""
    names = _headings(found)
    lines = [
        *(f"% {whole(caption)}" for caption in captions(found)),
        rf"\begin{{tabular}}{{{'l' * len(names)}{'r' * len(found.columns)}}}",
        r"\toprule",
    ]
    spans, rules = [], []
    at = len(names) + 1
    for number, columns in groupby(found.columns, lambda column: column.figure):
        n = len(list(columns))
        spans.append(rf"\multicolumn{{{n}}}{{c}}{{{escaped_latex(found.figures[number].name)}}}")
        rules.append(rf"\cmidrule(lr){{{at}-{at + n - 1}}}")
        at += n
    groups = [group_of(found, column) for column in found.columns]
    if any(groups):
        lines += [" & ".join([*[""] * len(names), *spans]) + r" \\", " ".join(rules)]
        lines.append(_latex_row([*names, *groups]))
    else:
        lines.append(" & ".join([*map(escaped_latex, names), *spans]) + r" \\")
    model = None
    for row in found.rows:
        if row.model != model:
            lines.append(r"\midrule")
            model = row.model
        lines.append(_latex_row(_texts(found, row)))
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}"]) + "\n"


def _latex_row(texts: Sequence[str]) -> str:
    return " & ".join(map(escaped_latex, texts)) + r" \\"


def _markdown(found: CrossTable) -> Iterator[str]:
    yield f"**{escaped(', '.join(found.tasks))}**"
    yield ""
    headings = [
        f"{found.figures[column.figure].name} {group_of(found, column)}".rstrip()
        for column in found.columns
    ]
    rows = [_texts(found, row) for row in found.rows]
    yield from markdown_lines([*_headings(found), *headings], rows)
    yield ""
    yield from map(escaped, captions(found))


def _headings(found: CrossTable) -> list[str]:
    """Of what names a row."""
    label = [found.row_label] if found.row_label else []
    return ["model", *found.rows[0].settings, *label]


def _texts(found: CrossTable, row: TableRow) -> list[str]:
    """A row's names and figures."""
    marks = f" ({'; '.join(row.marks)})" if row.marks else ""
    group = [row.group] if found.row_label else []
    cells = [
        cell_text(cell, found.figures[column.figure])
        for column, cell in zip(found.columns, row.cells, strict=True)
    ]
    return [row.model + marks, *row.settings.values(), *group, *cells]
