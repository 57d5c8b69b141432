from collections.abc import Mapping
from typing import Any, get_args

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from harness.records import (
    OUTCOMES,
    SCHEMA_VERSION,
    Attempt,
    Decoding,
    Instance,
    Message,
    Outcome,
    Reply,
    Score,
    TokenLogprob,
    Usage,
    nesting_depth,
    verdict,
)

usages = st.builds(Usage, *[st.integers(0, 2**40)] * 4)
values = st.one_of(st.none(), st.booleans(), st.floats(allow_nan=False, allow_infinity=False))
verdicts = st.one_of(st.none(), st.booleans())
texts = st.text(st.characters(exclude_categories=["Cs"]))
scores = st.builds(
    Score,
    value=values,
    passed=verdicts,
    reason=texts,
    details=st.dictionaries(texts, st.one_of(st.integers(-(2**53), 2**53), texts, st.none())),
)
attempts = st.builds(
    Attempt,
    v=st.just(SCHEMA_VERSION),
    instance=texts,
    sample=st.integers(0, 2**31 - 1),
    round=st.integers(1, 2**31 - 1),
    groups=st.dictionaries(texts, texts),
    cluster=texts,
    request=st.dictionaries(texts, texts),
    outcome=st.sampled_from(OUTCOMES),
    started_at=st.floats(0, 1e10),
    ended_at=st.floats(0, 1e10),
    text=st.one_of(st.none(), texts),
    passed=verdicts,
    scores=st.dictionaries(texts, scores, max_size=3),
    feedback=st.one_of(st.none(), texts),
    usage=st.one_of(st.none(), usages),
    cost_usd=st.one_of(st.none(), st.floats(0, 1e6)),
    cached=st.booleans(),
)


@given(attempts)
def test_an_attempt_comes_back_from_its_line_as_it_was(attempt: Attempt) -> None:
    line = msgspec.json.encode(attempt)
    assert b"\n" not in line
    assert msgspec.json.decode(line, type=Attempt) == attempt


def test_an_attempt_reads_lines_with_keys_that_a_later_version_adds() -> None:
    line = (
        b'{"v":1,"instance":"a","sample":0,"round":1,"groups":{},"cluster":"c","request":{},'
        b'"outcome":"ok","started_at":0,"ended_at":1,"mood":"fine"}'
    )
    assert msgspec.json.decode(line, type=Attempt).outcome == "ok"


def test_the_outcomes_are_all_listed() -> None:
    assert get_args(Outcome) == OUTCOMES


@given(usages, usages)
def test_usages_add_up_kind_by_kind(one: Usage, other: Usage) -> None:
    total = one + other
    assert msgspec.structs.astuple(total) == tuple(
        a + b
        for a, b in zip(msgspec.structs.astuple(one), msgspec.structs.astuple(other), strict=True)
    )
    assert one + Usage() == one


@pytest.mark.parametrize(
    ("scores", "expected"),
    [
        ({}, None),
        ({"a": Score(0.5)}, None),
        ({"a": Score(True, True)}, True),
        ({"a": Score(True, True), "length": Score(12)}, True),
        ({"a": Score(True, True), "b": Score(False, False)}, False),
        ({"a": Score(True, True), "judge": Score(None)}, None),
        ({"a": Score(False, False), "judge": Score(None)}, False),
        ({"judge": Score(None), "a": Score(False, False), "b": Score(True, True)}, False),
        ({"a": Score(0.2), "judge": Score(None)}, None),
    ],
)
def test_a_verdict_passes_only_with_every_score(
    scores: Mapping[str, Score], expected: bool | None
) -> None:
    assert verdict(scores) is expected


@given(st.dictionaries(st.text(), scores, min_size=1))
def test_with_a_score_that_could_not_be_made_no_answer_passes(scores: dict[str, Score]) -> None:
    scores["unmade"] = Score(None, True)
    failed = any(score.passed is False for score in scores.values())
    assert verdict(scores) is (False if failed else None)


@pytest.mark.parametrize(
    "record",
    [Message("user", "hello"), Instance("a", 1), Usage(), Score(True), Decoding()],
    ids=lambda record: type(record).__name__,
)
def test_records_are_frozen(record: Any) -> None:
    field = next(iter(getattr(record, "__struct_fields__", None) or record.__dataclass_fields__))
    with pytest.raises(AttributeError):
        setattr(record, field, None)


def test_decoding_refuses_keys_that_it_does_not_have() -> None:
    adapter = TypeAdapter(Decoding)
    assert adapter.validate_python({"stop": ["\n"]}) == Decoding(stop=("\n",))
    with pytest.raises(ValidationError):
        adapter.validate_python({"temprature": 0})


@pytest.mark.parametrize("n", [0, -1, 21])
def test_decoding_bounds_how_many_logprobs_are_asked_for(n: int) -> None:
    with pytest.raises(ValidationError, match="logprobs must be 1 to 20"):
        TypeAdapter(Decoding).validate_python({"logprobs": n})
    assert TypeAdapter(Decoding).validate_python({"logprobs": 20}) == Decoding(logprobs=20)


def test_a_reply_that_was_cached_before_there_were_logprobs_is_still_read() -> None:
    cached = bytes.fromhex(
        "86a474657874a161ad66696e6973685f726561736f6ea473746f70a5757361676584ac696e7075745f746f6b65"
        "6e7301ad6f75747075745f746f6b656e7302b36361636865645f696e7075745f746f6b656e7300b0726561736f"
        "6e696e675f746f6b656e7300a56d6f64656ca16da96c6174656e63795f73cb3fe0000000000000a9726561736f"
        "6e696e67a172"
    )
    read = msgspec.msgpack.Decoder(Reply).decode
    assert read(cached) == Reply("a", "stop", Usage(1, 2), "m", 0.5, "r")
    told = Reply("a", "stop", logprobs=((TokenLogprob("a", -0.5), TokenLogprob("b", -1.0)), ()))
    assert read(msgspec.msgpack.encode(told)) == told


@pytest.mark.parametrize(
    ("value", "depth"),
    [("x", 0), ({}, 1), ({"a": 1}, 1), ({"a": []}, 2), ([1, {"a": [2]}, []], 3)],
)
def test_the_depth_of_a_value_counts_its_mappings_and_lists(value: Any, depth: int) -> None:
    assert nesting_depth(value) == depth
