"""`harness judge --retry`: what was asked anew in part goes on by the command that is told."""

from __future__ import annotations

import json
import os
import shlex
from pathlib import Path
from typing import Any

import msgspec

from harness.plugins.mock.server import MockServer
from harness.plugins.mock.wire import MockRequest
from tests.cli.command import harness

ROWS = 4
CALL = 0.1
"""US dollars of a judge's call at the most: 100 tokens."""


def test_a_budget_that_ends_a_retry_leaves_the_rest_to_the_command_that_is_told(
    tmp_path: Path,
) -> None:
    environment = os.environ | {"HARNESS_RUNS_DIR": str(tmp_path), "COLUMNS": "200"}
    mute = True

    def said(ask: MockRequest, _: int) -> str:
        if ask.model == "model":
            return "42"
        return "I cannot say." if mute else "Verdict: good"

    def last() -> dict[str, str]:
        path = tmp_path / "mine" / "judgements.jsonl"
        lines = map(msgspec.json.decode, path.read_bytes().splitlines())
        return {line["instance"]: line["outcome"] for line in lines}

    rows = tmp_path / "rows.jsonl"
    rows.write_text("".join(f'{{"id": "r{n}", "prompt": "{n}?"}}\n' for n in range(ROWS)))
    with MockServer(answers=said) as server:

        def model(name: str, price: int) -> dict[str, Any]:
            known = {"backend": "openai", "name": name, "base_url": server.base_url}
            return known | {"price": {"input": 0, "output": price}, "limits": {"concurrency": 1}}

        criteria = {"fine": {"question": "Is it?", "choices": {"good": 1, "bad": 0}}}
        judge = {"name": "choice", "max_tokens": 100, "criteria": criteria}
        content = {
            "task": {"name": "jsonl", "path": str(rows), "checks": [{"judge": "choice"}]},
            "model": {key: value for key, value in model("model", 0).items() if key != "limits"},
            "judges": [judge | {"model": model("judge", 1000)}],
        }
        (tmp_path / "mine.yaml").write_text(json.dumps(content))
        assert harness("run", tmp_path / "mine.yaml", env=environment).returncode == 0
        assert set(last().values()) == {"unparseable"}
        mute = False
        spent = json.loads((tmp_path / "mine" / "metrics.json").read_text())["cost_usd"]
        retry = ("judge", "mine", "--judge", "choice", "--retry", "unparseable")
        ended = harness(*retry, "--budget", f"{spent + CALL + 0.004:.4f}", env=environment)
        assert ended.returncode == 3, ended.stderr
        assert 0 < list(last().values()).count("ok") < ROWS
        told = ended.stderr.split("Then, to continue: harness ")[1].strip()
        again = shlex.split(told)
        again[again.index("--budget") + 1] = "100"
        assert harness(*again, env=environment).returncode == 0
        assert set(last().values()) == {"ok"}
