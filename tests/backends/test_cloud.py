"""Credentials of Microsoft's cloud: tokens of Entra ID from a loopback token server."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from harness.backends.openai import OpenAIBackend
from harness.errors import FatalCallError
from harness.records import (
    Decoding,
    Message,
    Origin,
    Reply,
    Request,
)
from tests.backends.answering import answering

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
        await backend.aclose()
    assert [reply.text for reply in replies] == ["Blue.", "Blue."]
    assert (len(asked), len(sent)) == (1, 2)
    assert b"cognitiveservices.azure.com" in asked[0]
    assert all(b"authorization: Bearer eyJ.entra-token" in one for one in sent)


async def test_without_a_login_to_azure_the_run_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AZURE_TOKEN_CREDENTIALS", "EnvironmentCredential")
    with pytest.raises(FatalCallError, match="Entra ID") as caught:
        await ask(OpenAIBackend("azure_entra", "http://127.0.0.1:9", secret=str, **LIMITS))
    assert "az login" in str(caught.value.remedy)
