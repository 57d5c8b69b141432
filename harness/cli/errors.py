"""`harness errors`: manual error analysis, from a sheet of failures to a table of error kinds."""

from pathlib import Path
from typing import Annotated

import typer

from harness.analysis import error_labels
from harness.cli.console import ExactOutput, JsonFormat, Runs, show
from harness.cli.verbs import VerbGroup
from harness.config.settings import Settings
from harness.engine.run_files import runs_named
from harness.errors import ConfigError
from harness.report.judges import error_document

errors = VerbGroup("errors")


@errors.verb("draw")
def draw(
    runs: Runs,
    n: Annotated[int, typer.Option("-n", min=1)] = 10,
    by: Annotated[str, typer.Option(metavar="LABEL")] = "",
    seed: Annotated[int, typer.Option(min=0)] = 0,
) -> None:
    """Print a sheet (CSV) of failed answers to label; write it to a file with '>'.

    Args:
        n: Number of failures per run, or with --by per group.
        by: Draw from each group of this label, such as task.
        seed: Seed of the draw.
    """
    folders = runs_named(runs, Settings())
    drawn = (error_labels.draw(one.name, one.attempts, n, by, seed) for one in folders)
    sheet = error_labels.write_sheet(failure for failures in drawn for failure in failures)
    ExactOutput().write(sheet)


@errors.verb("tally")
def tally(sheets: list[Path], form: JsonFormat = "table") -> None:
    """Count the kinds of error in a filled-in sheet.

    Args:
        sheets: The sheet, and optionally another person's labels of the same failures.
    """
    if len(sheets) > 2:
        raise ConfigError("A tally takes one or two sheets.", "Name no more than two.")
    first, *others = map(error_labels.read_sheet, sheets)
    show(error_document(error_labels.tally(first, *others)), form)
