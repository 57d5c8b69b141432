"""`harness report`: one file that contains everything and loads nothing from the network.

The file is a shell for the page's script (built from ``web/``) and its data. Readers without
JavaScript get the conclusion, the warnings and a table of results.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Annotated, Literal

import typer
from markupsafe import Markup
from msgspec.structs import replace as replaced

from harness.cli.options import Baseline, By, Round, Runs, Score
from harness.config.settings import Settings
from harness.declarations import declarations
from harness.engine.run_files import baseline_name, find_named_runs
from harness.errors import ConfigError
from harness.plugins.comparisons.comparison_document import ShownUnit
from harness.plugins.comparisons.run_comparison import ComparisonOptions
from harness.plugins.report.archive import select, write_chunks
from harness.plugins.report.entries import task_of
from harness.plugins.report.figure import Figure, config, write_image
from harness.plugins.report.figures import figures
from harness.plugins.report.overview import overview
from harness.plugins.report.parts import (
    FigurePart,
    Overview,
    Part,
    RunOverview,
    all_visible,
    block,
    built,
    page_template,
    policy,
    to_json,
)
from harness.plugins.report.runs import (
    IsolatedSection,
    Reported,
    report_on,
    run_title,
    shortened,
)
from harness.report.table import Column
from harness.report.text import escape_unprintable, format_usd
from harness.store.files import check_output_path, replace_atomically
from harness.store.index import AttemptIndex
from harness.store.run_folder import REPORT, RunFolder
from harness.terminal.console import messages, say


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportPage:
    """The contents of a report's page."""

    title: str
    made_at: datetime
    reported: Reported
    figures: Sequence[Figure] = ()
    most_attempts: int | None = None  # per run; None for all


def write_page(
    path: Path, page: ReportPage, on_progress: Callable[[int], object] = lambda _: None
) -> None:
    """Write the page, atomically.

    ``on_progress`` is called with the number of attempts written so far.
    """
    remedy = "Free some space, fix the permissions, or name another file with -o."
    with (
        replace_atomically(path, remedy, follow=path.name != REPORT) as temporary,
        temporary.open("w", encoding="utf-8", newline="\n") as file,
    ):
        _write(file, page, on_progress)


def _write(file: IO[str], page: ReportPage, on_progress: Callable[[int], object]) -> None:
    selection = select([run.index for run in page.reported.runs], page.most_attempts)
    document = overview(
        page.reported,
        page.title,
        page.made_at,
        figures=page.figures,
        included=[len(rows) for rows in selection.rows],
    )
    style = built("app.css")
    scripts = [built("app.js")]
    if page.figures:
        scripts.insert(0, built("charts.js"))
    reported = shortened(page.reported)
    with TemporaryFile("w+", encoding="ascii", dir=Path(file.name).parent) as chunks:
        compared = reported.comparison
        index = write_chunks(reported.runs, selection, compared, chunks.write, on_progress)
        chunks.seek(0)
        head = page_template(Path(__file__).with_name("page.html.j2")).render(
            policy=policy([style], scripts),
            style=Markup(style),  # noqa: S704 (ours)
            document=document,
            results=list(_results(document)),
        )
        file.write(f"{head}\n")
        file.write(block("overview", to_json(drawable(document))))
        if page.figures:
            file.write(block("themes", to_json({"light": config(), "dark": config(dark=True)})))
        file.write(block("index", index))
        file.writelines(f"<script>{script}</script>\n" for script in scripts)
        shutil.copyfileobj(chunks, file, 1 << 20)
    file.write("</body>\n</html>\n")


def drawable(document: Overview) -> Overview:
    """Return the overview with invisible characters in its charts replaced by visible escapes."""
    sections = []
    for section in document.sections:
        parts: list[Part] = []
        for part in section.parts:
            if isinstance(part, FigurePart):
                part = replaced(part, chart=all_visible(part.chart))
            parts.append(part)
        sections.append(replaced(section, parts=parts))
    return replaced(document, sections=sections)


