import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from harness.backends.openai import OpenAIBackend
from harness.engine.resolving import parse_model_name
from harness.errors import ConfigError, FatalCallError, PromptRefused, RequestRejected
from harness.plugins.mock.server import MockServer
from harness.plugins.responses.backend import OpenAIResponsesBackend
from harness.records import Decoding, DecodingConstraint, Message, Origin, Reply, Request, Usage
from tests.backends.answering import answering, transient

SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}}
DECODING = Decoding(0.5, 64, constraint=DecodingConstraint(json_schema=SCHEMA))
REQUEST = Request(
    "gpt-9-pro",
    (Message("system", "Be brief."), Message("user", "A colour?")),
    DECODING,
    0,
    Origin("a", 0, 1),
    seed=7,
)
ANSWER = {
    "type": "message",
    "content": [{"type": "output_text", "text": "Blue.", "annotations": []}],
}
COMPLETED: dict[str, Any] = {
    "status": "completed",
    "model": "gpt-9-pro-2026",
    "output": [
        {"type": "reasoning", "summary": [{"type": "summary_text", "text": "Sky."}]},
        {**ANSWER, "phase": "commentary", "content": [{"type": "output_text", "text": "Hm."}]},
        ANSWER,
    ],
    "usage": {
        "input_tokens": 20,
        "input_tokens_details": {"cached_tokens": 8},
        "output_tokens": 12,
        "output_tokens_details": {"reasoning_tokens": 10},
        "total_tokens": 32,
    },
}


async def ask(url: str, request: Request = REQUEST, preset: str | None = None) -> Reply:
    options = {"secret": str, "concurrency": 1, "timeout_s": 5}
    backend = OpenAIResponsesBackend(preset, url, **options)  # type: ignore[arg-type]
    try:
        return await backend.generate(request)
    finally:
        await backend.aclose()


async def answered(body: Mapping[str, Any], request: Request = REQUEST) -> Reply:
    with answering(json.dumps(body)) as (url, _):
        return await ask(url, request, "openai")


async def test_a_request_is_stateless_and_a_reply_has_answer_reasoning_and_usage() -> None:
    with answering(json.dumps(COMPLETED)) as (url, received):
        reply = await ask(url, preset="openai")
    head, _, sent = received[0].partition(b"\r\n\r\n")
    assert b"POST /v1/responses " in head
    assert json.loads(sent) == {
        "include": ["reasoning.encrypted_content"],
        "model": "gpt-9-pro",
        "input": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "A colour?"},
        ],
        "temperature": 0.5,
        "max_output_tokens": 64,
        "store": False,
        "text": {
            "format": {"type": "json_schema", "name": "answer", "strict": True, "schema": SCHEMA}
        },
    }
    assert reply == Reply("Blue.", "stop", Usage(20, 12, 8, 10), "gpt-9-pro-2026", reasoning="Sky.")


async def test_other_text_settings_are_combined_with_the_constraint() -> None:
    decoding = replace(DECODING, extra={"text": {"verbosity": "low"}})
    request = Request("m", REQUEST.messages, decoding, 0, REQUEST.origin)
    with answering(json.dumps(COMPLETED)) as (url, received):
        await ask(url, request, "openai")
    text = json.loads(received[0].partition(b"\r\n\r\n")[2])["text"]
    assert text["verbosity"] == "low"
    assert text["format"]["schema"] == SCHEMA


@pytest.mark.parametrize(
    ("reason", "finish"), [("max_output_tokens", "length"), ("content_filter", "content_filter")]
)
async def test_an_incomplete_response_keeps_its_text(reason: str, finish: str) -> None:
    body = COMPLETED | {"status": "incomplete", "incomplete_details": {"reason": reason}}
    reply = await answered(body)
    assert (reply.text, reply.finish_reason) == ("Blue.", finish)


async def test_a_refusal_is_the_answer() -> None:
    part = {"type": "refusal", "refusal": "I cannot help."}
    reply = await answered(COMPLETED | {"output": [{"type": "message", "content": [part]}]})
    assert (reply.text, reply.finish_reason) == ("I cannot help.", "refusal")


