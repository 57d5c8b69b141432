import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.scoring.overlap.match import bare, exact_match, named_label, token_f1


@pytest.mark.parametrize("answer", ["yes", " Yes.\n", "YES..."])
def test_case_space_and_final_periods_do_not_count(answer: str) -> None:
    assert exact_match(answer, ["no", "Yes."])


@pytest.mark.parametrize(
    ("answer", "reference"),
    [("A", "The"), ("+", "-"), ("yes, it is", "yes"), ("", "yes"), ("1.5", "15")],
)
def test_what_differs_otherwise_does_not_match(answer: str, reference: str) -> None:
    assert not exact_match(answer, [reference])


def test_token_f1_is_squads() -> None:
    assert token_f1("the cat, sat", ["A cat sat down."]) == pytest.approx(2 * 2 / (2 + 3))
    assert token_f1("sat cat", ["cat sat", "dog"]) == 1.0
    assert token_f1("cat cat cat", ["cat"]) == pytest.approx(0.5)
    assert token_f1("dog", ["cat"]) == 0.0


def test_token_f1_of_texts_without_words() -> None:
    assert token_f1("a", ["the"]) == 0.0
    assert token_f1("A.", ["a"]) == 1.0
    assert token_f1("", ["a"]) == token_f1("x", []) == 0.0


@settings(deadline=None)
@given(st.text(), st.lists(st.text(), max_size=3))
def test_measures_stay_within_bounds_and_agree(answer: str, references: list[str]) -> None:
    f1 = token_f1(answer, references)
    assert 0 <= f1 <= 1
    if exact_match(answer, references):
        assert f1 == 1 or not references


LABELS = {"yes", "no", "not sure"}


@pytest.mark.parametrize(
    ("answer", "label"),
    [
        ("Yes.", "yes"),
        ("Yes, because it is.", "yes"),
        ("no\nreason", "no"),
        ("Not sure at all", "not sure"),
        ("nothing", None),
        ("It is yes", None),
        ("", None),
    ],
)
def test_an_answer_names_the_label_that_it_begins_with(answer: str, label: str | None) -> None:
    assert named_label(answer, LABELS) == label


def test_a_label_of_signs_is_one_too() -> None:
    assert named_label("+ is the answer", {"+", "-"}) == "+"
    assert named_label("5", {bare("5 or more"), "5"}) == "5"
