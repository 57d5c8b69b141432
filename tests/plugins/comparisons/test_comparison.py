"""The statistics of two runs against statsmodels, SciPy and a simulation."""

from __future__ import annotations

from itertools import product
from math import sqrt
from random import Random
from typing import Any

import numpy as np
import pytest
import scipy
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from scipy.stats import t

from harness.analysis.breakdown import mean_score
from harness.analysis.metrics import PASS_RATE
from harness.plugins.comparisons.comparison import Comparison, Pairs, adjusted, compare, pair
from harness.plugins.comparisons.p_values import (
    benjamini_hochberg,
    detectable_change,
    mcnemar,
    needed_pairs,
)
from harness.records import Attempt, Score
from harness.store.columns import AttemptTable, name_digest
from scripts.simulate_statistics import simulate_groups
from tests.analysis import statsmodels_reference as statsmodels
from tests.analysis.conftest import Make, TableOf

SAMPLES = st.lists(st.booleans(), min_size=1, max_size=3)
INSTANCES = st.lists(st.tuples(st.integers(0, 6), SAMPLES, SAMPLES), min_size=2, max_size=25)
P_VALUES = st.lists(st.floats(0, 1), min_size=1, max_size=20)


def paired(
    make: Make,
    table_of: TableOf,
    first: list[Any],
    second: list[Any],
    clusters: list[Any] | None = None,
) -> Pairs:
    """Runs of one sample of each instance: verdicts, or numbers as the score f1."""

    def attempts(values: list[Any]) -> list[Attempt]:
        units = clusters or range(len(values))
        return [
            make(f"{n}", bool(value), cluster=f"{unit}", scores={"f1": Score(float(value), None)})
            for n, (value, unit) in enumerate(zip(values, units, strict=True))
        ]

    verdicts = all(isinstance(value, bool) for value in [*first, *second])
    score = PASS_RATE if verdicts else "f1"
    return pair(table_of(attempts(first)), table_of(attempts(second)), score=score)


@settings(max_examples=30)
@given(INSTANCES)
def test_is_clustered_least_squares_on_a_constant(
    make: Make, table_of: TableOf, rows: list[tuple[int, list[bool], list[bool]]]
) -> None:
    first, second = (
        table_of(
            make(f"{n}", passed, sample=sample, cluster=f"{row[0]}")
            for n, row in enumerate(rows)
            for sample, passed in enumerate(row[1:][run])
        )
        for run in (0, 1)
    )
    found = compare(pair(first, second))
    clusters = np.array([row[0] for row in rows])
    difference = np.array([np.mean(row[2]) - np.mean(row[1]) for row in rows])
    assert found.n == len(rows)
    assert found.n_clusters == len(set(clusters))
    assert found.difference == pytest.approx(difference.mean(), abs=1e-12)
    assert (found.better, found.worse) == ((difference > 0).sum(), (difference < 0).sum())
    if len(set(clusters)) < 2:
        assert (found.stderr, found.p_value, found.ci95) == (None, None, None)
        return
    expected = statsmodels.least_squares(difference, clusters)
    assert found.stderr == pytest.approx(float(expected.bse[0]), abs=1e-9)
    assume(expected.bse[0] > 1e-9)
    low, high = expected.conf_int()[0]
    if found.method == "clustered paired t":
        assert found.ci95 == pytest.approx((max(-1, low), min(1, high)), abs=1e-9)
        assert found.p_value == pytest.approx(float(expected.pvalues[0]), abs=1e-9)
    totals = np.bincount(clusters, difference)
    if np.abs(totals).max() - np.abs(totals[totals != 0]).min() > 1e-9:
        exact = enumerated(totals)
        assert found.p_value == pytest.approx(max(exact, float(expected.pvalues[0])), abs=1e-9)


def test_a_weighted_difference_is_clustered_weighted_least_squares(
    make: Make, table_of: TableOf
) -> None:
    """Shares of 1 to 5 instructions; two samples of each of 60 instances, three in a cluster."""
    chance = np.random.default_rng(1)
    counts = chance.integers(1, 6, 60)
    clusters = np.arange(60) // 3
    shares = chance.binomial(counts, [[[0.5]], [[0.7]]], (2, 2, 60)) / counts

    def run(values: np.ndarray) -> AttemptTable:
        return table_of(
            make(
                f"{n}",
                None,
                sample=sample,
                cluster=f"{clusters[n]}",
                groups={"half": "ab"[n % 2]},
                scores={"share": Score(float(values[sample, n])), "count": Score(int(counts[n]))},
            )
            for n in range(60)
            for sample in range(2)
        )

    first, second = map(run, shares)
    pairs = pair(first, second, score="share", weight="count")
    found = compare(pairs)
    difference = (shares[1] - shares[0]).mean(axis=0)
    expected = statsmodels.least_squares(difference, clusters, counts)
    assert found.difference == pytest.approx(np.average(difference, weights=counts))
    means = [mean_score(table, "share", "count").mean for table in (first, second)]
    assert (found.first, found.second) == pytest.approx(tuple(means))
    assert found.stderr == pytest.approx(float(expected.bse[0]))
    assert found.ci95 == pytest.approx(tuple(expected.conf_int()[0]))
    assert found.p_value == pytest.approx(float(expected.pvalues[0]))
    assert (found.better, found.worse) == ((difference > 1e-9).sum(), (difference < -1e-9).sum())
    # Over groups of equal weight: the mean of the groups' weighted differences.
    halves = [np.average(difference[n::2], weights=counts[n::2]) for n in (0, 1)]
    by_half = compare(pairs, "half")
    assert by_half.difference == pytest.approx(np.mean(halves))
    influence = (
        counts * (difference - np.tile(halves, 30)) / np.tile(counts.reshape(30, 2).sum(0), 30)
    )
    totals = np.bincount(clusters, influence / 2)  # every cluster has instances in both halves
    assert by_half.stderr == pytest.approx(sqrt(20 / 19 * np.sum(totals**2)))
    assert pair(first, second, score="share", weight="unknown").weights is None


