"""Output and options that the verbs share. Results go to stdout, everything else to stderr."""

from __future__ import annotations

import contextlib
import shutil
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Literal, TypeVar

import typer
from rich.console import Console, RenderableType
from rich.text import Text

from harness.cli.completion import run_names
from harness.errors import ConfigError, nearest
from harness.report.text import inert_text

if TYPE_CHECKING:
    from harness.report.table import Table, TableDocument
    from harness.workers import Workers

T = TypeVar("T", bound=str)

PIPED = (160, 24)  # columns and lines of output to a file or program, unless COLUMNS is set
_width = None if sys.stdout.isatty() else shutil.get_terminal_size(PIPED).columns
output = Console(highlight=False, width=_width)
messages = Console(stderr=True, highlight=False)


def say(text: str, style: str = "") -> None:
    """Print a message on stderr. Control characters are escaped, and markup is not interpreted."""
    messages.print(inert_text(text), style=style or None, soft_wrap=True)


def write(text: str) -> None:
    """Print a line of results on stdout. Control characters are escaped."""
    output.print(inert_text(text), soft_wrap=True)


def agreed(question: str) -> bool:
    """Ask a question on stderr, and return whether the answer is yes."""
    answer = False
    with contextlib.suppress(typer.Abort):  # end of input
        answer = typer.confirm(question, err=True)
    if not sys.stdin.isatty():  # no Enter key ended the line
        typer.echo(err=True)
    return answer


class ExactOutput:
    """A writer of exact data to stdout. It escapes control characters only for a terminal."""

    def write(self, text: str) -> int:
        """Write text, escaped for a terminal."""
        return sys.stdout.write(inert_text(text).plain if sys.stdout.isatty() else text)


def show(document: TableDocument | Table, form: str = "table") -> None:
    """Print a table or document, as text tables or in another format."""
    from harness.report.table import FORMATS, Table
    from harness.report.terminal import terminal

    if form == "table" or isinstance(document, Table):
        output.print(terminal(document))
    else:
        ExactOutput().write(FORMATS[form](document))


def show_listing(listing: RenderableType, data: object, form: str) -> None:
    """Print a listing if ``form`` is "table", and otherwise its ``data`` as JSON."""
    if form == "table":
        output.print(listing)
    else:
        from harness.report.table import TableDocument

        show(TableDocument(parts=[], data=data), form)


def show_facts(facts: Mapping[str, str], style: str = "") -> None:
    """Print one line per fact: its name, and its text in the given Rich style."""
    from rich.table import Table

    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(style="dim")
    table.add_column(style=style, overflow="fold")
    for name, value in facts.items():
        table.add_row(Text(name), inert_text(value))
    output.print(table)


def pool(engine: str, jobs: int | None, alone_s: float = 0.0) -> Workers:
    """Return the pool that the options ``--engine`` and ``--jobs`` ask for.

    ``alone_s`` is for processes of this machine, see `Workers`.

    Raises:
        FatalCallError: If the cluster cannot be reached.
    """
    from harness.workers import Workers, cores

    if engine != "ray":
        return Workers(jobs or cores(), alone_s)
    from harness.backends._ray_tasks import RayTasks

    tasks = RayTasks(jobs)
    say(f"The Ray cluster has {tasks.cores:,} cores.")
    return Workers(engine=tasks)


RUN = "A run's name, the path of its folder or of a file in it, or its run file."
RUNS = "Names of runs, as listed by harness ls, or paths; a run file stands for all its variants."
_SCORE = "Score to use (default: the task's primary metric)."
_ROUND = "Use each sample's last round up to N (default: its last round)."
_UNIT = "Label whose groups are the statistical units (default: prompts)."

Run = Annotated[str, typer.Argument(metavar="RUN", help=RUN, autocompletion=run_names)]
Runs = Annotated[list[str], typer.Argument(metavar="RUN", help=RUNS, autocompletion=run_names)]
Baseline = Annotated[str, typer.Option(metavar="RUN", help="Baseline run (default: the first).")]
By = Annotated[str, typer.Option(metavar="LABEL", help="Also show each group of this label.")]
Score = Annotated[str, typer.Option("--score", "--metric", metavar="NAME", help=_SCORE)]
Round = Annotated[int | None, typer.Option("--round", min=1, help=_ROUND)]
Cluster = Annotated[str, typer.Option(metavar="LABEL", help=_UNIT)]
Jobs = Annotated[
    int | None, typer.Option(help="Number of processes (default: one per core).", min=1)
]
Engine = Annotated[
    Literal["processes", "ray"],
    typer.Option("--engine", help="Use this machine's cores, or a Ray cluster's (RAY_ADDRESS)."),
]
_form = typer.Option("--format", help="Output format.")
Format = Annotated[Literal["table", "markdown", "latex", "csv", "json"], _form]
JsonFormat = Annotated[Literal["table", "json"], _form]
_override = typer.Option("-o", "--override", metavar="KEY=VALUE")
Overrides = Annotated[list[str] | None, _override]
Limit = Annotated[int | None, typer.Option(min=1)]


def outcomes(option: str, valid: Sequence[T]) -> list[T]:
    """Return the outcomes that ``--retry`` names. If not in ``valid``, ``error`` is ignored."""
    named = [part.strip() for part in option.split(",") if part.strip()]
    for name in named:
        if name not in (*valid, "error"):
            raise ConfigError(f"--retry: there is no outcome {name!r}.", nearest(name, valid))
    return [outcome for outcome in valid if outcome in named]
