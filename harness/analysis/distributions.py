"""The distributions that tests and intervals need: Student's t, binomial, beta and chi squared.

SciPy has them as well, but it takes up 110 MB, a third of an installation, and takes longer to load
than the rest of the harness.
"""

from __future__ import annotations

from functools import lru_cache
from math import comb, erfc, exp, inf, lgamma, log, log1p, pi, sqrt
from statistics import NormalDist

_MAX_STEPS = 10_000  # of the continued fraction; a million degrees of freedom need 900
_MAX_EXACT_TRIALS = 100  # of a fair coin, for probabilities as exact fractions
_MAX_LOG_DENSITY = 700.0  # so that the density is a finite float
_TINY_DENOMINATOR = 1e-300  # replaces a denominator of 0 (Lentz)

normal_quantile = NormalDist().inv_cdf


def t_tail(degrees: float, t: float) -> float:
    """Return the probability that Student's t with these degrees of freedom exceeds ``t``."""
    if t < 0:
        return 1 - t_tail(degrees, -t)
    # The integral's upper end is x, and y is 1 - x without the rounding error.
    x = degrees / (degrees + t * t)
    y = t * t / (degrees + t * t)
    return _incomplete_beta(degrees / 2, 0.5, x, y) / 2


@lru_cache(maxsize=4096)
def t_quantile(degrees: float, p: float) -> float:
    """Return the ``p`` quantile of Student's t, for 0 < p < 1.

    Newton's method starts from the normal quantile and approaches the quantile from below, because
    the tail is convex.
    """
    tail = min(p, 1 - p)
    t = -normal_quantile(tail)
    scale = lgamma((degrees + 1) / 2) - lgamma(degrees / 2) - log(degrees * pi) / 2
    while True:
        density = exp(scale - (degrees + 1) / 2 * log1p(t * t / degrees))
        step = (t_tail(degrees, t) - tail) / density
        t += step
        if step <= 1e-14 * t:
            return t if p > 0.5 else -t


@lru_cache(maxsize=1 << 14)
def beta_quantile(a: float, b: float, p: float) -> float:
    """Return the ``p`` quantile of the beta distribution with parameters a and b, for 0 < p < 1.

    Uses Newton's method, with a step of bisection where it would leave the bracket.
    """
    if a > b:  # near 1, only the distance to 1 has all its digits
        return 1 - beta_quantile(b, a, 1 - p)
    log_beta = lgamma(a) + lgamma(b) - lgamma(a + b)
    low = 0.0
    high = 1.0
    x = a / (a + b)
    for _ in range(_MAX_STEPS):
        excess = _incomplete_beta(a, b, x, 1 - x) - p
        if excess > 0:
            high = x
        else:
            low = x
        log_density = (a - 1) * log(x) + (b - 1) * log1p(-x) - log_beta
        step = (
            excess / exp(log_density) if -_MAX_LOG_DENSITY < log_density < _MAX_LOG_DENSITY else inf
        )
        next_x = x - step
        if not low < next_x < high:
            next_x = (low + high) / 2
        if abs(next_x - x) <= 1e-14 * x + 1e-17 or next_x in (0.0, 1.0):
            return next_x
        x = next_x
    return x


def binomial_cdf(max_successes: int, n: int, p: float = 0.5) -> float:
    """Return the probability of at most ``max_successes`` successes in ``n`` trials.

    Args:
        max_successes: The largest number of successes.
        n: The number of trials.
        p: The probability of success in one trial.
    """
    if max_successes >= n:
        return 1.0
    if p == 0.5 and n <= _MAX_EXACT_TRIALS:  # exact: a p just above 1/16 would be rounded up
        return sum(comb(n, successes) for successes in range(max_successes + 1)) / (1 << n)
    return _incomplete_beta(n - max_successes, max_successes + 1, 1 - p, p)


def chi_squared_tail(degrees: int, q: float) -> float:
    """Return the probability that chi squared with these degrees of freedom exceeds ``q``.

    Source: the recurrence of the incomplete gamma function (https://dlmf.nist.gov/8.8.E6).
    """
    if q <= 0:
        return 1.0
    x = q / 2
    a = (degrees % 2 or 2) / 2
    tail = erfc(sqrt(x)) if degrees % 2 else exp(-x)
    while a < degrees / 2:
        tail += exp(a * log(x) - x - lgamma(a + 1))
        a += 1
    return tail


def _incomplete_beta(a: float, b: float, x: float, y: float) -> float:
    """Return I_x(a, b), where y is 1 - x, by https://dlmf.nist.gov/8.17.E22 and Lentz's method."""
    if x > (a + 1) / (a + b + 2):  # where the fraction converges slowly
        return 1 - _incomplete_beta(b, a, y, x)
    if x == 0:
        return 0.0
    c = 1.0
    d = 1 / (1 - (a + b) / (a + 1) * x or _TINY_DENOMINATOR)
    fraction = d
    for m in range(1, _MAX_STEPS):
        for term in (
            m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)),
            -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1)),
        ):
            c = 1 + term / c or _TINY_DENOMINATOR
            d = 1 / (1 + term * d or _TINY_DENOMINATOR)
            fraction *= c * d
        if abs(c * d - 1) < 1e-15:
            break
    log_x = log(x) if x < 0.5 else log1p(-y)
    log_y = log(y) if y < 0.5 else log1p(-x)
    log_beta = lgamma(a) + lgamma(b) - lgamma(a + b)
    return exp(a * log_x + b * log_y - log_beta) * fraction / a
