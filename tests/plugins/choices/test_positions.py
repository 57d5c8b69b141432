"""The test for a position bias, on answers with and without a planted one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace
from numpy.typing import NDArray
from statsmodels.stats.contingency_tables import SquareTable

from harness.analysis.metrics import PositionBias
from harness.plugins.choices.positions import position_bias, read_positions
from harness.records import SCHEMA_VERSION, Attempt, Score
from harness.report.run_tables import position_note
from harness.store.index import AttemptIndex
from harness.store.json_lines import JsonLinesWriter
from tests.analysis.statsmodels_reference import least_squares

Ints = NDArray[np.intp]


def answers(seed: int, n: int, bias: float, samples: int = 1) -> tuple[Ints, Ints, Ints]:
    """Chosen and right positions, and clusters: "A" is chosen with probability ``bias``.

    Half of the instances are hard. All samples of a hard one fall for the same wrong option.
    """
    rng = np.random.default_rng(seed)
    right = rng.integers(0, 4, n)
    tempting = (right + rng.integers(1, 4, n)) % 4
    hard = np.repeat(rng.random(n) < 0.5, samples)
    wrong = hard & (rng.random(n * samples) < 0.6)
    chosen = np.where(wrong, np.repeat(tempting, samples), np.repeat(right, samples))
    chosen = np.where(rng.random(n * samples) < bias, 0, chosen)
    return chosen, np.repeat(right, samples), np.repeat(np.arange(n), samples)


def found(seed: int, n: int, bias: float, samples: int = 1) -> PositionBias:
    return position_bias(*answers(seed, n, bias, samples), 4, n * samples)


def rejected(bias: float, samples: int) -> float:
    each = [found(seed, 100, bias, samples).p_value for seed in range(300)]
    return float(np.mean([p is not None and p < 0.05 for p in each]))


@pytest.mark.parametrize("samples", [1, 5])
def test_a_planted_bias_is_found_and_chance_rarely_is(samples: int) -> None:
    assert rejected(0.0, samples) < 0.09  # 0.05, apart from the error of 300 draws
    assert rejected(0.4, samples) > 0.95


def test_it_is_the_test_of_stuart_and_maxwell() -> None:
    chosen, right, clusters = answers(1, 300, 0.1)
    table = np.zeros((4, 4))
    np.add.at(table, (chosen, right), 1)
    expected = SquareTable(table, shift_zeros=False).homogeneity()
    ours = position_bias(chosen, right, clusters, 4, 300)
    assert ours.chi_squared == pytest.approx(expected.statistic, rel=1e-9)
    assert ours.p_value == pytest.approx(expected.pvalue, rel=1e-9)
    assert ours.degrees == expected.df == 3


def test_repeated_answers_add_no_evidence() -> None:
    chosen, right, clusters = answers(2, 100, 0.2)
    once = position_bias(chosen, right, clusters, 4, 100)
    columns = (np.repeat(column, 10) for column in (chosen, right, clusters))
    ten_times = position_bias(*columns, 4, 1000)
    assert ten_times.chi_squared == pytest.approx(once.chi_squared)
    assert ten_times.n_clusters == once.n_clusters == 100


def test_rates_and_differences_by_position() -> None:
    chosen, right = np.array([0, 0, 0, 1, 2]), np.array([0, 1, 2, 1, 2])
    bias = position_bias(chosen, right, np.arange(5), 3, 7)
    a, b, c = bias.positions
    assert [one.option for one in bias.positions] == ["A", "B", "C"]
    assert [one.n_right for one in bias.positions] == [1, 2, 2]
    assert (a.chosen.mean, a.passed.mean, a.passed.n) == (0.6, 1.0, 1)
    assert a.excess.mean == pytest.approx(0.4)
    assert b.excess.mean == c.excess.mean == pytest.approx(-0.2)
    assert (bias.n, bias.missing) == (5, 2)


def test_without_a_wrong_answer_there_is_no_test() -> None:
    bias = position_bias(np.array([0, 1]), np.array([0, 1]), np.arange(2), 3, 2)
    assert (bias.p_value, bias.chi_squared) == (None, None)
    assert bias.positions[2].passed.mean is None


def test_first_answers_with_positions_are_read(tmp_path: Path) -> None:
    def attempt(instance: str, round_: int = 1, **details: Any) -> Attempt:
        base = Attempt(SCHEMA_VERSION, instance, 0, round_, {}, instance, {}, "ok", 0.0, 0.0)
        return replace(base, passed=False, scores={"choice": Score(False, False, "", details)})

    path = tmp_path / "attempts.jsonl"
    with JsonLinesWriter(path) as writer:
        writer.append(attempt("a", positions={"chosen": 0, "right": 1, "of": 3}))
        writer.append(attempt("a", 2, positions={"chosen": 2, "right": 1, "of": 3}))
        writer.append(attempt("b", positions={"chosen": 3, "right": 1, "of": 3}))
        writer.append(attempt("c", positions=["another", "form"]))
        writer.append(attempt("d"))
        writer.append(attempt("e", positions={"chosen": -1, "right": 1, "of": 3}))
    bias = read_positions(AttemptIndex(path))
    assert bias is not None
    assert (bias.n, bias.missing) == (1, 4)
    assert [one.chosen.mean for one in bias.positions] == [1.0, 0.0, 0.0]
    empty = tmp_path / "empty.jsonl"
    empty.touch()
    assert read_positions(AttemptIndex(empty)) is None


def test_the_errors_of_all_rates_are_clustered() -> None:
    """Four samples of each instance, by statsmodels' cluster-robust least squares."""
    chosen, right, clusters = answers(3, 60, 0.2, samples=4)
    bias = position_bias(chosen, right, clusters, 4, len(chosen))
    for place, position in enumerate(bias.positions):
        picked, correct = (chosen == place).astype(float), right == place
        for statistic, values, units in (
            (position.chosen, picked, clusters),
            (position.excess, picked - correct, clusters),
            (position.passed, picked[correct], clusters[correct]),
        ):
            expected = least_squares(values, units)
            assert statistic.mean == pytest.approx(float(expected.params[0]))
            assert statistic.stderr == pytest.approx(float(expected.bse[0]))
            assert statistic.n_clusters == len(np.unique(units)) < statistic.n


@pytest.mark.parametrize(
    ("chosen", "reason"), [([0, 1], "Every choice is right"), ([1, 0], "Wrong choices cancel")]
)
def test_without_a_test_the_reason_is_given(chosen: list[int], reason: str) -> None:
    one_cluster = np.zeros(2, np.intp)
    bias = position_bias(np.array(chosen), np.array([0, 1]), one_cluster, 2, 2)
    assert position_note(bias).startswith(reason)
