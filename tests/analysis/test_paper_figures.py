"""Figures of papers' tables: soft rates, consecutive levels, averages of groups, ratios."""

from collections.abc import Iterator, Sequence
from math import sqrt

import numpy as np
import pytest

from harness.analysis.breakdown import is_share, values_by
from harness.analysis.cross_table import TableOptions, cross_table
from harness.analysis.metrics import PASS_RATE
from harness.analysis.paper_figures import (
    CONSECUTIVE,
    averaged,
    consecutive,
    partial,
    ratio,
    weighted_means,
)
from harness.ports import PaperTable, TableFigure
from harness.records import Attempt, Score
from harness.report.cross_table import cross_table_document
from tests.analysis.conftest import Make
from tests.analysis.variants import variant

Verdicts = Sequence[bool | None]


def levels(make: Make, cluster: str, verdicts: Verdicts, category: str = "a") -> Iterator[Attempt]:
    for level, passed in enumerate(verdicts, start=1):
        groups = {"level": str(level), "category": category}
        yield make(f"{cluster}/{level}", passed, groups=groups, cluster=cluster)


@pytest.mark.parametrize(
    ("verdicts", "found"),
    [
        ((True, True, True), 3),
        ((True, False, True), 1),
        ((False, True, True), 0),
        ((True, False, None), 1),
        ((True, None, False), None),
        ((None, True, True), None),
        ((True, True), None),  # the last level is missing, in a run that has it
        ((True, False), 1),
    ],
)
def test_consecutive_levels(make, table_of, verdicts: Verdicts, found: int | None) -> None:
    table = table_of([*levels(make, "c", verdicts), *levels(make, "d", (False, False, False))])
    added = consecutive(table, "level")
    assert len(added) == 2
    values = added.scores[CONSECUTIVE]
    expected = [0.0] if found is None else sorted([float(found), 0.0])
    assert sorted(values[~np.isnan(values)].tolist()) == expected
    (whole,) = values_by(added, CONSECUTIVE).values()
    assert whole.missing == (found is None)


def test_levels_are_ordered_as_numbers_and_samples_are_separate(make, table_of) -> None:
    verdicts = [True] * 9 + [False, True]
    attempts = [*levels(make, "c", verdicts)]
    others = [
        make(f"c/{n}", False, sample=1, groups={"level": str(n)}, cluster="c") for n in range(1, 12)
    ]
    added = consecutive(table_of([*attempts, *others]), "level")
    assert sorted(added.scores[CONSECUTIVE].tolist()) == [0.0, 9.0]


def test_a_number_of_levels_is_no_share_though_it_is_0_or_1(make, table_of) -> None:
    table = table_of([*levels(make, "c", (True, False)), *levels(make, "d", (False, True))])
    numbers = consecutive(table, "level")
    assert sorted(numbers.scores[CONSECUTIVE]) == [0, 1]
    assert not is_share(numbers, CONSECUTIVE)


def test_consecutive_levels_of_no_attempts(make, table_of) -> None:
    assert len(consecutive(table_of([make("x", True)]), "level")) == 0


def test_a_partial_score_is_the_verdict_where_it_is_missing(make, table_of) -> None:
    table = table_of(
        [
            make("judged", False, scores={"soft": Score(0.5)}),
            make("by_rule", True),
            make("refused", False, outcome="refused"),
            make("failed", None),
        ]
    )
    (found,) = values_by(partial(table, "soft"), "soft").values()
    assert (found.mean, found.n, found.missing) == (0.5, 3, 1)


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
    groups = {"a": [1.0, 0.0, 0.5, 0.25], "b": [0.75, 1.0, 0.0], "c": [0.1, 0.4]}
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


