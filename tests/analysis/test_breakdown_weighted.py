"""Weighted means against weighted least squares."""

from math import sqrt

import numpy as np
import pytest

from harness.analysis.breakdown import weighted_mean_by_group
from harness.records import Score


@pytest.mark.parametrize("clusters", ["abcde", "aabcc"])
def test_the_error_of_a_weighted_mean_is_that_of_weighted_least_squares(
    make, table_of, clusters: str
) -> None:
    values, weights = np.array([0.2, 0.9, 0.4, 1.0, 0.0]), np.array([1.0, 3.0, 2.0, 5.0, 4.0])
    rows = zip(values.tolist(), weights.tolist(), clusters, strict=True)
    table = table_of(
        make(f"{n}", None, scores={"x": Score(value), "w": Score(weight)}, cluster=cluster)
        for n, (value, weight, cluster) in enumerate(rows)
    )
    (found,) = weighted_mean_by_group(table, "x", "w").values()
    mean = np.average(values, weights=weights)
    residuals = weights * (values - mean)
    totals = [residuals[[one == name for one in clusters]].sum() for name in set(clusters)]
    n = len(totals)
    assert found.mean == pytest.approx(mean)
    # The sandwich of Liang and Zeger (1986) with n / (n - 1), CR1; if unclustered, White's HC1.
    stderr = sqrt(n / (n - 1) * np.sum(np.square(totals))) / weights.sum()
    assert found.stderr == pytest.approx(stderr)


def test_the_weighted_mean_of_ratings_is_not_cut_at_1(make, table_of) -> None:
    values, weights = np.array([1.0, 1.0, 1.0, 0.0, 1.0]), np.array([1.0, 3.0, 2.0, 1.0, 4.0])
    table = table_of(
        make(f"{n}", None, scores={"x": Score(value, share=False), "w": Score(weight)})
        for n, (value, weight) in enumerate(zip(values.tolist(), weights.tolist(), strict=True))
    )
    (found,) = weighted_mean_by_group(table, "x", "w").values()
    assert found.mean is not None
    assert found.ci95 is not None
    assert found.stderr is not None
    low, high = found.ci95
    assert high > 1
    assert high - found.mean == pytest.approx(found.mean - low)
    assert found.effective_n is None
