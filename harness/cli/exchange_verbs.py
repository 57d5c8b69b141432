"""Results from and for other tools: `export`, `import`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from harness.cli.completion import run_names


def export(
    runs: Annotated[
        list[str],
        typer.Argument(help="Runs; inspect and lm-eval take one.", autocompletion=run_names),
    ],
    file: Annotated[
        str,
        typer.Option(
            "-o",
            "--output",
            metavar="FILE",
            help="A file there is replaced; - writes CSV to stdout.",
        ),
    ],
    form: Annotated[
        str,
        typer.Option(
            "--format", help="parquet, csv, inspect or lm-eval; by default what FILE ends with."
        ),
    ] = "",
) -> None:
    """Write runs as a table, or a run as an Inspect log or as lm-eval's samples."""
    from harness.cli.export import export_runs

    export_runs(runs, form, file)


def import_(
    file: Annotated[
        Path, typer.Argument(help="An Inspect log (.eval, .json) or lm-eval's samples (.jsonl).")
    ],
    form: Annotated[
        str, typer.Option("--format", help="inspect or lm-eval; by default what the file holds.")
    ] = "",
    name: Annotated[str, typer.Option(help="The run's name; by default that of the file.")] = "",
    task: Annotated[str, typer.Option(help="The task's name; by default what the file says.")] = "",
    score: Annotated[
        str, typer.Option(help="The score that says what passed; by default the file's first.")
    ] = "",
) -> None:
    """Make a run of another tool's results, to show and to compare like any other."""
    from harness.cli.import_ import import_file

    import_file(file, form, name=name, task=task, score=score)
