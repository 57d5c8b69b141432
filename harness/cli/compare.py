"""`harness compare`: runs against a baseline, instance by instance."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Annotated

import typer
from rich.text import Text

from harness.analysis.comparable import read_run
from harness.analysis.constraints import ConstraintFindings, read_findings
from harness.analysis.run_comparison import (
    Against,
    ComparisonOptions,
    RunComparison,
    compare_runs,
    with_constraints,
    with_names,
)
from harness.analysis.summary import latencies, measure
from harness.cli.console import output
from harness.cli.options import Baseline, Cluster, Round, Runs, Score, TableFormat, check_format
from harness.config.settings import Settings
from harness.errors import ConfigError
from harness.report.comparison import comparison_document
from harness.report.runs import cost_table
from harness.report.table import FORMATS
from harness.report.terminal import terminal
from harness.report.text import inert
from harness.store.calls import read_latencies
from harness.store.index import AttemptIndex, read_names
from harness.store.run_folder import RunFolder, find_runs


def compare(
    runs: Runs,
    baseline: Baseline = "",
    by: Annotated[
        str, typer.Option(metavar="LABEL", help="Compare each group of this label as well.")
    ] = "",
    score: Score = "",
    round_: Round = None,
    cluster: Cluster = "",
    form: TableFormat = "table",
    ids: Annotated[
        bool, typer.Option("--ids", help="List the instances where a run is better or worse.")
    ] = False,
    constraints: Annotated[
        bool,
        typer.Option(
            "--constraints", help="Show what a run fixed and broke, by kind of base constraint."
        ),
    ] = False,
    cost: Annotated[
        bool, typer.Option("--cost", help="Show calls, tokens, latency and cost of each run.")
    ] = False,
) -> None:
    """Compare runs instance by instance with paired tests and confidence intervals."""
    show_comparison(
        runs,
        ComparisonOptions(score=score, round=round_, by=by, cluster=cluster),
        baseline=baseline,
        form=form,
        ids=ids,
        constraints=constraints,
        cost=cost,
    )


def show_comparison(
    names: Sequence[str],
    asked: ComparisonOptions,
    *,
    baseline: str = "",
    form: str = "table",
    ids: bool = False,
    constraints: bool = False,
    cost: bool = False,
) -> None:
    """Print the comparison of runs, recomputed from their attempts.

    Args:
        names: Names of the runs.
        asked: What to compare; without a score, the task's primary metric.
        baseline: Name of the baseline run; empty for the first.
        form: The output format.
        ids: List the instances where a run is better or worse.
        constraints: Show what a run fixed and broke, by kind of base constraint.
        cost: Also print what the runs cost.
    """
    if cost and form != "table":
        raise ConfigError("--cost works with the printed table only.", "Remove --format.")
    check_format(form, ["table", *FORMATS])
    folders = _folders(names)
    found = _compared(folders, asked, baseline)
    names_of: dict[int, str] = {}
    if ids or form == "json":
        for folder in folders:
            names_of |= read_names(folder.attempts)
        found = with_names(found, names_of)
    if constraints:
        findings = {folder.name: _findings(folder, asked.round) for folder in folders}
        found = with_constraints(found, findings, names_of.values())
    if form != "table":  # not folded: the output may be a file
        sys.stdout.write(FORMATS[form](comparison_document(found)))
        return
    output.print(terminal(comparison_document(found)))
    if cost:
        _print_cost(folders)
    if ids:
        for one in found.others:
            _print_ids(one, found)


def _print_cost(folders: Sequence[RunFolder]) -> None:
    output.print()
    output.print(
        terminal(
            cost_table(
                [
                    (
                        measure(folder),
                        latencies(read_latencies(AttemptIndex(folder.attempts))),
                    )
                    for folder in folders
                ]
            )
        )
    )


def compared(names: Sequence[str]) -> RunComparison:
    """Compare runs with the first of them by the task's primary metric."""
    return _compared(_folders(names), ComparisonOptions(score=""), "")


def _folders(names: Sequence[str]) -> list[RunFolder]:
    folders = find_runs(Settings().runs_dir, names)
    if len(folders) < 2:
        raise ConfigError("Only one run was named.", "Name two or more; 'harness ls' lists them.")
    return folders


def _compared(
    folders: Sequence[RunFolder], asked: ComparisonOptions, baseline: str
) -> RunComparison:
    return compare_runs([read_run(folder) for folder in folders], asked, baseline)


def _findings(folder: RunFolder, round_: int | None) -> ConstraintFindings:
    """Read a run's checked constraints.

    Raises:
        ConfigError: None of the run's scores lists constraints.
    """
    findings = read_findings(AttemptIndex(folder.attempts), round_)
    if not len(findings.table):
        raise ConfigError(
            f"The run {folder.name!r} has no scores of base constraints.",
            "Remove --constraints.",
        )
    return findings


def _print_ids(one: Against, found: RunComparison) -> None:
    for what, ids in (("better", one.better), ("worse", one.worse)):
        _print_list(f"{one.run}, {what} than {found.baseline}", ids)
    for kind, change in one.constraints.items():
        for what, ids in (("fixed", change.fixed), ("broken", change.broken)):
            if ids:
                _print_list(f"{one.run}, {what}: {kind}", ids)


def _print_list(heading: str, names: Sequence[str]) -> None:
    output.print()
    output.print(inert(f"{heading} ({len(names):,}):"), style="bold")
    for name in names:
        output.print(Text("  ") + inert(name), soft_wrap=True)
