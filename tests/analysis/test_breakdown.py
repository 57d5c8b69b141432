"""Rates and macro-F1 by labels, against the summary and against plain loops."""

import numpy as np
import pytest
import scipy
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from harness.analysis.breakdown import (
    best_of_first_rounds,
    is_share,
    mean_by_group,
    mean_score,
    select_round,
)
from harness.analysis.metrics import PASS_RATE
from harness.records import Score

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
        part = mean_by_group(best_of_first_rounds(table, k), PASS_RATE)[()]
        assert part.mean == pytest.approx(summary.rounds.any_of_first_k[k])
        assert part.stderr == pytest.approx(summary.rounds.any_of_first_k_stderr[k])
        assert part.n == summary.rounds.any_of_first_k_n[k]
        each = mean_by_group(select_round(table, k), PASS_RATE)[()]
        assert (each.mean, each.n) == (summary.rounds.each[k], summary.rounds.n[k])
    last = mean_by_group(table.last_rounds(), PASS_RATE, "letter")
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
    found = mean_by_group(best_of_first_rounds(table, k), PASS_RATE, "letter", "unit")
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
    assert mean_by_group(best_of_first_rounds(nothing, 2), PASS_RATE)[()].mean is None
    assert mean_by_group(select_round(nothing), PASS_RATE, "structure") == {}


def test_what_lacks_one_of_the_labels_is_in_no_group(make, table_of) -> None:
    table = table_of(
        [make("a", True, groups={"one": "x"}), make("b", False, groups={"one": "x", "two": "y"})]
    )
    assert {key: part.n for key, part in mean_by_group(table, PASS_RATE, "one").items()} == {
        ("x",): 2
    }
    assert {
        key: part.mean for key, part in mean_by_group(table, PASS_RATE, "one", "two").items()
    } == {("x", "y"): 0.0}


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
    assert not any(part.n for part in mean_by_group(table, "bleu", "parity").values())
    for (group,), part in mean_by_group(table, "f1", "parity").items():
        other = summary.groups["parity"][group].scores["f1"]
        assert (part.mean, part.stderr, part.ci95) == (other.mean, other.stderr, other.ci95)
        assert (part.n, part.missing) == (other.n, other.missing)


def test_recorded_first_rounds_and_sources(table_of, recorded, expected_tables) -> None:
    table = table_of(recorded)
    first = {
        group: part
        for (group,), part in mean_by_group(select_round(table), PASS_RATE, "structure").items()
    }
    expected = {k: v for k, v in expected_tables["round1"].items() if k not in ("overall", "n")}
    assert {group: part.mean for group, part in first.items()} == pytest.approx(expected)
    cells = mean_by_group(select_round(table), PASS_RATE, "structure", "source")
    for group, part in first.items():
        assert sum(cell.n for (name, _), cell in cells.items() if name == group) == part.n


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
    assert mean_score(count, "x").ci95 == pytest.approx(expected)
    assert expected[1] > 1
    assert mean_score(share, "x").ci95[1] < 1
    verdicts = table_of([make("a", True, scores={"x": Score(True)}), make("b", False)])
    assert is_share(verdicts, "x")
    assert is_share(verdicts, PASS_RATE)
    mixed = table_of(
        make(f"{share}", None, outcome="ok", scores={"x": Score(1.0, share=share)})
        for share in (True, False)
    )
    assert not is_share(mixed, "x")
