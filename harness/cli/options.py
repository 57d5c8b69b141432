"""Arguments and options that several verbs share."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

import typer

from harness.cli.completion import run_names
from harness.errors import ConfigError, nearest

BUDGET_SPENT = 3
INTERRUPTED = 130
"""Exit codes."""

Run = Annotated[str, typer.Argument(help="A run's name or its folder.", autocompletion=run_names)]
Runs = Annotated[
    list[str],
    typer.Argument(
        help="Names of runs; a run file's name means all its variants.", autocompletion=run_names
    ),
]
Baseline = Annotated[str, typer.Option(metavar="RUN", help="Baseline run (default: the first).")]
By = Annotated[str, typer.Option(metavar="LABEL", help="Also show each group of this label.")]
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
Format = Annotated[
    Literal["table", "markdown", "latex", "csv", "json"],
    typer.Option("--format", help="Output format."),
]
JsonFormat = Annotated[Literal["table", "json"], typer.Option("--format", help="Output format.")]

Out = Annotated[Path, typer.Option(help="Output folder.")]
Report = Annotated[bool, typer.Option("--report", help="Also print the report.")]
Jobs = Annotated[int | None, typer.Option(help="Processes (default: one per core).", min=1)]


def outcomes(option: str, valid: Sequence[str]) -> list[str]:
    """Parse the outcomes of ``--retry``; ``error`` is always allowed. Raises ConfigError."""
    named = [part.strip() for part in option.split(",") if part.strip()]
    for name in named:
        if name not in (*valid, "error"):
            raise ConfigError(f"--retry: there is no outcome {name!r}.", nearest(name, valid))
    return list(dict.fromkeys(named))
