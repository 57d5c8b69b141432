"""Through the official SDK against a real server on loopback."""

import json
import socket
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path
from typing import Any, get_args
from urllib.parse import urlsplit

import pytest
from msgspec import UNSET
from msgspec.structs import replace

from harness.backends._bodies import Dialect
from harness.backends._responses import MAX_RESET_S
from harness.backends.openai import COMPATIBLE_PRESET, PRESETS, OpenAIBackend, resolve_preset
from harness.calls.keys import call_key, key_function
from harness.errors import (
    AccessDenied,
    CallError,
    ConfigError,
    FailureKind,
    FatalCallError,
    PromptRefused,
    RequestRejected,
    SecretMissing,
)
from harness.plugins.mock.server import MockServer
from harness.plugins.testing import check_backend
from harness.ports import (
    CONSTRAINTS,
    DECODING_PARAMETERS,
    LOGPROBS,
    PROMPT_LOGPROBS,
    SAMPLES_PER_CALL,
)
from harness.records import Decoding, DecodingConstraint, Message, Origin, Reply, Request, Usage
from tests.backends.answering import answering, transient

REQUEST = Request(
    "gpt-4",
    (Message("system", "Be brief."), Message("user", "Grüße?")),
    Decoding(0.7, 1000, 0.9, ("\n\n",)),
    0,
    Origin("a", 0, 1),
    seed=7,
)


def test_it_passes_the_checks_for_authors_of_plug_ins(mock_server: MockServer) -> None:
    backend = OpenAIBackend(
        None, mock_server.base_url, "KEY", secret=lambda _: "key", concurrency=4, timeout_s=10
    )
    assert check_backend(backend) == []


async def ask(
    base_url: str, request: Request = REQUEST, *, key: str = "sk-secret", timeout_s: float = 10
) -> Reply:
    backend = OpenAIBackend(
        None, base_url, "KEY", secret=lambda _: key, concurrency=4, timeout_s=timeout_s
    )
    try:
        return await backend.generate(request)
    finally:
        await backend.aclose()


def completion(**message: object) -> str:
    return json.dumps({"choices": [{"message": message, "finish_reason": "stop"}], "model": "m1"})


async def test_the_request_says_what_was_asked_and_nothing_else() -> None:
    with answering(completion(content="Hallo")) as (url, received):
        reply = await ask(url)
    head, _, body = received[0].partition(b"\r\n\r\n")
    assert json.loads(body) == {
        "model": "gpt-4",
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "Grüße?"},
        ],
        "temperature": 0.7,
        "max_tokens": 1000,
        "top_p": 0.9,
        "stop": ["\n\n"],
        "seed": 7,
    }
    assert b"authorization: bearer sk-secret" in head.lower()
    assert (reply.text, reply.finish_reason, reply.model, reply.usage) == (
        "Hallo",
        "stop",
        "m1",
        None,
    )


async def test_what_is_not_set_is_not_sent() -> None:
    bare = replace(REQUEST, decoding=Decoding(), seed=None)
    with answering(completion(content="Hallo")) as (url, received):
        await ask(url, bare)
    assert json.loads(received[0].partition(b"\r\n\r\n")[2]).keys() == {"model", "messages"}


@pytest.mark.parametrize(
    ("usage", "output"),
    [
        # xAI counts reasoning beside the completion, OpenAI in it; some tell no total.
        ({"prompt_tokens": 32, "completion_tokens": 9, "total_tokens": 428}, 396),
        ({"prompt_tokens": 32, "completion_tokens": 396, "total_tokens": 428}, 396),
        ({"prompt_tokens": 32, "completion_tokens": 396}, 396),
    ],
)
async def test_reasoning_is_output_wherever_it_is_counted(
    usage: dict[str, int], output: int
) -> None:
    body = {"choices": [{"message": {"content": "a"}}], "usage": usage}
    with answering(json.dumps(body)) as (url, _):
        reply = await ask(url)
    assert reply.usage is not None
    assert reply.usage.output_tokens == output


async def test_tokens_read_from_and_written_to_the_cache_are_counted() -> None:
    details = {"cached_tokens": 4, "cache_write_tokens": 5}
    usage = {"prompt_tokens": 10, "completion_tokens": 2, "prompt_tokens_details": details}
    body = {"choices": [{"message": {"content": "a"}}], "usage": usage}
    with answering(json.dumps(body)) as (url, _):
        reply = await ask(url)
    assert reply.usage == Usage(10, 2, 4, 0, 5)


