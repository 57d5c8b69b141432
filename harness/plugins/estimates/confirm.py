"""What is shown before runs start: their plans in a dry run, or their cost, with a question."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from math import inf

from rich.text import Text

from harness.analysis.metrics import unanswerable_note
from harness.cli.options import ask_yes_no
from harness.config.prices import FREE
from harness.config.settings import Settings, mask_url_keys
from harness.engine.job import Job
from harness.engine.judges import JudgeModel, judge_warnings
from harness.engine.models import Model
from harness.errors import HarnessError, UserError
from harness.plugins.estimates.estimate import (
    CallEstimate,
    DryRun,
    EstimateRange,
    assessed_references,
    estimate_run,
    estimate_waves,
    wave_hours,
)
from harness.ports import Judge, overrides_method
from harness.records import Usage
from harness.report.text import escape_text, format_usd
from harness.store.runs import run_name
from harness.terminal.console import output, print_facts, say

ASSUMED_TOKENS = 1_000  # of an answer whose length is not limited, to decide whether to ask
MOST_REFERENCES = 100  # reference answers that are scored before a run starts
OWN_HOSTS = ("", "localhost", "127.0.0.1", "::1")


def confirm_runs(jobs: Sequence[Job], settings: Settings, yes: bool) -> None:
    """Warn about checks that correct answers may fail, and ask whether to pay for the runs."""
    _say_failing_references(jobs)
    confirm_cost(jobs, settings, yes)


def _say_failing_references(jobs: Iterable[Job]) -> None:
    """Warn about runs with calls to make in which no reference answer passes the user's checks.

    Targets of lm-eval's tasks need not have the form that its filters read.
    """
    for job in jobs:
        if "checks" not in job.run.task.options or not job.has_calls_left():
            continue
        with suppress(HarnessError):  # of a check that accepts no text but the model's
            if n := _count_failing_references(job):
                say(
                    f"{job.folder.name}: 0 of {n:,} reference answers pass, so correct answers "
                    "may fail, too. To see why: add --dry-run",
                    "yellow",
                )


def _count_failing_references(job: Job) -> int:
    """Return how many reference answers were looked at, or 0 if one of them passes."""
    failing = []
    for name, assessment in islice(assessed_references(job.task, job.instances), MOST_REFERENCES):
        if assessment.passed is not False:
            return 0
        failing.append(name)
    return len(failing)


def confirm_cost(jobs: Sequence[Job], settings: Settings, yes: bool) -> None:
    """Print the estimated cost of the runs that are not free, and ask whether to continue.

    The user is asked only if the cost may exceed ``HARNESS_ASK_ABOVE_USD``, and never with ``yes``
    or without a terminal. Runs that have begun are left out, unless they now have more samples or
    rounds.
    """
    called: list[Model] = []
    paid = []
    for job in jobs:
        called += _called_models(job)
        if _is_paid(job) and not _confirmed(job):
            paid.append(job)
    _say_unknown(called)
    if not paid:
        return
    total = EstimateRange()
    upper = 0.0  # on the cost in US dollars
    counted = set[str]()  # calls of earlier runs
    for job in paid:
        estimate = estimate_run(job, counted, references=False)
        counted |= estimate.calls | estimate.judged
        job_upper = 0.0
        for model, part in zip(_called_models(job), estimate.parts, strict=True):
            cost = part.usd or EstimateRange()
            total += cost
            job_upper += _upper_cost(model, cost, part.calls.high)
        # The runs may share a budget.
        upper = max(upper, min(upper + job_upper, job.run.budget_usd or inf))
    if upper:
        judged = ", judges included" if any(job.judges for job in jobs) else ""
        cap = max(job.run.budget_usd or inf for job in paid)
        say(f"Estimated cost{judged}: {cost_text(total)}{_ended_by(cap, total)}")
        _ask(upper, settings, yes)


def _is_paid(job: Job) -> bool:
    return any(model.price not in (None, FREE) for model in _called_models(job))


def _ended_by(cap: float, cost: EstimateRange) -> str:
    """Return a note that a budget (US dollars) may not suffice, or ""."""
    enough = cost.high <= cap
    return (
        "" if enough else f". The budget of {format_usd(cap)} ends the work before it costs more."
    )


def confirm_calls(
    model: Model,
    estimate: Callable[[], tuple[int, EstimateRange]],
    budget_usd: float | None,
    settings: Settings,
    yes: bool,
) -> None:
    """Print the estimated cost of a model's calls, and ask as `confirm_cost` does.

    Args:
        model: The model. A free one needs no estimate.
        estimate: Returns the number of calls and their cost in US dollars.
        budget_usd: What the calls may cost at most, or None.
        settings: The settings with the cost above which to ask.
        yes: Do not ask.
    """
    _say_unknown([model])
    if model.price in (None, FREE):
        return
    calls, cost = estimate()
    cap = inf if budget_usd is None else budget_usd
    if upper := min(cap, _upper_cost(model, cost, calls)):
        say(f"Estimated cost of {calls:,} calls: {cost_text(cost)}{_ended_by(cap, cost)}")
        _ask(upper, settings, yes)


def _called_models(job: Job) -> list[Model]:
    return [model for model in job.models if model.where != "polish"]


def _say_unknown(models: Sequence[Model]) -> None:
    if names := unpriced(model for model in models if model.host not in OWN_HOSTS):
        say(
            f"The price of {names} is unknown, so there is no estimate. You may set it later and "
            "run again: the cost of recorded calls is then computed (harness docs prices)."
        )


def unpriced(models: Iterable[Model]) -> str:
    """Return the names of the models without a price, each with its section's key, or ""."""
    names = [f"{m.section.name} ({m.where})" for m in models if m.usual_price is None]
    return ", ".join(dict.fromkeys(names))


