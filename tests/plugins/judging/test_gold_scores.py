"""Judges' scores of reference answers, paired with those of a run's answers."""

import pytest

from harness.plugins.judging.gold import reference_scores
from harness.records import Score
from tests.analysis.conftest import Make, TableOf

VALUES = {"a": 4.0, "b": 7.0, "c": 9.0, "d": None}
OWN = {"a": (2.0, 4.0), "b": (7.0, 9.0), "c": (None, None), "e": (1.0, 1.0)}
"""Of two samples of an instance."""


def score(value: float | None) -> dict[str, Score]:
    return {"judge.score": Score(value)}


def test_a_gold_is_paired_with_the_mean_of_the_answers_to_its_instance(
    make: Make, table_of: TableOf
) -> None:
    golds = table_of(make(name, None, scores=score(value)) for name, value in VALUES.items())
    own = table_of(
        make(name, None, sample=sample, scores=score(value))
        for name, values in OWN.items()
        for sample, value in enumerate(values)
    )
    found = reference_scores(own, golds)["judge.score"]
    assert (found.mean, found.n, found.missing) == (pytest.approx(20 / 3), 3, 1)
    # a: 3 - 4, b: 8 - 7; of c there is no value, of d no gold's, of e no gold.
    assert (found.n_pairs, found.n_pair_clusters, found.difference) == (2, 2, 0.0)
    assert found.difference_stderr == pytest.approx(1.0)
    assert found.difference_ci95 == pytest.approx((-12.706, 12.706), abs=1e-3)


def test_without_a_pair_there_is_no_difference(make: Make, table_of: TableOf) -> None:
    golds = table_of([make("a", None, scores=score(0.5)), make("b", None, scores=score(1.0))])
    found = reference_scores(table_of([make("z", None, scores=score(1.0))]), golds)["judge.score"]
    assert (found.n, found.n_pairs, found.difference, found.difference_ci95) == (2, 0, None, None)
    assert found.ci95 is not None
    assert found.ci95[1] < 1.0, "both values are fractions"


def test_golds_that_nobody_could_score_have_no_mean(make: Make, table_of: TableOf) -> None:
    table = table_of([make("a", None, scores=score(None))])
    assert reference_scores(table, table) == {}
