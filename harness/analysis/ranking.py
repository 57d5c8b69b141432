"""Whether two runs rank the groups alike: Kendall's tau-b, with an interval.

>>> tau_b([0.9, 0.5, 0.1], [0.8, 0.6, 0.2])
1.0
"""

from __future__ import annotations

from collections.abc import Sequence
from math import isnan

import numpy as np
from msgspec import Struct

from harness.analysis.pairing import Pairs

DRAWS = 2_000
MOST_WORK = 200_000_000
"""Draws times pairs: beyond it, fewer draws are made, but never fewer than `LEAST_DRAWS`."""
LEAST_DRAWS = 200

SEED = 20_260_000


class Ranking(Struct, frozen=True, kw_only=True):
    """How alike two runs rank the groups of a label.

    tau_b: 1 for the same order, -1 for the reverse; null where all groups of a run tie.
    ci95: by the bootstrap over clusters; null where tau_b is, and over one cluster.
    n_groups: how many are ranked.
    draws: of the bootstrap.
    """

    tau_b: float | None
    ci95: tuple[float, float] | None
    n_groups: int
    draws: int


def tau_b(first: Sequence[float], second: Sequence[float]) -> float | None:
    """Kendall's tau-b of two rankings of the same things; None where either is all ties.

    Kendall 1945, "The Treatment of Ties in Ranking Problems": concordant less
    discordant pairs over the root of the pairs that are no ties in each.
    """
    if len(first) < 2:
        return None
    from scipy.stats import kendalltau

    # Its p value is not used: the exact one takes long, the other divides by 0 for two.
    method = "asymptotic" if len(first) > 2 else "exact"
    found = float(kendalltau(first, second, method=method).statistic)
    return None if isnan(found) else found


def rank_groups(pairs: Pairs, label: str) -> Ranking:
    """The rankings of a label's groups by the two runs.

    The interval is the percentile bootstrap (Efron 1979) over clusters: units are
    drawn with replacement, the groups' means computed anew, and ranked.
    """
    groups = pairs.group(label)
    code = np.full(len(pairs), -1)
    for number, rows in enumerate(groups.values()):
        code[rows] = number
    kept = pairs.take(code >= 0)
    code = code[code >= 0]
    n = len(groups)
    weights = np.ones(len(kept))
    found = _tau(kept, code, n, weights)
    if found is None:
        return Ranking(tau_b=None, ci95=None, n_groups=n, draws=0)
    units, unit = np.unique(kept.cluster, return_inverse=True)
    if len(units) < 2:
        return Ranking(tau_b=found, ci95=None, n_groups=n, draws=0)
    draws = max(LEAST_DRAWS, min(DRAWS, MOST_WORK // max(1, len(kept))))
    chance = np.random.default_rng(SEED)
    drawn = []
    for _ in range(draws):
        counts = np.bincount(chance.integers(len(units), size=len(units)), minlength=len(units))
        again = _tau(kept, code, n, counts[unit].astype(np.float64))
        if again is not None:
            drawn.append(again)
    low, high = np.percentile(drawn, [2.5, 97.5])
    return Ranking(tau_b=found, ci95=(float(low), float(high)), n_groups=n, draws=draws)


def _tau(pairs: Pairs, code: np.ndarray, n: int, weights: np.ndarray) -> float | None:
    sizes = np.bincount(code, weights=weights, minlength=n)
    there = sizes > 0  # a draw may miss a small group
    means = [
        (np.bincount(code, weights=weights * values, minlength=n)[there] / sizes[there]).tolist()
        for values in (pairs.first, pairs.second)
    ]
    # Sums in another order differ in the last bits, which are no ranking.
    return tau_b(*(np.round(values, 12).tolist() for values in means))
