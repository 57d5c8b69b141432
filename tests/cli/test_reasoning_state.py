"""Encrypted and signed reasoning goes back with the answer in later rounds, also after a resume."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.backends.answering import answering
from tests.cli.command import harness
from tests.installed import has_backend
from tests.rows import TASK

FILE = (
    f"\n{TASK}"
    + """model: MODEL
decoding: {max_tokens: 100}
rounds: {max: 2}
limit: 1
"""
)
ITEMS: list[dict[str, Any]] = [
    {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAA=\u00e9"},
    {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed",
     "content": [{"type": "output_text", "text": "Blue.", "annotations": []}]},
]  # fmt: skip
BLOCKS = [
    {"type": "thinking", "thinking": "", "signature": "c2ln"},
    {"type": "redacted_thinking", "data": "b3BhcXVl"},
    {"type": "text", "text": "Blue.", "citations": None},
]
PARTS = [{"text": "Sky.", "thought": True}, {"text": "Blue.", "thoughtSignature": "c2ln"}]
CONVERSE = [
    {"reasoningContent": {"reasoningText": {"text": "Sky.", "signature": "c2ln"}}},
    {"text": "Blue."},
]
REPLIES: dict[str, tuple[str, dict[str, Any], list[str | int], Any]] = {
    "responses": (
        "{backend: openai_responses, base_url: URL, name: gpt-5.5-pro}",
        {"output": ITEMS, "status": "completed"},
        ["input"],
        ITEMS,
    ),
    "anthropic": (
        "{backend: anthropic, base_url: URL, name: m, prompt_caching: true}",
        {"content": BLOCKS, "stop_reason": "end_turn"},
        ["messages", 1, "content"],
        BLOCKS,
    ),
    "gemini": (
        "{backend: gemini, base_url: URL, name: m}",
        {"candidates": [{"content": {"parts": PARTS}, "finishReason": "STOP"}]},
        ["contents", 1, "parts"],
        PARTS,
    ),
    "bedrock": (
        "{backend: bedrock, region: eu-central-1, base_url: URL, name: m, api_key_env: MY_KEY}",
        {"output": {"message": {"content": CONVERSE}}, "stopReason": "end_turn"},
        ["messages", 1, "content"],
        CONVERSE,
    ),
}
REPLIES = {name: reply for name, reply in REPLIES.items() if has_backend(reply[0])}


def bodies(received: list[bytes]) -> list[Any]:
    return [msgspec.json.decode(one.partition(b"\r\n\r\n")[2]) for one in received]


@pytest.mark.parametrize("protocol", REPLIES)
def test_what_the_model_thought_is_sent_back_word_for_word(tmp_path: Path, protocol: str) -> None:
    model, reply, path, expected = REPLIES[protocol]
    folders = {f"HARNESS_{name}_DIR": str(tmp_path / name) for name in ("RUNS", "CACHE")}
    environment = os.environ | folders | {"MY_KEY": "sk-a-long-key"}
    with answering(json.dumps(reply)) as (url, received):
        file = tmp_path / "two.yaml"
        base = url.removesuffix("/v1") if protocol == "anthropic" else url
        file.write_text(FILE.replace("MODEL", model).replace("URL", base))
        ended = harness("run", file, env=environment)
        assert ended.returncode == 0, ended.stderr
        first, second = bodies(received)
        found = second
        for step in path:
            found = found[step]
        if protocol == "responses":
            assert first["include"] == ["reasoning.encrypted_content"]
            found = found[1:-1]
        assert found == expected
        # The run ends after round 1, and the cache is lost.
        attempts = tmp_path / "RUNS" / "two" / "attempts.jsonl"
        lines = attempts.read_bytes().splitlines(keepends=True)
        assert len(lines) == 2
        attempts.write_bytes(lines[0])
        shutil.rmtree(tmp_path / "CACHE")
        again = harness("run", file, env=environment)
        assert again.returncode == 0, again.stderr
        assert bodies(received)[2:] == [second]
