"""Means over groups of equal weight, against computations by hand."""

import math

import numpy as np
import pytest
import scipy

from harness.analysis.clustered import clustered_mean
from harness.plugins.comparisons.strata import mean_of_groups


def test_the_effective_size_of_a_mean_of_groups() -> None:
    passed = np.tile(np.repeat([2, 3, 1], [14, 3, 3]), 2)  # of four samples of each prompt
    balanced = (np.arange(4) < passed[:, None]).astype(float).ravel()
    prompts = np.arange(160) // 4
    assert mean_of_groups(balanced, prompts, prompts // 20).effective_n == pytest.approx(160)
    # Two prompts with one sample, and four with three: each group has half of the weight.
    prompts = np.array([0, 1, *np.repeat([2, 3, 4, 5], 3)])
    alike = mean_of_groups(np.ones(14), prompts, (prompts > 1).astype(int))
    assert alike.effective_n == pytest.approx(1 / (2 * 0.25**2 + 4 * 0.125**2))  # Kish 1965
    # One failure each in 2 of 20 prompts: the error has few degrees of freedom.
    rare = np.array([*[0, 1, 1] * 2, *[1] * 54], float)
    prompts = np.arange(60) // 3
    found = mean_of_groups(rare, prompts, prompts % 2)
    assert found.stderr is not None
    size = rare.mean() * (1 - rare.mean()) / found.stderr**2
    assert 20 < (found.effective_n or 0) < 0.7 * min(size, 60)


def test_a_small_group_that_agrees_does_not_enlarge_the_effective_size() -> None:
    passed = np.array([1.0] * 6 + [1.0] * 80 + [0.0] * 20)
    found = mean_of_groups(passed, np.arange(106), np.repeat([0, 1], [6, 100]))
    kish = 4 / (1 / 6 + 1 / 100)
    assert found.effective_n == pytest.approx(kish)
    low, high = found.ci95 or (0, 0)
    assert low < 0.8 < high, "the small group's true rate may be 0.7"
    # A larger group that agrees is taken as it is, and counts as its prompts do (Kish 1965).
    twenty_five = np.array([1.0] * 25 + [1.0] * 80 + [0.0] * 20)
    larger = mean_of_groups(twenty_five, np.arange(125), np.repeat([0, 1], [25, 100]))
    assert larger.effective_n == pytest.approx(4 / (1 / 25 + 1 / 100))
    # Differences of two runs, which are not shares: the variance is that of the other prompts.
    alike = mean_of_groups(
        np.array([0.0] * 6 + [1.0, -1.0] * 50), np.arange(106), (passed * 0).astype(int)
    )
    unlike = mean_of_groups(
        np.array([0.0] * 6 + [1.0, -1.0] * 50), np.arange(106), np.repeat([0, 1], [6, 100])
    )
    assert (unlike.stderr or 0) > 1.5 * (alike.stderr or 0)


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
    group = np.repeat([0, 1, 2], [12, 28, 60])
    clusters = np.arange(100) // 2
    values = chance.normal(size=100) * (1 + group)
    mean, variance, degrees = a_mean_of_groups(values, clusters, group)
    found = mean_of_groups(values, clusters, group)
    assert (found.n, found.n_clusters) == (100, 50)
    assert found.mean == pytest.approx(mean)
    assert found.stderr == pytest.approx(math.sqrt(variance))
    assert found.degrees == pytest.approx(degrees)


def test_a_small_group_that_agrees_by_chance_has_the_pooled_variance_of_a_cluster() -> None:
    """Two of two verdicts are right beside three groups of 20, of which 14, 16 and 15 are."""
    passed = np.zeros((4, 20))
    for row, right in zip(passed, (14, 16, 15, 2), strict=True):
        row[:right] = 1
    values = np.concatenate([*passed[:3], passed[3, :2]])
    group = np.repeat([0, 1, 2, 3], [20, 20, 20, 2])
    found = mean_of_groups(values, np.arange(62), group)
    variances = [passed[0].var(ddof=1), passed[1].var(ddof=1), passed[2].var(ddof=1), 0.0]
    pooled = np.average(variances, weights=[19, 19, 19, 1])
    large = np.array(variances[:3]) / 20 / 16
    small = pooled / 2 / 16
    assert found.mean == pytest.approx((0.7 + 0.8 + 0.75 + 1) / 4)
    assert found.stderr == pytest.approx(math.sqrt(large.sum() + small))
    welch = (large.sum() + small) ** 2 / ((large**2 / 21).sum() + small**2 / 60) - 2
    assert found.degrees == pytest.approx(welch)
    assert found.effective_n == pytest.approx(16 / (3 / 20 + 1 / 2))  # Kish 1965
    # Small groups that vary more than the others keep their own variance.
    values[-1] = 0
    varied = mean_of_groups(values, np.arange(62), group)
    assert varied.stderr == pytest.approx(math.sqrt(large.sum() + 0.5 / 2 / 16))


def test_small_groups_of_one_size_keep_their_variances() -> None:
    values = np.random.default_rng(6).normal(size=15)
    group = np.arange(15) // 3
    found = mean_of_groups(values, np.arange(15), group)
    mean, variance, degrees = a_mean_of_groups(values, np.arange(15), group)
    expected = (pytest.approx(mean), pytest.approx(math.sqrt(variance)), pytest.approx(degrees))
    assert (found.mean, found.stderr, found.degrees) == expected


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


def test_groups_that_share_clusters_have_the_degrees_of_the_group_with_the_fewest() -> None:
    """Three of ten clusters have a value in both groups."""
    values = np.random.default_rng(5).normal(size=13)
    clusters = np.array([*range(3), *range(10)])
    group = np.repeat([0, 1], [3, 10])
    estimate = mean_of_groups(values, clusters, group)
    assert estimate.degrees == pytest.approx(2)
    assert estimate.stderr is not None
    low, high = estimate.clipped_ci95() or (0, 0)
    assert (high - low) / 2 == pytest.approx(scipy.stats.t.ppf(0.975, 2) * estimate.stderr)
