"""`harness run --dry-run`: print what a run would do."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

from rich.table import Table
from rich.text import Text

from harness.cli.console import output
from harness.report.text import inert_text
from harness.run.dry_run import DryRun, EstimateRange, estimate_run
from harness.run.job import Job


def show_dry_runs(jobs: Sequence[Job], missing: Sequence[str]) -> None:
    """Print what each job would do after the ones before it; for several jobs, also the total.

    Args:
        jobs: The jobs, in order.
        missing: Secrets that a real run needs and that are not set.
    """
    found: list[DryRun] = []
    made: set[str] = set()
    for job in jobs:
        one = estimate_run(job, made)
        made |= one.calls
        found.append(one)
        show_dry_run(job, one, missing)
    if len(jobs) == 1:
        return
    costs = [one.usd for one in found]
    known = [cost for cost in costs if cost is not None]
    table = Table.grid(padding=(0, 2))
    for name, value in {
        "all": f"{len(jobs):,} runs, one after the other; a shared call is paid once",
        "calls to pay": _spread(sum((one.to_pay for one in found), EstimateRange())),
        "cost": _cost(sum(known, EstimateRange()) if len(known) == len(costs) else None),
    }.items():
        table.add_row(Text(name, style="dim"), Text(value, style="bold"))
    output.print("", table)


def show_dry_run(job: Job, found: DryRun, missing: Sequence[str]) -> None:
    """Print what a job would do.

    Args:
        job: The job.
        found: Its plan.
        missing: Secrets that a real run needs and that are not set.
    """
    run = job.run
    table = Table.grid(padding=(0, 2))
    rows = {
        "run": str(job.folder.path) + (" (continued)" if job.folder.begun() else ""),
        "task": run.task.name,
        "model": f"{run.model.name} by {run.model.backend} {job.model.backend.endpoint}".strip(),
        "instances": f"{found.instances:,}",
        "samples": f"{found.samples:,}, {found.owed_samples:,} of them owed",
        "calls of round 1": f"{len(found.calls):,} distinct, {found.cached:,} of them cached",
        "calls to pay": _spread(found.to_pay),
        "input tokens": f"about {_spread(found.input_tokens)}",
        "output tokens": _spread(found.output_tokens),
        "cost": _cost(found.usd),
    }
    if job.shots is not None:
        lacking = job.shots.lacking
        fewer = f"; fewer for {lacking:,} instances, which lack suitable ones" if lacking else ""
        rows["shots"] = f"{run.task.shots.n:,} before each prompt{fewer}"
    if run.budget.usd is not None:
        usd = run.budget.usd
        rows["budget"] = f"${usd:,.{2 if usd >= 1 else 4}f}: the run ends before it costs more"
    if run.polish:
        rows["polished by"] = (
            f"{run.polish.name}: one more call per prompt and feedback, not counted above"
        )
    if job.judges:
        judges = ", ".join(
            f"{one.name} ({one.model.section.name or one.model.section.backend})"
            for one in job.judges
        )
        rows["judged by"] = (
            f"{judges}: at most {found.judgements:,} judgements, usually one call each, "
            "not counted above"
        )
        from harness.run.judges import judge_warnings  # not imported for a run without judges

        for name, text in judge_warnings(job.task, job.judges, job.instances):
            rows[f"judge {name}"] = text
    failed = found.failed_references
    rows["reference answers"] = (
        f"{found.references - len(failed):,} of {found.references:,} pass"
        + (
            f"; these fail: {', '.join(failed[:5])}{' …' if len(failed) > 5 else ''}"
            if failed
            else ""
        )
    )
    if missing:
        rows["not set"] = f"{', '.join(missing)}: a real run needs it"
    for name, value in rows.items():
        table.add_row(Text(name, style="dim"), Text(value))
    output.print(table)
    for message in found.first or ():
        output.print(Text(f"\nfirst prompt ({message.role}):", style="dim"))
        output.print(inert_text(message.content[:2000]), soft_wrap=True)


def _spread(figure: EstimateRange) -> str:
    if figure.high == inf:
        return f"{figure.low:,.0f} or more: decoding.max_tokens is not set"
    if round(figure.low) == round(figure.high):
        return f"{figure.low:,.0f}"
    return f"{figure.low:,.0f} to {figure.high:,.0f}"


def _cost(usd: EstimateRange | None) -> str:
    if usd is None:
        return "unknown: the model has no price ('harness prices' says how to add one)"
    if usd.high == inf:
        return f"${usd.low:,.4f} or more: decoding.max_tokens is not set"
    if usd.high == 0:
        return "nothing"
    digits = 2 if usd.high >= 1 else 4
    return f"${usd.low:,.{digits}f} to ${usd.high:,.{digits}f}"
