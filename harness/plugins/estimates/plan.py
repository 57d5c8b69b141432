"""Shows dry runs: the plans of runs and their estimated costs."""

from collections.abc import Sequence
from itertools import islice
from math import inf

from rich.text import Text

from harness.analysis.metrics import unanswerable
from harness.config.settings import shown_url
from harness.engine.job import Job
from harness.engine.judges import JudgeModel, judge_warnings
from harness.plugins.estimates.confirm import cost_text
from harness.plugins.estimates.estimate import (
    CallEstimate,
    DryRun,
    EstimateRange,
    estimate_run,
    estimate_waves,
    wave_hours,
)
from harness.ports import Judge, overrides
from harness.report.text import inert_text, usd
from harness.store.runs import run_name
from harness.terminal.console import output, show_facts


def show_dry_runs(jobs: Sequence[Job], missing: Sequence[str], base: str) -> None:
    """Show each run's plan, the ``missing`` secrets and, for several runs, the totals."""
    plans: list[DryRun] = []
    counted: set[str] = set()  # calls of earlier runs
    prompts: list[object] = []  # already shown
    for job in jobs:
        plan = estimate_run(job, counted)
        counted |= plan.calls | plan.judged
        plans.append(plan)
        run = str(job.settings.runs_dir / run_name(base, job.variant.name))
        if job.folder.begun():
            run += " (continued)"
        rows = {"run": run, **_rows(job, plan)}
        if missing:
            rows["not set"] = f"{', '.join(dict.fromkeys(missing))}: needed for a real run"
        show_facts(rows)
        if plan.first not in prompts:
            prompts.append(plan.first)
            for message in plan.first or ():
                output.print(Text(f"\nfirst prompt ({message.role}):", style="dim"))
                output.print(inert_text(message.content[:2000]), soft_wrap=True)
    if len(jobs) > 1:
        output.print()
        show_facts(_totals(jobs, plans), "bold")


def _totals(jobs: Sequence[Job], plans: Sequence[DryRun]) -> dict[str, str]:
    answers = sum((plan.model.calls for plan in plans), EstimateRange())
    judged = sum((plan.judge_calls for plan in plans), EstimateRange())
    played = sum((plan.user.calls for plan in plans if plan.user), EstimateRange())
    at_most = any(plan.at_most for plan in plans)
    costs = [plan.total_usd for plan in plans if plan.total_usd is not None]
    total = sum(costs, EstimateRange()) if len(costs) == len(plans) else None
    rows = {
        "all": f"{len(jobs):,} runs, one after another; a shared call is paid once",
        "calls to pay": _to_pay(answers, played, judged, at_most=at_most),
        "cost": cost_text(total, [model for job in jobs for model in job.models]),
    }
    caps = [cap for job in jobs if (cap := job.run.budget_usd) is not None]
    if len(caps) == len(jobs):
        rows["budget"] = f"{usd(max(caps))} for all: they end before they cost more"
    return rows


