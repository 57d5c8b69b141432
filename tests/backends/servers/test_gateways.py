"""Runs through LiteLLM's proxy and Ray Serve, with the mock provider's counts behind them."""

from __future__ import annotations

import pytest

from harness.plugins.mock.server import MockServer
from tests.backends.servers.conftest import (
    SECONDS,
    Bench,
    LiteLLMProxy,
    RayServe,
    Server,
    prompt,
    run_file,
)
from tests.backends.stand_ins import until

CONCURRENCY = 4  # of `run_file`


@pytest.fixture(params=["litellm", "ray_serve"])
def gateway(request: pytest.FixtureRequest) -> Server:
    server: Server = request.getfixturevalue(request.param)
    return server


def test_all_samples_are_answered(gateway: Server, upstream: MockServer, bench: Bench) -> None:
    output = bench.run(run_file({"name": "m", "base_url": gateway.url}, samples=3))
    assert list(bench.outcomes().values()) == ["ok"] * 36
    assert upstream.stats().answered == 36
    assert "ignore" not in output
    assert len({attempt["text"] for attempt in bench.attempts()}) == 36


def test_a_killed_run_is_continued(gateway: Server, upstream: MockServer, bench: Bench) -> None:
    tree = run_file({"name": "m", "base_url": gateway.url}, samples=3)
    process = bench.begin(tree)
    until(lambda: len(bench.attempts()) >= 8, "some attempts")
    process.kill()
    process.communicate()
    assert len(bench.attempts()) < 36
    bench.run(tree)
    assert list(bench.outcomes().values()) == ["ok"] * 36
    assert 36 <= upstream.stats().answered <= 36 + CONCURRENCY


def test_a_gateway_that_restarts(gateway: Server, upstream: MockServer, bench: Bench) -> None:
    tree = run_file({"name": "m", "base_url": gateway.url}, samples=3)
    process = bench.begin(tree)
    until(lambda: len(bench.attempts()) >= 8, "some attempts")
    gateway.fail()
    output, _ = process.communicate(timeout=SECONDS)
    assert process.returncode == 0, output
    assert list(bench.outcomes().values()) == ["ok"] * 36
    assert 36 <= upstream.stats().answered <= 36 + CONCURRENCY


@pytest.mark.parametrize("fault", ["500", "503", "403", "404", "429", "error_body", "empty"])
def test_one_prompt_that_always_fails(
    gateway: Server, upstream: MockServer, bench: Bench, fault: str
) -> None:
    upstream.change(faults={fault: 1}, fault_on=[prompt(3)], latency=0.01)
    limits = {"concurrency": CONCURRENCY, "attempts": 2}
    bench.run(
        run_file({"name": "m", "base_url": gateway.url}, limits=limits), code=fault != "empty"
    )
    outcomes = bench.outcomes()
    assert outcomes.pop(("r3", 0)) == ("empty" if fault == "empty" else "error")
    assert list(outcomes.values()) == ["ok"] * 11


@pytest.mark.parametrize("fault", ["refusal", "content_filter"])
def test_a_refusal_is_an_answer(
    gateway: Server, upstream: MockServer, bench: Bench, fault: str
) -> None:
    upstream.change(faults={fault: 1}, fault_on=[prompt(3)], latency=0.01)
    bench.run(run_file({"name": "m", "base_url": gateway.url}))
    assert bench.outcomes()["r3", 0] == "refused"
    assert upstream.stats().requests == 12


def test_a_schema_that_nobody_enforces(gateway: Server, upstream: MockServer, bench: Bench) -> None:
    schema = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}
    schema["additionalProperties"] = False
    model = {"name": "m", "base_url": gateway.url, "preset": "openai"}
    output = bench.run(run_file(model, decoding={"constraint": {"json_schema": schema}}))
    assert "12 of 12 complete answers are not valid against the JSON schema" in output


def test_a_filter_in_front_of_the_model(litellm: LiteLLMProxy, bench: Bench) -> None:
    bench.run(run_file({"name": "filtered", "base_url": litellm.url}))
    assert set(bench.outcomes().values()) == {"refused"}


def test_no_credit_ends_the_run(litellm: LiteLLMProxy, bench: Bench) -> None:
    output = bench.run(run_file({"name": "spent", "base_url": litellm.url}, prompts=40), code=1)
    assert "exceeded your current quota" in output
    assert not bench.attempts()


def test_an_unknown_model_ends_the_run(
    litellm: LiteLLMProxy, upstream: MockServer, bench: Bench
) -> None:
    rejected = litellm.log.count(" 400 ")
    output = bench.run(run_file({"name": "nosuch", "base_url": litellm.url}, prompts=40), code=1)
    assert "Invalid model name passed in model=nosuch" in output
    assert not upstream.stats().requests
    assert litellm.log.count(" 400 ") - rejected <= 3 * CONCURRENCY


@pytest.mark.parametrize("accepted", [1, 2])
def test_a_key_for_fewer_calls_at_once(
    litellm: LiteLLMProxy, upstream: MockServer, bench: Bench, accepted: int
) -> None:
    before = litellm.log.count(" 429 ")
    tree = run_file({"name": "m", "base_url": litellm.url}, 40, limits={"concurrency": 20})
    bench.run(tree, GATEWAY_KEY=f"sk-parallel-{accepted}")
    assert list(bench.outcomes().values()) == ["ok"] * 40
    assert upstream.stats().max_in_flight == accepted
    assert litellm.log.count(" 429 ") - before <= 24


def test_a_deployment_for_fewer_calls_at_once(
    litellm: LiteLLMProxy, upstream: MockServer, bench: Bench
) -> None:
    tree = run_file({"name": "two_at_once", "base_url": litellm.url}, 40)
    bench.run(tree | {"limits": {"concurrency": 20}})
    assert list(bench.outcomes().values()) == ["ok"] * 40
    assert upstream.stats().max_in_flight == 2


def test_a_server_that_draws_no_samples(
    ray_serve: RayServe, upstream: MockServer, bench: Bench
) -> None:
    model = {"name": "greedy", "base_url": ray_serve.url}
    decoding = {"temperature": 0.7, "logprobs": 3}
    output = bench.run(run_file(model, samples=2, decoding=decoding))
    assert "All samples of an instance are the same text" in output
    assert "log-probabilities" in output


def test_more_calls_than_serve_queues(
    ray_serve: RayServe, upstream: MockServer, bench: Bench
) -> None:
    tree = run_file({"name": "m", "base_url": ray_serve.url}, 60, limits={"concurrency": 30})
    bench.run(tree)
    assert list(bench.outcomes().values()) == ["ok"] * 60
    assert upstream.stats().answered == 60
