import pytest
from msgspec import structs

from harness.engine.progress import Tally, Verdicts
from harness.records import Attempt, Outcome, Usage


def attempt(
    outcome: Outcome = "ok",
    passed: bool | None = True,
    cost: float | None = 0.5,
    *,
    cached: bool = False,
) -> Attempt:
    return Attempt(
        1, "a", 0, 1, {}, "c", {}, outcome, 0.0, 1.0,
        passed=passed, call_id="x", usage=Usage(3, 2), cost_usd=cost, cached=cached,
    )  # fmt: skip


def test_the_counters_of_a_session() -> None:
    now = 0.0
    tally = Tally(expected=10, finished_earlier=2, clock=lambda: now)
    assert tally.eta_s is None
    tally.record(attempt(), True)
    tally.record(attempt(passed=False), False)
    tally.record(attempt(cached=True), True)
    tally.record(attempt("error", passed=None))
    for _ in range(3):
        tally.finish_sample(1)
    now = 2.0
    assert (tally.passed, tally.judged) == (tally.first_passed, tally.first_judged) == (2, 3)
    assert (tally.calls, tally.cached) == (3, 1)
    assert tally.usage == Usage(9, 6)
    assert tally.cost_usd == 1.5
    assert tally.outcomes == {"ok": 3, "error": 1}
    assert tally.per_second == 1.5
    assert tally.done == 4
    assert tally.eta_s == pytest.approx(6 / (4 / 2))


def test_unfinished_samples_count_by_their_rounds_and_their_last_verdict() -> None:
    now = 0.0
    tally = Tally(expected=10, rounds=4, clock=lambda: now)
    for verdict in (True, False, False, False):
        tally.record(attempt(), verdict)
    tally.finish_sample(1)
    now = 1.0
    assert (tally.passed, tally.judged) == (1, 4), "not 1 of the 1 that has finished"
    assert tally.done == 1 + 3 / 4
    assert tally.eta_s == pytest.approx((10 - 1.75) / 1.75), "not 9 / 1"
    failed = Verdicts(False, False)
    tally.record(structs.replace(attempt(), round=2), True, failed)
    tally.record(structs.replace(attempt("error"), round=2), None, failed)
    assert (tally.passed, tally.judged) == (2, 3)
    assert (tally.first_passed, tally.first_judged) == (1, 4)
    tally.record(attempt(), True, Verdicts(False, None))
    assert (tally.first_passed, tally.first_judged) == (2, 4), "a retried answer counts once"


def test_errors_are_counted_by_their_message() -> None:
    tally = Tally(expected=1)
    tally.record(structs.replace(attempt("unparseable", False), error="no number in it"))
    for number in range(30):
        tally.record(structs.replace(attempt("error", None), error=str(number // 2)))
    for number in range(100):
        tally.record(structs.replace(attempt("error", None), error=f"id {number}"))
    assert tally.errors["error", "3"] == 2
    assert tally.errors["error", "other errors"] == 95
    assert len(tally.errors) == 21


@pytest.mark.parametrize("cached", [False, True])
def test_an_answer_that_cannot_be_continued_counts_as_one_call(cached: bool) -> None:
    tally = Tally(expected=1)
    called_a_tool = attempt("error", None, cached=cached)
    tally.record(structs.replace(called_a_tool, error="a tool", latency_s=0.1))
    assert (tally.calls, tally.cached) == ((0, 1) if cached else (1, 0))
    crash = structs.replace(called_a_tool, call_id=None, cached=False, latency_s=0.1)
    tally.record(crash)
    assert tally.calls == (1 if cached else 2)


def test_one_unknown_cost_makes_the_cost_unknown() -> None:
    tally = Tally(expected=1)
    tally.record(attempt(cost=None))
    assert not tally.cost_known