@pytest.mark.parametrize("place", range(3))
async def test_answers_beside_a_choice_with_an_error_are_kept(place: int) -> None:
    choices: list[dict[str, Any]] = [{"message": {"content": text}} for text in "abc"]
    choices[place] = {"error": {"code": 502, "message": "upstream"}}
    usage = {"prompt_tokens": 10, "completion_tokens": 6}
    with answering(json.dumps({"choices": choices, "usage": usage})) as (url, _):
        reply = await ask(url, replace(REQUEST, others=(1, 2), seed=None))
    texts = [reply.text, *(other.text for other in reply.others.values())]
    assert texts == [text for text in "abc" if text != "abc"[place]]
    assert [*reply.others] == [1]  # the sample 2 is asked for again
    assert reply.usage == Usage(10, 6)


@pytest.mark.parametrize("name", ["prompt_cache_hit_tokens", "cached_tokens"])
async def test_cached_input_of_deepseek_and_kimi_is_recorded(name: str) -> None:
    usage = {"prompt_tokens": 10, "completion_tokens": 2, name: 4}
    body = {"choices": [{"message": {"content": "a"}}], "usage": usage}
    with answering(json.dumps(body)) as (url, _):
        reply = await ask(url)
    assert reply.usage == Usage(10, 2, 4)


@pytest.mark.parametrize(
    ("preset", "usage", "usd"),
    [
        ("openrouter", {"cost": 0.25}, 0.25),
        ("openrouter", {"cost": 0}, 0.0),
        ("openrouter", {"cost": 0.25, "is_byok": True}, UNSET),
        ("openrouter", {"cost": -1}, UNSET),
        ("openrouter", {}, UNSET),
        ("together", {"cost": 0.25}, UNSET),
    ],
)
async def test_the_cost_of_a_reply_is_what_openrouter_states(
    preset: str, usage: dict[str, Any], usd: object
) -> None:
    counts = {"prompt_tokens": 10, "completion_tokens": 2}
    body = {"choices": [{"message": {"content": "a"}}], "usage": counts | usage}
    with answering(json.dumps(body)) as (url, _):
        backend = OpenAIBackend(
            preset, url, "KEY", secret=lambda _: "key", concurrency=1, timeout_s=9
        )
        reply = await backend.generate(REQUEST)
        await backend.aclose()
    assert reply.cost_usd == usd
    assert reply.usage == Usage(10, 2)


async def test_usage_is_what_the_provider_counted(mock_server: MockServer) -> None:
    reply = await ask(mock_server.base_url)
    assert reply.text
    assert reply.usage is not None
    assert reply.usage.input_tokens > 0
    assert reply.usage.output_tokens > 0


async def test_max_tokens_ends_an_answer_with_length(mock_server: MockServer) -> None:
    short = replace(REQUEST, decoding=Decoding(max_tokens=1))
    assert (await ask(mock_server.base_url, short)).finish_reason == "length"


async def test_a_refusal_is_told_apart_from_an_answer() -> None:
    with answering(completion(content=None, refusal="I will not.")) as (url, _):
        reply = await ask(url)
    assert (reply.text, reply.finish_reason) == ("I will not.", "refusal")


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ('{"choices":[{"message":{"content":"half \\ud83d emoji"}}]}', "half \ufffd emoji"),
        ('{"choices":[{"message":{"content":[{"type":"text","text":"a"},{"text":"b"}]}}]}', "ab"),
        ('{"choices":[{"message":{"content":"a"}}],"usage":{"prompt_tokens":null}}', "a"),
        ('{"choices":[{"message":{"content":"a"}}],"usage":{"prompt_tokens":1e40}}', "a"),
        ('{"choices":[{"message":{"content":"a"}}],"usage":"many"}', "a"),
        (b'{"choices":[{"message":{"content":"a \xf0\x9f"}}]}', "a \ufffd\ufffd"),
        ('{"choices":[{"message":{"content":"a","reasoning":{"x":1},"refusal":false}}]}', "a"),
        ('{"choices":[{"message":{"content":["a",{"text":null}]},"finish_reason":5}]}', "a"),
    ],
)
async def test_an_answer_that_was_paid_for_is_not_lost_to_a_detail(
    body: str | bytes, text: str
) -> None:
    with answering(body) as (url, received):
        reply = await ask(url)
    assert (reply.text, reply.usage) == (text, None)
    assert len(received) == 1