@pytest.mark.parametrize("clusters", ["abcde", "aabcc"])
def test_the_error_of_a_weighted_mean_is_that_of_weighted_least_squares(
    make, table_of, clusters: str
) -> None:
    values, weights = np.array([0.2, 0.9, 0.4, 1.0, 0.0]), np.array([1.0, 3.0, 2.0, 5.0, 4.0])
    rows = zip(values.tolist(), weights.tolist(), clusters, strict=True)
    table = table_of(
        make(f"{n}", None, scores={"x": Score(value), "w": Score(weight)}, cluster=cluster)
        for n, (value, weight, cluster) in enumerate(rows)
    )
    (found,) = weighted_means(table, "x", "w").values()
    mean = np.average(values, weights=weights)
    residuals = weights * (values - mean)
    totals = [residuals[[one == name for one in clusters]].sum() for name in set(clusters)]
    n = len(totals)
    assert found.mean == pytest.approx(mean)
    # The sandwich of Liang and Zeger (1986) with n / (n - 1), CR1; if unclustered, White's HC1.
    stderr = sqrt(n / (n - 1) * np.sum(np.square(totals))) / weights.sum()
    assert found.stderr == pytest.approx(stderr)


def test_the_weighted_mean_of_ratings_is_not_cut_at_1(make, table_of) -> None:
    values, weights = np.array([1.0, 1.0, 1.0, 0.0, 1.0]), np.array([1.0, 3.0, 2.0, 1.0, 4.0])
    table = table_of(
        make(f"{n}", None, scores={"x": Score(value, share=False), "w": Score(weight)})
        for n, (value, weight) in enumerate(zip(values.tolist(), weights.tolist(), strict=True))
    )
    (found,) = weighted_means(table, "x", "w").values()
    assert found.mean is not None
    assert found.ci95 is not None
    assert found.stderr is not None
    low, high = found.ci95
    assert high > 1
    assert high - found.mean == pytest.approx(found.mean - low)
    assert found.effective_n is None


def test_an_average_over_one_group_is_the_mean_with_its_error(make, table_of) -> None:
    attempts = [one for c in "cdefg" for one in levels(make, c, (c < "e", c < "f", False))]
    table = table_of(attempts)
    (plain,) = values_by(table, PASS_RATE).values()
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


def test_a_table_with_all_of_them(make, table_of) -> None:
    attempts = [*levels(make, "c", (True, False), "a"), *levels(make, "d", (True, True), "b")]
    figures = (
        TableFigure("HSR", average="category"),
        TableFigure("SSR", "partial", "soft", average="category"),
        TableFigure("CSL", "consecutive", label="level", average="category"),
        TableFigure("DRFR", "ratio", "met", per="asked"),
    )
    tables = {"t": PaperTable("", "level", figures, "A paper")}
    scores = {"soft": Score(0.25), "met": Score(1), "asked": Score(4)}
    attempts[1] = make("c/2", False, groups=attempts[1].groups, cluster="c", scores=scores)
    settings = {"model.name": "m"}
    run = variant("r", {"t": 0.5}, settings=settings, task="t", model="m", measure=None, run="r")
    found = cross_table([(run, table_of(attempts))], tables, TableOptions())
    heads = [(found.figures[one.figure].name, one.group) for one in found.columns]
    assert heads == [
        *(("HSR", "1"), ("HSR", "2"), ("HSR", None)),
        *(("SSR", "1"), ("SSR", "2"), ("SSR", None)),
        ("CSL", None),
        *(("DRFR", "1"), ("DRFR", "2"), ("DRFR", None)),
    ]
    values = [cell.mean if cell else None for cell in found.rows[0].cells]
    assert values == [1.0, 0.5, 0.75, 1.0, 0.625, 0.8125, 1.5, None, 0.25, 0.25]
    notes = "\n".join(part.text for part in cross_table_document(found).parts[1:])
    assert "HSR, SSR, CSL: each category has the same weight." in notes
    assert "CSL: the number of consecutive levels that pass, from the lowest up." in notes
    assert "DRFR: the sum of 'met' over that of 'asked'." in notes
