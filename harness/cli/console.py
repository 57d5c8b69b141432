"""Output and options of all verbs: results go to stdout, everything else to stderr."""

from __future__ import annotations

import inspect
import re
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args, get_origin, get_type_hints

import typer
from rich.console import Console
from rich.text import Text

from harness.cli.completion import run_names
from harness.errors import ConfigError, nearest
from harness.report.text import inert_text

if TYPE_CHECKING:
    from harness.report.table import Table, TableDocument

PIPED = (160, 24)  # columns and lines of output to a file or program, unless COLUMNS is set
_width = None if sys.stdout.isatty() else shutil.get_terminal_size(PIPED).columns
output = Console(highlight=False, width=_width)
messages = Console(stderr=True, highlight=False)


def say(text: str, style: str = "") -> None:
    """Print a message on stderr; control characters are escaped, markup is shown literally."""
    messages.print(inert_text(text), style=style or None, soft_wrap=True)


def write(text: str) -> None:
    """Print a line of results on stdout, with control characters escaped."""
    output.print(inert_text(text), soft_wrap=True)


class ExactOutput:
    """Stdout for exact data, escaped only for a terminal, which would obey control characters."""

    def write(self, text: str) -> int:
        """Write text, escaped if stdout is a terminal; return the number of characters written."""
        return sys.stdout.write(inert_text(text).plain if sys.stdout.isatty() else text)


def show(document: TableDocument | Table, form: str = "table") -> None:
    """Print a table, or a document in the given format; ``table`` fits it to the output's width."""
    from harness.report.table import FORMATS, Table
    from harness.report.terminal import terminal

    if form == "table" or isinstance(document, Table):
        output.print(terminal(document))
    else:
        ExactOutput().write(FORMATS[form](document))


def show_facts(facts: Mapping[str, str], style: str = "") -> None:
    """Print one line per fact: its name, then its text in the given Rich style."""
    from rich.table import Table

    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(style="dim")
    table.add_column(style=style, overflow="fold")
    for name, value in facts.items():
        table.add_row(Text(name), inert_text(value))
    output.print(table)


BUDGET_SPENT = 3  # exit code
INTERRUPTED = 130  # exit code after Ctrl-C

_RUNS = "Names of runs; a run file's name stands for all its variants."
_SCORE = "Score to use (default: the task's primary metric)."
_ROUND = "Use each sample's last round up to this one (default: its last round)."
_UNIT = "Label whose groups are the statistical units (default: prompts)."

Run = Annotated[str, typer.Argument(help="A run's name or its folder.", autocompletion=run_names)]
Runs = Annotated[list[str], typer.Argument(help=_RUNS, autocompletion=run_names)]
Baseline = Annotated[str, typer.Option(metavar="RUN", help="Baseline run (default: the first).")]
By = Annotated[str, typer.Option(metavar="LABEL", help="Also show each group of this label.")]
Score = Annotated[str, typer.Option("--score", "--metric", metavar="NAME", help=_SCORE)]
Round = Annotated[int | None, typer.Option("--round", min=1, help=_ROUND)]
Cluster = Annotated[str, typer.Option(metavar="LABEL", help=_UNIT)]
_form = typer.Option("--format", help="Output format.")
Format = Annotated[Literal["table", "markdown", "latex", "csv", "json"], _form]
JsonFormat = Annotated[Literal["table", "json"], _form]

Out = Annotated[Path, typer.Option(help="Output folder.")]
Report = Annotated[bool, typer.Option("--report", help="Also print the report.")]
Jobs = Annotated[int | None, typer.Option(help="Processes (default: one per core).", min=1)]


def documented(verb: Callable[..., None]) -> Callable[..., None]:
    """Return the verb, with help for its parameters from the ``Args:`` in its docstring.

    A parameter without a default becomes an argument, and a bool a flag without ``--no-``, unless
    its annotation says otherwise.
    """
    text, _, args = (inspect.getdoc(verb) or "").partition("\n\nArgs:\n")
    hints = get_type_hints(verb, include_extras=True)
    parameters = inspect.signature(verb).parameters
    for name, said in re.findall(r"^ {4}(\w+): (.*(?:\n {6,}.*)*)", args, re.MULTILINE):
        kind: Any = hints[name]
        if get_origin(kind) is Annotated:
            kind, given = get_args(kind)[:2]
        elif parameters[name].default is inspect.Parameter.empty:
            given = typer.Argument()
        else:
            given = typer.Option(*[f"--{name.replace('_', '-')}"] if kind is bool else [])
        given = copy(given)  # several verbs may share it
        given.help = " ".join(said.split())
        verb.__annotations__[name] = Annotated[kind, given]
    verb.__doc__ = text
    return verb


def outcomes(option: str, valid: Sequence[str]) -> list[str]:
    """Return the distinct outcomes in ``--retry``. Raises ConfigError for an unknown outcome."""
    named = [part.strip() for part in option.split(",") if part.strip()]
    for name in named:
        if name not in (*valid, "error"):
            raise ConfigError(f"--retry: there is no outcome {name!r}.", nearest(name, valid))
    return list(dict.fromkeys(named))
