"""Writes the report: one file that contains everything and loads nothing from the network.

The file is a shell for the page's script (built from ``web/``) and its data. Readers without
JavaScript get the conclusion, the warnings and a table of results.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from html import escape
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO

from msgspec.structs import replace

from harness.errors import import_extra
from harness.plugins.report.archive import select, write_chunks
from harness.plugins.report.figure import Figure, config
from harness.plugins.report.overview import overview
from harness.plugins.report.parts import (
    FigurePart,
    Overview,
    all_visible,
    block,
    built,
    marked,
    policy,
    to_json,
    visible,
)
from harness.plugins.report.runs import Reported, shortened
from harness.report.table import Column, Row, ShownUnit, Table, table
from harness.report.text import usd
from harness.store.files import replacing
from harness.store.run_folder import REPORT


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportPage:
    """The contents of a report's page."""

    title: str
    made_at: datetime
    reported: Reported
    figures: Sequence[Figure] = ()
    most_attempts: int | None = None  # per run; None for all


def figures_of(reported: Reported) -> list[Figure]:
    """Draw all figures of a report.

    Raises:
        ExtraMissing: If the library that draws them is not installed.
    """
    import_extra("altair", "report")
    from harness.plugins.report.figures import figures  # it needs the optional Altair

    return figures(reported.runs, reported.comparison, reported.matrix, reported.rankings)


def write_page(
    path: Path, page: ReportPage, on_progress: Callable[[int], object] = lambda _: None
) -> None:
    """Write the page, atomically.

    ``on_progress`` is called with the number of attempts written so far.
    """
    remedy = "Free some space, fix the permissions, or name another file with -o."
    with (
        replacing(path, remedy, follow=path.name != REPORT) as temporary,
        temporary.open("w", encoding="utf-8", newline="\n") as file,
    ):
        _write(file, page, on_progress)


def _write(file: IO[str], page: ReportPage, on_progress: Callable[[int], object]) -> None:
    selection = select([run.index for run in page.reported.runs], page.most_attempts)
    told = overview(
        page.reported,
        page.title,
        page.made_at,
        figures=page.figures,
        included=[len(rows) for rows in selection.rows],
    )
    style = built("app.css")
    scripts = [*([built("charts.js")] if page.figures else []), built("app.js")]
    reported = shortened(page.reported)
    with TemporaryFile("w+", encoding="ascii", dir=Path(file.name).parent) as chunks:
        compared = reported.comparison
        index = write_chunks(reported.runs, selection, compared, chunks.write, on_progress)
        chunks.seek(0)
        file.write(_HEAD.format(
            policy=policy([style], scripts), title=escape(visible(told.title)), style=style,
            noscript=_noscript(told),
        ))  # fmt: skip
        file.write(block("overview", to_json(drawable(told))))
        if page.figures:
            file.write(block("themes", to_json({"light": config(), "dark": config(dark=True)})))
        file.write(block("index", index))
        file.writelines(f"<script>{script}</script>\n" for script in scripts)
        shutil.copyfileobj(chunks, file, 1 << 20)
    file.write("</body>\n</html>\n")


_HEAD = """\
<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="referrer" content="no-referrer">
<title>{title}</title>
<link rel="icon" href="data:,">
<style>{style}</style>
</head>
<body>
<div id="app"></div>
<noscript>
{noscript}</noscript>
"""


def drawable(told: Overview) -> Overview:
    """Return the overview with invisible characters in its charts replaced by visible escapes."""
    sections = [
        replace(one, parts=[
            replace(part, chart=all_visible(part.chart)) if isinstance(part, FigurePart) else part
            for part in one.parts
        ])
        for one in told.sections
    ]  # fmt: skip
    return replace(told, sections=sections)


def _noscript(told: Overview) -> str:
    lines = [told.title, told.answer.sentence, *told.answer.support, *told.warnings]
    first, *others = map(marked, lines)
    return "\n".join([
        f"<h1>{first}</h1>",
        *(f"<p>{line}</p>" for line in others),
        _table(_results(told)),
        "<p>Charts, scores and attempts need JavaScript.</p>\n",
    ])  # fmt: skip


def _results(told: Overview) -> Table:
    column = Column("95%", rate=True)
    rows = []
    for run in told.runs:
        unit, rate = ShownUnit(run.unit == "%", told.digits), run.rate
        low, high = rate.low, rate.high
        between = None if low is None or high is None else (low, high)
        figures = [unit.show(rate.value, column), unit.show(between, column), f"{rate.n:,}"]
        cost = "recorded" if run.recorded else usd(run.cost_usd, computed=run.computed_usd)
        rows.append(Row([run.name, run.model, run.measure, *figures, cost], run.marks))
    return table(["run", "model", "measure", "value", column, "n", "cost"], rows, names=3)


def _table(table: Table) -> str:
    heading = "".join(f"<th>{marked(column.heading)}</th>" for column in table.columns)
    rows = []
    for row in table.rows:
        first, *others = map(marked, table.texts(row))
        marks = f" ({marked(', '.join(row.marks))})" if row.marks else ""
        cells = "".join(f"<td>{text}</td>" for text in others)
        rows.append(f"<tr><th>{first}{marks}</th>{cells}</tr>\n")
    return f"<table>\n<tr>{heading}</tr>\n{''.join(rows)}</table>"
