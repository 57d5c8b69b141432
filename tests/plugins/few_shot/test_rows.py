"""Few-shot prompts of your own rows: with choices, and with judges."""

from __future__ import annotations

import json
from pathlib import Path

from harness.plugins.mock.server import MockServer
from tests.cli.test_jsonl_judged import Run, planned, said
from tests.plugins.choices.test_runs import model, run


def test_shots_of_choices_are_text(tmp_path: Path) -> None:
    with MockServer() as server:
        task = {"shots": {"n": 2, "form": "message"}}
        ended = run(tmp_path, by="choice_logprob", model=model(server), task=task)
    assert ended.returncode == 0, ended.stderr
    line = json.loads((tmp_path / "runs/run/attempts.jsonl").read_text().splitlines()[0])
    prompt = line["request"]["messages"][0]["content"]
    assert prompt.count("Question: ") == 3
    assert prompt.endswith("?\nAnswer:")


def test_shots_need_no_criteria_for_nobody_judges_them(tmp_path: Path) -> None:
    shots = tmp_path / "shots.jsonl"
    shots.write_text('{"prompt": "3 + 3?", "target": "6"}\n{"prompt": "1 + 1?", "target": "2"}\n')
    with MockServer(answers=said) as server:
        judged = Run(tmp_path, server)
        file = judged.file([{"id": "both", "criteria": "It is kind."}])
        content = json.loads(file.read_text())
        content["task"] |= {"checks": ["exact_match", {"judge": "kind"}]}
        content["task"] |= {"shots": {"n": 1, "form": "turns", "source": {"path": str(shots)}}}
        file.write_text(json.dumps(content))
        assert "judge kind judge-kind: at most 1 call," in planned(judged, file)
