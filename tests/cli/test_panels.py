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
from tests.cli.command import harness, mistake

INSTANCES = 4
ROWS: list[dict[str, Any]] = [
    {"id": f"row-{n}", "task": f"Say {n}.", "constraints": ["Be kind.", "Be brief."]}
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
    return {
        "task": {"name": "wildifeval", "dataset": str(rows)},
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
    against = harness("judge", "validate", "decided", "--judge", "harsh", "--against", "jury")
    (accuracy,) = [line for line in against.stdout.splitlines() if line.startswith("accuracy")]
    assert accuracy.split()[1] == "0.500"


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


def test_a_later_panel_asks_nobody_and_changes_no_verdict(folder: Path, server: MockServer) -> None:
    file = write(folder / "later.yaml", content(folder, server, panels=[]))
    assert harness("run", file).returncode == 0
    assert overall(folder, "later")["pass_rate"] == 0  # all three decide
    before = server.stats().requests
    panel = write(folder / "jury.yaml", {"as": "jury", "of": list(NO), "by": "mean"})
    judged = harness("judge", "later", "--judge", panel)
    assert judged.returncode == 0, judged.stderr
    assert f"jury: {INSTANCES} answers judged" in judged.stderr
    assert server.stats().requests == before
    assert overall(folder, "later")["pass_rate"] == 0
    metrics = json.loads((folder / "runs" / "later" / "metrics.json").read_text())
    assert metrics["scores"]["jury.strict"]["mean"] == 1
    assert "jury: 0 answers judged" in harness("judge", "later", "--judge", "jury").stderr
    other = write(folder / "other.yaml", {"as": "jury", "of": list(NO)})
    assert "has a different judge 'jury'" in mistake(harness("judge", "later", "--judge", other))
    stranger = write(folder / "stranger.yaml", {"as": "x", "of": ["mild", "hrash"]})
    assert "Did you mean 'harsh'" in mistake(harness("judge", "later", "--judge", stranger))
    same_name = {**content(folder, server)["judges"][0], "as": "jury"}
    as_panel = write(folder / "same.yaml", same_name)
    assert "is a panel of the run" in mistake(harness("judge", "later", "--judge", as_panel))


def test_a_judge_that_is_asked_again_changes_what_its_panel_says(
    folder: Path, server: MockServer
) -> None:
    """While blunt refuses, mild and harsh differ on what is kind."""
    tree = content(folder, server)
    with MockServer(answers=answer, faults={"refusal": 1.0}) as refusing:
        tree["judges"][2]["model"]["base_url"] = refusing.base_url
        file = write(folder / "refused.yaml", tree)
        ended = harness("run", file)
        assert (ended.returncode, "samples have no verdict" in ended.stderr) == (1, True)
        assert {one["outcome"] for one in said(folder, "refused", "blunt")} == {"refused"}
        assert overall(folder, "refused")["pass_rate"] is None
        refusing.change(faults={})
        command = ["judge", "refused", "--judge", "blunt", "--retry"]
        assert "blunt: 0 answers" in harness(*command[:-1]).stderr
        asked = refusing.stats().requests
        ended = harness(*command, "refused")
        assert f"blunt: {INSTANCES} answers judged" in ended.stderr
        assert refusing.stats().requests == asked + 2 * INSTANCES
        assert overall(folder, "refused")["pass_rate"] == 1
        assert "blunt: 0 answers" in harness(*command, "refused").stderr
        assert "no outcome 'refusd'" in mistake(harness(*command, "refusd"))
