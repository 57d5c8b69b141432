"""Averages of groups, ratios, and the tokens and times of calls as scores."""

from collections.abc import Iterator, Sequence
from math import sqrt
from pathlib import Path

import msgspec
import numpy as np
import pytest
import scipy

from harness.analysis.breakdown import mean_by_group
from harness.analysis.metrics import PASS_RATE
from harness.plugins.comparisons.table_figures import (
    MILLISECONDS,
    TOKENS,
    averaged,
    ratio,
    with_call_scores,
)
from harness.records import CONSTRAINT_REFUSED, Attempt, Score, Usage
from harness.store.json_lines import JsonLinesWriter
from tests.analysis.conftest import Make
from tests.store.test_index import attempt

Verdicts = Sequence[bool | None]


def levels(make: Make, cluster: str, verdicts: Verdicts, category: str = "a") -> Iterator[Attempt]:
    for level, passed in enumerate(verdicts, start=1):
        groups = {"level": str(level), "category": category}
        yield make(f"{cluster}/{level}", passed, groups=groups, cluster=cluster)


def test_groups_are_averaged_with_equal_weights(make, table_of) -> None:
    table = table_of(
        [
            *levels(make, "c", (True, True, True, False), "a"),
            *levels(make, "d", (False, False), "b"),
            *levels(make, "e", (None, None), "c"),
        ]
    )
    (found,) = averaged(table, PASS_RATE, "category").values()
    assert (found.mean, found.n, found.missing, found.n_clusters) == (0.375, 6, 2, 2)
    by_level = averaged(table, PASS_RATE, "category", "level")
    assert [by_level[str(n),].mean for n in (1, 2, 3, 4)] == [0.5, 0.5, 1.0, 0.0]


def test_the_error_of_an_average_is_that_of_its_groups(make, table_of) -> None:
    groups = {
        "a": [1.0, 0.0, 0.5, 0.25, 0.3, 0.6, 0.8],
        "b": [0.75, 1.0, 0.0, 0.5, 0.9, 0.2],
        "c": [0.1, 0.4, 0.2, 0.3, 0.2, 0.5],
    }
    table = table_of(
        make(f"{name}{n}", None, outcome="ok", groups={"g": name}, scores={"x": Score(value)})
        for name, values in groups.items()
        for n, value in enumerate(values)
    )
    (found,) = averaged(table, "x", "g").values()
    assert found.mean == pytest.approx(np.mean([np.mean(values) for values in groups.values()]))
    # The variance of a mean of independent means.
    variance = sum(np.var(values, ddof=1) / len(values) for values in groups.values()) / 9
    assert found.stderr == pytest.approx(sqrt(variance))


def test_an_average_over_one_group_is_the_mean_with_its_error(make, table_of) -> None:
    attempts = [one for c in "cdefg" for one in levels(make, c, (c < "e", c < "f", False))]
    table = table_of(attempts)
    (plain,) = mean_by_group(table, PASS_RATE).values()
    (found,) = averaged(table, PASS_RATE, "category").values()
    assert found.mean == pytest.approx(plain.mean)
    assert found.stderr == pytest.approx(plain.stderr)


def test_a_ratio_of_sums(make, table_of) -> None:
    counts = [(1, 2), (5, 5), (0, 3)]
    table = table_of(
        [
            *(
                make(str(n), False, scores={"met": Score(met), "asked": Score(asked)})
                for n, (met, asked) in enumerate(counts)
            ),
            make("unjudged", None),
        ]
    )
    (found,) = ratio(table, "met", "asked").values()
    assert (found.mean, found.n, found.missing) == (0.6, 3, 1)
    assert found.stderr is not None
    (none,) = ratio(table, "met", "unknown").values()
    assert (none.mean, none.missing) == (None, 4)


def test_a_ratio_per_one_has_the_exact_interval_of_a_share(make, table_of) -> None:
    """The share of constraints met, of answers with one constraint each."""
    table = table_of(
        make(f"{n}", True, scores={"met": Score(int(n < 19)), "listed": Score(1)})
        for n in range(20)
    )
    (share,) = ratio(table, "met", "listed", share=True).values()
    exact = scipy.stats.binomtest(19, 20).proportion_ci(0.95, method="exact")
    assert share.ci95 == pytest.approx((exact.low, exact.high))
    assert share.effective_n == pytest.approx(20)


def test_a_ratio_that_is_not_declared_a_share_has_an_interval_of_a_number(make, table_of) -> None:
    """Errors per line: few, but there may be several in a line."""
    errors = [0, 1, 0, 1, 0]
    table = table_of(
        make(f"{n}", True, scores={"errors": Score(count), "lines": Score(6)})
        for n, count in enumerate(errors)
    )
    (found,) = ratio(table, "errors", "lines").values()
    rates = np.array(errors) / 6
    t = scipy.stats.t.interval(0.95, 4, rates.mean(), scipy.stats.sem(rates))
    assert (found.mean, found.ci95) == (pytest.approx(2 / 30), pytest.approx(t))
    (above,) = ratio(table, "lines", "errors", share=True).values()  # wrongly declared
    assert above.mean == 15


def test_a_ratio_above_1_has_an_interval_of_a_number(make, table_of) -> None:
    """Words per sentence: the linearised ratio, with t's quantile of 3 - 1 degrees of freedom."""
    counts = [(12, 2), (20, 4), (7, 1)]
    table = table_of(
        make(str(n), True, scores={"words": Score(words), "sentences": Score(sentences)})
        for n, (words, sentences) in enumerate(counts)
    )
    (found,) = ratio(table, "words", "sentences").values()
    assert found.mean == pytest.approx(39 / 7)
    residuals = [words - 39 / 7 * sentences for words, sentences in counts]
    stderr = (sum(r * r for r in residuals) * 3 / 2) ** 0.5 / 7
    assert found.stderr == pytest.approx(stderr)
    assert found.ci95[0] < 39 / 7 < found.ci95[1]


def test_tokens_and_times_are_scores_of_the_calls(tmp_path: Path) -> None:
    usage = Usage(3, 7)
    told = [
        {"latency_s": 0.25, "usage": usage},
        {"latency_s": 2.0, "usage": usage, "cached": True},
        {"latency_s": 0.0, "usage": usage, "finish_reason": CONSTRAINT_REFUSED},
        {"outcome": "error"},
    ]
    path = tmp_path / "attempts.jsonl"
    with JsonLinesWriter(path) as writer:
        for number, fields in enumerate(told):
            writer.append(msgspec.structs.replace(attempt(f"{number}", 0, 1), **fields))
    found = with_call_scores(path)
    assert sorted(found.scores[TOKENS][found.has_score(TOKENS)]) == [7, 7]
    assert found.scores[MILLISECONDS][found.has_score(MILLISECONDS)] == [250]
