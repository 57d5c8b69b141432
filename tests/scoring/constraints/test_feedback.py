from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from harness.scoring.constraints.check import check
from harness.scoring.constraints.feedback import feedback
from harness.scoring.constraints.form import read
from harness.scoring.constraints.grammar import Specification
from tests.scoring.constraints.nltk_reference import own
from tests.scoring.constraints.specifications import specifications

COUNT = {"op": "count"}


def said(constraint: dict[str, Any], targets: Any, text: str, level: str = "word") -> str:
    specification = read({"level": level, "constraint": constraint, "targets": targets})
    return feedback(specification, check(specification, text, own()))


def base(**fields: Any) -> dict[str, Any]:
    return {"target_level": "character", "transformation": COUNT, "relation": "=="} | fields


def test_success() -> None:
    assert said(base(), 4, "bird") == "The generated word satisfies all constraints."


def test_success_of_a_single_constraint_on_parts_names_the_part() -> None:
    each = base(
        input_level="sentence",
        target_level="word",
        transformation={"op": "for_each", "do": {"op": "position", "index": 0}},
        reduction="all",
    )
    assert said(each, "we", "We ran.", "paragraph") == (
        "The generated sentence satisfies all constraints."
    )


def test_the_plural_is_odd() -> None:
    task = "Your task is to generate a word with exactly 4 characters.\nHowever, you just generated"
    assert said(base(), 4, "egg") == f"{task} a word with 3 character."
    assert said(base(), 4, "a") == f"{task} a word with 1 characters."
    assert said(base(), 4, "") == f"{task} a word with 0 character."


def test_what_is_missing_is_told_as_all_targets() -> None:
    last = base(transformation={"op": "position", "index": -1})
    both = {"logic": "all", "constraints": [base(), last]}
    assert said(both, [4, "d"], "").splitlines()[-2:] == [
        "1) with 0 character;",
        "2) with the last character to be 4, 'd', respectively.",
    ]


def test_the_worst_of_several_counts_is_told() -> None:
    text = "One two. One two three."
    counts = base(
        input_level="sentence",
        target_level="word",
        transformation={"op": "for_each", "do": COUNT},
        reduction="all",
    )
    for relation, told in ((">=", "2 word"), ("<=", "3 word"), ("==", "2, 3 word")):
        targets = 9 if relation != "<=" else 1
        last = said(counts | {"relation": relation}, targets, text, "paragraph").splitlines()[-1]
        assert last == f"However, you just generated a paragraph with some sentences having {told}."


@settings(max_examples=300, deadline=None)
@given(specifications(), st.text(max_size=30))
def test_every_verdict_has_feedback(specification: Specification, text: str) -> None:
    assert feedback(specification, check(specification, text, own())).endswith(".")
