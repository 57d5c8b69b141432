"""Prompts that a working provider never answers: the run ends with its table, also on resuming."""

from __future__ import annotations

import json
import os
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from harness.mock import MockRequest, MockServer
from tests.cli.command import harness

ROWS = 40


def answer(request: MockRequest, index: int) -> str:
    """Repeat the row's number, which thus identifies the judge's prompt too."""
    if request.model == "judge":
        return "It is fine. The coherency score is 5."
    return f"answer to {request.prompt}"


def outcomes(path: Path) -> Counter[str]:
    """Count the outcomes of the last lines, by instance."""
    lines = map(json.loads, path.read_text().splitlines())
    return Counter({line["instance"]: line["outcome"] for line in lines}.values())


@pytest.mark.parametrize(
    ("fault", "judged"), [("500", False), ("503", True), ("403", False), ("404", True)]
)
def test_two_faulty_prompts(tmp_path: Path, fault: str, judged: bool) -> None:
    rows = [{"question": f"row {number:02}.", "target": "answer"} for number in range(ROWS)]
    data, file = tmp_path / "rows.jsonl", tmp_path / "mine.yaml"
    data.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    faulty = ["answer to row 00", "answer to row 01"] if judged else ["row 00", "row 01"]
    environment = os.environ | {
        "HARNESS_RUNS_DIR": str(tmp_path / "runs"),
        "HARNESS_CACHE_DIR": str(tmp_path / "cache"),
        "OPENAI_API_KEY": "sk-none",
    }
    with MockServer(faults={fault: 1}, fault_on=faulty, answers=answer) as server:
        model = {"backend": "openai", "name": "m", "base_url": server.base_url}
        judge = {"name": "score", "samples": 1, "model": {**model, "name": "judge"}}
        run: dict[str, Any] = {
            "task": {
                "name": "jsonl",
                "path": str(data),
                "prompt": "{{ question }}",
                "checks": ["contains"],
            },
            "model": model,
            "judges": [judge] if judged else [],
            "limits": {"attempts": 2},
        }
        file.write_text(json.dumps(run))
        folder = tmp_path / "runs" / "mine"
        for _ in range(2):  # the second command resumes the run, with the faulty calls alone
            ended = harness("run", file, env=environment)
            assert ended.returncode == 1
            assert "Results in" in ended.stderr
            assert (folder / "metrics.json").exists()
            lines = "judgements.jsonl" if judged else "attempts.jsonl"
            assert outcomes(folder / lines) == {"ok": ROWS - 2, "error": 2}
