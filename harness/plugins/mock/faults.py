"""Faults and latencies, which are drawn for each request.

A draw depends only on the seed, the request's model and body, and how many earlier requests had the
same model and body, so the order in which requests arrive has no effect.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from hashlib import blake2b
from math import exp, inf
from statistics import NormalDist
from typing import Any, Literal, get_args

from harness.plugins.mock.wire import MockError, Turn

LATENCY_FORMS = "SECONDS, uniform:LOW:HIGH or lognormal:MEDIAN:SIGMA"


def draw(seed: int, digest: str, attempt: int) -> tuple[float, float]:
    """Return two pseudo-random numbers in [0, 1), by seed, request and attempt."""
    noise = blake2b(f"{seed}:{digest}:{attempt}".encode(), digest_size=16).digest()
    # 53 bits: as many as a float holds, so that the result stays below 1.
    first, second = ((int.from_bytes(half) >> 11) / (1 << 53) for half in (noise[:8], noise[8:]))
    return first, second


# Ways to fail, by their names in options (docs/mock.md); the first are HTTP statuses.
Status = Literal["400", "401", "403", "404", "429", "500", "503", "529"]
# Well-formed replies, which a provider would charge for
FaultyAnswer = Literal["empty", "reasoning_only", "refusal", "content_filter"]
FalseAnswer = Literal["usage_zero", "usage_huge", "key_in_answer", "wrong_limits"]
Broken = Literal["reset", "stall", "stall_body", "trickle", "truncated_body", "invalid_json"]
Failed = Literal["error_body"]  # an error object with status 200
Hostile = Literal["gzip_bomb", "huge_body", "huge_headers", "redirect", "html", "key_in_error"]
Fault = Literal[Status, FaultyAnswer, FalseAnswer, Broken, Failed, Hostile]
FAULTS: tuple[Fault, ...] = get_args(Fault)
STATUSES: tuple[Fault, ...] = get_args(Status)
ANSWERS: tuple[Fault, ...] = (*get_args(FaultyAnswer), *get_args(FalseAnswer))
_FALSE_USAGE: Mapping[Fault | None, int] = {"usage_zero": 0, "usage_huge": 1_000_000}


def falsified(answer: dict[str, Any], fault: Fault | None) -> dict[str, Any]:
    """Replace the token counts in an answer if the fault says so, and return the answer."""
    if fault in _FALSE_USAGE:
        usage = "usageMetadata" if "usageMetadata" in answer else "usage"
        answer[usage] = {
            name: _FALSE_USAGE[fault] if isinstance(count, int) else count
            for name, count in answer[usage].items()
        }
    return answer


class FaultMix:
    """A mix of faults with their probabilities (``shares``).

    If there are ``texts``, only prompts that contain one of them meet faults.
    """

    def __init__(self, shares: Mapping[str, float], texts: Iterable[str] = ()) -> None:
        self.shares, self.texts = dict(shares), list(texts)
        self._bounds: list[tuple[float, Fault]] = []
        total = 0.0
        for name, share in shares.items():
            if not 0 <= share <= 1:
                raise MockError(f"The probability of fault {name} must be in 0..1, not {share}.")
            total += share
            self._bounds.append((total, _fault(name)))
        # Ten probabilities of 0.1 may add up to slightly more or less than 1.
        if total > 1 + 1e-9:
            raise MockError(f"The fault probabilities add up to {total:g}, which is more than 1.")

    def changed(self, shares: Mapping[str, float] | None, texts: Iterable[str] | None) -> FaultMix:
        """Return a mix with other shares or texts (None: the same)."""
        return FaultMix(
            self.shares if shares is None else shares, self.texts if texts is None else texts
        )

    def pick(self, number: float, turns: Sequence[Turn] = ()) -> Fault | None:
        """Return the fault that a uniform random number in [0, 1) selects for a prompt, if any."""
        if self.texts and not any(text in turn.text for text in self.texts for turn in turns):
            return None
        return next((fault for bound, fault in self._bounds if number < bound), None)


def parse_shares(options: Iterable[str]) -> dict[str, float]:
    """Parse options ``NAME=PROBABILITY``. Return the probabilities by name."""
    shares = {}
    for option in options:
        name, _, share = option.partition("=")
        try:
            shares[name.strip()] = float(share)
        except ValueError:
            raise MockError(f"Invalid fault {option!r}. Write NAME=PROBABILITY.") from None
    return shares


def _fault(name: str) -> Fault:
    for fault in FAULTS:
        if fault == name:
            return fault
    close = get_close_matches(name, FAULTS, n=1)
    hint = f"Did you mean {close[0]!r}?" if close else f"Faults: {', '.join(FAULTS)}."
    raise MockError(f"Unknown fault {name!r}. {hint}")


class Latency:
    """A distribution of seconds, written in one of `LATENCY_FORMS`, such as ``uniform:0.1:0.5``."""

    def __init__(self, spec: float | str) -> None:
        self.spec = str(spec)
        shape, *numbers = self.spec.split(":")
        self._shape = shape if numbers else "constant"
        try:
            self._values = [float(number) for number in numbers or [self.spec]]
        except ValueError:
            self._values = []
        needed = {"constant": 1, "uniform": 2, "lognormal": 2}.get(self._shape)
        disordered = self._shape == "uniform" and self._values != sorted(self._values)
        valid = len(self._values) == needed and all(0 <= value < inf for value in self._values)
        if disordered or not valid:
            raise MockError(f"Invalid latency {self.spec!r}. Write {LATENCY_FORMS}.")

    def seconds(self, quantile: float) -> float:
        """Return the distribution's value at ``quantile`` (below 1), such as the median for 0.5."""
        first, second = self._values[0], self._values[-1]
        if self._shape == "uniform":
            return first + (second - first) * quantile
        if self._shape == "lognormal":
            return first * exp(second * NormalDist().inv_cdf(quantile)) if quantile else 0.0
        return first
