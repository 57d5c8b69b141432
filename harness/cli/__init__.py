"""The command line: verbs and their options; what each does is in a file of its own.

Heavy imports wait until a verb runs.
"""

from __future__ import annotations

import errno
import io
import os
import sys
from typing import Annotated

import typer

from harness.cli.build import build
from harness.cli.cache import cache
from harness.cli.comparison_verbs import ablation, compare, matrix, report, table
from harness.cli.data import data
from harness.cli.describe import describe
from harness.cli.exchange_verbs import export, import_
from harness.cli.inventory_verbs import backends, doctor, prices, tasks
from harness.cli.judge_verb import judge
from harness.cli.mock import mock
from harness.cli.run_verbs import ls, run, score, show
from harness.cli.validate_command import JudgeCommand

app = typer.Typer(
    name="harness",
    help="Evaluate language models on instruction following and constrained generation.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    add_completion=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(version("harness"))
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    pass


app.command("run")(run)
app.command("ls")(ls)
app.command("show")(show)
app.command("compare")(compare)
app.command("table")(table)
app.command("matrix")(matrix)
app.command("report")(report)
app.command("ablation")(ablation)
app.command("score")(score)
app.command("judge", cls=JudgeCommand)(judge)
app.command("tasks")(tasks)
app.command("backends")(backends)
app.command("prices")(prices)
app.command("doctor")(doctor)
app.command("export")(export)
app.command("import")(import_)
app.command("mock")(mock)
app.add_typer(build, name="build")
app.add_typer(cache, name="cache")
data.command("describe")(describe)
app.add_typer(data, name="data")


def main() -> None:
    """Entry point: a user's mistake is a message, never a traceback."""
    from harness.errors import HarnessError

    _mend_streams()
    try:
        app()
    except HarnessError as error:
        print(f"harness: {error.message}", file=sys.stderr)  # noqa: T201
        if error.remedy:
            print(f"  {error.remedy}", file=sys.stderr)  # noqa: T201
        sys.exit(1)
    except KeyboardInterrupt:
        sys.exit(130)
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
        print(f"harness: Cannot write the output: {error.strerror}.", file=sys.stderr)  # noqa: T201
        sys.exit(1)


def _mend_streams() -> None:
    """Output must not fail for what it is written to.

    A closed stream is opened on nothing: a file of ours would get its number
    and be written to. A character that the terminal's encoding lacks is a ?.
    """
    for number in (0, 1, 2):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
    sys.stdout = sys.stdout or open(os.devnull, "w")  # noqa: SIM115, PTH123
    sys.stderr = sys.stderr or open(os.devnull, "w")  # noqa: SIM115, PTH123
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
