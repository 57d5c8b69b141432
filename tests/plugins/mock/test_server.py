"""Faults, counters and the server's life, seen from a plain HTTP client."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from harness.plugins.mock.faults import STATUSES, Fault
from harness.plugins.mock.server import MockServer
from harness.plugins.mock.stats import BodyCount, Limits, PerMinute
from harness.plugins.mock.wire import MockError

STALLED_S = 0.5


@pytest.fixture
async def client() -> AsyncIterator[httpx2.AsyncClient]:
    """A client that gives a busy machine time; a test of a stalled answer sets `STALLED_S`."""
    async with httpx2.AsyncClient(timeout=30, verify=False) as client:
        yield client


async def post(client: httpx2.AsyncClient, server: MockServer, text: str = "Hello.") -> str:
    """The answer's text; fails as the server makes it fail."""
    body = {"model": "m", "messages": [{"role": "user", "content": text}]}
    reply = await client.post(f"{server.base_url}/chat/completions", json=body)
    reply.raise_for_status()
    content: str = reply.json()["choices"][0]["message"]["content"]
    return content


async def answer(client: httpx2.AsyncClient, url: str, body: object) -> Any:
    """The answer's body, whatever the wire; fails as the server makes it fail."""
    reply = await client.post(url, json=body)
    return reply.raise_for_status().json()


async def until(server: MockServer, in_flight: int) -> None:
    async with asyncio.timeout(5):
        while server.stats().in_flight != in_flight:  # noqa: ASYNC110
            await asyncio.sleep(0.005)


@pytest.mark.parametrize("fault", STATUSES)
async def test_statuses(client: httpx2.AsyncClient, fault: Fault) -> None:
    with MockServer(faults={fault: 1}) as server:
        with pytest.raises(httpx2.HTTPStatusError) as raised:
            await post(client, server)
        assert server.stats().by_status == {int(fault): 1}
        assert server.stats().by_fault == {fault: 1}
    reply = raised.value.response
    assert reply.status_code == int(fault)
    assert reply.json()["error"]["message"]
    assert ("retry-after" in reply.headers) == (fault == "429")


@pytest.mark.parametrize(
    ("fault", "error"),
    [
        ("reset", httpx2.ReadError),
        ("stall", httpx2.ReadTimeout),
        ("stall_body", httpx2.ReadTimeout),
        ("truncated_body", httpx2.RemoteProtocolError),
        ("invalid_json", ValueError),
    ],
)
async def test_broken_answers(
    client: httpx2.AsyncClient,
    fault: Fault,
    error: type[Exception],
    caplog: pytest.LogCaptureFixture,
) -> None:
    patience = client.timeout
    with MockServer(faults={fault: 1}) as server:
        if error is httpx2.ReadTimeout:
            client.timeout = STALLED_S
        with pytest.raises(error):
            await post(client, server)
        await until(server, in_flight=0)
        assert server.stats().answered == 0
        assert server.stats().by_fault == {fault: 1}
        server.change(faults={})
        client.timeout = patience
        await post(client, server)
        assert server.stats().repeated == 0
    assert caplog.records == []


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/completions", "/v1/messages"])
async def test_every_wire_fails_and_counts_alike(client: httpx2.AsyncClient, path: str) -> None:
    body = {"model": "m", "max_tokens": 99}
    if path == "/v1/completions":
        body |= {"prompt": "Hello."}
    else:
        body |= {"messages": [{"role": "user", "content": "Hello."}]}
    faults = {"reset": httpx2.ReadError, "stall": httpx2.ReadTimeout, "invalid_json": ValueError}
    faults |= {"truncated_body": httpx2.RemoteProtocolError, "529": httpx2.HTTPStatusError}
    client.headers["anthropic-version"] = "2026-10-21"
    with MockServer() as server:
        patience = client.timeout
        for fault, error in faults.items():
            server.change(faults={fault: 1})
            client.timeout = STALLED_S if fault == "stall" else patience
            with pytest.raises(error):
                await answer(client, server.url + path, body)
        client.timeout = patience
        server.change(faults={})
        first, again = [await answer(client, server.url + path, body) for _ in range(2)]
        await until(server, in_flight=0)
        stats = server.stats()
    assert stats.by_fault == dict.fromkeys(faults, 1)
    assert stats.by_path == {path: len(faults) + 2}
    assert (stats.answered, stats.repeated, stats.unique_bodies) == (2, 1, 1)
    assert stats.by_status == {200: 4, 529: 1}
    written = "output_tokens" if path == "/v1/messages" else "completion_tokens"
    assert stats.completion_tokens == 2 * first["usage"][written]
    assert first["usage"] == again["usage"]


