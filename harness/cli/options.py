"""Arguments and options that several verbs share, and the help of a verb's own."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Sequence
from copy import copy
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

import typer

from harness.cli.completion import run_names
from harness.errors import ConfigError, nearest

BUDGET_SPENT = 3
INTERRUPTED = 130
"""Exit codes."""

_RUNS = "Names of runs; a run file's name means all its variants."
_SCORE = "Score to use (default: the task's primary metric)."
_ROUND = "Round to use (default: each sample's last)."
_UNIT = "Statistical unit (default: the prompt)."

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
    """Take the help of a verb's parameters from the ``Args:`` at the end of its docstring.

    A parameter without a default becomes an argument, and a bool a flag without ``--no-``, unless
    its annotation says otherwise.
    """
    text, _, args = (inspect.getdoc(verb) or "").partition("\n\nArgs:\n")
    hints, parameters = (
        get_type_hints(verb, include_extras=True),
        inspect.signature(verb).parameters,
    )
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
    """Parse the outcomes of ``--retry``; ``error`` is always allowed. Raises ConfigError."""
    named = [part.strip() for part in option.split(",") if part.strip()]
    for name in named:
        if name not in (*valid, "error"):
            raise ConfigError(f"--retry: there is no outcome {name!r}.", nearest(name, valid))
    return list(dict.fromkeys(named))
