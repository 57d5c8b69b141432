"""`harness compare`: runs against a baseline, instance by instance."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.text import Text

from harness.analysis.comparable import read_run
from harness.analysis.constraints import ConstraintFindings, read_findings
from harness.analysis.run_comparison import (
    Against,
    ComparisonOptions,
    compare_runs,
)
from harness.analysis.summary import latencies, measure
from harness.cli.console import output, show
from harness.cli.options import Baseline, By, Cluster, Format, Round, Runs, Score
from harness.config.settings import Settings
from harness.errors import ConfigError
from harness.report.comparison import comparison_document
from harness.report.runs import cost_table
from harness.report.text import inert
from harness.store.calls import read_latencies
from harness.store.index import AttemptIndex, read_names
from harness.store.run_folder import RunFolder, find_runs


def compare(
    runs: Runs,
    baseline: Baseline = "",
    by: By = "",
    score: Score = "",
    round_: Round = None,
    cluster: Cluster = "",
    form: Format = "table",
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
    if cost and form != "table":
        raise ConfigError("--cost works with the printed table only.", "Remove --format.")
    folders = find_runs(Settings().runs_dir, runs)
    if len(folders) < 2:
        raise ConfigError("Only one run was named.", "Name two or more; 'harness ls' lists them.")
    asked = ComparisonOptions(score=score, round=round_, by=by, cluster=cluster)
    names: dict[int, str] = {}
    if ids or form == "json":
        for folder in folders:
            names |= read_names(folder.attempts)
    findings = {folder.name: _findings(folder, round_) for folder in folders if constraints}
    compared = [read_run(folder) for folder in folders]
    found = compare_runs(compared, asked, baseline, names=names, findings=findings)
    show(comparison_document(found), form)
    if form != "table":
        return
    if cost:
        costs = [
            (measure(folder), latencies(read_latencies(AttemptIndex(folder.attempts))))
            for folder in folders
        ]
        output.print()
        show(cost_table(costs))
    if ids:
        for one in found.others:
            _print_ids(one, found.baseline)


def _findings(folder: RunFolder, round_: int | None) -> ConstraintFindings:
    findings = read_findings(AttemptIndex(folder.attempts), round_)
    if not len(findings.table):
        raise ConfigError(
            f"The run {folder.name!r} has no scores of base constraints.",
            "Remove --constraints.",
        )
    return findings


def _print_ids(one: Against, baseline: str) -> None:
    lists = {
        f"{one.run}, better than {baseline}": one.better,
        f"{one.run}, worse than {baseline}": one.worse,
    }
    for kind, change in one.constraints.items():
        changes = {"fixed": change.fixed, "broken": change.broken}
        lists |= {f"{one.run}, {what}: {kind}": ids for what, ids in changes.items() if ids}
    for heading, ids in lists.items():
        output.print()
        output.print(inert(f"{heading} ({len(ids):,}):"), style="bold")
        for name in ids:
            output.print(Text("  ") + inert(name), soft_wrap=True)