async def test_answers_that_say_nothing(client: httpx2.AsyncClient) -> None:
    said = {}
    with MockServer() as server:
        for fault in ("empty", "refusal", "content_filter"):
            server.change(faults={fault: 1})
            body = {"model": "m", "messages": [{"role": "user", "content": fault}]}
            reply = await client.post(f"{server.base_url}/chat/completions", json=body)
            choice = reply.json()["choices"][0]
            said[fault] = (choice["message"]["content"], choice["finish_reason"])
            if fault == "refusal":
                assert choice["message"]["refusal"].startswith("I'm sorry")
        # The two that decline are the model's last word; an empty one is a failure.
        assert server.stats().answered == 2
    assert said == {
        "empty": ("", "stop"),
        "refusal": (None, "stop"),
        "content_filter": ("", "content_filter"),
    }


@pytest.mark.parametrize(
    ("seconds", "told"),
    [
        (2, {"retry-after": "2", "retry-after-ms": "2000"}),
        (0.05, {"retry-after": "1", "retry-after-ms": "50"}),
        (None, {}),
    ],
)
async def test_retry_after(
    client: httpx2.AsyncClient, seconds: float | None, told: dict[str, str]
) -> None:
    with (
        MockServer(faults={"429": 1}, retry_after=seconds) as server,
        pytest.raises(httpx2.HTTPStatusError) as raised,
    ):
        await post(client, server)
    headers = raised.value.response.headers
    assert {name: text for name, text in headers.items() if name.startswith("retry")} == told


async def test_faults_do_not_depend_on_the_order_and_retries_can_succeed(
    client: httpx2.AsyncClient,
) -> None:
    async def failures(numbers: list[int]) -> dict[int, int]:
        failed = {}
        with MockServer(faults={"500": 0.5}, seed=7) as server:
            for number in numbers:
                for tries in range(50):
                    try:
                        await post(client, server, f"Say {number}.")
                    except httpx2.HTTPStatusError:
                        continue
                    failed[number] = tries
                    break
        return failed

    forwards = await failures(list(range(40)))
    backwards = await failures(list(reversed(range(40))))
    assert forwards == backwards
    assert len(forwards) == 40
    assert 20 <= sum(forwards.values()) <= 70


async def test_counters(client: httpx2.AsyncClient) -> None:
    with MockServer() as server:
        for text in ("a", "b", "a"):
            await post(client, server, text)
        stats = server.stats()
        assert (stats.requests, stats.answered, stats.repeated) == (3, 3, 1)
        assert (stats.unique_bodies, stats.in_flight, stats.max_in_flight) == (2, 0, 1)
        assert sorted(server.bodies().values(), key=lambda body: body.requests) == [
            BodyCount(1, 1),
            BodyCount(2, 2),
        ]
        shown = (await client.get(f"{server.url}/stats")).json()
        assert shown["by_status"] == {"200": 3}
        assert shown["repeated"] == 1
        bodies = (await client.get(f"{server.url}/stats/bodies")).json()
        assert {"requests": 2, "answered": 2} in bodies.values()
        await client.post(f"{server.url}/stats/reset")
        assert server.stats().requests == 0
        await post(client, server, "a")
        assert server.stats().repeated == 0


@pytest.mark.timed
async def test_requests_in_flight_and_latency(client: httpx2.AsyncClient) -> None:
    with MockServer(latency=0.1) as server:
        started = time.monotonic()
        await asyncio.gather(*(post(client, server, str(n)) for n in range(20)))
        assert 0.1 <= time.monotonic() - started < 1.0
        assert server.stats().max_in_flight == 20
        assert server.stats().in_flight == 0


async def test_client_that_leaves_is_not_answered(client: httpx2.AsyncClient) -> None:
    client.timeout = STALLED_S
    with MockServer(latency=60) as server:
        with pytest.raises(httpx2.ReadTimeout):
            await post(client, server)
        await until(server, in_flight=0)
        assert (server.stats().abandoned, server.stats().answered) == (1, 0)


