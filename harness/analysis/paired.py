"""Two conditions on the same units: how far they are apart, and how sure that is.

Owns the paired t and what many comparisons at once do to p values. Refuses to
call a difference certain because nothing can be said about its error.

>>> paired([3, 5, 4], [1, 2, 3]).difference
2.0
>>> holm([0.01, None, 0.04, 0.03])
[0.03, None, 0.06, 0.06]
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import fsum, sqrt

ROUNDING = 1e-12
"""Standard errors below this are rounding of a sum that is exactly zero."""


@dataclass(frozen=True, slots=True)
class Paired:
    """A mean difference over pairs.

    n: pairs.
    difference: mean of the differences; None over no pairs.
    stderr: None over fewer than two pairs, and where all differences are the
        same: that says nothing of those that were not drawn.
    n_more: pairs in which the first is more.
    """

    n: int
    difference: float | None
    stderr: float | None
    n_more: int

    def interval(self, comparisons: int = 1) -> tuple[float, float] | None:
        """95% interval: difference ± t * stderr, t with n - 1 degrees of freedom.

        comparisons: how many intervals shall hold at once; each then leaves out
            5% / comparisons (Bonferroni).
        """
        if self.difference is None or self.stderr is None:
            return None
        # Imported here: SciPy takes longer to load than the rest of the harness.
        from scipy.special import stdtrit

        margin = -float(stdtrit(self.n - 1, 0.025 / comparisons)) * self.stderr
        return self.difference - margin, self.difference + margin

    @property
    def p_value(self) -> float | None:
        """Two-sided, of no difference: P(|T| >= |difference / stderr|), T as in `interval`."""
        if self.difference is None or self.stderr is None:
            return None
        from scipy.special import stdtr

        return 2 * float(stdtr(self.n - 1, -abs(self.difference / self.stderr)))


def paired(first: Sequence[float], second: Sequence[float]) -> Paired:
    """First minus second, pair by pair.

    Student's t of the differences d_i (Student 1908, "The Probable Error of a
    Mean", section IX): stderr = sqrt(sum_i (d_i - mean)^2 / (n - 1) / n). It takes the
    pairs for a sample of the units that one wants to speak of.
    """
    differences = [one - other for one, other in zip(first, second, strict=True)]
    n, n_more = len(differences), sum(found > ROUNDING for found in differences)
    if not n:
        return Paired(0, None, None, 0)
    mean = fsum(differences) / n
    if n == 1:
        return Paired(1, mean, None, n_more)
    squares = fsum((found - mean) ** 2 for found in differences)
    stderr = sqrt(squares / (n - 1) / n)
    # What rounding leaves grows with the values, which need not be below 1.
    largest = max(1.0, *map(abs, first), *map(abs, second))
    return Paired(n, mean, stderr if stderr > ROUNDING * largest else None, n_more)


def holm(p_values: Sequence[float | None]) -> list[float | None]:
    """p values of several comparisons, adjusted so that all errors together are controlled.

    Holm 1979, "A Simple Sequentially Rejective Multiple Test Procedure": of m
    values in ascending order, the i-th becomes the largest of (m - j + 1) * p_j
    for j up to i, at most 1. What has no p value is no comparison.
    """
    known = sorted((p, place) for place, p in enumerate(p_values) if p is not None)
    adjusted: list[float | None] = [None] * len(p_values)
    largest = 0.0
    for rank, (p, place) in enumerate(known):
        largest = max(largest, min(1.0, (len(known) - rank) * p))
        adjusted[place] = largest
    return adjusted


def heterogeneity(effects: Sequence[float], stderrs: Sequence[float]) -> float | None:
    """p value of all units having the same effect; None for fewer than two.

    Cochran's Q (Cochran 1954, "The Combination of Estimates from Different
    Experiments"): sum_i (e_i - m)^2 / s_i^2 around the mean m weighted by
    1 / s_i^2, chi-squared with n - 1 degrees of freedom.
    """
    if len(effects) < 2:
        return None
    from scipy.special import chdtrc

    weights = [1 / error**2 for error in stderrs]
    mean = fsum(w * e for w, e in zip(weights, effects, strict=True)) / fsum(weights)
    q = fsum(w * (e - mean) ** 2 for w, e in zip(weights, effects, strict=True))
    return float(chdtrc(len(effects) - 1, q))
