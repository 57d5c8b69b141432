"""How long a run's calls took."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from msgspec import Struct


class Latencies(Struct, frozen=True, kw_only=True):
    """Seconds that calls took, each call once; those from the cache and failed ones are not in it.

    n: calls.
    quantiles: (101,) percentiles 0 to 100.
    """

    n: int
    mean: float
    quantiles: tuple[float, ...]

    @property
    def median(self) -> float:
        """Half of the calls took no longer."""
        return self.quantiles[50]


def latencies(seconds: Iterable[float]) -> Latencies | None:
    """Summarise them; None of no call.

    >>> latencies([1.0, 3.0]).median
    2.0
    """
    values = np.fromiter(seconds, np.float64)
    if not len(values):
        return None
    quantiles = np.percentile(values, np.arange(101))
    return Latencies(n=len(values), mean=float(values.mean()), quantiles=tuple(quantiles.tolist()))
