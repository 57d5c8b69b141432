"""Credentials of clouds: tokens from a loopback token server, signatures checked by hand."""

from __future__ import annotations

import hashlib
import hmac
import json
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from msgspec.structs import replace

from harness.backends._cloud import vertex_url
from harness.backends.anthropic_vertex import AnthropicVertexBackend
from harness.backends.bedrock import BedrockBackend
from harness.backends.gemini import GeminiBackend
from harness.backends.openai import OpenAIBackend
from harness.errors import CallError, ConfigError, FatalCallError
from harness.plugins.mock.server import MockServer
from harness.records import (
    Decoding,
    DecodingConstraint,
    Message,
    Origin,
    PromptCut,
    Reply,
    Request,
    Usage,
)
from tests.backends.answering import answering, transient
from tests.backends.cloud_accounts import AWS, AWS_SECRET, TOKEN, google_account

MODEL = "eu.anthropic.claude-9-v1:0"
ASK = (Message("system", "Be brief."), Message("user", "A colour?"))
REQUEST = Request(MODEL, ASK, Decoding(0.5, 64, stop=("END",)), 0, Origin("a", 0, 1))
LIMITS: dict[str, Any] = {"concurrency": 1, "timeout_s": 5}


async def ask(backend: Any, request: Request = REQUEST) -> Reply:
    try:
        reply: Reply = await backend.generate(request)
        return reply
    finally:
        await backend.aclose()


# --- Google Cloud


