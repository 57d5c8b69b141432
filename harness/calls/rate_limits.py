"""A model's rate limits: those set by the user and those reported by the provider.

Each limit applies to a sliding window of 60 seconds. A call reserves its expected use before it is
sent. Limits set by the user are shared by all processes of a machine, except on Windows, or of
several machines (`SharedRates`).
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
from typing import Literal, NamedTuple
from weakref import WeakSet, finalize

import msgspec

from harness.calls.signals import Report
from harness.records import Allowance, Request, Usage

Unit = Literal["requests", "tokens", "input_tokens", "output_tokens"]

Amounts = dict[Unit, float]

WINDOW_S = 60.0
MAX_COUNTING_DELAY_S = (
    2.0  # seconds within which a provider has certainly counted a call that was sent
)
EXPIRIES_PER_S = (
    2  # expiry times per second: uses within half a second expire together, to save memory
)
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
        self.restore(0.0, 0.0, {})

    def restore(self, level: float, level_at: float, uses: dict[int, float]) -> None:
        """Replace the recorded use with values returned by `saved`."""
        self._uses = uses  # amounts by the half-second in which they leave the window
        self._sum = 0.0
        self._pruned_at = -1
        self._level = level  # units used recently, draining at the limit's rate (a leaky bucket)
        self._level_at = level_at

    def state(self) -> tuple[float, float, dict[int, float]]:
        """Return the recorded use, as arguments for `load`."""
        return self._level, self._level_at, self._uses

    def used_amount(self, now: float) -> float:
        """Return the units used in the window, including those reserved for unanswered calls."""
        present = int(now * EXPIRIES_PER_S)
        if present != self._pruned_at:  # entries too far ahead predate a clock reset
            last = present + (WINDOW_S + MAX_COUNTING_DELAY_S + 1) * EXPIRIES_PER_S
            self._uses = {end: used for end, used in self._uses.items() if present < end <= last}
            self._sum = sum(self._uses.values())
            self._pruned_at = present
        return self._sum

    def wait_s(self, amount: float, margin: float, now: float) -> float:
        """Return the minimum number of seconds until an amount may be used.

        ``margin`` is the number of units that unanswered calls may use beyond their reservations.
        An amount above the limit is allowed once the window is empty.
        """
        used = self.used_amount(now)
        if used + margin + amount > self.limit and self._uses:
            # An answer may free part of a reservation earlier: the caller asks again then.
            return max(min(self._uses) / EXPIRIES_PER_S - now, 0.001)
        ahead_s = self._drained(now) * WINDOW_S / self.limit - BURST_S
        return ahead_s if ahead_s > ROUNDING_S else 0.0

    def available(self, margin: float, now: float) -> float:
        """Return the number of units that may be used now (0 or less: none)."""
        burst = BURST_S * self.limit / WINDOW_S - self._drained(now)
        return min(self.limit - self.used_amount(now) - margin, burst)

    def reserve(self, amount: float, now: float) -> None:
        """Reserve the amount that a call, sent at the time ``now``, is expected to use."""
        self.add(amount, now + MAX_COUNTING_DELAY_S + WINDOW_S)
        self.add_to_level(amount, now)

    def settle(self, expected: float, actual: float, sent: float, now: float) -> None:
        """Replace the expected use of a call, sent at the time ``sent``, with its actual use."""
        reserved = ceil((sent + MAX_COUNTING_DELAY_S + WINDOW_S) * EXPIRIES_PER_S)
        if reserved in self._uses:
            self._sum -= expected
            self._uses[reserved] -= expected
            if self._uses[reserved] < ROUNDING:
                del self._uses[reserved]
        self.add(actual, min(now, sent + MAX_COUNTING_DELAY_S) + WINDOW_S)
        self.add_to_level(actual - expected, now)

    def add_to_level(self, amount: float, now: float) -> None:
        """Count an amount, which may be negative, for spreading the use over time."""
        self._level = max(0.0, self._drained(now) + amount)

    def observe(self, used: float, now: float, until: float) -> None:
        """Add what the provider has counted beyond the recorded use.

        The provider forgets its count ``used`` at ``until`` (seconds).
        """
        self.add(used - self.used_amount(now), until)

    def add(self, amount: float, until: float) -> None:
        """Add an amount, if above 0, that leaves the window at ``until`` (seconds)."""
        end = ceil(until * EXPIRIES_PER_S)
        if amount > 0 and end > self._pruned_at:
            self._uses[end] = self._uses.get(end, 0.0) + amount
            self._sum += amount

    def _drained(self, now: float) -> float:
        drained = (now - self._level_at) * self.limit / WINDOW_S
        is_reset = now < self._level_at - WINDOW_S  # the clock was reset by a reboot
        self._level = 0.0 if is_reset else max(0.0, self._level - drained)
        self._level_at = now
        return self._level


Uses = dict[Unit, tuple[float, float, dict[int, float]]]
"""The recorded use of a model's limits: for each unit, what `SlidingWindow.saved` returns."""


