"""`harness check` and judgements without a verdict."""

from __future__ import annotations

import json
import os
from pathlib import Path

from harness.plugins.mock.server import MockServer
from tests.cli.command import harness


def test_failed_and_inconclusive_judgements_are_told_apart(tmp_path: Path) -> None:
    on = os.environ | {"HARNESS_RUNS_DIR": str(tmp_path), "COLUMNS": "300"}
    rows = [{"id": f"r{n}", "prompt": f"{n}?", "criteria": ["It is polite."]} for n in range(40)]
    (tmp_path / "rows.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    file = tmp_path / "polite.yaml"
    with MockServer() as server, MockServer(reasoning="field", faults={"400": 0.3}) as judging:
        model = {"backend": "openai", "name": "model", "base_url": server.base_url}
        judge = {"name": "yes_no", "model": model | {"base_url": judging.base_url}}
        task = {"name": "jsonl", "path": "rows.jsonl"}
        content = {"task": task | {"checks": [{"judge": "yes_no"}]}, "model": model}
        file.write_text(json.dumps(content | {"judges": [judge]}))
        assert harness("run", file, env=on).returncode == 1
    asked = ("check", "polite", "--min", "pass_rate=0.5")
    checked = harness(*asked, "--format", "json", env=on)
    [lacking] = json.loads(checked.stdout)["runs"][0]["unjudged"]
    lines = (tmp_path / "polite" / "judgements.jsonl").read_text().splitlines()
    outcomes = [json.loads(line)["outcome"] for line in lines]
    assert lacking["no_judgement"] == outcomes.count("error") > 0
    assert lacking["final"] == outcomes.count("empty") > 0
    assert "to retry the failed or missing ones" in harness(*asked, env=on).stdout
