"""Through the official SDK against a real server on loopback."""

import json
from typing import Any

import pytest
from msgspec.structs import replace

from harness.errors import ConfigError, FatalCallError, TransientError
from harness.plugins.anthropic.backend import AnthropicBackend
from harness.records import Decoding, Message, Origin, PromptCut, Reply, Request, Usage
from tests.backends.answering import answering, transient

REQUEST = Request(
    "claude-sonnet-5-5",
    (Message("system", "Be brief."), Message("user", "Hi?")),
    Decoding(max_tokens=1000, stop=("END",)),
    0,
    Origin("a", 0, 1),
)


def message(*blocks: dict[str, Any], stop_reason: str = "end_turn", **more: Any) -> str:
    return json.dumps({"content": blocks, "stop_reason": stop_reason, "model": "m1"} | more)


async def ask(url: str, request: Request = REQUEST, **options: Any) -> Reply:
    backend = AnthropicBackend(
        base_url=url, api_key_env="KEY", secret=lambda _: "sk-1", concurrency=1, timeout_s=5,
        **options,
    )  # fmt: skip
    try:
        return await backend.generate(request)
    finally:
        await backend.aclose()


async def test_the_request_says_what_was_asked_and_nothing_else() -> None:
    usage = {"input_tokens": 5, "output_tokens": 2, "cache_read_input_tokens": 3}
    with answering(message({"type": "text", "text": "Hello"}, usage=usage)) as (url, received):
        reply = await ask(url.removesuffix("/v1"))
    head, _, body = received[0].partition(b"\r\n\r\n")
    assert b"POST /v1/messages " in head
    assert b"anthropic-version: 2026-10-21" in head.lower()
    assert b"sk-1" in head
    assert json.loads(body) == {
        "model": "claude-sonnet-5-5",
        "system": "Be brief.",
        "messages": [{"role": "user", "content": "Hi?"}],
        "max_tokens": 1000,
        "stop_sequences": ["END"],
    }
    assert reply == Reply("Hello", "stop", Usage(8, 2, 3), "m1")


def test_a_url_with_the_version_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"Write http://localhost:8000/proxy\.$"):
        AnthropicBackend(
            base_url="http://localhost:8000/proxy/v1/", secret=str, concurrency=1, timeout_s=5
        )


CACHED = {"cache_control": {"type": "ephemeral"}}


@pytest.mark.parametrize(
    ("cut", "system", "content"),
    [
        (PromptCut(1, 1), "Be brief.", [{"text": "H", **CACHED}, {"text": "i?"}]),
        (PromptCut(1, 3), "Be brief.", [{"text": "Hi?", **CACHED}]),
        (PromptCut(1, 0), [{"text": "Be brief.", **CACHED}], "Hi?"),
        (PromptCut(0, 3), [{"text": "Be ", **CACHED}, {"text": "brief."}], "Hi?"),
        (None, "Be brief.", "Hi?"),
    ],
)
async def test_the_end_of_the_shared_beginning_is_marked(
    cut: PromptCut | None, system: Any, content: Any
) -> None:
    with answering(message({"type": "text", "text": "Hello"})) as (url, received):
        await ask(url.removesuffix("/v1"), prompt_caching=True, prompt_cut=lambda messages: cut)
    sent = json.loads(received[0].partition(b"\r\n\r\n")[2])
    typed = [
        [{"type": "text", **part} for part in one] if isinstance(one, list) else one
        for one in (system, content)
    ]
    assert [sent["system"], sent["messages"][0]["content"]] == typed


async def test_tokens_written_to_the_cache_are_counted() -> None:
    usage = {"input_tokens": 5, "output_tokens": 2, "cache_creation_input_tokens": 90}
    hour = usage | {"cache_creation": {"ephemeral_1h_input_tokens": 90}}
    for given, counted in ((usage, Usage(95, 2, 0, 0, 90)), (hour, None)):
        with answering(message({"type": "text", "text": "Hello"}, usage=given)) as (url, _):
            assert (await ask(url.removesuffix("/v1"))).usage == counted


