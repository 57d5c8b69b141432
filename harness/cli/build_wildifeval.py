"""`harness build wildifeval`: a data set of constrained tasks from your own chat logs."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from harness.builders.wildifeval import TASKS
from harness.builders.wildifeval.pipeline import StageEstimate
from harness.cli.console import ExactOutput, output, say, write
from harness.cli.live import Display, attended, early_end
from harness.cli.options import Out, Report
from harness.config.curation import load_curation
from harness.config.settings import Settings
from harness.report.text import inert, usd
from harness.run.curation import (
    CurationJob,
    curate,
    estimate_curation,
    prepare_curation,
    stage_names,
)
from harness.run.models import Resources

LIKELY = 0.5
"""From this probability on, a model says yes rather than no."""


def wildifeval(
    chats: Annotated[
        list[Path],
        typer.Option("--from", metavar="FILE", help="A chat log as JSONL; repeatable."),
    ],
    out: Out,
    config: Annotated[
        Path | None, typer.Option(metavar="FILE", help="A curation file with models and settings.")
    ] = None,
    overrides: Annotated[
        list[str] | None,
        typer.Option("-o", metavar="KEY=VALUE", help="Set a key of the curation file; repeatable."),
    ] = None,
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run", help="Print the calls and their estimated cost without making any."
        ),
    ] = False,
    report: Report = False,
) -> None:
    """Build a data set in WildIFEval's format from the first messages of chats.

    Run it again to resume an interrupted build. Exit codes: 0 finished, 1 an error or failed
    calls, 3 the budget is spent, 130 interrupted.
    """
    curation = load_curation(config, overrides or [])
    job = prepare_curation(curation, chats, out, Resources(Settings()))
    if dry_run:
        _show(job, estimate_curation(job, say))
        return
    again = shlex.join(["harness", *sys.argv[1:]])
    display = Display({name: name for name in stage_names(curation)})
    try:
        with display:
            end = attended(curate(job, display.watch, say), display, again)
    finally:
        for stage, tally in display.tallies.items():
            say(f"{stage}: {tally.calls:,} calls, {tally.cached:,} from the cache")
    if end.built is None:
        raise typer.Exit(early_end(end.ended, end.budget, "budget.usd (-o budget.usd=…)", again))
    if report:
        ExactOutput().write(end.built.report)
    for step in end.built.facts["steps"]:
        gone = ", ".join(f"{n:,} {reason}" for reason, n in step["removed"].items()) or "none"
        say(f"{step['name']}: {step['left']:,} of {step['before']:,} left ({gone} removed)")
    if (mark := end.built.facts["mark"]) < LIKELY:
        say(
            f"filter.keep={curation.filter.keep} keeps tasks down to a probability of "
            f"{mark:.2f}; set a lower share to keep only those the model is sure of."
        )
    if end.built.facts["simulated"]:
        say("The models were simulated: these are not real data.")
    say(f"{end.built.instances:,} tasks in {job.out}")
    say(f"To run them: task.dataset={job.out / TASKS}")


def _show(job: CurationJob, stages: Sequence[StageEstimate]) -> None:
    """Print the calls of each stage."""
    table = Table("stage", "model")
    for head in ("max. calls", "tokens in (est.)", "tokens out (est.)", "cost (est.)"):
        table.add_column(head, justify="right")
    costs = []
    for one in stages:
        model, usage = job.models[one.stage], one.usage
        cost = model.price.cost(usage) if model.price else None
        costs.append(cost)
        numbers = (f"{n:,}" for n in (one.calls, usage.input_tokens, usage.output_tokens))
        table.add_row(one.stage, inert(model.section.name or "-"), *numbers, usd(cost))
    output.print(table)
    known = [cost for cost in costs if cost is not None]
    whole = usd(sum(known) if len(known) == len(costs) else None)
    calls = sum(one.calls for one in stages)
    write(
        f"At most {calls:,} calls, about {whole}: an upper bound, as if no stage removed "
        "a task and nothing were cached."
    )
