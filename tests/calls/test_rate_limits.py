from __future__ import annotations

import heapq
import random
from bisect import bisect
from itertools import pairwise
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from harness.calls.rate_limits import (
    BURST_S,
    MAX_COUNTING_DELAY_S,
    MIN_LEARNED_CALLS,
    WINDOW_S,
    RateLimits,
    SlidingWindow,
    TokenEstimate,
)
from harness.records import Allowance, Decoding, Message, Origin, Request, Usage


def request(characters: int = 400, max_tokens: int | None = 1000) -> Request:
    messages = (Message("user", "x" * characters),)
    return Request("m", messages, Decoding(max_tokens=max_tokens), 0, Origin("a", 0, 1))


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def limits(**stated: int) -> tuple[RateLimits, Clock]:
    clock = Clock()
    return RateLimits(stated, clock=clock), clock  # type: ignore[arg-type]


def use(rates: RateLimits, clock: Clock, asked: Request, usage: Usage | None) -> None:
    reserved = rates.reserve(asked)
    clock.now += 0.05
    rates.settle(reserved, asked, usage)


def test_nothing_is_limited_where_nobody_says_so() -> None:
    rates, _ = limits()
    assert rates.wait_s(request()) == 0
    assert rates.reserve(request()) is None
    rates.settle(None, request(), None)


def test_the_first_calls_reserve_a_bound_and_later_ones_what_was_used() -> None:
    rates, clock = limits(tokens=100_000)
    for _ in range(2):  # 1,220 tokens each at the most: more than a burst of 8,333
        use(rates, clock, request(), None)
    assert rates.wait_s(request(max_tokens=60_000)) == 0
    rates.reserve(request(max_tokens=100_000))
    assert rates.wait_s(request()) > 0
    rates, clock = limits(tokens=100_000)
    for _ in range(MIN_LEARNED_CALLS):
        clock.now += 1
        use(rates, clock, request(), Usage(100, 50))
    asked = request()
    reserved = rates.reserve(asked)
    assert reserved is not None
    assert 145 <= reserved.amounts["tokens"] <= 155


def test_together_the_guesses_hold_what_calls_of_uneven_length_use() -> None:
    draw, estimate = random.Random(0), TokenEstimate()

    def usage(size: int) -> Usage:
        return Usage(round(size * draw.uniform(0.2, 0.3)), round(draw.expovariate(1 / 100)))

    for _ in range(300):
        estimate.update(request(400), usage(400))
    exceeded = 0
    for _ in range(300):
        sizes = [draw.randrange(100, 800) for _ in range(40)]
        used = [usage(size) for size in sizes]
        guessed = [estimate.expected_tokens(request(size)) for size in sizes]
        read, written = estimate.margins(len(sizes))
        exceeded += sum(u.input_tokens for u in used) > sum(g[0] for g in guessed) + read
        exceeded += sum(u.output_tokens for u in used) > sum(g[1] for g in guessed) + written
    assert exceeded <= 3


def test_a_refused_call_has_used_a_request_and_no_token() -> None:
    rates, clock = limits(requests=1, tokens=1000)
    asked = request(max_tokens=100)
    reserved = rates.reserve(asked)
    rates.settle(reserved, asked, None, "request")
    assert rates.wait_s(asked) > 0  # for the requests
    clock.now = 61
    reserved = rates.reserve(asked)
    rates.settle(reserved, asked, None)  # nobody knows: the reservation stands
    rates.set_limits({"requests": 100, "tokens": 1000})
    clock.now = 100
    assert rates.wait_s(request(max_tokens=900)) > 0


def test_a_limit_that_the_provider_tells_is_kept() -> None:
    rates, _ = limits()
    rates.observe([Allowance("requests", limit=60, remaining=59, reset_s=1.0)])
    for _ in range(6):  # five seconds' worth, and the one that is due
        assert rates.wait_s(request()) == 0
        rates.reserve(request())
    assert rates.wait_s(request()) > 0


def test_the_lower_of_two_figures_counts() -> None:
    for stated, told in ((60, 6000), (6000, 60)):
        rates, _ = limits(requests=stated)
        rates.observe([Allowance("requests", limit=told, remaining=told - 1)])
        for _ in range(6):
            rates.reserve(request())
        assert rates.wait_s(request()) > 0


def test_what_others_use_of_the_account_is_left_to_them() -> None:
    rates, clock = limits()
    rates.observe([Allowance("requests", limit=600, remaining=0, reset_s=20.0)])
    assert rates.wait_s(request()) == 20.0
    clock.now = 20.0
    assert rates.wait_s(request()) == 0


