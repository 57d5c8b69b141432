"""A model's rate limits: those the user states and those the provider reports.

A call reserves what it is expected to use before it is sent, and settles for what it has used
when it ends. Each limit is a sliding window of sixty seconds; tokens are estimated from the
calls before. The processes of a machine share their use of the limits that the user states.
"""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from math import ceil, sqrt
from pathlib import Path
from typing import Literal, NamedTuple, Protocol, get_args
from weakref import WeakSet, finalize

import msgspec

from harness.records import Allowance, Request, Usage

if sys.platform != "win32":
    import fcntl

Unit = Literal["requests", "tokens", "input_tokens", "output_tokens"]

UNITS: tuple[Unit, ...] = get_args(Unit)

Amounts = dict[Unit, float]

Used = Literal["all", "request", "nothing"]
"""What a call without usage has used: its reservation, no tokens, or nothing as it was not sent."""

WINDOW_S = 60.0
COUNTED_WITHIN_S = 2.0
"""Seconds after its sending by which a provider has surely counted a call."""
PER_S = 2
"""Uses of half a second leave the window together, so that it stays small."""
ROUNDING = ROUNDING_S = 1e-6
BURST_S = 5.0
"""The number of seconds' worth of a limit that may be used at once after a pause."""
LOCKED_S = 0.01
"""Pause while another process lets its calls in."""
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


def _amounts(read: float, written: float, requests: int = 1) -> Amounts:
    return {
        "requests": requests,
        "tokens": read + written,
        "input_tokens": read,
        "output_tokens": written,
    }


class Limiter(Protocol):
    """What waits for these limits; `serve` lets in the calls that may go now."""

    def serve(self) -> None: ...  # noqa: D102


