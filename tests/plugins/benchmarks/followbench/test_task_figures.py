"""FollowBench's figures in tables: soft rates and consecutive levels."""

from collections.abc import Iterator, Sequence

import numpy as np
import pytest

from harness.analysis.breakdown import is_share, mean_by_group
from harness.plugins.benchmarks.followbench.task import CONSECUTIVE, consecutive, partial
from harness.plugins.comparisons.cross_table import TableOptions, cross_table
from harness.plugins.comparisons.cross_table_document import cross_table_document
from harness.ports import PaperTable, TableFigure
from harness.records import Attempt, Score
from tests.analysis.conftest import Make
from tests.plugins.comparisons.variants import variant

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
    (whole,) = mean_by_group(added, CONSECUTIVE).values()
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
    (found,) = mean_by_group(partial(table, "soft"), "soft").values()
    assert (found.mean, found.n, found.missing) == (0.5, 3, 1)


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