async def test_the_older_api_version_takes_a_temperature() -> None:
    warm = replace(REQUEST, decoding=Decoding(0.7, 10))
    with answering(message({"type": "text", "text": "Hello"})) as (url, received):
        await ask(url.removesuffix("/v1"), warm, api_version="2023-06-01")
    assert b"anthropic-version: 2023-06-01" in received[0].lower()
    assert json.loads(received[0].partition(b"\r\n\r\n")[2])["temperature"] == 0.7
    features = [
        AnthropicBackend(v, secret=str, concurrency=1, timeout_s=1).features  # type: ignore[arg-type]
        for v in ("2026-10-21", "2023-06-01")
    ]
    assert ["temperature" in found for found in features] == [False, True]


async def test_thinking_is_kept_apart_and_text_blocks_are_one_answer() -> None:
    blocks = [
        {"type": "thinking", "thinking": "Hm."},
        {"type": "text", "text": "Yes"},
        {"type": "text", "text": "."},
        {"type": "something_new"},
    ]
    with answering(message(*blocks)) as (url, _):
        reply = await ask(url.removesuffix("/v1"))
    assert (reply.text, reply.reasoning) == ("Yes.", "Hm.")


@pytest.mark.parametrize(
    ("stop_reason", "finish_reason"),
    [("max_tokens", "length"), ("refusal", "refusal"), ("stop_sequence", "stop"),
     ("model_context_window_exceeded", "length"), ("pause_turn", "pause_turn")],
)  # fmt: skip
async def test_stop_reasons(stop_reason: str, finish_reason: str) -> None:
    with answering(message(stop_reason=stop_reason)) as (url, _):
        reply = await ask(url.removesuffix("/v1"))
    assert (reply.text, reply.finish_reason) == ("", finish_reason)


@pytest.mark.parametrize("body", ["", "{}", "[]", '{"content": "text"}', '{"content": [{}]}'])
async def test_a_body_that_is_no_message_is_malformed(body: str) -> None:
    with answering(body) as (url, _), transient("malformed"):
        await ask(url.removesuffix("/v1"))


async def test_a_parameter_that_the_model_refuses_ends_the_run() -> None:
    for said in (
        "temperature: Extra inputs are not permitted",
        "`x` is deprecated for this model.",
    ):
        error = {"type": "invalid_request_error", "message": said}
        body = json.dumps({"type": "error", "error": error})
        with answering(body, 400) as (url, _), pytest.raises(FatalCallError):
            await ask(url.removesuffix("/v1"))


async def test_a_spend_limit_is_not_waited_for() -> None:
    details = {"error_code": "enforced_spend_limit_reached"}
    error = {"type": "rate_limit_error", "message": "limit", "details": details}
    body = json.dumps({"type": "error", "error": error})
    with answering(body, 429) as (url, _), pytest.raises(FatalCallError, match="credit"):
        await ask(url.removesuffix("/v1"))


async def test_thinking_that_is_not_told_is_none() -> None:
    blocks = [{"type": "thinking", "thinking": ""}, {"type": "text", "text": "Yes."}]
    usage = {"input_tokens": 1, "output_tokens": 9, "output_tokens_details": {"thinking_tokens": 7}}
    with answering(message(*blocks, usage=usage)) as (url, _):
        reply = await ask(url.removesuffix("/v1"))
    assert reply.reasoning is None
    assert reply.usage == Usage(1, 9, 0, 7)


@pytest.mark.parametrize(
    ("status", "kind", "error"),
    [(401, "authentication_error", FatalCallError), (429, "rate_limit_error", TransientError),
     (529, "overloaded_error", TransientError), (403, "billing_error", FatalCallError)],
)  # fmt: skip
async def test_errors_in_anthropics_words(status: int, kind: str, error: type[Exception]) -> None:
    body = json.dumps({"type": "error", "error": {"type": kind, "message": "said so"}})
    with answering(body, status) as (url, _), pytest.raises(error, match="said so"):
        await ask(url.removesuffix("/v1"))


async def test_calls_of_tools_are_recorded_as_json() -> None:
    used: dict[str, Any] = {"type": "tool_use", "id": "1", "name": "pay", "input": {"eur": 5}}
    with answering(message({"type": "text", "text": "I pay."}, used)) as (url, _):
        reply = await ask(url.removesuffix("/v1"))
    calls = [{"name": "pay", "arguments": {"eur": 5}}]
    assert json.loads(reply.text) == {"text": "I pay.", "tool_calls": calls}
