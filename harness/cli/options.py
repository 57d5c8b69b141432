"""Options that the verbs share, and questions to the user."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal, TypeVar

import typer

from harness.cli.verbs import run_names
from harness.errors import ConfigError, suggest_name

T = TypeVar("T", bound=str)

PICTURES = (".svg", ".png", ".pdf")  # suffixes of the files of figures


def ask_yes_no(question: str) -> bool:
    """Ask a question on stderr, and return whether the answer is yes."""
    is_yes = False
    with contextlib.suppress(typer.Abort):  # end of input
        is_yes = typer.confirm(question, err=True)
    if not sys.stdin.isatty():  # no Enter key ended the line
        typer.echo(err=True)
    return is_yes


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
_form = typer.Option("--format", help="Output format.")
Format = Annotated[Literal["table", "markdown", "latex", "csv", "json"], _form]
JsonFormat = Annotated[Literal["table", "json"], _form]
_override = typer.Option("-o", "--override", metavar="KEY=VALUE")
Overrides = Annotated[list[str] | None, _override]
Limit = Annotated[int | None, typer.Option(min=1)]


def parse_outcomes(option: str, valid: Sequence[T]) -> list[T]:
    """Return the outcomes that the option ``--retry`` names, in the order of the valid ones.

    Args:
        option: The outcomes, separated by commas. ``error`` is ignored unless it is valid.
        valid: The valid outcomes.

    Raises:
        ConfigError: If an outcome is not valid.
    """
    names = list(filter(None, map(str.strip, option.split(","))))
    for name in names:
        if name not in (*valid, "error"):
            raise ConfigError(f"--retry: there is no outcome {name!r}.", suggest_name(name, valid))
    return [outcome for outcome in valid if outcome in names]


def check_picture(option: str, path: Path | None) -> None:
    """Raise ConfigError if an option's path does not have the suffix of a picture's format."""
    if path is not None and path.suffix not in PICTURES:
        raise ConfigError(f"{option}: {path.name} does not end in {' or '.join(PICTURES)}.")
