"""Kendall's tau-b against its definition, rankings of groups, and rankings of runs."""

from itertools import combinations
from math import sqrt

import numpy as np
import pytest
import scipy
from hypothesis import assume, given
from hypothesis import strategies as st

from harness.analysis.comparable import Run, refuse_unknown_label
from harness.analysis.comparison import Pairs, pair
from harness.analysis.rankings import (
    MAX_ORDERED,
    MAX_OUTER,
    SATISFIED,
    InducedRankings,
    JudgedTables,
    Tau,
    induced_rankings,
    rank_correlation,
    rank_groups,
    tau_b,
)
from harness.errors import ConfigError
from harness.records import Attempt
from tests.analysis.conftest import Make, TableOf
from tests.analysis.variants import variant

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


ORDERS = st.integers(MAX_ORDERED + 1, 40).flatmap(lambda n: st.permutations(range(n)))


@given(RANKED | ORDERS.map(lambda order: list(enumerate(order))))
def test_p_value_is_scipys_except_for_few(rows: list[tuple[int, int]]) -> None:
    assume(len(rows) > MAX_ORDERED)
    found, expected = rank_correlation(rows), scipy.stats.kendalltau(*zip(*rows, strict=True))
    wanted = None if found.tau_b is None else pytest.approx(expected.pvalue, rel=1e-9)
    assert found.p_value == wanted


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


PASSED = {  # of 10 in each group
    "a": {"Law": 2, "Arts": 8, "10": 1},
    "b": {"Law": 5, "Arts": 6, "10": 2},
    "c": {"Law": 6, "Arts": 4, "10": 3},
    "d": {"Law": 9, "Arts": 2, "10": 4},
    "e": {"Law": 9, "Arts": 1, "10": 5},
}


@pytest.fixture(scope="module")
def runs(make: Make, table_of: TableOf) -> list[Run]:
    return [
        (
            variant(name, {}, model=f"model-{name}"),
            table_of(
                make(f"{group}/{n}", n < passed, groups={"domain": group})
                for group, passed in groups.items()
                for n in range(10)
            ),
        )
        for name, groups in PASSED.items()
    ]


def tau(found: InducedRankings, first: str, second: str) -> Tau:
    names = [one.name for one in found.scorings]
    places = sorted((names.index(first), names.index(second)))
    return next(one for one in found.taus if [one.first, one.second] == places)


def test_each_group_ranks_the_runs(runs: list[Run]) -> None:
    found = induced_rankings(runs, label="domain")
    assert [one.name for one in found.scorings] == ["pass_rate", "Arts", "Law", "10"]
    law = found.scorings[2]
    assert [one and one.mean for one in law.values] == [0.2, 0.5, 0.6, 0.9, 0.9]
    columns = {
        group: [passed[group] for passed in PASSED.values()] for group in ("Arts", "Law", "10")
    }
    for first, second in [("Arts", "Law"), ("Arts", "10"), ("Law", "10")]:
        expected = scipy.stats.kendalltau(columns[first], columns[second])
        one = tau(found, first, second)
        assert one.tau_b == pytest.approx(expected.statistic)
        exact = scipy.stats.permutation_test(
            (columns[first],),
            lambda order, fixed=columns[second]: scipy.stats.kendalltau(order, fixed).statistic,
            permutation_type="pairings",
        )
        assert one.p_value == pytest.approx(exact.pvalue)
        assert one.n_runs == 5
    # By hand: no ties in Arts and 10, and all 10 pairs discordant: p = 2 / 5!.
    assert tau(found, "Arts", "10").tau_b == pytest.approx(-1)
    assert tau(found, "Arts", "10").p_value == pytest.approx(2 / 120)
    # One tied pair of Law: 9 concordant of sqrt(9 * 10).
    assert tau(found, "Law", "10").tau_b == pytest.approx(9 / 90**0.5)


