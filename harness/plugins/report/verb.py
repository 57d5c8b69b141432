"""`harness report`: an HTML page about runs, and its figures as files."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Literal

import typer

from harness.analysis.run_comparison import ComparisonOptions
from harness.cli.options import Baseline, By, Round, Runs, Score
from harness.config.settings import Settings
from harness.engine.run_files import baseline_name, runs_named
from harness.errors import ConfigError, ExtraMissing
from harness.plugins.report.figure import Figure, write_image
from harness.plugins.report.page import ReportPage, figures_of, write_page
from harness.plugins.report.recorded_task import task_of
from harness.plugins.report.runs import report_on
from harness.report.runs import run_title
from harness.report.text import printable
from harness.store.files import check_output
from harness.store.run_folder import REPORT, RunFolder
from harness.terminal.console import messages, say


def report(
    runs: Runs,
    output: Annotated[Path | None, typer.Option("--output")] = None,
    title: str = "",
    baseline: Baseline = "",
    by: By = "",
    score: Score = "",
    round_: Round = None,
    most_attempts: Annotated[int, typer.Option("--max-attempts", min=0)] = 50_000,
    images: Annotated[Path | None, typer.Option(metavar="FOLDER")] = None,
    form: Annotated[Literal["svg", "png", "pdf"], typer.Option("--format")] = "svg",
) -> None:
    """Write a report you can share: one HTML file that works offline.

    Args:
        output: Output file (default: report.html in the run's folder).
        title: Title (default: the runs' names).
        most_attempts: Maximum number of attempts of each run in the page. If a run has more,
            randomly chosen instances are omitted.
        images: Write the figures as files to this folder. A page is then written only with
            --output.
        form: Format of the figures.
    """
    settings = Settings()
    folders = runs_named(runs, settings)
    path = output or (page_path(folders) if images is None else None)
    if path is not None:
        check_output(path)
        if path.exists() and path.read_bytes()[:15].lower() != b"<!doctype html>":
            problem = f"--output {path}: the file exists and is not a report."
            raise ConfigError(problem, "Name another file.")
    if len(folders) == 1 and (baseline or by):
        raise ConfigError("One run cannot be compared.", "Name two or more runs.")
    asked = ComparisonOptions(score=score, round=round_, by=by)
    with messages.status("Reading"):
        found = report_on(folders, asked, baseline_name(baseline, settings))
        empty = [run.name for run in found.runs if not len(run.attempts)]
        if len(empty) == len(folders):
            problem = f"The run {empty[0]!r} has no attempts to report."
            raise ConfigError(problem, "Run its run file again.")
        if empty:
            say(f"Not in the report, since they have no attempts: {', '.join(empty)}.", "yellow")
            folders = [folder for folder in folders if folder.name not in empty]
            found = report_on(folders, asked, baseline_name(baseline, settings))
        runs_ = zip(found.runs, folders, strict=True)
        found = found._replace(
            runs=[replace(run, answers=task_of(folder, settings)) for run, folder in runs_]
        )
    pictures: list[Figure] = []
    try:
        with messages.status("Drawing"):
            pictures = figures_of(found)
    except ExtraMissing as error:
        if images is not None:
            raise
        say(f"The report has everything but figures. {error}")
    if images is not None:
        subtitle = printable(found.runs[0].name) if len(found.runs) == 1 else ""
        for one in pictures:
            write_image(images / f"{one.name}.{form}", one, subtitle)
        say(f"{len(pictures)} figures in {images}")
    if path is None:
        return
    page = ReportPage(
        title=title or run_title([run.name for run in found.runs]),
        made_at=datetime.now(UTC),
        reported=found,
        figures=pictures,
        most_attempts=most_attempts,
    )
    replaced = " (it replaces an earlier one)" * path.exists()
    with messages.status("Writing") as status:
        write_page(path, page, lambda n: status.update(f"Writing: {n:,} attempts"))
    say(f"Report in {path}{replaced}")


def page_path(folders: Sequence[RunFolder]) -> Path:
    """Return a report's default path: in the folder of a single run, else in the working folder."""
    return (folders[0].path if len(folders) == 1 else Path()) / REPORT
