"""Batches of the mock provider, as the official SDKs see them, and Gemini's over HTTP."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any, Literal

import anthropic
import httpx2
import openai
import pytest

from harness.plugins.mock.server import MockServer

CHAT: Literal["/v1/chat/completions"] = "/v1/chat/completions"


def lines(*texts: str, model: str = "m", url: str = CHAT, **more: Any) -> bytes:
    """The file of a batch, with one request per text."""
    return b"\n".join(
        json.dumps(
            {"custom_id": text, "method": "POST", "url": url}
            | {"body": {"model": model, "messages": [{"role": "user", "content": text}], **more}}
        ).encode()
        for text in texts
    )


def message(text: str) -> Any:
    """A request of a message batch."""
    asked = {"model": "m", "max_tokens": 50, "messages": [{"role": "user", "content": text}]}
    return {"custom_id": text, "params": asked}


@pytest.fixture
async def chat() -> AsyncIterator[openai.AsyncOpenAI]:
    async with openai.AsyncOpenAI(api_key="key", base_url="http://none", max_retries=0) as client:
        yield client


@pytest.fixture
async def messages() -> AsyncIterator[anthropic.AsyncAnthropic]:
    headers = {"anthropic-version": "2023-06-01"}
    async with anthropic.AsyncAnthropic(
        api_key="key", base_url="http://none", max_retries=0, default_headers=headers
    ) as client:
        yield client


async def create(client: openai.AsyncOpenAI, content: bytes, **more: Any) -> Any:
    file = await client.files.create(file=("in.jsonl", content), purpose="batch")
    return await client.batches.create(
        input_file_id=file.id, endpoint=CHAT, completion_window="24h", **more
    )


async def ended(client: openai.AsyncOpenAI, name: str) -> Any:
    while (batch := await client.batches.retrieve(name)).status == "in_progress":  # noqa: ASYNC110
        await asyncio.sleep(0.01)
    return batch


async def results(client: openai.AsyncOpenAI, file: str | None) -> dict[str, Any]:
    """Results by custom id."""
    text = (await client.files.content(file)).text if file else ""
    found = [json.loads(line) for line in text.splitlines()]
    return {one["custom_id"]: one for one in found}


async def test_a_batch_answers_like_single_calls_and_is_counted_once(
    chat: openai.AsyncOpenAI,
) -> None:
    texts = [f"Question {number}" for number in range(30)]
    with MockServer(batch_latency=1) as server:
        chat.base_url = server.base_url
        batch = await create(chat, lines(*texts), metadata={"tag": "a"})
        assert (batch.status, server.stats().open_batches) == ("in_progress", 1)
        batch = await ended(chat, batch.id)
        found = await results(chat, batch.output_file_id)
        await results(chat, batch.output_file_id)
        stats = server.stats()
        assert (batch.request_counts.completed, stats.answered, stats.open_batches) == (30, 30, 0)
        assert {one.answered for one in server.bodies().values()} == {1}
        assert list(found) != texts  # in another order
        body = json.loads(lines(texts[3]))["body"]
        alone = await chat.post("/chat/completions", content=json.dumps(body).encode(), cast_to=str)
        said = json.loads(alone)["choices"][0]["message"]
        assert found[texts[3]]["response"]["body"]["choices"][0]["message"] == said
        (listed,) = (await chat.batches.list()).data
        assert (listed.id, listed.metadata) == (batch.id, {"tag": "a"})


@pytest.mark.parametrize(
    ("content", "code"),
    [
        (b"", "empty_file"),
        (b"{", "invalid_json_line"),
        (lines("a", "a"), "duplicate_custom_id"),
        (lines("a", url="/v1/embeddings"), "mismatched_endpoint"),
        (lines("a") + b"\n" + lines("b", model="n"), "mismatched_model"),
        (lines("a", model="unknown"), "model_not_found"),
    ],
)
async def test_an_invalid_file_fails_the_batch(
    chat: openai.AsyncOpenAI, content: bytes, code: str
) -> None:
    with MockServer(models=["m", "n"]) as server:
        chat.base_url = server.base_url
        batch = await create(chat, content)
        assert (batch.status, batch.errors.data[0].code) == ("failed", code)
        assert server.stats().answered == 0


async def test_failed_requests_are_in_the_error_file(chat: openai.AsyncOpenAI) -> None:
    texts = [f"Question {number}" for number in range(100)]
    with MockServer(faults={"500": 0.2, "400": 0.1}) as server:
        chat.base_url = server.base_url
        batch = await ended(chat, (await create(chat, lines(*texts))).id)
        good = await results(chat, batch.output_file_id)
        bad = await results(chat, batch.error_file_id)
        assert good.keys() | bad.keys() == set(texts)
        assert not good.keys() & bad.keys()
        assert {one["response"]["status_code"] for one in bad.values()} == {400, 500}
        assert server.stats().answered == len(good) == batch.request_counts.completed


async def test_a_batch_expires_with_partial_results(chat: openai.AsyncOpenAI) -> None:
    with MockServer(batch_faults={"expired": 1}) as server:
        chat.base_url = server.base_url
        batch = await ended(chat, (await create(chat, lines(*"abcdefgh"))).id)
        expired = await results(chat, batch.error_file_id)
        assert {one["error"]["code"] for one in expired.values()} == {"batch_expired"}
        assert (batch.status, len(expired), server.stats().answered) == ("expired", 4, 4)


async def test_a_cancelled_batch_bills_only_what_it_finished(chat: openai.AsyncOpenAI) -> None:
    with MockServer(batch_latency=3600) as server:
        chat.base_url = server.base_url
        name = (await create(chat, lines(*"abcdefgh"))).id
        batch = await chat.batches.cancel(name)
        assert (batch.status, batch.error_file_id) == ("cancelled", None)
        assert len(await results(chat, batch.output_file_id)) == server.stats().answered < 8
        with pytest.raises(openai.ConflictError):
            await chat.batches.cancel(name)


async def test_an_id_is_lost_and_found_in_the_list(chat: openai.AsyncOpenAI) -> None:
    with MockServer(batch_faults={"lost_id": 1}) as server:
        chat.base_url = server.base_url
        for tag in "abc":
            with pytest.raises(openai.APIConnectionError):
                await create(chat, lines("x"), metadata={"tag": tag})
        pages = [one async for one in chat.batches.list(limit=2)]
        assert [(one.metadata or {})["tag"] for one in pages] == ["c", "b", "a"]


async def test_polls_fail_and_results_are_duplicated(chat: openai.AsyncOpenAI) -> None:
    with MockServer(batch_faults={"poll_500": 1, "duplicated": 1}) as server:
        chat.base_url = server.base_url
        name = (await create(chat, lines(*"ab"))).id
        with pytest.raises(openai.InternalServerError):
            await chat.batches.retrieve(name)
        server.change(batch_faults={"duplicated": 1})
        batch = await ended(chat, name)
        assert len((await chat.files.content(batch.output_file_id)).text.splitlines()) == 4
        assert server.stats().answered == 2


async def test_enqueued_tokens_are_limited(chat: openai.AsyncOpenAI) -> None:
    with MockServer(batch_latency=3600, enqueued_tokens=20) as server:
        chat.base_url = server.base_url
        first, second = await create(chat, lines("a", "b")), await create(chat, lines("c"))
        assert (first.status, second.status) == ("in_progress", "failed")
        assert second.errors.data[0].code == "token_limit_exceeded"
        await chat.batches.cancel(first.id)
        assert (await create(chat, lines("c"))).status == "in_progress"


async def test_a_wrong_key_creates_nothing(
    chat: openai.AsyncOpenAI, messages: anthropic.AsyncAnthropic
) -> None:
    with MockServer(api_key="another") as server:
        chat.base_url, messages.base_url = server.base_url, server.url
        with pytest.raises(openai.AuthenticationError):
            await create(chat, lines("a"))
        with pytest.raises(anthropic.AuthenticationError):
            await messages.messages.batches.create(requests=[message("a")])
        assert server.stats().batches == 0


async def test_a_message_batch_ends_with_an_outcome_for_each_request(
    messages: anthropic.AsyncAnthropic,
) -> None:
    texts = [f"q{number}" for number in range(100)]
    with MockServer(faults={"529": 0.2}) as server:
        messages.base_url = server.url
        batches = messages.messages.batches
        name = (await batches.create(requests=[message(text) for text in texts])).id
        while (batch := await batches.retrieve(name)).processing_status != "ended":  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        found = {one.custom_id: one.result async for one in await batches.results(name)}
        assert found.keys() == set(texts)
        kinds = [result.type for result in found.values()]
        assert kinds.count("succeeded") == batch.request_counts.succeeded < 100
        assert kinds.count("errored") == batch.request_counts.errored > 0
        assert server.stats().answered == batch.request_counts.succeeded
        (listed,) = (await batches.list()).data
        assert listed.id == name


async def test_a_message_batch_is_cancelled(messages: anthropic.AsyncAnthropic) -> None:
    with MockServer(batch_latency=3600) as server:
        messages.base_url = server.url
        batches = messages.messages.batches
        name = (await batches.create(requests=[message(text) for text in "abcd"])).id
        assert (await batches.retrieve(name)).results_url is None
        assert (await batches.cancel(name)).request_counts.canceled > 0
        kinds = [one.result.type async for one in await batches.results(name)]
        assert kinds.count("succeeded") == server.stats().answered


async def test_custom_ids_of_a_message_batch_are_checked(
    messages: anthropic.AsyncAnthropic,
) -> None:
    with MockServer() as server:
        messages.base_url = server.url
        for texts in (["a", "a"], ["not valid"], []):
            with pytest.raises(anthropic.BadRequestError):
                await messages.messages.batches.create(requests=[message(text) for text in texts])


GEMINI = {"contents": [{"parts": [{"text": "Hello."}]}]}


async def gemini(client: httpx2.AsyncClient, content: bytes) -> httpx2.Response:
    """Upload a file and create a batch from it, as Google's guide does."""
    begin = {"x-goog-upload-command": "start", "x-goog-upload-protocol": "resumable"}
    named = {"file": {"displayName": "mine"}}
    started = await client.post("/upload/v1beta/files", headers=begin, json=named)
    whole = {"x-goog-upload-command": "upload, finalize", "x-goog-upload-offset": "0"}
    url = started.headers["x-goog-upload-url"]
    file = (await client.post(url, headers=whole, content=content)).json()["file"]
    about = {"displayName": "mine", "inputConfig": {"fileName": file["name"]}}
    return await client.post("/v1beta/models/m:batchGenerateContent", json={"batch": about})


@pytest.mark.parametrize(
    ("content", "status"),
    [
        (b"", 400),
        (b"{", 400),
        (json.dumps({"request": GEMINI}).encode(), 400),
        (2 * (json.dumps({"key": "a", "request": GEMINI}).encode() + b"\n"), 400),
        (json.dumps({"key": "a", "request": GEMINI}).encode(), 200),
    ],
)
async def test_a_file_of_gemini_is_checked(content: bytes, status: int) -> None:
    with MockServer() as server:
        async with httpx2.AsyncClient(base_url=server.url) as client:
            assert (await gemini(client, content)).status_code == status
        assert server.stats().batches == (status == 200)


async def test_a_batch_of_gemini_expires_without_results() -> None:
    content = b"".join(
        json.dumps({"key": key, "request": GEMINI}).encode() + b"\n" for key in "abcd"
    )
    with MockServer(batch_faults={"expired": 1}) as server:
        async with httpx2.AsyncClient(base_url=server.url) as client:
            name = (await gemini(client, content)).json()["name"]
            while not (found := (await client.get(f"/v1beta/{name}")).json()).get("done"):  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        assert found["metadata"]["state"] == "BATCH_STATE_EXPIRED"
        assert "response" not in found
        assert server.stats().answered == 0