def _rows(job: Job, plan: DryRun) -> dict[str, str]:
    run = job.run
    answers = plan.model
    url = shown_url(job.model.backend.endpoint)
    played = plan.user.calls if plan.user else EstimateRange()
    instances = f"{plan.instances:,}"
    if run.limit is not None and plan.instances < run.limit and run.shard is None:
        instances += f": the data have no more (limit: {run.limit:,})"
    rows = {
        "task": run.task.label,
        "model": " ".join(filter(None, (run.model.name, f"({run.model.backend})", url))),
        "instances": instances,
        "samples": f"{plan.samples:,}, {plan.owed_samples:,} of them unfinished",
        "calls of round 1": f"{len(plan.calls):,} distinct, {plan.cached:,} of them cached",
        "calls to pay": _to_pay(answers.calls, played, plan.judge_calls, at_most=plan.at_most),
    }
    if answers.calls.high or len(plan.parts) == 1:
        which = "for answers: " if len(plan.parts) > 1 else ""
        rows["input tokens"] = which + _about(answers.input_tokens)
        rows["output tokens"] = which + _spread(answers.output_tokens)
    if job.shots is not None:
        rows["shots"] = f"{run.task.shots.n:,} before each prompt"
        if lacking := job.shots.lacking:
            rows["shots"] += f"; fewer for {lacking:,} instances, which lack suitable ones"
    if run.part is not None:
        parts = ["instances"]
        if not run.budget.shared:
            parts.append("budget")
        if job.settings.cache_url is None:
            parts.append("rate limits")
        rows["shard"] = f"{run.shard}: its part of {', '.join(parts)}"
    if run.budget_usd is not None:
        rows["budget"] = usd(run.budget_usd) + _budget_note(job)
    if run.polish:
        calls = "one more call per prompt and feedback, not counted above"
        rows["polished by"] = f"{run.polish.name}: {calls}"
    if job.user is not None and plan.user is not None:
        model = job.user.model
        calls = f"{_spread(plan.user.calls, at_most=True)} calls"
        cost = f"cost {cost_text(plan.user.usd, [model])}{_tokens(plan.user)}"
        rows["played user"] = f"{model.section.name or model.section.backend}: {calls}, {cost}"
    for judge in job.judges:
        if overrides(judge.judge, Judge.next_questions):
            rows["calls to pay"] += ", and those that follow from their replies"
        rows[f"judge {judge.name}"] = _judge_calls(judge, plan.judges[judge.name])
    if job.judges:
        for name, text in judge_warnings(job.judges, job.instances):
            rows[f"judge {name}"] = f"{text}\n{rows[f'judge {name}']}"
    cost = cost_text(plan.total_usd, job.models)
    if len(plan.parts) > 1 and plan.total_usd and cost != "nothing":
        cost += f", {cost_text(answers.usd)} of it for the answers"
    rows["cost"] = cost
    if (waves := estimate_waves(job)) is not None:
        several = "s" if waves.high > 1 else ""
        hours = wave_hours(job)
        rows["batches"] = f"{_spread(waves)} wave{several} of up to {hours} hours, at batch prices"
    if (saved := plan.total_saved_usd).high:
        rows["prompt cache"] = f"saves about {cost_text(saved)}; the lower cost includes this"
    if n := job.unanswerable():
        rows["simulated"] = unanswerable(n, plan.instances)
    if plan.references:
        rows["reference answers"] = _references_text(plan)
    return rows


def _budget_note(job: Job) -> str:
    budget = job.run.budget
    if budget.shared:
        return f", shared with the team as {budget.shared!r}"
    n_others = len(job.variant.runs) - 1
    if n_others > 0:
        return f", shared with {n_others:,} other run{'s' if n_others > 1 else ''}"
    return ": the run ends before it costs more"


def _judge_calls(judge: JudgeModel, estimate: CallEstimate) -> str:
    model = judge.model.section
    plural = "" if estimate.calls.high == 1 else "s"
    text = f"{model.name or model.backend}: "
    text += f"{_spread(estimate.calls, at_most=estimate.at_most)} call{plural}"
    if estimate.cached:
        text += f" ({estimate.cached:,} more are cached)"
    if overrides(judge.judge, Judge.next_questions):
        text += " and those that follow from its replies"
    return f"{text}, cost {cost_text(estimate.usd, [judge.model])}{_tokens(estimate)}"


def _references_text(plan: DryRun) -> str:
    failed = plan.failed_references
    text = f"{plan.references - len(failed):,} of {plan.references:,} pass"
    if not failed:
        return text
    reasons = [f"{name} ({reason[:200]})" for name, reason in islice(failed.items(), 5)]
    more = " …" if len(failed) > 5 else ""
    return f"{text}; these fail: {', '.join(reasons)}{more}"


def _to_pay(
    answers: EstimateRange, played: EstimateRange, judged: EstimateRange, *, at_most: bool
) -> str:
    if not (played.high or judged.high):
        return _spread(answers)
    total = answers
    parts = [f"{_spread(answers)} for answers"]
    for name, calls in (("the played user", played), ("judges", judged)):
        if calls.high:
            total += calls
            parts.append(f"{_spread(calls, at_most=at_most)} for {name}")
    return f"{_spread(total, at_most=at_most)}: {', '.join(parts)}"


def _tokens(estimate: CallEstimate) -> str:
    """Return the tokens of the calls of a judge or played user as text, or "" without calls."""
    if not estimate.calls.high:
        return ""
    output_tokens = _spread(estimate.output_tokens, at_most=estimate.at_most)
    return f"; input tokens {_about(estimate.input_tokens)}, output tokens {output_tokens}"


def _about(tokens: EstimateRange) -> str:
    return f"about {_spread(tokens)}".replace("about unknown", "unknown")


def _spread(figure: EstimateRange, *, at_most: bool = False) -> str:
    if at_most:
        return f"at most {figure.high:,.0f}"
    low = f"{figure.low:,.0f}"
    if figure.high == inf:  # low is 0 if all calls are of rounds that depend on earlier replies
        lower = f"{low} or more" if figure.low else "unknown"
        return f"{lower}: decoding.max_tokens is not set"
    high = f"{figure.high:,.0f}"
    return low if low == high else f"{low} to {high}"
