"""`harness report`: an HTML page about runs, and its figures as files."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from harness.analysis.run_comparison import ComparisonOptions
from harness.cli.completion import run_names
from harness.cli.console import messages
from harness.cli.options import Baseline, Round
from harness.config.settings import Settings
from harness.errors import ConfigError, StoreFailed, nearest
from harness.report.figure import Figure
from harness.report.loading import report_on
from harness.report.runs import ReportedRun, common_start
from harness.report.text import printable
from harness.store.files import check_output, replacing
from harness.store.run_folder import find_runs

IMAGES = ("svg", "png", "pdf")

_MOST_NAMED = 4


def report(
    runs: Annotated[
        list[str], typer.Argument(help="One or more runs of one task.", autocompletion=run_names)
    ],
    output: Annotated[
        Path | None,
        typer.Option(
            "-o", "--output", help="Output file (default: report.html in the run's folder)."
        ),
    ] = None,
    title: Annotated[str, typer.Option(help="Title (default: the runs' names).")] = "",
    baseline: Baseline = "",
    by: Annotated[
        str, typer.Option(metavar="LABEL", help="Label to group by (default: the first label).")
    ] = "",
    round_: Round = None,
    attempts: Annotated[
        int,
        typer.Option(
            min=0,
            help="Include at most N attempts of each run, as a random sample of whole instances.",
        ),
    ] = 50_000,
    images: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER", help="Also write the figures as files; no page unless -o is given."
        ),
    ] = None,
    form: Annotated[
        str, typer.Option("--format", help="Format of the figures: svg, png or pdf.")
    ] = "svg",
) -> None:
    """Write a report you can share: one HTML file that works offline, and its figures as files."""
    write_report(
        runs,
        output=output,
        title=title,
        asked=ComparisonOptions(score="", round=round_, by=by),
        baseline=baseline,
        most_attempts=attempts,
        images=images,
        form=form,
    )


def write_report(
    names: Sequence[str],
    *,
    output: Path | None,
    title: str,
    asked: ComparisonOptions,
    baseline: str,
    most_attempts: int | None,
    images: Path | None,
    form: str,
) -> None:
    """Write the report of runs, or only its figures.

    Args:
        names: Names of the runs.
        output: The page's file; by default ``report.html``, in the run's folder if there is one
            run.
        title: Title of the page.
        asked: What to compare; without a score the task's primary metric, without a label the
            first.
        baseline: Name of the baseline run.
        most_attempts: Most attempts of each run to include.
        images: Folder for the figures; if given, the page is written only if `output` is given too.
        form: Format of the figures.
    """
    from harness.report.figures import figures
    from harness.report.html import ReportPage, write_page

    if form not in IMAGES:
        raise ConfigError(f"There is no image format {form!r}.", nearest(form, IMAGES))
    folders = find_runs(Settings().runs_dir, names)
    path = output or (folders[0].path if len(folders) == 1 else Path()) / "report.html"
    _refuse_other_file(path)
    if len(folders) == 1 and (baseline or asked.by):
        raise ConfigError("One run cannot be compared.", "Name two or more runs.")
    runs, comparison = report_on(folders, asked, baseline)
    _refuse_nothing(runs)
    pictures = figures(runs, comparison)
    if images is not None:
        only = printable(runs[0].name) if len(runs) == 1 else ""
        _write_images(pictures, images, form, only)
    if output is None and images is not None:
        return
    write_page(
        path,
        ReportPage(
            title=title or _title([run.name for run in runs]),
            made_at=datetime.now(UTC),
            runs=runs,
            figures=pictures,
            comparison=comparison,
            most_attempts=most_attempts,
        ),
    )
    messages.print(Text(f"Report in {path}"), soft_wrap=True)


def _title(names: Sequence[str]) -> str:
    """Return the runs' names, or for many runs their common prefix."""
    if len(names) <= _MOST_NAMED:
        return ", ".join(names)
    start = common_start(names).removesuffix(".")
    return f"{start}: {len(names)} runs" if start else f"{len(names)} runs"


def _refuse_other_file(path: Path) -> None:
    """Refuse to overwrite a file that is not a report.

    Raises:
        ConfigError: The file exists and is not a report.
        StoreFailed: The file cannot be read.
    """
    check_output(path)
    if path.exists():
        with path.open("rb") as file:
            if file.read(15).lower() != b"<!doctype html>":
                raise ConfigError(
                    f"-o {path}: the file exists and is not a report.", "Name another file."
                )


def _refuse_nothing(runs: Sequence[ReportedRun]) -> None:
    for run in runs:
        if not len(run.attempts):
            raise ConfigError(
                f"The run {run.name!r} has no attempts to report.", "Run its run file again."
            )


def _write_images(pictures: Sequence[Figure], folder: Path, form: str, subtitle: str) -> None:
    """Write the figures.

    Raises:
        StoreFailed: The folder or a file cannot be written.
    """
    from harness.report.figure import DRAW, ImageOptions

    remedy = "Free some space or fix the permissions, or name another folder with --images."
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StoreFailed(f"Cannot create {folder}: {error.strerror}.", remedy) from None
    for one in pictures:
        image = DRAW[form](one, ImageOptions(subtitle=subtitle))
        with replacing(folder / f"{one.name}.{form}", remedy) as temporary:
            temporary.write_bytes(image)
    messages.print(Text(f"{len(pictures)} figures in {folder}"), soft_wrap=True)