@pytest.mark.parametrize(("fault", "status"), [("stall", {}), ("stall_body", {200: 1})])
async def test_answer_that_never_comes_is_abandoned(
    client: httpx2.AsyncClient, fault: str, status: dict[int, int]
) -> None:
    client.timeout = STALLED_S
    with MockServer(faults={fault: 1}) as server:
        with pytest.raises(httpx2.ReadTimeout):
            await post(client, server)
        await until(server, in_flight=0)
        stats = server.stats()
    assert (stats.abandoned, stats.answered, stats.by_status) == (1, 0, status)


async def test_trickle_outlives_any_limit_on_a_read() -> None:
    body = {"model": "m", "max_tokens": 99, "messages": [{"role": "user", "content": "Hello."}]}
    headers = {"anthropic-version": "2026-10-21"}
    received = b""
    with MockServer(faults={"trickle": 1}) as server:
        async with (
            httpx2.AsyncClient(timeout=20, verify=False) as client,
            client.stream("POST", f"{server.url}/v1/messages", json=body, headers=headers) as reply,
        ):
            assert reply.status_code == 200
            assert reply.headers["content-type"] == "application/json"
            assert int(reply.headers["content-length"]) > 100
            async for part in reply.aiter_raw():
                received += part
                if len(received) > 1:
                    break
            assert server.stats().in_flight == 1
        await until(server, in_flight=0)
        stats = server.stats()
    assert received == b'{"'
    assert (stats.abandoned, stats.answered, stats.by_status) == (1, 0, {200: 1})
    assert stats.by_fault == {"trickle": 1}


async def test_models_are_counted_and_limited_apart(client: httpx2.AsyncClient) -> None:
    async def ask(model: object) -> httpx2.Response:
        body = {"model": model, "messages": [{"role": "user", "content": "Hello."}]}
        return await client.post(f"{server.base_url}/chat/completions", json=body)

    with MockServer(requests_per_minute=2) as server:
        replies = [await ask(model) for model in ("a", "a", "b", "a", 3)]
        stats = server.stats()
    remaining = [reply.headers.get("x-ratelimit-remaining-requests") for reply in replies]
    assert [reply.status_code for reply in replies] == [200, 200, 200, 429, 400]
    assert remaining == ["1", "0", "1", "0", None]
    assert "Rate limit reached for a on requests" in replies[3].text
    assert stats.by_model == {"a": 3, "b": 1}
    assert (stats.requests, stats.peak_per_minute.requests) == (5, 3)


async def test_drawn_failures_tell_the_limits_too(client: httpx2.AsyncClient) -> None:
    with (
        MockServer(requests_per_minute=9, faults={"429": 1}) as server,
        pytest.raises(httpx2.HTTPStatusError) as raised,
    ):
        await post(client, server)
    assert raised.value.response.headers["x-ratelimit-remaining-requests"] == "8"


async def test_unknown_models_leave_no_trace(client: httpx2.AsyncClient) -> None:
    with MockServer(requests_per_minute=2, models=["known"]) as server:
        with pytest.raises(httpx2.HTTPStatusError) as raised:
            await post(client, server)
        assert server.stats().by_model == {}
    assert raised.value.response.status_code == 404
    assert "x-ratelimit-limit-requests" not in raised.value.response.headers


async def test_peak_needs_no_limit(client: httpx2.AsyncClient) -> None:
    with MockServer() as server:
        for number in range(3):
            await post(client, server, str(number))
        stats = server.stats()
        read, written = stats.prompt_tokens, stats.completion_tokens
        assert min(read, written) > 0
        assert stats.peak_per_minute == PerMinute(3, read + written, read, written)
        # What failed with a status is a request that used no tokens.
        server.change(faults={"503": 1})
        with pytest.raises(httpx2.HTTPStatusError):
            await post(client, server)
        assert server.stats().peak_per_minute == PerMinute(4, read + written, read, written)
        # What broke on its way did use them.
        server.change(faults={"truncated_body": 1})
        with pytest.raises(httpx2.RemoteProtocolError):
            await post(client, server)
        assert server.stats().peak_per_minute.tokens > read + written
        shown = (await client.get(f"{server.url}/stats")).json()["peak_per_minute"]
        assert list(shown) == ["requests", "tokens", "input_tokens", "output_tokens"]
        assert shown["requests"] == 5
        await client.post(f"{server.url}/stats/reset")
        assert server.stats().peak_per_minute == PerMinute()