async def test_another_encoding_is_an_error() -> None:
    body = '{"choices":[{"message":{"content":"Grüße"}}]}'.encode("latin-1")
    with (
        answering(body, headers="content-type: application/json; charset=latin-1\r\n") as (url, _),
        pytest.raises(RequestRejected, match="not in UTF-8") as raised,
    ):
        await ask(url)
    assert raised.value.billed


async def test_the_thinking_parts_of_mistral_are_reasoning() -> None:
    thinking = [{"type": "text", "text": "Two and "}, {"type": "text", "text": "two."}]
    content = [{"type": "thinking", "thinking": thinking}, {"type": "text", "text": "4"}]
    with answering(completion(content=content)) as (url, _):
        reply = await ask(url)
    assert (reply.text, reply.reasoning) == ("4", "Two and two.")


FILTERED_CHOICE = {"index": 0, "finish_reason": "content_filter", "content_filter_results": {}}


async def test_azures_filter_refuses_with_a_choice_that_has_no_message() -> None:
    with answering(json.dumps({"choices": [FILTERED_CHOICE]})) as (url, _):
        reply = await ask(url)
    assert (reply.text, reply.finish_reason) == ("", "content_filter")


async def test_azures_filter_refuses_with_a_completion_that_has_the_status_400() -> None:
    body = json.dumps({"id": "x", "object": "chat.completion", "choices": [FILTERED_CHOICE]})
    with answering(body, 400) as (url, _), pytest.raises(PromptRefused):
        await ask(url)


async def test_no_choices_are_named() -> None:
    with answering('{"choices": []}') as (url, _), transient("malformed", "choices is empty"):
        await ask(url)


async def test_a_server_that_requires_another_name_for_max_tokens_is_explained() -> None:
    message = "'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead."
    body = {"error": {"message": message, "code": "unsupported_parameter"}}
    with answering(json.dumps(body), 400) as (url, _), pytest.raises(FatalCallError) as raised:
        await ask(url)
    assert "model.preset: openai" in raised.value.remedy


@pytest.mark.parametrize(
    "reason", ["error", "abort", "insufficient_system_resource", "network_error"]
)
async def test_a_server_that_gives_up_has_not_answered(reason: str) -> None:
    body = f'{{"choices":[{{"message":{{"content":"a"}},"finish_reason":"{reason}"}}]}}'
    with answering(body) as (url, _), transient("interrupted"):
        await ask(url)


@pytest.mark.parametrize("in_choice", [False, True], ids=["body", "choice"])
@pytest.mark.parametrize(
    ("error", "kind"),
    [
        ({"code": 400, "message": "no"}, RequestRejected),
        ({"code": 402, "message": "no"}, FatalCallError),
        ({"code": 403, "message": "no"}, AccessDenied),
        ({"code": 403, "message": "no", "metadata": {"reasons": ["x"]}}, PromptRefused),
        ({"code": "404", "message": "no"}, AccessDenied),
        ({"code": 429, "message": "no"}, "rate_limited"),
        ({"code": 502, "message": "no"}, "server_failed"),
        ({"code": 503, "message": "no"}, "overloaded"),
        ({"code": "rate_limit_exceeded", "message": "no"}, "rate_limited"),
        ({"code": "insufficient_quota", "message": "no"}, FatalCallError),
        ({"code": 0, "message": "no"}, "malformed"),
        ({"code": None, "message": "no"}, "malformed"),
    ],
)
async def test_an_error_in_a_successful_response_is_treated_by_its_code(
    error: dict[str, Any], kind: type[CallError] | str, in_choice: bool
) -> None:
    choice = {"message": {"content": "Half an"}, "finish_reason": "error", "error": error}
    body = {"choices": [choice]} if in_choice else {"error": error}
    with (
        answering(json.dumps(body)) as (url, _),
        pytest.raises(CallError, match="no") as found,
    ):
        await ask(url)
    treated = found.value.kind or type(found.value)
    assert treated == kind
    if kind != "malformed":
        assert found.value.billed == in_choice


