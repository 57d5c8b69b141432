"""`harness show`: the turns of conversations."""

import json

from tests.cli.test_conversations import Run, counting, row, run

__all__ = ["counting", "run"]


def test_each_turn_is_shown_and_nothing_as_rounds(run: Run) -> None:
    forgetful = {**row("nowhere"), "target": "somewhere else"}
    plain = {"id": "plain", "prompt": "Where do I live?", "checks": ["exact_match"], "target": "x"}
    run.harness("run", run.file([row("Bonn"), row("Rome"), forgetful, plain]))
    said = run.harness("show", "talk")
    assert "first answers" not in said
    assert "round" not in said
    failed = run.harness("show", "talk", "--failed")
    assert "turn" in failed
    assert "'nowhere' is not the expected answer" in failed
    whole = run.harness("show", "talk", "--instance", "nowhere")
    assert "turn 1 of 3  ok, passed" in whole
    assert "turn 3 of 3  ok, conversation failed" in whole
    assert "user:\n  Remember it." in whole


def test_a_failed_first_turn_is_shown_as_such(run: Run) -> None:
    strict = row("Bonn")
    strict["turns"][0]["target"] = "Yes"
    run.harness("run", run.file([strict, row("Rome")]))
    (failed,) = json.loads(run.harness("show", "talk", "--failed", "--format", "json"))
    assert (failed["instance"], failed["round"]) == ("Bonn", 1)
