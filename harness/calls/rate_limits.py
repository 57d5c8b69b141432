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
MAX_COUNTING_DELAY_S = 2.0  # a provider has certainly counted a call so long after it was sent
EXPIRIES_PER_S = 2  # uses within half a second expire together, to save memory
ROUNDING = 1e-6
ROUNDING_S = 1e-6
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
        """Replace the recorded use with what `state` has returned.

        Args:
            level: The units that were used recently.
            level_at: When the level was computed (seconds).
            uses: The amounts in the window, by the half-second in which they leave it.
        """
        self._uses = uses  # amounts by the half-second in which they leave the window
        self._sum = 0.0
        self._pruned_at = -1
        self._level = level  # units used recently, draining at the limit's rate (a leaky bucket)
        self._level_at = level_at

    def state(self) -> tuple[float, float, dict[int, float]]:
        """Return the recorded use, as arguments for `restore`."""
        return self._level, self._level_at, self._uses

    def used_amount(self, now: float) -> float:
        """Return the units used in the window, including reservations for unanswered calls."""
        expiry_now = int(now * EXPIRIES_PER_S)
        if expiry_now != self._pruned_at:  # entries too far ahead predate a clock reset
            latest = expiry_now + (WINDOW_S + MAX_COUNTING_DELAY_S + 1) * EXPIRIES_PER_S
            uses = {end: used for end, used in self._uses.items() if expiry_now < end <= latest}
            self._uses = uses
            self._sum = sum(uses.values())
            self._pruned_at = expiry_now
        return self._sum

    def wait_s(self, amount: float, margin: float, now: float) -> float:
        """Return the minimum number of seconds until an amount may be used.

        An amount above the limit may be used once the window is empty.

        Args:
            amount: The units.
            margin: How many units unanswered calls may use beyond their reservations.
            now: The current time (seconds).
        """
        used = self.used_amount(now)
        if used + margin + amount > self.limit and self._uses:
            # An answer may free part of a reservation earlier: the caller asks again then.
            return max(min(self._uses) / EXPIRIES_PER_S - now, 0.001)
        ahead_s = self._drain_level(now) * WINDOW_S / self.limit - BURST_S
        return ahead_s if ahead_s > ROUNDING_S else 0.0

    def available(self, margin: float, now: float) -> float:
        """Return how many units may be used now (0 or less: none).

        ``margin`` is how many units unanswered calls may use beyond their reservations.
        """
        burst = BURST_S * self.limit / WINDOW_S - self._drain_level(now)
        return min(self.limit - self.used_amount(now) - margin, burst)

    def reserve(self, amount: float, now: float) -> None:
        """Reserve the amount that a call, sent now, is expected to use."""
        self.add(amount, now + MAX_COUNTING_DELAY_S + WINDOW_S)
        self.add_to_level(amount, now)

    def settle(self, expected: float, actual: float, sent_at: float, now: float) -> None:
        """Replace a call's expected use with its actual use.

        Args:
            expected: The units that were reserved for the call.
            actual: The units that it has used.
            sent_at: When it was sent (seconds).
            now: The current time (seconds).
        """
        expiry = ceil((sent_at + MAX_COUNTING_DELAY_S + WINDOW_S) * EXPIRIES_PER_S)
        if expiry in self._uses:
            self._sum -= expected
            self._uses[expiry] -= expected
            if self._uses[expiry] < ROUNDING:
                del self._uses[expiry]
        self.add(actual, min(now, sent_at + MAX_COUNTING_DELAY_S) + WINDOW_S)
        self.add_to_level(actual - expected, now)

    def add_to_level(self, amount: float, now: float) -> None:
        """Add an amount, which may be negative, to the level that spreads the use over time."""
        self._level = max(0.0, self._drain_level(now) + amount)

    def observe(self, used: float, now: float, until: float) -> None:
        """Add what the provider has counted beyond the recorded use.

        Args:
            used: The provider's count.
            now: The current time (seconds).
            until: When the provider forgets its count (seconds).
        """
        self.add(used - self.used_amount(now), until)

    def add(self, amount: float, until: float) -> None:
        """Add an amount, if above 0, that leaves the window at ``until`` (seconds)."""
        end = ceil(until * EXPIRIES_PER_S)
        if amount > 0 and end > self._pruned_at:
            self._uses[end] = self._uses.get(end, 0.0) + amount
            self._sum += amount

    def _drain_level(self, now: float) -> float:
        """Lower the level by what has drained since the last time, and return it."""
        drained = (now - self._level_at) * self.limit / WINDOW_S
        is_reset = now < self._level_at - WINDOW_S  # the clock was reset by a reboot
        self._level = 0.0 if is_reset else max(0.0, self._level - drained)
        self._level_at = now
        return self._level


