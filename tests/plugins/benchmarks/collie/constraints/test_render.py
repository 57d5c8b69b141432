from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.plugins.benchmarks.collie.constraints.check import check
from harness.plugins.benchmarks.collie.constraints.grammar import Specification, read
from harness.plugins.benchmarks.collie.constraints.render import (
    LONGEST_REASON,
    feedback,
    instruction,
    ordinal,
    score,
)
from harness.records import Score
from tests.plugins.benchmarks.collie.constraints.specifications import specifications
from tests.plugins.benchmarks.collie.nltk_reference import own

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


def said(constraint: dict[str, Any], targets: Any, text: str, level: str = "word") -> str:
    specification = read({"level": level, "constraint": constraint, "targets": targets})
    return feedback(specification, check(specification, text, own()))


def counted(**fields: Any) -> dict[str, Any]:
    return {"target_level": "character", "transformation": COUNT, "relation": "=="} | fields


@pytest.mark.parametrize(
    ("number", "expected"),
    [
        *((1, "1st"), (2, "2nd"), (3, "3rd"), (4, "4th"), (10, "10th"), (11, "11th"), (12, "12th")),
        *((13, "13th"), (14, "14th"), (20, "20th"), (21, "21st"), (22, "22nd"), (23, "23rd")),
        *((101, "101st"), (111, "111th"), (112, "112th"), (113, "113th"), (121, "121st")),
    ],
)
def test_ordinals(number: int, expected: str) -> None:
    assert ordinal(number - 1) == expected
    assert ordinal(-number) == ("last" if number == 1 else f"{expected} to last")


def test_success() -> None:
    assert said(counted(), 4, "bird") == "The generated word satisfies all constraints."


def test_success_of_para01_is_told_as_recorded() -> None:
    each = counted(
        input_level="sentence",
        target_level="word",
        transformation={"op": "for_each", "do": {"op": "position", "index": 0}},
        reduction="all",
    )
    assert said(each, "we", "We ran.", "paragraph") == (
        "The generated sentence satisfies all constraints."
    )


@pytest.mark.parametrize(
    ("level", "fields"),
    [
        ("sentence", {"input_level": "word", "relation": ">=", "reduction": "all"}),
        ("sentence", {"input_level": "word", "reduction": "at least", "reduction_value": 1}),
        ("sentence", {"input_level": "word", "reduction": "exactly", "reduction_value": 2}),
        ("sentence", {"input_level": "word", "reduction": "any"}),
        ("passage", {"input_level": "word", "reduction": "any"}),
        ("paragraph", {"input_level": "sentence", "target_level": "word", "reduction": "all"}),
    ],
)
def test_success_names_the_text_and_not_its_parts(level: str, fields: dict[str, Any]) -> None:
    each = counted(transformation={"op": "for_each", "do": COUNT}) | fields
    assert said(each, 2, "We go.", level) == f"The generated {level} satisfies all constraints."


def test_success_of_para01s_constraint_on_a_passage_names_the_passage() -> None:
    each = counted(
        input_level="sentence",
        target_level="word",
        transformation={"op": "for_each", "do": {"op": "position", "index": 0}},
        reduction="all",
    )
    assert said(each, "we", "We ran.", "passage") == (
        "The generated passage satisfies all constraints."
    )


def test_the_plural_is_odd() -> None:
    task = "Your task is to generate a word with exactly 4 characters.\nHowever, you just generated"
    assert said(counted(), 4, "egg") == f"{task} a word with 3 character."
    assert said(counted(), 4, "a") == f"{task} a word with 1 characters."
    assert said(counted(), 4, "") == f"{task} a word with 0 character."


def test_what_is_missing_is_told_as_all_targets() -> None:
    last = counted(transformation={"op": "position", "index": -1})
    both = {"logic": "all", "constraints": [counted(), last]}
    assert said(both, [4, "d"], "").splitlines()[-2:] == [
        "1) with 0 character;",
        "2) with the last character to be 4, 'd', respectively.",
    ]


def test_the_worst_of_several_counts_is_told() -> None:
    text = "One two. One two three."
    counts = counted(
        input_level="sentence",
        target_level="word",
        transformation={"op": "for_each", "do": COUNT},
        reduction="all",
    )
    for relation, told in ((">=", "2 word"), ("<=", "3 word"), ("==", "2, 3 word")):
        targets = 9 if relation != "<=" else 1
        last = said(counts | {"relation": relation}, targets, text, "paragraph").splitlines()[-1]
        assert last == f"However, you just generated a paragraph with some sentences having {told}."


@settings(max_examples=40)
@given(specifications(), st.text(max_size=30))
def test_every_verdict_has_feedback(specification: Specification, text: str) -> None:
    assert feedback(specification, check(specification, text, own())).endswith(".")


