"""Credentials of Google Cloud: tokens from a loopback token server."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from harness.errors import CallError, FatalCallError
from harness.plugins.clouds.google import GeminiBackend, vertex_url
from harness.records import (
    Decoding,
    Message,
    Origin,
    Reply,
    Request,
)
from tests.backends.answering import answering, transient
from tests.backends.cloud_accounts import TOKEN, google_account

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