Uses = dict[Unit, tuple[float, float, dict[int, float]]]
"""The recorded use of a model's limits: for each unit, what `SlidingWindow.state` returns."""


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

LOCK_RETRY_S = 0.01  # until the next try if another process is admitting calls
MIN_LEARNED_CALLS = 20  # the moving means are trusted after so many calls
MEAN_WINDOW_CALLS = 200  # recent calls in the moving means
SIGMAS = 4.0  # standard errors of the forecasts that a margin covers

# Assumed until the means are trusted:
ASSUMED_CHARS_PER_TOKEN = 2.0  # few, as in code
ASSUMED_MESSAGE_TOKENS = 20  # of a message, in addition to its text
ASSUMED_OUTPUT_GROWTH = 3  # ratio of the expected output to the longest answer so far
ASSUMED_OUTPUT_TOKENS = 1000  # if the run file sets no maximum


class Demand(NamedTuple):
    """The limits that a process shares, and how much of each it could use now, by unit."""

    limits: Amounts  # units a minute
    next_calls: Amounts  # used by the largest of the calls that are next
    queued: Amounts  # used by all calls that could be sent now
    margins: Amounts  # may be used by the unanswered calls beyond their reservations


class Reservation(NamedTuple):
    """A call's reservation: when the call was sent (seconds), and its expected use by unit.

    ``parent`` is the reservation in the limits of which a shard has a part.
    """

    sent_at: float
    amounts: Amounts
    parent: Reservation | None = None


def _format_limit(limit: float, unit: Unit) -> str:
    return f"{limit:,} {unit.replace('_', ' ')} a minute"


def _amounts(input_tokens: float, output_tokens: float, requests: int = 1) -> Amounts:
    return {
        "requests": requests,
        "tokens": input_tokens + output_tokens,
        "input_tokens": input_tokens,
        "output_tokens": output_tokens,
    }


