"""Benchmarks that a data set of the Hub describes in its eval.yaml."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.plugins.hub.hub_server import COMMIT, hub_server

pytest.importorskip("inspect_ai")
pytest.importorskip("datasets")

EVAL = """
name: capitals
evaluation_framework: inspect-ai
tasks:
  - id: choose
    split: test
    field_spec: {input: question, target: answer, choices: options}
    solvers: [{name: multiple_choice}]
    scorers: [{name: choice}]
  - id: write
    split: test
    field_spec: {input: question, target: name}
    solvers: [{name: system_message, args: {template: Be brief.}}, {name: generate}]
    scorers: [{name: includes}, {name: exact}]
"""
ROWS = [
    {"question": "France?", "answer": 1, "name": "Paris", "options": ["Rome", "Paris"]},
    {"question": "Italy?", "answer": 0, "name": "Rome", "options": ["Rome", "Paris"]},
]
READ = """
import json, sys
from pathlib import Path
from harness.datasets.folder import DataFolder
from harness.execution import set_code_permission
from harness.plugin_loader import kind

with set_code_permission("allowed"):
    task = kind("tasks").build("inspect", {"task": sys.argv[1]}, data=DataFolder(Path("nowhere")))
    print(json.dumps([
        [
            one.id,
            task.messages(one, ())[-1].content.splitlines()[-1],
            task.reference(one),
            {name: score.passed for name, score in task.score(one, "It is Rome.").items()},
        ]
        for one in task.instances()
    ]))
"""


def test_an_eval_yaml_is_run_as_it_says(tmp_path: Path) -> None:
    files = tmp_path / "files"
    files.mkdir()
    (files / "eval.yaml").write_text(EVAL)
    (files / "test.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in ROWS))
    with hub_server(files) as (endpoint, _):
        env = {**os.environ, "HF_ENDPOINT": endpoint, "HF_HOME": str(tmp_path / "home")}
        command = [sys.executable, "-c", READ, f"hf/some/capitals@{COMMIT}"]
        found = subprocess.run(command, env=env, capture_output=True, text=True)
    assert found.returncode == 0, found.stderr[-2000:]
    choose, write = (f"hf/some/capitals@{COMMIT}/{name}" for name in ("choose", "write"))
    assert json.loads(found.stdout) == [
        [f"{choose}/1", "B) Paris", "ANSWER: B", {"choice": False}],
        [f"{choose}/2", "B) Paris", "ANSWER: A", {"choice": False}],
        [f"{write}/1", "France?", "Paris", {"includes": False, "exact": False}],
        [f"{write}/2", "Italy?", "Rome", {"includes": True, "exact": False}],
    ]
