"""Runs are scored again without the reasoning of their answers."""

from __future__ import annotations

import re

from harness.plugins.mock.server import MockServer
from tests.cli.command import mistake
from tests.cli.test_reasoning import RECORDING, WARNING, Place, check_answers, place

__all__ = ["place"]


def test_a_recorded_run_is_scored_again_without_reasoning(place: Place) -> None:
    place.run(RECORDING)
    place.leave_reasoning_in()
    ended = place.harness("score", "r")
    assert ended.returncode == 3
    assert re.search(r"passed +1 of 8, now 4 of 8", ended.stdout)
    assert WARNING in " ".join(ended.stderr.split())
    assert "5 recorded answers contained reasoning, which was separated" in ended.stderr
    assert place.attempts()["think"]["passed"] is False
    resumed = place.run(RECORDING)
    assert resumed.returncode == 0
    assert "answers of earlier sessions contain reasoning" in resumed.stderr
    assert place.attempts()["think"]["passed"] is False
    ended = place.run(RECORDING, "--rescore")
    assert "8 recorded answers were scored again: 3 verdicts changed" in ended.stderr
    check_answers(place.attempts())
    before = place.lines
    assert "contain reasoning" not in place.run(RECORDING, "--rescore").stderr
    assert place.lines == before


def test_changed_marks_need_a_rescore_and_nothing_is_put_back(place: Place) -> None:
    place.run(RECORDING)
    more = ("-o", "model.reasoning=[known, [<scratchpad>, </scratchpad>]]")
    refusal = mistake(place.run(RECORDING, *more))
    assert "different values: model.reasoning (" in refusal
    assert "--rescore" in refusal
    assert place.harness("score", "r").returncode == 0  # with the run's own marks
    mistake(place.run(RECORDING, *more))
    ended = place.run(RECORDING, *more, "--rescore")
    assert "1 verdict changed" in ended.stderr
    assert place.attempts()["unknown"]["text"] == "Blue"
    ended = place.run(RECORDING, "-o", "model.reasoning=keep", "--rescore")
    assert "model.reasoning has fewer marks than before" in mistake(ended)
    assert place.attempts()["unknown"]["text"] == "Blue"
    ended = place.run(RECORDING, "--fresh", "-o", "model.reasoning=keep")
    assert {name for name, one in place.attempts().items() if one["passed"]} == {"plain"}
    assert place.run(RECORDING, "--rescore").returncode == 0
    check_answers(place.attempts())


def test_fewer_marks_are_refused_for_reasoning_of_unknown_origin(place: Place) -> None:
    place.write("rows.jsonl", {"id": "think", "prompt": "A?", "target": "Blue"})
    with MockServer(reasoning="field") as server:
        model = {"backend": "openai", "name": "m", "base_url": server.base_url}
        assert place.run(model).returncode == 0
        assert place.attempts()["think"]["reasoning"]
        ended = place.run(model, "-o", "model.reasoning=keep", "--rescore")
    refusal = mistake(ended)
    assert "does not record whether the reasoning of its answers was between these marks" in refusal
    assert "came from the provider as a separate field" in refusal