def test_our_own_use_is_not_counted_twice() -> None:
    rates, clock = limits()
    rates.observe([Allowance("requests", limit=600, remaining=600)])
    for number in range(1, 301):
        reserved = rates.reserve(request())
        clock.now += 0.12
        rates.settle(reserved, request(), Usage(10, 10))
        rates.observe([Allowance("requests", limit=600, remaining=600 - number)])
    assert rates.wait_s(request()) == 0


@given(st.integers(0, 2000))
@settings(max_examples=30, deadline=None)
def test_use_beyond_the_estimates_and_their_margin_is_that_of_others(beyond: int) -> None:
    """The provider may have counted more for our unanswered calls, but no more than the margin."""
    rates, clock = limits(tokens=100_000)
    for number in range(100):
        clock.now += 2
        use(rates, clock, request(), Usage(100, 50 + 100 * (number % 2)))
    clock.now += 120
    reserved = [rates.reserve(request()) for _ in range(10)]
    ours = sum(one.amounts["tokens"] for one in reserved if one is not None)
    clock.now += 10
    before = largest(rates)
    margin = 100_000 - ours - 0.25 * before - 100  # an answer has 100 tokens on average
    assert 500 < margin < 800
    remaining = 100_000 - round(ours) - beyond
    rates.observe([Allowance("tokens", limit=100_000, remaining=remaining, reset_s=60.0)])
    others = 0.25 * (before - largest(rates))
    assert abs(others - max(0.0, beyond - margin)) < 10


def largest(rates: RateLimits) -> int:
    """The number of characters of the largest request that may be sent now."""
    return bisect(range(400_000), 0.0, key=lambda size: rates.wait_s(request(size))) - 1


def test_what_says_nothing_changes_nothing() -> None:
    rates, _ = limits()
    rates.observe([Allowance("requests"), Allowance("tokens", limit=0, remaining=0)])
    assert rates.wait_s(request()) == 0


def test_the_users_figure_outlives_what_the_provider_tells_and_the_other_way_round() -> None:
    rates, _ = limits(requests=60)
    rates.observe([Allowance("requests", limit=5000, remaining=4999)])
    rates.set_limits({})  # another run of the process states nothing
    for _ in range(100):
        rates.reserve(request())
    assert rates.wait_s(request()) == 0
    rates.set_limits({"requests": 60})
    assert rates.wait_s(request()) > 0


def test_a_limit_that_is_raised_lets_nobody_wait_for_the_old_one() -> None:
    rates, clock = limits(tokens=1000)
    asked = request(max_tokens=8000)
    reserved = rates.reserve(asked)
    rates.set_limits({"tokens": 100_000})
    assert rates.wait_s(request(max_tokens=100)) < 1
    clock.now = 1
    rates.settle(reserved, asked, Usage(100, 20))
    assert rates.wait_s(request(max_tokens=100)) == 0


def test_a_most_above_the_limit_holds_up_the_first_call_only() -> None:
    rates, clock = limits(output_tokens=8000)
    asked = request(max_tokens=8192)
    use(rates, clock, asked, Usage(100, 20))
    for _ in range(30):
        assert rates.wait_s(asked) == 0
        use(rates, clock, asked, Usage(100, 20))


def test_a_reset_that_is_now_holds_nothing() -> None:
    rates, _ = limits()
    rates.observe([Allowance("requests", limit=600, remaining=0, reset_s=0.0)])
    assert rates.wait_s(request()) == 0


def test_processes_share_what_they_use_and_a_new_one_knows_of_it(tmp_path: Path) -> None:
    clock = Clock()

    def started() -> RateLimits:
        return RateLimits({"requests": 60}, shared_path=tmp_path / "rates" / "m", clock=clock)

    processes, sent = [started(), started()], list[float]()
    for turn in range(3000):
        clock.now += 0.05
        rates = processes[turn % 2]
        with rates.lock() as ours:
            assert ours
            if rates.wait_s(request()) == 0:
                reserved = rates.reserve(request())
                sent.append(clock.now)
        if sent and sent[-1] == clock.now and turn % 3:
            rates.settle(reserved, request(), None)
        if turn % 200 == 0:  # it was killed, and started again
            processes[turn % 2] = started()
    assert max(sum(at <= other < at + 60 for other in sent) for at in sent) <= 60
    assert len(sent) >= 0.85 * 150


