"""`harness table`: several runs as a paper's results table."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Annotated, Any

import typer

from harness.analysis.comparable import read_run
from harness.analysis.cross_table import cross_table
from harness.analysis.table_layout import TableOptions
from harness.cli.console import output
from harness.cli.options import Round, Runs, TableFormat, check_format
from harness.config.settings import Settings
from harness.errors import HarnessError
from harness.plugins import kind
from harness.ports import PaperTable, Tabled
from harness.report.cross_table import cross_table_document
from harness.report.table import FORMATS
from harness.report.terminal import terminal
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
    form: TableFormat = "table",
) -> None:
    """Show several runs as a paper's results table: one row per model and group."""
    show_table(
        runs, TableOptions(rows=rows, columns=columns, scores=score or [], round=round_), form
    )


def show_table(names: Sequence[str], asked: TableOptions, form: str = "table") -> None:
    """Print the table of runs, recomputed from their attempts.

    Args:
        names: Names of runs, or of run files for all of their variants.
        asked: What the table shows.
        form: The output format.
    """
    check_format(form, ["table", *FORMATS])
    runs = [read_run(folder) for folder in find_runs(Settings().runs_dir, names)]
    tasks = {variant.metrics.task for variant, _ in runs}
    tables = {task: table for task in tasks if (table := _table(task))}
    document = cross_table_document(cross_table(runs, tables, asked))
    if form == "table":
        output.print(terminal(document))
    else:  # not folded: the output may be a file
        sys.stdout.write(FORMATS[form](document))


def _table(task: str) -> PaperTable | None:
    """Return the paper's table for a task, or None; a task that no longer loads has none."""
    try:
        plugin: Any = kind("tasks").load(task)
        found = plugin.table if isinstance(plugin, Tabled) else None
    except HarnessError:
        return None
    return found if isinstance(found, PaperTable) else None
