"""Two runs compared on the instances that both have: how far apart, and how sure that is.

Owns which method applies. Where every cluster holds one pair of single verdicts,
McNemar's exact test; else Student's t of the paired differences with an error
that respects clusters: k samples of an instance, and instances that share a
prompt, are no independent news. Refuses to call a difference certain because
nothing can be said about its error.

>>> compare(pairs).difference  # doctest: +SKIP
0.34855769230769235
"""

from __future__ import annotations

from collections.abc import Sequence
from math import asin, ceil, sqrt
from typing import Literal

import numpy as np
from msgspec import Struct
from msgspec.structs import replace
from numpy.typing import NDArray

from harness.analysis.clustered import clustered_mean
from harness.analysis.paired import holm
from harness.analysis.pairing import Pairs

Method = Literal["exact McNemar", "clustered paired t", "none"]

ALPHA = 0.05
POWER = 0.8


class Comparison(Struct, frozen=True, kw_only=True):
    """The second of two runs against the first.

    n: instances that both have a value of; n_clusters: statistical units of these.
    first, second: means over them, each instance weighing the same.
    difference: second minus first.
    stderr: clustered; null over fewer than two clusters.
    ci95: difference ± t * stderr (`_interval`).
    degrees: of freedom of t (`harness.analysis.clustered.degrees_of_freedom`).
    p_value: of no difference; p_adjusted: for all comparisons of a family.
    method: of the p value.
    better, worse: pairs in which the second is more, and less.
    effect: Cohen's h for verdicts (Cohen 1988, chapter 6), else the mean
        difference by the standard deviation of differences (d_z).
    detectable: the smallest true difference that so many clusters show with
        p < 0.05 in 80% of cases; null without an error.
    needed: instances of this kind that would show the difference that was seen
        so often; null where nothing was seen.
    only_first, only_second, not_judged: see `harness.analysis.pairing.Pairs`.
    """

    n: int
    n_clusters: int
    first: float | None
    second: float | None
    difference: float | None
    stderr: float | None
    ci95: tuple[float, float] | None
    degrees: float | None
    p_value: float | None
    p_adjusted: float | None = None
    method: Method
    better: int
    worse: int
    effect: float | None
    detectable: float | None
    needed: int | None
    only_first: int | None
    only_second: int | None
    not_judged: int | None


def compare(pairs: Pairs) -> Comparison:
    """Compare the runs that were paired."""
    estimate = clustered_mean(pairs.difference, pairs.cluster)
    # A sum of thirds that is nothing may come out as 1e-17, and be very certain.
    difference = _rounded(estimate.mean, pairs.rounding)
    stderr = _rounded(estimate.stderr, pairs.rounding)
    units = estimate.n_clusters
    better, worse = int((pairs.difference > 0).sum()), int((pairs.difference < 0).sum())
    method: Method = "none"
    ci95 = p_value = detectable = None
    needed = None
    degrees = estimate.degrees
    if stderr is not None and difference is not None and degrees is not None:
        alone = pairs.binary and units == len(pairs)
        if stderr > 0 or not better + worse or alone:
            method = "exact McNemar" if alone else "clustered paired t"
            p_value = _p_value(difference, stderr, degrees) if not alone else mcnemar(better, worse)
            ci95 = _interval(difference, stderr, degrees, units, bounded=pairs.verdicts)
        detectable = _detectable(stderr, degrees)
        needed = _needed(difference, stderr, len(pairs))
    return Comparison(
        n=len(pairs),
        n_clusters=units,
        first=float(pairs.first.mean()) if len(pairs) else None,
        second=float(pairs.second.mean()) if len(pairs) else None,
        difference=difference,
        stderr=stderr,
        ci95=ci95,
        degrees=degrees,
        p_value=p_value,
        method=method,
        better=better,
        worse=worse,
        effect=_effect(pairs),
        detectable=detectable,
        needed=needed,
        only_first=pairs.only_first,
        only_second=pairs.only_second,
        not_judged=pairs.not_judged,
    )


