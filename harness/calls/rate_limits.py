"""A model's rate limits: those the user states and those the provider reports.

A call reserves what it is expected to use before it is sent, and settles for what it has used
when it ends. Each limit is a sliding window of sixty seconds; tokens are estimated from the
calls before.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from heapq import heappop, heappush
from math import sqrt
from typing import Literal, NamedTuple, Protocol, get_args
from weakref import WeakSet

from harness.records import Allowance, Request, Usage

Unit = Literal["requests", "tokens", "input_tokens", "output_tokens"]

UNITS: tuple[Unit, ...] = get_args(Unit)

Amounts = dict[Unit, float]

WINDOW_S = 60.0
COUNTED_WITHIN_S = 2.0
"""Seconds after its sending by which a provider has surely counted a call."""
ROUNDING_S = 1e-6
BURST_S = 5.0
"""The number of seconds' worth of a limit that may be used at once after a pause."""

LEARNED = 20
"""Calls after which the mean is trusted."""
MEMORY = 200
"""Calls that the moving means cover, so that they follow a run from group to group."""
SIGMAS = 4.0

BOUND_CHARACTERS = 2.0
"""The lowest usual number of characters per token (code, digits)."""
BOUND_MESSAGE = 20
"""Tokens of a message besides its text."""
BOUND_TIMES = 3
"""Until the mean is trusted: multiple of the longest answer so far."""
BOUND_OUTPUT = 1000
"""Output tokens if the run file sets no maximum."""


class Reservation(NamedTuple):
    """What a call in flight is expected to use."""

    sent: float
    amounts: Amounts


def _amounts(read: float, written: float) -> Amounts:
    return {
        "requests": 1,
        "tokens": read + written,
        "input_tokens": read,
        "output_tokens": written,
    }


class RateListener(Protocol):
    """A limiter that waits for these limits."""

    def serve(self) -> None:
        """Let in the calls that may go now."""
        ...