async def test_a_key_that_a_body_echoes_is_not_shown() -> None:
    with (
        answering("your key is sk-secret" * 20) as (url, _),
        transient("malformed") as caught,
    ):
        await ask(url)
    assert "sk-s" not in str(caught.value)


async def test_another_host_gets_nothing_from_the_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OPENAI_ORG_ID", "org-secret")
    monkeypatch.setenv("OPENAI_PROJECT_ID", "proj-secret")
    monkeypatch.setenv("OPENAI_CUSTOM_HEADERS", "x-custom: tok-secret")
    with answering(completion(content="Hallo")) as (url, received):
        await ask(url, key="sk-1")
    assert b"-secret" not in received[0]


async def test_null_content_is_an_empty_answer() -> None:
    with answering(completion(content=None)) as (url, _):
        assert (await ask(url)).text == ""


@pytest.mark.parametrize(
    "body",
    ["", "{", "null", "[]", "{}", '{"choices":[]}', '{"choices":[{}]}', "<html>busy</html>",
     '{"x":' + "[" * 100_000,
     '{"choices":[{"message":{"content":7}}]}', b"\xff\xfe"],
)  # fmt: skip
async def test_a_body_that_is_no_completion_is_malformed(body: str | bytes) -> None:
    with answering(body) as (url, _), transient("malformed"):
        await ask(url)


@pytest.mark.parametrize("odd", ["x: " + "a" * 20_000, "no header", "transfer-encoding: chunked"])
async def test_a_server_that_does_not_speak_http_has_not_answered(odd: str) -> None:
    with answering("{}", headers=f"{odd}\r\n") as (url, _), transient("malformed"):
        await ask(url)


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, RequestRejected),
        (425, "server_failed"),
        (498, "overloaded"),
        (401, FatalCallError),
        (403, FatalCallError),
        (404, FatalCallError),
        (408, "interrupted"),
        (409, "server_failed"),
        (413, RequestRejected),
        (422, RequestRejected),
        (429, "rate_limited"),
        (500, "server_failed"),
        (503, "overloaded"),
        (504, "interrupted"),
        (529, "overloaded"),
    ],
)
async def test_each_status_is_an_error_of_ours(
    status: int, kind: type[CallError] | FailureKind
) -> None:
    body = '{"error": {"message": "what was wrong with sk-secret", "code": null}}'
    expected = transient(kind) if isinstance(kind, str) else pytest.raises(kind)
    with answering(body, status) as (url, received), expected as caught:
        await ask(url)
    assert str(status) in caught.value.message
    assert "what was wrong" in caught.value.message
    assert "sk-secret" not in str(caught.value)
    assert len(received) == 1, "the SDK must not retry"


@pytest.mark.parametrize(
    ("path", "hint"),
    [
        ("", "Did you mean {url}/v1?"),
        ("/v1/chat/completions", "Remove /chat/completions from the end of model.base_url."),
        ("/v1", "Check model.name ('gpt-4') and model.base_url in the run file."),
    ],
)
async def test_an_unknown_path_is_explained_by_the_base_url(path: str, hint: str) -> None:
    with answering("{}", 404) as (base, _):
        url = base.removesuffix("/v1")
        with pytest.raises(FatalCallError) as caught:
            await ask(url + path)
    assert str(caught.value.remedy).endswith(hint.format(url=url))


async def test_a_spent_account_is_not_a_rate_limit() -> None:
    body = '{"error": {"message": "no credit", "code": "insufficient_quota"}}'
    with answering(body, 429) as (url, _), pytest.raises(FatalCallError, match="credit"):
        await ask(url)


