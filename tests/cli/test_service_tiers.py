"""Service tiers: asked for by name, and priced by what the reply reports."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.backends.answering import answering
from tests.cli.command import harness, mistake
from tests.installed import has_backend
from tests.rows import TASK

FILE = (
    f"\n{TASK}"
    + """model: {MODEL, base_url: URL, name: m, service_tier: flex, price: PRICE}
decoding: {max_tokens: 100}
limit: 1
"""
)
PRICE = "{input: 100, output: 1000, tiers: {flex: {input: 50, output: 500}}}"
USAGE = {"prompt_tokens": 10, "completion_tokens": 2}
REPLIES: dict[str, tuple[str, Any, Any]] = {
    "openai": (
        "backend: openai",
        {"choices": [{"message": {"content": "Blue."}}], "usage": USAGE, "service_tier": "TIER"},
        {"service_tier": "flex"},
    ),
    "responses": (
        "backend: openai_responses",
        {"output": [{"type": "message", "content": [{"type": "output_text", "text": "Blue."}]}],
         "usage": {"input_tokens": 10, "output_tokens": 2}, "service_tier": "TIER"},
        {"service_tier": "flex"},
    ),
    "gemini": (
        "backend: gemini",
        {"candidates": [{"content": {"parts": [{"text": "Blue."}]}}],
         "usageMetadata": {"promptTokenCount": 10, "candidatesTokenCount": 2,
                           "serviceTier": "TIER"}},
        {"serviceTier": "flex"},
    ),
    "bedrock": (
        "backend: bedrock, region: eu-central-1, api_key_env: MY_KEY",
        {"output": {"message": {"content": [{"text": "Blue."}]}}, "serviceTier": {"type": "TIER"},
         "usage": {"inputTokens": 10, "outputTokens": 2}},
        {"serviceTier": {"type": "flex"}},
    ),
}  # fmt: skip
REPLIES = {name: reply for name, reply in REPLIES.items() if has_backend(reply[0])}


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    folders = {f"HARNESS_{name}_DIR": str(tmp_path / name) for name in ("RUNS", "CACHE")}
    return os.environ | folders | {"MY_KEY": "sk-a-long-key"}


@pytest.mark.parametrize(
    ("tier", "cost"),
    [("flex", (10 * 50 + 2 * 500) / 1e6), ("default", (10 * 100 + 2 * 1000) / 1e6),
     ("priority", None)],
)  # fmt: skip
@pytest.mark.parametrize("protocol", REPLIES)
def test_a_call_is_priced_by_the_tier_that_answered(
    tmp_path: Path, environment: dict[str, str], protocol: str, tier: str, cost: float | None
) -> None:
    model, reply, sent = REPLIES[protocol]
    with answering(json.dumps(reply).replace("TIER", tier)) as (url, received):
        file = tmp_path / "one.yaml"
        text = FILE.replace("MODEL", model).replace("URL", url).replace("PRICE", PRICE)
        file.write_text(text)
        ended = harness("run", file, env=environment)
        assert ended.returncode == 0, ended.stderr
        again = harness("run", file, "-o", "model.service_tier=priority", env=environment)
        assert again.returncode == 0, again.stderr
    (body,) = (msgspec.json.decode(one.partition(b"\r\n\r\n")[2]) for one in received)
    assert body.items() >= sent.items()
    (line,) = (tmp_path / "RUNS" / "one" / "attempts.jsonl").read_bytes().splitlines()
    assert msgspec.json.decode(line)["cost_usd"] == (pytest.approx(cost) if cost else None)


def test_a_budget_needs_the_tiers_price(tmp_path: Path, environment: dict[str, str]) -> None:
    file = tmp_path / "one.yaml"
    price = "{input: 100, output: 1000}"
    text = FILE.replace("MODEL", "backend: openai").replace("URL", "http://127.0.0.1:9/v1")
    file.write_text(f"{text.replace('PRICE', price)}budget: {{usd: 1}}\n")
    said = mistake(harness("run", file, env=environment))
    assert "model.price.tiers.flex" in said
