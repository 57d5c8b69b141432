import json
from collections.abc import Mapping
from typing import Any

import pytest

from harness.errors import ConfigError, FatalCallError, PromptRefused, RequestRejected
from harness.plugins.clouds.google import GeminiBackend
from harness.plugins.mock.server import MockServer
from harness.records import Decoding, DecodingConstraint, Message, Origin, Reply, Request, Usage
from tests.backends.answering import answering, transient
from tests.backends.test_http import check_query

SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}}
REQUEST = Request(
    "gemini-9",
    (
        Message("system", "Be brief."),
        Message("user", "A colour?"),
        Message("assistant", "Red."),
        Message("user", "Another?"),
    ),
    Decoding(0.5, 64, stop=("END",), constraint=DecodingConstraint(json_schema=SCHEMA)),
    0,
    Origin("a", 0, 1),
    seed=7,
)
PLAIN = Request("m", (Message("user", "A colour?"),), Decoding(), 0, Origin("a", 0, 1))
ANSWERED: dict[str, Any] = {
    "candidates": [
        {
            "content": {"role": "model", "parts": [{"text": "Sky.", "thought": True},
                                                   {"text": "Blue"}, {"text": "."}]},
            "finishReason": "STOP",
        }
    ],
    "modelVersion": "gemini-9-001",
    "usageMetadata": {
        "promptTokenCount": 20,
        "candidatesTokenCount": 3,
        "thoughtsTokenCount": 9,
        "cachedContentTokenCount": 8,
        "totalTokenCount": 32,
    },
}  # fmt: skip


async def ask(url: str, request: Request = PLAIN, **options: Any) -> Reply:
    given = {"secret": lambda _: "key-1234", "concurrency": 1, "timeout_s": 5} | options
    backend = GeminiBackend(base_url=url, **given)
    try:
        return await backend.generate(request)
    finally:
        await backend.aclose()


async def answered(body: Mapping[str, Any], status: int = 200, request: Request = PLAIN) -> Reply:
    with answering(json.dumps(body), status) as (url, _):
        return await ask(url, request)


async def test_a_request_names_its_model_in_the_path_and_a_reply_is_taken_apart() -> None:
    with answering(json.dumps(ANSWERED)) as (url, received):
        reply = await ask(url, REQUEST, api_key_env="KEY")
    head, _, sent = received[0].partition(b"\r\n\r\n")
    assert b"POST /v1/models/gemini-9:generateContent " in head
    assert b"x-goog-api-key: key-1234" in head
    assert b"authorization" not in head.lower()
    assert json.loads(sent) == {
        "systemInstruction": {"parts": [{"text": "Be brief."}]},
        "contents": [
            {"role": "user", "parts": [{"text": "A colour?"}]},
            {"role": "model", "parts": [{"text": "Red."}]},
            {"role": "user", "parts": [{"text": "Another?"}]},
        ],
        "generationConfig": {
            "temperature": 0.5,
            "maxOutputTokens": 64,
            "stopSequences": ["END"],
            "seed": 7,
            "responseMimeType": "application/json",
            "responseJsonSchema": SCHEMA,
        },
    }
    assert reply == Reply("Blue.", "stop", Usage(20, 12, 8, 9), "gemini-9-001", reasoning="Sky.")


async def test_extra_settings_join_ours_and_choices_are_an_enumeration() -> None:
    extra = {"generationConfig": {"thinkingConfig": {"thinkingBudget": 0}}, "labels": {"a": "b"}}
    decoding = Decoding(constraint=DecodingConstraint(choices=("yes", "no")), extra=extra)
    with answering(json.dumps(ANSWERED)) as (url, received):
        await ask(url, Request("m", PLAIN.messages, decoding, 0, PLAIN.origin))
    sent = json.loads(received[0].partition(b"\r\n\r\n")[2])
    assert sent["labels"] == {"a": "b"}
    assert sent["generationConfig"] == {
        "responseMimeType": "text/x.enum",
        "responseSchema": {"type": "STRING", "enum": ["yes", "no"]},
        "thinkingConfig": {"thinkingBudget": 0},
    }