class WaitingCalls:
    """The calls of a limiter that wait for rate limits."""

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
        admit: Admits the calls that the windows allow.
    """

    windows: dict[Unit, SlidingWindow]
    demand: Callable[[], Demand]
    admit: Callable[[], None]

    def clock(self) -> float:
        """Return the time (seconds) on a clock that all machines share, or slightly later."""
        raise NotImplementedError

    async def aclose(self) -> None:
        """Give back what this process was granted but has not used."""
        raise NotImplementedError


class RateLimits:
    """The rate limits of one model, with a window for each known limit.

    Args:
        user_limits: The user's limits (units per minute). A provider's lower limit applies.
        shared_path: File in which the processes of this machine count their use of the user's
            limits. None: each process counts only its own use.
        shared_rates: Shares the user's limits with processes of other machines instead.
        parent: The limits of which these are a shard's part. Calls keep to both.
        clock: Returns the current time in seconds.

    Attributes:
        limiters: The limiters that share these limits. When a call ends, all may admit new calls.
        waiting_for: What the last call that could not be sent is waiting for.
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
        self._provider_limits: dict[Unit, int] = {}
        self._lower_limits: dict[Unit, str] = {}
        self._windows: dict[Unit, SlidingWindow] = {}
        self._pending: list[Callable[[], None]] = []
        """Changes to shared windows, applied when this process next locks the file."""
        self._estimate = TokenEstimate()
        self._n_unanswered = 0
        self.limiters: WeakSet[WaitingCalls] = WeakSet()
        self.waiting_for = ""
        self.report: Report = lambda _: None
        self.set_limits(user_limits)

    def set_limits(self, user_limits: Mapping[Unit, int]) -> None:
        """Replace the user's limits (units per minute), but keep the recorded use."""
        self._user_limits = dict(user_limits)
        if user_limits and self._share and self._file is None and sys.platform != "win32":
            with contextlib.suppress(OSError):  # each process then applies the limits separately
                self._file = SharedUseFile(self._share)
        for unit in LIMIT_KEYS:
            self._set_window(unit)

    def _set_window(self, unit: Unit) -> None:
        """Set a unit's window to the lower of the user's and the provider's limit, if any."""
        by_source = (self._user_limits, self._provider_limits)
        limit = min((limits[unit] for limits in by_source if unit in limits), default=None)
        if limit is None:
            self._windows.pop(unit, None)
            return
        if self._shared is not None and unit in self._user_limits:
            self._windows[unit] = self._shared.windows[unit]
        self._windows.setdefault(unit, SlidingWindow(limit)).limit = limit

    @contextlib.contextmanager
    def lock(self) -> Iterator[bool]:
        """Lock the windows that processes share, if any, and yield whether this succeeded."""
        with contextlib.ExitStack() as stack:
            is_locked = True
            if self.parent is not None:
                is_locked = stack.enter_context(self.parent.lock())
            if is_locked:
                is_locked = stack.enter_context(self._lock_shared_file())
            if not is_locked:
                self.waiting_for = "another process, which has locked their file"
            yield is_locked

    @contextlib.contextmanager
    def _lock_shared_file(self) -> Iterator[bool]:
        """Lock the shared file, if any, and load its windows. They are saved after the block."""
        file = self._file
        if file is None or not self._user_limits:
            yield True
            return
        with file.lock() as is_locked:
            if not is_locked:
                yield False
                return
            shared = {unit: self._windows[unit] for unit in self._user_limits}
            uses = file.load()
            for unit, window in shared.items():
                window.restore(*uses.get(unit, (0.0, 0.0, {})))
            for change in self._pending:
                change()
            self._pending.clear()
            yield True
            file.save(uses | {unit: window.state() for unit, window in shared.items()})

    def _apply_change(self, unit: Unit, change: Callable[[], None]) -> None:
        if self._file is not None and unit in self._user_limits:
            self._pending.append(change)
        else:
            change()

    def wait_s(self, request: Request) -> float:
        """Return the minimum number of seconds until a request may be sent.

        If it is not 0, the limit that the request waits for is set as `waiting_for`.
        """
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
                self.waiting_for = (
                    window.reason or f"the limit of {_format_limit(window.limit, unit)}"
                )
        return longest

    def reserve(self, request: Request) -> Reservation | None:
        """Reserve a request's expected use, and return the reservation, or None without limits."""
        if not self._windows:
            return None
        now = self._clock()
        amounts = _amounts(*self._estimate.expected_tokens(request))
        amounts = {unit: amounts[unit] for unit in self._windows}
        for unit, amount in amounts.items():
            self._windows[unit].reserve(amount, now)
        self._n_unanswered += 1
        in_parent = None if self.parent is None else self.parent.reserve(request)
        return Reservation(now, amounts, in_parent)

    def settle(
        self,
        reservation: Reservation | None,
        request: Request,
        usage: Usage | None,
        used: UnreportedUse = "all",
    ) -> None:
        """Replace a reservation, if there is one, with the request's actual use.

        Args:
            reservation: The reservation, or None if the request was not limited.
            request: The request.
            usage: The usage that the provider reported, or None if it reported none.
            used: What counts as the request's use without ``usage``.
        """
        if reservation is None:
            return
        if self.parent is not None:
            self.parent.settle(reservation.parent, request, usage, used)
        now = self._clock()
        self._n_unanswered -= 1
        actual: Mapping[Unit, float] = reservation.amounts
        if usage is not None:
            self._estimate.update(request, usage)
            actual = _amounts(usage.input_tokens, usage.output_tokens)
        elif used != "all":
            actual = _amounts(0, 0, requests=used == "request")
        for unit, expected in reservation.amounts.items():
            if unit in self._windows:
                settle = self._windows[unit].settle
                self._apply_change(
                    unit, partial(settle, expected, actual[unit], reservation.sent_at, now)
                )
        if len(self.limiters) > 1:
            self._serve()

    def _serve(self) -> None:
        for limiter in list(self.limiters):
            limiter.admit()

    def _demand(self) -> Demand:
        next_calls = dict.fromkeys(self._user_limits, 0.0)
        queued = dict(next_calls)
        calls = self._n_unanswered  # and those that the next grant may admit
        for limiter in list(self.limiters):
            for index, request in enumerate(limiter.next_requests()):
                calls += 1
                amounts = _amounts(*self._estimate.expected_tokens(request))
                for unit in queued:
                    queued[unit] += amounts[unit]
                    if index == 0:
                        next_calls[unit] = max(next_calls[unit], amounts[unit])
        limits = {unit: self._windows[unit].limit for unit in self._user_limits}
        return Demand(limits, next_calls, queued, self._margins(calls))

    async def aclose(self) -> None:
        """Give back to other machines what this process was granted but has not used."""
        if self._shared is not None:
            await self._shared.aclose()

    def observe(self, allowances: Iterable[Allowance]) -> None:
        """Apply the limits that the provider reports.

        If less remains of a limit than expected, the difference counts as used.
        """
        now = self._clock()
        margins = self._margins()
        lower_limits = dict(self._lower_limits)
        for allowance in allowances:
            unit = allowance.unit
            limit = allowance.limit
            if limit is None or limit < 1:
                continue
            stated = self._user_limits.get(unit)
            if stated and limit < stated:
                key = f"limits.{LIMIT_KEYS[unit]}"
                lower_limits[unit] = f"{_format_limit(limit, unit)} ({key} is {stated:,})"
            elif stated is None and allowance.remaining == 0:
                lower_limits[unit] = f"{_format_limit(limit, unit)}, all of them used"
            self._provider_limits[unit] = limit
            self._set_window(unit)
            if allowance.remaining is None:
                continue
            used = limit - allowance.remaining - margins[unit]
            reset_s = WINDOW_S if allowance.reset_s is None else min(allowance.reset_s, WINDOW_S)
            window = self._windows[unit]
            self._apply_change(unit, partial(window.observe, used, now, now + reset_s))
        if lower_limits != self._lower_limits:
            self._lower_limits = lower_limits
            self.report(f"the provider's headers allow {', '.join(lower_limits.values())}")

    def _margins(self, calls: int | None = None) -> Amounts:
        margins = self._estimate.margins(self._n_unanswered if calls is None else calls)
        return _amounts(*margins, requests=0)


