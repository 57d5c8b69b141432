"""Rate limits per model, over any 60 seconds.

The window slides and is exact: tests rely on the server to say whether a client kept to a limit, so
it must not let more through at a window's edge.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Collection

from msgspec import Struct

from harness.mock.wire import Level, MockError, Unit

WINDOW_S = 60.0
MAX_MODELS = 1000
"""Models that are tracked separately: the first ones requested. Clients can invent any number."""
MAX_NAME = 200
"""Longest model name that is tracked, in characters."""
OTHER_MODELS = "(other models)"
"""All further models together. They share rate limits, so made-up names do not evade them."""


def tracked_name(model: str, known: Collection[str]) -> str:
    """Return the name under which to track a model, given those already tracked.

    >>> tracked_name("gpt-4", {"gpt-4": 1}), tracked_name("x" * 1000, {})
    ('gpt-4', '(other models)')
    """
    if model in known or (len(known) < MAX_MODELS and len(model) <= MAX_NAME):
        return model
    return OTHER_MODELS


class Limits(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """What each model may use in any 60 seconds; None for no limit.

    Raises:
        MockError: a limit is below 1.
    """

    requests_per_minute: int | None = None
    tokens_per_minute: int | None = None
    input_tokens_per_minute: int | None = None
    output_tokens_per_minute: int | None = None

    def __post_init__(self) -> None:
        """Reject limits that would never admit a request."""
        for name in self.__struct_fields__:
            limit = getattr(self, name)
            if limit is not None and limit < 1:
                raise MockError(f"{name} must be at least 1, not {limit}.")


class _SlidingWindow:
    """What was used in the last 60 seconds."""

    def __init__(self, unit: Unit, limit: int, clock: Callable[[], float]) -> None:
        self.unit = unit
        self._limit = limit
        self._used = 0
        self._clock = clock
        self._uses: deque[tuple[float, int]] = deque()

    def take(self, amount: int) -> None:
        self._uses.append((self._clock(), amount))
        self._used += amount

    def level(self, amount: int = 0) -> Level:
        """Report usage, and how long a request for `amount` would have to wait."""
        now = self._clock()
        while self._uses and self._uses[0][0] <= now - WINDOW_S:
            self._used -= self._uses.popleft()[1]
        reset_s = self._uses[-1][0] + WINDOW_S - now if self._uses else 0.0
        wait_s = self._wait(amount, now)
        return Level(self.unit, self._limit, self._used, amount, wait_s, reset_s)

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

    def __init__(
        self, limits: Limits | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.limits = limits or Limits()
        self._clock = clock
        units: list[tuple[Unit, int | None]] = [
            ("requests", self.limits.requests_per_minute),
            ("tokens", self.limits.tokens_per_minute),
            ("input tokens", self.limits.input_tokens_per_minute),
            ("output tokens", self.limits.output_tokens_per_minute),
        ]
        self._units = [(unit, limit) for unit, limit in units if limit is not None]
        self._models: dict[str, list[_SlidingWindow]] = {}

    def admit(self, model: str, input_tokens: int, output_tokens: int) -> Level | None:
        """Count a request, or return the limit that rejects it.

        A rejected request uses up nothing.
        """
        if not self._units:
            return None
        windows = self._windows(model)
        amounts = {
            "requests": 1,
            "tokens": input_tokens + output_tokens,
            "input tokens": input_tokens,
            "output tokens": output_tokens,
        }
        for window in windows:
            level = window.level(amounts[window.unit])
            if level.wait_s > 0:
                return level
        for window in windows:
            window.take(amounts[window.unit])
        return None

    def levels(self, model: str) -> list[Level]:
        """Return the current usage of each of a model's limits."""
        return [window.level() for window in self._windows(model)] if self._units else []

    def _windows(self, model: str) -> list[_SlidingWindow]:
        windows = self._models.get(model)
        if windows is None:
            fresh = [_SlidingWindow(unit, limit, self._clock) for unit, limit in self._units]
            windows = self._models.setdefault(tracked_name(model, self._models), fresh)
        return windows
