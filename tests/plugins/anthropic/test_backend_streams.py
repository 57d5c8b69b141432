"""Answers that are too long for one response: streamed, and what is kept of a broken stream."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from harness.errors import RequestRejected, TransientError
from harness.plugins.anthropic.backend import (
    LONGEST_UNSTREAMED,
    AnthropicBackend,
    streamed,
    text_so_far,
)
from harness.plugins.mock.server import MockServer
from harness.records import Decoding, Message, Origin, Reply, Request
from tests.backends.answering import answering, transient

LONG = Decoding(max_tokens=LONGEST_UNSTREAMED + 1)
REQUEST = Request("m", (Message("user", "A poem?"),), LONG, 0, Origin("a", 0, 1))
POEM = "Snow fell\non the quiet town,\nand stayed."


async def ask(url: str, request: Request = REQUEST) -> Reply:
    url = url.removesuffix("/v1")
    backend = AnthropicBackend(base_url=url, secret=str, concurrency=1, timeout_s=5)
    try:
        return await backend.generate(request)
    finally:
        await backend.aclose()


def event(kind: str, **fields: Any) -> str:
    return f"event: {kind}\ndata: {json.dumps({'type': kind} | fields)}\n\n"


START = event("message_start", message={"content": [], "usage": {"input_tokens": 3}})
BLOCK = event("content_block_start", index=0, content_block={"type": "text", "text": ""})
TEXT = event("content_block_delta", index=0, delta={"type": "text_delta", "text": "Snow fell"})


async def test_a_long_answer_is_streamed_and_is_the_same_reply() -> None:
    with MockServer(answers={"A poem?": POEM}, reasoning="blocks") as server:
        short = replace(REQUEST, decoding=Decoding(max_tokens=LONGEST_UNSTREAMED))
        replies = [await ask(server.url, request) for request in (REQUEST, short)]
        assert server.stats().answered == 2
    for reply in replies:
        assert (reply.text, reply.finish_reason) == (POEM, "stop")
        assert reply.reasoning
        assert reply.reasoning_state
        assert reply.usage
    assert json.loads(str(replies[0].reasoning_state))[0]["signature"]
    assert replies[0].usage == replies[1].usage


async def test_a_gateway_that_does_not_stream_has_answered() -> None:
    message = {"content": [{"type": "text", "text": POEM}], "stop_reason": "end_turn"}
    with answering(json.dumps(message)) as (url, received):
        reply = await ask(url)
    assert (reply.text, reply.finish_reason) == (POEM, "stop")
    assert b'"stream":true' in received[0]


async def test_a_stream_that_breaks_is_a_failure_with_the_text_so_far() -> None:
    poem = POEM * 50
    faults = {"truncated_body": 1.0}
    with (
        MockServer(answers={"A poem?": poem}, faults=faults) as server,
        transient("connection_lost") as caught,
    ):
        await ask(server.url)
    assert 10 < len(caught.value.partial) < len(poem)
    assert poem.startswith(caught.value.partial)


@pytest.mark.parametrize(
    ("kind", "error"),
    [("overloaded_error", TransientError), ("invalid_request_error", RequestRejected)],
)
async def test_an_error_in_the_stream_is_treated_as_its_status(
    kind: str, error: type[Exception]
) -> None:
    broken = START + BLOCK + TEXT + event("error", error={"type": kind, "message": "Sorry."})
    with answering(broken) as (url, _), pytest.raises(error, match=r"Sorry\.") as caught:
        await ask(url)
    assert getattr(caught.value, "partial", "") == "Snow fell"


async def test_a_stream_without_an_end_is_lost_and_one_without_sense_is_malformed() -> None:
    with answering(START + BLOCK + TEXT) as (url, _), transient("connection_lost") as caught:
        await ask(url)
    assert caught.value.partial == "Snow fell"
    for body in (BLOCK, "data: {\n", "data: {}\n", START + TEXT, "data: []\n"):
        with answering(body) as (url, _), transient("malformed"):
            await ask(url)


@given(st.integers(0, len(START + BLOCK + TEXT)))
def test_wherever_a_stream_breaks_its_text_is_a_beginning(at: int) -> None:
    stream = (START + BLOCK + TEXT).encode()
    assert "Snow fell".startswith(text_so_far(stream[:at]))
    assert streamed(stream)[1] == ""


async def test_the_streamed_call_of_a_tool_is_recorded_as_json() -> None:
    tool = {"type": "tool_use", "id": "1", "name": "pay", "input": {}}
    parts = [
        event("content_block_delta", index=0, delta={"type": "input_json_delta", "partial_json": s})
        for s in ('{"eur"', ": 5}")
    ]
    begun = event("content_block_start", index=0, content_block=tool)
    body = "".join([START, begun, *parts, event("message_stop")])
    with answering(body, headers="Content-Type: text/event-stream\r\n") as (url, _):
        reply = await ask(url.removesuffix("/v1"))
    assert json.loads(reply.text) == {"tool_calls": [{"name": "pay", "arguments": {"eur": 5}}]}
