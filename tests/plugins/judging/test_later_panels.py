"""Panels of a run that has ended, and of judges that are asked again."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.plugins.mock.server import MockServer
from tests.cli.command import harness, mistake
from tests.plugins.judging.test_run_panels import (
    INSTANCES,
    NO,
    answer,
    content,
    overall,
    said,
    write,
)


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


def test_a_panel_is_validated_as_a_judge(folder: Path, server: MockServer) -> None:
    assert harness("run", write(folder / "decided.yaml", content(folder, server))).returncode == 0
    against = harness("judge", "validate", "decided", "--judge", "harsh", "--against", "jury")
    (accuracy,) = [line for line in against.stdout.splitlines() if line.startswith("accuracy")]
    assert accuracy.split()[1] == "0.500"


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
    pair = {"as": "pair", "of": ["mild", "harsh"], "by": "mean"}
    above = harness("judge", "later", "--judge", write(folder / "pair.yaml", pair))
    assert "split" not in above.stderr
    lines = (folder / "runs" / "later" / "judgements.jsonl").read_text().splitlines()
    strict = json.loads(lines[-1])["scores"]["pair.strict"]
    mean = strict["details"]["constraints"][0]["probability"]
    just = write(folder / "just.yaml", {**pair, "as": "just", "passes_from": mean})
    split = harness("judge", "later", "--judge", just)
    assert "panel just: 4 of 4 judgements pass what its judges are split on" in split.stderr
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