def test_the_weights_of_the_two_runs_may_differ(make: Make, table_of: TableOf) -> None:
    values = ([0.5, 1.0, 0.0, 0.25], [1.0, 0.5, 0.5, 1.0])
    weights = ([1, 2, 3, 4], [4, 3, 0, 1])  # of which 0 counts as no value
    runs = []
    for of_run, weights_of_run in zip(values, weights, strict=True):
        scores = [
            {"s": Score(value), "w": Score(weight)}
            for value, weight in zip(of_run, weights_of_run, strict=True)
        ]
        runs.append(table_of([make(f"{n}", None, scores=scores[n]) for n in range(4)]))
    found = compare(pair(*runs, score="s", weight="w"))
    means = (0.5 + 2 + 1) / 7, (4 + 1.5 + 1) / 8
    assert (found.n, found.not_judged) == (3, 1)
    assert (found.first, found.second) == pytest.approx(means)
    influences = [
        weight_1 * (value_1 - means[1]) / 8 - weight_0 * (value_0 - means[0]) / 7
        for value_0, value_1, weight_0, weight_1 in (
            (0.5, 1.0, 1, 4),
            (1.0, 0.5, 2, 3),
            (0.25, 1.0, 4, 1),
        )
    ]
    assert found.stderr == pytest.approx(sqrt(1.5 * sum(one**2 for one in influences)))


def test_more_samples_of_an_instance_give_it_no_more_weight(make: Make, table_of: TableOf) -> None:
    """Weights 1 and 3; the second run has three samples of the first instance."""
    once = {"a": [0.5], "b": [0.25]}
    again = {"a": [0.0, 1.0, 0.8], "b": [1.0]}
    runs = (
        table_of(
            make(name, None, sample=k, scores={"s": Score(value), "w": Score(weight)})
            for (name, values), weight in zip(samples.items(), (1, 3), strict=True)
            for k, value in enumerate(values)
        )
        for samples in (once, again)
    )
    found = compare(pair(*runs, score="s", weight="w"))
    assert (found.first, found.second) == pytest.approx((1.25 / 4, (0.6 + 3) / 4))
    assert found.difference == pytest.approx((0.1 + 3 * 0.75) / 4)


def enumerated(totals: np.ndarray) -> float:
    """The share of all assignments of signs whose sum is as far from 0, one by one."""
    own = [one for one in totals.tolist() if abs(one) > 1e-12]
    sums = [
        abs(sum(sign * one for sign, one in zip(signs, own, strict=True)))
        for signs in product((1, -1), repeat=len(own))
    ]
    return sum(one >= abs(sum(own)) - 1e-9 for one in sums) / len(sums)


@settings(max_examples=30)
@given(st.lists(st.tuples(st.booleans(), st.booleans()), min_size=2, max_size=40))
def test_single_verdicts_of_prompts_of_their_own_are_mcnemars(
    make: Make, table_of: TableOf, rows: list[tuple[bool, bool]]
) -> None:
    first, second = map(list, zip(*rows, strict=True))
    table = np.zeros((2, 2), dtype=int)
    for one, other in rows:
        table[int(one), int(other)] += 1
    assume(len({other - one for one, other in rows}) > 1)
    found = compare(paired(make, table_of, first, second))
    assert found.method == "exact McNemar"
    assert found.p_value == pytest.approx(statsmodels.mcnemar(table), abs=1e-9)
    assert found.effect == pytest.approx(
        statsmodels.effect_size(np.mean(second), np.mean(first)), abs=1e-9
    )


def test_true_or_false_of_another_score_is_a_verdict_as_well(make: Make, table_of: TableOf) -> None:
    first, second = (
        table_of([make(f"{n}", None, scores={"exact": Score(n < k, None)}) for n in range(20)])
        for k in (4, 10)
    )
    found = compare(pair(first, second, score="exact"))
    assert (found.method, found.p_value) == ("exact McNemar", mcnemar(6, 0))