def test_published_scores_by_model_or_run(runs: list[Run]) -> None:
    published = {
        "ifeval": {"model-a": 1.0, "model-b": 2.0, "c": 3.0, "model-d": 4.0, "who": 5.0},
        "mmlu": {"model-a": 1.0},
    }
    found = induced_rankings(runs, external=published)
    assert found.score == "pass_rate"
    assert [(one.kind, one.name) for one in found.scorings] == [
        ("all", "pass_rate"), ("external", "ifeval"), ("external", "mmlu"),
    ]  # fmt: skip
    assert found.unmatched == ["who"]
    one = tau(found, "pass_rate", "ifeval")
    overall = [sum(PASSED[name].values()) for name in "abcd"]
    assert one.n_runs == 4
    assert one.tau_b == pytest.approx(scipy.stats.kendalltau(overall, [1, 2, 3, 4]).statistic)
    alone = tau(found, "pass_rate", "mmlu")
    assert (alone.tau_b, alone.p_value, alone.n_runs) == (None, None, 1)


def test_constraints_of_a_judge_are_clustered_by_task(
    make: Make, table_of: TableOf, runs: list[Run]
) -> None:
    met = {"a": [1, 0, 0, None], "b": [1, 1, 0, 0]}
    tables = [
        table_of(
            make(
                f"task{n // 2}/{n}",
                None if one is None else bool(one),
                cluster=f"task{n // 2}",
                groups={"category": "Length"},
                outcome="ok",
            )
            for n, one in enumerate(values)
        )
        for values in met.values()
    ]
    judged = JudgedTables("yes_no", list(zip(tables, [0, 3], strict=True)))
    found = induced_rankings(runs[:2], label="category", judged=judged)
    assert (found.of, found.judge, found.without) == ("constraints", "yes_no", [0, 3])
    # The shares are not the score of the whole answers.
    assert [one.score for one in found.scorings] == ["pass_rate", SATISFIED]
    first, second = found.scorings[1].values
    assert first is not None
    assert second is not None
    assert (first.n, first.missing, first.mean) == (3, 1, pytest.approx(1 / 3))
    # By hand: residual totals of the two tasks are +1 and -1, so 2 / 1 * (1 + 1) / 4^2.
    assert (second.mean, second.n_clusters) == (0.5, 2)
    assert second.stderr == pytest.approx((2 * 2 / 16) ** 0.5)


def test_a_group_that_a_run_lacks_is_null(make: Make, table_of: TableOf) -> None:
    made: list[Run] = [
        (variant(name, {}), table_of([make("i", True, groups={"domain": group})]))
        for name, group in (("a", "Law"), ("b", "Arts"))
    ]
    found = induced_rankings(made, label="domain", external={"mmlu": {"a": 0.5}})
    assert [one.score for one in found.scorings] == ["pass_rate"] * 3 + [""]
    found = induced_rankings(made, label="domain")
    assert [[value is None for value in one.values] for one in found.scorings[1:]] == [
        [True, False], [False, True],
    ]  # fmt: skip
    assert tau(found, "Law", "Arts").n_runs == 0


def test_numbers_are_in_their_order_and_too_many_groups_refused(
    make: Make, table_of: TableOf
) -> None:
    def run(n: int) -> list[Run]:
        rows = [make(f"i{k}", True, groups={"k": str(k)}) for k in range(1, n + 1)]
        return [(variant(name, {}), table_of(rows)) for name in "ab"]

    names = [one.name for one in induced_rankings(run(11), label="k").scorings]
    assert names[1:] == [str(k) for k in range(1, 12)]
    with pytest.raises(ConfigError, match="has 61 groups"):
        induced_rankings(run(61), label="k")


def test_an_unknown_label_is_named(runs: list[Run]) -> None:
    with pytest.raises(ConfigError, match="--by: the run 'a' has no label 'domian'") as raised:
        refuse_unknown_label("--by", "domian", {"a": runs[0][1]})
    assert "Did you mean 'domain'?" in str(raised.value.remedy)
