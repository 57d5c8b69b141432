"""Rates and macro-F1 by labels, against the summary and against plain loops."""

from collections.abc import Iterator

import numpy as np
import pytest
import scipy
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from harness.analysis.breakdown import (
    any_of_first,
    instances_by,
    is_share,
    of_round,
    value_of,
    values_by,
)
from harness.analysis.metrics import PASS_RATE
from harness.analysis.ratios import macro_f1
from harness.errors import ConfigError
from harness.records import Attempt, Score
from tests.analysis.conftest import Make, TableOf

VERDICTS = st.lists(st.sampled_from([True, False, None]), min_size=1, max_size=3)
SAMPLES = st.lists(
    st.tuples(st.sampled_from("abc"), st.sampled_from("xy"), VERDICTS), min_size=1, max_size=8
)


def attempts_of(make, samples):
    for number, (unit, group, verdicts) in enumerate(samples):
        for round_, passed in enumerate(verdicts, start=1):
            yield make(
                f"i{number}",
                passed,
                round=round_,
                cluster=unit,
                groups={"letter": group, "unit": unit},
            )


@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=40
)
@given(samples=SAMPLES)
def test_agrees_with_the_summary(make, table_of, summary_of, samples) -> None:
    attempts = list(attempts_of(make, samples))
    table, summary = table_of(attempts), summary_of(attempts)
    for k in summary.rounds.any_of_first_k:
        part = values_by(any_of_first(table, k), PASS_RATE)[()]
        assert part.mean == pytest.approx(summary.rounds.any_of_first_k[k])
        assert part.stderr == pytest.approx(summary.rounds.any_of_first_k_stderr[k])
        assert part.n == summary.rounds.any_of_first_k_n[k]
        each = values_by(of_round(table, k), PASS_RATE)[()]
        assert (each.mean, each.n) == (summary.rounds.each[k], summary.rounds.n[k])
    last = values_by(table.last_rounds(), PASS_RATE, "letter")
    assert {key for (key,) in last} == set(summary.groups["letter"])
    for (group,), part in last.items():
        other = summary.groups["letter"][group]
        assert (part.mean, part.stderr, part.n) == (other.pass_rate, other.stderr, other.n)
        assert (part.ci95, part.missing) == (other.ci95, other.missing)
        assert part.n_clusters == other.n_clusters


@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=40
)
@given(samples=SAMPLES, k=st.integers(1, 3))
def test_any_of_first_agrees_with_plain_loops(make, table_of, samples, k) -> None:
    table = table_of(attempts_of(make, samples))
    found = values_by(any_of_first(table, k), PASS_RATE, "letter", "unit")
    expected: dict[tuple[str, str], list[bool]] = {}
    for unit, group, verdicts in samples:
        known = [passed for passed in verdicts[:k] if passed is not None]
        expected.setdefault((group, unit), []).extend([any(known)] if known else [])
    assert {key: (part.mean, part.n) for key, part in found.items()} == {
        key: (sum(passed) / len(passed) if passed else None, len(passed))
        for key, passed in expected.items()
    }


def test_no_attempts_are_no_rate(table_of) -> None:
    nothing = table_of([])
    assert values_by(any_of_first(nothing, 2), PASS_RATE)[()].mean is None
    assert values_by(of_round(nothing), PASS_RATE, "structure") == {}


def test_what_lacks_one_of_the_labels_is_in_no_group(make, table_of) -> None:
    table = table_of(
        [make("a", True, groups={"one": "x"}), make("b", False, groups={"one": "x", "two": "y"})]
    )
    assert {key: part.n for key, part in values_by(table, PASS_RATE, "one").items()} == {("x",): 2}
    assert {key: part.mean for key, part in values_by(table, PASS_RATE, "one", "two").items()} == {
        ("x", "y"): 0.0
    }


def test_means_are_the_summarys(make, table_of, summary_of) -> None:
    attempts = [
        make(
            f"i{number}",
            True,
            scores={"f1": Score(value, True)},
            groups={"parity": "ab"[number % 2]},
        )
        for number, value in enumerate([0.5, 0.25, 1.0, 0.0, 3.0])
    ]
    attempts.append(make("i9", None, groups={"parity": "a"}))
    table, summary = table_of(attempts), summary_of(attempts)
    assert not any(part.n for part in values_by(table, "bleu", "parity").values())
    for (group,), part in values_by(table, "f1", "parity").items():
        other = summary.groups["parity"][group].scores["f1"]
        assert (part.mean, part.stderr, part.ci95) == (other.mean, other.stderr, other.ci95)
        assert (part.n, part.missing) == (other.n, other.missing)


def test_recorded_first_rounds_and_sources(table_of, recorded, expected_tables) -> None:
    table = table_of(recorded)
    first = {
        group: part for (group,), part in values_by(of_round(table), PASS_RATE, "structure").items()
    }
    expected = {k: v for k, v in expected_tables["round1"].items() if k not in ("overall", "n")}
    assert {group: part.mean for group, part in first.items()} == pytest.approx(expected)
    cells = values_by(of_round(table), PASS_RATE, "structure", "source")
    for group, part in first.items():
        assert sum(cell.n for (name, _), cell in cells.items() if name == group) == part.n


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


def test_a_share_is_declared_and_not_guessed(make, table_of) -> None:
    def table(**declared: bool):
        return table_of(
            make(f"{n}", None, outcome="ok", scores={"x": Score(float(n > 0), **declared)})
            for n in range(30)
        )

    values = np.arange(30) > 0
    expected = scipy.stats.t.interval(0.95, 29, values.mean(), scipy.stats.sem(values))
    count, share, earlier = table(share=False), table(share=True), table()
    assert [is_share(one, "x") for one in (count, share, earlier)] == [False, True, True]
    assert value_of(count, "x").ci95 == pytest.approx(expected)
    assert expected[1] > 1
    assert value_of(share, "x").ci95[1] < 1
    verdicts = table_of([make("a", True, scores={"x": Score(True)}), make("b", False)])
    assert is_share(verdicts, "x")
    assert is_share(verdicts, PASS_RATE)
    mixed = table_of(
        make(f"{share}", None, outcome="ok", scores={"x": Score(1.0, share=share)})
        for share in (True, False)
    )
    assert not is_share(mixed, "x")


def test_an_instance_counts_once_however_many_samples_it_has(make, table_of) -> None:
    verdicts = {"a": [True, False, True], "b": [False, None, False], "c": [True], "d": [None, None]}
    table = table_of(
        make(name, passed, sample=sample, groups={"kind": "x" if name in "ab" else "y"})
        for name, samples in verdicts.items()
        for sample, passed in enumerate(samples)
    )
    assert instances_by(table, PASS_RATE) == {(): 3}
    assert instances_by(table, PASS_RATE, "kind") == {("x",): 2, ("y",): 1}