def test_a_verdict_against_a_fraction_is_no_pair_of_verdicts(make: Make, table_of: TableOf) -> None:
    first, second = (
        table_of([make(f"{n}", None, scores={"s": Score(value)}) for n, value in enumerate(values)])
        for values in ([n % 2 == 0 for n in range(20)], [n / 20 for n in range(20)])
    )
    for pairs in (pair(first, second, score="s"), pair(second, first, score="s")):
        found = compare(pairs)
        assert not found.verdicts
        assert "McNemar" not in found.method


@given(st.integers(0, 2000), st.integers(0, 2000))
def test_mcnemar_is_the_binomial_test(better: int, worse: int) -> None:
    table = [[3, better], [worse, 4]]
    found = mcnemar(better, worse)
    assert found == pytest.approx(statsmodels.mcnemar(table), rel=1e-9, abs=1e-15)
    if better + worse:
        expected = scipy.stats.binomtest(better, better + worse).pvalue
        assert found == pytest.approx(expected, rel=1e-9, abs=1e-15)


@pytest.mark.parametrize(("rows", "samples"), [(1, 3), (5, 1), (5, 3)])
def test_repeated_answers_are_no_evidence(
    make: Make, table_of: TableOf, rows: int, samples: int
) -> None:
    """20 prompts, of which 4 get worse: 3 equal samples, or 5 equal rows, change nothing."""

    def run(failing: range, rows: int = 1, samples: int = 1) -> AttemptTable:
        return table_of(
            make(f"{prompt}/{row}", prompt not in failing, cluster=f"{prompt}", sample=sample)
            for prompt in range(20)
            for row in range(rows)
            for sample in range(samples)
        )

    once, often = (
        compare(pair(run(range(2), *size), run(range(6), *size))) for size in ((), (rows, samples))
    )
    assert (once.method, once.p_value) == ("exact McNemar", mcnemar(0, 4))
    for name in ("method", "difference", "p_value"):
        assert getattr(often, name) == pytest.approx(getattr(once, name)), name
    assert often.ci95 == pytest.approx(once.ci95)


def test_nearly_equal_changes_are_judged_as_equal_ones(make: Make, table_of: TableOf) -> None:
    """Four prompts of 20 get worse, one of them in 3 of 4 samples: t would give p = 0.043."""
    before = [make(f"{n}", True, sample=k) for n in range(20) for k in range(4)]
    after = [make(f"{n}", n > 3 or (n, k) == (0, 0), sample=k) for n in range(20) for k in range(4)]
    found = compare(pair(table_of(before), table_of(after)))
    assert (found.method, found.p_value) == ("sign flips", 0.125)
    assert found.ci95 is not None
    assert found.ci95[1] == 0


def test_means_over_groups_are_decided_as_means_over_instances(
    make: Make, table_of: TableOf
) -> None:
    """40 and 39 instances of two groups: two of each get better, and none worse."""

    def run(passed: set[int]) -> AttemptTable:
        groups = [{"k": "a" if n < 40 else "b"} for n in range(79)]
        return table_of(make(f"{n}", n in passed, groups=groups[n]) for n in range(79))

    even = set(range(0, 79, 2))
    pairs = pair(run(even), run(even | {1, 3, 41, 43}))
    whole, over = compare(pairs), compare(pairs, "k")
    assert over.difference == pytest.approx((2 / 40 + 2 / 39) / 2)
    assert over.second == pytest.approx((22 / 40 + 22 / 39) / 2)
    assert (whole.p_value, over.p_value, over.n_clusters) == (0.125, 0.125, 79)
    assert over.ci95 is not None
    assert over.ci95[0] == 0


@pytest.mark.parametrize(("n", "bounds"), [(20, (-0.05, 0.05)), (21, None)])
def test_one_of_twenty_that_is_not_judged_bounds_the_difference(
    make: Make, table_of: TableOf, n: int, bounds: tuple[float, float] | None
) -> None:
    runs = [table_of(make(f"{row}", row > 0 or None) for row in range(n)) for _ in range(2)]
    assert pair(*runs).bounds == (bounds and pytest.approx(bounds))


def test_two_groups_do_not_make_chance_significant() -> None:
    by_prompt, by_group = simulate_groups(40, 2, 0.1, 500, seed=1)
    assert np.mean(by_prompt) < 0.05 < np.mean(by_group)


def test_what_cannot_be_detected_is_none(make: Make, table_of: TableOf) -> None:
    found = compare(paired(make, table_of, [False, False, True], [True, True, True]))
    assert found.stderr
    assert found.detectable is None, "a difference of verdicts is at most 1"


def test_verdicts_have_the_power_of_the_exact_test(make: Make, table_of: TableOf) -> None:
    """20 prompts with three instances each: 8 prompts get better, and 2 worse."""
    first = np.repeat(np.arange(20) >= 8, 3)
    second = np.repeat((np.arange(20) < 8) | (np.arange(20) >= 10), 3)
    clusters = np.arange(60) // 3
    found = compare(paired(make, table_of, first.tolist(), second.tolist(), clusters.tolist()))
    assert (found.method, found.n_clusters, found.difference) == ("exact McNemar", 20, 0.3)
    assert found.needed == 3 * needed_pairs(0.4, 0.1)
    assert found.detectable == detectable_change(20, 0.5, 0.3)
    alike = compare(paired(make, table_of, [True] * 20, [True] * 20))
    assert (alike.method, alike.detectable, alike.needed) == ("exact McNemar", None, None)


