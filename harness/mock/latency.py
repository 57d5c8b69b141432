"""How long the model takes to answer.

>>> Latency.of(0.05).seconds(0.9)
0.05
>>> Latency.of("uniform:0.1:0.3").seconds(0.5)
0.2
"""

from __future__ import annotations

from dataclasses import dataclass
from math import exp, inf
from statistics import NormalDist

from harness.mock.errors import MockError

FORMS = "SECONDS, uniform:LOW:HIGH or lognormal:MEDIAN:SIGMA"
"""The ways in which a latency can be written."""

_NORMAL = NormalDist()


@dataclass(frozen=True, slots=True)
class Latency:
    """A distribution of seconds, held as written and evaluated by its quantiles.

    A quantile function needs no generator: one uniform number per request, and
    the sequence of latencies is as reproducible as those numbers are.
    """

    shape: str
    first: float
    second: float = 0.0

    @classmethod
    def of(cls, spec: float | str) -> Latency:
        """Read a latency as a user writes it (see `FORMS`).

        Raises: MockError.
        """
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
            raise MockError(f"Not a latency: {str(spec)!r}. Write {FORMS}.")
        return cls(shape, *values)

    def seconds(self, quantile: float) -> float:
        """The latency below which this share of all requests stays."""
        match self.shape:
            case "uniform":
                return self.first + (self.second - self.first) * quantile
            case "lognormal" if quantile > 0:
                return self.first * exp(self.second * _NORMAL.inv_cdf(quantile))
            case "lognormal":
                return 0.0
        return self.first

    def __str__(self) -> str:
        if self.shape == "constant":
            return f"{self.first:g}"
        return f"{self.shape}:{self.first:g}:{self.second:g}"
