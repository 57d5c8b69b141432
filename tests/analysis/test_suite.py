"""Several models on several benchmarks: comparisons, average ranks and their intervals."""

import pytest

from harness.analysis.comparable import Run
from harness.analysis.suite import Suite, suite
from tests.analysis.conftest import Make, TableOf
from tests.analysis.variants import variant

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
    return suite(runs)


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
