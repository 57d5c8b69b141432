"""Kendall's tau-b against its definition, and the interval of a ranking of groups."""

from itertools import combinations
from math import sqrt

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from harness.analysis.comparison import Pairs, pair
from harness.analysis.rankings import rank_groups, tau_b
from harness.records import Attempt
from tests.analysis.conftest import Make, TableOf

# Few values, so that there are ties.
RANKED = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=2, max_size=30)


@given(RANKED)
def test_is_concordant_less_discordant_pairs(rows: list[tuple[int, int]]) -> None:
    first, second = map(list, zip(*rows, strict=True))
    signs = [(np.sign(a1 - a2), np.sign(b1 - b2)) for (a1, b1), (a2, b2) in combinations(rows, 2)]
    untied = sqrt(sum(a != 0 for a, _ in signs) * sum(b != 0 for _, b in signs))
    found = tau_b(first, second)
    if not untied:
        assert found is None
    else:
        assert found == pytest.approx(sum(a * b for a, b in signs) / untied, abs=1e-12)


def test_nothing_has_no_rank() -> None:
    assert tau_b([], []) is None
    assert tau_b([1.0], [2.0]) is None


RATES = {"a": (0.1, 0.2), "b": (0.4, 0.5), "c": (0.7, 0.45), "d": (0.9, 0.9)}


def ranked(
    make: Make, table_of: TableOf, per_group: int, *, twice: bool = False, seed: int = 1
) -> Pairs:
    """Groups of such rates; twice: every instance has a twin that shares its prompt."""
    chance = np.random.default_rng(seed)
    runs: tuple[list[Attempt], list[Attempt]] = ([], [])
    for name, rates in RATES.items():
        for number in range(per_group):
            for attempts, rate in zip(runs, rates, strict=True):
                passed = bool(chance.random() < rate)
                attempts += [
                    make(f"{name}/{number}{twin}", passed, cluster=f"{name}/{number}", groups=g)
                    for g in ({"g": name},)
                    for twin in ("", "'")[: 1 + twice]
                ]
    return pair(*map(table_of, runs))


def test_groups_are_ranked_by_their_means(make: Make, table_of: TableOf) -> None:
    pairs = ranked(make, table_of, 40)
    found = rank_groups(pairs, "g")
    means = [
        [values[rows].mean() for rows in pairs.group("g").values()]
        for values in (pairs.first, pairs.second)
    ]
    assert found.tau_b == pytest.approx(stats.kendalltau(*means).statistic)
    assert found.n_groups == 4
    assert found.tau_b is not None
    assert found.ci95 is not None
    low, high = found.ci95
    assert -1 <= low <= found.tau_b <= high <= 1
    assert rank_groups(pairs, "g") == found  # the same every time


def test_units_are_drawn_not_instances(make: Make, table_of: TableOf) -> None:
    # Twins that share a prompt are no news: the interval becomes no shorter.
    once = rank_groups(ranked(make, table_of, 8), "g")
    twice = rank_groups(ranked(make, table_of, 8, twice=True), "g")
    assert once.ci95 is not None
    assert twice.ci95 is not None
    assert once.ci95[0] < once.ci95[1]
    lengths = [found.ci95[1] - found.ci95[0] for found in (once, twice) if found.ci95]
    assert lengths[1] >= lengths[0] - 1e-9


def test_the_interval_is_the_percentile_bootstrap(make: Make, table_of: TableOf) -> None:
    """Drawn anew with SciPy; quantiles of 2,000 draws stray by about a step of the ranking."""
    pairs = ranked(make, table_of, 12, seed=3)
    groups = np.zeros(len(pairs), dtype=int)
    for number, there in enumerate(pairs.group("g").values()):
        groups[there] = number

    chance, drawn = np.random.default_rng(5), []
    for _ in range(3000):
        rows = chance.integers(len(pairs), size=len(pairs))
        means = [
            [values[rows][groups[rows] == g].mean() for g in range(4)]
            for values in (pairs.first, pairs.second)
        ]
        drawn.append(stats.kendalltau(*np.round(means, 12)).statistic)
    found = rank_groups(pairs, "g")
    assert found.ci95 is not None
    # Ties make steps smaller than a swap's, which is 1/3.
    assert found.ci95 == pytest.approx(tuple(np.nanpercentile(drawn, [2.5, 97.5])), abs=0.2)


def test_one_unit_says_nothing_of_the_order(make: Make, table_of: TableOf) -> None:
    attempts = [
        make(f"{group}", group > 0, cluster="p", groups={"g": f"{group}"}) for group in (0, 1)
    ]
    found = rank_groups(pair(table_of(attempts), table_of(attempts)), "g")
    assert (found.tau_b, found.ci95) == (1.0, None)


def test_groups_that_all_tie_have_no_order(make: Make, table_of: TableOf) -> None:
    first = [make(f"{n}", True, groups={"g": f"{n % 3}"}) for n in range(9)]
    second = [make(f"{n}", n % 3 == 0, groups={"g": f"{n % 3}"}) for n in range(9)]
    found = rank_groups(pair(table_of(first), table_of(second)), "g")
    assert (found.tau_b, found.ci95, found.n_groups) == (None, None, 3)


def test_what_has_no_group_is_not_ranked(make: Make, table_of: TableOf) -> None:
    attempts = [make(f"{n}", n % 2 == 0, groups={"g": f"{n % 2}"}) for n in range(8)]
    alone = [make(f"x{n}", False) for n in range(50)]
    table = table_of([*attempts, *alone])
    found = rank_groups(pair(table, table), "g")
    assert (found.tau_b, found.n_groups) == (1.0, 2)