@pytest.mark.parametrize(
    ("code", "error"),
    [
        ("invalid_prompt", PromptRefused),
        ("bio_policy", PromptRefused),
        ("image_too_small", RequestRejected),
        ("data_residency_mismatch", FatalCallError),
    ],
)
async def test_a_failed_response_is_an_error(code: str, error: type[Exception]) -> None:
    body = COMPLETED | {"status": "failed", "error": {"code": code, "message": "No."}}
    with pytest.raises(error, match=r"The response failed: No\."):
        await answered(body)


async def test_a_failure_of_the_server_is_retried() -> None:
    failed = COMPLETED | {"status": "failed"}
    with transient("server_failed"):
        await answered(failed | {"error": {"code": "server_error", "message": "Sorry."}})
    with transient("rate_limited"):
        await answered(failed | {"error": {"code": "rate_limit_exceeded", "message": "Slow."}})
    with transient("interrupted"):
        await answered(COMPLETED | {"status": "cancelled"})


@pytest.mark.parametrize("body", ["", "{}", '{"output": null}', '{"output": [{}]}'])
async def test_a_body_that_is_no_response_is_malformed(body: str) -> None:
    with answering(body) as (url, _), transient("malformed"):
        await ask(url, preset="openai")


async def test_an_invalid_usage_does_not_lose_the_answer() -> None:
    reply = await answered(COMPLETED | {"usage": {"input_tokens": -1}})
    assert (reply.text, reply.usage) == ("Blue.", None)


async def test_log_probabilities_come_from_every_part_of_the_answer() -> None:
    decoding = Decoding(logprobs=2, extra={"reasoning": {"summary": "auto"}})
    request = Request("m", REQUEST.messages, decoding, 0, REQUEST.origin)
    with MockServer(answers={"A colour?": "Blue."}, reasoning="field") as server:
        reply = await ask(server.base_url, request)
    assert reply.text == "Blue."
    assert reply.reasoning is not None
    assert reply.reasoning.startswith("Let me think")
    assert reply.logprobs
    assert all(len(position) <= 3 for position in reply.logprobs)


def test_models_that_need_the_responses_api_are_found_by_name() -> None:
    assert parse_model_name("openai/o3-pro-2025-06-10")["backend"] == "openai_responses"
    assert parse_model_name("openai/gpt-5.5-pro")["preset"] == "openai"
    for name in ("gpt-4o", "o3", "gpt-5.5", "gpt-5-mini"):
        assert parse_model_name(f"openai/{name}")["backend"] == "openai"
    with pytest.raises(ConfigError, match="only through the Responses API"):
        OpenAIBackend(secret=str, concurrency=1, timeout_s=5, model="o3-pro")


def test_what_the_api_lacks_is_not_among_its_features() -> None:
    options: dict[str, Any] = {"secret": str, "concurrency": 1, "timeout_s": 5}
    features = OpenAIResponsesBackend(model="gpt-4o", **options).features
    assert {"temperature", "json_schema", "logprobs", "conversation"} <= features
    assert not {"seed", "stop", "regex", "prompt_logprobs"} & features
    assert "temperature" not in OpenAIResponsesBackend(model="o3-pro", **options).features
    assert "json_schema" not in OpenAIResponsesBackend("vllm", model="m", **options).features


async def test_reasoning_that_is_not_encrypted_is_not_sent_back() -> None:
    reasoning = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": None}
    reply = await answered(COMPLETED | {"output": [reasoning, *COMPLETED["output"]]})
    assert reply.reasoning_state is None


async def test_calls_of_functions_are_recorded_as_json() -> None:
    call = {"type": "function_call", "call_id": "1", "name": "pay", "arguments": '{"eur": 5}'}
    reply = await answered(COMPLETED | {"output": [ANSWER, call]})
    calls = [{"name": "pay", "arguments": {"eur": 5}}]
    assert json.loads(reply.text) == {"text": "Blue.", "tool_calls": calls}
    assert reply.finish_reason == "tool_calls"
