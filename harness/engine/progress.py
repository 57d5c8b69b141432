"""The progress of a session: its counters, its end, its listeners, and its ``status.json``."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Self
from uuid import uuid4

from harness.calls.budget import Budget
from harness.calls.signals import Load, Notices, Stop
from harness.engine.session import Session
from harness.records import WITHOUT_REPLY, Attempt, PlayedTurn, Rewriting, Usage, with_example
from harness.store.run_folder import RunFolder
from harness.store.run_status import (
    MOST_EVENTS,
    MOST_MOMENTS,
    Moment,
    RunStatus,
    stop_requested,
    write_status,
)

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

    owed: int = 0  # samples (or judgements, or questions) unfinished at the start
    already: int = 0  # samples finished by earlier sessions
    rounds: int = 1  # maximum rounds of a sample
    budget: Budget | None = None
    clock: Callable[[], float] = time.monotonic
    finished: int = 0
    attempts: int = 0
    turns: int = 1  # most turns of the user in a conversation so far (its rounds are turns)
    calls: int = 0
    cached: int = 0
    passed: int = 0
    judged: int = 0
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
    _open: int = 0  # rounds of unfinished samples

    def __post_init__(self) -> None:
        self._started = self.clock()

    def expect(self, unfinished: int, already: int) -> None:
        """Set how many samples are to be finished, and how many already were."""
        self.owed = unfinished
        self.already = max(-self.finished, already)

    def record_earlier(self, index: AttemptIndex) -> None:
        """Count the verdicts of earlier sessions' attempts."""
        passed = index.attempts.passed  # 1, 0, or below 0 without a verdict
        first = passed[index.attempts.round == 1]
        self.first_judged = int((first >= 0).sum())
        self.first_passed = int((first == 1).sum())
        latest = passed[index.last_rounds()]
        self.judged = int((latest >= 0).sum())
        self.passed = int((latest == 1).sum())

    def record(
        self, attempt: Attempt, passed: bool | None = None, before: Verdicts = NO_VERDICTS
    ) -> None:
        """Count an attempt, its calls and verdict. ``before`` has the sample's earlier verdicts."""
        self.attempts += 1
        self.turns = max(self.turns, attempt.turns or 1)
        self._open += 1
        self.judged += (passed is not None) - (before.latest is not None)
        self.passed += (passed is True) - (before.latest is True)
        if attempt.round == 1:
            self.first_judged += (passed is not None) - (before.first is not None)
            self.first_passed += (passed is True) - (before.first is True)
        if passed is None and attempt.outcome == "ok":
            self._count_score(attempt)
        self.outcomes[attempt.outcome] += 1
        if attempt.outcome in WITHOUT_REPLY:
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
        kind = outcome, with_example(exception, example)
        counted = kind in self.errors or len(self.errors) < MAX_ERROR_KINDS
        self.errors[kind if counted else (outcome, OTHER_ERRORS)] += 1

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
        self._open -= rounds

    @property
    def paid_usd(self) -> float:
        """The amount that all sessions of the run have paid, in US dollars."""
        return self.paid_before + self.cost_usd

    @property
    def left(self) -> int:
        """The number of unfinished samples."""
        return self.owed - self.finished

    @property
    def done(self) -> float:
        """The number of finished samples, with unfinished ones as fractions of their rounds."""
        return self.finished + self._open / max(self.rounds, self.turns)

    @property
    def per_second(self) -> float:
        """The mean number of samples finished per second since the session began."""
        elapsed = self.clock() - self._started
        return self.finished / elapsed if elapsed > 0 else 0.0

    @property
    def eta_s(self) -> float | None:
        """The estimated seconds until all samples are finished, or None if no round is done yet."""
        return (self.clock() - self._started) * (self.owed / self.done - 1) if self.done else None


Listener = Callable[[Tally, Stop, Notices], AbstractContextManager[Any]]
"""Returns a context manager that shows a session's progress, and may stop the session."""


STATUS_EVERY_S = 1.0


class StatusWriter:
    """A context manager that writes a session's ``status.json`` once a second for viewers.

    It also obeys their requests to stop the session.
    """

    def __init__(self, folder: RunFolder, tally: Tally, session: Session) -> None:
        self._path = folder.path
        self._tally = tally
        self._session = session
        self._status = RunStatus(uuid4().hex, time.time(), time.time())
        self._interval = 1  # status updates between two saved moments of traffic
        self._updates = 0
        self._timer: asyncio.TimerHandle | None = None

    def __enter__(self) -> Self:
        stop_requested(self._path, "")  # removes a request to an earlier session
        self._update()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: object, trace: TracebackType | None
    ) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._status.ended = self._session.ended if self._tally.left else "finished"
        if kind is not None:
            interrupted = issubclass(kind, asyncio.CancelledError)
            self._status.ended = "interrupted" if interrupted else "failed"
        self._write()

    def _update(self) -> None:
        if stop_requested(self._path, self._status.session):
            self._session.stop.request()
        self._write()
        self._timer = asyncio.get_running_loop().call_later(STATUS_EVERY_S, self._update)

    def _write(self) -> None:
        tally = self._tally
        status = self._status
        notices = self._session.notices
        loads = {model: load() for model, load in notices.loads.items()}
        status.at = time.time()
        status.stopping = self._session.stop.requested
        status.planned = tally.already + tally.owed
        status.done = tally.already + tally.finished
        for name in ("attempts", "calls", "cached", "passed", "judged", "eta_s"):
            setattr(status, name, getattr(tally, name))
        if status.eta_s is not None:
            status.eta_s = max(status.eta_s, notices.pause_s)
        status.first_passed = tally.first_passed
        status.first_judged = tally.first_judged
        status.outcomes = dict(tally.outcomes)
        status.input_tokens = tally.usage.input_tokens
        status.output_tokens = tally.usage.output_tokens
        status.cost_usd = tally.paid_usd if tally.cost_known else None
        if tally.budget is not None:
            status.budget_usd = tally.budget.usd
            status.spent_usd = tally.budget.spent
        status.limited_by = [
            f"{model}: {load.limited_by}" for model, load in loads.items() if load.limited_by
        ]
        current = notices.now
        new = [(status.at, text) for text in current if text not in status.notices]
        status.notices = current
        status.events = [*status.events, *new][-MOST_EVENTS:]
        self._add_traffic(list(loads.values()))
        write_status(self._path, status)

    def _add_traffic(self, loads: list[Load]) -> None:
        """Add the latest moment of traffic, keeping earlier ones at ever longer intervals."""
        moment = Moment(
            self._status.at,
            sum(load.in_flight for load in loads),
            sum(load.waiting for load in loads),
            sum(load.failed for load in loads),
            sum(load.rate_limited for load in loads),
            self._tally.calls,
            self._tally.cost_usd,
        )
        traffic = self._status.traffic
        if traffic and self._updates % self._interval and not self._status.ended:
            traffic[-1] = moment  # the latest moment is always kept
        else:
            traffic.append(moment)
        if len(traffic) > MOST_MOMENTS:
            del traffic[1:-1:2]
            self._interval *= 2
        self._updates += 1