def _ask(upper: float, settings: Settings, yes: bool) -> None:
    if upper <= settings.ask_above_usd or yes or not sys.stdin.isatty():
        return
    if not ask_yes_no("Continue?"):
        remedy = "Answer y, use --yes, or set HARNESS_ASK_ABOVE_USD to a higher bound."
        raise UserError("Nothing was run.", remedy)


def _upper_cost(model: Model, cost: EstimateRange, calls: float) -> float:
    if cost.high < inf or model.price is None:
        return cost.high
    price = model.usual_price or model.price
    return cost.low + calls * price.cost(Usage(0, ASSUMED_TOKENS))


def _confirmed(job: Job) -> bool:
    """Return whether the run has already begun, with at least as many samples and rounds as now."""
    if not job.folder.has_attempts():
        return False
    planned = job.folder.progress()[1] or 0
    rounds = job.folder.read_config().rounds.max
    return job.plan().count_samples()[0] <= planned and job.run.rounds.max <= rounds


def cost_text(cost: EstimateRange | None, models: Iterable[Model] = ()) -> str:
    """Format the cost of calls (US dollars), or say why it is unknown or has no upper bound."""
    if cost is None:
        lacking = f"no price for {unpriced(models)}"
        return f"unknown: {lacking} ('harness prices' says how to add one)"
    if cost.high == inf:
        return f"{format_usd(cost.low)} or more: decoding.max_tokens is not set"
    if not cost.high:
        return "nothing"
    low = format_usd(cost.low)
    high = format_usd(cost.high)
    return low if low == high else f"{low} to {high}"


