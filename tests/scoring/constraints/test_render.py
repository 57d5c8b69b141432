from typing import Any

import pytest
from hypothesis import given, settings

from harness.scoring.constraints.grammar import Specification, read
from harness.scoring.constraints.render import instruction
from tests.scoring.constraints.specifications import specifications

COUNT = {"op": "count"}
EACH = {"op": "for_each", "do": COUNT}
LAST = {"op": "position", "index": -1}
IDENTITIES = {"op": "for_each", "do": {"op": "identity"}}


def base(**fields: Any) -> dict[str, Any]:
    return {"target_level": "word", "transformation": COUNT, "relation": "=="} | fields


def rendered(constraint: dict[str, Any], targets: Any, level: str = "paragraph") -> str:
    text = instruction(read({"level": level, "constraint": constraint, "targets": targets}))
    return text.removeprefix(f"Please generate a {level}").strip()


@pytest.mark.parametrize(
    ("fields", "target", "expected"),
    [
        ({}, 1, "with exactly 1 word."),
        ({"relation": "!="}, 2, "with not exactly 2 words."),
        ({"relation": "<"}, 5, "with less than 5 words."),
        (
            {"target_level": "character"},
            80,
            "with exactly 80 characters. Include whitespace into your character count.",
        ),
        (
            {"transformation": {"op": "count", "of": "the"}, "relation": "<="},
            2,
            "with the word 'the' at most 2 times.",
        ),
        ({"transformation": LAST}, "x", "with the last word to be 'x'."),
        ({"transformation": LAST, "relation": "!="}, "x", "with the last word not to be 'x'."),
        ({"transformation": LAST, "relation": "in"}, "x", "with the last word to contain 'x'."),
        (
            {"transformation": {"op": "position", "index": [0, -2]}},
            ["a", "b"],
            "with the 1st, 2nd to last words to be 'a', 'b' respectively.",
        ),
        ({"transformation": IDENTITIES, "relation": "in"}, "x", "containing the word 'x'."),
        (
            {"transformation": IDENTITIES, "relation": "not in"},
            ["x", "y"],
            "not containing the word 'x', 'y'.",
        ),
        (
            {"transformation": {"op": "max", "do": EACH}, "input_level": "sentence"}
            | {"relation": "<="},
            7,
            "with each sentence having at most 7 words.",
        ),
        (
            {"transformation": {"op": "max", "do": EACH}, "input_level": "sentence"},
            7,
            "with the greatest of the number of words of each sentence to be 7.",
        ),
    ],
)
def test_a_single_constraint(fields: dict[str, Any], target: Any, expected: str) -> None:
    assert rendered(base(**fields), target) == expected


@pytest.mark.parametrize(
    ("reduction", "n", "expected"),
    [
        ("all", None, "with all sentences having at least 3 words."),
        ("any", None, "with at least one sentence having at least 3 words."),
        ("none", None, "with no sentence having at least 3 words."),
        ("at least", 2, "with at least 2 sentences having at least 3 words."),
        ("exactly", 1, "with exactly 1 sentence having at least 3 words."),
    ],
)
def test_reductions(reduction: str, n: int | None, expected: str) -> None:
    counted = base(input_level="sentence", transformation=EACH, relation=">=")
    assert rendered(counted | {"reduction": reduction, "reduction_value": n}, 3) == expected


def test_a_list_of_targets_is_met_one_by_one() -> None:
    each = base(
        input_level="sentence",
        transformation={"op": "for_each", "do": LAST},
        reduction="all",
    )
    assert rendered(each, ["a", "b"]) == (
        "with sentences having the last word to be 'a', 'b', respectively."
    )
    assert rendered(each, ["a"]) == "with a single sentence having the last word to be 'a'."
    assert rendered(each, "a") == "with all sentences having the last word to be 'a'."


def test_logic_can_be_told_apart() -> None:
    either = {"logic": "or", "constraints": [base(), base(target_level="sentence")]}
    assert rendered(either, [5, 2]) == "with exactly 5 words or with exactly 2 sentences."
    nested = {"logic": "all", "constraints": [base(relation=">"), either]}
    assert rendered(nested, [3, [5, 2]]) == (
        ":\n1) with more than 3 words;\n2) (with exactly 5 words or with exactly 2 sentences)."
    )


@settings(max_examples=40)
@given(specifications())
def test_every_specification_has_an_instruction(specification: Specification) -> None:
    text = instruction(specification)
    assert text.startswith("Please generate a passage")
    assert text.endswith(".")
