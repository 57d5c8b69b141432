from __future__ import annotations

import heapq
from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from harness.calls.rate_limits import BURST_S, COUNTED_WITHIN_S, WINDOW_S, SlidingWindow

CALLS = st.lists(
    st.tuples(
        st.floats(0, 3),  # seconds between two that want to go
        st.floats(0.001, 20),  # seconds until the answer
        st.floats(0, 1),  # when, between sending and answer, the provider counts it
        st.integers(1, 40),  # what it is expected to use
        st.floats(0, 1),  # which share of this it does use
    ),
    min_size=1,
    max_size=150,
)


def provider_counts(
    limit: int, calls: list[tuple[float, float, float, int, float]]
) -> list[tuple[float, float]]:
    """Drives a window as a lane does; (time, amount) as the provider counts them."""
    window, now = SlidingWindow(limit), 0.0
    on_the_way: list[tuple[float, int, float, float]] = []
    counted = []

    def settle(until: float) -> None:
        while on_the_way and on_the_way[0][0] <= until:
            answered, expected, actual, sent = heapq.heappop(on_the_way)
            window.settle(expected, actual, sent, answered)

    for gap, latency, when, expected, share in calls:
        now += gap
        settle(now)
        while (wait := window.wait(expected, 0.0, now)) > 0:
            now = min([now + wait, *(entry[0] for entry in on_the_way)])
            settle(now)
        window.take(expected, now)
        counted.append((now + min(when * latency, COUNTED_WITHIN_S), expected * share))
        heapq.heappush(on_the_way, (now + latency, expected, expected * share, now))
    return counted


@settings(max_examples=50, deadline=None)
@given(st.integers(40, 200), CALLS)
def test_no_sixty_seconds_of_the_providers_hold_more_than_the_limit(
    limit: int, calls: list[tuple[float, float, float, int, float]]
) -> None:
    counted = provider_counts(limit, calls)
    for end, _ in counted:
        used = sum(amount for at, amount in counted if end - WINDOW_S + 1e-9 < at <= end)
        assert used <= limit + 1e-6


def test_what_is_wanted_without_pause_goes_at_nearly_the_limit_and_evenly() -> None:
    window, now, sent = SlidingWindow(600), 0.0, []
    while now < 180:
        wait = window.wait(1, 0.0, now)
        if wait == 0:
            window.take(1, now)
            window.settle(1, 1, now, now + 0.05)
            sent.append(now)
        else:
            now += wait
    assert len(sent) >= 0.97 * 3 * 600
    assert sum(at < 1 for at in sent) <= (BURST_S + 1) * 10 + 1
    assert max(later - sooner for sooner, later in pairwise(sent)) < 10


def test_slow_answers_do_not_halve_the_rate() -> None:
    window, now, sent, open_ = SlidingWindow(600), 0.0, [], []
    while now < 300:
        while open_ and open_[0] <= now:
            window.settle(1, 1, open_[0] - 40, open_.pop(0))
        wait = window.wait(1, 0.0, now)
        if wait == 0:
            window.take(1, now)
            open_.append(now + 40)
            sent.append(now)
        else:
            now = min([now + wait, *open_[:1]])
    assert sum(at > 120 for at in sent) >= 0.93 * 3 * 600


def test_what_never_fits_goes_alone() -> None:
    window = SlidingWindow(100)
    assert window.wait(500, 0.0, 0.0) == 0
    window.take(500, 0.0)
    window.settle(500, 450, 0.0, 1.0)
    assert window.wait(1, 0.0, 1.0) == 60.0


def test_what_was_reserved_too_much_is_free_with_the_answer() -> None:
    window = SlidingWindow(100)
    window.take(100, 0.0)
    assert window.wait(60, 0.0, 0.5) > 0
    window.settle(100, 20, 0.0, 1.0)
    assert window.used(1.0) == 20
    assert window.wait(60, 0.0, 10.0) == 0


def test_the_use_of_others_counts_until_it_is_over() -> None:
    window = SlidingWindow(100)
    window.add(95, 30.0)
    assert window.wait(10, 0.0, 0.0) == 30.0
    assert window.wait(10, 0.0, 30.0) == 0
