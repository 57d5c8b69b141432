"""`harness export`: write runs as a table, an Inspect log, or lm-eval samples."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Literal

import typer

from harness.analysis.summary import measure
from harness.cli.console import ExactOutput, say
from harness.cli.options import Runs
from harness.config.settings import Settings
from harness.errors import ConfigError, DataMissing
from harness.exchange.exported_run import ExportedRun
from harness.exchange.inspect_export import write_inspect
from harness.exchange.lm_eval_export import write_lm_eval
from harness.exchange.tables import AttemptRows, write_csv, write_parquet
from harness.store.files import output_file
from harness.store.index import AttemptIndex
from harness.store.run_folder import RunFolder, find_runs

ExportFormat = Literal["parquet", "csv", "inspect", "lm-eval"]
FORMATS: dict[ExportFormat, tuple[str, ...]] = {
    "parquet": (".parquet",),
    "csv": (".csv",),
    "inspect": (".eval", ".json"),
    "lm-eval": (".jsonl",),
}
STDOUT = "-"


def export(
    runs: Runs,
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
        ExportFormat | None, typer.Option("--format", help="Default: by FILE's suffix.")
    ] = None,
) -> None:
    """Write runs as a table, or one run as an Inspect log or lm-eval samples."""
    form = form or _of_ending(file)
    if file == STDOUT and form != "csv":
        raise ConfigError(
            f"{form} cannot be written to stdout.",
            "Name a file with -o; only csv can go to stdout.",
        )
    folders = find_runs(Settings().runs_dir, runs)
    if form in ("inspect", "lm-eval") and len(folders) > 1:
        raise ConfigError(f"{form} holds one run per file.", "Export the runs one by one.")
    exported = [_run(folder) for folder in folders]
    (first, *_), path = folders, Path(file)
    what = "attempts"
    if form == "inspect":
        config, manifest = first.read_config(), first.read_manifest()
        write_inspect(exported[0], config, manifest, measure(first), path)
        count = len(exported[0].index.attempts)
    elif form == "lm-eval":
        count, left_out = write_lm_eval(exported[0], first.read_config(), path)
        what = "samples"
        if left_out:
            whole = count + left_out
            say(f"{left_out:,} of {whole:,} samples have no score and were skipped.", "yellow")
    else:
        rows = AttemptRows(exported)
        count = len(rows)
        _write_table(rows, form, file)
    if file != STDOUT:
        say(f"{count:,} {what} in {file}")


def _of_ending(file: str) -> ExportFormat:
    """Return the format that a file's suffix stands for. Raises ConfigError."""
    if file == STDOUT:
        return "csv"
    for form, endings in FORMATS.items():
        if file.lower().endswith(endings):
            return form
    raise ConfigError(
        f"-o {file}: its suffix does not name a format.", f"Use --format: {', '.join(FORMATS)}."
    )


def _run(folder: RunFolder) -> ExportedRun:
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


def _write_table(rows: AttemptRows, form: ExportFormat, file: str) -> None:
    if form == "parquet":
        write_parquet(rows, Path(file))
    elif file == STDOUT:
        sys.stdout.reconfigure(encoding="utf-8", newline="")  # type: ignore[union-attr]
        write_csv(rows, ExactOutput())
    else:
        with (
            output_file(Path(file)) as temporary,
            temporary.open("w", encoding="utf-8", newline="") as out,
        ):
            write_csv(rows, out)
