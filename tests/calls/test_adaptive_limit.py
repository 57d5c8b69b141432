from __future__ import annotations

from itertools import count

from harness.calls.concurrency import START, TOLERATED, AdaptiveLimit

SECONDS = count(1, 2)


def rounds(limit: AdaptiveLimit, times: int, refused: float = 0.0, full: bool = True) -> None:
    """Rounds of as many answers as may be in flight, a share of them refusals."""
    for _ in range(times):
        sent = float(next(SECONDS))
        size = limit.now
        for answer in range(size):
            if answer < refused * size:
                limit.ended(sent, sent + 1, pushed_back=True)
            else:
                limit.ended(sent, sent + 1, full=full)


def test_it_begins_with_a_few_and_doubles_up_to_the_users_most() -> None:
    limit = AdaptiveLimit(500)
    assert limit.now == START
    rounds(limit, 1)
    assert limit.now == 2 * START
    rounds(limit, 5)
    assert limit.now == 500
    assert AdaptiveLimit(3).now == 3


def test_a_slow_model_is_not_held_to_a_few_until_it_has_answered() -> None:
    limit = AdaptiveLimit(500)
    for _ in range(9):
        limit.unrefused()
    assert limit.now == 500
    limit = AdaptiveLimit(500)
    limit.ended(1.0, 1.1, pushed_back=True)
    limit.unrefused()
    assert limit.now == START


def test_calls_that_are_not_wanted_prove_nothing() -> None:
    limit = AdaptiveLimit(500)
    rounds(limit, 5, full=False)
    assert limit.now == START


def test_it_halves_where_all_are_refused_and_then_grows_by_one_a_round() -> None:
    limit = AdaptiveLimit(500)
    rounds(limit, 5)
    before = limit.now
    rounds(limit, 1, refused=1.0)
    assert limit.now == before // 2
    rounds(limit, 4)
    assert before // 2 + 3 <= limit.now <= before // 2 + 4


def test_it_never_falls_to_none() -> None:
    limit = AdaptiveLimit(500)
    for _ in range(100):
        rounds(limit, 1, refused=1.0)
    assert limit.now == 1
    rounds(limit, 30)
    assert limit.now > 1


def test_a_few_stray_refusals_are_noise() -> None:
    limit = AdaptiveLimit(200)
    rounds(limit, 100, refused=TOLERATED - 0.05)
    assert limit.now == 200


def test_calls_that_were_sent_before_it_fell_do_not_lower_it_again() -> None:
    limit = AdaptiveLimit(64)
    rounds(limit, 3)
    size, sent = limit.now, float(next(SECONDS))
    for _ in range(3 * size):  # all sent at once, all refused
        limit.ended(sent, sent + 1, pushed_back=True)
    assert limit.now == size // 2


def test_a_provider_that_was_away_is_met_with_a_few() -> None:
    limit = AdaptiveLimit(500)
    rounds(limit, 6)
    limit.restart()
    assert limit.now == START


def test_a_server_that_queues_is_given_all_at_once() -> None:
    limit = AdaptiveLimit(64, start=320)
    assert limit.now == 64
    assert AdaptiveLimit(500, start=320).now == 320
    limit.restart()
    assert limit.now == 64
