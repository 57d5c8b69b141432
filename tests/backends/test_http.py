"""One client against servers on loopback: what it sends, and what it tells of rate limits."""

import asyncio
import ssl
import subprocess
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import openai
import pytest

from harness.backends._clients import SDKClient
from harness.backends._http import HttpClient, proxy_bypass
from harness.backends.openai import OpenAIBackend
from harness.errors import CallError, ConfigError, FailureKind, FatalCallError
from harness.records import Allowance, Decoding, Message, Origin, Request
from tests.backends.answering import answering, transient

LIMITS = "x-ratelimit-limit-requests: 500\r\nx-ratelimit-remaining-requests: 499\r\n"
TOLD = (Allowance("requests", 500, 499),)


class Client:
    """A client with a clock to set, whose allowances are kept."""

    def __init__(self, url: str, **options: Any) -> None:
        self.now = 1000.0
        self.told: list[tuple[Allowance, ...]] = []
        self.sdk = SDKClient(
            "openai", url, "KEY", secret=lambda _: "sk-1", concurrency=1, timeout_s=5,
            on_allowances=self.told.append, clock=lambda: self.now, **options,
        )  # fmt: skip

    async def post(self, path: str = "/chat/completions", **body: Any) -> bytes:
        return await self.sdk.post(path, body or {"x": 1}, "m")


def head(received: bytes) -> dict[str, str]:
    lines = received.partition(b"\r\n\r\n")[0].decode().lower().split("\r\n")
    return {"": lines[0]} | dict(line.split(": ", 1) for line in lines[1:])


async def test_every_request_has_the_head_that_the_sdk_gives_but_its_telemetry() -> None:
    with answering("{}") as (url, received):
        client = Client(url)
        for _ in range(3):
            await client.post(text="ü")
        await client.sdk.aclose()
        async with openai.AsyncOpenAI(api_key="sk-1", base_url=url, max_retries=0) as typed:
            await typed.with_options(timeout=5).chat.completions.create(messages=[], model="m")
    ours, sdk = [head(data) for data in received[:3]], head(received[3])
    theirs = {name: value for name, value in sdk.items() if not name.startswith("x-stainless-")}
    assert theirs != sdk
    assert ours[0] == ours[1] == ours[2]
    assert ours[0]["authorization"] == "bearer sk-1"
    assert {data.partition(b"\r\n\r\n")[2] for data in received[:3]} == {'{"text":"ü"}'.encode()}
    assert ours[0] | {"content-length": ""} == theirs | {"content-length": ""}


async def test_paths_are_apart() -> None:
    with answering("{}") as (url, received):
        client = Client(url)
        for path in ("/chat/completions", "/completions") * 2:
            await client.post(path)
        await client.sdk.aclose()
    asked = [data.split()[1].decode() for data in received]
    assert asked == ["/v1/chat/completions", "/v1/completions"] * 2


@pytest.mark.parametrize("status", [307, 308])
async def test_a_redirect_to_another_server_is_refused(status: int) -> None:
    with answering("{}") as (there, moved):
        location = f"location: {there}/elsewhere\r\n"
        with answering("", status, location) as (url, received):
            client = Client(url)
            for _ in range(2):
                with pytest.raises(FatalCallError, match=there.removesuffix("/v1")):
                    await client.post()
            await client.sdk.aclose()
    assert [len(received), len(moved)] == [2, 0]


async def test_a_redirect_within_the_server_is_followed_but_not_in_a_loop() -> None:
    with answering("{}", 308, "location: /elsewhere\r\n") as (url, received):
        client = Client(url)
        with pytest.raises(FatalCallError, match="in a loop"):
            await client.post(n=7)
        await client.sdk.aclose()
    assert [data.split()[1] for data in received[:2]] == [b"/v1/chat/completions", b"/elsewhere"]
    assert {data.partition(b"\r\n\r\n")[2] for data in received} == {b'{"n":7}'}


async def test_a_later_request_fails_as_the_first_does() -> None:
    with answering("{}") as (url, _):
        client = Client(url)
        await client.post()
    with transient("unreachable"):
        await client.post()
    port = int(url.split(":")[2].split("/")[0])
    kinds: dict[int, FailureKind] = {429: "rate_limited", 500: "server_failed"}
    for status, kind in kinds.items():
        body = '{"error": {"message": "said so"}}'
        with (
            answering(body, status, "retry-after: 7\r\n", port=port),
            transient(kind, "said so") as caught,
        ):
            await client.post()
        assert caught.value.retry_after == 7
    await client.sdk.aclose()


async def test_rate_limits_are_told_now_and_then() -> None:
    with answering("{}", headers=LIMITS) as (url, _):
        client = Client(url)
        for later in (0, 0.05, 0.04, 0.02, 0.01, 3600, -3600, 0):
            client.now += later
            await client.post()
        await client.sdk.aclose()
    assert client.told == [TOLD] * 4


async def test_a_refusal_always_tells() -> None:
    with answering("{}", 429, LIMITS) as (url, _):
        client = Client(url)
        for _ in range(3):
            with transient("rate_limited"):
                await client.post()
        await client.sdk.aclose()
    assert client.told == [TOLD] * 3


async def test_no_limits_are_nothing_to_tell() -> None:
    with answering("{}") as (url, _):
        client = Client(url)
        await client.post()
        await client.sdk.aclose()
    assert client.told == []


