"""Calls a second through the harness, beside a bare client's on the same server."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
import yaml

from tests.plugins.vllm.real.conftest import ROOT, descendants, memory_mb, server

pytestmark = [pytest.mark.timed, pytest.mark.timeout(600)]

CALLS, CONCURRENCY, MAX_TOKENS, TURNS = 500, 64, 16, 5
LEAST_SHARE = 0.9


def test_the_harness_does_not_slow_a_server_down(
    model: Path, tmp_path: Path, figures: list[str]
) -> None:
    ours, bare = [], []
    with server(model, tmp_path) as (root, pid):
        url = f"{root}/v1"
        bare_run(url, tmp_path, -1)  # the first calls of a server are its slowest
        for turn in range(TURNS):
            ours.append(harness_run(url, tmp_path, turn))
            bare.append(bare_run(url, tmp_path, turn))
        memory = memory_mb([pid, *descendants(pid)])
    # The best turn of each: the others have met what else the machine was doing.
    rates = [max(calls for calls, _ in found) for found in (ours, bare)]
    tokens = max(tokens for _, tokens in ours)
    figures.append(
        f"{CONCURRENCY} at once, {MAX_TOKENS} tokens: harness {rates[0]:.1f} calls/s "
        f"({tokens:,.0f} tokens/s), bare client {rates[1]:.1f}: {rates[0] / rates[1]:.2f} of it "
        f"(the best of {TURNS} turns each, by turns); "
        f"the server holds {memory:,.0f} MB"
    )
    assert rates[0] >= LEAST_SHARE * rates[1]


def prompts(name: str) -> list[str]:
    """No two clients' are alike, so that none has the other's in the prefix cache."""
    return [f"{name} {number}: what is by the sea?" for number in range(CALLS)]


def bare_run(url: str, folder: Path, turn: int) -> tuple[float, float]:
    """Calls and tokens a second."""
    asked = folder / "prompts.json"
    asked.write_text(json.dumps(prompts(f"bare {turn}")))
    script = Path(__file__).with_name("bare_client.py")
    ended = subprocess.run(
        [sys.executable, script, url, asked, f"{CONCURRENCY}", f"{MAX_TOKENS}"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr
    seconds, tokens = map(float, ended.stdout.split())
    return CALLS / seconds, tokens / seconds


def harness_run(url: str, folder: Path, turn: int) -> tuple[float, float]:
    """Calls and tokens a second, from the first call's beginning to the last line's."""
    rows = folder / "rows.jsonl"
    rows.write_text(
        "".join(
            json.dumps({"id": f"{n}", "prompt": prompt, "target": "e"}) + "\n"
            for n, prompt in enumerate(prompts(f"ours {turn}"))
        )
    )
    file = folder / f"turn{turn}.yaml"
    file.write_text(
        yaml.safe_dump(
            {
                "task": {
                    "name": "jsonl",
                    "path": str(rows),
                    "prompt": "{{ prompt }}",
                    "checks": [{"regex_match": {"pattern": "e"}}],
                },
                "model": {"backend": "vllm_server", "name": "tiny", "base_url": url},
                "decoding": {"temperature": 1.0, "max_tokens": MAX_TOKENS},
                "limits": {"concurrency": CONCURRENCY},
            }
        )
    )
    folders = {"HARNESS_RUNS_DIR": f"{folder}/runs", "HARNESS_CACHE_DIR": f"{folder}/cache"}
    ended = subprocess.run(
        [sys.executable, "-m", "harness", "run", file],
        cwd=ROOT, env=os.environ | folders, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr
    lines = (folder / "runs" / file.stem / "attempts.jsonl").read_bytes().splitlines()
    found = [msgspec.json.decode(line) for line in lines]
    assert len(found) == CALLS
    seconds = max(one["ended_at"] for one in found) - min(one["started_at"] for one in found)
    return CALLS / seconds, sum(one["usage"]["output_tokens"] for one in found) / seconds
