"""Distributions against SciPy's, from one to a million degrees of freedom."""

import pytest
from scipy import special

from harness.analysis.distributions import (
    beta_quantile,
    binomial_cdf,
    chi_squared_tail,
    t_quantile,
    t_tail,
)

DEGREES = (1, 1.3, 2, 2.5, 5, 7.7, 30, 99.5, 1_000, 12_345.6, 1e6)


@pytest.mark.parametrize("degrees", DEGREES)
def test_students_t(degrees: float) -> None:
    for t in (-6, -0.5, 0, 1e-4, 0.1, 1, 1.96, 3, 10, 37):
        assert t_tail(degrees, t) == pytest.approx(special.stdtr(degrees, -t), rel=4e-9, abs=0)
    for p in (1e-6, 0.025, 0.2, 0.5, 0.50001, 0.8, 0.975, 1 - 0.025 / 50, 1 - 1e-6):
        expected = special.stdtrit(degrees, p)
        assert t_quantile(degrees, p) == pytest.approx(expected, rel=4e-9, abs=1e-12)


@pytest.mark.parametrize("n", [1, 2, 5, 20, 1_000, 100_000])
def test_tosses_of_a_coin(n: int) -> None:
    for most in {0, n // 4, n // 2, max(0, n // 2 - int(n**0.5)), n - 1, n}:
        assert binomial_cdf(most, n) == pytest.approx(special.bdtr(most, n, 0.5), rel=1e-9)
        for p in (0.01, 0.9, 0.999):
            theirs = special.bdtr(most, n, p)
            assert binomial_cdf(most, n, p) == pytest.approx(theirs, rel=1e-6, abs=1e-12)


@pytest.mark.parametrize("a", [0.01, 0.5, 1, 2.7, 40, 1_000, 1e5])
@pytest.mark.parametrize("b", [0.01, 0.5, 1, 2.7, 40, 1_000, 1e5])
def test_quantiles_of_beta(a: float, b: float) -> None:
    for p in (1e-4, 0.025, 0.5, 0.975, 1 - 1e-4):
        assert beta_quantile(a, b, p) == pytest.approx(
            special.betaincinv(a, b, p), rel=1e-7, abs=1e-15
        )


@pytest.mark.parametrize("tiny", [1e-300, 1e-16, 1e-13])  # 1 - mean, after rounding
@pytest.mark.parametrize("size", [1, 40, 1e5])
def test_quantiles_of_beta_at_either_end(tiny: float, size: float) -> None:
    for p in (0.025, 0.975):
        assert beta_quantile(tiny, size, p) == pytest.approx(0, abs=1e-12)
        assert beta_quantile(size, tiny, p) == pytest.approx(1, abs=1e-12)


@pytest.mark.parametrize("degrees", [1, 2, 3, 8, 31, 1_500])
def test_chi_squared(degrees: int) -> None:
    for q in (0, 1e-6, 0.1, 1, degrees, degrees + 3 * degrees**0.5, 4 * degrees):
        assert chi_squared_tail(degrees, q) == pytest.approx(special.chdtrc(degrees, q), rel=1e-9)