COUNT = {"op": "count"}
TEXT = "The bird sang. It flew."


def scored(targets: Any, text: str = TEXT, **fields: Any) -> Score:
    constraint = {"target_level": "word", "transformation": COUNT, "relation": "=="} | fields
    specification = read({"level": "paragraph", "constraint": constraint, "targets": targets})
    return score(check(specification, text, own()))


@pytest.mark.parametrize(
    ("targets", "fields", "reason"),
    [
        (5, {}, ""),
        (100, {}, "5 of 100 words"),
        (100, {"relation": ">="}, "5 of at least 100 words"),
        ("ran", {"transformation": LAST}, "the last word: 'flew', not 'ran'"),
        (
            "ran",
            {"transformation": {"op": "position", "index": 9}},
            "the 10th word: none, not 'ran'",
        ),
        (["bird", "egg"], {"transformation": IDENTITIES, "relation": "in"}, "lacks 'egg'"),
        (["bird", "egg"], {"transformation": IDENTITIES, "relation": "not in"}, "contains 'bird'"),
        (
            3,
            {"input_level": "sentence", "transformation": {"op": "for_each", "do": COUNT}}
            | {"relation": ">=", "reduction": "all"},
            "1 of 2 sentences have at least 3 words",
        ),
        (
            ["sang", "ran"],
            {"input_level": "sentence", "transformation": {"op": "for_each", "do": LAST}}
            | {"reduction": "all"},
            "1 of 2 sentences have the last word as asked",
        ),
        (
            ["sang", "ran", "hid"],
            {"input_level": "sentence", "transformation": {"op": "for_each", "do": LAST}}
            | {"reduction": "all"},
            "2 of 3 sentences",
        ),
    ],
)
def test_the_reason_is_short(targets: Any, fields: dict[str, Any], reason: str) -> None:
    result = scored(targets, **fields)
    assert result.reason == reason
    assert result.value is result.passed is (reason == "")


def test_details_say_what_was_asked_and_observed() -> None:
    (detail,) = scored(100).details["constraints"]
    assert detail == {
        "constraint": "with exactly 100 words",
        "kind": "with exactly N words",
        "passed": False,
        "observed": 5,
        "target": 100,
        "reason": "5 of 100 words",
    }


@pytest.mark.parametrize(
    ("targets", "fields", "expected"),
    [
        (1, {}, "with exactly N words"),
        ("hid", {"transformation": LAST}, "with the last word to be '…'"),
        (
            ["a", "b", "c"],
            {"transformation": {"op": "position", "index": [0, 1, 2]}},
            "with the 1st, 2nd, 3rd words to be '…', '…', '…' respectively",
        ),
        (
            ["a", "b", "c"],
            {"input_level": "sentence", "transformation": {"op": "for_each", "do": LAST}}
            | {"reduction": "all"},
            "with sentences having the last word to be '…', '…', respectively",
        ),
    ],
)
def test_the_kind_has_no_values(targets: Any, fields: dict[str, Any], expected: str) -> None:
    (detail,) = scored(targets, **fields).details["constraints"]
    assert detail["kind"] == expected


@settings(max_examples=40)
@given(specifications())
def test_every_constraint_has_a_kind(specification: Specification) -> None:
    for detail in score(check(specification, "a b", own())).details["constraints"]:
        assert detail["kind"]
        assert ("reason" in detail) == (not detail["passed"])


@settings(max_examples=40)
@given(specifications(), st.text(max_size=30), st.integers(1, 400))
def test_scores_stay_compact(specification: Specification, text: str, times: int) -> None:
    result = score(check(specification, f"{text} " * times, own()))
    assert len(result.reason) <= LONGEST_REASON
    assert len(msgspec.json.encode(result)) < 5_000 * len(result.details["constraints"])


def test_a_part_of_the_text_is_named_in_instruction_feedback_and_reason() -> None:
    last = [{"level": "paragraph", "index": 2}, {"level": "sentence", "index": -1}]
    asked = {"level": "passage", "constraint": base(relation=">=", within=last), "targets": 5}
    specification, place = read(asked), "the last sentence of the 3rd paragraph"
    assert instruction(specification) == (
        f"Please generate a passage with at least 5 words in {place}."
    )
    for text, observed, why in (
        (
            "One.\n\nTwo.\n\nThey left. See dogs run.",
            f"with 3 word in {place}",
            f"in {place}: 3 of ",
        ),
        ("One.\n\nTwo.", f"without {place}", f"without {place}"),
    ):
        result = check(specification, text, own())
        assert feedback(specification, result).endswith(f"generated a passage {observed}.")
        assert score(result).reason.startswith(why)