@pytest.fixture
def account(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Makes an account with a token server the default one."""

    def choose(token_url: str) -> None:
        for name, value in google_account(tmp_path / "account.json", token_url).items():
            monkeypatch.setenv(name, value)

    return choose


async def test_a_token_is_fetched_once_and_never_shown(account: Callable[[str], None]) -> None:
    echo = {"error": {"code": 400, "message": "ya29.secret-token, gateway-secret refused"}}
    with answering(json.dumps(TOKEN)) as (tokens, asked):
        account(tokens)
        with answering(json.dumps(echo), 400) as (url, received):
            backend = GeminiBackend("p", "europe-west4", url, secret=str, **LIMITS)
            backend.client.add_headers({"X-Gateway": "gateway-secret"}, ["gateway-secret"])
            for _ in range(2):
                with pytest.raises(CallError) as caught:
                    await backend.generate(REQUEST)
                assert "ya29" not in str(caught.value)
                assert "gateway-secret" not in str(caught.value)
            await backend.aclose()
    assert len(asked) == 1
    assert b"assertion=" in asked[0]
    assert len(received) == 2
    path = f"/projects/p/locations/europe-west4/publishers/google/models/{quote(MODEL, safe='')}"
    for one in received:
        assert f"POST /v1{path}:generateContent ".encode() in one
        assert b"authorization: Bearer ya29.secret-token" in one
        assert b"gateway-secret" in one


async def test_anthropic_models_on_vertex(account: Callable[[str], None]) -> None:
    with (
        answering(json.dumps(TOKEN)) as (tokens, _),
        MockServer(answers={"A colour?": "Blue."}) as m,
    ):
        account(tokens)
        streams = replace(REQUEST, decoding=Decoding(max_tokens=30_000))
        for request in (REQUEST, streams):
            backend = AnthropicVertexBackend("p", base_url=f"{m.url}/v1", **LIMITS)
            reply = await ask(backend, request)
            assert (reply.text, reply.finish_reason, reply.model) == ("Blue.", "stop", MODEL)


async def test_credentials_that_are_refused_end_the_run(account: Callable[[str], None]) -> None:
    refused = {"error": "invalid_grant", "error_description": "Account has been deleted"}
    with answering(json.dumps(refused), 400) as (tokens, _):
        account(tokens)
        with pytest.raises(FatalCallError, match="Account has been deleted") as caught:
            await ask(GeminiBackend("p", base_url="http://127.0.0.1:9", secret=str, **LIMITS))
    assert "gcloud auth" in str(caught.value.remedy)


async def test_a_token_server_that_is_away_is_tried_again(account: Callable[[str], None]) -> None:
    account("http://127.0.0.1:9/token")
    with transient("unreachable"):
        await ask(GeminiBackend("p", base_url="http://127.0.0.1:9", secret=str, **LIMITS))


@pytest.mark.parametrize(
    ("location", "host"),
    [
        ("global", "aiplatform.googleapis.com"),
        ("eu", "aiplatform.eu.rep.googleapis.com"),
        ("europe-west4", "europe-west4-aiplatform.googleapis.com"),
    ],
)
def test_where_vertex_is(location: str, host: str) -> None:
    assert vertex_url(location) == f"https://{host}/v1"


# --- Entra ID


async def test_entra_id_replaces_the_key_of_azure(monkeypatch: pytest.MonkeyPatch) -> None:
    later = int(time.time()) + 3600
    token = {"access_token": "eyJ.entra-token", "expires_on": later, "token_type": "Bearer"}
    body = {"id": "f", "choices": [{"message": {"content": "Blue."}, "finish_reason": "stop"}]}
    with (
        answering(json.dumps(token)) as (identity, asked),
        answering(json.dumps(body)) as (url, sent),
    ):
        # the identity of an App Service, which needs no TLS
        monkeypatch.setenv("IDENTITY_ENDPOINT", identity)
        monkeypatch.setenv("IDENTITY_HEADER", "secret-header")
        backend = OpenAIBackend("azure_entra", url, secret=str, **LIMITS)
        replies = [await backend.generate(REQUEST) for _ in range(2)]
        assert await backend.upload_batch("tag", [("a-tag", REQUEST)]) == "f"
        await backend.aclose()
    assert [reply.text for reply in replies] == ["Blue.", "Blue."]
    assert (len(asked), len(sent)) == (1, 3)
    assert b"cognitiveservices.azure.com" in asked[0]
    assert all(b"authorization: Bearer eyJ.entra-token" in one for one in sent)


async def test_without_a_login_to_azure_the_run_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AZURE_TOKEN_CREDENTIALS", "EnvironmentCredential")
    with pytest.raises(FatalCallError, match="Entra ID") as caught:
        await ask(OpenAIBackend("azure_entra", "http://127.0.0.1:9", secret=str, **LIMITS))
    assert "az login" in str(caught.value.remedy)


# --- AWS


@pytest.fixture
def aws(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in AWS.items():
        monkeypatch.setenv(name, value)


def signature(head: Mapping[str, str], path: str, body: bytes, region: str) -> str:
    """The signature of a POST by AWS's specification of Signature Version 4."""
    scope, signed = head["authorization"].split("Credential=")[1].split(", ")[:2]
    _, day, where, service, end = scope.split("/")
    assert (where, service, end) == (region, "bedrock", "aws4_request")
    names = signed.removeprefix("SignedHeaders=").split(";")
    assert {"host", "x-amz-date", "x-amz-security-token"} <= set(names)
    listed = "".join(f"{name}:{head[name]}\n" for name in names)
    digest = hashlib.sha256(body).hexdigest()
    canonical = "\n".join(("POST", quote(path), "", listed, ";".join(names), digest))
    hashed = hashlib.sha256(canonical.encode()).hexdigest()
    said = "\n".join(("AWS4-HMAC-SHA256", head["x-amz-date"], scope.partition("/")[2], hashed))
    key = f"AWS4{AWS_SECRET}".encode()
    for part in (day, region, service, end, said):
        key = hmac.new(key, part.encode(), hashlib.sha256).digest()
    return key.hex()


ANSWERED: dict[str, Any] = {
    "output": {
        "message": {
            "role": "assistant",
            "content": [
                {"reasoningContent": {"reasoningText": {"text": "Sky."}}},
                {"text": "Blue."},
            ],
        }
    },
    "stopReason": "max_tokens",
    "usage": {"inputTokens": 5, "outputTokens": 2, "totalTokens": 7, "cacheReadInputTokens": 3,
              "cacheWriteInputTokens": 4},
}  # fmt: skip


@pytest.mark.usefixtures("aws")
async def test_a_request_to_bedrock_is_signed() -> None:
    schema = {"type": "object"}
    constraint = DecodingConstraint(json_schema=schema)
    decoding = Decoding(0.5, 64, stop=("END",), constraint=constraint)
    request = Request(MODEL, ASK, decoding, 0, REQUEST.origin)
    with answering(json.dumps(ANSWERED)) as (url, received):
        backend = BedrockBackend("eu-central-1", base_url=url, secret=str, **LIMITS)
        backend.client.add_headers({"X-Team": "evaluation"}, ())
        reply = await ask(backend, request)
    raw, _, body = received[0].partition(b"\r\n\r\n")
    first, *lines = raw.decode().split("\r\n")
    path = f"/v1/model/{quote(MODEL, safe='')}/converse"
    assert first == f"POST {path} HTTP/1.1"
    head = {name.lower(): value for name, value in (line.split(": ", 1) for line in lines)}
    expected = signature(head, path, body, "eu-central-1")
    assert head["authorization"].endswith(f"Signature={expected}")
    assert head["x-team"] == "evaluation"
    structure = {"jsonSchema": {"name": "answer", "schema": json.dumps(schema)}}
    assert json.loads(body) == {
        "system": [{"text": "Be brief."}],
        "messages": [{"role": "user", "content": [{"text": "A colour?"}]}],
        "inferenceConfig": {"temperature": 0.5, "maxTokens": 64, "stopSequences": ["END"]},
        "outputConfig": {"textFormat": {"type": "json_schema", "structure": structure}},
    }
    assert reply == Reply("Blue.", "length", Usage(12, 2, 3, 0, 4), reasoning="Sky.")


@pytest.mark.usefixtures("aws")
@pytest.mark.parametrize(
    ("cut", "system", "content"),
    [
        (PromptCut(1, 2), ["Be brief."], ["A ", None, "colour?"]),
        (PromptCut(1, 0), ["Be brief.", None], ["A colour?"]),
        (PromptCut(0, 9), ["Be brief.", None], ["A colour?"]),
    ],
)
async def test_the_shared_beginning_ends_with_a_cache_point(
    cut: PromptCut, system: list[str | None], content: list[str | None]
) -> None:
    options = LIMITS | {"prompt_caching": True, "prompt_cut": lambda messages: cut}
    with answering(json.dumps(ANSWERED)) as (url, received):
        await ask(BedrockBackend("eu-central-1", base_url=url, secret=str, **options))
    sent = json.loads(received[0].partition(b"\r\n\r\n")[2])
    point = {"cachePoint": {"type": "default"}}
    assert sent["system"] == [point if text is None else {"text": text} for text in system]
    found = sent["messages"][0]["content"]
    assert found == [point if text is None else {"text": text} for text in content]


@pytest.mark.usefixtures("aws")
async def test_without_credentials_the_run_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    with pytest.raises(FatalCallError, match="Unable to locate credentials") as caught:
        await ask(BedrockBackend("eu-central-1", secret=str, **LIMITS))
    assert "aws sso login" in str(caught.value.remedy)
    with pytest.raises(FatalCallError, match="could not be found"):
        await ask(BedrockBackend("eu-central-1", "work", secret=str, **LIMITS))


async def test_an_api_key_of_bedrock_replaces_the_credentials() -> None:
    options = LIMITS | {"secret": lambda _: "bedrock-api-key-1"}
    with answering(json.dumps(ANSWERED)) as (url, received):
        await ask(BedrockBackend("eu-central-1", None, url, "BEDROCK_KEY", **options))
    assert b"authorization: Bearer bedrock-api-key-1" in received[0]
    with pytest.raises(ConfigError, match="exclude each other"):
        BedrockBackend("eu-central-1", "work", None, "BEDROCK_KEY", **options)


@pytest.mark.usefixtures("aws")
@pytest.mark.parametrize(
    ("status", "kind"),
    [(424, "server_failed"), (408, "interrupted"), (429, "rate_limited"), (503, "overloaded")],
)
async def test_failures_of_bedrock_that_are_retried(status: int, kind: Any) -> None:
    with answering('{"message": "Later."}', status) as (url, _), transient(kind, "Later"):
        await ask(BedrockBackend("eu-central-1", base_url=url, secret=str, **LIMITS))


async def test_a_use_of_tools_on_bedrock_is_recorded_as_json() -> None:
    used = {"toolUse": {"toolUseId": "1", "name": "pay", "input": {"eur": 5}}}
    body = ANSWERED | {"output": {"message": {"role": "assistant", "content": [used]}}}
    options = LIMITS | {"secret": lambda _: "bedrock-api-key-1"}
    with answering(json.dumps(body)) as (url, _):
        reply = await ask(BedrockBackend("eu-central-1", None, url, "BEDROCK_KEY", **options))
    assert json.loads(reply.text) == {"tool_calls": [{"name": "pay", "arguments": {"eur": 5}}]}
