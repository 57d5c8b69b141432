"""Rate limits per model, over any 60 seconds.

The window slides and is exact: tests rely on the server to say whether a client kept to a limit, so
it must not let more through at a window's edge.
"""

from __future__ import annotations

import time
from collections import defaultdict, deque
from collections.abc import Callable

from msgspec import Struct
from msgspec.structs import astuple

from harness.mock.wire import UNITS, Level, MockError, Unit

WINDOW_S = 60.0


class Limits(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """What each model may use of each `Unit` in any 60 seconds; None for no limit."""

    requests_per_minute: int | None = None
    tokens_per_minute: int | None = None
    input_tokens_per_minute: int | None = None
    output_tokens_per_minute: int | None = None

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            limit = getattr(self, name)
            if limit is not None and limit < 1:
                raise MockError(f"{name} must be at least 1, not {limit}.")


class _SlidingWindow:
    """What was used in the last 60 seconds."""

    def __init__(self, unit: Unit, limit: int) -> None:
        self.unit = unit
        self._limit = limit
        self._used = 0
        self._uses: deque[tuple[float, int]] = deque()

    def take(self, amount: int, now: float) -> None:
        self._uses.append((now, amount))
        self._used += amount

    def level(self, amount: int, now: float) -> Level:
        """Report usage, and how long a request for `amount` would have to wait."""
        while self._uses and self._uses[0][0] <= now - WINDOW_S:
            self._used -= self._uses.popleft()[1]
        reset_s = self._uses[-1][0] + WINDOW_S - now if self._uses else 0.0
        return Level(self.unit, self._limit, self._used, amount, self._wait(amount, now), reset_s)

    def _wait(self, amount: int, now: float) -> float:
        excess = self._used + amount - self._limit
        if excess <= 0:
            return 0.0
        for at, used in self._uses:
            excess -= used
            if excess <= 0:
                return at + WINDOW_S - now
        return WINDOW_S  # More than the limit as a whole: it never fits.


class MockRateLimits:
    """Enforces `Limits` for each model separately."""

    def __init__(self, limits: Limits, clock: Callable[[], float] = time.monotonic) -> None:
        self.limits = limits
        self._clock = clock
        units = list(zip(UNITS, astuple(limits), strict=True))
        self._models: defaultdict[str, list[_SlidingWindow]] = defaultdict(
            lambda: [_SlidingWindow(unit, limit) for unit, limit in units if limit is not None]
        )

    def admit(self, model: str, input_tokens: int, output_tokens: int) -> Level | None:
        """Count a request, or return the limit that rejects it, which uses up nothing."""
        now, windows = self._clock(), self._models[model]
        amounts = {
            "requests": 1,
            "tokens": input_tokens + output_tokens,
            "input tokens": input_tokens,
            "output tokens": output_tokens,
        }
        for window in windows:
            level = window.level(amounts[window.unit], now)
            if level.wait_s > 0:
                return level
        for window in windows:
            window.take(amounts[window.unit], now)
        return None

    def levels(self, model: str) -> list[Level]:
        """Return the current usage of each of a model's limits."""
        now = self._clock()
        return [window.level(0, now) for window in self._models[model]]
