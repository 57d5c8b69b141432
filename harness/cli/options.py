"""Arguments and options that several verbs share."""

from __future__ import annotations

from collections.abc import Collection
from typing import Annotated

import typer

from harness.cli.completion import run_names
from harness.errors import ConfigError, nearest

Run = Annotated[str, typer.Argument(help="A run's name or its folder.", autocompletion=run_names)]
Runs = Annotated[
    list[str],
    typer.Argument(
        help="Names of runs; a run file's name means all its variants.", autocompletion=run_names
    ),
]
Baseline = Annotated[str, typer.Option(metavar="RUN", help="Baseline run (default: the first).")]
Score = Annotated[
    str,
    typer.Option(
        "--score",
        "--metric",
        metavar="NAME",
        help="Score to use (default: the task's primary metric).",
    ),
]
Round = Annotated[
    int | None,
    typer.Option("--round", min=1, help="Round to use (default: each sample's last)."),
]
Cluster = Annotated[
    str, typer.Option(metavar="LABEL", help="Statistical unit (default: the prompt).")
]
TableFormat = Annotated[
    str, typer.Option("--format", help="Output format: table, markdown, latex, csv or json.")
]


def check_format(form: str, valid: Collection[str], option: str = "format") -> None:
    """Refuse an unknown format.

    Raises:
        ConfigError: `form` is not in `valid`; the message has the nearest valid name.
    """
    if form not in valid:
        raise ConfigError(f"There is no {option} {form!r}.", nearest(form, valid))
