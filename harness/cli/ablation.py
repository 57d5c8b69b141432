"""`harness ablation`: what each variant of a run file gains over a baseline."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, cast

import typer
from msgspec.structs import replace

from harness.analysis.ablation import AblationOptions, ablate
from harness.analysis.claims import findings
from harness.analysis.comparable import Variant, read_run
from harness.cli.console import say, show
from harness.cli.options import By, Format, Score
from harness.config.settings import Settings
from harness.errors import ConfigError, HarnessError, nearest
from harness.plugins import kind
from harness.ports import Claiming
from harness.report.ablation import ablation_document
from harness.store.index import read_attempts
from harness.store.run_folder import RunFolder, find_variants, run_name


def ablation(
    name: Annotated[
        str, typer.Argument(help="The run file's name; its variants' runs are NAME.VARIANT.")
    ],
    baseline: Annotated[
        str, typer.Option(metavar="VARIANT", help="Baseline variant (default: the first).")
    ] = "",
    over: Annotated[
        str,
        typer.Option(
            metavar="LABEL",
            help="Label whose groups are averaged and paired (default: the first label).",
        ),
    ] = "",
    score: Score = "",
    by: By = "",
    form: Format = "table",
) -> None:
    """Show what each variant of a run file gains over the baseline, and which claims hold."""
    folders = find_variants(Settings().runs_dir, name)
    variants = [_variant(name, folder) for folder in folders]
    asked = AblationOptions(baseline=baseline, over=over, score=score, by=by)
    table = ablate(variants, asked)
    if by:
        place = [variant.name for variant in variants].index(table.baseline)
        table = ablate(variants, replace(asked, member=_members(folders[place], table.over, by)))
    show(ablation_document(findings(variants, table, _claiming(table.task))), form)


def _variant(base: str, folder: RunFolder) -> Variant:
    name = folder.name.removeprefix(run_name(Path(base).name, "?").removesuffix("?"))
    return read_run(folder, name, grouped=True)[0]


def _members(folder: RunFolder, over: str, by: str) -> dict[str, str]:
    """Map each group of a label to its group of another, coarser label. Raises ConfigError."""
    attempts = read_attempts(folder.attempts)
    found: dict[str, str] = {}
    for groups in attempts.instances.groupings:
        if not (over in groups and by in groups):
            continue
        if found.setdefault(groups[over], groups[by]) != groups[by]:
            raise ConfigError(
                f"The group {groups[over]!r} of {over!r} is in several of {by!r}.",
                "Name with --by a label that is coarser, such as a task's category.",
            )
    if not found:
        raise ConfigError(
            f"The run {folder.name!r} has no groups of {by!r}.", nearest(by, attempts.labels())
        )
    return found


def _claiming(task: str) -> Claiming | None:
    """Return the task's class if its paper makes claims; a task that no longer loads has none."""
    try:
        plugin = kind("tasks").load(task)
    except HarnessError as error:
        say(f"No claims: {error}")
        return None
    return cast("Claiming", plugin) if isinstance(plugin, Claiming) else None
