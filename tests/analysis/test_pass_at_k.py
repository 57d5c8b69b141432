"""pass@k, pass^k and any@k as scores: their values, what has none, and runs with own measures."""

from itertools import combinations
from typing import cast

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.analysis.breakdown import mean_score, rows_for_score
from harness.analysis.summary import RunFacts, summarise
from harness.records import Score
from harness.store.calls import NO_CALLS
from harness.store.columns import NOT_JUDGED, AttemptTable, InstanceTable
from tests.analysis.conftest import Make, TableOf

Verdicts = list[bool | None]


def of(instances: list[Verdicts]) -> AttemptTable:
    """Samples of instances, each its own prompt, in memory."""
    rows = [
        (instance, sample, NOT_JUDGED if passed is None else passed)
        for instance, verdicts in enumerate(instances)
        for sample, passed in enumerate(verdicts)
    ]
    instance, sample, passed = np.array(rows, np.int32).reshape(-1, 3).T
    n, ones = len(instances), np.ones(len(rows), np.int32)
    table = InstanceTable(np.arange(n), np.arange(n, dtype=np.int32), np.zeros(n, np.int32), ({},))
    outcome = np.zeros(len(rows), np.int8)
    return AttemptTable(instance, sample, ones, outcome, passed.astype(np.int8), {}, table)


def values(table: AttemptTable, score: str) -> list[float | None]:
    rows = rows_for_score(table, score)
    assert rows.passed.tolist() == np.nan_to_num(rows.scores[score], nan=NOT_JUDGED).tolist()
    return [None if np.isnan(value) else value for value in rows.scores[score].tolist()]


@given(st.lists(st.lists(st.sampled_from([True, False, None]), min_size=1, max_size=6), min_size=1))
def test_values_by_enumeration(instances: list[Verdicts]) -> None:
    table = of(instances)
    for k in (1, 2, 4):
        drawn = [[one for one in verdicts if one is not None] for verdicts in instances]
        choices = [list(combinations(one, k)) for one in drawn]
        for score, holds in ((f"pass@{k}", any), (f"pass^{k}", all)):
            wanted = [sum(map(holds, own)) / len(own) if own else None for own in choices]
            assert values(table, score) == [
                one if one is None else pytest.approx(one, abs=1e-12) for one in wanted
            ]
        first = [one[:k] if len(one) >= k and None not in one[:k] else None for one in instances]
        assert values(table, f"any@{k}") == [None if one is None else any(one) for one in first]


@pytest.mark.parametrize("score", ["pass_rate", "f1", "pass@0", "pass@", "pass@1.5", "any^2", ""])
def test_other_scores_are_of_samples(score: str) -> None:
    table = of([[True, False]])
    assert rows_for_score(table, score) is table


def test_a_score_of_the_runs_own_wins(make: Make, table_of: TableOf) -> None:
    table = table_of(
        make("a", False, sample=sample, scores={"pass@1": Score(value, None)})
        for sample, value in enumerate([0.25, None, 0.75])
    )
    found = mean_score(rows_for_score(table, "pass@1"), "pass_rate")
    assert (found.mean, found.n, found.missing) == (0.5, 2, 1)


Instances = list[Verdicts]
ONE_OF_FOUR: Instances = [[False, False, True, False]] * 9
TOO_FEW: Instances = [[True, True, None, True], [True] * 3]
FOUR = [*ONE_OF_FOUR, *cast("Instances", [[False] * 4] * 3), *TOO_FEW]
LAST = cast("Instances", [*[[True]] * 8, *[[False]] * 4, [True], [True]])


def test_the_metrics_of_a_run_hold_its_measure() -> None:
    found = summarise(of(FOUR), NO_CALLS, RunFacts(run="r", task="t", measure="pass^2"))
    mean = found.scores["pass^2"]
    assert (mean.n, mean.missing) == (14, 0)
    assert mean.mean == pytest.approx(2 / 14)
    assert found.overall.n == 9 * 4 + 3 * 4 + 3 + 3
