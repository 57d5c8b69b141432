"""`harness import`: make a run from another tool's results."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from harness.analysis.metrics import to_json
from harness.analysis.summary import measure
from harness.cli.console import messages
from harness.config.settings import Settings
from harness.errors import ConfigError, DataInvalid, nearest
from harness.exchange.imported_run import Imported, refuse_existing, write_run
from harness.exchange.inspect_import import is_inspect_log, read_inspect
from harness.exchange.lm_eval_import import is_lm_eval, read_lm_eval
from harness.report.text import inert
from harness.store.files import write_whole
from harness.store.run_folder import RunFolder

FORMATS = ("inspect", "lm-eval")


def import_(
    file: Annotated[
        Path, typer.Argument(help="An Inspect log (.eval, .json) or lm-eval's samples (.jsonl).")
    ],
    form: Annotated[
        str, typer.Option("--format", help="inspect or lm-eval (default: detected from the file).")
    ] = "",
    name: Annotated[str, typer.Option(help="The run's name (default: the file's).")] = "",
    task: Annotated[str, typer.Option(help="The task's name (default: from the file).")] = "",
    score: Annotated[
        str, typer.Option(help="The score that decides what passed (default: the file's first).")
    ] = "",
) -> None:
    """Import another tool's results as a run, to show and compare like any other."""
    import_file(file, form, name=name, task=task, score=score)


def import_file(file: Path, form: str, *, name: str, task: str, score: str) -> None:
    """Import a file as a run; if that fails, nothing is left behind.

    What the user does not name is taken from the file.
    """
    if form and form not in FORMATS:
        raise ConfigError(f"There is no format {form!r}.", nearest(form, FORMATS))
    root = Settings().runs_dir
    name = name or _name(file)
    refuse_existing(RunFolder(root, name))
    imported = _read(file, form or _recognised(file), task, score)
    folder = write_run(root, name, file, imported, _with_metrics)
    for note in imported.notes:
        messages.print(Text(note, style="yellow"), soft_wrap=True)
    said = Text(f"Imported {imported.format} as the run {folder.name!r}, task ")
    said.append_text(inert(imported.config.task.name)).append(f": {folder.path}")
    messages.print(said, soft_wrap=True)


def _read(file: Path, form: str, task: str, score: str) -> Imported:
    if form == "inspect":
        return read_inspect(file, task, score)
    return read_lm_eval(file, task, score)


def _recognised(file: Path) -> str:
    if is_inspect_log(file):
        return "inspect"
    if is_lm_eval(file):
        return "lm-eval"
    raise DataInvalid(
        f"{file}: neither an Inspect log nor lm-eval's samples.",
        f"If it is one of these, name it with --format: {', '.join(FORMATS)}.",
    )


def _name(file: Path) -> str:
    """Derive a run's name from a file's name."""
    return re.sub(r"[^\w.-]+", "_", file.stem).lstrip(".-")[:100] or "imported"


def _with_metrics(folder: RunFolder) -> None:
    write_whole(folder.metrics, to_json(measure(folder)))