if sys.platform != "win32":
    import fcntl

LIMIT_KEYS: Mapping[Unit, str] = {
    "requests": "rpm",
    "tokens": "tpm",
    "input_tokens": "input_tpm",
    "output_tokens": "output_tpm",
}
"""For each unit, its key in the section ``limits`` of a run file."""

UnreportedUse = Literal["all", "request", "nothing"]
"""What counts as a call's use if its usage was not reported.

It is the whole reservation, only one request, or nothing.
"""

LOCK_RETRY_S = 0.01  # seconds until the next try if another process is admitting calls
MIN_LEARNED_CALLS = 20  # number of ended calls after which the moving means are trusted
MEAN_WINDOW_CALLS = 200  # number of recent calls in the moving means
SIGMAS = 4.0  # standard errors of the estimates that a margin covers
ASSUMED_CHARS_PER_TOKEN = (
    2.0  # assumed characters per token until the mean is trusted: few, as for code
)
ASSUMED_MESSAGE_TOKENS = 20  # assumed tokens of a message in addition to its text
ASSUMED_OUTPUT_GROWTH = (
    3  # until then, the expected output is this many times the longest answer so far
)
ASSUMED_OUTPUT_TOKENS = 1000  # assumed output tokens if the run file sets no maximum


class Demand(NamedTuple):
    """The limits that a process shares, and how much it would use of each now, by unit."""

    limits: Amounts  # units a minute
    next_calls: Amounts  # used by the largest of the calls that are next
    queued: Amounts  # used by all calls that could be sent now
    margins: Amounts  # may be used by the unanswered calls beyond their reservations


class Reservation(NamedTuple):
    """A reservation for a call: when the call was sent (seconds), and its expected use by unit.

    ``undivided`` is that in the limits of which a shard has a part.
    """

    sent_at: float
    amounts: Amounts
    parent: Reservation | None = None


def _a_minute(limit: float, unit: Unit) -> str:
    return f"{limit:,} {unit.replace('_', ' ')} a minute"


def _amounts(read: float, written: float, requests: int = 1) -> Amounts:
    return {
        "requests": requests,
        "tokens": read + written,
        "input_tokens": read,
        "output_tokens": written,
    }


class WaitingCalls:
    """Calls that wait for rate limits."""

    def next_requests(self) -> Iterator[Request]:
        """Return the waiting requests that could be sent now if there were no rate limits."""
        raise NotImplementedError

    def admit(self) -> None:
        """Admit the calls that the limits allow."""
        raise NotImplementedError


class SharedRates:
    """A process's part of a model's rate limits that processes of several machines share.

    Attributes:
        windows: A window for each unit.
        demand: Returns the amounts that the process could use now.
        serve: Admits the calls for which there is room.
    """

    windows: dict[Unit, SlidingWindow]
    demand: Callable[[], Demand]
    admit: Callable[[], None]

    def clock(self) -> float:
        """Return the time in seconds that all machines share, or slightly later."""
        raise NotImplementedError

    async def aclose(self) -> None:
        """Give back what this process was granted but has not used."""
        raise NotImplementedError