def test_a_difference_of_fractions_above_1_is_not_detectable(make: Make, table_of: TableOf) -> None:
    """Two samples of each of three prompts."""
    runs = [
        table_of(
            make(f"{n}", passed, sample=sample)
            for n, verdicts in enumerate(run)
            for sample, passed in enumerate(verdicts)
        )
        for run in (
            [(False, False), (True, False), (True, True)],
            [(True, False), (True, True), (False, False)],
        )
    ]
    found = compare(pair(*runs))
    assert found.stderr
    assert (found.n, found.detectable) == (3, None)


@given(P_VALUES)
def test_benjamini_hochberg(p_values: list[float]) -> None:
    found = benjamini_hochberg(p_values)
    assert found == pytest.approx(statsmodels.multipletests(p_values, "fdr_bh"), abs=1e-12)
    assert found == pytest.approx(list(scipy.stats.false_discovery_control(p_values)), abs=1e-12)


def a_comparison(p_value: float | None) -> Comparison:
    return Comparison(
        n=10,
        n_clusters=10,
        first=0.5,
        second=0.5,
        difference=0.0,
        stderr=0.1,
        ci95=None,
        degrees=9.0,
        p_value=p_value,
        method="none" if p_value is None else "clustered paired t",
        better=0,
        worse=0,
        effect=None,
        detectable=None,
        needed=None,
        only_first=0,
        only_second=0,
        not_judged=0,
    )


@given(st.lists(st.none() | st.floats(0, 1), max_size=15))
def test_what_has_no_p_value_is_in_no_family(p_values: list[float | None]) -> None:
    known = [p for p in p_values if p is not None]
    for planned, method in ((True, "holm"), (False, "fdr_bh")):
        found = adjusted([a_comparison(p) for p in p_values], planned=planned)
        assert [one.p_value for one in found] == p_values
        assert [one.p_adjusted is None for one in found] == [p is None for p in p_values]
        if known:
            expected = statsmodels.multipletests(known, method)
            told = [one.p_adjusted for one in found if one.p_adjusted is not None]
            assert told == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize(("n", "mean"), [(12, 0.25), (40, 0.4), (200, 0.05)])
def test_needed_shows_the_difference_and_agrees_with_the_detectable_one(
    make: Make, table_of: TableOf, n: int, mean: float
) -> None:
    """The number of pairs for 80% power of the t test, by statsmodels' noncentral t."""
    chance = np.random.default_rng(1)
    first = chance.uniform(0, 1, n).round(6)
    second = (first + chance.normal(mean, 0.4, n)).round(6)
    found = compare(paired(make, table_of, first.tolist(), second.tolist()))
    assert found.needed is not None
    assert found.difference is not None
    assert found.detectable is not None
    effect = abs(found.difference) / float(np.std(second - first, ddof=1))
    assert found.effect == pytest.approx(np.sign(found.difference) * effect, abs=1e-9)
    assert statsmodels.power(effect, found.needed) >= 0.79
    assert statsmodels.power(effect, max(2, found.needed - 2)) < 0.8
    assert (found.needed <= n) == (found.detectable <= abs(found.difference))


def test_large_clusters_keep_their_share_of_fewer_instances(make: Make, table_of: TableOf) -> None:
    """A cluster that is much larger than the others limits the degrees of freedom at any size."""
    chance = np.random.default_rng(3)
    clusters = ["large"] * 60 + [f"small/{number}" for number in range(240)]
    first = chance.uniform(0, 1, 300).round(6)
    second = (first + chance.normal(0.5, 0.4, 300)).round(6)
    found = compare(paired(make, table_of, first.tolist(), second.tolist(), clusters))
    assert found.degrees is not None
    assert found.degrees < 30, "of 241 clusters"
    assert found.needed is not None
    assert found.stderr is not None
    assert found.difference is not None

    def shows(n: int) -> bool:
        degrees = min(found.degrees or 0.0, n * 241 / 300 - 1)
        reach = t.ppf(0.975, degrees) + t.ppf(0.8, degrees)
        error = (found.stderr or 0.0) * sqrt(300 / n)
        return bool(reach * error <= (found.difference or 0.0))

    assert shows(found.needed)
    assert not shows(found.needed - 1)


@pytest.mark.parametrize("n", [10, 40, 400])
def test_detectable_shows_in_four_of_five_cases(make: Make, table_of: TableOf, n: int) -> None:
    """(t_0.975 + t_0.8) * stderr (Bloom 1995, "Minimum Detectable Effects")."""
    chance = np.random.default_rng(n)
    first = chance.uniform(0, 1, n).round(6)
    second = (first + chance.normal(0, 0.3, n)).round(6)
    found = compare(paired(make, table_of, first.tolist(), second.tolist()))
    assert found.stderr is not None
    assert found.detectable is not None
    multiple = scipy.stats.t.ppf(0.975, n - 1) + scipy.stats.t.ppf(0.8, n - 1)
    assert found.detectable == pytest.approx(multiple * found.stderr, rel=1e-9)
    grades = compare(paired(make, table_of, (10 * first).tolist(), (10 * second).tolist()))
    assert grades.detectable == pytest.approx(10 * found.detectable), "it may be above 1"
    # The power of the t test of that difference, by the noncentral t distribution.
    d = found.detectable / (found.stderr * sqrt(n))
    assert statsmodels.power(d, n) == pytest.approx(0.8, abs=0.01)