@pytest.mark.parametrize(
    ("message", "kind"),
    [
        ("Rate limit exceeded for api_key: 1. Limit type: max_parallel_requests.", "crowded"),
        ("id=1 already has max_parallel_requests=2 requests in flight.", "crowded"),
        ("Max parallel request limit reached Hit Global Limit: Limit=2", "crowded"),
        ("Number of concurrent connections has exceeded your rate limit.", "crowded"),
        ("max organization concurrency: 1, please try again after 1 seconds", "crowded"),
        ("Rate limit exceeded for api_key: 1. Limit type: requests.", "rate_limited"),
        ("Crossed TPM / RPM / Max Parallel Request Limit. rpm limit: 1", "rate_limited"),
    ],
)
async def test_too_many_calls_at_once_are_no_rate_limit(message: str, kind: FailureKind) -> None:
    body = json.dumps({"error": {"message": message}})
    with answering(body, 429, "retry-after: 60\r\n") as (url, _), transient(kind) as caught:
        await ask(url)
    assert caught.value.retry_after == (None if kind == "crowded" else 60)
    with answering(body, 400) as (url, _), pytest.raises(RequestRejected):
        await ask(url)


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ("retry-after: 3\r\n", 3.0),
        ("retry-after-ms: 250\r\nretry-after: 3\r\n", 0.25),
        ("retry-after-ms: soon\r\nretry-after: 3\r\n", 3.0),
        ("retry-after: 86400\r\n", 86_400.0),
        ("retry-after: inf\r\n", MAX_RESET_S),
        ("retry-after: Wed, 21 Oct 2015 07:28:00 GMT\r\n", 0.0),
        ("retry-after: Wed, 21 Oct 2999 07:28:00 GMT\r\n", MAX_RESET_S),
        ("retry-after: Wed, 21 Oct 2999 07:28:00\r\n", None),
        ("retry-after: Wed, 41 Oct 2999 07:28:00 GMT\r\n", None),
        ("retry-after: nan\r\n", None),
        ("retry-after: -3\r\n", None),
        ("", None),
    ],
)
async def test_retry_after_is_read(headers: str, seconds: float | None) -> None:
    kinds: dict[int, FailureKind] = {429: "rate_limited", 503: "overloaded"}
    for status, kind in kinds.items():
        with answering("{}", status, headers) as (url, _), transient(kind) as caught:
            await ask(url)
        assert caught.value.retry_after == seconds


async def test_retry_after_may_be_a_time_to_come() -> None:
    then = format_datetime(datetime.now(UTC) + timedelta(seconds=60), usegmt=True)
    with (
        answering("{}", 429, f"retry-after: {then}\r\n") as (url, _),
        transient("rate_limited") as caught,
    ):
        await ask(url)
    assert caught.value.retry_after == pytest.approx(60, abs=5)


FILTERED: list[tuple[int, dict[str, Any]]] = [
    (403, {"code": 403, "metadata": {"reasons": ["violence"], "flagged_input": "…"}}),
    (400, {"code": "content_filter"}),
    (400, {"code": "x", "innererror": {"code": "ResponsibleAIPolicyViolation"}}),
    (
        400,
        {
            "code": "invalid_prompt",
            "message": "flagged as potentially violating our usage policy",
        },
    ),
]


@pytest.mark.parametrize(("status", "error"), FILTERED)
async def test_a_prompt_that_the_filter_refuses_is_no_failure(
    status: int, error: dict[str, Any]
) -> None:
    body = {"error": {"message": "flagged"} | error}
    with (
        answering(json.dumps(body), status) as (url, _),
        pytest.raises(PromptRefused, match="flagged"),
    ):
        await ask(url)


async def test_a_wrong_key_names_the_variable_and_not_the_key() -> None:
    with MockServer(api_key="sk-right") as server, pytest.raises(FatalCallError) as caught:
        await ask(server.base_url, key="sk-secret")
    assert "KEY" in caught.value.remedy
    assert "sk-secret" not in str(caught.value)


async def test_an_unknown_model_is_named() -> None:
    with MockServer(models=["gpt-9"]) as server, pytest.raises(FatalCallError, match="gpt-4"):
        await ask(server.base_url)


async def test_a_refused_connection_is_not_a_time_out() -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with transient("unreachable", match="base_url"):
        await ask(f"http://127.0.0.1:{port}/v1")


async def test_an_unknown_host_cannot_be_reached() -> None:
    with transient("unreachable"):
        await ask("http://no-such-host.invalid/v1")


async def test_a_connection_that_breaks_may_have_been_paid_for() -> None:
    for fault in ("reset", "truncated_body"):
        with MockServer(faults={fault: 1.0}) as server, transient("connection_lost"):
            await ask(server.base_url)


def test_openai_itself_needs_its_key_and_another_host_never_gets_it() -> None:
    asked: list[str] = []

    def secret(variable: str) -> str:
        asked.append(variable)
        raise SecretMissing(variable)

    with pytest.raises(SecretMissing):
        OpenAIBackend(secret=secret, concurrency=1, timeout_s=1)
    with pytest.raises(SecretMissing):
        OpenAIBackend("groq", secret=secret, concurrency=1, timeout_s=1)
    for preset in (None, "openai", "groq"):
        OpenAIBackend(preset, "http://localhost:1/v1", secret=secret, concurrency=1, timeout_s=1)
    assert asked == ["OPENAI_API_KEY", "GROQ_API_KEY"]


