"""Clustered standard errors, against computations of another kind."""

import math
from fractions import Fraction

import numpy as np
import pytest
import scipy
from hypothesis import assume, given
from hypothesis import strategies as st

from harness.analysis.clustered import (
    clustered_mean,
    degrees_of_freedom,
    linearised,
    mean_of_groups,
    wilson,
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


def test_clustered_verdicts_have_wilsons_interval_on_the_effective_size() -> None:
    values, clusters = np.tile([1, 0, 1, 1, 0], 6), np.repeat(np.arange(10), 3)
    estimate = clustered_mean(values, clusters)
    assert estimate.stderr is not None
    # Korn and Graubard 1998: n over the design effect, which the error's ten clusters reduce.
    design_effect = (estimate.stderr / scipy.stats.sem(values)) ** 2
    ratio = scipy.stats.t.ppf(0.975, 29) / scipy.stats.t.ppf(0.975, 9)
    assert estimate.ci95 == pytest.approx(wilson(0.6, 30 / design_effect * ratio**2))


@given(st.integers(2, 60), st.data())
def test_independent_verdicts_have_wilsons_interval(n: int, data: st.DataObject) -> None:
    passed = data.draw(st.integers(0, n))
    estimate = clustered_mean(np.arange(n) < passed, np.arange(n))
    assert estimate.ci95 == pytest.approx(wilson(passed / n, n))


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
    assert estimate.ci95 == wilson(verdict, 7)


def test_one_cluster_says_nothing_of_its_error() -> None:
    estimate = clustered_mean(np.array([1, 0, 1]), np.zeros(3, dtype=int))
    assert estimate.mean == pytest.approx(2 / 3)
    assert estimate.stderr is None
    assert estimate.ci95 is None
    assert estimate.naive_stderr is not None


def test_clusters_of_equal_mean_say_nothing_of_it_either() -> None:
    estimate = clustered_mean(np.array([1, 0, 0, 1, 0, 0]), np.array([1, 1, 1, 2, 2, 2]))
    assert estimate.stderr == pytest.approx(0, abs=1e-15)
    assert estimate.ci95 is None


def test_no_values_have_no_mean() -> None:
    estimate = clustered_mean(np.array([]), np.array([]))
    assert (estimate.mean, estimate.stderr, estimate.ci95, estimate.n) == (None, None, None, 0)


@pytest.mark.parametrize(
    ("passed", "n", "interval"),
    # Newcombe 1998, "Two-sided confidence intervals for the single proportion", table I, method 3.
    [
        (81, 263, (0.2553, 0.3662)),
        (15, 148, (0.0624, 0.1605)),
        (0, 20, (0.0, 0.1611)),
        (1, 29, (0.0061, 0.1718)),
    ],
)
def test_wilson_is_the_published_interval(
    passed: int, n: int, interval: tuple[float, float]
) -> None:
    assert wilson(passed / n, n) == pytest.approx(interval, abs=5e-5)


@given(st.integers(1, 10_000), st.data())
def test_wilson_agrees_with_scipy(n: int, data: st.DataObject) -> None:
    passed = data.draw(st.integers(0, n))
    theirs = scipy.stats.binomtest(passed, n).proportion_ci(method="wilson")
    assert wilson(passed / n, n) == pytest.approx((theirs.low, theirs.high), abs=1e-12)


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


def a_mean_of_groups(
    values: np.ndarray, clusters: np.ndarray, group: np.ndarray
) -> tuple[float, float, float]:
    """By hand, of clusters within groups: the mean, its variance and Welch's degrees."""
    parts = [clustered_mean(values[group == g], clusters[group == g]) for g in np.unique(group)]
    terms = [((one.stderr or 0.0) / len(parts)) ** 2 for one in parts]
    degrees = [one.degrees or 0.0 for one in parts]
    free = sum(terms) ** 2 / sum(v**2 / (f + 2) for v, f in zip(terms, degrees, strict=True)) - 2
    return float(np.mean([one.mean for one in parts])), sum(terms), free


def test_a_mean_over_groups_adds_their_variances() -> None:
    chance = np.random.default_rng(1)
    group = np.repeat([0, 1, 2], [10, 30, 60])
    clusters = np.arange(100) // 2
    values = chance.normal(size=100) * (1 + group)
    mean, variance, degrees = a_mean_of_groups(values, clusters, group)
    found = mean_of_groups(values, clusters, group)
    assert (found.n, found.n_clusters) == (100, 50)
    assert found.mean == pytest.approx(mean)
    assert found.stderr == pytest.approx(math.sqrt(variance))
    assert found.degrees == pytest.approx(degrees)


def test_a_mean_over_one_group_is_that_of_its_clusters() -> None:
    values, clusters = np.random.default_rng(2).normal(size=30), np.arange(30) // 4
    found, expected = (
        mean_of_groups(values, clusters, clusters * 0),
        clustered_mean(values, clusters),
    )
    assert found.mean == pytest.approx(expected.mean)
    assert found.stderr == pytest.approx(expected.stderr)
    assert found.degrees == pytest.approx(expected.degrees)


def test_clusters_in_every_group_are_averaged_before_they_are_counted() -> None:
    """Each of 12 clusters has one value in each of 3 groups."""
    values = np.random.default_rng(3).normal(size=(12, 3))
    clusters, group = np.indices((12, 3))
    found = mean_of_groups(values.ravel(), clusters.ravel(), group.ravel())
    assert found.stderr == pytest.approx(scipy.stats.sem(values.mean(axis=1)))
    assert found.degrees == 11


def test_groups_of_one_cluster_are_a_sample_of_groups() -> None:
    values, group = np.random.default_rng(4).normal(size=24), np.arange(24) // 4
    found = mean_of_groups(values, group, group)
    assert found.stderr == pytest.approx(scipy.stats.sem(values.reshape(6, 4).mean(axis=1)))
    assert (found.degrees, found.n_clusters) == (pytest.approx(5), 6)
    # A single one among others is not certain either.
    mixed = mean_of_groups(values, np.where(group < 1, -1, np.arange(24)) + 1, group)
    assert mixed.stderr is not None
    others = values[4:].reshape(5, 4)
    assert mixed.stderr > math.sqrt((scipy.stats.sem(others, axis=1) ** 2).sum()) / 6
    assert mean_of_groups(values, group * 0, group).stderr is None


def test_a_linearised_value_has_students_interval_within_its_limits() -> None:
    influence = np.random.default_rng(0).normal(0, 2, 30)
    influence -= influence.mean()
    error = scipy.stats.sem(influence)
    low, high = scipy.stats.t.interval(0.95, 29, 0.3, error)
    found = linearised(0.3, influence, np.arange(30), -9.0, 9.0)
    assert (found.mean, found.n, found.n_clusters) == (0.3, 30, 30)
    assert found.stderr == pytest.approx(error)
    assert found.ci95 == pytest.approx((low, high))
    for limits, expected in (((0.0, 9.0), (0.0, high)), ((-9.0, 0.5), (low, 0.5))):
        assert linearised(0.3, influence, np.arange(30), *limits).ci95 == pytest.approx(expected)
