"""Conversations whose checks change: every turn is scored again."""

from __future__ import annotations

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