def adjusted(comparisons: Sequence[Comparison], *, planned: bool = True) -> list[Comparison]:
    """With the p values of a family adjusted.

    planned: by Holm, which controls every error; else by Benjamini and Hochberg,
        which controls the share of errors among what is found (exploring).
    """
    p_values = [comparison.p_value for comparison in comparisons]
    found = holm(p_values) if planned else benjamini_hochberg(p_values)
    return [replace(one, p_adjusted=p) for one, p in zip(comparisons, found, strict=True)]


def mcnemar(better: int, worse: int) -> float:
    """Two-sided exact p value of as many pairs getting better as worse.

    McNemar 1947, "Note on the Sampling Error of the Difference Between Correlated
    Proportions", with the binomial distribution of the discordant pairs. Only for
    independent pairs of single verdicts.
    """
    if not better + worse:
        return 1.0
    from scipy.special import bdtr

    return min(1.0, 2 * float(bdtr(min(better, worse), better + worse, 0.5)))


def benjamini_hochberg(p_values: Sequence[float | None]) -> list[float | None]:
    """p values adjusted so that of what is found at most that share is expected to be wrong.

    Benjamini and Hochberg 1995, "Controlling the False Discovery Rate": the i-th of
    m in ascending order becomes the smallest of m / j * p_j for j from i, at most 1.
    What has no p value is no comparison.
    """
    known = sorted((p, place) for place, p in enumerate(p_values) if p is not None)
    found: list[float | None] = [None] * len(p_values)
    smallest = 1.0
    for rank in range(len(known), 0, -1):
        p, place = known[rank - 1]
        smallest = min(smallest, len(known) / rank * p)
        found[place] = smallest
    return found


def _rounded(value: float | None, rounding: float) -> float | None:
    return value if value is None or abs(value) > rounding else 0.0


def _p_value(difference: float, stderr: float, degrees: float) -> float:
    if stderr == 0:
        return 1.0  # no pair differs
    from scipy.special import stdtr

    return 2 * float(stdtr(degrees, -abs(difference / stderr)))


def _quantile(degrees: float, p: float) -> float:
    # Imported here: SciPy takes longer to load than the rest of the harness.
    from scipy.special import stdtrit

    return float(stdtrit(degrees, p))


def _interval(
    difference: float, stderr: float, degrees: float, units: int, *, bounded: bool
) -> tuple[float, float] | None:
    """The 95% interval.

    Where no pair differs, or all single verdicts differ alike, the error is 0 and says
    nothing. Of verdicts, the interval is then the share of units that may be otherwise
    though none of so many is, exactly (Clopper and Pearson 1934); of other scores, None.

    bounded: a difference of rates, between -1 and 1.
    """
    if stderr > 0:
        margin = _quantile(degrees, 1 - ALPHA / 2) * stderr
        low, high = difference - margin, difference + margin
        return (max(-1.0, low), min(1.0, high)) if bounded else (low, high)
    if not bounded:
        return None
    reach = 1 - (ALPHA / 2) ** (1 / units)
    if difference:  # of one unit in the other direction, the difference is 2 units less
        return (1 - 2 * reach, 1.0) if difference > 0 else (-1.0, 2 * reach - 1)
    return -reach, reach


def _detectable(stderr: float, degrees: float) -> float | None:
    if stderr == 0:
        return None
    return (_quantile(degrees, 1 - ALPHA / 2) + _quantile(degrees, POWER)) * stderr


def _needed(difference: float, stderr: float, n: int) -> int | None:
    """By the normal distribution, for the error falls with the root of the instances."""
    if difference == 0 or stderr == 0:
        return None
    from scipy.special import ndtri

    reach = float(ndtri(1 - ALPHA / 2) + ndtri(POWER))
    return ceil(n * (reach * stderr / difference) ** 2)


def _effect(pairs: Pairs) -> float | None:
    if len(pairs) < 2:
        return None
    if pairs.verdicts:
        first, second = (_arc(float(values.mean())) for values in (pairs.first, pairs.second))
        return second - first
    spread = _deviation(pairs.difference)
    return float(pairs.difference.mean()) / spread if spread > pairs.rounding else None


def _arc(rate: float) -> float:
    return 2 * asin(sqrt(min(1.0, max(0.0, rate))))


def _deviation(values: NDArray[np.float64]) -> float:
    return float(np.std(values, ddof=1))