async def test_faults_of_chosen_prompts(client: httpx2.AsyncClient) -> None:
    with MockServer(faults={"503": 1}, fault_on=["row 1", "row 2"]) as server:
        assert await post(client, server, "This is row 3.")
        with pytest.raises(httpx2.HTTPStatusError):
            await post(client, server, "This is row 2.")
        server.change(fault_on=["row 3"])
        assert await post(client, server, "This is row 2.")
        server.change(fault_on=[])
        with pytest.raises(httpx2.HTTPStatusError):
            await post(client, server, "This is row 2.")


async def test_an_error_in_a_successful_response(client: httpx2.AsyncClient) -> None:
    with MockServer(faults={"error_body": 1}) as server:
        url = f"{server.base_url}/chat/completions"
        body = {"model": "m", "messages": [{"role": "user", "content": "Hello."}]}
        assert (await answer(client, url, body))["error"]["code"] == 502
        assert server.stats().by_status == {200: 1}


async def test_outage_that_ends(client: httpx2.AsyncClient) -> None:
    with MockServer() as server:
        down = {"faults": {"503": 1}, "latency": "uniform:0:0.01"}
        changed = await client.post(f"{server.url}/faults", json=down)
        weather = {"faults": {"503": 1.0}, "latency": "uniform:0:0.01", "limits": {}}
        weather |= {"fault_on": [], "batch_faults": {}, "batch_latency": "0.0"}
        assert changed.json() == weather
        with pytest.raises(httpx2.HTTPStatusError):
            await post(client, server)
        await client.post(f"{server.url}/faults", json={"faults": {}})
        assert await post(client, server)
        shown = (await client.get(f"{server.url}/faults")).json()
        assert shown == weather | {"faults": {}}


@pytest.mark.parametrize("retry_after", [None, 60.0])
async def test_more_requests_at_once_than_allowed_get_a_429_at_once(
    client: httpx2.AsyncClient, retry_after: float | None
) -> None:
    async def reply(model: str) -> httpx2.Response:
        body = {"model": model, "messages": [{"role": "user", "content": "hi"}]}
        return await client.post(f"{server.base_url}/chat/completions", json=body, timeout=60)

    with MockServer(parallel_requests=2, latency=0.3, retry_after=retry_after) as server:
        replies = await asyncio.gather(*map(reply, [*5 * ["m"], "other"]))
        assert sorted(answer.status_code for answer in replies) == [200] * 3 + [429] * 3
        refused = next(answer for answer in replies if answer.status_code == 429)
        assert refused.headers.get("retry-after") == (None if retry_after is None else "60")
        assert "max_parallel_requests. Current limit: 2" in refused.text
        assert (await reply("m")).status_code == 200


async def test_limits_that_change(client: httpx2.AsyncClient) -> None:
    with MockServer() as server:
        await post(client, server)
        limits = {"requests_per_minute": 1, "tokens_per_minute": 10_000}
        changed = await client.post(f"{server.url}/faults", json={"limits": limits})
        assert changed.json()["limits"] == limits
        await post(client, server)
        with pytest.raises(httpx2.HTTPStatusError) as raised:
            await post(client, server)
        assert raised.value.response.status_code == 429
        server.change(latency=0)
        assert (await client.get(f"{server.url}/faults")).json()["limits"] == limits
        server.change(limits=Limits())
        for _ in range(3):
            await post(client, server)
        assert (await client.get(f"{server.url}/faults")).json()["limits"] == {}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"faults": {"rest": 1}}, "Did you mean 'reset'?"),
        ({"latency": "slow"}, "Invalid latency"),
        ({"latency": 5, "faults": {}, "batch_faults": {"x": 1}}, "Unknown batch fault"),
        ({"fault": {}}, "fault"),
        ({"faults": {}, "limits": {"requests_per_minute": 0}}, "must be at least 1, not 0"),
        ({"faults": {}, "limits": {"rpm": 1}}, "rpm"),
    ],
)
async def test_refused_change_changes_nothing(
    client: httpx2.AsyncClient, change: dict[str, object], message: str
) -> None:
    with MockServer(faults={"500": 0.5}) as server:
        reply = await client.post(f"{server.url}/faults", json=change)
        shown = (await client.get(f"{server.url}/faults")).json()
    assert reply.status_code == 400
    assert message in reply.json()["error"]["message"]
    assert (shown["faults"], shown["latency"]) == ({"500": 0.5}, "0.0")


