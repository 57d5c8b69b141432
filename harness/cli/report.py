"""`harness report`: an HTML page on runs, and its figures as files."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Literal

import typer

from harness.analysis.comparable import read_run
from harness.analysis.run_comparison import ComparisonOptions
from harness.analysis.suite import suite
from harness.cli.console import Baseline, By, Round, Runs, Score, say
from harness.config.settings import Settings
from harness.errors import ConfigError, StoreFailed
from harness.report.cross_table import suite_document
from harness.report.figure import Figure, image
from harness.report.runs import common_start, report_on
from harness.report.text import printable
from harness.store.files import check_output, replacing
from harness.store.run_folder import find_runs

_MOST_NAMED = 4


def report(
    runs: Runs,
    output: Annotated[Path | None, typer.Option("-o", "--output")] = None,
    title: str = "",
    baseline: Baseline = "",
    by: By = "",
    score: Score = "",
    round_: Round = None,
    attempts: Annotated[int, typer.Option(min=0)] = 50_000,
    images: Annotated[Path | None, typer.Option(metavar="FOLDER")] = None,
    form: Annotated[Literal["svg", "png", "pdf"], typer.Option("--format")] = "svg",
) -> None:
    """Write a report you can share: one HTML file that works offline, and its figures as files.

    Args:
        output: Output file (default: report.html in the run's folder).
        title: Title (default: the runs' names).
        attempts: Maximum attempts of each run in the page: a random sample of whole instances.
        images: Also write the figures as files; without -o, no page is written.
        form: Format of the figures.
    """
    from harness.report.figures import figures
    from harness.report.html.page import ReportPage, write_page

    folders = find_runs(Settings().runs_dir, runs)
    path = output or (folders[0].path if len(folders) == 1 else Path()) / "report.html"
    _refuse_other_file(path)
    if len(folders) == 1 and (baseline or by):
        raise ConfigError("One run cannot be compared.", "Name two or more runs.")
    asked = ComparisonOptions(score=score, round=round_, by=by)
    found = report_on(folders, asked, baseline)
    reported, comparison, *_ = found
    for run in reported:
        if not len(run.attempts):
            problem = f"The run {run.name!r} has no attempts to report."
            raise ConfigError(problem, "Run its run file again.")
    pictures = figures(*found)
    if images is not None:
        only = printable(reported[0].name) if len(reported) == 1 else ""
        _write_images(pictures, images, form, only)
    if output is None and images is not None:
        return
    several = len({run.metrics.task for run in reported}) > 1
    page = ReportPage(
        title=title or _title([run.name for run in reported]),
        made_at=datetime.now(UTC),
        runs=reported,
        figures=pictures,
        comparison=comparison,
        suite=suite_document(suite(list(map(read_run, folders)))) if several else None,
        most_attempts=attempts,
    )
    write_page(path, page)
    say(f"Report in {path}")


def _title(names: Sequence[str]) -> str:
    """Return the runs' names or, for more than four, their common prefix and how many they are."""
    if len(names) <= _MOST_NAMED:
        return ", ".join(names)
    start = common_start(names).removesuffix(".")
    return f"{start}: {len(names)} runs" if start else f"{len(names)} runs"


def _refuse_other_file(path: Path) -> None:
    check_output(path)
    if path.exists():
        with path.open("rb") as file:
            is_report = file.read(15).lower() == b"<!doctype html>"
        if not is_report:
            problem = f"-o {path}: the file exists and is not a report."
            raise ConfigError(problem, "Name another file.")


def _write_images(pictures: Sequence[Figure], folder: Path, form: str, subtitle: str) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        remedy = "Fix the permissions, or name another folder with --images."
        raise StoreFailed(f"Cannot create {folder}: {error.strerror}.", remedy) from None
    for one in pictures:
        write_image(folder / f"{one.name}.{form}", one, subtitle)
    say(f"{len(pictures)} figures in {folder}")


def write_image(path: Path, picture: Figure, subtitle: str) -> None:
    """Write a figure in the format that the file's suffix names."""
    drawn = image(picture, path.suffix.removeprefix("."), subtitle)
    remedy = "Free some space, fix the permissions, or name another place."
    with replacing(path, remedy) as temporary:
        temporary.write_bytes(drawn)