def show_dry_runs(jobs: Sequence[Job], missing: Sequence[str], base: str) -> None:
    """Show each run's plan, the ``missing`` secrets and, for several runs, the totals.

    What holds for all of several runs is shown once, before the first.
    """
    plans: list[DryRun] = []
    counted: set[str] = set()  # calls of earlier runs
    for job in jobs:
        plan = estimate_run(job, counted)
        counted |= plan.calls | plan.judged
        plans.append(plan)
    facts = [_rows(job, plan) for job, plan in zip(jobs, plans, strict=True)]
    if missing:
        for rows in facts:
            rows["not set"] = f"{', '.join(dict.fromkeys(missing))}: needed for a real run"
    common = _common(facts) if len(jobs) > 1 else {}
    if common:
        print_facts({"runs": f"{len(jobs):,}, each with", **common})
        output.print()
    prompts: list[object] = []  # already shown
    for job, plan, rows in zip(jobs, plans, facts, strict=True):
        run = str(job.settings.runs_dir / run_name(base, job.variant.name))
        if job.folder.has_attempts():
            run += " (continued)"
        own_rows = {name: text for name, text in rows.items() if name not in common}
        print_facts({"run": run, **own_rows})
        if plan.first not in prompts:
            prompts.append(plan.first)
            for message in plan.first or ():
                output.print(Text(f"\nfirst prompt ({message.role}):", style="dim"))
                output.print(escape_text(message.content[:2000]), soft_wrap=True)
        if len(jobs) > 1:
            output.print()
    if len(jobs) > 1:
        print_facts(_totals(jobs, plans), "bold")


def _common(facts: Sequence[Mapping[str, str]]) -> dict[str, str]:
    """Return the facts that all runs have in common."""
    first, *others = facts
    common = {}
    for name, text in first.items():
        if all(rows.get(name) == text for rows in others):
            common[name] = text
    return common


def _totals(jobs: Sequence[Job], plans: Sequence[DryRun]) -> dict[str, str]:
    answers = EstimateRange()
    judged = EstimateRange()
    played = EstimateRange()
    total: EstimateRange | None = EstimateRange()
    models: list[Model] = []
    caps = []
    for job, plan in zip(jobs, plans, strict=True):
        answers += plan.model.calls
        judged += plan.judge_calls
        if plan.user is not None:
            played += plan.user.calls
        cost = plan.total_usd
        total = None if total is None or cost is None else total + cost
        models += job.models
        if job.run.budget_usd is not None:
            caps.append(job.run.budget_usd)
    at_most = any(plan.at_most for plan in plans)
    rows = {
        "all": f"{len(jobs):,} runs, one after another; a shared call is paid once",
        "calls to pay": _to_pay(answers, played, judged, at_most=at_most),
        "cost": cost_text(total, models),
    }
    if len(caps) == len(jobs):
        rows["budget"] = f"{format_usd(max(caps))} for all: they end before they cost more"
    return rows


def _rows(job: Job, plan: DryRun) -> dict[str, str]:
    run = job.run
    answers = plan.model
    url = mask_url_keys(job.model.backend.endpoint)
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
    if run.parsed_shard is not None:
        parts = ["instances"]
        if not run.budget.shared:
            parts.append("budget")
        if job.settings.cache_url is None:
            parts.append("rate limits")
        rows["shard"] = f"{run.shard}: its part of {', '.join(parts)}"
    if run.budget_usd is not None:
        rows["budget"] = format_usd(run.budget_usd) + _budget_note(job)
    if run.polish:
        calls = "one more call per prompt and feedback, not counted above"
        rows["polished by"] = f"{run.polish.name}: {calls}"
    if job.user is not None and plan.user is not None:
        model = job.user.model
        calls = f"{_spread(plan.user.calls, at_most=True)} calls"
        cost = f"cost {cost_text(plan.user.usd, [model])}{_tokens(plan.user)}"
        rows["played user"] = f"{model.section.name or model.section.backend}: {calls}, {cost}"
    for judge in job.judges:
        if overrides_method(judge.judge, Judge.next_questions):
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
    if n := job.count_unanswerable():
        rows["simulated"] = unanswerable_note(n, plan.instances)
    if plan.references:
        rows["reference answers"] = _references_text(plan)
    return rows


def _budget_note(job: Job) -> str:
    budget = job.run.budget
    if budget.shared:
        return f", shared with the team as {budget.shared!r}"
    n_others = len(job.variant.run_names) - 1
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
    if overrides_method(judge.judge, Judge.next_questions):
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
