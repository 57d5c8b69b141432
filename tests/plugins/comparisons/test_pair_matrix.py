"""Every pair of runs, from files: tests, and refusals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pytest
import scipy

from harness.analysis.breakdown import mean_score
from harness.errors import ConfigError, RunConflict
from harness.plugins.comparisons.comparable import Run
from harness.plugins.comparisons.p_values import holm
from harness.plugins.comparisons.pair_matrix import PairMatrix, pair_matrix
from harness.records import Attempt, Score
from tests.analysis.conftest import Make, TableOf
from tests.analysis.statsmodels_reference import least_squares
from tests.plugins.comparisons.variants import variant

STRICT, SOFT = "yes_no.strict", "yes_no.soft"
M = 60
CHANCE = np.random.default_rng(5)
SHARES = {
    name: np.round(np.clip(CHANCE.normal(mean, 0.3, M), 0, 1), 1)
    for name, mean in {"a": 0.3, "b": 0.35, "c": 0.9}.items()
}


def attempts(make: Make, shares: Sequence[float]) -> list[Attempt]:
    return [
        make(
            f"i{number}",
            bool(share >= 0.7),
            scores={STRICT: Score(bool(share >= 0.7)), SOFT: Score(float(share))},
        )
        for number, share in enumerate(shares)
    ]


@pytest.fixture(scope="module")
def runs(make: Make, table_of: TableOf) -> list[Run]:
    return [
        (variant(name, {"t": 0.5}), table_of(attempts(make, shares)))
        for name, shares in SHARES.items()
    ]


def p_values_of_pairs(found: PairMatrix) -> Mapping[tuple[str, str], float | None]:
    names = [row.run for row in found.rows]
    return {(names[one.first], names[one.second]): one.comparison.p_value for one in found.pairs}


PAIRS = [("a", "b"), ("a", "c"), ("b", "c")]


@pytest.mark.parametrize("score", ["pass_rate", STRICT])
def test_verdicts_are_tested_by_mcnemar(runs: list[Run], score: str) -> None:
    found = pair_matrix(runs, score)
    assert found.verdicts
    expected = {}
    for first, second in PAIRS:
        better = int(((SHARES[second] >= 0.7) & (SHARES[first] < 0.7)).sum())
        worse = int(((SHARES[second] < 0.7) & (SHARES[first] >= 0.7)).sum())
        exact = scipy.stats.binomtest(better, better + worse, 0.5).pvalue
        expected[first, second] = pytest.approx(exact, rel=1e-9)
    assert p_values_of_pairs(found) == expected
    assert {one.comparison.method for one in found.pairs} == {"exact McNemar"}
    assert found.rows[2].value.mean == pytest.approx(float((SHARES["c"] >= 0.7).mean()))


def test_a_pair_in_the_other_order_has_the_opposite_difference(runs: list[Run]) -> None:
    found = pair_matrix(runs, SOFT)
    forth, back = found.pair("a", "c"), found.pair("c", "a")
    differences = SHARES["c"] - SHARES["a"]
    margin = scipy.stats.t.ppf(0.975, M - 1) * scipy.stats.sem(differences)
    mean = float(differences.mean())
    assert forth.difference == pytest.approx(mean)
    assert forth.ci95 == pytest.approx((mean - margin, mean + margin))
    assert back.difference == pytest.approx(-mean)
    assert back.ci95 == pytest.approx((-mean - margin, -mean + margin))
    assert back.p_value == forth.p_value


def test_other_scores_are_tested_by_a_paired_t(runs: list[Run]) -> None:
    found = pair_matrix(runs, SOFT)
    assert not found.verdicts
    assert p_values_of_pairs(found) == {
        (first, second): pytest.approx(
            scipy.stats.ttest_rel(SHARES[second], SHARES[first]).pvalue, rel=1e-9
        )
        for first, second in PAIRS
    }
    assert {one.comparison.method for one in found.pairs} == {"clustered paired t"}
    value = found.rows[0].value
    assert value.mean == pytest.approx(SHARES["a"].mean())
    assert value.stderr == pytest.approx(scipy.stats.sem(SHARES["a"]))
    low, high = value.ci95 or (0, 0)
    assert 0 < low < SHARES["a"].mean() < high < 1


def test_stars_are_of_the_p_itself_and_holm_stands_beside(runs: list[Run]) -> None:
    found = pair_matrix(runs, SOFT)
    p = [one.comparison.p_value for one in found.pairs]
    assert [one.comparison.p_adjusted for one in found.pairs] == holm(p)
    assert [one.starred for one in found.pairs] == [
        value < 0.01 for value in p if value is not None
    ]
    assert [one.starred for one in found.pairs] == [False, True, True]


def test_several_samples_and_shared_prompts_are_clustered(make: Make, table_of: TableOf) -> None:
    def table(shift: int) -> list[Attempt]:
        return [
            make(f"i{n}", (n + sample + shift) % 3 == 0, sample=sample, cluster=f"p{n // 2}")
            for n in range(20)
            for sample in range(2)
        ]

    made: list[Run] = [
        (variant(str(shift), {"t": 0.5}), table_of(table(shift))) for shift in range(2)
    ]
    found = pair_matrix(made).pairs[0].comparison
    assert found.method == "clustered paired t"
    assert (found.n, found.n_clusters) == (20, 10)


def test_a_missing_value_is_counted_and_no_failure(make: Make, table_of: TableOf) -> None:
    strict = [True, False, None, True]
    rows = [make(f"i{n}", True, scores={STRICT: Score(v)}) for n, v in enumerate(strict)]
    refused = make("i4", False, outcome="refused")
    table = table_of([*rows, refused])
    value = mean_score(table, STRICT)
    assert (value.mean, value.n, value.missing) == (pytest.approx(2 / 3), 3, 2)
    other = table_of([make(f"i{n}", True, scores={STRICT: Score(True)}) for n in range(4)])
    made: list[Run] = [(variant("a", {}), table), (variant("b", {}), other)]
    found = pair_matrix(made, STRICT).pairs[0].comparison
    assert (found.n, found.not_judged, found.only_first) == (3, 1, 1)
    # Over the pass rate, who refuses has failed.
    assert mean_score(table, "pass_rate").mean == pytest.approx(4 / 5)
    assert mean_score(table, "none").n == 0


def test_rounds(make: Make, table_of: TableOf) -> None:
    rows = [make(f"i{n}", n > 2 or r == 2, round=r) for n in range(6) for r in (1, 2)]
    table = table_of(rows)
    made: list[Run] = [(variant(name, {}), table) for name in "ab"]
    assert pair_matrix(made, round_=1).rows[0].value.mean == 0.5
    assert pair_matrix(made).rows[0].value.mean == 1
    with pytest.raises(ConfigError, match="None of the runs has a round 3"):
        pair_matrix(made, round_=3)


def test_refusals(runs: list[Run]) -> None:
    with pytest.raises(ConfigError, match="has no score") as raised:
        pair_matrix(runs, "yes_no.sof")
    assert SOFT in str(raised.value.remedy)
    with pytest.raises(ConfigError, match="--cluster"):
        pair_matrix(runs, cluster="domain")
    other = variant("d", {}, fingerprint={"dataset_sha256": "other"})
    with pytest.raises(RunConflict, match="different data sets"):
        pair_matrix([runs[0], (other, runs[1][1])])


def test_the_groups_of_a_label_may_be_the_units(make: Make, table_of: TableOf) -> None:
    """60 instances of 12 domains, by statsmodels' cluster-robust least squares."""
    domains = np.arange(M) // 5
    runs: list[Run] = [
        (
            variant(name, {}),
            table_of(
                make(
                    f"i{n:02}",
                    True,
                    scores={SOFT: Score(float(share))},
                    groups={"domain": f"{domains[n]}"},
                )
                for n, share in enumerate(SHARES[name])
            ),
        )
        for name in "abc"
    ]
    matrix = pair_matrix(runs, SOFT, cluster="domain")
    for pair, (first, second) in zip(matrix.pairs, PAIRS, strict=True):
        expected = least_squares(SHARES[second] - SHARES[first], domains)
        assert (pair.comparison.n, pair.comparison.n_clusters) == (60, 12)
        assert pair.comparison.stderr == pytest.approx(float(expected.bse[0]))
        assert pair.comparison.p_value == pytest.approx(float(expected.pvalues[0]))
