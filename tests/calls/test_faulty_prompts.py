"""Prompts that a working provider never answers, over loopback: each is one failed call."""

from __future__ import annotations

import asyncio
import itertools
import math
from collections.abc import Callable, Iterable

import pytest

from harness.backends.openai import OpenAIBackend
from harness.calls.circuit import Circuit
from harness.calls.concurrency import ConcurrencyLimiter
from harness.calls.rate_limits import RateLimits
from harness.calls.retries import Retry
from harness.calls.signals import Stop
from harness.calls.time_limit import Timed
from harness.errors import CallError, FatalCallError
from harness.mock import MockRequest, MockServer
from harness.records import Decoding, Message, Origin, Reply, Request
from harness.run.models import LEAST_WORKERS
from harness.run.pool import work_off

TRIES = 6
RETRIES_S = 15.5  # the longest time that a call with six tries backs off
N = 40
FAULTS = (
    *("403", "404", "429", "500", "503", "reset", "truncated_body", "invalid_json"),
    "error_body",
)
SOME = {"one": 1, "two": 2, "a fifth": N // 5}
CASES = [
    *itertools.product(FAULTS, SOME),
    ("401", "one"),  # a key that is rejected in two calls ends the run
    *itertools.product(("stall",), ("one", "two")),  # a fifth takes ten seconds
]


def prompt(number: int) -> str:
    return f"This is row {number:03}."


class Stack:
    """The layers between a run's workers and a provider on loopback.

    Pauses last a thousandth of their time, and ``waited_s`` is the time that the circuit paused.
    """

    def __init__(self, server: MockServer, concurrency: int, timeout_s: float = 60) -> None:
        self.stop = Stop()
        self.waited_s = 0.0
        self.on_wait: Callable[[float], None] = lambda waited_s: None
        self.backend = OpenAIBackend(
            None, server.base_url, secret=str, concurrency=concurrency, timeout_s=timeout_s
        )
        limiter = ConcurrencyLimiter(
            Timed(self.backend.generate, timeout_s),
            self.stop,
            most=concurrency,
            rates=RateLimits({}),
        )
        circuit = Circuit(
            limiter,
            tries=TRIES,
            outage_s=600,
            sleep=self.wait,
            opened=limiter.admit_only,
            restored=limiter.admit_all,
            clock=lambda: self.waited_s,
        )
        self.call = Retry(circuit, tries=TRIES, sleep=self.pause)

    async def pause(self, seconds: float) -> None:
        await self.stop.sleep(seconds / 1000)

    async def wait(self, seconds: float) -> None:
        self.waited_s += seconds
        self.on_wait(self.waited_s)
        await self.pause(seconds)

    async def run(self, prompts: Iterable[str], samples: int = 1) -> dict[tuple[str, int], object]:
        """Return the reply or error of each sample of each prompt."""
        ended: dict[tuple[str, int], object] = {}

        async def work(item: tuple[str, int]) -> None:
            text, sample = item
            messages = (Message("user", text),)
            request = Request("m", messages, Decoding(), sample, Origin(text, sample, 1))
            try:
                ended[item] = await self.call(request)
            except FatalCallError:
                raise
            except CallError as error:
                ended[item] = error

        items = ((text, sample) for text in prompts for sample in range(samples))
        try:
            async with asyncio.timeout(60):
                await work_off(items, work, workers=LEAST_WORKERS, stop=self.stop)
        finally:
            await self.backend.aclose()
        return ended


@pytest.mark.parametrize("first", [True, False], ids=["first", "last"])
@pytest.mark.parametrize(("fault", "some"), CASES)
async def test_only_the_faulty_prompts_fail(fault: str, some: str, first: bool) -> None:
    prompts = [prompt(number) for number in range(N)]
    faulty = prompts[: SOME[some]]
    concurrency = 4
    with MockServer(faults={fault: 1}, fault_on=faulty, retry_after=0.01) as server:
        stack = Stack(server, concurrency, timeout_s=0.3 if fault == "stall" else 60)
        ended = await stack.run(prompts if first else reversed(prompts))
    assert len(ended) == N
    failed = {text for (text, _), result in ended.items() if not isinstance(result, Reply)}
    assert failed == set(faulty)
    assert stack.waited_s <= RETRIES_S * math.ceil(len(faulty) / concurrency)


@pytest.mark.parametrize("concurrency", [1, 20])
@pytest.mark.parametrize("fault", ["403", "429", "500", "503"])
async def test_the_concurrency_does_not_matter(fault: str, concurrency: int) -> None:
    prompts = [prompt(number) for number in range(N)]
    with MockServer(faults={fault: 1}, fault_on=prompts[:8], retry_after=0.01) as server:
        stack = Stack(server, concurrency)
        ended = await stack.run(prompts)
    assert sum(isinstance(result, Reply) for result in ended.values()) == N - 8
    assert stack.waited_s <= RETRIES_S * math.ceil(8 / concurrency)


@pytest.mark.parametrize("fault", ["403", "500", "503"])
async def test_samples_of_one_prompt_fail_together(fault: str) -> None:
    prompts = [prompt(number) for number in range(10)]
    with MockServer(faults={fault: 1}, fault_on=prompts[:1]) as server:
        ended = await Stack(server, 4).run(prompts, samples=3)
    assert len(ended) == 30
    failed = {key for key, result in ended.items() if not isinstance(result, Reply)}
    assert failed == {(prompts[0], sample) for sample in range(3)}


@pytest.mark.parametrize(("fault", "requests"), [("401", 6), ("403", 30), ("404", 30)])
async def test_a_denial_of_all_calls_ends_the_run(fault: str, requests: int) -> None:
    with MockServer(faults={fault: 1}) as server:
        stack = Stack(server, 4)
        with pytest.raises(FatalCallError, match=fault):
            await stack.run(prompt(number) for number in range(100))
        assert server.stats().requests <= requests
    assert stack.waited_s < 1


async def test_an_outage_of_all_calls_is_waited_for_and_fails_none() -> None:
    answered = itertools.count(1)

    def answer(request: MockRequest, index: int) -> str:
        if next(answered) == 10:
            server.change(faults={"503": 1})
        return "Yes."

    def end_outage(waited_s: float) -> None:
        if waited_s > 100:
            server.change(faults={})

    with MockServer(answers=answer) as server:
        stack = Stack(server, 4)
        stack.on_wait = end_outage
        ended = await stack.run(prompt(number) for number in range(N))
    assert len(ended) == N
    assert all(isinstance(result, Reply) for result in ended.values())
    assert stack.waited_s > 100
