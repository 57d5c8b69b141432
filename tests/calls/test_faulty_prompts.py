"""Prompts that a working provider never answers, over loopback: each is one failed call."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Callable, Iterable

import pytest

from harness.backends.openai import OpenAIBackend
from harness.calls.backend_layers import TimedCalls
from harness.calls.circuit import Circuit
from harness.calls.concurrency import ConcurrencyLimiter
from harness.calls.rate_limits import RateLimits
from harness.calls.signals import Stop
from harness.engine.models import WORKERS_PER_SLOT
from harness.engine.session import process_all
from harness.errors import CallError, FatalCallError
from harness.plugins.mock.server import MockServer
from harness.plugins.mock.wire import MockRequest
from harness.records import Decoding, Message, Origin, Reply, Request

TRIES = 6
SPEED = 1000  # pauses last a thousandth of their time
N = 40
FAULTS = (
    *("401", "403", "404", "429", "500", "503", "reset", "truncated_body", "invalid_json"),
    "error_body",
)
SOME = {"one": 1, "two": 2, "a fifth": N // 5}
CASES = [
    *itertools.product(FAULTS, SOME),
    *itertools.product(("stall",), ("one", "two")),  # a fifth takes ten seconds
]
PLACES = [
    pytest.param(
        *case,
        first,
        id="-".join([*case, "first" if first else "last"]),
        marks=() if first or case[1] == "two" else pytest.mark.exhaustive,
    )
    for case, first in itertools.product(CASES, (True, False))
]


def prompt(number: int) -> str:
    return f"This is row {number:03}."


class Stack:
    """The layers between a run's workers and a provider on loopback."""

    def __init__(self, server: MockServer, concurrency: int, timeout_s: float = 60) -> None:
        self.stop = Stop()
        self.concurrency = concurrency
        self.pauses: list[str] = []
        self.on_pause: Callable[[], None] = lambda: None
        self.backend = OpenAIBackend(
            None, server.base_url, secret=str, concurrency=concurrency, timeout_s=timeout_s
        )
        limiter = ConcurrencyLimiter(
            TimedCalls(self.backend.generate, timeout_s),
            self.stop,
            ceiling=concurrency,
            rates=RateLimits({}),
        )
        self.call = Circuit(
            limiter,
            limiter,
            max_tries=TRIES,
            outage_s=600,
            sleep=lambda seconds: self.stop.sleep(seconds / SPEED),
            status=self.report,
            on_probe=limiter.admit_only,
            on_restored=limiter.admit_all,
            clock=lambda: SPEED * time.monotonic(),
        )

    def report(self, text: str) -> None:
        if text:
            self.pauses.append(text)
            self.on_pause()

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
                await process_all(
                    items, work, workers=WORKERS_PER_SLOT * self.concurrency, stop=self.stop
                )
        finally:
            await self.backend.aclose()
        return ended


@pytest.mark.parametrize(("fault", "some", "first"), PLACES)
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
    assert not stack.pauses


@pytest.mark.parametrize("concurrency", [1, 20])
@pytest.mark.parametrize("fault", ["403", "429", "500", "503"])
async def test_the_concurrency_does_not_matter(fault: str, concurrency: int) -> None:
    prompts = [prompt(number) for number in range(N)]
    with MockServer(faults={fault: 1}, fault_on=prompts[:8], retry_after=0.01) as server:
        stack = Stack(server, concurrency)
        ended = await stack.run(prompts)
    assert sum(isinstance(result, Reply) for result in ended.values()) == N - 8
    assert not stack.pauses


@pytest.mark.parametrize("fault", ["403", "500", "503"])
async def test_samples_of_one_prompt_fail_together(fault: str) -> None:
    prompts = [prompt(number) for number in range(10)]
    with MockServer(faults={fault: 1}, fault_on=prompts[:1]) as server:
        ended = await Stack(server, 4).run(prompts, samples=3)
    assert len(ended) == 30
    failed = {key for key, result in ended.items() if not isinstance(result, Reply)}
    assert failed == {(prompts[0], sample) for sample in range(3)}


@pytest.mark.parametrize("fault", ["401", "403", "404"])
async def test_a_denial_of_all_calls_ends_the_run(fault: str) -> None:
    with MockServer(faults={fault: 1}) as server:
        stack = Stack(server, 4)
        with pytest.raises(FatalCallError, match=fault):
            await stack.run(prompt(number) for number in range(100))
        assert server.stats().requests <= 2 * 4 + 1
    assert not stack.pauses


async def test_an_outage_of_all_calls_is_waited_for_and_fails_none() -> None:
    answered = itertools.count(1)

    def answer(request: MockRequest, index: int) -> str:
        if next(answered) == 10:
            server.change(faults={"503": 1})
        return "Yes."

    def end_outage() -> None:
        if len(stack.pauses) == 8:
            server.change(faults={})

    with MockServer(answers=answer) as server:
        stack = Stack(server, 4)
        stack.on_pause = end_outage
        ended = await stack.run(prompt(number) for number in range(N))
    assert len(ended) == N
    assert all(isinstance(result, Reply) for result in ended.values())
    assert len(stack.pauses) == 8
