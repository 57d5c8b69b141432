"""A reasoning model as judge, whose reasoning uses up the judge's tokens."""

from __future__ import annotations

import json
import os
from pathlib import Path

from harness.plugins.mock.server import MockServer
from tests.cli.command import harness
from tests.installed import has_verb

ROWS = 4


def test_judgements_that_are_cut_off_are_reported_with_a_remedy_that_works(tmp_path: Path) -> None:
    on = os.environ | {"HARNESS_RUNS_DIR": str(tmp_path), "COLUMNS": "300"}
    rows = [{"id": f"r{n}", "prompt": f"{n}?", "criteria": ["It is polite."]} for n in range(ROWS)]
    (tmp_path / "rows.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    file = tmp_path / "polite.yaml"
    with MockServer(reasoning="field") as server:
        model = {"backend": "openai", "name": "model", "base_url": server.base_url}
        judge = {"name": "yes_no", "as": "nice", "model": model | {"name": "judge"}}
        task = {"name": "jsonl", "path": "rows.jsonl", "checks": [{"judge": "nice"}]}
        content = {"task": task, "model": model, "decoding": {"max_tokens": 500}}
        file.write_text(json.dumps(content | {"judges": [judge]}))
        ended = harness("run", file, env=on)
        assert ended.returncode == 1, ended.stderr
        said = f"judge nice: {ROWS} of {ROWS} judgements are empty and have no verdict. Cut off"
        assert said in ended.stderr
        assert "max_tokens: 5." in ended.stderr
        assert "votes: 5 in yes_no), and run again with --fresh" in ended.stderr

        calls = server.stats().answered
        if has_verb("check"):
            checked = harness("check", "polite", "--min", "pass_rate=0.5", env=on)
            assert checked.returncode == 5
            assert f"{ROWS} inconclusive judgements" in checked.stdout
            assert "run the run file again" not in checked.stdout
        assert harness("run", file, env=on).returncode == 1
        assert server.stats().answered == calls  # as they are final

        higher = ("-o", "judges.nice.max_tokens=2000", "-o", "judges.nice.votes=5")
        ended = harness("run", file, "--fresh", *higher, env=on)
        assert "no verdict" not in ended.stderr
    metrics = json.loads((tmp_path / "polite" / "metrics.json").read_text())
    assert metrics["overall"]["n"] == ROWS


def test_a_judge_that_says_neither_yes_nor_no_is_reported(tmp_path: Path) -> None:
    on = os.environ | {"HARNESS_RUNS_DIR": str(tmp_path), "COLUMNS": "300"}
    rows = [{"id": f"r{n}", "prompt": f"{n}?", "criteria": ["It is polite."]} for n in range(ROWS)]
    (tmp_path / "rows.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    file = tmp_path / "polite.yaml"
    with MockServer() as server, MockServer(answers=lambda *_: "I cannot decide.") as judging:
        model = {"backend": "openai", "name": "model", "base_url": server.base_url}
        judge = {"name": "yes_no", "votes": 1, "model": model | {"base_url": judging.base_url}}
        task = {"name": "jsonl", "path": "rows.jsonl", "checks": [{"judge": "yes_no"}]}
        file.write_text(json.dumps({"task": task, "model": model, "judges": [judge]}))
        ended = harness("run", file, env=on)
    said = f"judge yes_no: {ROWS} of {ROWS} judgements are undecided and have no verdict. The judge"
    assert f"{said} said neither yes nor no of: It is polite." in ended.stderr
