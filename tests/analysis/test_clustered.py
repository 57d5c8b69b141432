"""Clustered standard errors, against computations of another kind."""

from fractions import Fraction

import numpy as np
import pytest
import scipy
from hypothesis import assume, given
from hypothesis import strategies as st

from harness.analysis.clustered import (
    clustered_mean,
    degrees_of_freedom,
    linearised_share,
    linearised_statistic,
    share_interval,
)
from tests.analysis.statsmodels_reference import satterthwaite

VALUES = st.lists(st.tuples(st.booleans(), st.integers(0, 5)), min_size=2, max_size=40)


def sandwich(values: np.ndarray, clusters: np.ndarray) -> float:
    """Cluster-robust error of least squares on a constant, in matrices, term by term."""
    design = np.ones((len(values), 1))
    bread = np.linalg.inv(design.T @ design)
    residuals = values - design @ (bread @ design.T @ values)
    meat = np.zeros((1, 1))
    labels = set(clusters.tolist())
    for label in labels:
        score = design[clusters == label].T @ residuals[clusters == label]
        meat += np.outer(score, score)
    correction = len(labels) / (len(labels) - 1)
    return float(np.sqrt(correction * bread @ meat @ bread)[0, 0])


@given(VALUES)
def test_is_the_sandwich_of_least_squares(rows: list[tuple[bool, int]]) -> None:
    values, clusters = (np.array(column) for column in zip(*rows, strict=True))
    assume(len(set(clusters)) > 1)
    estimate = clustered_mean(values, clusters)
    assert estimate.mean == pytest.approx(values.mean())
    assert estimate.stderr == pytest.approx(sandwich(values, clusters), abs=1e-12)
    assert (estimate.n, estimate.n_clusters) == (len(values), len(set(clusters)))


@given(st.lists(st.booleans(), min_size=2, max_size=40))
def test_singletons_give_the_usual_error(verdicts: list[bool]) -> None:
    values = np.array(verdicts)
    estimate = clustered_mean(values, np.arange(len(values)))
    assert estimate.stderr == pytest.approx(scipy.stats.sem(values.astype(float)))
    assert estimate.naive_stderr == estimate.stderr


@given(VALUES, st.integers(2, 4))
def test_repeating_every_value_adds_no_certainty(rows: list[tuple[bool, int]], times: int) -> None:
    values, clusters = (np.array(column) for column in zip(*rows, strict=True))
    once = clustered_mean(values, clusters)
    again = clustered_mean(np.repeat(values, times), np.repeat(clusters, times))
    assert again.stderr == pytest.approx(once.stderr, abs=1e-12)


def exact(passed: float, n: float) -> tuple[float, float]:
    """The interval of Clopper and Pearson, from SciPy's quantiles."""
    low = scipy.stats.beta.ppf(0.025, passed, n - passed + 1) if passed else 0.0
    high = scipy.stats.beta.ppf(0.975, passed + 1, n - passed) if passed < n else 1.0
    return float(low), float(high)


def test_clustered_verdicts_have_the_exact_interval_on_the_effective_size() -> None:
    # Two of three samples fail in 4 of 20 clusters.
    values = np.array([*[0, 0, 1] * 4, *[1] * 48])
    clusters = np.arange(60) // 3
    estimate = clustered_mean(values, clusters)
    assert estimate.stderr is not None
    mean = values.mean()
    totals = [((values - mean)[clusters == one].sum()) ** 2 for one in range(20)]
    degrees = 3 * sum(totals) ** 2 / sum(total**2 for total in totals) - 2
    assert 16 < degrees < 17
    ratio = scipy.stats.norm.ppf(0.975) / scipy.stats.t.ppf(0.975, degrees)
    size = mean * (1 - mean) / estimate.stderr**2 * ratio**2
    assert 20 < size < 60
    assert estimate.effective_n == pytest.approx(size)
    assert estimate.ci95 == pytest.approx(exact(mean * size, size))


