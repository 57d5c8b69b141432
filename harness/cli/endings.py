"""How a command that runs something ends: its exit code, and what to do next."""

import asyncio
import re
from collections.abc import Coroutine
from typing import Any, TypeVar

import typer

from harness.calls.budget import Budget
from harness.engine.progress import Ending, Tally
from harness.errors import HarnessError
from harness.report.text import usd
from harness.terminal.console import say
from harness.terminal.display import Display, exact_usd

T = TypeVar("T")

BUDGET_SPENT = 3  # exit code
INTERRUPTED = 130  # exit code after Ctrl-C
MANY = 10  # a judge gets a warning if one in this many judgements has no verdict
REASONING = "for a reasoning model, such as 2000, and votes: 5 in yes_no"


def attended(work: Coroutine[Any, Any, T], display: Display, command: str) -> T:
    """Do a command's work, and return its result.

    ``command``, which resumes the work, is printed if the work is interrupted, or fails after a
    run has begun. An interruption ends the program with the exit code 130.
    """
    try:
        from uvloop import new_event_loop
    except ImportError:  # not available on this platform
        new_event_loop = None  # type: ignore[assignment]
    try:
        with asyncio.Runner(loop_factory=new_event_loop) as runner:
            return runner.run(work)
    except (asyncio.CancelledError, KeyboardInterrupt):
        say(f"Stopped. To continue: {command}")
        raise typer.Exit(INTERRUPTED) from None
    except HarnessError:
        if display.tallies:
            say(f"To continue: {command}")
        raise


def early_end(ended: Ending, budget: Budget | None, key: str, command: str) -> int:
    """If a session ended early, print why and that ``command`` resumes it. Return the exit code."""
    if ended == "budget" and budget is not None:
        calls = "calls without a recorded cost (failed, cut off, uncounted or of a deleted run)"
        unsure = f", {exact_usd(budget.unsure)} of it for {calls}"
        spent = f"{exact_usd(budget.spent)} is spent{unsure if budget.unsure else ''}"
        call = f"the next call, which may cost {exact_usd(budget.wanted)}"
        say(f"The budget of {usd(budget.usd)} cannot pay for {call}: {spent}. Raise {key}.")
        larger = re.sub(r"(budget\.usd=|--budget[ =])\S+", r"\1…", command)
        say(f"Then, to continue: {larger}")
        return BUDGET_SPENT
    if ended == "interrupted":
        say(f"Interrupted. To continue: {command}")
        return INTERRUPTED
    return 0


def say_verdictless(run: str, tally: Tally, remedy: str) -> None:
    """Print which judges often give no verdict, and why. ``remedy`` ends the advice.

    Panels that often pass on a split vote are printed as well.
    """
    for panel, n in tally.split_passes.items():
        total = tally.judgements[panel]
        if n and n * MANY >= total:
            share = f"{n:,} of {total:,} judgements pass what its judges are split on"
            say(f"{run}: panel {panel}: {share}. Set a higher passes_from to fail it.", "yellow")
    for (judge, outcome), n in tally.verdictless.items():
        total = tally.judgements[judge]
        if n * MANY < total:
            continue
        reason = tally.reasons[judge, outcome]
        share = f"{n:,} of {total:,} judgements are {outcome} and have no verdict"
        say(f"{run}: judge {judge}: {share}. {reason}".rstrip(), "yellow")
        if outcome == "empty" and reason:
            say(f"Set the judge's max_tokens higher ({REASONING}), {remedy}")
