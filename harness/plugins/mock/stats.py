"""Counts requests and their answers, and enforces rate limits in sliding 60-second windows.

The windows are exact, because tests use them to judge clients.
"""

import time
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from msgspec import Struct, field
from msgspec.structs import asdict, astuple, replace

from harness.plugins.mock.wire import UNITS, Level, MockError, Unit

WINDOW_S = 60.0


class BodyCount(Struct):
    """The number of requests with one body, and how many of them got a usable answer."""

    requests: int = 0
    answered: int = 0


class PerMinute(Struct, frozen=True):
    """The maximum of each count in any 60 seconds, not always the same 60 seconds."""

    requests: int = 0
    tokens: int = 0
    input_tokens: int = 0
    output_tokens: int = 0


class Snapshot(Struct):
    """The counters at one moment: the JSON of ``GET /stats``."""

    requests: int = 0
    # Usable replies: complete, well formed, with text, a refusal or a content filter's verdict.
    answered: int = 0
    repeated: int = 0  # requests whose body already had an answer; legitimate for several samples
    abandoned: int = 0  # requests whose client left before the reply was complete
    unique_bodies: int = 0
    in_flight: int = 0
    max_in_flight: int = 0
    prompt_tokens: int = 0  # estimated, like the next, for all complete, well-formed replies
    completion_tokens: int = 0
    cache_read_tokens: int = 0  # of the prompts' tokens: read from the prompt cache, or written
    cache_write_tokens: int = 0
    by_status: dict[int, int] = field(default_factory=Counter)
    by_fault: dict[str, int] = field(default_factory=Counter)
    by_path: dict[str, int] = field(default_factory=Counter)
    batches: int = 0  # created so far, including those whose id was lost
    open_batches: int = 0  # that have not ended
    batch_requests: int = 0  # in all batches; processed ones are also counted above
    batch_answered: int = 0
    # Requests with a valid key, body and model, even if a rate limit rejected them
    by_model: dict[str, int] = field(default_factory=Counter)
    # The maximum admitted in any 60 seconds, over all models. A drawn fault counts: without tokens
    # if it is an HTTP status, else with the tokens of its answer.
    peak_per_minute: PerMinute = PerMinute()


class Stats:
    """Counters of requests. Only the server's thread writes them; any thread may read them.

    A request is counted before the last byte of its answer is sent, so that the client finds it
    counted.
    """

    def __init__(self) -> None:
        self.counts = Snapshot()
        self.reset()

    def reset(self) -> None:
        """Clear all counters except those of requests in flight and of open batches.

        Draws of faults and latencies also start again, except those of batches.
        """
        in_flight = self.counts.in_flight
        self.counts = Snapshot(
            in_flight=in_flight, max_in_flight=in_flight, open_batches=self.counts.open_batches
        )
        self.peak = Peak()
        self._bodies: dict[str, BodyCount] = {}

    def arrive(self, digest: str, path: str) -> BodyCount:
        """Count a new request, and return the counts of its body, which include it."""
        counts = self.counts
        counts.requests += 1
        counts.by_path[path] += 1
        counts.in_flight += 1
        counts.max_in_flight = max(counts.max_in_flight, counts.in_flight)
        body = self._bodies.setdefault(digest, BodyCount())
        body.requests += 1
        counts.repeated += body.answered > 0
        return body

    def leave(self, status: int | None = None, *, abandoned: bool = False) -> None:
        """Count the end of a request, its status if sent, and whether the client left early."""
        self.counts.in_flight -= 1
        self.counts.abandoned += abandoned
        if status is not None:
            self.counts.by_status[status] += 1

    def snapshot(self) -> Snapshot:
        names = ("by_status", "by_fault", "by_path", "by_model")
        copies: dict[str, Any] = {name: dict(getattr(self.counts, name)) for name in names}
        copies |= {"unique_bodies": len(self._bodies), "peak_per_minute": self.peak.most}
        return replace(self.counts, **copies)

    def by_body(self) -> dict[str, BodyCount]:
        """Return a copy of the counts of each body, by the body's digest."""
        # Unlike a list of its items, a copy of a dict is made in one step: the server's thread
        # cannot change the dict meanwhile.
        bodies = dict(self._bodies)
        return {d: BodyCount(b.requests, b.answered) for d, b in bodies.items()}


