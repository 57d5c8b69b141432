"""The progress of a session: its counters, its end, and what watches it."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from harness.calls.budget import Budget
from harness.calls.signals import Notices, Stop
from harness.engine.session import Session
from harness.records import (
    OUTCOMES,
    OUTCOMES_WITHOUT_REPLY,
    Attempt,
    PlayedTurn,
    Rewriting,
    Usage,
    add_example_error,
)
from harness.store.run_folder import RunFolder

if TYPE_CHECKING:
    from harness.store.index import AttemptIndex  # NumPy takes 0.2 s to import

# How a session ended; ``budget``: the rest of the budget might not have covered the next call.
Ending = Literal["finished", "interrupted", "budget", "failed"]

MAX_ERROR_KINDS = 20
OTHER_ERRORS = "other errors"


class Verdicts(NamedTuple):
    """Whether a sample's first and latest answers have passed (None: no verdict)."""

    first: bool | None = None
    latest: bool | None = None


NO_VERDICTS = Verdicts()


@dataclass(slots=True, eq=False)
class Tally:
    """Progress counters of one session, read by the progress display.

    ``judged`` and ``passed`` count samples by the verdict of their latest round, ``first_judged``
    and ``first_passed`` by that of round 1. All four include earlier sessions and unfinished
    samples. Finished samples alone would bias the pass rate: with `stop_on_pass`, a sample that
    passes is finished early.
    """

    expected: int = 0  # samples (or judgements, or questions) unfinished at the start
    finished_earlier: int = 0  # samples finished by earlier sessions
    rounds: int = 1  # maximum rounds of a sample
    budget: Budget | None = None
    clock: Callable[[], float] = time.monotonic
    finished: int = 0
    attempts: int = 0
    turns: int = 1  # the user's turns in the longest conversation so far (its rounds are turns)
    calls: int = 0
    cached: int = 0
    passed: int = 0
    judged: int = 0
    judged_answers: int = 0  # answers with a verdict and the outcome ok
    first_passed: int = 0
    first_judged: int = 0
    score: str = ""  # a numeric score of answers without a verdict
    score_sum: float = 0.0  # over n_scored answers of this session
    n_scored: int = 0
    failed_judgements: int = 0
    judgements: Counter[str] = field(default_factory=Counter)  # by judge and panel
    # Judgements without a verdict, by judge and outcome, and the latest reason of each.
    verdictless: Counter[tuple[str, str]] = field(default_factory=Counter)
    reasons: dict[tuple[str, str], str] = field(default_factory=dict)
    split_passes: Counter[str] = field(default_factory=Counter)  # by panel: ties that pass
    outcomes: Counter[str] = field(default_factory=Counter)
    # Failed calls and crashes, by outcome and error; those with the same exception count together.
    errors: Counter[tuple[str, str]] = field(default_factory=Counter)
    examples: dict[str, str] = field(default_factory=dict)  # an error, by exception
    usage: Usage = Usage()  # noqa: RUF009 (frozen)
    cost_usd: float = 0.0  # paid in this session
    paid_before: float = 0.0  # by earlier sessions of the run, in US dollars
    cost_known: bool = True
    last_error: str = ""
    _started: float = field(init=False)
    _unfinished_rounds: int = 0  # answered, of unfinished samples

    def __post_init__(self) -> None:
        self._started = self.clock()

    def expect(self, unfinished: int, finished_earlier: int) -> None:
        """Set the number of samples to finish, and the number finished by earlier sessions."""
        self.expected = unfinished
        self.finished_earlier = max(-self.finished, finished_earlier)

    def record_earlier(self, index: AttemptIndex) -> None:
        """Count the verdicts of earlier sessions' attempts."""
        passed = index.attempts.passed  # 1, 0, or below 0 without a verdict
        is_ok = index.attempts.outcome == OUTCOMES.index("ok")
        self.judged_answers = int(((passed >= 0) & is_ok).sum())
        first_passed = passed[index.attempts.round == 1]
        self.first_judged = int((first_passed >= 0).sum())
        self.first_passed = int((first_passed == 1).sum())
        latest_passed = passed[index.last_rounds()]
        self.judged = int((latest_passed >= 0).sum())
        self.passed = int((latest_passed == 1).sum())

    def record(
        self, attempt: Attempt, passed: bool | None = None, before: Verdicts = NO_VERDICTS
    ) -> None:
        """Count an attempt, its calls and its verdict.

        Args:
            attempt: The attempt.
            passed: Its verdict by rules and judges (None: no verdict).
            before: The verdicts on the sample's earlier rounds.
        """
        self.attempts += 1
        self.turns = max(self.turns, attempt.turns or 1)
        self._unfinished_rounds += 1
        self.judged += (passed is not None) - (before.latest is not None)
        self.passed += (passed is True) - (before.latest is True)
        if attempt.round == 1:
            self.first_judged += (passed is not None) - (before.first is not None)
            self.first_passed += (passed is True) - (before.first is True)
        if attempt.outcome == "ok":
            self.judged_answers += passed is not None
            if passed is None:
                self._count_score(attempt)
        self.outcomes[attempt.outcome] += 1
        if attempt.outcome in OUTCOMES_WITHOUT_REPLY:
            if attempt.call_id is None:
                self.calls += attempt.latency_s is not None  # a crash
            if attempt.error:
                self._count_error(attempt.outcome, attempt.error, attempt.exception or "")
        calls: tuple[Attempt | Rewriting | PlayedTurn, ...]
        calls = (attempt, *attempt.polish, *(attempt.user or ()))
        for call in calls:
            if call.cached or call.call_id is not None:
                self.count_call(call.usage, call.cost_usd, cached=call.cached)

    def _count_error(self, outcome: str, error: str, exception: str) -> None:
        self.last_error = error
        example = self.examples.setdefault(exception, error) if exception else error
        kind = outcome, add_example_error(exception, example)
        if kind not in self.errors and len(self.errors) >= MAX_ERROR_KINDS:
            kind = outcome, OTHER_ERRORS
        self.errors[kind] += 1

    def _count_score(self, attempt: Attempt) -> None:
        for name, score in attempt.scores.items():
            if score.value is None or isinstance(score.value, bool):
                continue
            self.score = self.score or name
            if name == self.score:
                self.score_sum += score.value
                self.n_scored += 1

    def count_call(self, usage: Usage | None, cost_usd: float | None, *, cached: bool) -> None:
        """Count a call, with its tokens and cost unless it was cached."""
        if cached:
            self.cached += 1
            return
        self.calls += 1
        self.usage += usage or Usage()
        self.cost_usd += cost_usd or 0.0
        self.cost_known &= cost_usd is not None

    def finish_sample(self, rounds: int = 0) -> None:
        """Count a sample as finished, after ``rounds`` rounds in this session."""
        self.finished += 1
        self._unfinished_rounds -= rounds

    @property
    def paid_usd(self) -> float:
        """The amount that all sessions of the run have paid, in US dollars."""
        return self.paid_before + self.cost_usd

    @property
    def unfinished(self) -> int:
        """The number of unfinished samples."""
        return self.expected - self.finished

    @property
    def done(self) -> float:
        """The number of finished samples, with unfinished ones as fractions of their rounds."""
        return self.finished + self._unfinished_rounds / max(self.rounds, self.turns)

    @property
    def per_second(self) -> float:
        """The mean number of samples finished per second since the session began."""
        elapsed = self.clock() - self._started
        return self.finished / elapsed if elapsed > 0 else 0.0

    @property
    def eta_s(self) -> float | None:
        """The estimated seconds until all samples are finished, or None if no round is done yet."""
        if not self.done:
            return None
        elapsed = self.clock() - self._started
        return elapsed * (self.expected / self.done - 1)


Listener = Callable[[Tally, Stop, Notices], AbstractContextManager[Any]]
"""Returns a context manager that shows a session's progress, and may stop the session."""

Watch = Callable[[RunFolder, Tally, Session], AbstractContextManager[Any]]
"""The step ``watch``: returns a context manager that is open while a session works."""
