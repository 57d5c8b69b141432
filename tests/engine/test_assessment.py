import pytest

from harness.engine.assessment import assess, feedback, is_constraint_refusal
from harness.errors import CallError, RequestRejected, TransientError
from harness.records import (
    CONSTRAINT_REFUSED,
    INTERRUPTIONS,
    TRUNCATIONS,
    Decoding,
    DecodingConstraint,
    Origin,
    Outcome,
    Reply,
    Request,
    Score,
)
from tests.conftest import Sums

INSTANCE = next(iter(Sums().instances()))


@pytest.mark.parametrize(
    ("reply", "outcome", "passed"),
    [
        (Reply("0", "stop"), "ok", True),
        (Reply("1", "stop"), "ok", False),
        (Reply("0", "length"), "truncated", False),
        (Reply("", "stop"), "empty", False),
        (Reply(" \n", "length"), "empty", False),
        (Reply("I will not", "refusal"), "refused", False),
        (Reply("", "content_filter"), "refused", False),
        *((Reply("0", reason), "refused", False) for reason in ("sensitive", "SAFETY")),
        *((Reply("0", reason), "truncated", False) for reason in sorted(TRUNCATIONS)),
        *((Reply("0", reason), "truncated", False) for reason in sorted(INTERRUPTIONS)),
        (Reply("400: bad schema", CONSTRAINT_REFUSED), "refused", False),
        (Reply("zero", "stop"), "unparseable", False),
        (Reply("0", "some_new_reason"), "ok", True),
    ],
)
def test_outcomes(reply: Reply, outcome: Outcome, passed: bool) -> None:
    found = assess(Sums(), INSTANCE, reply)
    assert (found.outcome, found.passed) == (outcome, passed)
    assert bool(found.scores) is (outcome == "ok")
    assert feedback(Sums(), INSTANCE, reply, found)


def test_a_task_may_grade_truncated_answers() -> None:
    found = assess(Sums(on_truncated="grade"), INSTANCE, Reply("0", "length"))
    assert (found.outcome, found.passed) == ("truncated", True)


@pytest.mark.parametrize(
    ("reply", "outcome"),
    [
        (Reply("", "stop"), "empty"),
        (Reply("0", "refusal"), "refused"),
        (Reply("zero", "stop"), "unparseable"),
        (Reply("0", "length"), "truncated"),
    ],
)
def test_a_missing_answer_gets_the_tasks_scores_and_fails(reply: Reply, outcome: Outcome) -> None:
    class Overlap(Sums):
        measure = "overlap"

        def score_of_no_answer(self, instance: object) -> dict[str, Score]:
            return {"overlap": Score(0.0, True, share=True)}

    found = assess(Overlap(), INSTANCE, reply)
    assert (found.outcome, found.passed) == (outcome, False)
    assert found.scores == {"overlap": Score(0.0, True, share=True)}
    assert feedback(Overlap(), INSTANCE, reply, found) == feedback(
        Sums(), INSTANCE, reply, assess(Sums(), INSTANCE, reply)
    )


def test_an_error_in_a_checker_is_raised() -> None:
    class Broken(Sums):
        def score(self, instance: object, text: str) -> dict[str, object]:  # type: ignore[override]
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        assess(Broken(), INSTANCE, Reply("0", "stop"))


@pytest.mark.parametrize(
    ("error", "refused"),
    [
        (RequestRejected("x answered 400: Invalid schema for response_format 'answer'."), True),
        (RequestRejected("x answered 400: output_config.format: minimum is not supported"), True),
        (RequestRejected("vLLM: Failed to convert the grammar"), True),
        (RequestRejected("x answered 400: the schema exceeds the maximum context length"), False),
        (RequestRejected("x answered 400: max_tokens is too large"), False),
        (TransientError("x answered 500: schema"), False),
    ],
)
def test_a_refused_constraint_is_told_by_the_message(error: CallError, refused: bool) -> None:
    constraint = DecodingConstraint(json_schema={"type": "integer"})
    for decoding, expected in ((Decoding(constraint=constraint), refused), (Decoding(), False)):
        request = Request("m", (), decoding, 0, Origin("1", 0, 1))
        assert is_constraint_refusal(error, request) is expected
