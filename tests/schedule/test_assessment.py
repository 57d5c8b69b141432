import pytest

from harness.records import Outcome, Reply
from harness.schedule.assessment import assess, feedback
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


def test_an_error_in_a_checker_is_no_verdict() -> None:
    class Broken(Sums):
        def score(self, instance: object, text: str) -> dict[str, object]:  # type: ignore[override]
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        assess(Broken(), INSTANCE, Reply("0", "stop"))
