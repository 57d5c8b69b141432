"""`harness run --dry-run`: print what a run would do."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

from rich.text import Text

from harness.cli.console import output, show_facts
from harness.report.text import inert_text, usd
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
        rows = _rows(job, one)
        if missing:
            rows["not set"] = f"{', '.join(missing)}: a real run needs it"
        show_facts(rows)
        for message in one.first or ():
            output.print(Text(f"\nfirst prompt ({message.role}):", style="dim"))
            output.print(inert_text(message.content[:2000]), soft_wrap=True)
    if len(jobs) > 1:
        known = [one.usd for one in found if one.usd is not None]
        rows = {
            "all": f"{len(jobs):,} runs, one after another; a shared call is paid once",
            "calls to pay": _spread(sum((one.to_pay for one in found), EstimateRange())),
            "cost": _cost(sum(known, EstimateRange()) if len(known) == len(found) else None),
        }
        output.print()
        show_facts(rows, "bold")


def _rows(job: Job, found: DryRun) -> dict[str, str]:
    run = job.run
    rows = {
        "run": str(job.folder.path) + (" (continued)" if job.folder.begun() else ""),
        "task": run.task.name,
        "model": f"{run.model.name} by {run.model.backend} {job.model.backend.endpoint}".strip(),
        "instances": f"{found.instances:,}",
        "samples": f"{found.samples:,}, {found.owed_samples:,} of them to do",
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
        rows["budget"] = f"{usd(run.budget.usd)}: the run ends before it costs more"
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
    more = " …" if len(failed) > 5 else ""
    rows["reference answers"] = (
        f"{found.references - len(failed):,} of {found.references:,} pass"
        f"{'; these fail: ' if failed else ''}{', '.join(failed[:5])}{more}"
    )
    return rows


def _spread(figure: EstimateRange) -> str:
    if figure.high == inf:
        return f"{figure.low:,.0f} or more: decoding.max_tokens is not set"
    low, high = f"{figure.low:,.0f}", f"{figure.high:,.0f}"
    return low if low == high else f"{low} to {high}"


def _cost(cost: EstimateRange | None) -> str:
    if cost is None:
        return "unknown: the model has no price ('harness prices' says how to add one)"
    if cost.high == inf:
        return f"{usd(cost.low)} or more: decoding.max_tokens is not set"
    return f"{usd(cost.low)} to {usd(cost.high)}" if cost.high else "nothing"
