"""What runs have spent, and the budget that is left of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import fsum

from harness.calls.budget import Budget
from harness.calls.reply_cache import ReplyCache
from harness.calls.signals import Stop
from harness.store.calls import read_payments
from harness.store.run_folder import RunFolder


def budget_of(
    usd: float | None,
    runs: Sequence[tuple[RunFolder, str]],
    replies: ReplyCache | None,
    stop: Stop,
) -> Budget | None:
    """A budget that runs share; None where there is none, or nothing is paid for.

    runs: each with its name in the book of payments.
    """
    if usd is None or replies is None:
        return None
    paid = [_paid(folder, replies.booked(name)) for folder, name in runs]
    return Budget(usd, fsum(spent for spent, _ in paid), stop, unsure=fsum(u for _, u in paid))


def _paid(folder: RunFolder, booked: Mapping[bytes, float]) -> tuple[float, float]:
    """What a run has spent, and how much of that is for calls without an answer.

    The book knows the calls that failed and may be billed. It is in the cache,
    which may have been cleared, and begins with the budget, which may have been
    set later: the calls that it lacks are in the attempts and judgements.
    """
    return spent(read_payments(folder.attempts), booked)


def spent(recorded: Mapping[bytes, float], booked: Mapping[bytes, float]) -> tuple[float, float]:
    """What calls have cost, and how much of that is for calls without an answer.

    recorded: US dollars by the call's key, as the answers say; booked: as the book says.
    """
    unsure = fsum(usd for key, usd in booked.items() if key not in recorded)
    known = fsum(booked.get(key, usd) for key, usd in recorded.items())
    return known + unsure, unsure