@pytest.mark.parametrize(
    "url", ["localhost:8000", "ftp://x/v1", "http://", "/v1", "http://[x", "http://x:99999"]
)
def test_a_base_url_must_be_one(url: str) -> None:
    with pytest.raises(ConfigError, match="base_url"):
        OpenAIBackend(None, url, secret=str, concurrency=1, timeout_s=1)


def test_a_base_url_may_hold_no_password() -> None:
    with pytest.raises(ConfigError) as caught:
        OpenAIBackend(None, "http://me:hunter2@x/v1", secret=str, concurrency=1, timeout_s=1)
    assert "hunter2" not in str(caught.value)


def test_a_trailing_slash_is_the_same_endpoint() -> None:
    url = "https://api.openai.com/v1"
    one, two = (
        OpenAIBackend(None, u, "K", secret=str, concurrency=1, timeout_s=1)
        for u in (url, url + "/")
    )
    assert one.endpoint == two.endpoint == url


async def test_reasoning_is_kept_apart_from_the_answer() -> None:
    for message in (
        {"content": "Yes.", "reasoning_content": "Hm."},
        {"content": "Yes.", "reasoning": "Hm."},
    ):
        with answering(completion(**message)) as (url, _):
            reply = await ask(url)
        assert (reply.text, reply.reasoning) == ("Yes.", "Hm.")


async def test_a_preset_speaks_the_providers_dialect() -> None:
    with answering(completion(content="Hallo")) as (url, received):
        for preset in ("groq", "mistral", "google"):
            backend = OpenAIBackend(preset, url, secret=str, concurrency=1, timeout_s=5)
            request = REQUEST if "seed" in backend.features else replace(REQUEST, seed=None)
            await backend.generate(request)
            await backend.aclose()
    sent = [json.loads(data.partition(b"\r\n\r\n")[2]).keys() for data in received]
    plain = {"model", "messages", "temperature", "top_p", "stop"}
    assert sent == [
        plain | {"max_completion_tokens", "seed"},
        plain | {"max_tokens", "random_seed"},
        plain | {"max_tokens"},
    ]


async def test_extra_fields_are_sent_as_they_stand() -> None:
    decoding = Decoding(extra={"reasoning_effort": "high"})
    with answering(completion(content="Hallo")) as (url, received):
        await ask(url, replace(REQUEST, decoding=decoding))
    assert json.loads(received[0].partition(b"\r\n\r\n")[2])["reasoning_effort"] == "high"


async def test_a_parameter_that_the_model_refuses_ends_the_run() -> None:
    body = '{"error": {"message": "no temperature", "code": "unsupported_parameter"}}'
    with answering(body, 400) as (url, _), pytest.raises(FatalCallError, match="decoding"):
        await ask(url)


@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_is_one_line_in_a_run_file(name: str) -> None:
    preset = PRESETS[name]
    found, url, key = resolve_preset(name, None if preset.url else preset.hint, None)
    assert (found, key) == (preset, preset.key)
    assert urlsplit(url).hostname
    known = (
        DECODING_PARAMETERS | CONSTRAINTS | {"free", LOGPROBS, PROMPT_LOGPROBS, SAMPLES_PER_CALL}
    )
    assert preset.features("some-model") <= known
    local = preset.key is None and not preset.entra
    assert ("free" in preset.features("some-model")) == local
    assert url.startswith("http://localhost:") == local


def test_openai_is_the_default_and_a_bare_url_is_any_compatible_server() -> None:
    assert resolve_preset(None, None, None)[0] is PRESETS["openai"]
    assert resolve_preset(None, "http://localhost:1/v1", None) == (
        COMPATIBLE_PRESET,
        "http://localhost:1/v1",
        None,
    )


def test_a_presets_key_goes_to_its_own_host_only() -> None:
    assert resolve_preset("groq", "https://proxy.example.org/v1", None)[2] is None
    assert resolve_preset("groq", "https://proxy.example.org/v1", "PROXY_KEY")[2] == "PROXY_KEY"
    assert resolve_preset("azure", "https://mine.openai.azure.com/openai/v1", None)[2] == (
        "AZURE_OPENAI_API_KEY"
    )


