"""Servers that send what no client should believe, by the faults of the mock provider."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import json
import tracemalloc
from base64 import b64encode, urlsafe_b64encode
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager

import pytest

from harness.backends import HttpBackend, HttpClient
from harness.errors import CallError, FatalCallError, RequestRejected, TransientError
from harness.plugin_loader import kind
from harness.plugins.mock.server import MockServer
from harness.ports import Backend
from harness.records import Decoding, Message, Origin, Reply, Request
from tests.backends.answering import answering, transient

KEY = "sk-canary-0123456789"
ASK = Request("m", (Message("user", "Hi."),), Decoding(max_tokens=50), 0, Origin("a", 0, 1))
PATHS = {"openai": "/v1", "anthropic": ""}
BACKENDS = [name for name in PATHS if name in kind("backends").names()]


@asynccontextmanager
async def built(name: str, url: str, key: str = KEY) -> AsyncIterator[Backend]:
    options = {"base_url": url, "api_key_env": "KEY"}
    backend: Backend = kind("backends").build(
        name, options, secret=lambda _: key, concurrency=1, timeout_s=20, reply_mb=2
    )
    try:
        yield backend
    finally:
        await backend.aclose()


@contextmanager
def memory() -> Iterator[list[int]]:
    """Yields a list that is given the peak of allocated bytes at the end."""
    peak: list[int] = []
    tracemalloc.start()
    try:
        yield peak
        peak.append(tracemalloc.get_traced_memory()[1])
    finally:
        tracemalloc.stop()


async def answer(name: str, fault: str) -> Reply:
    with MockServer(faults={fault: 1}) as server:
        async with built(name, server.url + PATHS[name]) as backend:
            return await backend.generate(ASK)


@pytest.mark.parametrize("name", BACKENDS)
@pytest.mark.parametrize("fault", ["gzip_bomb", "huge_body"])
async def test_a_body_is_read_up_to_the_limit(name: str, fault: str) -> None:
    with pytest.raises(RequestRejected, match=r"than 2 MB.*limits.reply_mb"):
        await answer(name, fault)


async def test_what_is_too_much_is_not_kept() -> None:
    bomb = gzip.compress(b"{" + b" " * 50_000_000, 1)
    with answering(bomb, headers="content-encoding: gzip\r\n") as (url, _):
        async with built("openai", url) as backend:
            with memory() as most, pytest.raises(RequestRejected):
                await backend.generate(ASK)
    assert most[0] < 20e6


async def test_of_an_error_the_beginning_is_read() -> None:
    bomb = gzip.compress(b'{"error": "' + b"x" * 50_000_000, 1)
    with answering(bomb, 500, "content-encoding: gzip\r\n") as (url, _):
        async with built("openai", url) as backend:
            with memory() as most, transient("server_failed", "xxx") as caught:
                await backend.generate(ASK)
    assert len(caught.value.message) < 1000
    assert most[0] < 20e6


@pytest.mark.parametrize("name", BACKENDS)
async def test_headers_are_bounded(name: str) -> None:
    with transient("malformed"):
        await answer(name, "huge_headers")


@pytest.mark.parametrize("name", BACKENDS)
async def test_a_prompt_is_not_sent_to_another_server(name: str) -> None:
    with MockServer(faults={"redirect": 1}) as server:
        async with built(name, server.url + PATHS[name]) as backend:
            with pytest.raises(FatalCallError, match=r"another server, http://localhost:\d+"):
                await backend.generate(ASK)
        assert server.stats().requests == 1


@pytest.mark.parametrize("name", BACKENDS)
async def test_a_key_that_comes_back_is_masked(name: str) -> None:
    assert (await answer(name, "key_in_answer")).text == "Your key is [key], is it not?"
    with pytest.raises(CallError, match=r"The key \[key\] may not") as caught:
        await answer(name, "key_in_error")
    assert KEY not in repr(caught.value)


async def test_a_key_is_masked_behind_escapes_too() -> None:
    escaped = "".join(f"\\u{ord(letter):04x}" for letter in KEY)
    message = f'{{"content": "a {escaped}", "reasoning": "{escaped}"}}'
    choice = f'{{"message": {message}, "finish_reason": "{escaped}"}}'
    with answering(f'{{"choices": [{choice}], "model": "{KEY}"}}') as (url, _):
        async with built("openai", url) as backend:
            reply = await backend.generate(ASK)
    assert (reply.text, reply.reasoning, reply.model) == ("a [key]", "[key]", "[key]")
    assert reply.finish_reason == "[key]"


@pytest.mark.parametrize(
    ("sent", "kept"),
    [
        (r"sk-canary-\\/0123456789+\\\"abcdefgh", "[key]"),
        ("x sk-canary-/0123", "x [key]"),
        ("456789+", "456789+"),
        ('3456789+\\"abcdefgh', "[key]"),
        ("MAX_TOKENS", "MAX_TOKENS"),
    ],
)
async def test_a_part_of_a_key_is_masked_in_a_finish_reason(sent: str, kept: str) -> None:
    message = '{"content": "a sk-canary-/0123"}'
    with answering(f'{{"choices": [{{"message": {message}, "finish_reason": "{sent}"}}]}}') as (
        url,
        _,
    ):
        async with built("openai", url, 'sk-canary-/0123456789+"abcdefgh') as backend:
            reply = await backend.generate(ASK)
    assert (reply.text, reply.finish_reason) == ("a sk-canary-/0123", kept)


@pytest.mark.parametrize("escape", ["\\u002d", "\\\\u002D", "\\x2d", "%2D"])
async def test_a_key_that_is_escaped_in_a_message_is_masked(escape: str) -> None:
    long = "sk-test-SECRETKEY-1234567890abcdef"
    body = json.dumps({"error": {"message": f"Not a key: {long.replace('-', escape)}."}})
    with answering(body, status=403) as (url, _):
        client = HttpClient(url, key=long)
        with pytest.raises(CallError, match=r"Not a key: \[key\]\."):
            await client.post("", {})
        await client.aclose()


ENCODINGS: tuple[Callable[[str], str], ...] = (
    lambda key: "".join(f"&#{ord(letter)};" for letter in key),
    lambda key: "".join(f"&#x{ord(letter):x};" for letter in key),
    lambda key: "".join(f"%25{ord(letter):02x}" for letter in key),
    lambda key: "".join(f"={ord(letter):02X}" for letter in key),
    lambda key: f"{key[:10]}\u200b{key[10:20]}\u200b{key[20:]}",
    lambda key: b64encode(key.encode()).decode(),
    lambda key: b64encode(f"Bearer {key}.".encode()).decode(),
    lambda key: urlsafe_b64encode(f"k={key}".encode()).decode(),
    lambda key: key.encode().hex(),
    str.upper,
)


@pytest.mark.parametrize("encode", [*ENCODINGS, lambda key: key[:14]])
async def test_no_part_of_a_key_is_kept_in_the_name_of_a_model(
    encode: Callable[[str], str],
) -> None:
    key = "sk-canary-0123456789-abcdefghij"
    encoded = encode(key)
    body = {"choices": [{"message": {"content": "a"}}], "model": f"m-{encoded}"}
    with answering(json.dumps(body)) as (url, _):
        async with built("openai", url, key) as backend:
            reply = await backend.generate(ASK)
    assert "[key]" in str(reply.model)
    assert not any(encoded[at : at + 12] in str(reply.model) for at in range(len(encoded) - 11))


@pytest.mark.parametrize("encode", ENCODINGS)
async def test_a_key_that_is_encoded_in_a_message_is_masked(encode: Callable[[str], str]) -> None:
    key = "sk-test-SECRETKEY-1234567890abcdef"
    encoded = encode(key)
    with answering(json.dumps({"error": {"message": f"Bad: {encoded}"}}), status=403) as (url, _):
        client = HttpClient(url, key=key)
        with pytest.raises(CallError, match=r"Bad: .{0,12}\[key\]") as raised:
            await client.post("", {})
        await client.aclose()
    for start in range(0, len(encoded) - 12, 4):
        assert encoded[start : start + 12] not in str(raised.value).removeprefix("[key]")


@pytest.mark.parametrize("part", [slice(0, 20), slice(5, 20), slice(-12, None)])
async def test_a_part_of_a_key_is_masked_in_an_error(part: slice) -> None:
    long = "sk-proj-0123456789abcdefghij"
    with answering(f"Not a key: {long[part]}… of sk-proj-", status=400) as (url, _):
        client = HttpClient(url, key=long)
        with pytest.raises(CallError, match=r"Not a key: \[key\]… of sk-proj-"):
            await client.post("", {})
        await client.aclose()


async def test_a_key_in_the_path_of_an_address_is_masked() -> None:
    key = "sk-live-0123456789abcdef"
    with answering(f"No {key} here.", status=400) as (url, _):
        client = HttpClient(f"{url}/v1/{key}/openai")
        with pytest.raises(CallError, match=r"/v1/\[key\]/openai answered 400: No \[key\] here"):
            await client.post("", {})
        await client.aclose()


async def test_a_body_that_trickles_ends_with_an_error() -> None:
    async def trickle(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n")
        with contextlib.suppress(ConnectionError):
            while True:
                writer.write(b"\n")
                await writer.drain()
                await asyncio.sleep(0.02)
        writer.close()

    server = await asyncio.start_server(trickle, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    client = HttpClient(f"http://127.0.0.1:{port}", key=KEY, timeout_s=0.5)
    with pytest.raises(TransientError, match="too slowly"):
        async with client.open_response("GET", "/results") as response:
            await client.read_body(response)
    await client.aclose()
    server.close()
    await server.wait_closed()
    await asyncio.sleep(0.05)  # for the writer to close


async def test_a_placeholder_for_a_key_may_be_in_an_answer() -> None:
    class Plain(HttpBackend):
        def body(self, request: Request) -> dict[str, str]:
            return {}

        def reply(self, content: bytes, request: Request) -> Reply:
            return Reply(content.decode(), "stop")

    with answering("An EMPTY hall.") as (url, _):
        backend = Plain(HttpClient(url, key="EMPTY"), frozenset())
        assert (await backend.generate(ASK)).text == "An EMPTY hall."
        await backend.aclose()


@pytest.mark.parametrize("name", BACKENDS)
async def test_a_page_instead_of_an_answer(name: str) -> None:
    with transient("malformed", "Please log in"):
        await answer(name, "html")


@pytest.mark.parametrize(("fault", "tokens"), [("usage_zero", 0), ("usage_huge", 1_000_000)])
@pytest.mark.parametrize("name", BACKENDS)
async def test_token_counts_are_the_servers(name: str, fault: str, tokens: int) -> None:
    usage = (await answer(name, fault)).usage
    assert usage is not None
    assert usage.output_tokens == tokens
