"""Writes the report: one file that contains everything and loads nothing from the network."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Any

from markupsafe import Markup

from harness.analysis.error_labels import failed_attempts
from harness.analysis.run_comparison import RunComparison
from harness.analysis.self_preference import notes
from harness.plugins import import_extra
from harness.report import runs as run_tables
from harness.report.comparison import captions, comparison_tables, details, unequal
from harness.report.figure import Figure, config
from harness.report.html.archive import select, write_chunks
from harness.report.html.inline import all_visible, asset, block, source_hash, template, to_json
from harness.report.run_tables import group_table
from harness.report.runs import ReportedRun, common_start, shortened
from harness.report.table import Cell, Table, TableDocument, table
from harness.report.transcript import reasons_table
from harness.store.files import replacing

_STYLES = ("page.css", "attempts.css")
_SCRIPTS = (
    *("text.js", "theme.js", "arrival.js", "archive.js", "figures.js", "state.js"),
    *("filter.js", "search.js", "list.js", "controls.js", "attempt.js", "main.js"),
)
"""Joined in this order: later files use definitions of earlier ones."""

_SECTIONS = {
    "results": "Results",
    "comparison": "Comparison",
    "constraints": "Constraints",
    "outcomes": "Outcomes",
    "cost": "Cost and time",
}

_MOST_TOLD = 4  # comparisons with more runs are collapsed


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportPage:
    """The contents of a report's page."""

    title: str
    made_at: datetime
    runs: Sequence[ReportedRun]
    figures: Sequence[Figure]
    comparison: RunComparison | None = None
    suite: TableDocument | None = None  # of runs of several tasks
    most_attempts: int | None = None  # per run; None for all
    themes: Mapping[str, Any] = field(
        default_factory=lambda: {"light": config(dark=False), "dark": config(dark=True)}
    )


def write_page(path: Path, report: ReportPage) -> None:
    """Write a report's page. An existing file is replaced only when the new one is complete."""
    prefix = common_start([run.name for run in report.runs])
    runs, comparison = shortened(report.runs, report.comparison)
    report = replace(report, runs=runs, comparison=comparison)
    remedy = "Free some space, fix the permissions, or name another file with -o."
    with (
        replacing(path, remedy) as temporary,
        temporary.open("w", encoding="utf-8", newline="\n") as file,
    ):
        _write(file, report, prefix)


def _write(file: IO[str], report: ReportPage, prefix: str) -> None:
    selection = select([run.index for run in report.runs], report.most_attempts)
    style = "\n".join(map(asset, _STYLES))
    script = "\n".join(map(asset, _SCRIPTS))
    library = [_chart_library()] if report.figures else []
    scripts = [*library, f'(() => {{\n"use strict";\n{script}}})();\n']
    charts = to_json([all_visible(one.chart) for one in report.figures])
    with TemporaryFile("w+", encoding="ascii", dir=Path(file.name).parent) as chunks:
        data = (
            block("charts", charts, compressed=False),
            block("themes", to_json(report.themes), compressed=False),
            block("index", write_chunks(report.runs, selection, report.comparison, chunks.write)),
        )
        chunks.seek(0)
        file.write(
            template("report.html.j2", shown=_shown).render(
                policy=_policy(style, scripts),
                style=Markup(style),  # noqa: S704 (ours)
                scripts=[Markup(one) for one in scripts],  # noqa: S704 (ours)
                data=Markup("".join(data)),  # noqa: S704 (letters of base64)
                shares=[
                    (run.name, len(rows), len(run.attempts))
                    for run, rows in zip(report.runs, selection.rows, strict=True)
                ],
                **_told(report, prefix),
            )
        )
        shutil.copyfileobj(chunks, file, 1 << 20)
    file.write("</body>\n</html>\n")


def _told(report: ReportPage, prefix: str) -> dict[str, Any]:
    runs, comparison = report.runs, report.comparison
    reasons = reasons_table({run.name: failed_attempts(run.index) for run in runs})
    if reasons is not None:
        reasons = replace(reasons, names=len(reasons.columns))  # aligned like texts
    told: dict[str, Any] = {
        "report": report,
        "made_at": report.made_at.astimezone(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "marks": [
            (marks, [run.name for run in runs if tuple(run.marks) == marks])
            for marks in dict.fromkeys(tuple(run.marks) for run in runs if run.marks)
        ],
        "prefix": prefix,
        "tasks": ", ".join(dict.fromkeys(run.metrics.task for run in runs)),
        "suite": report.suite.parts if report.suite else (),
        "headline": run_tables.headline(runs, prefix),
        "references": run_tables.references(runs),
        "self_preferences": [(run.name, note) for run in runs for note in notes(run.metrics)],
        "differences": run_tables.differences(runs),
        "sections": _sections(report, reasons),
        "reasons": reasons,
        "tables": [] if report.figures else list(_group_tables(runs)),
        "many": comparison is not None and len(comparison.others) > _MOST_TOLD,
        "origins": run_tables.origins(runs),
        "settings": run_tables.settings(runs),
        "packages": run_tables.packages(runs),
        "as_table": table,
        "warnings": [],
        "comparison_tables": [],
    }
    if comparison is not None:
        told["warnings"] = list(unequal(comparison, runs))
        told["comparison_tables"] = comparison_tables(comparison, constraints=False)
        told["comparison_captions"] = captions(comparison)
        told["comparison_details"] = {
            one.run: list(details(one, comparison)) for one in comparison.others
        }
    return told


def _sections(
    report: ReportPage, reasons: Table | None
) -> list[tuple[str, str, list[tuple[int, Figure]]]]:
    numbered = list(enumerate(report.figures))
    found = [
        (name, title, [one for one in numbered if one[1].section == name])
        for name, title in _SECTIONS.items()
    ]
    tables = {"comparison": report.comparison, "outcomes": reasons}
    return [one for one in found if one[2] or tables.get(one[0])]


def _group_tables(runs: Sequence[ReportedRun]) -> Iterator[Table]:
    """Yield a table of each run's results by group of each label, for a page without figures."""
    for run in runs:
        for label in run.metrics.groups:
            yield replace(group_table(run.metrics, label), title=f"{run.name} by {label}")


def _policy(style: str, scripts: Sequence[str]) -> str:
    return (  # the page runs its own scripts and nothing else
        f"default-src 'none'; script-src {' '.join(map(source_hash, scripts))}; "
        f"style-src {source_hash(style)}; img-src data: blob:; connect-src 'none'; "
        "base-uri 'none'; form-action 'none'"
    )


@cache
def _chart_library() -> str:
    library = import_extra("vl_convert", "report")
    bundle: str = library.javascript_bundle("window.vegaEmbed = vegaEmbed;")
    # Its warnings are meant for chart authors; a reader can do nothing about them.
    quiet = "{ error: (...told) => console.error(...told), warn() {}, info() {}, debug() {} }"
    return f"((console) => {{\n{bundle}\n}})({quiet});\n"


def _shown(table: Table) -> Iterator[list[tuple[str, Cell, Sequence[str]]]]:
    for row in table.rows:
        cells = [cell if isinstance(cell, Cell) else Cell() for cell in row.cells]
        marks = [row.marks, *[()] * (len(cells) - 1)]
        yield list(zip(table.texts(row), cells, marks, strict=True))
