"""Several models on several benchmarks: comparisons, average ranks and their intervals."""

from dataclasses import replace

import pytest
import scipy

from harness.analysis.run_display import RunDisplay
from harness.plugins.comparisons.comparable import Run
from harness.plugins.comparisons.suite import Suite, suite_of
from harness.ports import PaperTable, TableFigure
from harness.records import Score
from tests.analysis.conftest import Make, TableOf
from tests.analysis.statsmodels_reference import multipletests
from tests.plugins.comparisons.variants import variant

PASSED = {"good": (30, 30), "middling": (20, 20), "poor": (2, 20), "bad": (1, 1)}


def evaluated(make: Make, table_of: TableOf, size: int) -> Suite:
    """Four models on two benchmarks of ``size`` instances; the first so many instances pass."""
    runs: list[Run] = [
        (
            variant(
                f"{task}.{model}",
                {},
                settings={"model.name": model},
                task=task,
                model=model,
                measure=None,
                run=f"{task}.{model}",
            ),
            table_of(make(f"{n}", n < passed[at]) for n in range(size)),
        )
        for model, passed in PASSED.items()
        for at, task in enumerate(("first", "second"))
    ]
    return suite_of(runs)


@pytest.fixture
def found(make: Make, table_of: TableOf) -> Suite:
    return evaluated(make, table_of, 40)


def test_a_row_per_model_and_a_column_per_benchmark(found: Suite) -> None:
    assert found.table.tasks == ["first", "second"]
    assert [row.model for row in found.table.rows] == list(PASSED)
    values = [[cell.mean for cell in row.cells if cell] for row in found.table.rows]
    assert values == [[n / 40 for n in passed] for passed in PASSED.values()]


def test_each_model_is_compared_with_the_first_and_adjusted_over_all(found: Suite) -> None:
    assert len(found.comparisons) == 6
    assert {one.row for one in found.comparisons} == {1, 2, 3}
    for one in found.comparisons:
        before, model = PASSED["good"], list(PASSED.values())[one.row]
        at = ["first", "second"].index(one.task)
        assert one.comparison.difference == pytest.approx((model[at] - before[at]) / 40)
        assert one.comparison.p_adjusted is not None
        assert one.comparison.p_value is not None
        assert one.comparison.p_adjusted >= one.comparison.p_value


def test_average_ranks_have_intervals_and_ties_share_a_rank(found: Suite) -> None:
    assert [one.rank for one in found.ranks] == [1.0, 2.25, 2.75, 4.0]
    # Poor passes one instance more than bad on the first benchmark, and draws may leave it out. The
    # two others have the same rank in almost all draws, because the same instances pass.
    assert [one.ci95 for one in found.ranks] == [None, None, (2.75, 3.0), (3.75, 4.0)]
    assert found.draws == 2_000


def test_an_average_rank_over_few_prompts_has_no_interval(make: Make, table_of: TableOf) -> None:
    assert {one.ci95 for one in evaluated(make, table_of, 9).ranks} == {None}
    assert any(one.ci95 for one in evaluated(make, table_of, 10).ranks)


def test_benchmarks_that_rank_alike_correlate(found: Suite) -> None:
    (correlation,) = found.correlations
    assert (correlation.first, correlation.second, correlation.n_runs) == (0, 1, 4)
    assert correlation.tau_b is not None
    assert 0.9 < correlation.tau_b < 1


def test_holms_family_has_the_comparisons_on_all_benchmarks(found: Suite) -> None:
    comparisons = [one.comparison for one in found.comparisons]
    p_values = [comparison.p_value for comparison in comparisons]
    assert [comparison.p_adjusted for comparison in comparisons] == pytest.approx(
        multipletests(p_values, "holm")
    )


def test_models_are_ranked_by_their_weighted_means(make: Make, table_of: TableOf) -> None:
    """The first has 0.75 and the second 0.6, but without weights the first would have 0.5."""
    figure = TableFigure("x", "score", "s", weight="w")
    display = RunDisplay(table=PaperTable("", "", (figure,), ""))
    runs: list[Run] = [
        (
            replace(
                variant(
                    f"{task}.{model}",
                    {},
                    settings={"model.name": model},
                    task=task,
                    model=model,
                    measure="s",
                    run=f"{task}.{model}",
                ),
                display=display,
            ),
            table_of(
                make(f"{n}", None, scores={"s": Score(value), "w": Score(weight)})
                for n, (value, weight) in enumerate(zip(values, (3, 1), strict=True))
            ),
        )
        for task in ("one", "other")
        for model, values in {"first": (1.0, 0.0), "second": (0.6, 0.6)}.items()
    ]
    assert [rank.rank for rank in suite_of(runs).ranks] == [1.0, 2.0]


@pytest.mark.parametrize("per_prompt", [1, 4])
def test_the_interval_of_an_average_rank_is_that_of_resampled_prompts(
    make: Make, table_of: TableOf, per_prompt: int
) -> None:
    """One model is better on 3 of 20 prompts of a benchmark, and on all prompts of another."""
    runs: list[Run] = [
        (
            variant(
                f"{task}.{model}",
                {},
                settings={"model.name": model},
                task=task,
                model=model,
                measure=None,
                run=f"{task}.{model}",
            ),
            table_of(
                make(f"{prompt}/{n}", prompt < passed, cluster=f"{prompt}")
                for prompt in range(20)
                for n in range(per_prompt)
            ),
        )
        for task, by_model in {"close": (20, 17), "clear": (20, 0)}.items()
        for model, passed in zip(("better", "worse"), by_model, strict=True)
    ]
    # The models tie on the first benchmark if no draw has one of the 3 prompts.
    tied = scipy.stats.binom.pmf(0, 20, 3 / 20)
    assert 0.025 < tied < 0.05
    better, worse = suite_of(runs).ranks
    assert (better.rank, better.ci95) == (1.0, (1.0, 1.25))
    assert (worse.rank, worse.ci95) == (2.0, (1.75, 2.0))


def test_few_prompts_of_a_single_benchmark_are_too_few_for_intervals(
    make: Make, table_of: TableOf
) -> None:
    def intervals(*sizes: int) -> set[object]:
        runs: list[Run] = [
            (
                variant(
                    f"{task}.{model}",
                    {},
                    settings={"model.name": model},
                    task=f"{task}",
                    model=model,
                    measure=None,
                    run=f"{task}.{model}",
                ),
                table_of(make(f"{n}", n % divisor == 0) for n in range(size)),
            )
            for model, divisor in (("odd", 2), ("third", 3))
            for task, size in enumerate(sizes)
        ]
        return {rank.ci95 for rank in suite_of(runs).ranks}

    assert intervals(9, 40) == intervals(40, 9) == {None}
    assert None not in intervals(10, 40)
