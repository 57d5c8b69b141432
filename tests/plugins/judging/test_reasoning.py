"""Later judges and reasoning: that of the judged model, and their own."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from harness.plugins.mock.server import MockServer
from harness.plugins.mock.wire import MockRequest
from tests.cli.command import harness
from tests.cli.test_reasoning import CASES, PASS, RECORDING, Place


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def test_a_judge_of_a_recorded_run_sees_no_reasoning(place: Place) -> None:
    shown: list[str] = []

    def answer(request: MockRequest, _: int) -> str:
        shown.append(request.prompt)
        return "Yes"

    rows = [
        {"id": name, "prompt": prompt, "target": "Blue", "criteria": ["It is a colour."]}
        for name, (prompt, *_) in CASES.items()
        if name in PASS
    ]
    place.write("rows.jsonl", *rows)
    with MockServer(answers=answer) as server:
        model = {"backend": "openai", "name": "judge", "base_url": server.base_url}
        judge = {"name": "yes_no", "as": "nice", "votes": 1, "model": model}
        (place.folder / "nice.yaml").write_text(json.dumps(judge))
        assert place.run(RECORDING).returncode == 0
        place.leave_reasoning_in()
        judging = ("judge", "r", "--judge", "nice.yaml")
        ended = place.harness(*judging)
        assert ended.returncode == 0, ended.stderr
        assert len(shown) == len(PASS)
        assert not [prompt for prompt in shown if "Red" in prompt or "Hm." in prompt]
        assert all("Blue" in prompt for prompt in shown)
        assert place.harness(*judging).returncode == 0
        assert len(shown) == len(PASS), "its judgements belong to the recorded answers"
        place.run(RECORDING, "--rescore")
        ended = place.harness(*judging)
        assert ended.returncode == 0, ended.stderr
        assert len(shown) == len(PASS), "the same questions are in the cache"


def test_judgements_that_are_cut_off_are_reported_with_a_remedy(tmp_path: Path) -> None:
    env = os.environ | {"HARNESS_RUNS_DIR": str(tmp_path), "COLUMNS": "300"}
    file, later = tmp_path / "polite.yaml", tmp_path / "later.yaml"
    rows = [{"prompt": "1?", "target": "1", "criteria": ["It is polite."]}]
    file.write_text(
        json.dumps({"task": {"rows": rows, "checks": "contains"}, "model": "simulated"})
    )
    with MockServer(reasoning="field") as server:
        model = {"backend": "openai", "name": "judge", "base_url": server.base_url}
        later.write_text(json.dumps({"name": "yes_no", "as": "late", "model": model}))
        assert harness("run", file, env=env).returncode == 0
        ended = harness("judge", "polite", "--judge", later, env=env)
    assert "judge late: " in ended.stderr
    assert "give it another name (as: NAME)" in ended.stderr
