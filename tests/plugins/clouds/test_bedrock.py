"""Bedrock's Converse API: signatures checked by hand."""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

import pytest

from harness.errors import ConfigError, FatalCallError
from harness.plugins.clouds.bedrock import BedrockBackend
from harness.records import Decoding, DecodingConstraint, PromptCut, Reply, Request, Usage
from tests.backends.answering import answering, transient
from tests.backends.cloud_accounts import AWS, AWS_SECRET
from tests.backends.test_cloud import ASK, LIMITS, MODEL, REQUEST, ask


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
