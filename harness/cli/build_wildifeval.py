"""`harness build wildifeval`: a data set of constrained tasks from your own chat logs."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from harness.builders.wildifeval import TASKS
from harness.builders.wildifeval.dry_run import StageEstimate
from harness.calls.signals import Notices, Stop
from harness.cli.console import messages, output
from harness.cli.interrupt import interruptible
from harness.cli.live import Display
from harness.config.curation import load_curation
from harness.config.settings import Settings
from harness.report.text import inert, inert_text
from harness.run.curation import (
    CurationEnd,
    CurationJob,
    curate,
    estimate_curation,
    prepare_curation,
    stage_names,
)
from harness.run.models import Resources
from harness.run.pool import Tally

BUDGET_SPENT = 3
INTERRUPTED = 130

LIKELY = 0.5
"""The probability from which a model says yes rather than no."""


def wildifeval(
    chats: Annotated[
        list[Path],
        typer.Option("--from", metavar="FILE", help="A chat log as JSONL; repeatable."),
    ],
    out: Annotated[Path, typer.Option(help="Output folder.")],
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
    report: Annotated[bool, typer.Option("--report", help="Also print the report.")] = False,
) -> None:
    """Build a data set in WildIFEval's format from the first messages of chats.

    Repeat the command to resume an interrupted build. Exit codes: 0 finished, 1 an error or failed
    calls, 3 the budget is spent, 130 interrupted.
    """
    curation = load_curation(config, overrides or [])
    job = prepare_curation(curation, chats, out, Resources(Settings()))

    def told(said: str) -> None:
        messages.print(inert_text(said), soft_wrap=True)

    if dry_run:
        _show(job, estimate_curation(job, told))
        return
    raise typer.Exit(_build(job, report, told))


def _build(job: CurationJob, report: bool, told: Callable[[str], None]) -> int:
    """Build, and return the exit code."""
    asked: list[str] = []

    @contextlib.contextmanager
    def watch(stage: str, tally: Tally, stop: Stop, notices: Notices) -> Iterator[None]:
        with interruptible(stop.request), display.watch(stage, tally, stop, notices):
            try:
                yield
            finally:
                asked.append(f"{stage}: {tally.calls:,} calls, {tally.cached:,} from the cache")

    try:
        names = [str(name) for name in stage_names(job.curation)]
        with Display(dict(zip(names, names, strict=True)), messages) as display:
            end = asyncio.run(curate(job, watch, told))
    except (asyncio.CancelledError, KeyboardInterrupt):
        told("Stopped. Repeat the command to resume.")
        return INTERRUPTED
    finally:
        for line in asked:
            told(line)
    if end.built is None:
        return _unfinished(end, told)
    if report:
        sys.stdout.write(end.built.report)
    for step in end.built.facts["steps"]:
        gone = ", ".join(f"{n:,} {reason}" for reason, n in step["removed"].items()) or "none"
        told(f"{step['name']}: {step['left']:,} of {step['before']:,} left ({gone} removed)")
    if (mark := end.built.facts["mark"]) < LIKELY:
        told(
            f"filter.keep={job.curation.filter.keep} keeps tasks down to a probability of "
            f"{mark:.2f}; "
            "set a lower share to keep only those the model is sure of."
        )
    if end.built.facts["simulated"]:
        told("The models were simulated: these are not real data.")
    told(f"{end.built.tasks:,} tasks in {job.out}")
    told(f"To run them: task.dataset={job.out / TASKS}")
    return 0


def _unfinished(end: CurationEnd, told: Callable[[str], None]) -> int:
    """Report why the build is unfinished, and return the exit code."""
    if end.ended == "budget" and end.budget is not None:
        told(
            f"The budget of ${end.budget.usd:,.4f} cannot pay for the next call, which may cost "
            f"${end.budget.wanted:,.4f}: ${end.budget.spent:,.4f} was spent. Raise it "
            "(-o budget.usd=…) and repeat the command to resume."
        )
        return BUDGET_SPENT
    told("Interrupted. Repeat the command to resume.")
    return INTERRUPTED


def _show(job: CurationJob, stages: Sequence[StageEstimate]) -> None:
    """Print the calls of each stage."""
    table = Table("stage", "model")
    for head in ("max. calls", "tokens in (est.)", "tokens out (est.)", "US dollars (est.)"):
        table.add_column(head, justify="right")
    costs = []
    for one in stages:
        model, usage = job.models[one.stage], one.usage
        usd = model.price.cost(usage) if model.price else None
        costs.append(usd)
        numbers = (f"{n:,}" for n in (one.calls, usage.input_tokens, usage.output_tokens))
        cost = "unknown" if usd is None else f"{usd:,.4f}"
        table.add_row(one.stage, inert(model.section.name or "-"), *numbers, cost)
    output.print(table)
    known = [cost for cost in costs if cost is not None]
    whole = f"${sum(known):,.4f}" if len(known) == len(costs) else "unknown"
    calls = sum(one.calls for one in stages)
    output.print(
        Text(
            f"At most {calls:,} calls, about {whole}: an upper bound, as if no stage removed "
            "a task and nothing were cached."
        ),
        soft_wrap=True,
    )
