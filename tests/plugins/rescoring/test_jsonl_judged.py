"""Rows that name judges, and rules that change."""

from __future__ import annotations

import json

from harness.plugins.mock.server import MockServer
from tests.cli.command import harness, mistake
from tests.cli.test_jsonl_judged import ROWS, Run, run, server

__all__ = ["run", "server"]


def test_an_edited_rule_is_scored_again_and_the_judgements_stay(
    run: Run, server: MockServer
) -> None:
    check = run.folder / "check.py"
    check.write_text("def check(text):\n    return text == '4'\n")
    criteria = [{"./check.py": {}}, {"judge": "kind", "criteria": "It is kind."}]
    rows = [{"id": one["id"]} for one in ROWS]
    file = run.file(rows)
    tree = json.loads(file.read_text())
    tree["task"]["checks"] = criteria
    file.write_text(json.dumps(tree))
    run.harness("run", file)
    assert run.metrics()["overall"]["pass_rate"] == 0.75
    asked = server.stats().requests
    check.write_text("def check(text):\n    return text == '5'\n")
    run.harness("run", file, "--rescore")
    assert run.metrics()["overall"]["pass_rate"] == 0.25
    assert run.metrics()["scores"]["kind.strict"]["n"] == len(ROWS)
    assert server.stats().requests == asked
    criteria[1]["criteria"] = "It is brief."
    file.write_text(json.dumps(tree))
    refused = mistake(harness("run", file, "--rescore", env=run.environment))
    assert "started with different values: task.checks" in refused
    assert "--rescore" not in refused
