"""Kendall's tau-b against its definition, and rankings of groups."""

from itertools import combinations
from math import sqrt

import numpy as np
import pytest
import scipy
from hypothesis import given
from hypothesis import strategies as st

from harness.plugins.comparisons.comparison import Pairs, pair
from harness.plugins.comparisons.run_comparison import MAX_OUTER, rank_groups, tau_b
from harness.records import Attempt, Score
from tests.analysis.conftest import Make, TableOf

# Few values, so that there are ties.
RANKED = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=2, max_size=30)


@given(RANKED)
def test_is_concordant_less_discordant_pairs(rows: list[tuple[int, int]]) -> None:
    first, second = map(list, zip(*rows, strict=True))
    signs = [(np.sign(a1 - a2), np.sign(b1 - b2)) for (a1, b1), (a2, b2) in combinations(rows, 2)]
    untied = sqrt(sum(a != 0 for a, _ in signs) * sum(b != 0 for _, b in signs))
    found = tau_b(np.array(first), np.array(second))
    if not untied:
        assert found is None
    else:
        assert found == pytest.approx(sum(a * b for a, b in signs) / untied, abs=1e-12)


def test_many_values_take_neither_quadratic_time_nor_memory() -> None:
    values = np.arange(50_000.0)  # all pairs would take 20 GB
    assert tau_b(values, values) == pytest.approx(1)
    assert tau_b(values, np.zeros(50_000)) is None
    few, many = np.random.default_rng(0).integers(0, 9, (2, MAX_OUTER + 1)).astype(float)
    signs = np.sign(np.subtract.outer(few, few)) * np.sign(np.subtract.outer(many, many))
    untied = [(np.subtract.outer(one, one) != 0).sum() for one in (few, many)]
    assert tau_b(few, many) == pytest.approx(signs.sum() / sqrt(untied[0]) / sqrt(untied[1]))


def test_nothing_has_no_rank() -> None:
    assert tau_b(np.zeros(0), np.zeros(0)) is None
    assert tau_b(np.ones(1), np.zeros(1)) is None


RATES = {"a": (0.1, 0.2), "b": (0.4, 0.5), "c": (0.7, 0.45), "d": (0.9, 0.9)}


def ranked(make: Make, table_of: TableOf, per_group: int) -> Pairs:
    """Groups of such rates."""
    chance = np.random.default_rng(1)
    runs: tuple[list[Attempt], list[Attempt]] = ([], [])
    for name, rates in RATES.items():
        for number in range(per_group):
            for attempts, rate in zip(runs, rates, strict=True):
                passed = bool(chance.random() < rate)
                attempts.append(make(f"{name}/{number}", passed, groups={"g": name}))
    return pair(*map(table_of, runs))


def test_groups_are_ranked_by_their_means(make: Make, table_of: TableOf) -> None:
    pairs = ranked(make, table_of, 40)
    found = rank_groups(pairs, "g")
    means = [
        [values[rows].mean() for rows in pairs.group("g").values()]
        for values in (pairs.first, pairs.second)
    ]
    assert found.tau_b == pytest.approx(scipy.stats.kendalltau(*means).statistic)
    assert found.n_groups == 4


def test_groups_are_ranked_by_their_weighted_means(make: Make, table_of: TableOf) -> None:
    """In the first run, a has 0.75 and b 0.6, but without weights a would have 0.5."""
    rows = [("a", (1.0, 0.9), 3), ("a", (0.0, 0.9), 1), ("b", (0.6, 0.1), 1), ("b", (0.6, 0.1), 1)]
    runs = (
        table_of(
            make(f"{n}", None, groups={"g": g}, scores={"s": Score(both[k]), "w": Score(weight)})
            for n, (g, both, weight) in enumerate(rows)
        )
        for k in (0, 1)
    )
    assert rank_groups(pair(*runs, score="s", weight="w"), "g").tau_b == 1


def test_groups_that_all_tie_have_no_order(make: Make, table_of: TableOf) -> None:
    first = [make(f"{n}", True, groups={"g": f"{n % 3}"}) for n in range(9)]
    second = [make(f"{n}", n % 3 == 0, groups={"g": f"{n % 3}"}) for n in range(9)]
    found = rank_groups(pair(table_of(first), table_of(second)), "g")
    assert (found.tau_b, found.n_groups) == (None, 3)


def test_what_has_no_group_is_not_ranked(make: Make, table_of: TableOf) -> None:
    attempts = [make(f"{n}", n % 2 == 0, groups={"g": f"{n % 2}"}) for n in range(8)]
    alone = [make(f"x{n}", False) for n in range(50)]
    table = table_of([*attempts, *alone])
    found = rank_groups(pair(table, table), "g")
    assert (found.tau_b, found.n_groups) == (1.0, 2)