class RateLimits:
    """The rate limits of one model, with a window for each known limit.

    Args:
        stated: The user's limits (units per minute). If the provider's limit is lower, it applies.
        share: File in which the processes of this machine count their use of the user's limits.
            None: each process counts only its own.
        shared: Shares the user's limits with processes of other machines instead.
        undivided: The limits of which these are a shard's part. Calls keep to both.
        clock: Returns the current time in seconds.

    Attributes:
        limiters: The limiters that share these limits. When a call ends, all may admit new calls.
        reason: What the last call that could not be sent is waiting for.
        report: Receives a message if the provider's limits are lower than the user's, or used up.
    """

    def __init__(
        self,
        user_limits: Mapping[Unit, int],
        *,
        shared_path: Path | None = None,
        shared_rates: SharedRates | None = None,
        parent: RateLimits | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._clock = clock
        self._share = shared_path
        self._shared = shared_rates
        self.parent = parent
        if shared_rates is not None:
            self._clock = shared_rates.clock
            shared_rates.demand = self._demand
            shared_rates.admit = self._serve
        self._file: SharedUseFile | None = None
        self._reported: dict[Unit, int] = {}
        self._lower: dict[Unit, str] = {}
        self._windows: dict[Unit, SlidingWindow] = {}
        self._pending: list[Callable[[], None]] = []
        """Changes to shared windows, applied when this process next locks the file."""
        self._estimate = TokenEstimate()
        self._open = 0
        self.limiters: WeakSet[WaitingCalls] = WeakSet()
        self.waiting_for = ""
        self.report: Report = lambda _: None
        self.set_limits(user_limits)

    def set_limits(self, user_limits: Mapping[Unit, int]) -> None:
        """Replace the user's limits (units per minute), but keep the recorded use."""
        self._stated = dict(user_limits)
        if user_limits and self._share and self._file is None and sys.platform != "win32":
            with contextlib.suppress(OSError):  # each process then applies the limits separately
                self._file = SharedUseFile(self._share)
        for unit in LIMIT_KEYS:
            self._limit(unit)

    def _limit(self, unit: Unit) -> None:
        limits = [limits[unit] for limits in (self._stated, self._reported) if unit in limits]
        if limits:
            if self._shared is not None and unit in self._stated:
                self._windows[unit] = self._shared.windows[unit]
            self._windows.setdefault(unit, SlidingWindow(min(limits))).limit = min(limits)
        else:
            self._windows.pop(unit, None)

    @contextlib.contextmanager
    def lock(self) -> Iterator[bool]:
        """Lock the shared windows, if any, and yield whether this succeeded."""
        with contextlib.ExitStack() as stack:
            free = True
            if self.parent is not None:
                free = stack.enter_context(self.parent.lock())
            if free:
                free = stack.enter_context(self._exclusive_part())
            if not free:
                self.waiting_for = "another process, which has locked their file"
            yield free

    @contextlib.contextmanager
    def _exclusive_part(self) -> Iterator[bool]:
        file = self._file
        if file is None or not self._stated:
            yield True
            return
        with file.lock() as ours:
            if not ours:
                yield False
                return
            shared = {unit: self._windows[unit] for unit in self._stated}
            uses = file.load()
            for unit, window in shared.items():
                window.restore(*uses.get(unit, (0.0, 0.0, {})))
            for change in self._pending:
                change()
            self._pending.clear()
            yield True
            file.save(uses | {unit: window.state() for unit, window in shared.items()})

    def _change(self, unit: Unit, change: Callable[[], None]) -> None:
        if self._file is not None and unit in self._stated:
            self._pending.append(change)
        else:
            change()

    def wait_s(self, request: Request) -> float:
        """Return the minimum number of seconds until a request may be sent."""
        if not self._windows:
            return 0.0
        now = self._clock()
        margins = self._margins()
        amounts = _amounts(*self._estimate.expected_tokens(request))
        longest = 0.0
        if self.parent is not None:
            longest = self.parent.wait_s(request)
            self.waiting_for = self.parent.waiting_for
        for unit, window in self._windows.items():
            wait = window.wait_s(amounts[unit], margins[unit], now)
            if wait > longest:
                longest = wait
                self.waiting_for = window.reason or f"the limit of {_a_minute(window.limit, unit)}"
        return longest

    def reserve(self, request: Request) -> Reservation | None:
        """Reserve a request's expected use. Return the reservation (None if nothing is limited)."""
        if not self._windows:
            return None
        now = self._clock()
        amounts = _amounts(*self._estimate.expected_tokens(request))
        amounts = {unit: amounts[unit] for unit in self._windows}
        for unit, amount in amounts.items():
            self._windows[unit].reserve(amount, now)
        self._open += 1
        undivided = None if self.parent is None else self.parent.reserve(request)
        return Reservation(now, amounts, undivided)

    def settle(
        self,
        reservation: Reservation | None,
        request: Request,
        usage: Usage | None,
        used: UnreportedUse = "all",
    ) -> None:
        """Replace a reservation, if there is one, with the request's actual use.

        If ``usage`` is None, ``used`` says what counts as the request's use.
        """
        if reservation is None:
            return
        if self.parent is not None:
            self.parent.settle(reservation.parent, request, usage, used)
        now = self._clock()
        self._open -= 1
        actual: Mapping[Unit, float] = reservation.amounts
        if usage is not None:
            self._estimate.update(request, usage)
            actual = _amounts(usage.input_tokens, usage.output_tokens)
        elif used != "all":
            actual = _amounts(0, 0, requests=used == "request")
        for unit, expected in reservation.amounts.items():
            if unit in self._windows:
                settle = self._windows[unit].settle
                self._change(
                    unit, partial(settle, expected, actual[unit], reservation.sent_at, now)
                )
        if len(self.limiters) > 1:
            self._serve()

    def _serve(self) -> None:
        for limiter in list(self.limiters):
            limiter.admit()

    def _demand(self) -> Demand:
        heads = dict.fromkeys(self._stated, 0.0)
        queued = dict(heads)
        calls = self._open  # and those that the next grant may admit
        for limiter in list(self.limiters):
            for place, request in enumerate(limiter.next_requests()):
                calls += 1
                amounts = _amounts(*self._estimate.expected_tokens(request))
                for unit in queued:
                    queued[unit] += amounts[unit]
                    if place == 0:
                        heads[unit] = max(heads[unit], amounts[unit])
        limits = {unit: self._windows[unit].limit for unit in self._stated}
        return Demand(limits, heads, queued, self._margins(calls))

    async def aclose(self) -> None:
        """Give back to other machines what this process was granted but has not used."""
        if self._shared is not None:
            await self._shared.aclose()

    def observe(self, allowances: Iterable[Allowance]) -> None:
        """Apply the provider's limits. If less remains than expected, count the gap as used."""
        now = self._clock()
        margins = self._margins()
        lower = dict(self._lower)
        for allowance in allowances:
            unit = allowance.unit
            limit = allowance.limit
            if limit is None or limit < 1:
                continue
            stated = self._stated.get(unit)
            if stated and limit < stated:
                key = f"limits.{LIMIT_KEYS[unit]}"
                lower[unit] = f"{_a_minute(limit, unit)} ({key} is {stated:,})"
            elif stated is None and allowance.remaining == 0:
                lower[unit] = f"{_a_minute(limit, unit)}, all of them used"
            self._reported[unit] = limit
            self._limit(unit)
            if allowance.remaining is None:
                continue
            used = limit - allowance.remaining - margins[unit]
            reset_s = WINDOW_S if allowance.reset_s is None else min(allowance.reset_s, WINDOW_S)
            window = self._windows[unit]
            self._change(unit, partial(window.observe, used, now, now + reset_s))
        if lower != self._lower:
            self._lower = lower
            self.report(f"the provider's headers allow {', '.join(lower.values())}")

    def _margins(self, calls: int | None = None) -> Amounts:
        margins = self._estimate.margins(self._open if calls is None else calls)
        return _amounts(*margins, requests=0)


class SharedUseFile:
    """A file in which all processes of this machine record their use of a model's limits."""

    _decoder = msgspec.msgpack.Decoder(Uses)

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        finalize(self, os.close, self._file)

    @contextlib.contextmanager
    def lock(self) -> Iterator[bool]:
        """Hold the file's lock in a ``with`` block, or yield False if another process holds it."""
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            yield False
            return
        try:
            yield True
        finally:
            fcntl.flock(self._file, fcntl.LOCK_UN)

    def load(self) -> Uses:
        """Return the recorded use, empty if the file is new or damaged."""
        with contextlib.suppress(OSError, msgspec.MsgspecError):
            content = os.pread(self._file, 1 << 16, 0)
            return self._decoder.decode(content[4 : 4 + int.from_bytes(content[:4])])
        return {}

    def save(self, uses: Uses) -> None:
        """Write the recorded use with one system call, ignoring errors."""
        content = msgspec.msgpack.encode(uses)
        with contextlib.suppress(OSError):  # if the disk is full, the cache reports it
            os.pwrite(self._file, len(content).to_bytes(4) + content, 0)


class _Mean:
    """A moving mean that also tracks the mean square error of its own forecasts."""

    seen, value, error = 0, 0.0, 0.0

    def learn(self, value: float, weight: float) -> None:
        """Add a value. ``weight`` converts the error of the forecast to tokens."""
        rate = 1 / min(self.seen + 1, MEAN_WINDOW_CALLS)
        missed = value - self.value
        if self.seen:
            self.error += rate * ((missed * weight) ** 2 - self.error)
        self.value += rate * missed
        self.seen += 1


class TokenEstimate:
    """A forecast of how many tokens a model's calls will use, based on earlier calls.

    For the first `LEARNED` calls, the estimate is a generous bound.
    """

    def __init__(self) -> None:
        self._per_character = _Mean()
        self._output = _Mean()
        self._longest = 1.0

    def expected_tokens(self, request: Request) -> tuple[float, float]:
        """Return the expected input and output tokens of a request."""
        size = count_characters(request)
        answers = 1 + len(request.others)
        written: float = request.decoding.max_tokens or ASSUMED_OUTPUT_TOKENS
        if self._output.seen < MIN_LEARNED_CALLS:
            if self._output.seen:  # max_tokens of 8,192 says little if answers have 20
                written = min(written, ASSUMED_OUTPUT_GROWTH * self._longest)
            read = size / ASSUMED_CHARS_PER_TOKEN + ASSUMED_MESSAGE_TOKENS * len(
                request.sent_messages
            )
            return read, written * answers
        return size * self._per_character.value, min(self._output.value, written) * answers

    def update(self, request: Request, usage: Usage) -> None:
        """Update the estimates with the token usage of a finished call."""
        size = max(1, count_characters(request))
        output = usage.output_tokens / (1 + len(request.others))
        self._per_character.learn(usage.input_tokens / size, size)
        self._output.learn(output, 1.0)
        self._longest = max(self._longest, output)

    def margins(self, calls: int) -> tuple[float, float]:
        """Return how many tokens ``calls`` calls may use in total beyond their estimates."""
        spread = SIGMAS * sqrt(calls)
        return spread * sqrt(self._per_character.error), spread * sqrt(self._output.error)


def count_characters(request: Request) -> int:
    """Return the number of characters that a request sends."""
    return sum(len(message.content) for message in request.sent_messages)
