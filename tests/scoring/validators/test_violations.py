"""An answer's score: a verdict, a short reason, details of a bounded size."""

import json

import pytest

from harness.errors import DataInvalid, Unparseable
from harness.records import Score
from harness.scoring.validators import UnparseableDocument, score_document

SCHEMA = {"type": "object", "properties": {"a": {"maximum": 3}}, "required": ["b"]}


def test_a_valid_answer() -> None:
    assert score_document('{"a": 1, "b": 2}', SCHEMA) == {"valid": Score(True, True)}


def test_an_invalid_answer_says_why() -> None:
    score = score_document('{"a": 5}', SCHEMA)["valid"]
    assert (score.value, score.passed) == (False, False)
    assert "/a: 5 is more than 3" in score.reason
    assert 'the member "b" is missing' in score.reason
    assert score.details["keywords"] == {"maximum": 1, "required": 1}
    assert {
        "path": "/a",
        "keyword": "maximum",
        "expected": "3",
        "found": "5",
        "schema_path": "/properties/a/maximum",
    } in score.details["errors"]


@pytest.mark.parametrize(("n", "more"), [(3, ""), (4, "; and 1 more"), (5, "; and 2 more")])
def test_a_reason_has_three_violations_and_the_number_of_others(n: int, more: str) -> None:
    schema = {"items": {"maximum": 3}}
    score = score_document(json.dumps([7] * n), schema)["valid"]
    first = "; ".join(f"/{place}: 7 is more than 3" for place in range(3))
    assert score.reason == first + more


def test_reason_and_details_are_short_whatever_the_answer() -> None:
    text = json.dumps({"x" * 5_000: [["y" * 200] * 50] * 50})
    schema = {"additionalProperties": {"items": {"items": {"maxLength": 3}}}}
    score = score_document(text, schema)["valid"]
    assert len(score.reason) == 300
    assert len(score.details["errors"]) == 20
    assert score.details["n_errors"] == score.details["keywords"]["maxLength"] == 2_500
    assert len(json.dumps(score.details)) < 12_000


def test_the_configured_draft_is_for_schemas_that_name_none() -> None:
    tuples = {"items": [{"type": "string"}]}
    assert not score_document("[5]", tuples, draft="7")["valid"].passed
    with pytest.raises(DataInvalid, match="draft 2020-12"):
        score_document("[5]", tuples)


def test_no_verdict_is_no_zero() -> None:
    text = json.dumps("a" * 60 + "b")
    score = score_document(text, {"pattern": r"^((a|a)+)+\1$"})["valid"]
    assert (score.value, score.passed) == (None, None)
    assert "pattern" in score.reason


def test_what_cannot_be_read_is_unparseable() -> None:
    with pytest.raises(Unparseable, match="not JSON") as refused:
        score_document("{", SCHEMA)
    assert isinstance(refused.value, UnparseableDocument)
    assert refused.value.kind == "unparseable"
