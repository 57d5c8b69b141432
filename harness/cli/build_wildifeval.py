"""`harness build wildifeval`: a data set of constrained tasks from one's own chat logs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from harness.builders.wildifeval.dry_run import StageEstimate
    from harness.run.curation import CurationEnd, CurationJob

BUDGET_SPENT = 3
INTERRUPTED = 130

LIKELY = 0.5
"""The probability from which on a model says yes rather than no."""


def wildifeval(
    chats: Annotated[
        list[Path],
        typer.Option("--from", metavar="FILE", help="A chat log as JSONL; repeatable."),
    ],
    out: Annotated[Path, typer.Option(help="The folder to make.")],
    config: Annotated[
        Path | None, typer.Option(metavar="FILE", help="A curation file: models and settings.")
    ] = None,
    overrides: Annotated[
        list[str] | None,
        typer.Option("-o", metavar="KEY=VALUE", help="A key of the curation file; repeatable."),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only say what would be asked, and what it costs.")
    ] = False,
    report: Annotated[
        bool, typer.Option("--report", help="Print the report, which is written in any case.")
    ] = False,
) -> None:
    """Make a data set in WildIFEval's form from the first messages of chats.

    A build that was cut off goes on where it was: the same command. 0: done. 1: a mistake, or
    calls failed. 3: the budget is spent. 130: interrupted.
    """
    from harness.cli.console import messages
    from harness.config.curation import load_curation
    from harness.config.settings import Settings
    from harness.report.text import inert_text
    from harness.run import Resources
    from harness.run.curation import estimate_curation, prepare_curation

    curation = load_curation(config, overrides or [])
    job = prepare_curation(curation, chats, out, Resources(Settings()))

    def told(said: str) -> None:
        messages.print(inert_text(said), soft_wrap=True)

    if dry_run:
        _show(job, estimate_curation(job, told))
        return
    raise typer.Exit(_build(job, report, told))


def _build(job: CurationJob, report: bool, told: Callable[[str], None]) -> int:
    """Build; the exit code."""
    import asyncio
    import contextlib
    import sys
    from collections.abc import Iterator

    from harness.builders.wildifeval import TASKS
    from harness.calls.signals import Notices, Stop
    from harness.cli.console import messages
    from harness.cli.interrupt import interruptible
    from harness.cli.live import Display
    from harness.run.curation import curate, stage_names
    from harness.run.pool import Tally

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
        told("Stopped. The same command goes on.")
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
        told(f"{step['name']}: {step['left']:,} of {step['before']:,} left ({gone} left out)")
    if (mark := end.built.facts["mark"]) < LIKELY:
        told(
            f"filter.keep={job.curation.filter.keep} keeps more than the model finds: down to a "
            f"probability of yes of {mark:.2f}. A lower one keeps the surest."
        )
    if end.built.facts["simulated"]:
        told("The models were simulated: this is no data.")
    told(f"{end.built.tasks:,} tasks in {job.out}")
    told(f"Run them with task.dataset={job.out / TASKS}")
    return 0


def _unfinished(end: CurationEnd, told: Callable[[str], None]) -> int:
    """Say why there is nothing yet; the exit code."""
    if end.ended == "budget" and end.budget is not None:
        told(
            f"The budget of ${end.budget.usd:,.4f} cannot pay for the next call, which may cost "
            f"${end.budget.wanted:,.4f}: ${end.budget.spent:,.4f} are spent. Raise it "
            "(-o budget.usd=…); the same command then goes on."
        )
        return BUDGET_SPENT
    told("Interrupted. The same command goes on.")
    return INTERRUPTED


def _show(job: CurationJob, stages: Sequence[StageEstimate]) -> None:
    """Print what each stage would ask."""
    from rich.table import Table
    from rich.text import Text

    from harness.cli.console import output
    from harness.report.text import inert

    table = Table("stage", "model")
    for head in ("calls at most", "tokens in, about", "tokens out, about", "US dollars, about"):
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
            f"{calls:,} calls at most, about {whole}: as if every later stage lost no task, and "
            "nothing had been asked before."
        ),
        soft_wrap=True,
    )
