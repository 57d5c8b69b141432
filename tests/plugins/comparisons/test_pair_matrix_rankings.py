"""Rankings of runs, by groups, judges and published scores."""

from dataclasses import replace

import pytest
import scipy

from harness.analysis.run_display import RunDisplay
from harness.errors import ConfigError
from harness.plugins.comparisons.comparable import Run, refuse_unknown_label
from harness.plugins.comparisons.pair_matrix import (
    SATISFIED,
    InducedRankings,
    JudgedTables,
    Tau,
    induced_rankings,
    pair_matrix,
)
from harness.ports import PaperTable, TableFigure
from harness.records import Score
from tests.analysis.conftest import Make, TableOf
from tests.analysis.test_pass_at_k import FOUR, LAST
from tests.plugins.comparisons.test_scores_of_k import run
from tests.plugins.comparisons.variants import variant

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


def test_groups_have_the_weighted_means_of_a_paper(make: Make, table_of: TableOf) -> None:
    figure = TableFigure("x", "score", "s", weight="w")
    display = RunDisplay(table=PaperTable("", "", (figure,), ""))
    runs = []
    for name, values in {"first": (1.0, 0.0, 0.5), "second": (0.5, 1.0, 0.0)}.items():
        attempts = [
            make(f"{n}", None, groups={"g": g}, scores={"s": Score(value), "w": Score(weight)})
            for n, (g, value, weight) in enumerate(zip("aab", values, (3, 1, 2), strict=True))
        ]
        runs.append((replace(variant(name, {}), display=display), table_of(attempts)))
    found = induced_rankings(runs, "s", "g")
    means = [[one and one.mean for one in scoring.values] for scoring in found.scorings]
    assert means == [pytest.approx([4 / 6, 2.5 / 6]), [0.75, 0.625], [0.5, 0.0]]


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


def test_runs_by_their_own_measures() -> None:
    runs = [run("retried", FOUR, "pass@4"), run("taught", LAST)]
    matrix = pair_matrix(runs, "")
    assert matrix.score == "pass@4 and pass_rate"
    assert [row.marks for row in matrix.rows] == [["by pass@4"], ["by pass_rate"]]
    assert [(row.value.n, row.value.missing) for row in matrix.rows] == [(12, 2), (14, 0)]
    assert matrix.rows[0].value.mean == pytest.approx(0.75)
    assert matrix.rows[0].value.ci95 is not None
    assert 0 <= matrix.rows[0].value.ci95[0] <= matrix.rows[0].value.ci95[1] <= 1
    (scoring,) = induced_rankings(runs, "").scorings
    assert [one.mean if one else None for one in scoring.values] == [
        row.value.mean for row in matrix.rows
    ]


def test_more_samples_than_there_are() -> None:
    with pytest.raises(ConfigError, match="'retried' has no score 'pass@5'") as refused:
        pair_matrix([run("retried", FOUR), run("again", FOUR)], "pass@5")
    assert refused.value.remedy == "It needs 5 samples of an instance; this run has 4."
