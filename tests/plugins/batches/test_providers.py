"""Batches of each provider: how they are created, found and read, and what failures raise."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import time
import tracemalloc
from collections import Counter
from collections.abc import AsyncIterator
from typing import Any

import pytest

from harness.backends._bodies import split_json_lines
from harness.backends.openai import OpenAIBackend
from harness.errors import CallError, FatalCallError, RequestRejected, TransientError
from harness.plugins.anthropic.backend import AnthropicBackend
from harness.plugins.batches.anthropic import AnthropicBatchProvider
from harness.plugins.batches.openai import openai_provider
from harness.plugins.batches.provider import BatchUnsure, HttpBatchProvider, batch_provider
from harness.plugins.clouds.google import GeminiBackend
from harness.plugins.mock.server import MockServer
from harness.plugins.responses.backend import OpenAIResponsesBackend
from harness.records import Decoding, Message, Origin, Reply, Request
from tests.backends.answering import answering, transient

Batches = HttpBatchProvider[Any, Any]
FROM_FILES = ["openai", "azure", "groq", "mistral", "together", "gemini"]
LIMITS: dict[str, Any] = {"concurrency": 1, "timeout_s": 5.0}


def request(text: str = "Hello.") -> Request:
    asked = Decoding(max_tokens=10)
    return Request("m", (Message("user", text),), asked, 0, Origin("a", 0, 1))


def batches(vendor: str, server: MockServer) -> Batches:
    return at(vendor, server.url)


def at(vendor: str, url: str, **options: object) -> Batches:
    return provider_of(vendor, backend_at(vendor, url, **options))


def provider_of(vendor: str, backend: Any) -> Batches:
    name = vendor if vendor in ("anthropic", "gemini") else "openai"
    provider = batch_provider(name, backend)
    assert isinstance(provider, HttpBatchProvider)
    return provider


def backend_at(
    vendor: str, url: str, **options: object
) -> OpenAIBackend | AnthropicBackend | GeminiBackend:
    given: dict[str, Any] = {"api_key_env": "KEY", "secret": lambda _: "a-key-of-mine", **LIMITS}
    given |= options
    if vendor == "anthropic":
        return AnthropicBackend(base_url=url, **given)
    if vendor == "gemini":
        return GeminiBackend(base_url=f"{url}/v1beta", **given)
    preset = None if vendor == "openai" else vendor
    return OpenAIBackend(preset, base_url=f"{url}/v1", **given)


async def create(one: Batches, tag: str = "t", requests: int = 1) -> str:
    entries = [(f"{number}-{tag}", request()) for number in range(requests)]
    return await one.create_batch(tag, entries, await one.upload_batch(tag, entries))


async def failure(one: Batches, tag: str = "t") -> CallError:
    try:
        with pytest.raises(CallError) as raised:
            await create(one, tag)
        return raised.value
    finally:
        await one.backend.aclose()


@pytest.mark.parametrize("vendor", ["anthropic", *FROM_FILES])
async def test_failures_of_the_sdk_have_the_treatment_of_calls(vendor: str) -> None:
    with MockServer(api_key="another") as server:
        error = await failure(batches(vendor, server))
        assert isinstance(error, FatalCallError)
        assert f"answered {400 if vendor == 'gemini' else 401}" in error.message
        assert "environment variable KEY" in error.remedy
    with MockServer(batch_faults={"lost_id": 1}) as server:
        error = await failure(batches(vendor, server))
        assert isinstance(error, TransientError)
        assert error.kind in ("connection_lost", "unreachable"), "either way it is looked for"
        gone = batches(vendor, server)
    error = await failure(gone)
    assert isinstance(error, TransientError)
    assert error.kind == "unreachable"


@pytest.mark.parametrize("vendor", ["anthropic", "openai", "gemini"])
async def test_an_unknown_batch_is_not_blamed_on_the_model(vendor: str) -> None:
    with MockServer() as server:
        one = batches(vendor, server)
        with pytest.raises(FatalCallError, match="404") as raised:
            await one.poll_batch("batches/none" if vendor == "gemini" else "none")
        await one.backend.aclose()
    assert "model.name" not in raised.value.remedy
    assert "model.base_url" in raised.value.remedy


async def test_an_invalid_batch_is_rejected() -> None:
    with MockServer() as server:
        assert isinstance(await failure(batches("anthropic", server), "no tag"), RequestRejected)


@pytest.mark.parametrize("vendor", FROM_FILES)
async def test_requests_of_a_batch_have_outcomes(vendor: str) -> None:
    with MockServer(faults={"500": 0.3, "400": 0.2}, batch_latency=0.05) as server:
        one = batches(vendor, server)
        name = await create(one, "mine", 30)
        while not (state := await one.poll_batch(name)).ended:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        found = {key: o async for key, o in one.batch_outcomes(name, lambda _: request())}
        assert found.keys() == {f"{number}-mine" for number in range(30)}
        kinds = Counter(map(type, found.values()))
        assert kinds.keys() == {Reply, TransientError, RequestRejected}
        assert kinds[Reply] == server.stats().answered
        assert state.done in (kinds[Reply], 0), "Together does not count"
        await one.backend.aclose()


@pytest.mark.parametrize("vendor", ["openai", "groq", "mistral", "together", "gemini"])
async def test_a_lost_batch_is_found_by_its_tag_on_any_page(vendor: str) -> None:
    with MockServer(batch_latency=60, batch_faults={"lost_id": 1}) as server:
        await failure(batches(vendor, server), "mine")
        server.change(batch_faults={})
        one = batches(vendor, server)
        for number in range(101):
            await create(one, f"other{number}")
        tomorrow = time.time() + 86_400
        found = await one.find_batch("mine", tomorrow, 1, set())
        assert found is not None, "even if the clock is a day fast"
        assert not (await one.poll_batch(found)).ended
        assert await one.find_batch("none", tomorrow, 1, set()) is None
        await one.cancel_batch(found)
        assert (await one.poll_batch(found)).cancelled
        await one.backend.aclose()


@pytest.mark.parametrize("vendor", FROM_FILES)
async def test_a_batch_cannot_be_created_from_a_deleted_file(vendor: str) -> None:
    with MockServer() as server:
        one = batches(vendor, server)
        entries = [("a-mine", request())]
        file = await one.upload_batch("mine", entries)
        assert file is not None
        assert (await one.batch_file("mine"), await one.batch_file("other")) == (file, None)
        await one.delete_file(file)
        assert await one.batch_file("mine") is None
        with pytest.raises(FatalCallError, match="404"):
            await one.create_batch("mine", entries, file)
        await one.backend.aclose()
    assert server.stats().batches == 0


def test_some_providers_have_batches_for_some_endpoints_only() -> None:
    given: dict[str, Any] = {"base_url": "http://localhost:1/v1", "secret": str, **LIMITS}
    assert openai_provider(OpenAIBackend("groq", **given)) is not None
    assert openai_provider(OpenAIBackend("xai", **given)) is None
    assert openai_provider(OpenAIResponsesBackend("azure", **given)) is not None
    assert openai_provider(OpenAIResponsesBackend("groq", **given)) is None


async def test_results_may_be_elsewhere_but_the_key_is_not_sent_there() -> None:
    sent: list[bytes] = []

    async def elsewhere(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        sent.append(await reader.readuntil(b"\r\n\r\n"))
        body = b'{"custom_id": "a-t", "error": {"message": "no"}}'
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
        await writer.drain()
        writer.close()

    async def provider(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked = await reader.readuntil(b"\r\n\r\n")
        if b"/content" in asked:
            writer.write(b"HTTP/1.1 302 Found\r\nContent-Length: 0\r\nLocation: %s\r\n\r\n" % url)
        else:
            body = b'{"id": "b", "status": "COMPLETED", "output_file_id": "f"}'
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
        await writer.drain()
        writer.close()

    store = await asyncio.start_server(elsewhere, "127.0.0.1", 0)
    url = b"http://127.0.0.1:%d/store" % store.sockets[0].getsockname()[1]
    server = await asyncio.start_server(provider, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    one = at("together", f"http://127.0.0.1:{port}")
    async with store, server:
        found = [outcome async for _, outcome in one.batch_outcomes("b", lambda _: request())]
    await one.backend.aclose()
    assert [type(outcome) for outcome in found] == [TransientError]
    assert len(sent) == 1
    assert b"a-key-of-mine" not in sent[0]


@pytest.mark.parametrize("vendor", FROM_FILES)
@pytest.mark.parametrize("body", [b"{}", b"[]", b'{"id": ', b'{"data": [1]}', b'"text"'])
async def test_a_malformed_answer_is_a_failed_request(vendor: str, body: bytes) -> None:
    with answering(body) as (url, _):
        one = at(vendor, url.removesuffix("/v1"))
        with transient("malformed"):
            await one.create_batch("t", [("a-t", request())], "f")
        with transient("malformed"):
            await one.poll_batch("b")
        await one.backend.aclose()


async def test_anthropic_knows_a_lost_batch_when_it_has_ended() -> None:
    with MockServer(batch_latency=60, batch_faults={"lost_id": 1}) as server:
        await failure(batches("anthropic", server), "mine")
        one = batches("anthropic", server)
        with pytest.raises(BatchUnsure):
            await one.find_batch("mine", 0.0, 1, set())
        assert await one.find_batch("mine", 0.0, 2, set()) is None, "it has another size"
        assert isinstance(one, AnthropicBatchProvider)
        listed = await one.json("GET", "/v1/messages/batches")
        name = listed["data"][0]["id"]
        assert await one.find_batch("mine", 0.0, 1, {name}) is None, "it has another tag"
        await one.cancel_batch(name)
        assert await one.find_batch("mine", 0.0, 1, set()) == name
        assert await one.find_batch("other", 0.0, 1, set()) is None
        await one.backend.aclose()


MB = 1_000_000


@pytest.mark.parametrize("vendor", ["anthropic", *FROM_FILES])
async def test_the_state_of_a_batch_is_not_larger_than_an_answer_may_be(vendor: str) -> None:
    bomb = gzip.compress(b'{"id": "b"' + b" " * 100 * MB)
    with answering(bomb, headers="content-encoding: gzip\r\n") as (url, _):
        one = at(vendor, url.removesuffix("/v1"), reply_mb=1.0)
        with pytest.raises(RequestRejected, match="more than 1 MB") as raised:
            await one.poll_batch("b")
        assert "limits.reply_mb" in raised.value.remedy
        await one.backend.aclose()


async def test_a_line_of_results_is_not_larger_than_an_answer_may_be() -> None:
    """The other lines are read, and of the large one no more than fits."""
    failed = b'{"custom_id": "%s-t", "error": {"message": "no"}}\n'
    large = b'{"custom_id": "large-t", "response": "' + b"x" * 100 * MB + b'"}\n'
    files = {
        b"/v1/batches/b": b'{"id": "b", "status": "completed", "output_file_id": "f"}',
        b"/v1/files/f/content": failed % b"first" + large + b" " * 50 * MB + b"\n{\n"
        + failed % b"last",
    }  # fmt: skip

    async def provider(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked = await reader.readuntil(b"\r\n\r\n")
        body = gzip.compress(files[asked.split()[1]], 1)
        head = b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n"
        writer.write(head % len(body) + body)
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(provider, "127.0.0.1", 0)
    one = at("openai", f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", reply_mb=2.0)
    tracemalloc.start()
    async with server:
        found = [result async for result in one.batch_outcomes("b", lambda _: request())]
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    await one.backend.aclose()
    kinds = [(name, type(outcome)) for name, outcome in found]
    assert kinds == [
        ("first-t", TransientError),
        ("large-t", RequestRejected),
        ("", RequestRejected),
        ("", TransientError),
        ("last-t", TransientError),
    ]
    assert all(getattr(outcome, "billed", False) for _, outcome in found[1:3])
    assert peak < 30 * MB


async def test_only_a_newline_ends_a_line() -> None:
    async def chunks() -> AsyncIterator[bytes]:
        for part in ('{"a": "1\u2028', '2"}\n\n{"b"', ": 3}"):
            yield part.encode()

    lines = [line.decode() async for line in split_json_lines(chunks(), 100)]
    assert lines == ['{"a": "1\u20282"}', '{"b": 3}']


@pytest.mark.parametrize("size", [1, 7, 100])
async def test_of_a_line_that_is_too_long_the_beginning_is_read(size: int) -> None:
    content = b"first\n" + b"x" * 50 + b"\nlast"

    async def chunks() -> AsyncIterator[bytes]:
        for offset in range(0, len(content), size):
            yield content[offset : offset + size]

    first, long, last = [line async for line in split_json_lines(chunks(), 10)]
    assert (first, last) == (b"first", b"last")
    assert len(long) > 10
    assert not long.strip(b"x")


@pytest.mark.parametrize("vendor", ["openai", "anthropic", "gemini"])
async def test_the_query_of_a_base_url_is_sent_with_each_request(vendor: str) -> None:
    with answering("{}") as (url, received):
        kinds: dict[str, Any] = {
            "openai": OpenAIBackend,
            "anthropic": AnthropicBackend,
            "gemini": GeminiBackend,
        }
        options: dict[str, Any] = {"api_key_env": "KEY", "secret": lambda _: "a-key", **LIMITS}
        backend = kinds[vendor](base_url=f"{url}/?api-version=2024-10-21", **options)
        one = provider_of(vendor, backend)
        with pytest.raises(CallError):
            await one.poll_batch("b")
        with contextlib.suppress(CallError):
            await one.find_batch("t", 0.0, 1, set())
        await one.backend.aclose()
    paths = [head.split()[1].decode() for head in received]
    assert len(paths) == 2
    for path in paths:
        where, _, query = path.partition("?")
        assert where.startswith("/v1/")
        assert "api-version=2024-10-21" in query.split("&")