class SharedUseFile:
    """A file in which all processes of this machine record their use of a model's limits."""

    _decoder = msgspec.msgpack.Decoder(Uses)

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        finalize(self, os.close, self._descriptor)

    @contextlib.contextmanager
    def lock(self) -> Iterator[bool]:
        """Lock the file in a ``with`` block. Yield False if another process has locked it."""
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            yield False
            return
        try:
            yield True
        finally:
            fcntl.flock(self._descriptor, fcntl.LOCK_UN)

    def load(self) -> Uses:
        """Return the recorded use, empty if the file is new or damaged."""
        with contextlib.suppress(OSError, msgspec.MsgspecError):
            content = os.pread(self._descriptor, 1 << 16, 0)
            return self._decoder.decode(content[4 : 4 + int.from_bytes(content[:4])])
        return {}

    def save(self, uses: Uses) -> None:
        """Write the recorded use with one system call, ignoring errors."""
        content = msgspec.msgpack.encode(uses)
        with contextlib.suppress(OSError):  # if the disk is full, the cache reports it
            os.pwrite(self._descriptor, len(content).to_bytes(4) + content, 0)


class _Mean:
    """A moving mean, and the mean square error of forecasting each value by it."""

    def __init__(self) -> None:
        self.n_values = 0
        self.mean = 0.0
        self.square_error = 0.0  # in tokens squared

    def add(self, value: float, weight: float) -> None:
        """Add a value. ``weight`` converts the forecast's error to tokens."""
        rate = 1 / min(self.n_values + 1, MEAN_WINDOW_CALLS)
        error = value - self.mean
        if self.n_values:
            self.square_error += rate * ((error * weight) ** 2 - self.square_error)
        self.mean += rate * error
        self.n_values += 1


class TokenEstimate:
    """A forecast of how many tokens a model's calls will use, based on earlier calls.

    For the first `MIN_LEARNED_CALLS` calls, the forecast is a generous bound.
    """

    def __init__(self) -> None:
        self._per_character = _Mean()
        self._output = _Mean()
        self._longest_output = 1.0  # tokens

    def expected_tokens(self, request: Request) -> tuple[float, float]:
        """Return the expected input and output tokens of a request."""
        n_characters = count_characters(request)
        n_answers = 1 + len(request.others)
        output: float = request.decoding.max_tokens or ASSUMED_OUTPUT_TOKENS
        if self._output.n_values >= MIN_LEARNED_CALLS:
            output = min(self._output.mean, output)
            return n_characters * self._per_character.mean, output * n_answers
        if self._output.n_values:  # max_tokens of 8,192 says little if answers have 20
            output = min(output, ASSUMED_OUTPUT_GROWTH * self._longest_output)
        text_tokens = n_characters / ASSUMED_CHARS_PER_TOKEN
        return text_tokens + ASSUMED_MESSAGE_TOKENS * len(request.sent_messages), output * n_answers

    def update(self, request: Request, usage: Usage) -> None:
        """Update the forecast with the token usage of a finished call."""
        n_characters = max(1, count_characters(request))
        output = usage.output_tokens / (1 + len(request.others))
        self._per_character.add(usage.input_tokens / n_characters, n_characters)
        self._output.add(output, 1.0)
        self._longest_output = max(self._longest_output, output)

    def margins(self, calls: int) -> tuple[float, float]:
        """Return how many input and output tokens calls may use, in total, beyond their forecasts.

        ``calls`` is the number of calls.
        """
        spread = SIGMAS * sqrt(calls)
        input_error = sqrt(self._per_character.square_error)
        return spread * input_error, spread * sqrt(self._output.square_error)


def count_characters(request: Request) -> int:
    """Return the number of characters in the messages of a request that are sent."""
    return sum(len(message.content) for message in request.sent_messages)