class Peak:
    """The maximum numbers of requests and tokens in any 60 s. One thread writes; any may read."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.most = PerMinute()
        self._clock = clock
        self._windows = [_SlidingWindow(unit, 0) for unit in UNITS]

    def add(self, input_tokens: int, output_tokens: int) -> None:
        now = self._clock()
        amounts = _amounts(input_tokens, output_tokens)
        for window in self._windows:
            window.take(amounts[window.unit], now)
        used = [window.used(now) for window in self._windows]
        self.most = PerMinute(*map(max, astuple(self.most), used))


def _amounts(input_tokens: int, output_tokens: int) -> dict[Unit, int]:
    amounts = (1, input_tokens + output_tokens, input_tokens, output_tokens)
    return dict(zip(UNITS, amounts, strict=True))


class Limits(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The limits of each model, most of them in any 60 seconds (None: no limit)."""

    requests_per_minute: int | None = None
    tokens_per_minute: int | None = None
    input_tokens_per_minute: int | None = None
    output_tokens_per_minute: int | None = None
    parallel_requests: int | None = None  # at any moment

    def __post_init__(self) -> None:
        for name, limit in asdict(self).items():
            if limit is not None and limit < 1:
                raise MockError(f"{name} must be at least 1, not {limit}.")


class _SlidingWindow:
    def __init__(self, unit: Unit, limit: int) -> None:
        self.unit = unit
        self._limit = limit
        self._used = 0
        self._uses: deque[tuple[float, int]] = deque()

    def take(self, amount: int, now: float) -> None:
        self._uses.append((now, amount))
        self._used += amount

    def used(self, now: float) -> int:
        while self._uses and self._uses[0][0] <= now - WINDOW_S:
            self._used -= self._uses.popleft()[1]
        return self._used

    def level(self, amount: int, now: float) -> Level:
        used = self.used(now)
        reset_s = self._uses[-1][0] + WINDOW_S - now if self._uses else 0.0
        return Level(self.unit, self._limit, used, amount, self._wait(amount, now), reset_s)

    def _wait(self, amount: int, now: float) -> float:
        excess = self._used + amount - self._limit
        if excess <= 0:
            return 0.0
        for used_at, used in self._uses:
            excess -= used
            if excess <= 0:
                return used_at + WINDOW_S - now
        return WINDOW_S  # More than the entire limit: it never fits.


class MockRateLimits:
    """Rate limiters that enforce `Limits` for each model separately."""

    def __init__(self, limits: Limits, clock: Callable[[], float] = time.monotonic) -> None:
        self.limits = limits
        self._clock = clock
        self._parallel = Counter[str]()
        units = list(zip(UNITS, astuple(limits), strict=False))  # without parallel_requests
        self._models: defaultdict[str, list[_SlidingWindow]] = defaultdict(
            lambda: [_SlidingWindow(unit, limit) for unit, limit in units if limit is not None]
        )

    def admit(self, model: str, input_tokens: int, output_tokens: int) -> Level | None:
        """Count a request and return None, or return a limit of its model that it would exceed."""
        now = self._clock()
        windows = self._models[model]
        amounts = _amounts(input_tokens, output_tokens)
        for window in windows:
            if (level := window.level(amounts[window.unit], now)).wait_s > 0:
                return level
        for window in windows:
            window.take(amounts[window.unit], now)
        return None

    @contextmanager
    def in_parallel(self, model: str) -> Iterator[bool]:
        """Count a request in the block. Yield whether its model may process one more."""
        limit = self.limits.parallel_requests
        admitted = limit is None or self._parallel[model] < limit
        self._parallel[model] += admitted
        try:
            yield admitted
        finally:
            self._parallel[model] -= admitted

    def levels(self, model: str) -> list[Level]:
        """Return the current usage of each limit of a model, or [] if the model has no limits."""
        now = self._clock()
        return [window.level(0, now) for window in self._models[model]]
