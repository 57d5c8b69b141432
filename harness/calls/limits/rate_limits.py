"""A model's rate limits: those that the user states and those that the provider tells.

A call reserves what it is expected to use before it is sent, and settles for
what it has used when it ends.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from typing import Literal, NamedTuple, Protocol, get_args
from weakref import WeakSet

from harness.calls.limits.token_estimate import TokenEstimate
from harness.calls.limits.window import WINDOW_S, SlidingWindow
from harness.records import Allowance, Request, Usage

Unit = Literal["requests", "tokens", "input_tokens", "output_tokens"]

UNITS: tuple[Unit, ...] = get_args(Unit)

Amounts = dict[Unit, float]


class Reservation(NamedTuple):
    """What a call that is on its way is expected to use."""

    sent: float
    amounts: Amounts


def _amounts(read: float, written: float) -> Amounts:
    return {
        "requests": 1,
        "tokens": read + written,
        "input_tokens": read,
        "output_tokens": written,
    }


class Attendant(Protocol):
    """A lane that waits by these limits."""

    def serve(self) -> None:
        """Let in who may go now."""
        ...


class RateLimits:
    """The limits of one model, a window for each that is known.

    stated: units a minute, as the user has them; a provider may tell a lower
        figure later, and is believed.
    """

    def __init__(
        self, stated: Mapping[Unit, int], *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._clock = clock
        self._told: dict[Unit, int] = {}
        self._windows: dict[Unit, SlidingWindow] = {}
        self._estimate = TokenEstimate()
        self._open = 0
        self._attendants: WeakSet[Attendant] = WeakSet()
        self.state(stated)

    def state(self, stated: Mapping[Unit, int]) -> None:
        """The user's figures from now on; what was used stays used."""
        self._stated = dict(stated)
        for unit in UNITS:
            self._limit(unit)

    def attend(self, attendant: Attendant) -> None:
        """Have a lane told when another one has given something back."""
        self._attendants.add(attendant)

    def _limit(self, unit: Unit) -> None:
        """Put the lower of the known figures in force, or none."""
        known = [figures[unit] for figures in (self._stated, self._told) if unit in figures]
        if not known:
            self._windows.pop(unit, None)
        elif unit in self._windows:
            self._windows[unit].limit = min(known)
        else:
            self._windows[unit] = SlidingWindow(min(known))

    def wait(self, request: Request) -> float:
        """Seconds until a request may be sent, at the earliest; 0 for now."""
        if not self._windows:
            return 0.0
        now, margins = self._clock(), self._margins()
        amounts = _amounts(*self._estimate.of(request))
        return max(
            window.wait(amounts[unit], margins[unit], now) for unit, window in self._windows.items()
        )

    def take(self, request: Request) -> Reservation | None:
        """A request is sent; None where nothing is limited."""
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
        """A request has ended.

        usage: what it has used; None where that is not known: then what was reserved.
        refused: the provider did not let it in, so that it used no tokens.
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
        if len(self._attendants) > 1:
            for attendant in list(self._attendants):
                attendant.serve()

    def observe(self, allowances: Iterable[Allowance]) -> None:
        """The provider tells what its limits are, and what is left of them.

        Less may be left than we know of: then others use the same account, and
        their use is ours to respect.
        """
        now, margins = self._clock(), self._margins()
        for told in allowances:
            if told.limit is None or told.limit < 1:
                continue
            self._told[told.unit] = told.limit
            self._limit(told.unit)
            window = self._windows[told.unit]
            if told.remaining is None:
                continue
            by_others = told.limit - told.remaining - window.used(now) - margins[told.unit]
            reset_s = WINDOW_S if told.reset_s is None else min(told.reset_s, WINDOW_S)
            window.add(by_others, now + reset_s)

    def _margins(self) -> Amounts:
        return _amounts(*self._estimate.margins(self._open)) | {"requests": 0.0}