def _results(document: Overview) -> Iterator[tuple[RunOverview, list[str]]]:
    """Yield each run with its cells in the table for readers without JavaScript."""
    column = Column("95%", rate=True)
    for run in document.runs:
        unit = ShownUnit(run.unit == "%", document.digits)
        rate = run.rate
        between = None
        if rate.low is not None and rate.high is not None:
            between = rate.low, rate.high
        cost = "recorded"
        if not run.recorded:
            cost = format_usd(run.cost_usd, computed=run.computed_usd)
        figures = [unit.show(rate.value, column), unit.show(between, column), f"{rate.n:,}"]
        yield run, [run.model, run.measure, *figures, cost]


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
        output: Output file (default: report.html, in the run's folder or, for several runs, in the
            current one).
        title: Title (default: the runs' names).
        most_attempts: Maximum number of attempts of each run in the page. If a run has more,
            randomly chosen instances are omitted.
        images: Write the figures as files to this folder. A page is then written only with
            --output.
        form: Format of the figures.
    """
    settings = Settings()
    folders = find_named_runs(runs, settings)
    path = output
    if path is None and images is None:
        path = page_path(folders)
    if path is not None:
        check_output_path(path)
        if path.exists() and path.read_bytes()[:15].lower() != b"<!doctype html>":
            problem = f"--output {path}: the file exists and is not a report."
            raise ConfigError(problem, "Name another file.")
    if len(folders) == 1 and (baseline or by):
        raise ConfigError("One run cannot be compared.", "Name two or more runs.")
    options = ComparisonOptions(score=score, round=round_, by=by)
    with messages.status("Reading"):
        reported = _read(folders, options, baseline_name(baseline, settings), settings)
    with messages.status("Drawing"):
        pictures = figures(*reported[:4])
    names = [run.name for run in reported.runs]
    if images is not None:
        subtitle = escape_unprintable(names[0]) if len(names) == 1 else ""
        for picture in pictures:
            write_image(images / f"{picture.name}.{form}", picture, subtitle)
        say(f"{len(pictures)} figures in {images}")
    if path is None:
        _say_faults(reported)
        return
    page = ReportPage(
        title=title or run_title(names),
        made_at=datetime.now(UTC),
        reported=reported,
        figures=pictures,
        most_attempts=most_attempts,
    )
    replaced = " (it replaces an earlier one)" * path.exists()
    with messages.status("Writing") as status:
        write_page(path, page, lambda n: status.update(f"Writing: {n:,} attempts"))
    _say_faults(reported)
    say(f"Report in {path}{replaced}")


def _read(
    folders: Sequence[RunFolder], options: ComparisonOptions, baseline: str, settings: Settings
) -> Reported:
    """Read and compare the runs that have attempts. Report the others."""
    started = []
    indexes = []
    empty = []
    for folder in folders:
        index = AttemptIndex(folder.attempts)
        if len(index):
            started.append(folder)
            indexes.append(index)
        else:
            empty.append(folder.name)
    if not started:
        problem = f"The run {empty[0]!r} has no attempts to report."
        raise ConfigError(problem, "Run its run file again.")
    if empty:
        say(f"Not in the report, since they have no attempts: {', '.join(empty)}.", "yellow")
    reported = report_on(started, options, baseline, indexes=indexes)
    runs = []
    for run, folder in zip(reported.runs, started, strict=True):
        runs.append(replace(run, answers=task_of(folder, settings)))
    return reported._replace(runs=runs)


def _say_faults(reported: Reported) -> None:
    """Print which plug-ins could not be loaded, and which sections of plug-ins failed."""
    faults = [declaration.load_error for declaration in declarations()]
    for run in reported.runs:
        for _, section in run.added:
            if isinstance(section, IsolatedSection):
                faults.append(section.problem)
    for fault in dict.fromkeys(filter(None, faults)):
        say(f"{fault} 'harness doctor' checks all plug-ins.", "yellow")


def page_path(folders: Sequence[RunFolder]) -> Path:
    """Return a report's default path: in the folder of a single run, else in the working folder."""
    if len(folders) == 1:
        return folders[0].path / REPORT
    return Path() / REPORT
