"""Statistics of a data set's criteria."""

from math import log

import pytest

from harness.plugins.data.documents import NONE, CriteriaDescription, pmi, verbs
from harness.records import Criterion


def criteria(*groups: str) -> list[Criterion]:
    return [
        Criterion(f"Use {group} {number}.", {"category": group} if group else {})
        for number, group in enumerate(groups)
    ]


@pytest.fixture
def found() -> CriteriaDescription:
    tasks = [
        ({"domain": "Law"}, criteria("A", "A", "B")),
        ({"domain": "Law"}, criteria("A", "B", "C")),
        ({"domain": "Arts"}, criteria("A")),
        ({}, criteria("C", "")),
    ]
    return CriteriaDescription(tasks)


def test_counts(found: CriteriaDescription) -> None:
    assert (found.n_tasks, found.n_criteria, found.mean) == (4, 9, 2.25)
    assert found.tasks_by_count == {1: 1, 2: 1, 3: 2}
    assert found.groups == {"A": 4, "B": 2, "C": 2, NONE: 1}
    assert found.tasks_by_group == {"A": 3, "B": 2, "C": 2, NONE: 1}
    assert found.groups_by_count == {
        1: {"A": 1}, 2: {NONE: 1, "C": 1}, 3: {"A": 3, "B": 2, "C": 1},
    }  # fmt: skip
    assert found.labels == {"domain": {"Law": 2, "Arts": 1}}
    assert found.repeated == {1: 6, 3: 1}
    assert found.verbs == found.openings == {}
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
    ("text", "found"),
    [
        ("The poem should be short.", ["", "be"]),
        ("You are a coach.", ["", "be"]),
        ("NAME_1 is the hero.", ["", "be"]),
        ("NAME_12, NAME_3 and NAME_4.", [""]),
        ("Use only verbs.", ["use"]),
        ("use NAME_1", ["use"]),
        ("Don't rhyme.", ["do", "rhyme"]),
        ("Don\u2019t rhyme.", ["do", "rhyme"]),
        ("Mention it, then stop. Avoid lists.", ["mention", "stop", "avoid"]),
        ("State what was said.", ["state", "be", "say"]),
        ("50 words", [""]),
        ("…", [""]),
        ("", []),
    ],
)
def test_verbs_are_no_other_words(text: str, found: list[str]) -> None:
    told = verbs(text)
    assert [*told[:1], *filter(None, told[1:])] == found


def test_verbs_at_the_beginning_and_anywhere() -> None:
    texts = ["Use a list.", "Use NAME_1.", "Do not use lists.", "The list is used.", "A list"]
    texts += ["Use a list."]
    told = CriteriaDescription([({}, [Criterion(text, {}) for text in texts])], verbs=verbs)
    assert told.verbs == {"use": 5, "be": 1, "do": 1}
    assert told.openings == {"use": 3, "do": 1}
    assert told.repeated == {1: 4, 2: 1}, "one text occurs twice"


def test_of_nothing() -> None:
    found = CriteriaDescription([])
    assert (found.n_tasks, found.mean, found.together) == (0, None, [])
