"""Several prompts in one HTTP request (`prompts_per_request`), with a server and in a run."""

import asyncio
import json
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import product
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.backends.openai import divide_usage
from harness.config.run_file import RunFile
from harness.config.settings import Settings
from harness.engine.executor import execute
from harness.engine.preparation import prepare
from harness.errors import (
    CallError,
    ConfigError,
    FatalCallError,
    RequestRejected,
    TransientError,
)
from harness.plugins.completions.backend import JointPrompts, OpenAICompletionsBackend
from harness.plugins.mock.server import MockServer
from harness.plugins.mock.wire import MockRequest
from harness.records import Attempt, Decoding, Message, Origin, Reply, Request, Usage
from harness.store.json_lines import read_lines
from tests.backends.answering import answering
from tests.rows import WORDS

SAID = {f"Number {number}?": f"It is {number}." for number in range(10)}


def asks(number: int, **decoding: Any) -> Request:
    origin = Origin(str(number), 0, 1)
    options = {"temperature": 0.0, "max_tokens": 16} | decoding
    prompt = (Message("user", f"Number {number}?"),)
    return Request("m", prompt, Decoding(**options), 0, origin, seed=number)


@asynccontextmanager
async def backend(url: str, most: int = 4) -> AsyncIterator[OpenAICompletionsBackend]:
    limits: dict[str, Any] = {"concurrency": 9, "timeout_s": 5}
    made = OpenAICompletionsBackend(None, url, prompts_per_request=most, secret=str, **limits)
    try:
        yield made
    finally:
        await made.aclose()


async def answers(url: str, *requests: Request, most: int = 4) -> list[Any]:
    async with backend(url, most) as made:
        return await asyncio.gather(*map(made.generate, requests), return_exceptions=True)


def texts(found: list[Any]) -> list[str]:
    return [one.text for one in found]


async def test_calls_in_flight_share_requests_and_each_gets_its_answer() -> None:
    with MockServer(answers=SAID) as server:
        found = await answers(server.base_url, *map(asks, range(10)))
        counts = server.stats()
    assert texts(found) == list(SAID.values())
    assert counts.requests == 3  # 4, 4 and 2 prompts
    read, written = counts.prompt_tokens, counts.completion_tokens
    assert sum((one.usage for one in found), Usage()) == Usage(read, written)


async def test_the_request_has_the_prompts_and_only_a_seed_that_they_share() -> None:
    choices = [{"text": f"{n}", "index": n, "finish_reason": "stop"} for n in (1, 0)]
    with answering(json.dumps({"choices": choices})) as (url, received):
        found = await answers(url, asks(7), asks(8))
        await answers(url, *(asks(number, extra={"seed": 5}) for number in (7, 8)))
    expected = {
        "model": "m",
        "prompt": ["Number 7?", "Number 8?"],
        "temperature": 0.0,
        "max_tokens": 16,
    }
    sent = [json.loads(one.partition(b"\r\n\r\n")[2]) for one in received]
    assert sent == [expected, expected | {"seed": 5}]
    assert texts(found) == ["0", "1"]
    assert found[0].usage is None


async def test_calls_with_other_parameters_or_several_choices_are_sent_alone() -> None:
    requests = [
        asks(0),
        asks(1, max_tokens=15),
        asks(2, extra={"n": 1}),
        asks(3, extra={"n": 1}),
        asks(4, temperature=0.7),  # their seeds differ
        asks(5, temperature=0.7),
        asks(6, logprobs=1),
        asks(7, logprobs=1),
    ]
    with MockServer(answers=SAID) as server:
        found = await answers(server.base_url, *requests)
        assert server.stats().requests == len(requests)
    assert texts(found) == list(SAID.values())[:8]
    assert found[6].logprobs


async def test_a_rejected_prompt_does_not_cost_the_others_their_answers() -> None:
    said = {prompt: text for prompt, text in SAID.items() if prompt != "Number 1?"}
    with MockServer(answers=said) as server:
        found = await answers(server.base_url, *map(asks, range(4)))
        assert server.stats().by_status == {400: 2, 200: 3}
    assert isinstance(found.pop(1), RequestRejected)
    assert texts(found) == ["It is 0.", "It is 2.", "It is 3."]


