"""Rate limits as providers keep them: so many units in any sixty seconds, for each model.

The window slides and is exact: the server is the judge of whether a client
kept to a limit, so it must not let more through at a window's edge. Models
beyond those that are told apart (see `models`) share their windows, so that
made-up names are no way round a limit.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from typing import Literal

from msgspec import Struct

from harness.mock.errors import MockError
from harness.mock.models import kept_as

WINDOW_S = 60.0

Unit = Literal["requests", "tokens", "input tokens", "output tokens"]
"""What is limited; `tokens` are those of input and output together."""


class Limits(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """What each model may use in any sixty seconds; None for no limit.

    Raises: MockError for a limit below 1.
    """

    requests_per_minute: int | None = None
    tokens_per_minute: int | None = None
    input_tokens_per_minute: int | None = None
    output_tokens_per_minute: int | None = None

    def __post_init__(self) -> None:
        """Refuse what would let nothing in, ever."""
        for name in self.__struct_fields__:
            limit = getattr(self, name)
            if limit is not None and limit < 1:
                raise MockError(f"{name} must be at least 1, not {limit}.")


class Level(Struct, frozen=True):
    """How full a limit is.

    wait_s: seconds until the refused amount fits; 0 where it was admitted.
    reset_s: seconds until the limit is untouched again.
    """

    unit: Unit
    limit: int
    used: int
    wanted: int
    wait_s: float
    reset_s: float

    @property
    def remaining(self) -> int:
        """Units that may be used at once."""
        return self.limit - self.used


class SlidingWindow:
    """What was used in the last sixty seconds."""

    def __init__(self, unit: Unit, limit: int, clock: Callable[[], float]) -> None:
        self.unit = unit
        self.limit = limit
        self.used = 0
        self._clock = clock
        self._uses: deque[tuple[float, int]] = deque()

    def take(self, amount: int) -> None:
        """Use some units now."""
        self._uses.append((self._clock(), amount))
        self.used += amount

    def level(self, amount: int = 0) -> Level:
        """How full the window is, and how long this amount would have to wait."""
        now = self._clock()
        while self._uses and self._uses[0][0] <= now - WINDOW_S:
            self.used -= self._uses.popleft()[1]
        reset_s = self._uses[-1][0] + WINDOW_S - now if self._uses else 0.0
        wait_s = self._wait(amount, now)
        return Level(self.unit, self.limit, self.used, amount, wait_s, reset_s)

    def _wait(self, amount: int, now: float) -> float:
        excess = self.used + amount - self.limit
        if excess <= 0:
            return 0.0
        for at, used in self._uses:
            excess -= used
            if excess <= 0:
                return at + WINDOW_S - now
        return WINDOW_S  # More than the limit holds at all: it never fits.


class RateLimits:
    """The limits of one provider, kept for each model by itself; none by default."""

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
        self._models: dict[str, list[SlidingWindow]] = {}

    def admit(self, model: str, read: int, written: int) -> Level | None:
        """Count a request with so many tokens of input and output, or say which limit it breaks.

        A refused request uses nothing up.
        """
        if not self._units:
            return None
        windows = self._windows(model)
        amounts = {
            "requests": 1,
            "tokens": read + written,
            "input tokens": read,
            "output tokens": written,
        }
        for window in windows:
            level = window.level(amounts[window.unit])
            if level.wait_s > 0:
                return level
        for window in windows:
            window.take(amounts[window.unit])
        return None

    def levels(self, model: str) -> list[Level]:
        """How full each of a model's limits is now; empty where there are none."""
        if not self._units:
            return []
        return [window.level() for window in self._windows(model)]

    def _windows(self, model: str) -> list[SlidingWindow]:
        windows = self._models.get(model)
        if windows is None:
            fresh = [SlidingWindow(unit, limit, self._clock) for unit, limit in self._units]
            windows = self._models.setdefault(kept_as(model, self._models), fresh)
        return windows
