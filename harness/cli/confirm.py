"""Prints what a run may cost, and asks before it costs more than a bound."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from math import inf
from typing import TYPE_CHECKING

from harness.cli.console import agreed, say
from harness.config.settings import Settings
from harness.errors import UserError
from harness.records import Usage
from harness.report.text import usd
from harness.run.job import Job
from harness.run.models import FREE

if TYPE_CHECKING:
    from harness.run.dry_run import EstimateRange

ASSUMED_TOKENS = 1_000  # of an answer whose length is not limited, to decide whether to ask
OWN_HOSTS = ("", "localhost", "127.0.0.1", "::1")


def confirm_cost(jobs: Sequence[Job], settings: Settings, yes: bool) -> None:
    """Print the estimated cost of paid runs; ask if it may exceed ``HARNESS_ASK_ABOVE_USD``.

    Runs that have begun are not asked about again, unless they have grown. Nothing is asked with
    ``yes``, or without a terminal. Raises UserError if the answer is no.
    """
    unknown = {
        job.model.section.name
        for job in jobs
        if job.model.price is None and job.model.host not in OWN_HOSTS
    }
    if unknown:
        names = ", ".join(sorted(map(str, unknown)))
        say(f"The price of {names} is unknown, so there is no estimate (docs/prices.md).")
    paid = [job for job in jobs if job.model.price not in (None, FREE) and not _confirmed(job)]
    if not paid:
        return
    from harness.run.dry_run import EstimateRange, estimate_run  # not needed for a free run

    total, most, made = EstimateRange(), 0.0, set[str]()
    for job in paid:
        found = estimate_run(job, made, references=False)
        made |= found.calls
        cost, cap = found.usd or EstimateRange(), job.run.budget.usd or inf
        total += EstimateRange(min(cost.low, cap), min(cost.high, cap))
        most += min(cap, _at_most(job, cost, found.to_pay.high))
    if not most:
        return
    judged = ", without judges" * any(job.judges for job in jobs)
    say(f"Estimated cost{judged}: {cost_text(total)}")
    if most <= settings.ask_above_usd or yes or not sys.stdin.isatty():
        return
    if not agreed("Continue?"):
        remedy = "Answer y, use --yes, or set HARNESS_ASK_ABOVE_USD to a higher bound."
        raise UserError("Nothing was run.", remedy)


def _at_most(job: Job, cost: EstimateRange, calls: float) -> float:
    if cost.high < inf or job.model.price is None:
        return cost.high
    return cost.low + calls * job.model.price.cost(Usage(0, ASSUMED_TOKENS))


def _confirmed(job: Job) -> bool:
    """Return whether the run has begun with at least as many samples and rounds as now."""
    if not job.folder.begun():
        return False
    planned = job.folder.progress()[1] or 0
    rounds = job.folder.read_config().rounds.max
    return job.plan().count()[0] <= planned and job.run.rounds.max <= rounds


def cost_text(cost: EstimateRange | None) -> str:
    """Return an estimated cost as text, or why it is unknown (None) or has no upper bound."""
    if cost is None:
        return "unknown: the model has no price ('harness prices' says how to add one)"
    if cost.high == inf:
        return f"{usd(cost.low)} or more: decoding.max_tokens is not set"
    low, high = usd(cost.low), usd(cost.high)
    return (low if low == high else f"{low} to {high}") if cost.high else "nothing"
