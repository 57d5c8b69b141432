from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.records import Score
from harness.scoring.constraints.check import check
from harness.scoring.constraints.grammar import Specification, read
from harness.scoring.constraints.render import LONGEST_REASON, feedback, score
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


@settings(max_examples=40)
@given(specifications(), st.text(max_size=30))
def test_every_verdict_has_feedback(specification: Specification, text: str) -> None:
    assert feedback(specification, check(specification, text, own())).endswith(".")


COUNT = {"op": "count"}
LAST = {"op": "position", "index": -1}
IDENTITIES = {"op": "for_each", "do": {"op": "identity"}}
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
            "the 10th word: '(empty)', not 'ran'",
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
