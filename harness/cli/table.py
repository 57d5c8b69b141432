"""`harness table`: several runs as a paper's results table."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from harness.analysis.comparable import read_run
from harness.analysis.cross_table import cross_table
from harness.analysis.table_layout import TableOptions
from harness.cli.console import show
from harness.cli.options import Format, Round, Runs
from harness.config.settings import Settings
from harness.errors import HarnessError
from harness.plugins import kind
from harness.ports import PaperTable, Tabled
from harness.report.cross_table import cross_table_document
from harness.store.run_folder import find_runs


def table(
    runs: Runs,
    rows: Annotated[
        str | None,
        typer.Option(
            metavar="LABEL",
            help="Label whose groups are a model's rows; '' for one row (default: as in the "
            "task's paper).",
        ),
    ] = None,
    columns: Annotated[
        str | None,
        typer.Option(
            metavar="LABEL",
            help="Label whose groups are columns; '' for one column (default: as in the task's "
            "paper).",
        ),
    ] = None,
    score: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="A score, pass_rate, or a figure of the paper's table; repeatable.",
        ),
    ] = None,
    round_: Round = None,
    form: Format = "table",
) -> None:
    """Show several runs as a paper's results table: one row per model and group."""
    asked = TableOptions(rows=rows, columns=columns, scores=score or [], round=round_)
    found = list(map(read_run, find_runs(Settings().runs_dir, runs)))
    tasks = {variant.metrics.task for variant, _ in found}
    tables = {task: table for task in tasks if (table := _table(task))}
    show(cross_table_document(cross_table(found, tables, asked)), form)


def _table(task: str) -> PaperTable | None:
    """Return the paper's table for a task, or None; a task that no longer loads has none."""
    try:
        plugin: Any = kind("tasks").load(task)
    except HarnessError:
        return None
    found = plugin.table if isinstance(plugin, Tabled) else None
    return found if isinstance(found, PaperTable) else None