async def test_a_failure_is_one_failure_of_all_calls() -> None:
    with MockServer(answers=SAID, faults={"500": 1.0}) as server:
        found = await answers(server.base_url, *map(asks, range(4)))
        assert server.stats().requests == 1
    assert isinstance(found[0], TransientError)
    assert all(one is found[0] for one in found)


@pytest.mark.parametrize(
    "indices", [[0], [0, 1, 2], [0, 0], [1, 2], ["0", "1"], [None, None], [[], {}]]
)
async def test_a_server_that_does_not_answer_each_prompt_once_ends_the_run(
    indices: list[object],
) -> None:
    choices = [{"text": "a", "index": index} for index in indices]
    with answering(json.dumps({"choices": choices})) as (url, received):
        found = await answers(url, asks(0), asks(1))
    assert [type(one) for one in found] == [FatalCallError, FatalCallError]
    assert found[0].remedy == "Remove model.prompts_per_request."
    assert len(received) == 1


@pytest.mark.parametrize("choice", [{"text": None}, {"text": "", "finish_reason": "abort"}])
async def test_an_answer_that_fails_fails_alone(choice: dict[str, object]) -> None:
    choices = [{"text": "a", "index": 0}, choice | {"index": 1}]
    with answering(json.dumps({"choices": choices})) as (url, _):
        found = await answers(url, asks(0), asks(1))
    assert found[0].text == "a"
    assert isinstance(found[1], TransientError)


async def test_an_abandoned_request_is_an_uncertain_failure_of_its_other_calls() -> None:
    sent = asyncio.Event()

    async def together(requests: object) -> list[Reply | CallError]:
        sent.set()
        await asyncio.sleep(60)
        return []

    async def alone(request: Request) -> Reply:
        raise AssertionError

    joint = JointPrompts(2, together, alone)
    first, second = (asyncio.create_task(joint("kind", asks(n))) for n in range(2))
    await sent.wait()
    first.cancel()
    found = await asyncio.gather(first, second, return_exceptions=True)
    assert isinstance(found[0], asyncio.CancelledError)
    assert isinstance(found[1], TransientError)
    assert found[1].kind == "interrupted"


async def test_a_call_that_is_given_up_leaves_the_others_their_answers() -> None:
    with MockServer(answers=SAID, latency=0.1) as server:
        async with backend(server.base_url) as made:
            tasks = [asyncio.create_task(made.generate(asks(n))) for n in range(4)]
            await asyncio.sleep(0.02)
            tasks[2].cancel()
            found = await asyncio.gather(*tasks, return_exceptions=True)
    assert isinstance(found.pop(2), asyncio.CancelledError)
    assert texts(found) == ["It is 0.", "It is 1.", "It is 3."]


def test_at_least_one_prompt_is_sent() -> None:
    limits: dict[str, Any] = {"concurrency": 1, "timeout_s": 5}
    with pytest.raises(ConfigError, match="prompts_per_request must be at least 1"):
        OpenAICompletionsBackend(None, "http://x/v1", prompts_per_request=0, secret=str, **limits)


