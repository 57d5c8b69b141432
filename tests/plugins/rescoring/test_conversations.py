"""Conversations whose checks change: every turn is scored again."""

from __future__ import annotations

import json

import pytest

from tests.cli.command import harness
from tests.cli.test_conversations import Counting, Run, counting, row, run

__all__ = ["counting", "run"]


def test_checks_that_change_score_every_turn_again_without_a_call(
    run: Run, counting: Counting
) -> None:
    run.harness("run", run.file([row("Bonn")]))
    asked = counting.asked.total()
    changed = row("Bonn")
    changed["turns"][0]["target"] = "Yes"
    said = harness("run", run.file([changed]), "--rescore", env=run.environment).stderr
    assert "3 recorded answers were scored again: 1 verdict changed." in said
    assert run.metrics()["overall"]["pass_rate"] == 0
    assert counting.asked.total() == asked
    longer = row("Bonn")
    longer["turns"][2] = "Who am I?"
    run.harness("run", run.file([longer]), "--rescore")
    assert counting.asked.total() == asked + 1  # the turn that is another
    assert run.attempts()["Bonn", 0, 3]["text"] == "OK"


@pytest.mark.parametrize("lost", [1, 2])
def test_turns_after_a_lost_one_are_not_scored_as_others(run: Run, lost: int) -> None:
    run.harness("run", run.file([row("Bonn"), row("Ulm")]))
    path = run.folder / "runs" / "talk" / "attempts.jsonl"
    kept = []
    for line in path.read_bytes().splitlines(keepends=True):
        attempt = json.loads(line)
        if (attempt["instance"], attempt["round"]) != ("Bonn", lost):
            kept.append(line)
    path.write_bytes(b"".join(kept))
    harness("score", "talk", env=run.environment)
    scores = (run.folder / "runs" / "talk" / "scores.jsonl").read_bytes().splitlines()
    turns = {}
    for line in map(json.loads, scores):
        if "instance" in line:
            turns[line["instance"], line["round"]] = line
    for turn in range(lost + 1, 4):
        assert turns["Bonn", turn]["passed"] is None
        assert turns["Bonn", turn]["scores"] == {}
        assert "lacks an earlier turn" in turns["Bonn", turn]["error"]
    assert turns["Ulm", 3]["passed"]