def test_no_difference_of_shares_above_1_is_detectable(make: Make, table_of: TableOf) -> None:
    first = [0.1, 0.9, 0.5]
    second = [0.9, 0.15, 0.4]
    assert compare(paired(make, table_of, first, second)).detectable is None
    tenfold = compare(paired(make, table_of, [10 * x for x in first], [10 * x for x in second]))
    assert (tenfold.detectable or 0) > 10, "grades have no such limit"


def test_no_pairs(make: Make, table_of: TableOf) -> None:
    found = compare(pair(table_of([make("a", True)]), table_of([make("b", True)])))
    assert (found.n, found.n_clusters, found.only_first, found.only_second) == (0, 0, 1, 1)
    assert found.method == "none"
    told = (found.first, found.second, found.difference, found.stderr, found.ci95, found.p_value)
    assert told == (None,) * 6
    assert (found.effect, found.detectable, found.needed) == (None, None, None)


@pytest.mark.parametrize("n", [1, 3])
def test_one_unit_says_nothing_of_the_error(make: Make, table_of: TableOf, n: int) -> None:
    pairs = paired(make, table_of, [False] * n, [True] * n, ["p"] * n)
    found = compare(pairs)
    assert (found.n, found.n_clusters, found.difference, found.better) == (n, 1, 1.0, n)
    assert (found.stderr, found.ci95, found.p_value, found.method) == (None, None, None, "none")
    assert (found.detectable, found.needed) == (None, None)