@pytest.mark.parametrize(
    "path",
    [
        "/v1/batches?limit=ten",
        "/v1/batches?limit=-1",
        "/v1/messages/batches?limit=1.5",
        "/v1beta/batches?pageToken=next",
        "/v1beta/batches?pageSize=9999999999",
        "/v1/batch/jobs?page=last&page_size=10",
    ],
)
async def test_a_page_that_is_not_a_number_is_refused(
    client: httpx2.AsyncClient, path: str
) -> None:
    with MockServer() as server:
        reply = await client.get(f"{server.url}{path}")
        assert (await client.get(f"{server.url}{path.partition('?')[0]}")).status_code == 200
    assert reply.status_code == 400
    assert "is not a whole number" in reply.json()["error"]["message"]


async def test_unknown_path(client: httpx2.AsyncClient) -> None:
    with MockServer() as server:
        reply = await client.get(f"{server.base_url}/chat/completions")
        assert server.stats().requests == 0
    assert reply.status_code == 404
    assert "Invalid URL (GET /v1/chat/completions)" in reply.text


async def test_large_body(client: httpx2.AsyncClient) -> None:
    with MockServer(answers=lambda ask, index: str(len(ask.prompt))) as server:
        assert await post(client, server, "x" * 3_000_000) == "3000000"


@pytest.mark.parametrize("options", [{"latency": 60}, {"faults": {"stall": 1}}])
@pytest.mark.timed
async def test_stops_at_once_with_requests_in_flight(
    client: httpx2.AsyncClient, options: dict[str, object], caplog: pytest.LogCaptureFixture
) -> None:
    with MockServer(**options) as server:  # type: ignore[arg-type]
        waiting = [asyncio.create_task(post(client, server, str(n))) for n in range(20)]
        await until(server, in_flight=20)
        started = time.monotonic()
    assert time.monotonic() - started < 0.5
    assert server.stats().in_flight == 0
    ended = await asyncio.gather(*waiting, return_exceptions=True)
    assert all(isinstance(error, httpx2.TransportError) for error in ended)
    assert caplog.records == []


def open_files() -> int:
    folder = Path("/proc/self/fd")
    return len(list(folder.iterdir())) if folder.is_dir() else 0


def test_nothing_is_left_behind() -> None:
    with MockServer():
        pass
    before, threads = open_files(), set(threading.enumerate())
    for _ in range(20):
        with MockServer() as server:
            httpx2.get(f"{server.url}/stats")
    assert open_files() == before
    assert set(threading.enumerate()) <= threads


async def test_comes_back_to_its_port(client: httpx2.AsyncClient) -> None:
    with MockServer() as server:
        port = int(server.url.rpartition(":")[2])
        await post(client, server)
    server = MockServer(port=port)
    for _ in range(2):
        with server:
            assert server.url == f"http://127.0.0.1:{port}"
            await post(client, server)
    assert server.stats().requests == 2
    with pytest.raises(MockError, match="not running"):
        _ = server.url


def test_a_failed_start_leaves_nothing_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    with MockServer() as server:
        port = int(server.url.rpartition(":")[2])
    server = MockServer(port=port)
    monkeypatch.setenv("WEB_CONCURRENCY", "several")  # which uvicorn reads as a number
    with pytest.raises(ValueError, match="several"):
        server.start()
    server.stop()
    monkeypatch.delenv("WEB_CONCURRENCY")
    with server:
        assert httpx2.get(f"{server.url}/stats").status_code == 200


def test_port_in_use() -> None:
    with MockServer() as server:
        port = int(server.url.rpartition(":")[2])
        with pytest.raises(MockError, match=rf"127\.0\.0\.1:{port}: Address already in use"):
            MockServer(port=port).start()


@pytest.mark.parametrize(
    ("host", "port", "message"),
    [
        # An address that is reserved for documentation, so nobody's own.
        ("192.0.2.1", 0, "Cannot listen on 192.0.2.1:0: "),
        ("127.0.0.1", 70000, "Invalid port 70000"),
    ],
)
def test_impossible_address(host: str, port: int, message: str) -> None:
    with pytest.raises(MockError, match=message):
        MockServer(host=host, port=port).start()
