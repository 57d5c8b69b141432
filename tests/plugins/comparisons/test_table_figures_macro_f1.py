"""Macro-F1 by hand, by precision and recall, and its error."""

from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from harness.errors import ConfigError
from harness.plugins.comparisons.table_figures import macro_f1
from harness.records import Attempt, Score
from tests.analysis.conftest import Make, TableOf

VERDICT = {"right": True, "wrong": False, "none": False, "error": None}


def answers(make: Make, told: list[tuple[str, str, str]]) -> Iterator[Attempt]:
    """Class, what became of the answer, cluster."""
    for number, (right, what, cluster) in enumerate(told):
        scores = {"correct": Score(VERDICT[what])} if what in ("right", "wrong") else {}
        yield make(
            f"i{number}",
            VERDICT[what],
            outcome={"none": "unparseable", "error": "error"}.get(what, "ok"),
            scores=scores,
            groups={"label": right, "cluster": cluster},
            cluster=cluster,
        )


def found(make: Make, table_of: TableOf, told: list[tuple[str, str, str]], *labels: str):
    return macro_f1(table_of(answers(make, told)), "correct", "label", *labels)


def matrix(**counts: int) -> list[tuple[str, str, str]]:
    """``yes_right=3`` and so on; each answer is its own cluster."""
    told = [(*key.split("_"), "") for key, n in counts.items() for _ in range(n)]
    return [(right, what, f"c{number}") for number, (right, what, _) in enumerate(told)]


@pytest.mark.parametrize(
    ("counts", "expected"),
    [
        # yes: TP 3, FN 2, FP 1, F1 6/9; no: TP 4, FN 1, FP 2, F1 8/11
        ({"yes_right": 3, "yes_wrong": 2, "no_right": 4, "no_wrong": 1}, (6 / 9 + 8 / 11) / 2),
        # yes: TP 3, FN 2 (one of them no answer), FP 1, 6/9; no: TP 4, FN 1, FP 1, 8/10
        (
            {"yes_right": 3, "yes_wrong": 1, "yes_none": 1, "no_right": 4, "no_wrong": 1},
            (6 / 9 + 8 / 10) / 2,
        ),
        # always "yes": TP 4, FP 6, 8/14; no: 0
        ({"yes_right": 4, "no_wrong": 6}, 4 / 14),
        ({"yes_right": 1, "no_right": 1}, 1.0),
        ({"yes_wrong": 1, "no_wrong": 1}, 0.0),
    ],
)
def test_by_hand(make, table_of, counts: dict[str, int], expected: float) -> None:
    part = found(make, table_of, matrix(**counts))[()]
    assert part.mean == pytest.approx(expected, abs=1e-15)
    assert part.n == part.n_clusters == sum(counts.values())


def test_answers_that_say_nothing_are_misses_and_failed_calls_are_left_out(make, table_of) -> None:
    part = found(make, table_of, matrix(yes_none=2, no_none=3, yes_error=4))[()]
    assert (part.mean, part.n, part.missing) == (0.0, 5, 4)


def test_all_right_is_no_certainty(make, table_of) -> None:
    part = found(make, table_of, matrix(yes_right=5, no_right=5))[()]
    assert (part.mean, part.ci95) == (1.0, None)


def test_one_class_has_none(make, table_of) -> None:
    part = found(make, table_of, matrix(yes_right=5))[()]
    assert (part.mean, part.stderr, part.n, part.n_clusters) == (None, None, 5, 5)
    assert found(make, table_of, [])[()].mean is None


def test_three_classes_are_refused(make, table_of) -> None:
    with pytest.raises(ConfigError, match="'label' has 3 groups, not two"):
        found(make, table_of, matrix(a_right=1, b_right=1, c_right=1))


TOLD = st.lists(
    st.tuples(
        st.sampled_from(["yes", "no"]),
        st.sampled_from(["right", "wrong", "none"]),
        st.sampled_from("abc"),
    ),
    min_size=1,
    max_size=12,
)


