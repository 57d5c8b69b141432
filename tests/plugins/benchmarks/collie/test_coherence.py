"""COLLIE's judge of coherence: the shipped config from end to end, judge and model on loopback."""

import json
import os
from pathlib import Path
from typing import Any

import yaml

from harness.plugins.mock.server import MockServer
from harness.plugins.mock.wire import MockRequest
from tests.cli.command import ROOT, harness

CONFIG = ROOT / "configs" / "gpt4_collie_coherence.yaml"


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_passages_are_scored_by_the_mean_of_three_samplings(tmp_path: Path) -> None:
    said = iter(["8", "9", "ten"])

    def model(ask: MockRequest, index: int) -> str:
        if not ask.prompt.startswith("Analyze the following passage"):
            return "The coherency score is 1. Thus, the coherency score is 1."
        return f"It says that it is a 1. Thus, the coherency score is {next(said)}."

    (judge,) = yaml.safe_load(CONFIG.read_text())["judges"]
    with MockServer(answers=model) as server:
        judge["model"]["base_url"] = server.base_url
        ended = harness(
            *("run", CONFIG, "--limit", "13", "-o", "task.dataset=builtin"),
            *("-o", f"model.base_url={server.base_url}", "-o", f"judges={json.dumps([judge])}"),
            env=os.environ | {"HARNESS_RUNS_DIR": str(tmp_path)},
        )
        assert ended.returncode == 0, ended.stderr
        assert server.stats().requests == 13 + 3
    folder = tmp_path / CONFIG.stem
    (passage,) = (
        one["instance"]
        for one in lines(folder / "attempts.jsonl")
        if one["groups"]["structure"] == "pass01"
    )
    scored = {one["instance"]: one for one in lines(folder / "judgements.jsonl")}
    assert [one for one, found in scored.items() if found["scores"]] == [passage]
    assert scored[passage]["scores"]["coherence.score"]["value"] == 8.5
    details = scored[passage]["scores"]["coherence.score"]["details"]
    assert sorted(details["readings"], key=str) == [8.0, 9.0, None]
    metrics = json.loads((folder / "metrics.json").read_text())
    assert metrics["overall"]["n"] == 13
