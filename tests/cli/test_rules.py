"""Rules beside a judge, from the run file to `harness show --rules`, on the loopback server."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from harness.plugins.mock.answers import Answer
from harness.plugins.mock.server import MockServer
from harness.plugins.mock.wire import MockRequest
from tests.cli.command import harness, mistake

ROWS: list[dict[str, Any]] = [
    {"id": f"short-{n}", "task": f"Say {n} words.", "constraints": ["Use at most 3 words.", "Be."]}
    for n in range(1, 7)
]


def answer(ask: MockRequest, _: int) -> str | Answer:
    """Of the model n words; of a judge always yes."""
    if "<judged_text>" in ask.prompt:
        return Answer("Yes", [{"Yes": -0.01, "No": -5.0}])
    return "word " * int(ask.prompt.split()[1])


@pytest.fixture
def server() -> Iterator[MockServer]:
    with MockServer(answers=answer) as running:
        yield running


def run(folder: Path, server: MockServer, task: str, judge: str, name: str) -> list[dict[str, Any]]:
    rows = folder / "rows.jsonl"
    rows.write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    model = {"backend": "openai", "name": "m", "base_url": server.base_url}
    file = folder / f"{name}.yaml"
    content = {
        "task": {"name": "wildifeval", "dataset": str(rows), "rules": task},
        "model": model,
        "judges": [{"name": "yes_no", "rules": judge, "model": {**model, "name": "j"}}],
    }
    file.write_text(json.dumps(content))
    ended = harness("run", file)
    assert ended.returncode == 0, ended.stderr
    said = folder / "runs" / name / "judgements.jsonl"
    return [msgspec.json.decode(line) for line in said.read_bytes().splitlines()]


@pytest.fixture(autouse=True)
def runs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HARNESS_RUNS_DIR", str(tmp_path / "runs"))
    monkeypatch.setenv("COLUMNS", "120")


def pass_rate(folder: Path, name: str) -> float:
    metrics = json.loads((folder / "runs" / name / "metrics.json").read_text())
    found: float = metrics["overall"]["pass_rate"]
    return found


def test_both_verdicts_and_their_disagreement(tmp_path: Path, server: MockServer) -> None:
    said = run(tmp_path, server, "beside", "beside", "both")
    assert server.stats().requests == 6 + 12
    by_id = {one["instance"]: one["scores"]["yes_no.strict"] for one in said}
    for number in range(1, 7):
        first, second = by_id[f"short-{number}"]["details"]["constraints"]
        assert (first["passed"], first["rule"]) == (True, number <= 3)
        assert "rule" not in second
    assert pass_rate(tmp_path, "both") == 1  # the rules only stand beside
    lines = harness("show", "both", "--rules").stdout.splitlines()
    (row,) = [line.split() for line in lines if line.startswith("word_count ")]
    assert row[1:4] == ["0.500", "±", "0.224"]
    assert row[-3:] == ["0.000", "6", "0"]
    assert "Excluded: criteria that only the judge has (6)." in lines
    assert "rules" in harness("show", "both").stdout


def test_rules_decide_and_the_judge_is_not_asked(tmp_path: Path, server: MockServer) -> None:
    said = run(tmp_path, server, "decide", "skip", "hybrid")
    assert server.stats().requests == 6 + 6
    strict = {one["instance"]: one["scores"]["yes_no.strict"]["value"] for one in said}
    assert strict == {f"short-{number}": number <= 3 for number in range(1, 7)}
    assert pass_rate(tmp_path, "hybrid") == 0.5
    assert "a rule decided instead of the judge (6)" in mistake(
        harness("show", "hybrid", "--rules")
    )


def test_a_run_without_rules_says_so(tmp_path: Path, server: MockServer) -> None:
    ended = harness(
        "run", "configs/vllm_wildifeval.yaml", "--name", "none", "-o", "model={backend: simulated}",
        "-o", "judges=[]", "--limit", "1",
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr
    assert "No judge of the run 'none'" in mistake(harness("show", "none", "--rules"))
    assert "cannot be combined" in mistake(harness("show", "none", "--rules", "--constraints"))
