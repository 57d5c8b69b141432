"""What happens before a run starts: its cost is estimated, and a question asked if it is high."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from itertools import islice
from math import inf

from harness.cli.options import agreed
from harness.config.prices import FREE
from harness.config.settings import Settings
from harness.engine.job import Job
from harness.engine.models import Model
from harness.errors import HarnessError, UserError
from harness.plugins.estimates.estimate import (
    EstimateRange,
    assessed_references,
    estimate_run,
)
from harness.records import Usage
from harness.report.text import usd
from harness.terminal.console import say

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
    _say_unknown([model for job in jobs for model in _called_models(job)])
    paid = [job for job in jobs if _is_paid(job) and not _confirmed(job)]
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
    return "" if enough else f". The budget of {usd(cap)} ends the work before it costs more."


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
    if not agreed("Continue?"):
        remedy = "Answer y, use --yes, or set HARNESS_ASK_ABOVE_USD to a higher bound."
        raise UserError("Nothing was run.", remedy)


def _upper_cost(model: Model, cost: EstimateRange, calls: float) -> float:
    if cost.high < inf or model.price is None:
        return cost.high
    price = model.usual_price or model.price
    return cost.low + calls * price.cost(Usage(0, ASSUMED_TOKENS))


def _confirmed(job: Job) -> bool:
    """Return whether the run has already begun, with at least as many samples and rounds as now."""
    if not job.folder.begun():
        return False
    planned = job.folder.progress()[1] or 0
    rounds = job.folder.read_config().rounds.max
    return job.plan().count()[0] <= planned and job.run.rounds.max <= rounds


def cost_text(cost: EstimateRange | None, models: Iterable[Model] = ()) -> str:
    """Format the cost of calls (US dollars), or say why it is unknown or has no upper bound."""
    if cost is None:
        lacking = f"no price for {unpriced(models)}"
        return f"unknown: {lacking} ('harness prices' says how to add one)"
    if cost.high == inf:
        return f"{usd(cost.low)} or more: decoding.max_tokens is not set"
    if not cost.high:
        return "nothing"
    low = usd(cost.low)
    high = usd(cost.high)
    return low if low == high else f"{low} to {high}"
