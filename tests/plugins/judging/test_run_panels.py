"""Judges that decide together, from the run file to the tables, on the loopback server."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from harness.plugins.mock.answers import Answer
from harness.plugins.mock.server import MockServer
from harness.plugins.mock.wire import MockRequest
from tests.cli.command import harness

INSTANCES = 4
ROWS: list[dict[str, Any]] = [
    {"id": f"row-{n}", "task": f"Say {n}.", "criteria": ["Be kind.", "Be brief."]}
    for n in range(INSTANCES)
]
NO = {"mild": "", "harsh": "kind", "blunt": "brief"}
"""What each judge finds broken, whatever it reads."""


def answer(ask: MockRequest, _: int) -> str | Answer:
    if ask.model not in NO:
        return f"Well, {ask.prompt}"
    broken = NO[ask.model]
    no = broken and f"<criterion>\nBe {broken}.\n</criterion>" in ask.prompt
    return Answer("No" if no else "Yes", [{"Yes": -3.0, "No": -0.1} if no else {"Yes": -0.1}])


@pytest.fixture(scope="module")
def server() -> Iterator[MockServer]:
    with MockServer(answers=answer) as running:
        yield running


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("panels")


@pytest.fixture(autouse=True)
def runs(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    monkeypatch.setenv("HARNESS_RUNS_DIR", str(folder / "runs"))
    monkeypatch.setenv("COLUMNS", "120")


def content(folder: Path, server: MockServer, **changes: Any) -> dict[str, Any]:
    rows = folder / "rows.jsonl"
    rows.write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    model = {"backend": "openai", "base_url": server.base_url, "preset": "vllm"}
    judges = [{"name": "yes_no", "as": one, "model": {**model, "name": one}} for one in NO]
    checks = [{"judge": one} for one in NO]
    return {
        "task": {"name": "jsonl", "path": str(rows), "prompt": "{{ task }}", "checks": checks},
        "model": {**model, "name": "m"},
        "judges": judges,
        "panels": [{"as": "jury", "of": list(NO)}],
        **changes,
    }


def write(path: Path, tree: dict[str, Any]) -> Path:
    path.write_text(json.dumps(tree))  # JSON is YAML
    return path


def said(folder: Path, name: str, judge: str) -> list[dict[str, Any]]:
    lines = (folder / "runs" / name / "judgements.jsonl").read_bytes().splitlines()
    return [found for found in map(msgspec.json.decode, lines) if found["judge"] == judge]


def overall(folder: Path, name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "runs" / name / "metrics.json").read_text())
    return found["overall"]


@pytest.fixture(scope="module")
def decided(folder: Path, server: MockServer) -> Path:
    """A run that a panel decides on."""
    file = write(folder / "decided.yaml", content(folder, server))
    ended = harness("run", file, env={**os.environ, "HARNESS_RUNS_DIR": str(folder / "runs")})
    assert ended.returncode == 0, ended.stderr
    return file


def test_the_majority_decides_and_each_judge_stays_beside(decided: Path, folder: Path) -> None:
    """Harsh and blunt let nothing pass; of each constraint two of three say that it is met."""
    assert overall(folder, "decided")["pass_rate"] == 1
    found = said(folder, "decided", "jury")
    assert len(found) == INSTANCES
    for one in found:
        kind, brief = one["scores"]["jury.strict"]["details"]["constraints"]
        assert kind["panel"] == {"mild": True, "harsh": False, "blunt": True}
        assert brief["panel"] == {"mild": True, "harsh": True, "blunt": False}
        assert (one["call_ids"], one["cost_usd"]) == ([], 0)
    shown = harness("show", "decided").stdout
    rates = {line.split()[0]: line for line in shown.splitlines() if ".strict" in line}
    assert set(rates) == {"mild.strict", "harsh.strict", "blunt.strict", "jury.strict"}


def test_run_again_nothing_is_asked(decided: Path, folder: Path, server: MockServer) -> None:
    before = server.stats().requests
    lines = (folder / "runs" / "decided" / "judgements.jsonl").read_bytes()
    assert harness("run", decided).returncode == 0
    assert server.stats().requests == before
    assert (folder / "runs" / "decided" / "judgements.jsonl").read_bytes() == lines


def test_a_panel_waits_for_a_judge_whose_calls_failed(folder: Path, server: MockServer) -> None:
    tree = content(folder, server)
    with MockServer(answers=answer, faults={"400": 1.0}) as failing:
        tree["judges"][2]["model"]["base_url"] = failing.base_url
        file = write(folder / "waits.yaml", tree)
        assert harness("run", file).returncode == 1
        assert len(said(folder, "waits", "mild")) == INSTANCES
        assert said(folder, "waits", "jury") == []
        assert overall(folder, "waits")["pass_rate"] is None
        asked, tried = server.stats().requests, failing.stats().requests
        failing.change(faults={})
        ended = harness("run", file)
        assert ended.returncode == 0, ended.stderr
        assert failing.stats().requests == tried + 2 * INSTANCES
    assert server.stats().requests == asked
    assert len(said(folder, "waits", "jury")) == INSTANCES
    assert overall(folder, "waits")["pass_rate"] == 1