def test_a_mistyped_preset_and_a_missing_url_are_told() -> None:
    with pytest.raises(ConfigError, match="Did you mean 'openrouter'"):
        resolve_preset("openruoter", None, None)
    with pytest.raises(ConfigError, match="RESOURCE"):
        resolve_preset("azure", None, None)


def table() -> str:
    """The presets as a Markdown table."""
    lines = [
        "| `preset:` | server | base URL | key in | seed |",
        "|---|---|---|---|---|",
    ]
    for name, preset in PRESETS.items():
        url = f"`{preset.url}`" if preset.url else f"yours, like `{preset.hint}`"
        key = f"`{preset.key}`" if preset.key else "Entra ID" if preset.entra else "none"
        seed = "yes" if preset.seed else "not supported"
        lines.append(f"| `{name}` | {preset.title} | {url} | {key} | {seed} |")
    return "\n".join(lines)


def test_the_documentation_has_the_table_of_the_code() -> None:
    page = Path(__file__).parents[2] / "docs" / "providers.md"
    if not page.exists():
        pytest.skip("no docs beside the package")
    assert table() in page.read_text()


@pytest.mark.parametrize(
    ("model", "takes"),
    [("gpt-4", True), ("gpt-4o-mini", True), ("gpt-5.1", True), ("o3", False), ("o4-mini", False),
     ("gpt-5", False), ("gpt-5-nano", False), ("o1-2024-12-17", False), ("o3x", True)],
)  # fmt: skip
def test_models_that_sample_in_one_way_take_no_temperature(model: str, takes: bool) -> None:
    assert ({"temperature", "top_p"} <= PRESETS["openai"].features(model)) is takes
    assert "temperature" in COMPATIBLE_PRESET.features(model)


CONSTRAINED = {
    "json_schema": DecodingConstraint(json_schema={"type": "object"}),
    "regex": DecodingConstraint(regex="a+"),
    "choices": DecodingConstraint(choices=("a", "b")),
    "grammar": DecodingConstraint(grammar='root ::= "a"'),
}


@pytest.mark.parametrize("kind", CONSTRAINED)
@pytest.mark.parametrize("home", [*PRESETS, None])
def test_replies_are_shared_only_if_the_constraint_is_sent_alike(
    kind: Any, home: str | None
) -> None:
    check_sharing(OpenAIBackend, kind, home)


def check_sharing(plugin: type[OpenAIBackend], kind: Any, home: str | None) -> None:
    """Check that calls with a constraint share replies only if it is sent in the same field."""
    url = (home and PRESETS[home].url) or "http://127.0.0.1:9/v1"
    owner = next((name for name, preset in PRESETS.items() if preset.url == url), None)
    request = replace(REQUEST, decoding=Decoding(constraint=CONSTRAINED[kind]))
    sent: dict[str, dict[str, Any]] = {}
    for name in PRESETS:
        backend = plugin(name, url, "KEY", secret=lambda _: "k", concurrency=1, timeout_s=1)
        if kind not in backend.features:
            continue
        key, body = key_function("openai", backend)(request), backend.body(request)
        fields = {field: body.get(field) for field in get_args(Dialect)}
        assert sent.setdefault(key, fields) == fields
        if name == home == owner:
            assert key == call_key("openai", url, request), "earlier versions cached it so"
        free = replace(request, decoding=Decoding())
        assert key_function("openai", backend)(free) == call_key("openai", url, free)


async def test_calls_of_tools_are_recorded_as_json() -> None:
    given = [
        {"id": "1", "type": "function", "function": {"name": "pay", "arguments": '{"eur": 5}'}},
        {"id": "2", "type": "function", "function": {"name": "end", "arguments": '{"cut'}},
        "invalid",
    ]
    for content, text in ((None, {}), ("Done.", {"text": "Done."})):
        with answering(completion(content=content, tool_calls=given)) as (url, _):
            reply = await ask(url)
        calls = [{"name": "pay", "arguments": {"eur": 5}}, {"name": "end", "arguments": '{"cut'}]
        assert json.loads(reply.text) == text | {"tool_calls": calls}
        assert reply.finish_reason == "tool_calls", "the server reports stop"
    with answering(completion(content="No.", tool_calls=[])) as (url, _):
        assert (await ask(url)).text == "No."
