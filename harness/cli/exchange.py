"""`harness export` and `harness import`: tables, Inspect logs and lm-eval samples."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Annotated, Literal

import typer

from harness.analysis.summary import measure
from harness.cli.console import ExactOutput, Runs, say
from harness.config.settings import Settings
from harness.errors import ConfigError, DataInvalid
from harness.exchange.exported_run import ExportedRows, exported_run, write_csv, write_parquet
from harness.exchange.imported_run import refuse_existing, write_run
from harness.exchange.inspect_export import write_inspect
from harness.exchange.inspect_import import is_inspect_log, read_inspect
from harness.exchange.lm_eval import is_lm_eval, read_lm_eval, write_lm_eval
from harness.store.files import output_file
from harness.store.run_folder import RunFolder, find_runs

ExportFormat = Literal["parquet", "csv", "inspect", "lm-eval"]
FORMATS: dict[str, ExportFormat] = {
    **{".parquet": "parquet", ".csv": "csv"},
    **{".eval": "inspect", ".json": "inspect", ".jsonl": "lm-eval"},
}
"""Export formats by file suffix."""
STDOUT = "-"


def export(
    runs: Runs,
    file: Annotated[str, typer.Option("-o", "--output", metavar="FILE")],
    form: Annotated[ExportFormat | None, typer.Option("--format")] = None,
    attempts: bool = False,
) -> None:
    """Write runs as a table of samples, or one run as an Inspect log or lm-eval samples.

    Args:
        file: Output file, replaced if it exists; - writes CSV to stdout.
        form: Output format (default: by FILE's suffix).
        attempts: Write a row for every attempt, not only each sample's last one (csv, parquet).
    """
    form = form or ("csv" if file == STDOUT else FORMATS.get(Path(file.lower()).suffix))
    if form is None:
        remedy = f"Use --format: {', '.join(dict.fromkeys(FORMATS.values()))}."
        raise ConfigError(f"-o {file}: its suffix does not name a format.", remedy)
    if file == STDOUT and form != "csv":
        remedy = "Name a file with -o; only csv can go to stdout."
        raise ConfigError(f"{form} cannot be written to stdout.", remedy)
    if attempts and form in ("inspect", "lm-eval"):
        raise ConfigError(f"--attempts: {form} has a fixed form.", "Use it with csv or parquet.")
    folders = find_runs(Settings().runs_dir, runs)
    if form in ("inspect", "lm-eval") and len(folders) > 1:
        raise ConfigError(f"{form} holds one run per file.", "Export the runs one by one.")
    exported = [exported_run(folder) for folder in folders]
    (first, *_), path = folders, Path(file)
    rows = ExportedRows(exported, attempts=attempts or form == "inspect")
    what, count = "attempts" if attempts or form == "inspect" else "samples", len(rows)
    if form == "inspect":
        config, manifest = first.read_config(), first.read_manifest()
        write_inspect(exported[0], config, manifest, measure(first), path)
    elif form == "lm-eval":
        count, left_out = write_lm_eval(exported[0], first.read_config(), path)
        if left_out:
            whole = count + left_out
            say(f"{left_out:,} of {whole:,} samples have no score and were skipped.", "yellow")
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