@pytest.mark.parametrize(
    ("reason", "finish"),
    [("MAX_TOKENS", "length"), ("SAFETY", "content_filter"), ("MALFORMED_RESPONSE",) * 2],
)
async def test_the_finish_reason(reason: str, finish: str) -> None:
    reply = await answered(ANSWERED | {"candidates": [{"finishReason": reason}]})
    assert (reply.text, reply.finish_reason) == ("", finish if finish != reason else reason.lower())


async def test_a_blocked_prompt_is_refused() -> None:
    with pytest.raises(PromptRefused, match="blocked the prompt: PROHIBITED_CONTENT"):
        await answered({"promptFeedback": {"blockReason": "PROHIBITED_CONTENT"}})


@pytest.mark.parametrize("body", ["", "{}", '{"candidates": []}', '{"candidates": [1]}'])
async def test_a_body_without_a_candidate_is_malformed(body: str) -> None:
    with answering(body) as (url, _), transient("malformed"):
        await ask(url)


def failure(code: int, *details: Mapping[str, Any]) -> dict[str, Any]:
    return {"error": {"code": code, "message": "No.", "status": "X", "details": details}}


async def test_an_invalid_key_ends_the_run_although_google_answers_400() -> None:
    with MockServer(api_key="right-key") as server:
        url = f"{server.url}/v1beta"
        with pytest.raises(FatalCallError, match="API key not valid") as caught:
            await ask(url, api_key_env="MY_KEY")
        assert "MY_KEY" in str(caught.value.remedy)
    with pytest.raises(RequestRejected):
        await answered(failure(400), 400)


async def test_a_country_without_a_free_tier_ends_the_run() -> None:
    error = {"code": 400, "message": "Enable billing.", "status": "FAILED_PRECONDITION"}
    with pytest.raises(FatalCallError, match=r"Enable billing\..*Check the account"):
        await answered({"error": error}, 400)


async def test_a_quota_per_minute_is_waited_for_and_one_per_day_ends_the_run() -> None:
    with pytest.raises(Exception, match="No\\.") as caught:
        await answered(failure(429, {"retryDelay": "17.5s"}), 429)
    assert getattr(caught.value, "retry_after", None) == 17.5
    quota = {"violations": [{"quotaId": "GenerateRequestsPerDayPerProjectPerModel-FreeTier"}]}
    with pytest.raises(FatalCallError, match="No\\."):
        await answered(failure(429, quota), 429)


async def test_log_probabilities_and_thoughts_come_from_the_server() -> None:
    extra = {"generationConfig": {"thinkingConfig": {"includeThoughts": True}}}
    request = Request("m", PLAIN.messages, Decoding(logprobs=2, extra=extra), 0, PLAIN.origin)
    with MockServer(answers={"A colour?": "Blue."}, reasoning="field") as server:
        reply = await ask(f"{server.url}/v1beta", request)
    assert (reply.text, reply.finish_reason, reply.model) == ("Blue.", "stop", "m")
    assert reply.reasoning is not None
    assert reply.logprobs
    assert reply.usage is not None
    assert 0 < reply.usage.reasoning_tokens < reply.usage.output_tokens


def test_a_project_and_a_key_exclude_each_other() -> None:
    with pytest.raises(ConfigError, match="exclude each other"):
        GeminiBackend("p", api_key_env="K", secret=str, concurrency=1, timeout_s=5)


async def test_calls_of_functions_are_recorded_as_json() -> None:
    parts = [{"functionCall": {"name": "pay", "args": {"eur": 5}}}]
    reply = await answered(ANSWERED | {"candidates": [{"content": {"parts": parts}}]})
    assert json.loads(reply.text) == {"tool_calls": [{"name": "pay", "arguments": {"eur": 5}}]}
    assert reply.finish_reason == "tool_calls"


async def test_the_query_of_a_base_url_is_sent_with_each_request() -> None:
    await check_query(GeminiBackend)
