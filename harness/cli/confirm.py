"""Prints the estimated cost of runs, and asks for confirmation if it may exceed a limit."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from math import inf
from typing import TYPE_CHECKING

from harness.cli.options import agreed
from harness.config.prices import FREE
from harness.config.settings import Settings
from harness.engine.job import Job
from harness.engine.models import Model
from harness.errors import UserError
from harness.records import Usage
from harness.report.text import usd
from harness.terminal.console import say

if TYPE_CHECKING:
    from harness.engine.dry_run import EstimateRange

ASSUMED_TOKENS = 1_000  # of an answer whose length is not limited, to decide whether to ask
OWN_HOSTS = ("", "localhost", "127.0.0.1", "::1")


def confirm_cost(jobs: Sequence[Job], settings: Settings, yes: bool) -> None:
    """Print the estimated cost of the runs that are not free, and ask whether to continue.

    The user is asked only if the cost may exceed ``HARNESS_ASK_ABOVE_USD``, and never with ``yes``
    or without a terminal. Runs that have begun are left out, unless they now have more samples or
    rounds.
    """
    _say_unknown([model for job in jobs for model in _asked(job)])
    priced = [job for job in jobs if any(m.price not in (None, FREE) for m in _asked(job))]
    paid = [job for job in priced if not _confirmed(job)]
    if not paid:
        return
    from harness.engine.dry_run import (
        EstimateRange,  # not for a free run
        estimate_run,
    )

    total, most, made = EstimateRange(), 0.0, set[str]()
    for job in paid:
        found = estimate_run(job, made, references=False)
        made |= found.calls | found.judged
        calls = found.parts
        costs = [one.usd or EstimateRange() for one in calls]
        total = sum(costs, total)
        parts = zip(_asked(job), costs, calls, strict=True)
        own = sum(_at_most(model, usd, one.calls.high) for model, usd, one in parts)
        most = _capped(most, own, job.run.budget_usd or inf)
    if most:
        judged = ", judges included" * any(job.judges for job in jobs)
        cap = max(job.run.budget_usd or inf for job in paid)
        say(f"Estimated cost{judged}: {cost_text(total)}{_ended_by(cap, total)}")
        _ask(most, settings, yes)


def _capped(before: float, more: float, cap: float) -> float:
    """Add a run's cost to that of earlier runs, up to their common budget (US dollars)."""
    return max(before, min(before + more, cap))


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
    if most := min(cap, _at_most(model, cost, calls)):
        say(f"Estimated cost of {calls:,} calls: {cost_text(cost)}{_ended_by(cap, cost)}")
        _ask(most, settings, yes)


def _asked(job: Job) -> list[Model]:
    return [one for one in job.models if one.where != "polish"]


def _say_unknown(models: Sequence[Model]) -> None:
    if names := unpriced(model for model in models if model.host not in OWN_HOSTS):
        say(
            f"The price of {names} is unknown, so there is no estimate. You may set it later and "
            "run again: the cost of recorded calls is then computed (harness docs prices)."
        )


def unpriced(models: Iterable[Model]) -> str:
    """Return the names of the models without a price, each with its section's key, or ""."""
    names = [f"{one.section.name} ({one.where})" for one in models if one.usual_price is None]
    return ", ".join(dict.fromkeys(names))


def _ask(most: float, settings: Settings, yes: bool) -> None:
    if most <= settings.ask_above_usd or yes or not sys.stdin.isatty():
        return
    if not agreed("Continue?"):
        remedy = "Answer y, use --yes, or set HARNESS_ASK_ABOVE_USD to a higher bound."
        raise UserError("Nothing was run.", remedy)


def _at_most(model: Model, cost: EstimateRange, calls: float) -> float:
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
    low, high = usd(cost.low), usd(cost.high)
    return (low if low == high else f"{low} to {high}") if cost.high else "nothing"
