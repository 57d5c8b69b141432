"""`harness import`: make a run from another tool's results."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Literal

import typer

from harness.analysis.metrics import to_json
from harness.analysis.summary import measure
from harness.cli.console import say
from harness.config.settings import Settings
from harness.errors import DataInvalid
from harness.exchange.imported_run import refuse_existing, write_run
from harness.exchange.inspect_import import is_inspect_log, read_inspect
from harness.exchange.lm_eval_import import is_lm_eval, read_lm_eval
from harness.store.files import write_whole
from harness.store.run_folder import RunFolder


def import_(
    file: Annotated[
        Path, typer.Argument(help="An Inspect log (.eval, .json) or lm-eval's samples (.jsonl).")
    ],
    form: Annotated[
        Literal["inspect", "lm-eval"] | None,
        typer.Option("--format", help="Default: detected from the file."),
    ] = None,
    name: Annotated[str, typer.Option(help="The run's name (default: the file's).")] = "",
    task: Annotated[str, typer.Option(help="The task's name (default: from the file).")] = "",
    score: Annotated[
        str, typer.Option(help="The score that decides what passed (default: the file's first).")
    ] = "",
) -> None:
    """Import another tool's results as a run, to show and compare like any other."""
    root = Settings().runs_dir
    name = name or re.sub(r"[^\w.-]+", "_", file.stem).lstrip(".-")[:100] or "imported"
    refuse_existing(RunFolder(root, name))
    read = read_inspect if (form or _recognised(file)) == "inspect" else read_lm_eval
    imported = read(file, task, score)
    folder = write_run(
        root, name, file, imported, lambda made: write_whole(made.metrics, to_json(measure(made)))
    )
    for note in imported.notes:
        say(note, "yellow")
    task = imported.config.task.name
    say(f"Imported {imported.format} as the run {folder.name!r}, task {task}: {folder.path}")


def _recognised(file: Path) -> str:
    if is_inspect_log(file):
        return "inspect"
    if is_lm_eval(file):
        return "lm-eval"
    raise DataInvalid(
        f"{file}: neither an Inspect log nor lm-eval's samples.",
        "If it is one of these, name it with --format: inspect, lm-eval.",
    )