@given(st.integers(0, 2**31), st.integers(0, 2**31), st.integers(1, 9))
def test_the_shares_of_a_usage_add_up_to_the_bill(read: int, written: int, calls: int) -> None:
    usage = Usage(read, written, read // 2, written // 3, read // 4)
    found = divide_usage(usage, [asks(10**number) for number in range(calls)])
    assert sum((one for one in found if one), Usage()) == usage
    assert max(one.output_tokens for one in found if one) <= -(-written // calls)
    assert divide_usage(None, [asks(0)] * calls) == [None] * calls


def test_a_longer_prompt_has_the_larger_share_of_the_input() -> None:
    short, long = divide_usage(Usage(100, 10), [asks(1), asks(10**20)])
    assert short is not None
    assert long is not None
    assert short.input_tokens < long.input_tokens
    assert short.output_tokens == long.output_tokens == 5


def by_prompt(request: MockRequest, index: int) -> str:
    return f"{len(request.prompt)}: {request.prompt[-40:]}"


async def run(folder: Path, url: str, most: int, **more: Any) -> list[Attempt]:
    """The attempts of a run, in the order of its instances."""
    model = {"backend": "openai_completions", "name": "m", "base_url": url}
    given = {
        "task": WORDS,
        "limit": None if "task" in more else 2,
        "model": {**model, "prompts_per_request": most},
        "limits": {"concurrency": 20, "attempts": 9},
        "samples": 40,
        "seed": None,
    } | more
    folders = dict.fromkeys(("runs_dir", "cache_dir", "data_dir"), folder)
    job = prepare(RunFile.model_validate(given), "run", Settings(**folders))
    result = await execute(job)
    assert result.ending == "finished"
    path = folder / "run" / "attempts.jsonl"
    found = [msgspec.json.decode(text, type=Attempt) for _, text in read_lines(path)]
    return sorted(found, key=lambda one: (one.instance, one.sample))


def recorded(attempts: list[Attempt]) -> list[tuple[object, ...]]:
    return [(a.instance, a.sample, a.text, a.outcome, a.scores, a.request) for a in attempts]


async def test_a_run_records_the_same_attempts_with_fewer_requests(tmp_path: Path) -> None:
    with MockServer(answers=by_prompt) as server:
        alone = await run(tmp_path / "alone", server.base_url, 1)
        requests = server.stats().requests
        joint = await run(tmp_path / "joint", server.base_url, 8)
        fewer = server.stats().requests - requests
        # The cache knows each call by its own key, however it was sent.
        shutil.rmtree(tmp_path / "joint" / "run")
        cached = await run(tmp_path / "joint", server.base_url, 1)
        assert server.stats().requests == requests + fewer
    assert recorded(cached) == recorded(joint) == recorded(alone)
    assert [one.call_id for one in joint] == [one.call_id for one in alone]
    assert fewer * 4 < requests == len(alone)


async def test_a_run_gets_over_failures_of_its_joint_requests(tmp_path: Path) -> None:
    faults = {"500": 0.1, "429": 0.1, "reset": 0.05, "truncated_body": 0.05}
    with MockServer(answers=by_prompt) as server:
        alone = await run(tmp_path / "alone", server.base_url, 1)
    with MockServer(answers=by_prompt, faults=faults, retry_after=0, seed=3) as server:
        joint = await run(tmp_path / "joint", server.base_url, 8)
        assert server.stats().by_fault
    assert recorded(joint) == recorded(alone)


@pytest.mark.parametrize(
    ("fault", "tries"),
    [*product(("500", "503", "429", "403", "reset", "truncated_body"), (1, 2)), ("stall", 2)],
)
async def test_a_faulty_prompt_costs_the_others_of_its_requests_no_tries(
    tmp_path: Path, fault: str, tries: int
) -> None:
    rows = tmp_path / "rows.jsonl"
    texts = [f"row {number:02}." for number in range(40)]
    rows.write_text("".join(f'{{"question": "{text}", "target": "row"}}\n' for text in texts))
    task = {"name": "jsonl", "path": str(rows), "prompt": "{{ question }}", "checks": ["contains"]}
    limits = {"concurrency": 16, "attempts": tries, "timeout_s": 1 if fault == "stall" else 60}
    conditions: dict[str, Any] = {"faults": {fault: 1.0}, "fault_on": [texts[5]]}
    with MockServer(answers=by_prompt, retry_after=0.01, **conditions) as server:
        attempts = await run(tmp_path, server.base_url, 8, task=task, limits=limits, samples=1)
        assert server.stats().requests < len(texts)
    failed = [one.request["messages"][0]["content"] for one in attempts if not one.text]
    assert failed == [texts[5]]
