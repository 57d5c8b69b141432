"""Anthropic's models on Vertex AI, with tokens from a loopback token server."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from msgspec.structs import replace

from harness.plugins.clouds.google import AnthropicVertexBackend
from harness.plugins.mock.server import MockServer
from harness.records import Decoding
from tests.backends.answering import answering
from tests.backends.cloud_accounts import TOKEN, google_account
from tests.backends.test_cloud import LIMITS, MODEL, REQUEST, ask


async def test_anthropic_models_on_vertex(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with (
        answering(json.dumps(TOKEN)) as (tokens, _),
        MockServer(answers={"A colour?": "Blue."}) as m,
    ):
        for name, value in google_account(tmp_path / "account.json", tokens).items():
            monkeypatch.setenv(name, value)
        streams = replace(REQUEST, decoding=Decoding(max_tokens=30_000))
        for request in (REQUEST, streams):
            backend = AnthropicVertexBackend("p", base_url=f"{m.url}/v1", **LIMITS)
            reply = await ask(backend, request)
            assert (reply.text, reply.finish_reason, reply.model) == ("Blue.", "stop", MODEL)