def test_verdicts_that_are_all_the_same_are_not_certain(make: Make, table_of: TableOf) -> None:
    verdicts = [True, False] * 10
    found = compare(paired(make, table_of, verdicts, verdicts))
    assert (found.method, found.p_value, found.difference) == ("exact McNemar", 1.0, 0.0)
    assert found.ci95 == pytest.approx((-0.126, 0.126), abs=5e-4)
    assert (found.better, found.worse, found.detectable, found.needed) == (0, 0, None, None)
    halves = [n // 2 for n in range(18)] + [9, 0]  # of unequal sizes
    shared = compare(paired(make, table_of, verdicts, verdicts, halves))
    # What may differ though none of 10 units does.
    reach = scipy.stats.binomtest(0, 10).proportion_ci(0.95, method="exact").high
    assert (shared.method, shared.p_value) == ("clustered paired t", 1.0)
    assert shared.ci95 == pytest.approx((-reach, reach))


def test_pairs_that_share_their_replies_are_not_tested(make: Make, table_of: TableOf) -> None:
    pairs = paired(make, table_of, [True] * 10, [True] * 8 + [False] * 2)

    def sharing(*shared: int) -> Comparison:
        return compare(pairs.sharing(np.array([name_digest(f"{n}") for n in shared], np.int64)))

    assert sharing(*range(8)) == replace(compare(pairs), shared=8)  # two other units can be tested
    nearly = sharing(*range(9))
    assert (nearly.method, nearly.p_value, nearly.needed) == ("shared replies", None, None)
    assert (nearly.difference, nearly.worse, nearly.shared) == (pytest.approx(-0.2), 2, 9)
    equal = compare(pairs.take(pairs.difference == 0).sharing(pairs.digest))
    assert (equal.method, equal.p_value, equal.ci95) == ("shared replies", None, None)
    swapped = paired(make, table_of, [True] * 9 + [False], [False] + [True] * 9)
    balanced = compare(swapped.sharing(swapped.digest))  # differences that cancel are no certainty
    assert (balanced.difference, balanced.p_value, balanced.better) == (0.0, None, 1)
    assert balanced.ci95 is not None


def test_scores_that_are_all_the_same_have_no_interval(make: Make, table_of: TableOf) -> None:
    found = compare(paired(make, table_of, [0.1, 0.7, 0.4], [0.1, 0.7, 0.4]))
    assert (found.difference, found.p_value, found.ci95) == (0.0, 1.0, None)
    assert (found.effect, found.needed) == (None, None)


@pytest.mark.parametrize("n", range(2, 30))
def test_nothing_is_sure_where_all_differ_alike(make: Make, table_of: TableOf, n: int) -> None:
    # 0.4 - 0.1 is no 0.3: rounding makes a spread of 1e-17 of it, for some n.
    for first, second in ((0.1, 0.4), (0.7, 0.1)):
        found = compare(paired(make, table_of, [first] * n, [second] * n))
        assert (found.stderr, found.method) == (0.0, "none")
        assert (found.p_value, found.ci95, found.detectable, found.needed) == (None,) * 4
        assert found.difference == pytest.approx(second - first)
        assert found.effect is None


def test_single_verdicts_have_the_published_interval(make: Make, table_of: TableOf) -> None:
    # Airway hyper-responsiveness of 21 children (Fagerland, Lydersen and Laake 2014, table I).
    first = [False] * 1 + [True] * 7 + [True] * 1 + [False] * 12
    second = [True] * 1 + [False] * 7 + [True] * 1 + [False] * 12
    found = compare(paired(make, table_of, first, second))
    assert found.p_value == pytest.approx(0.0703, abs=5e-5)
    assert found.ci95 == pytest.approx((-0.508, 0.0), abs=5e-4)  # -0.013, but the test is exact


@given(st.integers(0, 12), st.integers(0, 12), st.integers(0, 12))
@example(5, 0, 15)
def test_test_and_interval_agree_on_whether_there_is_a_difference(
    make: Make, table_of: TableOf, better: int, worse: int, same: int
) -> None:
    first = [False] * better + [True] * (worse + same)
    second = [True] * better + [False] * worse + [True] * same
    if len(first) < 2:
        return
    found = compare(paired(make, table_of, first, second))
    assert found.method == "exact McNemar"
    assert found.p_value is not None
    assert found.ci95 is not None
    low, high = found.ci95
    assert -1 <= low <= (found.difference or 0.0) <= high <= 1
    assert (found.p_value < 0.05) == (low > 0 or high < 0)


def test_units_that_all_differ_alike_are_few_units(make: Make, table_of: TableOf) -> None:
    shared = compare(paired(make, table_of, [False] * 4, [True] * 4, [0, 0, 1, 1]))
    assert (shared.method, shared.p_value, shared.stderr) == ("exact McNemar", 0.5, 0.0)


def test_units_whose_differences_cancel_do_not_differ(make: Make, table_of: TableOf) -> None:
    first, second = [True, False] * 4, [False, True] * 4
    found = compare(paired(make, table_of, first, second, [n // 2 for n in range(8)]))
    assert (found.difference, found.stderr, found.better, found.worse) == (0.0, 0.0, 4, 4)
    assert (found.method, found.p_value) == ("exact McNemar", 1.0)


def test_rounding_is_no_difference(make: Make, table_of: TableOf) -> None:
    # 0.1 + 0.2 - 0.3 is 6e-17, for which 10^33 instances would be needed.
    found = compare(paired(make, table_of, [0.0, 0.0, 0.3], [0.1, 0.2, 0.0]))
    assert (found.difference, found.needed, found.p_value) == (0.0, None, 1.0)
    assert (found.better, found.worse) == (2, 1)
    # The last digit of 1e6 is worth 1e-10.
    large = compare(paired(make, table_of, [1e6, 2e6, 3e6], [1e6 + 1e-9, 2e6, 3e6 + 1e-9]))
    assert (large.better, large.worse, large.difference) == (0, 0, 0.0)


def test_the_recorded_models(collie: dict[str, AttemptTable], data_dir: Any) -> None:
    pairs = pair(collie["vicuna-7b"], collie["gpt-4"])
    found = compare(pairs)
    assert (found.n, found.n_clusters) == (2080, 1435)
    assert found.first == pytest.approx(341 / 2080, abs=1e-12)
    assert found.second == pytest.approx(0.5125, abs=1e-12)
    assert found.difference == pytest.approx(0.5125 - 341 / 2080, abs=1e-12)
    assert (found.better, found.worse) == (753, 28)
    assert found.method == "clustered paired t"
    expected = statsmodels.least_squares(*recorded_differences(data_dir))
    assert found.stderr == pytest.approx(float(expected.bse[0]), abs=1e-9)
    assert found.degrees == pytest.approx(expected.df_resid_inference, abs=1e-6)
    assert found.ci95 == pytest.approx(tuple(expected.conf_int()[0]), abs=1e-9)
    assert found.p_value == pytest.approx(float(expected.pvalues[0]), rel=1e-6)
    assert found.stderr == pytest.approx(0.0266, abs=5e-5)
    # Were every instance news, the error would be 0.0111.
    assert scipy.stats.sem(pairs.difference) == pytest.approx(0.0111, abs=5e-5)


def recorded_differences(data_dir: Any) -> tuple[list[int], np.ndarray]:
    """Straight from the files: difference and prompt of each instance."""
    import json

    folder = data_dir / "collie"
    runs = [
        {
            row["id"]: int(row["verdicts"][0])
            for row in json.loads((folder / f"expected_{model}.json").read_text())["instances"]
        }
        for model in ("vicuna-7b", "gpt-4")
    ]
    rows = [json.loads(line) for line in (folder / "instances.jsonl").read_text().splitlines()]
    prompts = np.unique([row["prompt"] for row in rows], return_inverse=True)[1]
    return [runs[1][row["id"]] - runs[0][row["id"]] for row in rows], prompts


NAMES = st.sampled_from([f"{source}/{n}" for source in ("wiki", "ccnews") for n in range(8)])
VERDICTS = st.lists(st.sampled_from([True, False, None]), min_size=1, max_size=4)
RUN = st.dictionaries(NAMES, VERDICTS, max_size=10)


def values(pairs: Pairs, *names: str) -> dict[str, tuple[float, float]]:
    """Name of each pair to its two values."""
    rows = zip(pairs.digest, pairs.first, pairs.second, strict=True)
    found = {int(digest): (float(one), float(other)) for digest, one, other in rows}
    return {name: found.pop(name_digest(name)) for name in names} | {
        str(d): found[d] for d in found
    }


def units(pairs: Pairs, *names: str) -> list[set[str]]:
    """Which instances are one statistical unit, in the order of the names."""
    unit = dict(zip(pairs.digest.tolist(), pairs.cluster.tolist(), strict=True))
    numbers = [unit[name_digest(name)] for name in names]
    return [
        {name for name, other in zip(names, numbers, strict=True) if other == number}
        for number in dict.fromkeys(numbers)
    ]


@settings(max_examples=40)
@given(RUN, RUN, st.randoms(use_true_random=False))
def test_instances_are_paired_by_name(
    make: Make,
    table_of: TableOf,
    first: dict[str, list[bool | None]],
    second: dict[str, list[bool | None]],
    chance: Random,
) -> None:
    tables = []
    for run in (first, second):
        attempts = [
            make(name, passed, sample=sample)
            for name, verdicts in run.items()
            for sample, passed in enumerate(verdicts)
        ]
        chance.shuffle(attempts)
        tables.append(table_of(attempts))
    pairs = pair(*tables)

    both = first.keys() & second.keys()
    known = {
        name: tuple([v for v in run[name] if v is not None] for run in (first, second))
        for name in both
    }
    judged = {name: found for name, found in known.items() if all(found)}
    assert pairs.digest.tolist() == sorted(name_digest(name) for name in judged)
    found = values(pairs, *judged)
    assert list(found) == list(judged)
    for name, parts in judged.items():
        assert found[name] == pytest.approx(tuple(float(np.mean(part)) for part in parts))
    for digest, samples in zip(pairs.digest, pairs.samples.tolist(), strict=True):
        (name,) = (name for name in judged if name_digest(name) == digest)
        assert samples == [len(part) for part in judged[name]]
    assert pairs.only_first == len(first.keys() - second.keys())
    assert pairs.only_second == len(second.keys() - first.keys())
    assert pairs.not_judged == len(both) - len(judged)
    few = not pairs.not_judged or not judged or pairs.not_judged < 0.05 * len(both)
    assert (pairs.bounds is None) == few
    for against, end in zip((True, False), pairs.bounds or (), strict=False):
        means = [
            [np.mean([put if v is None else v for v in run[name]]) for name in both]
            for run, put in ((first, against), (second, not against))
        ]
        assert end == pytest.approx(np.mean(means[1]) - np.mean(means[0]))
    assert pairs.verdicts
    assert len(set(pairs.cluster.tolist())) == len(judged)


def test_only_instances_with_rows_are_paired(make: Make, table_of: TableOf) -> None:
    first = table_of([make(name, True) for name in "abc"] + [make("d", None)])
    second = table_of([make(name, name != "b") for name in "abde"])

    def without(table: AttemptTable, name: str) -> AttemptTable:
        return table.take(table.instances.digest[table.instance] != name_digest(name))

    whole = pair(first, second)
    assert (len(whole), whole.only_first, whole.only_second, whole.not_judged) == (2, 1, 1, 1)
    for tables in ((without(first, "a"), second), (first, without(second, "a"))):
        part = pair(*tables)
        sides = (part.only_first, part.only_second)
        assert values(part, "b") == {"b": (1.0, 0.0)}
        assert (len(part), part.not_judged) == (1, 1)
        assert sides == ((1, 2) if tables[1] is second else (2, 1))


def test_the_last_line_of_a_key_counts(make: Make, table_of: TableOf) -> None:
    first = table_of([make("a", False), make("b", False), make("a", True)])
    second = table_of([make("a", True), make("b", None), make("b", True), make("a", None)])
    pairs = pair(first, second)
    assert values(pairs) == {str(name_digest("b")): (0.0, 1.0)}
    assert pairs.not_judged == 1


def rounds(make: Make, name: str, *verdicts: bool | None) -> list[Attempt]:
    return [make(name, passed, round=number) for number, passed in enumerate(verdicts, start=1)]


def test_each_samples_last_round_counts_unless_one_is_named(make: Make, table_of: TableOf) -> None:
    first = table_of(
        [*rounds(make, "a", False, True), *rounds(make, "b", True), *rounds(make, "c", True, None)]
    )
    second = table_of(
        [*rounds(make, "a", True, False), *rounds(make, "b", True), *rounds(make, "c", False)]
    )
    last = pair(first, second)
    assert values(last, "a", "b") == {"a": (1.0, 0.0), "b": (1.0, 1.0)}
    assert last.not_judged == 1
    one = pair(first.last_rounds(1), second.last_rounds(1))
    assert values(one, "a", "b", "c") == {"a": (0.0, 1.0), "b": (1.0, 1.0), "c": (1.0, 0.0)}
    two = pair(first.last_rounds(2), second.last_rounds(2))
    assert values(two, "a", "b") == {"a": (1.0, 0.0), "b": (1.0, 1.0)}  # b stopped on its pass
    assert (two.not_judged, two.only_first, two.only_second) == (1, 0, 0)


def test_scores_are_paired_where_both_have_a_value(make: Make, table_of: TableOf) -> None:
    def scored(name: str, f1: float | None, sample: int = 0) -> Attempt:
        scores = {"f1": Score(f1, None), "exact": Score(f1 == 1.0, f1 == 1.0)}
        return make(name, True, sample=sample, scores=scores)

    first = table_of([scored("a", 0.25), scored("a", 0.75, 1), scored("b", None), scored("c", 1.0)])
    second = table_of([scored("a", 1.0), scored("b", 0.5), make("c", True)])
    pairs = pair(first, second, score="f1")
    assert values(pairs, "a") == {"a": (0.5, 1.0)}
    assert pairs.samples.tolist() == [[2, 1]]
    assert pairs.not_judged == 2
    assert not pairs.verdicts
    exact = pair(first, second, score="exact")
    assert values(exact, "a", "b") == {"a": (0.0, 1.0), "b": (0.0, 0.0)}
    assert exact.verdicts
    assert pair(first, second, score="none").not_judged == 3


def test_the_order_of_a_sum_is_no_difference(make: Make, table_of: TableOf) -> None:
    def run(*scores: float) -> list[Attempt]:
        return [
            make("a", True, sample=sample, scores={"f1": Score(value, None)})
            for sample, value in enumerate(scores)
        ]

    pairs = pair(table_of(run(0.1, 0.2, 0.3)), table_of(run(0.3, 0.2, 0.1)), score="f1")
    assert pairs.first[0] != pairs.second[0]
    assert pairs.difference.tolist() == [0.0]


def test_units_of_either_run_are_joined(make: Make, table_of: TableOf) -> None:
    # p joins a and b in the first run, q joins b and c in the second.
    first = {"a": "p", "b": "p", "c": "r", "d": "s", "e": "t", "x": "s", "y": "t"}
    second = {"c": "q", "b": "q", "a": "u", "e": "v", "d": "w"}
    one, other = (
        table_of(make(name, True, cluster=cluster) for name, cluster in run.items())
        for run in (first, second)
    )
    joined = [{"a", "b", "c"}, {"d"}, {"e"}]
    assert units(pair(one, other), "a", "b", "c", "d", "e") == joined
    assert units(pair(other, one), "a", "b", "c", "d", "e") == joined


def test_many_instances_of_one_prompt_stay_joined(make: Make, table_of: TableOf) -> None:
    names = [f"{number}" for number in range(257)]
    first = table_of(make(name, True, cluster="rest" if name == "0" else "p") for name in names)
    second = table_of(make(name, True, cluster="p") for name in names)
    assert len(units(pair(first, second), *names)) == 1


@pytest.fixture
def labelled(make: Make, table_of: TableOf) -> Pairs:
    def run(passed: bool) -> list[Attempt]:
        of = {
            "a": ("p", {"source": "wiki"}),
            "b": ("q", {"source": "wiki"}),
            "c": ("r", {"source": "news"}),
            "d": ("r", {"source": "guten"}),  # the prompt of c
            "e": ("s", {}),
            "f": ("s", {}),
            "g": ("t", {}),
        }
        return [make(n, passed, cluster=c, groups=groups) for n, (c, groups) in of.items()]

    return pair(table_of(run(False)), table_of(run(True)))


def test_a_label_makes_coarser_units(labelled: Pairs) -> None:
    assert units(labelled, *"abcdefg") == [{"a"}, {"b"}, {"c", "d"}, {"e", "f"}, {"g"}]
    coarser = labelled.clustered_by("source")
    # What shares a prompt is never taken apart.
    assert units(coarser, *"abcdefg") == [{"a", "b"}, {"c", "d"}, {"e", "f"}, {"g"}]


def test_groups_are_rows_of_the_pairs(labelled: Pairs) -> None:
    groups = labelled.group("source")
    assert list(groups) == ["guten", "news", "wiki"]
    wiki = labelled.take(groups["wiki"])
    assert values(wiki, "a", "b") == {"a": (0.0, 1.0), "b": (0.0, 1.0)}
    assert units(wiki, "a", "b") == [{"a"}, {"b"}]
    assert sum(map(len, groups.values())) == 4
    # A group without pairs is none.
    assert list(wiki.group("source")) == ["wiki"]
    assert labelled.group("unknown") == {}


def test_runs_without_attempts_have_no_pairs(make: Make, table_of: TableOf) -> None:
    none, some = table_of([]), table_of([make("a", True)])
    for first, second, only in ((none, none, (0, 0)), (none, some, (0, 1)), (some, none, (1, 0))):
        pairs = pair(first, second)
        assert len(pairs) == 0
        assert (pairs.only_first, pairs.only_second) == only
        assert pairs.clustered_by("x").group("x") == {}
