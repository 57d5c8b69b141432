"""Faults and latencies, drawn for each request.

Draws are a hash of the seed, the body's digest and how often that body was requested. A shared
generator would hand out its numbers in order of arrival, which varies between runs as soon as
requests are concurrent. A retried request gets a new draw and can succeed.

>>> mix = FaultMix.of({"429": 0.1, "reset": 0.02})
>>> mix.pick(0.05), mix.pick(0.11), mix.pick(0.5)
(<Fault.RATE_LIMITED: '429'>, <Fault.RESET: 'reset'>, None)
>>> Latency.of("uniform:0.1:0.3").seconds(0.5)
0.2
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from enum import StrEnum
from hashlib import blake2b
from math import exp, inf
from statistics import NormalDist

from harness.mock.wire import MockError

LATENCY_FORMS = "SECONDS, uniform:LOW:HIGH or lognormal:MEDIAN:SIGMA"

_NORMAL = NormalDist()


def draw(seed: int, digest: str, attempt: int) -> tuple[float, float]:
    """Return two independent numbers in [0, 1) for the n-th request with this body.

    >>> draw(0, "c0ffee", 1) == draw(0, "c0ffee", 1) != draw(0, "c0ffee", 2)
    True
    """
    noise = blake2b(f"{seed}:{digest}:{attempt}".encode(), digest_size=16).digest()
    return _unit(noise[:8]), _unit(noise[8:])


def _unit(noise: bytes) -> float:
    # 53 bits: all that a float holds, so that the result stays below 1.
    return (int.from_bytes(noise, "big") >> 11) / (1 << 53)


class Fault(StrEnum):
    """A way to fail; users write the value.

    A number is that HTTP status.

    Attributes:
        RESET: The connection is reset before anything is sent.
        STALL: Nothing is ever sent.
        STALL_BODY: Half the body, then nothing more.
        TRICKLE: One byte of the body per second, but never the last. Every read succeeds; only a
            timeout on the whole request ends it.
        TRUNCATED_BODY: Half the body, then the connection is closed.
        INVALID_JSON: Half the body, as a complete HTTP response.
        EMPTY: An answer without text.
        REASONING_ONLY: The same, because reasoning used all tokens.
        REFUSAL: The model declines.
        CONTENT_FILTER: The provider's filter declines.
    """

    BAD_REQUEST = "400"
    RATE_LIMITED = "429"
    SERVER_ERROR = "500"
    UNAVAILABLE = "503"
    OVERLOADED = "529"
    RESET = "reset"
    STALL = "stall"
    STALL_BODY = "stall_body"
    TRICKLE = "trickle"
    TRUNCATED_BODY = "truncated_body"
    INVALID_JSON = "invalid_json"
    EMPTY = "empty"
    REASONING_ONLY = "reasoning_only"
    REFUSAL = "refusal"
    CONTENT_FILTER = "content_filter"

    @property
    def status(self) -> int | None:
        """The HTTP status, if the fault is one."""
        return int(self.value) if self.value.isdigit() else None

    @property
    def is_answer(self) -> bool:
        """Whether the reply is well formed, and paid for like any other."""
        return self in _ANSWERS


_ANSWERS = frozenset({Fault.EMPTY, Fault.REASONING_ONLY, Fault.REFUSAL, Fault.CONTENT_FILTER})


class FaultMix:
    """The share of requests that gets each fault; a request gets at most one."""

    def __init__(self, shares: Mapping[Fault, float]) -> None:
        self.shares = dict(shares)
        self._bounds: list[tuple[float, Fault]] = []
        total = 0.0
        for fault, share in self.shares.items():
            if not 0 <= share <= 1:
                raise MockError(f"The probability of fault {fault} must be in 0..1, not {share}.")
            total += share
            self._bounds.append((total, fault))
        # Ten times 0.1 adds up to a little less or more than 1.
        if total > 1 + 1e-9:
            raise MockError(f"The fault probabilities add up to {total:g}, which is more than 1.")

    @classmethod
    def of(cls, named: Mapping[str, float]) -> FaultMix:
        """Build a mix from fault names. Raises MockError with the nearest valid name."""
        return cls({_fault(name): share for name, share in named.items()})

    def pick(self, number: float) -> Fault | None:
        """Map a number in [0, 1) to a fault, or to None."""
        for bound, fault in self._bounds:
            if number < bound:
                return fault
        return None


def parse_shares(options: Iterable[str]) -> dict[str, float]:
    """Parse ``NAME=PROBABILITY`` options. Raises MockError."""
    shares = {}
    for option in options:
        name, _, share = option.partition("=")
        try:
            shares[name.strip()] = float(share)
        except ValueError:
            raise MockError(f"Invalid fault {option!r}. Write NAME=PROBABILITY.") from None
    return shares


def _fault(name: str) -> Fault:
    try:
        return Fault(name)
    except ValueError:
        names = [fault.value for fault in Fault]
        close = get_close_matches(name, names, n=1)
        hint = f"Did you mean {close[0]!r}?" if close else f"Faults: {', '.join(names)}."
        raise MockError(f"Unknown fault {name!r}. {hint}") from None


@dataclass(frozen=True, slots=True)
class Latency:
    """A distribution of seconds, evaluated by its quantile function.

    A quantile function needs no generator: one uniform number per request makes the latencies as
    reproducible as the draws.
    """

    shape: str
    first: float
    second: float = 0.0

    @classmethod
    def of(cls, spec: float | str) -> Latency:
        """Parse a latency written as in `LATENCY_FORMS`. Raises MockError."""
        shape, *numbers = f"constant:{spec}".split(":")
        if len(numbers) > 1:
            shape, *numbers = numbers
        try:
            values = [float(number) for number in numbers]
        except ValueError:
            values = []
        needed = {"constant": 1, "uniform": 2, "lognormal": 2}.get(shape)
        low_to_high = shape != "uniform" or values == sorted(values)
        if len(values) != needed or not all(0 <= v < inf for v in values) or not low_to_high:
            raise MockError(f"Invalid latency {str(spec)!r}. Write {LATENCY_FORMS}.")
        return cls(shape, *values)

    def seconds(self, quantile: float) -> float:
        """Return the latency that this share of requests stays below."""
        if self.shape == "uniform":
            return self.first + (self.second - self.first) * quantile
        if self.shape == "lognormal":
            return self.first * exp(self.second * _NORMAL.inv_cdf(quantile)) if quantile else 0.0
        return self.first

    def __str__(self) -> str:
        if self.shape == "constant":
            return f"{self.first:g}"
        return f"{self.shape}:{self.first:g}:{self.second:g}"
