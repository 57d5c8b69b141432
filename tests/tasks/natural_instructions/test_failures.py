"""Ways of failing, on answers that GPT-3 gave and others like them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.tasks.natural_instructions.failures import failures

SOURCE = "Sentence: The dog jumped over the fence to get the bone. Question: Did it still jump?"


def ways(text: str, references: tuple[str, ...] = ("No.",), right: bool = False) -> set[str]:
    found = failures(text, right=right, references=references, source=SOURCE)
    assert set(found) == {"redundant", "goes_on", "copies_input"}
    return {name for name, failed in found.items() if failed}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("No, it was done by then.", {"redundant"}),
        (" no.\n\nPrompt: Provide a positive answer", {"redundant", "goes_on"}),
        (" Yes.\noutput: The story establishes", {"goes_on"}),
        (" membranes\npositive example- \ninput: Sentence1: I opened a", {"goes_on"}),
        ("Positive Example2- x", {"goes_on"}),
        (" The dog jumped over the fence to get the bone.", {"copies_input"}),
        ("Nothing of the kind", set()),
        ("Yes.", set()),
        ("No..", set()),
        ("the fence", set()),
    ],
)
def test_ways_of_failing(text: str, expected: set[str]) -> None:
    assert ways(text) == expected


def test_a_copy_is_right_where_the_references_are_copies() -> None:
    assert ways("The dog jumped over the fence", ("jumped over the fence to get",)) == set()


def test_input_in_the_middle_of_a_sentence_is_no_new_field() -> None:
    assert "goes_on" not in ways("The input: none")


@given(st.text())
def test_a_right_answer_fails_in_no_way(text: str) -> None:
    assert ways(text, right=True) == set()