def test_shards_and_a_whole_run_together_keep_to_the_limit(tmp_path: Path) -> None:
    clock = Clock()

    def started(part: int = 0) -> RateLimits:
        whole = RateLimits({"requests": 60}, shared_path=tmp_path / "m", clock=clock)
        if not part:
            return whole
        share = tmp_path / f"m {part}"
        return RateLimits({"requests": 15}, shared_path=share, parent=whole, clock=clock)

    processes = [started(1), started(2), started()]
    sent: list[tuple[float, int]] = []
    for turn in range(3000):
        clock.now += 0.05
        rates = processes[turn % 3]
        with rates.lock() as ours:
            assert ours
            if rates.wait_s(request()) == 0:
                reservation = rates.reserve(request())
                sent.append((clock.now, turn % 3))
                rates.settle(reservation, request(), None)
    for start, _ in sent:
        inside = [process for time, process in sent if start <= time < start + 60]
        assert len(inside) <= 60
        assert inside.count(0) <= 15
        assert inside.count(1) <= 15
    assert len(sent) >= 0.85 * 150


def test_a_process_that_lets_its_calls_in_keeps_others_out(tmp_path: Path) -> None:
    one, two = (RateLimits({"requests": 60}, shared_path=tmp_path / "m") for _ in range(2))
    with one.lock() as ours, two.lock() as theirs:
        assert (ours, theirs) == (True, False)
        assert "another process" in two.waiting_for
    with two.lock() as theirs:
        assert theirs


def test_a_damaged_file_and_one_of_before_a_reboot_hold_up_nobody(tmp_path: Path) -> None:
    path, clock = tmp_path / "m", Clock()
    clock.now = 1e6
    before = RateLimits({"requests": 1}, shared_path=path, clock=clock)
    with before.lock():
        before.reserve(request())
    clock.now = 10.0
    after = RateLimits({"requests": 1}, shared_path=path, clock=clock)
    with after.lock():
        assert after.wait_s(request()) == 0
    path.write_bytes(b"\xff" * 100)
    with after.lock():
        assert after.wait_s(request()) == 0


def test_without_a_limit_of_the_run_file_no_file_is_made(tmp_path: Path) -> None:
    rates = RateLimits({}, shared_path=tmp_path / "m")
    rates.observe([Allowance("requests", limit=60, remaining=59)])
    with rates.lock() as ours:
        assert ours
        rates.reserve(request())
    assert not list(tmp_path.iterdir())


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
        while (wait := window.wait_s(expected, 0.0, now)) > 0:
            now = min([now + wait, *(entry[0] for entry in on_the_way)])
            settle(now)
        window.reserve(expected, now)
        counted.append((now + min(when * latency, MAX_COUNTING_DELAY_S), expected * share))
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
        wait = window.wait_s(1, 0.0, now)
        if wait == 0:
            window.reserve(1, now)
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
        wait = window.wait_s(1, 0.0, now)
        if wait == 0:
            window.reserve(1, now)
            open_.append(now + 40)
            sent.append(now)
        else:
            now = min([now + wait, *open_[:1]])
    assert sum(at > 120 for at in sent) >= 0.93 * 3 * 600


def test_what_never_fits_goes_alone() -> None:
    window = SlidingWindow(100)
    assert window.wait_s(500, 0.0, 0.0) == 0
    window.reserve(500, 0.0)
    window.settle(500, 450, 0.0, 1.0)
    assert window.wait_s(1, 0.0, 1.0) == 60.0


def test_what_was_reserved_too_much_is_free_with_the_answer() -> None:
    window = SlidingWindow(100)
    window.reserve(100, 0.0)
    assert window.wait_s(60, 0.0, 0.5) > 0
    window.settle(100, 20, 0.0, 1.0)
    assert window.used_amount(1.0) == 20
    assert window.wait_s(60, 0.0, 10.0) == 0


def test_a_margin_is_left_free() -> None:
    window = SlidingWindow(600)
    window.reserve(500, 0.0)  # 50 a burst
    assert window.available(70, 55.0) == 30
    assert window.available(20, 55.0) == 50
    assert window.wait_s(30, 70, 55.0) == 0
    assert window.wait_s(31, 70, 55.0) > 0


def test_the_use_of_others_counts_until_it_is_over() -> None:
    window = SlidingWindow(100)
    window.add(95, 30.0)
    assert window.wait_s(10, 0.0, 0.0) == 30.0
    assert window.wait_s(10, 0.0, 30.0) == 0
