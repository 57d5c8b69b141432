"""How far a run is: counters that the progress display reads."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from time import monotonic
from typing import Protocol

from harness.calls.budget import Budget
from harness.records import Attempt, Rewriting, Usage

MOST_ERRORS = 20
"""So many different messages are told apart."""


class Counted(Protocol):
    """What is counted of a call; None for what is not known."""

    @property
    def usage(self) -> Usage | None:
        """Its tokens."""
        ...

    @property
    def cost_usd(self) -> float | None:
        """What it has cost."""
        ...

    @property
    def cached(self) -> bool:
        """Whether the cache answered it."""
        ...


class Tally:
    """Counts the attempts of this session as they are written.

    owed: samples that were unfinished at the start.
    already: samples that were finished before.
    budget: the run's, None where it has none.
    """

    def __init__(
        self,
        owed: int,
        already: int = 0,
        *,
        budget: Budget | None = None,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self.budget = budget
        self.owed = owed
        self.already = already
        self.finished = 0
        self.attempts = 0
        self.calls = 0
        self.cached = 0
        self.passed = 0
        self.judged = 0
        self.outcomes: Counter[str] = Counter()
        self.errors: Counter[str] = Counter()
        self.usage = Usage()
        self.cost_usd = 0.0
        self.cost_known = True
        self._clock = clock
        self._started = clock()
        self.last_error = ""

    def record(self, attempt: Attempt) -> None:
        """Count one attempt."""
        self.attempts += 1
        self.outcomes[attempt.outcome] += 1
        if attempt.outcome == "error" and attempt.error:
            self.last_error = attempt.error
            self._count_error(attempt.error)
        calls: list[Attempt | Rewriting] = [attempt, *attempt.polish]
        for call in calls:
            if call.cached or call.call_id is not None:
                self.count_call(call)

    def count_call(self, call: Counted) -> None:
        """Count a call that was made, or that the cache answered."""
        if call.cached:
            self.cached += 1
            return
        self.calls += 1
        if call.usage is not None:
            self.usage += call.usage
        if call.cost_usd is None:
            self.cost_known = False
        else:
            self.cost_usd += call.cost_usd

    def finish_sample(self, passed: bool | None) -> None:
        """Count a sample that was worked to its end, or to a failed call.

        passed: the verdict on its last round.
        """
        self.finished += 1
        if passed is not None:
            self.judged += 1
            self.passed += passed

    def _count_error(self, error: str) -> None:
        """Count an error among at most so many different ones: messages may hold anything."""
        if error in self.errors or len(self.errors) < MOST_ERRORS:
            self.errors[error] += 1
        else:
            self.errors["other errors"] += 1

    @property
    def pass_rate(self) -> float | None:
        """Of the samples finished and judged in this session."""
        return self.passed / self.judged if self.judged else None

    @property
    def per_second(self) -> float:
        """Samples finished a second, since the start of the session."""
        elapsed = self._clock() - self._started
        return self.finished / elapsed if elapsed > 0 else 0.0

    @property
    def eta_s(self) -> float | None:
        """Seconds until all is done at this rate, None before the first sample."""
        return (self.owed - self.finished) / self.per_second if self.per_second else None
