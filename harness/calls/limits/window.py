"""A sliding window: so much in any sixty seconds, as the provider counts it.

The provider counts a call at a moment that we do not see, between its sending
and its answer. So a use stays in our window from its sending until sixty
seconds after its answer, and then no sixty seconds of the provider's can hold
more than ours did. For slow answers two seconds after the sending stand for
the answer: by then the call has been counted, and waiting for a model that
thinks for a minute would halve the rate.

What is used is also spread: a provider may enforce 600 a minute as 10 a second.
"""

from __future__ import annotations

from heapq import heappop, heappush

WINDOW_S = 60.0
COUNTED_WITHIN_S = 2.0
"""Seconds after its sending by which a provider has surely counted a call."""
ROUNDING_S = 1e-6
BURST_S = 5.0
"""So many seconds' worth may be used at once after a rest."""


class SlidingWindow:
    """What was used of one limit.

    limit: units in any sixty seconds.
    """

    def __init__(self, limit: float) -> None:
        self.limit = limit
        self._past: list[tuple[float, float]] = []
        """(when it leaves the window, amount): a heap, since slow answers come out of turn."""
        self._past_sum = 0.0
        self._open_sum = 0.0
        self._level = 0.0
        """Units used of late, running out at the limit's rate: a leaky bucket for the pace."""
        self._level_at = 0.0

    def used(self, now: float) -> float:
        """Units in the window, those of unanswered calls included."""
        while self._past and self._past[0][0] <= now:
            self._past_sum -= heappop(self._past)[1]
        if not self._past:
            self._past_sum = 0.0  # sheds what rounding has left
        return self._past_sum + self._open_sum

    def wait(self, amount: float, margin: float, now: float) -> float:
        """Seconds until this amount may be used, at the earliest; 0 for now.

        What exceeds the limit by itself may go when nothing else is there: the
        provider is the one to refuse it.

        margin: what the unanswered calls may take beyond what was reserved.
        """
        used = self.used(now)
        if used + margin + amount > self.limit and used > 0:
            # An answer may also free what was reserved too much: the caller asks again then.
            return max(self._past[0][0] - now, 0.001) if self._past else WINDOW_S
        ahead_s = self._drained(now) * WINDOW_S / self.limit - BURST_S
        return ahead_s if ahead_s > ROUNDING_S else 0.0

    def take(self, amount: float, now: float) -> None:
        """A call is sent, which is expected to use so much."""
        self._open_sum += amount
        self._level = self._drained(now) + amount

    def settle(self, expected: float, actual: float, sent: float, now: float) -> None:
        """A call that was sent has ended, and has used so much."""
        self._open_sum -= expected
        self.add(actual, min(now, sent + COUNTED_WITHIN_S) + WINDOW_S)
        self._level = max(0.0, self._drained(now) + actual - expected)

    def add(self, amount: float, until: float) -> None:
        """Something was used that leaves the window then: by us, or by others on the account."""
        if amount > 0:
            heappush(self._past, (until, amount))
            self._past_sum += amount

    def _drained(self, now: float) -> float:
        gone = (now - self._level_at) * self.limit / WINDOW_S
        self._level, self._level_at = max(0.0, self._level - gone), now
        return self._level