@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=40
)
@given(told=TOLD)
def test_agrees_with_precision_and_recall(make, table_of, told) -> None:
    """scikit-learn's formula: F1 = 2PR / (P + R) of each class, 0 where P + R is; their mean."""
    parts = found(make, table_of, told, "cluster")
    for cluster in sorted({cluster for *_, cluster in told}):
        rows = [(right, what) for right, what, own in told if own == cluster]
        f1s = []
        for name in ("yes", "no"):
            hits = sum(row == (name, "right") for row in rows)
            of_class = sum(right == name for right, _ in rows)
            said = hits + sum(right != name and what == "wrong" for right, what in rows)
            precision, recall = (hits / n if n else 0.0 for n in (said, of_class))
            both = precision + recall
            f1s.append(2 * precision * recall / both if both else 0.0)
        part = parts[cluster,]
        if len({right for right, _ in rows}) < 2:
            assert part.mean is None
        else:
            assert part.mean == pytest.approx(sum(f1s) / 2)
        assert part.n == len(rows)


def test_the_error_is_that_of_the_infinitesimal_jackknife(make, table_of) -> None:
    """Its terms are the slopes of macro-F1 in the weight of each answer."""
    told = matrix(yes_right=6, yes_wrong=5, yes_none=2, no_right=20, no_wrong=3)
    n = len(told)

    def weighted_macro_f1(weights: NDArray[np.float64]) -> float:
        values = []
        for name in ("yes", "no"):
            hits, misses, alarms = (
                sum(
                    weight
                    for weight, (right, what, _) in zip(weights, told, strict=True)
                    if (right == name, what == "right", what == "wrong") in outcomes
                )
                for outcomes in (
                    [(True, True, False)],
                    [(True, False, True), (True, False, False)],
                    [(False, False, True)],
                )
            )
            values.append(2 * hits / (2 * hits + misses + alarms))
        return float(np.mean(values))

    steps = 1e-5 * np.eye(n)
    slopes = [(weighted_macro_f1(1 + step) - weighted_macro_f1(1 - step)) / 2e-5 for step in steps]
    part = found(make, table_of, told)[()]
    assert part.mean == pytest.approx(weighted_macro_f1(np.ones(n)))
    assert part.stderr == pytest.approx(np.sqrt(n / (n - 1) * np.sum(np.square(slopes))), rel=1e-6)


@pytest.mark.parametrize("shared", [0.0, 0.6])
def test_the_error_is_a_bootstraps(make, table_of, shared: float) -> None:
    random = np.random.default_rng(7)
    told, clusters, size = [], 250, 4
    for cluster in range(clusters):
        own = random.random()
        for _ in range(size):
            draw = own if random.random() < shared else random.random()
            right = "yes" if random.random() < 0.3 else "no"
            what = "none" if draw > 0.93 else "wrong" if draw > 0.7 else "right"
            told.append((right, what, f"c{cluster}"))
    part = found(make, table_of, told)[()]
    yes = np.array([right == "yes" for right, *_ in told]).reshape(clusters, size)
    what = np.array([what for _, what, _ in told]).reshape(clusters, size)
    figures = []
    for _ in range(4000):
        drawn = random.integers(clusters, size=clusters)
        is_yes, verdict = yes[drawn], what[drawn]
        f1s = []
        for of_class in (is_yes, ~is_yes):
            hits = (of_class & (verdict == "right")).sum()
            false = (~of_class & (verdict == "wrong")).sum()
            f1s.append(2 * hits / (hits + false + of_class.sum()))
        figures.append(sum(f1s) / 2)
    assert part.n_clusters == clusters
    assert part.stderr == pytest.approx(np.std(figures), rel=0.1)
    assert part.ci95 is not None
    assert part.ci95[0] < part.mean < part.ci95[1]