class RateLimits:
    """The limits of one model: a window for each known limit.

    Args:
        stated: Units per minute, as set by the user. If the provider later reports a lower
            figure, that one counts.
    """

    def __init__(
        self, stated: Mapping[Unit, int], *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._clock = clock
        self._reported: dict[Unit, int] = {}
        self._windows: dict[Unit, SlidingWindow] = {}
        self._estimate = TokenEstimate()
        self._open = 0
        self._listeners: WeakSet[RateListener] = WeakSet()
        self.state(stated)

    def state(self, stated: Mapping[Unit, int]) -> None:
        """Replace the user's figures; what was used stays counted."""
        self._stated = dict(stated)
        for unit in UNITS:
            self._limit(unit)

    def add_listener(self, listener: RateListener) -> None:
        """Notify a limiter when another one has freed up capacity."""
        self._listeners.add(listener)

    def _limit(self, unit: Unit) -> None:
        """Enforce the lower of the known figures of a unit, if there is any."""
        known = [figures[unit] for figures in (self._stated, self._reported) if unit in figures]
        if not known:
            self._windows.pop(unit, None)
        elif unit in self._windows:
            self._windows[unit].limit = min(known)
        else:
            self._windows[unit] = SlidingWindow(min(known))

    def wait(self, request: Request) -> float:
        """Return the seconds until a request may be sent, at the earliest; 0 for now."""
        if not self._windows:
            return 0.0
        now, margins = self._clock(), self._margins()
        amounts = _amounts(*self._estimate.of(request))
        return max(
            window.wait(amounts[unit], margins[unit], now) for unit, window in self._windows.items()
        )

    def take(self, request: Request) -> Reservation | None:
        """Make a reservation for a request that is sent now; None if nothing is limited."""
        if not self._windows:
            return None
        now = self._clock()
        amounts = _amounts(*self._estimate.of(request))
        amounts = {unit: amounts[unit] for unit in self._windows}
        for unit, amount in amounts.items():
            self._windows[unit].take(amount, now)
        self._open += 1
        return Reservation(now, amounts)

    def settle(
        self,
        reservation: Reservation | None,
        request: Request,
        usage: Usage | None,
        *,
        refused: bool = False,
    ) -> None:
        """Record a request that has ended.

        Args:
            reservation: What `take` returned for it.
            usage: What it has used; None if unknown, and then it counts as reserved.
            refused: Whether the provider did not let it in, so that it used no tokens.
        """
        if reservation is None:
            return
        now = self._clock()
        self._open -= 1
        actual: Mapping[Unit, float] = reservation.amounts
        if usage is not None:
            self._estimate.learn(request, usage)
            actual = _amounts(usage.input_tokens, usage.output_tokens)
        elif refused:
            actual = _amounts(0, 0)
        for unit, expected in reservation.amounts.items():
            if unit in self._windows:
                self._windows[unit].settle(expected, actual[unit], reservation.sent, now)
        if len(self._listeners) > 1:
            for listener in list(self._listeners):
                listener.serve()

    def observe(self, allowances: Iterable[Allowance]) -> None:
        """Apply what the provider says about its limits and what is left of them.

        If less is left than we have used, others use the same account, and their use counts too.
        """
        now, margins = self._clock(), self._margins()
        for reported in allowances:
            if reported.limit is None or reported.limit < 1:
                continue
            self._reported[reported.unit] = reported.limit
            self._limit(reported.unit)
            window = self._windows[reported.unit]
            if reported.remaining is None:
                continue
            used = reported.limit - reported.remaining
            by_others = used - window.used(now) - margins[reported.unit]
            reset_s = WINDOW_S if reported.reset_s is None else min(reported.reset_s, WINDOW_S)
            window.add(by_others, now + reset_s)

    def _margins(self) -> Amounts:
        return _amounts(*self._estimate.margins(self._open)) | {"requests": 0.0}


class SlidingWindow:
    """What was used of one limit in any sixty seconds, as the provider counts it.

    The provider counts a call at a moment we cannot see, between its sending and its answer. So
    a use stays in our window from its sending until sixty seconds after its answer: then no
    sixty seconds of the provider's can hold more than ours did. A slow answer counts as having come
    two seconds after the sending: by then the call has been counted, and waiting for a model that
    thinks for a minute would halve the rate.

    Use is also spread over time: a provider may enforce 600 per minute as 10 per second.
    """

    def __init__(self, limit: float) -> None:
        self.limit = limit
        self._past: list[tuple[float, float]] = []
        """(when it leaves the window, amount): a heap, since slow answers come out of order."""
        self._past_sum = 0.0
        self._open_sum = 0.0
        self._level = 0.0
        """Units used recently, draining at the limit's rate: a leaky bucket for the pace."""
        self._level_at = 0.0

    def used(self, now: float) -> float:
        """Units in the window, unanswered calls included."""
        while self._past and self._past[0][0] <= now:
            self._past_sum -= heappop(self._past)[1]
        if not self._past:
            self._past_sum = 0.0  # clears rounding errors
        return self._past_sum + self._open_sum

    def wait(self, amount: float, margin: float, now: float) -> float:
        """Seconds until an amount may be used, at the earliest; 0 for now.

        An amount that exceeds the whole limit may go when nothing else is in the window: it is
        for the provider to refuse it.

        Args:
            margin: Units that the unanswered calls may use beyond their reservations.
        """
        used = self.used(now)
        if used + margin + amount > self.limit and used > 0:
            # An answer may also free what was reserved too much: the caller asks again then.
            return max(self._past[0][0] - now, 0.001) if self._past else WINDOW_S
        ahead_s = self._drained(now) * WINDOW_S / self.limit - BURST_S
        return ahead_s if ahead_s > ROUNDING_S else 0.0

    def take(self, amount: float, now: float) -> None:
        """Reserve the amount that a call sent now is expected to use."""
        self._open_sum += amount
        self._level = self._drained(now) + amount

    def settle(self, expected: float, actual: float, sent: float, now: float) -> None:
        """Replace a call's reservation with what it has actually used."""
        self._open_sum -= expected
        self.add(actual, min(now, sent + COUNTED_WITHIN_S) + WINDOW_S)
        self._level = max(0.0, self._drained(now) + actual - expected)

    def add(self, amount: float, until: float) -> None:
        """Count a use, ours or another's on the account, that leaves the window at `until`."""
        if amount > 0:
            heappush(self._past, (until, amount))
            self._past_sum += amount

    def _drained(self, now: float) -> float:
        gone = (now - self._level_at) * self.limit / WINDOW_S
        self._level, self._level_at = max(0.0, self._level - gone), now
        return self._level


class _Mean:
    """A moving mean, and the mean square error of its own forecasts."""

    def __init__(self) -> None:
        self.seen = 0
        self.value = 0.0
        self.error = 0.0

    def learn(self, value: float, weight: float) -> None:
        """Add a value; `weight` turns a difference of values into one of tokens."""
        rate = 1 / min(self.seen + 1, MEMORY)
        missed = value - self.value
        if self.seen:
            self.error += rate * ((missed * weight) ** 2 - self.error)
        self.value += rate * missed
        self.seen += 1


class TokenEstimate:
    """How many tokens a model's calls will use, learned from the calls before.

    An exact count would need the provider's tokeniser. Until a few calls have been seen, the
    estimate is a generous bound; from then on it is the mean so far, and the spread says how
    much may be missing for several calls together.
    """

    def __init__(self) -> None:
        self._per_character = _Mean()
        self._output = _Mean()
        self._longest = 1

    def of(self, request: Request) -> tuple[float, float]:
        """Expected input and output tokens of a request."""
        size = characters(request)
        written = request.decoding.max_tokens or BOUND_OUTPUT
        if self._output.seen < LEARNED:
            if self._output.seen:  # a maximum of 8,192 says little about answers that had 20
                written = min(written, BOUND_TIMES * self._longest)
            return size / BOUND_CHARACTERS + BOUND_MESSAGE * len(request.messages), written
        return size * self._per_character.value, min(self._output.value, written)

    def learn(self, request: Request, usage: Usage) -> None:
        """Learn from a call that has ended."""
        size = max(1, characters(request))
        self._per_character.learn(usage.input_tokens / size, size)
        self._output.learn(usage.output_tokens, 1.0)
        self._longest = max(self._longest, usage.output_tokens)

    def margins(self, calls: int) -> tuple[float, float]:
        """Input and output tokens that a number of calls may use beyond their estimates."""
        spread = SIGMAS * sqrt(calls)
        return spread * sqrt(self._per_character.error), spread * sqrt(self._output.error)


def characters(request: Request) -> int:
    """Characters of a request's messages."""
    return sum(len(message.content) for message in request.messages)
