"""What data asks for, counted by hand."""

from math import log

import pytest

from harness.analysis.constraints import NONE, CriteriaDescription, describe, opening, pmi
from harness.records import Criterion


def criteria(*groups: str) -> list[Criterion]:
    return [
        Criterion(f"Use {group} {number}.", {"category": group} if group else {})
        for number, group in enumerate(groups)
    ]


@pytest.fixture
def found() -> CriteriaDescription:
    tasks = [
        ("1", {"domain": "Law"}, criteria("A", "A", "B")),
        ("2", {"domain": "Law"}, criteria("A", "B", "C")),
        ("3", {"domain": "Arts"}, criteria("A")),
        ("4", {}, criteria("C", "")),
    ]
    return describe(tasks)


def test_counts(found: CriteriaDescription) -> None:
    assert (found.n_tasks, found.n_criteria, found.mean) == (4, 9, 2.25)
    assert found.tasks_by_count == {1: 1, 2: 1, 3: 2}
    assert found.groups == {"A": 4, "B": 2, "C": 2, NONE: 1}
    assert found.tasks_by_group == {"A": 3, "B": 2, "C": 2, NONE: 1}
    assert found.groups_by_count == {
        1: {"A": 1}, 2: {NONE: 1, "C": 1}, 3: {"A": 3, "B": 2, "C": 1},
    }  # fmt: skip
    assert found.labels == {"domain": {"Law": 2, "Arts": 1}}
    assert found.openings == {"use": 9}
    texts = {"Use A 0.", "Use A 1.", "Use B 2.", "Use B 1.", "Use C 2.", "Use C 0.", "Use  1."}
    assert found.n_distinct == len(texts)


def test_pmi_is_of_tasks(found: CriteriaDescription) -> None:
    pairs = {(one.first, one.second): (one.n, one.pmi) for one in found.together}
    assert pairs[("A", "B")] == (2, pytest.approx(log((2 / 4) / (3 / 4 * 2 / 4))))
    assert pairs[("A", "C")] == (1, pytest.approx(log((1 / 4) / (3 / 4 * 2 / 4))))
    assert pairs[("B", "C")] == (1, pytest.approx(log(1)))
    assert pairs[(NONE, "A")] == (0, None)
    assert len(pairs) == 6


def test_pmi_of_what_knows_nothing_of_each_other_is_zero() -> None:
    assert pmi(both=6, first=12, second=50, n=100) == pytest.approx(0)
    assert pmi(0, 1, 1, 10) is None


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("Don't rhyme.", "don't"),
        ("  Re-use the list", "re-use"),
        ("\u201cName\u201d it", "name"),
        ("\u00dcbersetze es", "\u00fcbersetze"),
        ("50 words", "50"),
        ("Don\u2019t", "don\u2019t"),
        ("…", ""),
    ],
)
def test_openings(text: str, word: str) -> None:
    assert opening(text) == word


def test_of_nothing() -> None:
    found = describe([])
    assert (found.n_tasks, found.mean, found.together) == (0, None, [])
