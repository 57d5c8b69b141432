"""`harness compare`: runs against one of them, instance by instance."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from rich.text import Text

from harness.analysis.comparable import Variant, settings
from harness.analysis.question import PASS_RATE
from harness.analysis.run_comparison import Against, Asked, RunComparison, compare_runs, with_names
from harness.assemble import measured
from harness.cli.console import output
from harness.config.settings import Settings
from harness.errors import ConfigError, nearest
from harness.report.cells import inert
from harness.report.comparison_export import as_csv, as_json, as_latex, as_markdown
from harness.report.comparison_table import comparison_table
from harness.store.columns import AttemptTable
from harness.store.reader import read_names
from harness.store.run_folder import RunFolder, find_run

FORMATS = {"markdown": as_markdown, "latex": as_latex, "csv": as_csv, "json": as_json}


def show_comparison(
    names: Sequence[str],
    *,
    baseline: str,
    score: str,
    round_: int | None,
    by: str,
    cluster: str,
    form: str,
    ids: bool,
) -> None:
    """Print the comparison of runs, computed anew from their attempts.

    Raises: a `harness.errors.HarnessError`.
    """
    if form not in ("table", *FORMATS):
        raise ConfigError(f"There is no format {form!r}.", nearest(form, ["table", *FORMATS]))
    folders = [find_run(Settings().runs_dir, name) for name in names]
    own = [folder.name for folder in folders]
    twice = {name for name in own if own.count(name) > 1}
    if len(folders) < 2 or twice:
        raise ConfigError(
            f"{twice.pop()!r} is named twice." if twice else "There is one run to compare.",
            "Name two runs or more; 'harness ls' lists them.",
        )
    runs = [_read(folder) for folder in folders]
    measures = {variant.metrics.measure for variant, _ in runs}
    asked = Asked(
        score=score or (measures.pop() if len(measures) == 1 else None) or PASS_RATE,
        round=round_,
        by=by,
        cluster=cluster,
    )
    found = compare_runs(runs, asked, baseline)
    if ids or form == "json":
        names_of: dict[int, str] = {}
        for folder in folders:
            names_of |= read_names(folder.attempts)
        found = with_names(found, names_of)
    if form != "table":  # as it is: a file's lines are not to be folded
        sys.stdout.write(FORMATS[form](found))
        return
    output.print(comparison_table(found))
    if ids:
        for one in found.others:
            _print_ids(one, found)


def _read(folder: RunFolder) -> tuple[Variant, AttemptTable]:
    metrics, attempts = measured(folder)
    fingerprint = folder.read_manifest().get("fingerprint", {})
    return Variant(folder.name, metrics, settings(folder.read_config()), fingerprint), attempts


def _print_ids(one: Against, found: RunComparison) -> None:
    for what, ids in (("more", one.better), ("less", one.worse)):
        heading = f"\n{one.run}, {what} than {found.baseline} ({len(ids):,}):"
        output.print(inert(heading.strip()), style="bold")
        for name in ids:
            output.print(Text("  ") + inert(name), soft_wrap=True)
