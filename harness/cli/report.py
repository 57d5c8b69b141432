"""`harness report`: runs as a page to look at, and its pictures as files."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from rich.text import Text

from harness.assemble.reporting import report_on
from harness.cli.console import messages
from harness.config.settings import Settings
from harness.errors import ConfigError, StoreFailed, nearest
from harness.report.ablation_figures import whole
from harness.report.figure import Figure
from harness.report.reported_run import ReportedRun
from harness.store.replacing import replacing
from harness.store.run_folder import find_run

IMAGES = ("svg", "png")


def write_report(
    names: Sequence[str],
    *,
    output: Path | None,
    title: str,
    baseline: str,
    by: str,
    most_attempts: int | None,
    images: Path | None,
    form: str,
) -> None:
    """Write the report of runs, or its pictures.

    output: the page's file; by default ``report.html``, of one run in its folder.
    images: folder for the pictures; where it is given, no page is written unless output is.

    Raises: a `harness.errors.HarnessError`.
    """
    from harness.report.figures import figures
    from harness.report.html import Report, write_page

    if form not in IMAGES:
        raise ConfigError(f"There is no image format {form!r}.", nearest(form, IMAGES))
    folders = [find_run(Settings().runs_dir, name) for name in names]
    twice = {one.name for one in folders if [f.name for f in folders].count(one.name) > 1}
    if twice:
        raise ConfigError(f"{twice.pop()!r} is named twice.", "Name each run once.")
    runs, comparison = report_on(folders, baseline, by)
    _refuse_nothing(runs)
    pictures = figures(runs, comparison)
    if images is not None:
        only = whole(runs[0].name) if len(runs) == 1 else ""
        _write_images(pictures, images, form, only)
    if output is None and images is not None:
        return
    path = output or (folders[0].path if len(folders) == 1 else Path()) / "report.html"
    write_page(
        path,
        Report(
            title=title or ", ".join(run.name for run in runs),
            made_at=datetime.now(UTC),
            runs=runs,
            figures=pictures,
            comparison=comparison,
            most_attempts=most_attempts,
        ),
    )
    messages.print(Text(f"Report in {path}"), soft_wrap=True)


def _refuse_nothing(runs: Sequence[ReportedRun]) -> None:
    for run in runs:
        if not len(run.attempts):
            raise ConfigError(
                f"The run {run.name!r} has no attempts to report.", "Run its run file again."
            )


def _write_images(pictures: Sequence[Figure], folder: Path, form: str, subtitle: str) -> None:
    """Raises: StoreFailed."""
    from harness.report.figures.images import as_png, as_svg

    remedy = "Make room or mend the permissions, or name another folder with --images."
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StoreFailed(f"Cannot make {folder}: {error.strerror}.", remedy) from None
    for one in pictures:
        draw = as_svg if form == "svg" else as_png
        picture = draw(one, subtitle=subtitle)
        with replacing(folder / f"{one.name}.{form}", remedy) as temporary:
            temporary.write_bytes(picture.encode() if isinstance(picture, str) else picture)
    messages.print(Text(f"{len(pictures)} pictures in {folder}"), soft_wrap=True)