@pytest.mark.parametrize(
    ("url", "pattern"),
    [
        ("http://127.0.0.1:8000/v1", "all://127.0.0.1"),
        ("http://localhost/v1", "all://localhost"),
        ("http://[::1]:8000/v1", "all://[::1]"),
        ("https://api.openai.com/v1", None),
        ("http://localhost.example.org/v1", None),
    ],
)
def test_only_this_machine_is_reached_past_a_proxy(url: str, pattern: str | None) -> None:
    assert list(proxy_bypass(url)) == ([pattern] if pattern else [])


async def test_a_proxy_is_not_asked_for_what_is_on_this_machine(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    with answering("{}") as (url, received):
        client = Client(url)
        await client.post()
        await client.sdk.aclose()
    assert len(received) == 1


@pytest.mark.parametrize("variable", ["HTTP_PROXY", "https_proxy", "ALL_PROXY"])
@pytest.mark.parametrize(
    "proxy",
    [
        *("http://user:secret/9x@127.0.0.1:9", "user:secret#x@proxy", "http://user:1/secret@proxy"),
        *("http://user:secret@proxy:port", "ftp://user:secret@proxy", "http://", "http://[::1:9"),
    ],
)
def test_a_malformed_proxy_is_refused_without_its_password(
    monkeypatch: pytest.MonkeyPatch, variable: str, proxy: str
) -> None:
    monkeypatch.setenv(variable, proxy)
    with pytest.raises(ConfigError, match=f"{variable} is not the URL of a proxy") as refused:
        HttpClient("http://example.org")
    assert "write / as %2F" in refused.value.remedy
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize(
    "proxy",
    [
        *("proxy", "proxy:3128", "http://proxy.example.org:3128/", "https://user:a%2Fb@proxy:1"),
        *("socks5://user:p@ss word@127.0.0.1:9", "socks5h://[::1]:9", "HTTP://proxy:1/path", ""),
    ],
)
def test_a_valid_proxy_is_accepted(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, proxy: str
) -> None:
    (tmp_path / "socksio.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("ALL_PROXY", proxy)
    assert HttpClient("http://example.org")


@pytest.mark.skipif(find_spec("socksio") is not None, reason="SOCKS works")
def test_a_socks_proxy_is_refused_without_the_package_that_it_needs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("all_proxy", "socks5://user:secret@127.0.0.1:9")
    with pytest.raises(ConfigError, match="all_proxy names a SOCKS proxy") as refused:
        HttpClient("http://example.org")
    assert "secret" not in str(refused.value)
    monkeypatch.setenv("NO_PROXY", "*")
    assert HttpClient("http://example.org")


@pytest.mark.parametrize("header", ["x-api-key", "Authorization"])
async def test_a_key_in_a_header_is_masked(header: str) -> None:
    value = "Bearer secret-in-header" if header == "Authorization" else "secret-in-header"
    with answering('{"text": "It is secret-in-header."}') as (url, _):
        client = HttpClient(url, headers={header: value, "x-version": "text"})
        assert await client.post("/", {}) == b'{"text": "It is [key]."}'
        malformed = client.malformed_error(b"secret-in-header", ValueError("no"))
        await client.aclose()
    assert "secret-in-header" not in str(malformed)
    assert "[key]" in str(malformed)


async def test_the_query_of_a_base_url_is_sent_with_each_request() -> None:
    await check_query(OpenAIBackend)


async def check_query(kind: Any) -> None:
    """Check that a backend sends the query of its base URL with each request."""
    limits: dict[str, Any] = {"secret": lambda _: "a-key", "concurrency": 1, "timeout_s": 5}
    request = Request("m", (Message("user", "?"),), Decoding(max_tokens=5), 0, Origin("a", 0, 1))
    with answering("{}") as (url, received):
        base_url = f"{url}/?api-version=2024-10-21"
        backend = kind(base_url=base_url, api_key_env="KEY", **limits)
        assert backend.endpoint == f"{url}?api-version=2024-10-21"
        with pytest.raises(CallError):
            await backend.generate(request)
        await backend.aclose()
    paths = [head.split()[1].decode() for head in received]
    assert len(paths) == 1
    for path in paths:
        where, _, query = path.partition("?")
        assert where.startswith("/v1/")
        assert "api-version=2024-10-21" in query.split("&")


@pytest.mark.parametrize("query", ["key=SECRET", "sig=SECRET", "access_token=SECRET"])
def test_a_key_in_a_base_url_is_refused_and_not_shown(query: str) -> None:
    with pytest.raises(ConfigError) as raised:
        HttpClient(f"http://localhost/v1?{query}")
    assert "SECRET" not in str(raised.value)
    assert "model.api_key_env" in raised.value.remedy


@pytest.fixture
def self_signed(tmp_path: Path) -> ssl.SSLContext:
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=localhost"]
    files = ["-keyout", str(key), "-out", str(certificate)]
    subprocess.run([*command, *files], check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    return context


async def test_a_self_signed_certificate_is_explained(self_signed: ssl.SSLContext) -> None:

    async def close(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()

    server = await asyncio.start_server(close, "127.0.0.1", 0, ssl=self_signed)
    client = Client(f"https://localhost:{server.sockets[0].getsockname()[1]}/v1")
    async with server:
        with transient("unreachable", "self-signed certificate") as raised:
            await client.post()
    await client.sdk.aclose()
    assert "SSL_CERT_FILE" in raised.value.remedy
