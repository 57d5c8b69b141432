"""Batches of OpenAI and Anthropic: what their SDKs raise, and how results are read."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from harness.backends._bodies import json_lines
from harness.backends.anthropic import AnthropicBackend
from harness.backends.openai import OpenAIBackend
from harness.errors import CallError, FatalCallError, RequestRejected, TransientError
from harness.mock import MockServer
from harness.ports import BatchUnsure
from harness.records import Decoding, Message, Origin, Request

Backend = OpenAIBackend | AnthropicBackend
LIMITS: dict[str, Any] = {"concurrency": 1, "timeout_s": 5.0}


def request(text: str = "Hello.") -> Request:
    asked = Decoding(max_tokens=10)
    return Request("m", (Message("user", text),), asked, 0, Origin("a", 0, 1))


def backend(vendor: str, server: MockServer, key: str = "a-key-of-mine") -> Backend:
    given: dict[str, Any] = {"api_key_env": "KEY", "secret": lambda _: key, **LIMITS}
    if vendor == "openai":
        return OpenAIBackend(base_url=server.base_url, **given)
    return AnthropicBackend(base_url=server.url, **given)


async def create(one: Backend, tag: str = "t", requests: int = 1) -> str:
    entries = [(f"{number}-{tag}", request()) for number in range(requests)]
    return await one.create_batch(tag, entries, await one.upload_batch(tag, entries))


async def failure(one: Backend, tag: str = "t") -> CallError:
    try:
        with pytest.raises(CallError) as raised:
            await create(one, tag)
        return raised.value
    finally:
        await one.aclose()


@pytest.mark.parametrize("vendor", ["openai", "anthropic"])
async def test_failures_of_the_sdk_have_the_treatment_of_calls(vendor: str) -> None:
    with MockServer(api_key="another") as server:
        error = await failure(backend(vendor, server))
        assert isinstance(error, FatalCallError)
        assert "answered 401" in error.message
        assert "environment variable KEY" in error.remedy
    with MockServer(batch_faults={"lost_id": 1}) as server:
        error = await failure(backend(vendor, server))
        assert isinstance(error, TransientError)
        assert error.kind in ("connection_lost", "unreachable"), "either way it is looked for"
        gone = backend(vendor, server)
    error = await failure(gone)
    assert isinstance(error, TransientError)
    assert error.kind == "unreachable"


async def test_an_invalid_batch_is_rejected() -> None:
    with MockServer() as server:
        assert isinstance(await failure(backend("anthropic", server), "no tag"), RequestRejected)


async def test_openai_finds_a_lost_batch_by_its_tag() -> None:
    with MockServer(batch_latency=60, batch_faults={"lost_id": 1}) as server:
        await failure(backend("openai", server), "mine")
        await failure(backend("openai", server), "other")
        one = backend("openai", server)
        found = await one.find_batch("mine", 0.0, 1, set())
        assert found is not None
        assert not (await one.poll_batch(found)).ended
        assert await one.find_batch("none", 0.0, 1, set()) is None
        await one.aclose()


async def test_anthropic_knows_a_lost_batch_when_it_has_ended() -> None:
    with MockServer(batch_latency=60, batch_faults={"lost_id": 1}) as server:
        await failure(backend("anthropic", server), "mine")
        one = backend("anthropic", server)
        with pytest.raises(BatchUnsure):
            await one.find_batch("mine", 0.0, 1, set())
        assert await one.find_batch("mine", 0.0, 2, set()) is None, "it has another size"
        (listed,) = (await one.client.sdk.messages.batches.list()).data
        assert await one.find_batch("mine", 0.0, 1, {listed.id}) is None, "it has another tag"
        await one.cancel_batch(listed.id)
        assert await one.find_batch("mine", 0.0, 1, set()) == listed.id
        assert await one.find_batch("other", 0.0, 1, set()) is None
        await one.aclose()


async def test_only_a_newline_ends_a_line() -> None:
    async def chunks() -> AsyncIterator[bytes]:
        for part in ('{"a": "1\u2028', '2"}\n\n{"b"', ": 3}"):
            yield part.encode()

    lines = [line.decode() async for line in json_lines(chunks())]
    assert lines == ['{"a": "1\u20282"}', '{"b": 3}']
