"""`harness export`: write runs as a table, an Inspect log, or lm-eval samples."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from harness.analysis.summary import measure
from harness.cli.completion import run_names
from harness.cli.console import messages
from harness.config.settings import Settings
from harness.errors import ConfigError, DataMissing, nearest
from harness.exchange.exported_run import ExportedRun
from harness.exchange.inspect_export import write_inspect
from harness.exchange.lm_eval_export import write_lm_eval
from harness.exchange.tables import AttemptRows, write_csv, write_parquet
from harness.store.files import output_file
from harness.store.index import AttemptIndex
from harness.store.run_folder import RunFolder, find_run

FORMATS = {
    "parquet": (".parquet",),
    "csv": (".csv",),
    "inspect": (".eval", ".json"),
    "lm-eval": (".jsonl",),
}
STDOUT = "-"


def export(
    runs: Annotated[
        list[str],
        typer.Argument(help="Runs; inspect and lm-eval take one.", autocompletion=run_names),
    ],
    file: Annotated[
        str,
        typer.Option(
            "-o",
            "--output",
            metavar="FILE",
            help="A file there is replaced; - writes CSV to stdout.",
        ),
    ],
    form: Annotated[
        str,
        typer.Option(
            "--format", help="parquet, csv, inspect or lm-eval (default: by FILE's suffix)."
        ),
    ] = "",
) -> None:
    """Write runs as a table, or one run as an Inspect log or lm-eval samples."""
    export_runs(runs, form, file)


def export_runs(names: Sequence[str], form: str, file: str) -> None:
    """Write runs to a file; if that fails, an existing file is unchanged.

    Args:
        names: Names of the runs.
        form: The format; empty to choose it by the file's suffix.
        file: Path of the file, or `STDOUT`.
    """
    form = form or _of_ending(file)
    if form not in FORMATS:
        raise ConfigError(f"There is no format {form!r}.", nearest(form, FORMATS))
    if file == STDOUT and form != "csv":
        raise ConfigError(
            f"{form} cannot be written to stdout.",
            "Name a file with -o; only csv can go to stdout.",
        )
    folders = [find_run(Settings().runs_dir, name) for name in names]
    own = [folder.name for folder in folders]
    if len(set(own)) < len(own):
        raise ConfigError("A run is named twice.", "Name each run once.")
    if form in ("inspect", "lm-eval") and len(folders) > 1:
        raise ConfigError(f"{form} holds one run per file.", "Export the runs one by one.")
    runs = [_run(folder) for folder in folders]
    if form == "inspect":
        (folder,) = folders
        write_inspect(
            runs[0], folder.read_config(), folder.read_manifest(), measure(folder), Path(file)
        )
        count = len(runs[0].index.attempts)
    elif form == "lm-eval":
        written, left_out = write_lm_eval(runs[0], folders[0].read_config(), Path(file))
        if left_out:
            said = f"{left_out:,} of {written + left_out:,} samples have no score and were skipped."
            messages.print(Text(said, style="yellow"), soft_wrap=True)
        count = written
    else:
        rows = AttemptRows(runs)
        count = len(rows)
        _write_table(rows, form, file)
    if file != STDOUT:
        what = "samples" if form == "lm-eval" else "attempts"
        messages.print(Text(f"{count:,} {what} in {file}"), soft_wrap=True)


def _of_ending(file: str) -> str:
    """Return the format that a file's suffix stands for.

    Raises:
        ConfigError: The suffix stands for no format.
    """
    if file == STDOUT:
        return "csv"
    for form, endings in FORMATS.items():
        if file.lower().endswith(endings):
            return form
    raise ConfigError(
        f"-o {file}: its suffix does not name a format.", f"Use --format: {', '.join(FORMATS)}."
    )


def _run(folder: RunFolder) -> ExportedRun:
    """Open a run for export.

    Raises:
        DataMissing: The run has no attempts.
    """
    index = AttemptIndex(folder.attempts)
    if not len(index.attempts):
        raise DataMissing(
            f"The run {folder.name!r} has no attempts to export.",
            "Run its run file again: it resumes where it stopped.",
        )
    manifest = folder.read_manifest()
    return ExportedRun(
        name=folder.name,
        task=manifest.get("task", ""),
        model=manifest.get("model"),
        simulated=manifest.get("simulated", False),
        index=index,
    )


def _write_table(rows: AttemptRows, form: str, file: str) -> None:
    if form == "parquet":
        write_parquet(rows, Path(file))
    elif file == STDOUT:
        sys.stdout.reconfigure(encoding="utf-8", newline="")  # type: ignore[union-attr]
        write_csv(rows, sys.stdout)
    else:
        with (
            output_file(Path(file)) as temporary,
            temporary.open("w", encoding="utf-8", newline="") as out,
        ):
            write_csv(rows, out)