class RateLimits:
    """The limits of one model: a window for each known limit.

    Args:
        stated: Units per minute, as set by the user. If the provider later reports a lower
            figure, that one counts.
        share: A file in which the processes of this machine share their use of stated limits.

    Attributes:
        limiters: Those that share these limits, served when one has freed capacity.
        reason: What the last call that had to wait waits for.
    """

    def __init__(
        self,
        stated: Mapping[Unit, int],
        *,
        share: Path | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._clock = clock
        self._share = share
        self._file: SharedFile | None = None
        self._reported: dict[Unit, int] = {}
        self._windows: dict[Unit, SlidingWindow] = {}
        self._pending: list[Callable[[], None]] = []
        """Changes to shared windows, made when this process next has the file."""
        self._estimate = TokenEstimate()
        self._open = 0
        self.limiters: WeakSet[Limiter] = WeakSet()
        self.reason = ""
        self.state(stated)

    def state(self, stated: Mapping[Unit, int]) -> None:
        """Replace the user's figures; what was used stays counted."""
        self._stated = dict(stated)
        if stated and self._share and self._file is None and sys.platform != "win32":
            with contextlib.suppress(OSError):  # each process then keeps to the limits alone
                self._file = SharedFile(self._share)
        for unit in UNITS:
            self._limit(unit)

    def _limit(self, unit: Unit) -> None:
        """Enforce the lower of the known figures of a unit, if there is any."""
        known = [figures[unit] for figures in (self._stated, self._reported) if unit in figures]
        if not known:
            self._windows.pop(unit, None)
        elif unit in self._windows:
            self._windows[unit].limit = min(known)
        else:
            self._windows[unit] = SlidingWindow(min(known))

    @contextlib.contextmanager
    def exclusive(self) -> Iterator[bool]:
        """Keep other processes from letting in calls; yield False if one does so right now."""
        if self._file is None or not self._stated:
            yield True
            return
        if not self._file.lock():
            self.reason = "another process, which has locked their file"
            yield False
            return
        try:
            shared = {unit: self._windows[unit] for unit in self._stated}
            uses = self._file.load()
            for unit, window in shared.items():
                window.load(*uses.get(unit, (0.0, 0.0, {})))
            for change in self._pending:
                change()
            self._pending.clear()
            yield True
            self._file.save(uses | {unit: window.state() for unit, window in shared.items()})
        finally:
            self._file.unlock()

    def _change(self, unit: Unit, change: Callable[[], None]) -> None:
        if self._file is not None and unit in self._stated:
            self._pending.append(change)
        else:
            change()

    def wait(self, request: Request) -> float:
        """Return the seconds until a request may be sent, at the earliest; 0 for now."""
        if not self._windows:
            return 0.0
        now, margins = self._clock(), self._margins()
        amounts = _amounts(*self._estimate.of(request))
        longest = 0.0
        for unit, window in self._windows.items():
            wait = window.wait(amounts[unit], margins[unit], now)
            if wait > longest:
                longest = wait
                self.reason = f"the limit of {window.limit:,} {unit.replace('_', ' ')} a minute"
        return longest

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
        used: Used = "all",
    ) -> None:
        """Record that a request has ended, given its reservation and what it has used."""
        if reservation is None:
            return
        now = self._clock()
        self._open -= 1
        actual: Mapping[Unit, float] = reservation.amounts
        if usage is not None:
            self._estimate.learn(request, usage)
            actual = _amounts(usage.input_tokens, usage.output_tokens)
        elif used != "all":
            actual = _amounts(0, 0, requests=used == "request")
        for unit, expected in reservation.amounts.items():
            if unit in self._windows:
                settle = self._windows[unit].settle
                self._change(unit, partial(settle, expected, actual[unit], reservation.sent, now))
        if len(self.limiters) > 1:
            for limiter in list(self.limiters):
                limiter.serve()

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
            self._change(reported.unit, partial(window.add, by_others, now + reset_s))

    def _margins(self) -> Amounts:
        return _amounts(*self._estimate.margins(self._open), requests=0)


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
        self.load(0.0, 0.0, {})

    def load(self, level: float, level_at: float, uses: dict[int, float]) -> None:
        """Replace the uses, by a window's `state`."""
        self._uses = uses
        """Amounts by when they leave the window, in half seconds."""
        self._sum, self._pruned_at = 0.0, -1
        self._level, self._level_at = level, level_at
        """Units used recently, draining at the limit's rate: a leaky bucket for the pace."""

    def state(self) -> tuple[float, float, dict[int, float]]:
        """Return the uses, for `load`."""
        return self._level, self._level_at, self._uses

    def used(self, now: float) -> float:
        """Units in the window, unanswered calls included."""
        gone = int(now * PER_S)
        if gone != self._pruned_at:  # what is too far ahead was used before the clock was reset
            last = gone + (WINDOW_S + COUNTED_WITHIN_S + 1) * PER_S
            self._uses = {at: used for at, used in self._uses.items() if gone < at <= last}
            self._sum, self._pruned_at = sum(self._uses.values()), gone
        return self._sum

    def wait(self, amount: float, margin: float, now: float) -> float:
        """Seconds until an amount may be used, at the earliest; 0 for now.

        An amount that exceeds the whole limit may go when nothing else is in the window: it is
        for the provider to refuse it. The unanswered calls may use ``margin`` units more.
        """
        used = self.used(now)
        if used + margin + amount > self.limit and self._uses:
            # An answer may also free what was reserved too much: the caller asks again then.
            return max(min(self._uses) / PER_S - now, 0.001)
        ahead_s = self._drained(now) * WINDOW_S / self.limit - BURST_S
        return ahead_s if ahead_s > ROUNDING_S else 0.0

    def take(self, amount: float, now: float) -> None:
        """Reserve the amount that a call sent now is expected to use."""
        self.add(amount, now + COUNTED_WITHIN_S + WINDOW_S)
        self._level = self._drained(now) + amount

    def settle(self, expected: float, actual: float, sent: float, now: float) -> None:
        """Replace a call's reservation with what it has actually used."""
        reserved = ceil((sent + COUNTED_WITHIN_S + WINDOW_S) * PER_S)
        if reserved in self._uses:
            self._sum -= expected
            self._uses[reserved] -= expected
            if self._uses[reserved] < ROUNDING:
                del self._uses[reserved]
        self.add(actual, min(now, sent + COUNTED_WITHIN_S) + WINDOW_S)
        self._level = max(0.0, self._drained(now) + actual - expected)

    def add(self, amount: float, until: float) -> None:
        """Count a use, ours or another's on the account, that leaves the window at `until`."""
        at = ceil(until * PER_S)
        if amount > 0 and at > self._pruned_at:
            self._uses[at] = self._uses.get(at, 0.0) + amount
            self._sum += amount

    def _drained(self, now: float) -> float:
        gone = (now - self._level_at) * self.limit / WINDOW_S
        reset = now < self._level_at - WINDOW_S  # the clock, by a reboot
        self._level, self._level_at = 0.0 if reset else max(0.0, self._level - gone), now
        return self._level


Uses = dict[Unit, tuple[float, float, dict[int, float]]]
"""The states of the windows of a model."""


class SharedFile:
    """What the processes of this machine have used of a model's limits in the last minute."""

    _decoder = msgspec.msgpack.Decoder(Uses)

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        finalize(self, os.close, self._file)

    def lock(self) -> bool:
        """Lock the file unless another process has."""
        with contextlib.suppress(OSError):
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        return False

    def unlock(self) -> None:
        """Let others have the file."""
        fcntl.flock(self._file, fcntl.LOCK_UN)

    def load(self) -> Uses:
        """Read the uses; none if the file is new or damaged."""
        with contextlib.suppress(OSError, msgspec.MsgspecError):
            content = os.pread(self._file, 1 << 16, 0)
            return self._decoder.decode(content[4 : 4 + int.from_bytes(content[:4])])
        return {}

    def save(self, uses: Uses) -> None:
        """Write the uses, by one system call."""
        content = msgspec.msgpack.encode(uses)
        with contextlib.suppress(OSError):  # a full disk, which the cache reports
            os.pwrite(self._file, len(content).to_bytes(4) + content, 0)


class _Mean:
    """A moving mean, and the mean square error of its own forecasts."""

    seen, value, error = 0, 0.0, 0.0

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

    Until a few calls have been seen, the estimate is a generous bound; then it is the mean so far,
    and the spread says how much may be missing for several calls together.
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
