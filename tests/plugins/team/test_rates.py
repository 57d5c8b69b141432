"""Rate limits that the processes of a team share, on a simulated clock."""

import random
from functools import partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.calls.rate_limits import ROUNDING, WINDOW_S, Demand, SlidingWindow
from harness.plugins.team.rates import GRANT_S, PAUSE_S, Change, Grant, Order, SharedUse, exchange

LIMIT = 600.0


class Process:
    """A process that sends calls as soon as it is granted them; ``size`` is a call's estimate."""

    def __init__(self, name: str, record: SharedUse, size: float, draw: random.Random) -> None:
        self.name, self.record, self.size, self.draw = name, record, size, draw
        self.number, self.left, self.until, self.next_at = 0, 0.0, 0.0, draw.uniform(0, 3)
        self.changes: list[tuple[float, Change]] = []  # by the time at which they are known
        self.sent: list[tuple[float, float]] = []  # when, and how much was used

    def step(self, queued: int) -> None:
        """Exchange, and send what is granted within the next 0.05 s."""
        now = self.next_at
        kept = min(self.left, queued * self.size) if now < self.until else 0.0
        grant = self.exchanged(queued, kept, now)
        self.left, self.until = kept + grant.amounts["tokens"], grant.until
        for _ in range(queued):
            at = now + self.draw.uniform(0, 0.05)
            if self.left < self.size - ROUNDING or at >= self.until:
                break
            self.send(at)
        self.next_at = now + max(PAUSE_S, min(grant.wait_s, GRANT_S)) + self.draw.expovariate(20)

    def exchanged(self, queued: int, kept: float, now: float) -> Grant:
        self.number += 1
        known = [change for at, change in self.changes if at <= now]
        self.changes = [one for one in self.changes if one[0] > now]
        wanted = {"tokens": self.size * queued}
        head = {"tokens": self.size * bool(queued)}
        demand = Demand({"tokens": LIMIT}, head, wanted, {"tokens": 0.0})  # type: ignore[arg-type]
        order = Order(
            self.number, demand, {"tokens": kept}, [("tokens", change) for change in known]
        )
        grant = exchange(self.record, self.name, order, now)
        if self.draw.random() < 0.1:  # the connection broke after the commit
            again = exchange(self.record, self.name, order, now + 0.01)
            assert again.amounts == pytest.approx(grant.amounts)
        return grant

    def send(self, at: float) -> None:
        self.left -= self.size
        used = self.size * self.draw.uniform(0.3, 1)
        answered = at + self.draw.expovariate(1)
        self.sent.append((at, used))
        take = partial(SlidingWindow.reserve, amount=self.size, now=at)
        settle = partial(
            SlidingWindow.settle, expected=self.size, actual=used, sent_at=at, now=answered
        )
        self.changes += [(at, take), (answered, settle)]


def simulated(seed: int, count: int, size: float, queued: int, until: float) -> list[Process]:
    draw, record = random.Random(seed), SharedUse()
    processes = [Process(str(number), record, size, draw) for number in range(count)]
    running = list(processes)
    while (one := min(running, key=lambda each: each.next_at)).next_at < until:
        if len(running) > 1 and draw.random() < 0.002:
            running.remove(one)  # killed
            again = Process(f"{one.name}'", record, size, draw)
            again.next_at = one.next_at + 1
            processes.append(again)
            running.append(again)
        else:
            one.step(queued)
    return processes


@settings(max_examples=20)
@given(st.integers(0, 10_000), st.integers(1, 8), st.sampled_from([1.0, 7.5]))
def test_no_window_holds_more_than_the_limit(seed: int, count: int, size: float) -> None:
    sent = sorted(one for p in simulated(seed, count, size, 30, 130) for one in p.sent)
    first, used = 0, 0.0
    for at, amount in sent:
        used += amount
        while sent[first][0] <= at - WINDOW_S:
            used -= sent[first][1]
            first += 1
        assert used <= LIMIT + 1e-6


@pytest.mark.parametrize("queued", [2, 30])
def test_processes_use_the_limit_and_each_gets_its_share(queued: int) -> None:
    record, draw = SharedUse(), random.Random(0)
    processes = [Process(str(number), record, 1.0, draw) for number in range(6)]
    while (one := min(processes, key=lambda each: each.next_at)).next_at < 300:
        one.step(queued)
    used = [sum(amount for at, amount in one.sent if at > 60) for one in processes]
    assert sum(used) >= 0.9 * LIMIT * 4
    assert max(used) < 1.5 * min(used)
