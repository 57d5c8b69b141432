"""What the clouds' backends send of a request and of the run file's headers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.backends.test_parameters import check_parameters
from tests.engine.test_models import SECRET, check_headers

OPTIONS: dict[str, dict[str, Any]] = {
    "anthropic_vertex": {"project": "p"},
    "gemini": {},
    "bedrock": {"region": "eu-central-1", "api_key_env": "MY_KEY"},
}


@pytest.mark.parametrize("name", OPTIONS)
def test_seeds_and_logprobs_are_sent_or_not_supported(name: str) -> None:
    check_parameters(name, OPTIONS[name])


@pytest.mark.parametrize(
    "options",
    [
        {"backend": "bedrock", "api_key_env": "GATEWAY_TOKEN", "region": "eu-central-1"},
        {"backend": "gemini"},
    ],
)
async def test_headers_are_sent_and_their_secrets_masked(
    options: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GATEWAY_TOKEN", SECRET)
    await check_headers(options, tmp_path)
