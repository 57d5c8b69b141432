"""The use of a rate limit in the last 60 seconds."""

from math import ceil
from typing import Literal

Unit = Literal["requests", "tokens", "input_tokens", "output_tokens"]

Amounts = dict[Unit, float]

WINDOW_S = 60.0
COUNTED_WITHIN_S = 2.0  # seconds within which a provider has certainly counted a call that was sent
PER_S = 2  # expiry times per second: uses within half a second expire together, to save memory
ROUNDING = ROUNDING_S = 1e-6
BURST_S = 5.0  # after a pause, as much may be used at once as the limit allows in this many seconds


class SlidingWindow:
    """The recorded use of one limit in the last 60 seconds, never below the provider's count.

    The provider counts a call at an unknown moment between request and answer. The call's use
    therefore stays in the window from the request until 60 seconds after the answer. An answer that
    takes longer than 2 seconds counts as arriving after 2 seconds: a longer stay would halve the
    rate of a model that thinks for a minute.

    Use is also spread over time: a provider may enforce 600 per minute as 10 per second.
    """

    reason = ""  # why no call is admitted, if not because of the limit

    def __init__(self, limit: float) -> None:
        self.limit = limit
        self.load(0.0, 0.0, {})

    def load(self, level: float, level_at: float, uses: dict[int, float]) -> None:
        """Replace the recorded use with values returned by `saved`."""
        self._uses = uses  # amounts by the half-second in which they leave the window
        self._sum, self._pruned_at = 0.0, -1
        self._level, self._level_at = level, level_at
        """Units used recently, draining at the limit's rate (a leaky bucket)."""

    def saved(self) -> tuple[float, float, dict[int, float]]:
        """Return the recorded use, as arguments for `load`."""
        return self._level, self._level_at, self._uses

    def used(self, now: float) -> float:
        """Return the units used in the window, including those reserved for unanswered calls."""
        gone = int(now * PER_S)
        if gone != self._pruned_at:  # entries too far ahead predate a clock reset
            last = gone + (WINDOW_S + COUNTED_WITHIN_S + 1) * PER_S
            self._uses = {at: used for at, used in self._uses.items() if gone < at <= last}
            self._sum, self._pruned_at = sum(self._uses.values()), gone
        return self._sum

    def wait(self, amount: float, margin: float, now: float) -> float:
        """Return the minimum number of seconds until an amount may be used.

        ``margin`` is the number of units that unanswered calls may use beyond their reservations.
        An amount above the limit is allowed once the window is empty.
        """
        used = self.used(now)
        if used + margin + amount > self.limit and self._uses:
            # An answer may free part of a reservation earlier: the caller asks again then.
            return max(min(self._uses) / PER_S - now, 0.001)
        ahead_s = self._drained(now) * WINDOW_S / self.limit - BURST_S
        return ahead_s if ahead_s > ROUNDING_S else 0.0

    def room(self, margin: float, now: float) -> float:
        """Return the number of units that may be used now (0 or less: none)."""
        burst = BURST_S * self.limit / WINDOW_S - self._drained(now)
        return min(self.limit - self.used(now) - margin, burst)

    def take(self, amount: float, now: float) -> None:
        """Reserve the amount that a call, sent at the time ``now``, is expected to use."""
        self.add(amount, now + COUNTED_WITHIN_S + WINDOW_S)
        self.spread(amount, now)

    def settle(self, expected: float, actual: float, sent: float, now: float) -> None:
        """Replace the expected use of a call, sent at the time ``sent``, with its actual use."""
        reserved = ceil((sent + COUNTED_WITHIN_S + WINDOW_S) * PER_S)
        if reserved in self._uses:
            self._sum -= expected
            self._uses[reserved] -= expected
            if self._uses[reserved] < ROUNDING:
                del self._uses[reserved]
        self.add(actual, min(now, sent + COUNTED_WITHIN_S) + WINDOW_S)
        self.spread(actual - expected, now)

    def spread(self, amount: float, now: float) -> None:
        """Count an amount, which may be negative, for spreading the use over time."""
        self._level = max(0.0, self._drained(now) + amount)

    def observe(self, used: float, now: float, until: float) -> None:
        """Add what the provider has counted beyond the recorded use.

        The provider forgets its count ``used`` at ``until`` (seconds).
        """
        self.add(used - self.used(now), until)

    def add(self, amount: float, until: float) -> None:
        """Add an amount, if above 0, that leaves the window at ``until`` (seconds)."""
        at = ceil(until * PER_S)
        if amount > 0 and at > self._pruned_at:
            self._uses[at] = self._uses.get(at, 0.0) + amount
            self._sum += amount

    def _drained(self, now: float) -> float:
        gone = (now - self._level_at) * self.limit / WINDOW_S
        reset = now < self._level_at - WINDOW_S  # the clock was reset by a reboot
        self._level, self._level_at = 0.0 if reset else max(0.0, self._level - gone), now
        return self._level


Uses = dict[Unit, tuple[float, float, dict[int, float]]]
"""The recorded use of a model's limits: for each unit, what `SlidingWindow.saved` returns."""
