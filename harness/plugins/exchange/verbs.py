"""`harness export` and `harness import`: runs in the formats of other tools."""

import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Literal, get_args

import typer

from harness.cli.options import Runs
from harness.config.settings import Settings
from harness.engine.resolving import row_fields
from harness.engine.run_files import runs_named
from harness.errors import ConfigError, DataInvalid
from harness.plugins.exchange.exported_run import (
    ExportedRows,
    ExportedRun,
    exported_run,
    write_csv,
    write_parquet,
)
from harness.plugins.exchange.imported_run import refuse_existing, write_run
from harness.plugins.exchange.inspect_export import write_inspect
from harness.plugins.exchange.inspect_import import is_inspect_log, read_inspect
from harness.plugins.exchange.lm_eval import is_lm_eval, read_lm_eval
from harness.plugins.exchange.published import log_mlflow, log_wandb, write_hf_results
from harness.store.files import output_file
from harness.store.run_folder import RunFolder
from harness.terminal.console import ExactOutput, say

ExportFormat = Literal["parquet", "csv", "inspect", "hf-eval-results", "wandb", "mlflow"]
FORMATS: dict[str, ExportFormat] = {
    ".parquet": "parquet",
    ".csv": "csv",
    ".eval": "inspect",
    ".json": "inspect",
    ".yaml": "hf-eval-results",
}
"""The export format for each file suffix."""
STDOUT = "-"
TABLES = ("parquet", "csv")  # of several runs
SINGLE = ("inspect", "hf-eval-results")  # files that hold one run
TRACKERS = ("wandb", "mlflow")  # where --output is a project, not a file
WITH_ATTEMPTS = (*TABLES, *TRACKERS)


def export(
    runs: Runs,
    file: Annotated[str, typer.Option("--output", metavar="FILE")] = "",
    form: Annotated[ExportFormat | None, typer.Option("--format")] = None,
    attempts: bool = False,
    field: Annotated[list[str] | None, typer.Option(metavar="KEY=VALUE")] = None,
) -> None:
    """Write runs as a table of samples, or in another tool's format, or log them to a tracker.

    Args:
        file: Output file, replaced if it exists; - writes CSV to stdout. For wandb, the project,
            and for mlflow, the experiment (default: the tracker's setting).
        form: Output format (default: determined by the suffix of FILE).
        attempts: Write a row for every attempt, not only each sample's last one (csv, parquet,
            wandb, mlflow).
        field: Set a field of the exported result (hf-eval-results); repeatable.
    """
    form = form or ("csv" if file == STDOUT else FORMATS.get(Path(file.lower()).suffix))
    folders = runs_named(runs, Settings())
    fields = dict(_field(text) for text in field or ())
    _check(form, file, attempts, fields, len(folders))
    exported = [exported_run(folder) for folder in folders]
    warn = [say] if form in (*TABLES, *TRACKERS) else []  # others use the order of the rows only
    exported = [replace(run, rows=row_fields(run.folder, *warn)) for run in exported]
    if form in TRACKERS:
        _log(form, exported, file, attempts)
        return
    first = exported[0]
    path = Path(file)
    rows = ExportedRows(exported, attempts=attempts or form == "inspect")
    what = "attempts" if attempts or form == "inspect" else "samples"
    count = len(rows)
    if form == "inspect":
        write_inspect(first, path)
    elif form == "hf-eval-results":
        value = write_hf_results(first, path, fields)
        say(f"{value:.4g} in {file}, for .eval_results/ in the model's repository")
        return
    elif form == "parquet":
        write_parquet(rows, path)
    elif file == STDOUT:
        sys.stdout.reconfigure(encoding="utf-8", newline="")  # type: ignore[union-attr]
        write_csv(rows, ExactOutput())
    else:
        with output_file(path) as new, new.open("w", encoding="utf-8", newline="") as out:
            write_csv(rows, out)
    if file != STDOUT:
        say(f"{count:,} {what} in {file}")


def _field(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals:
        raise ConfigError(f"--field {text}: not KEY=VALUE.", "Write --field KEY=VALUE.")
    return key.strip(), value.strip()


def _check(
    form: ExportFormat | None, file: str, attempts: bool, fields: Mapping[str, str], runs: int
) -> None:
    if not file and form not in TRACKERS:
        raise ConfigError("The output file is missing.", "Name it: --output NAME.csv")
    if form is None:
        remedy = f"Use --format: {', '.join(get_args(ExportFormat))}."
        raise ConfigError(f"--output {file}: its suffix does not name a format.", remedy)
    if file == STDOUT and form != "csv":
        remedy = "Name a file with --output; only csv can go to stdout."
        raise ConfigError(f"{form} cannot be written to stdout.", remedy)
    if attempts and form not in WITH_ATTEMPTS:
        remedy = f"Use it with {', '.join(WITH_ATTEMPTS)}."
        raise ConfigError(f"--attempts has no effect on {form}.", remedy)
    if fields and form != "hf-eval-results":
        remedy = "Use it with hf-eval-results."
        raise ConfigError(f"--field: {form} has no fields to set.", remedy)
    if form in SINGLE and runs > 1:
        raise ConfigError(f"{form} holds one run per file.", "Export the runs one by one.")


def _log(form: ExportFormat, runs: Sequence[ExportedRun], project: str, attempts: bool) -> None:
    log = log_wandb if form == "wandb" else log_mlflow
    for run in runs:
        say(f"{run.name}: {log(run, ExportedRows([run], attempts=attempts), project)}")


def import_(
    file: Path,
    form: Annotated[Literal["inspect", "lm-eval"] | None, typer.Option("--format")] = None,
    name: str = "",
    task: str = "",
    score: str = "",
) -> None:
    """Import another tool's results as a run, which can be shown and compared like any other.

    Args:
        file: An Inspect log (.eval, .json) or lm-eval's samples (.jsonl).
        form: Format of the file (default: detected).
        name: The run's name (default: the file's).
        task: The task's name (default: from the file).
        score: The score that decides which answers passed (default: the file's first).
    """
    root = Settings().runs_dir
    name = name or re.sub(r"[^\w.-]+", "_", file.stem).lstrip(".-")[:100] or "imported"
    refuse_existing(RunFolder(root, name))
    if form == "inspect" or (form is None and is_inspect_log(file)):
        imported = read_inspect(file, task, score)
    elif form == "lm-eval" or is_lm_eval(file):
        imported = read_lm_eval(file, task, score)
    else:
        remedy = "If it is one of these, name it with --format: inspect, lm-eval."
        raise DataInvalid(f"{file}: neither an Inspect log nor lm-eval's samples.", remedy)
    folder = write_run(root, name, file, imported)
    for note in imported.notes:
        say(note, "yellow")
    task = imported.config.task.name
    say(f"Imported {imported.format} as the run {folder.name!r}, task {task}: {folder.path}")