def test_an_error_that_few_clusters_show_is_not_taken_for_small() -> None:
    # Four of 20 clusters fail once in three samples: 4/3 of Kish's 20 fail.
    values = np.array([*[0, 1, 1] * 4, *[1] * 48])
    few = clustered_mean(values, np.arange(60) // 3)
    assert few.effective_n == pytest.approx(20 * (1 + (4 / 3) ** 2))
    many = clustered_mean(np.tile(values, 3), np.arange(180) // 3)
    assert (many.effective_n or 0) > 3 * few.effective_n
    fractions = clustered_mean(np.tile(values * 0.9, 1), np.arange(60) // 3)
    assert fractions.max_effective_n == np.inf, "no verdicts"


def test_the_effective_size_is_at_least_the_number_of_clusters_and_at_most_of_verdicts() -> None:
    half = clustered_mean(np.arange(100) >= 5, np.arange(100) // 5)  # one cluster fails
    assert half.effective_n == pytest.approx(20)
    opposed = clustered_mean(np.tile([1, 0], 20), np.arange(40) // 2)
    assert opposed.effective_n == 20
    nearly = clustered_mean(np.array([*[1, 0] * 20, 1, 1]), np.arange(42) // 2)
    assert 21 <= (nearly.effective_n or 0) <= 42
    # Kish 1965: (1 + 3)^2 / (1 + 9)
    unequal = clustered_mean(np.array([1, 1, 1, 1]), np.array([0, 1, 1, 1]))
    assert unequal.effective_n == pytest.approx(1.6)


def test_clusters_that_balance_are_worth_no_more_than_their_verdicts_but_fractions_are() -> None:
    passed = np.repeat([2, 3, 1], [30, 5, 5])  # of four samples of each prompt
    balanced = np.arange(4) < passed[:, None]
    assert clustered_mean(balanced.ravel(), np.arange(160) // 4).effective_n == 160
    fractions = clustered_mean(passed / 4, np.arange(40))
    assert (fractions.effective_n or 0) > 400
    spread = clustered_mean(
        np.tile([0.05, 0.95], 200), np.arange(400)
    )  # 0.81 of verdicts' variance
    assert spread.effective_n == pytest.approx(400 / 0.81, rel=0.02)


def test_a_weighted_share_has_the_interval_of_its_effective_size() -> None:
    chance = np.random.default_rng(6)
    counts = chance.integers(1, 6, 200)
    passed = chance.binomial(counts, 0.7)
    found = linearised_share(passed.astype(float), counts.astype(float), np.arange(200))
    share = passed.sum() / counts.sum()
    # Each instruction is a row of a regression on a constant.
    rows = np.repeat(np.arange(200), counts)
    verdicts = np.concatenate([np.arange(n) < k for n, k in zip(counts, passed, strict=True)])
    assert found.mean == pytest.approx(share)
    assert found.stderr == pytest.approx(sandwich(verdicts, rows))
    assert found.naive_stderr is None
    assert found.stderr is not None
    size = found.mean * (1 - found.mean) / found.stderr**2
    assert found.effective_n == pytest.approx(size, rel=0.02)  # of many clusters
    everything = linearised_share(counts * 1.0, counts * 1.0, np.arange(200))
    kish = counts.sum() ** 2 / (counts**2).sum()
    assert everything.ci95 == pytest.approx(exact(kish, kish))


def test_a_linearised_figure_is_within_its_bounds() -> None:
    """The interval is around the figure, not around the mean influence of 0."""
    influence = np.array([0.9, -0.5, -0.4, 0.3, -0.3, 0.0])
    margin = scipy.stats.t.ppf(0.975, 5) * scipy.stats.sem(influence)
    wide = linearised_statistic(0.5, influence, np.arange(6), -1.0, 2.0).ci95
    assert wide == pytest.approx((0.5 - margin, 0.5 + margin))
    assert linearised_statistic(0.5, influence, np.arange(6), 0.25, 0.75).ci95 == (0.25, 0.75)


@given(st.integers(2, 60), st.data())
def test_independent_verdicts_have_the_exact_interval(n: int, data: st.DataObject) -> None:
    passed = data.draw(st.integers(0, n))
    estimate = clustered_mean(np.arange(n) < passed, np.arange(n))
    assert estimate.ci95 == pytest.approx(exact(passed, n))


def test_fractions_have_an_interval_that_is_nearly_students_and_within_its_bounds() -> None:
    values = np.linspace(0.4, 0.6, 12)
    low, high = clustered_mean(values, np.arange(12)).ci95 or (0, 0)
    expected = scipy.stats.t.interval(0.95, df=11, loc=0.5, scale=scipy.stats.sem(values))
    assert (low, high) == pytest.approx(expected, abs=1e-3)
    near_one = clustered_mean(np.array([1, 1, 1, 0.7]), np.arange(4)).ci95 or (0, 0)
    assert 0 < near_one[0] < 0.925 < near_one[1] < 1


@pytest.mark.parametrize("verdict", [0, 1])
def test_unanimous_clusters_are_not_certain(verdict: int) -> None:
    estimate = clustered_mean(np.full(100, verdict), np.arange(100) % 7)
    assert estimate.ci95 == pytest.approx(
        exact(7 * verdict, 100**2 / (2 * 15**2 + 5 * 14**2)), abs=5e-3
    )


def test_one_cluster_says_nothing_of_its_error() -> None:
    estimate = clustered_mean(np.array([1, 0, 1]), np.zeros(3, dtype=int))
    assert estimate.mean == pytest.approx(2 / 3)
    assert estimate.stderr is None
    assert estimate.ci95 is None
    assert estimate.naive_stderr is not None


def test_clusters_of_equal_mean_say_nothing_of_it_either() -> None:
    estimate = clustered_mean(np.array([1, 0, 0, 1, 0, 0]), np.array([1, 1, 1, 2, 2, 2]))
    assert estimate.stderr == pytest.approx(0, abs=1e-15)
    assert estimate.ci95 == pytest.approx(exact(2 / 3, 2))  # as two verdicts


def test_no_values_have_no_mean() -> None:
    estimate = clustered_mean(np.array([]), np.array([]))
    assert (estimate.mean, estimate.stderr, estimate.ci95, estimate.n) == (None, None, None, 0)


@given(st.integers(1, 10_000), st.data())
def test_the_interval_of_a_share_agrees_with_scipy(n: int, data: st.DataObject) -> None:
    passed = data.draw(st.integers(0, n))
    theirs = scipy.stats.binomtest(passed, n).proportion_ci(method="exact")
    assert share_interval(passed / n, n) == pytest.approx((theirs.low, theirs.high), abs=1e-10)


@given(st.lists(st.integers(1, 30), min_size=2, max_size=25))
def test_degrees_are_satterthwaites(sizes: list[int]) -> None:
    found = degrees_of_freedom(np.bincount(sizes))
    assert found == pytest.approx(satterthwaite(sizes), rel=1e-9)
    # At most what clusters of one size have; at least those of two.
    assert 1 <= found <= len(sizes) - 1


@given(
    st.lists(st.sampled_from([1, 1, 1, 2, 5, 1_000, 50_000, 1_000_000]), min_size=2, max_size=12)
)
def test_degrees_of_lopsided_clusters(sizes: list[int]) -> None:
    # In fractions, which lose nothing where one cluster holds nearly all.
    shares = [Fraction(size, sum(sizes)) for size in sizes]
    q = sum(share**2 for share in shares)
    own = [w**2 * ((1 - w) ** 2 + q - w**2) for w in shares]
    others = [
        v * w * (q - v - w) for i, v in enumerate(shares) for j, w in enumerate(shares) if i != j
    ]
    expected = sum(own) ** 2 / (sum(s**2 for s in own) + sum(s**2 for s in others))
    found = degrees_of_freedom(np.bincount(sizes))
    assert found == pytest.approx(float(expected), rel=1e-9)
    assert 1 <= found <= len(sizes) - 1


def test_clusters_of_one_size_have_the_usual_degrees() -> None:
    assert degrees_of_freedom(np.bincount([7] * 12)) == 11
    assert clustered_mean(np.array([1, 0, 1]), np.array([0, 1, 2])).degrees == 2
    assert clustered_mean(np.array([1, 0]), np.array([3, 3])).degrees is None


def test_a_linearised_value_has_students_interval_within_its_limits() -> None:
    influence = np.random.default_rng(0).normal(0, 2, 30)
    influence -= influence.mean()
    error = scipy.stats.sem(influence)
    low, high = scipy.stats.t.interval(0.95, 29, 0.3, error)
    found = linearised_statistic(0.3, influence, np.arange(30), -9.0, 9.0)
    assert (found.mean, found.n, found.n_clusters) == (0.3, 30, 30)
    assert found.stderr == pytest.approx(error)
    assert found.ci95 == pytest.approx((low, high))
    for limits, expected in (((0.0, 9.0), (0.0, high)), ((-9.0, 0.5), (low, 0.5))):
        assert linearised_statistic(0.3, influence, np.arange(30), *limits).ci95 == pytest.approx(
            expected
        )


@pytest.mark.parametrize("comparisons", [1, 5])
def test_the_interval_of_a_number_is_widened_for_several_comparisons(comparisons: int) -> None:
    values = np.array([0.3, 2.0, -1.0, 4.5, 0.7, 1.1])
    low, high = clustered_mean(values, np.arange(6)).clipped_ci95(comparisons=comparisons) or (0, 0)
    t = scipy.stats.t.ppf(1 - 0.05 / 2 / comparisons, 5)
    assert (high - low) / 2 == pytest.approx(t * scipy.stats.sem(values), rel=1e-6)
