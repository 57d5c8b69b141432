"""Multiple choice over rows by log-likelihood, beside the same task in lm-eval: equal figures."""

from __future__ import annotations

import json
import os
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import yaml

from harness.plugins.mock.server import MockServer
from tests.cli.command import harness

if find_spec("lm_eval") is None:
    pytest.skip("lm-eval is not installed: run scripts/test-exchange", allow_module_level=True)

ROWS: list[dict[str, Any]] = [
    {
        "question": f"What is {n} times {n + 1}?",
        "choices": [f"{n * (n + 1)}", f"about {n}", f"née {n}, très petit", "none"],
        "target": n % 4,
    }
    for n in range(4, 44)
]


def metrics(folder: Path, tree: dict[str, Any]) -> dict[str, Any]:
    (folder / "run.yaml").write_text(yaml.safe_dump(tree))
    env = {**os.environ, "HARNESS_RUNS_DIR": "runs", "HARNESS_CACHE_DIR": "cache"}
    ended = harness("run", "run.yaml", "--fresh", env=env, cwd=folder)
    assert ended.returncode == 0, ended.stderr
    newest = max((folder / "runs").glob("*/metrics.json"), key=lambda path: path.stat().st_mtime_ns)
    found: dict[str, Any] = json.loads(newest.read_text())
    return found


def test_accuracies_of_texts_are_those_of_lm_eval(tmp_path: Path) -> None:
    rows = tmp_path / "rows.jsonl"
    rows.write_text("".join(f"{json.dumps(row)}\n" for row in ROWS))
    (tmp_path / "mine.yaml").write_text(
        yaml.safe_dump(
            {
                "task": "mine",
                "dataset_path": "json",
                "dataset_kwargs": {"data_files": {"test": str(rows)}},
                "test_split": "test",
                "output_type": "multiple_choice",
                "doc_to_text": "Question: {{question}}\nAnswer:",
                "doc_to_choice": "choices",
                "doc_to_target": "target",
                "metric_list": [{"metric": name} for name in ("acc", "acc_norm", "acc_bytes")],
            }
        )
    )
    with MockServer() as server:
        model = {"backend": "openai_completions", "name": "m", "base_url": server.base_url}
        theirs = metrics(
            tmp_path,
            {
                "task": {"name": "lm_eval", "task": "mine", "include_path": str(tmp_path)},
                "model": model,
            },
        )
        asked = server.stats().requests
        choices = {"by": "choice_logprob", "target": "index"}
        task = {"name": "jsonl", "path": str(rows), "choices": choices}
        ours = metrics(tmp_path, {"task": task, "model": model})
        assert server.stats().requests == asked == len(ROWS)  # the same calls: all are cached
    expected = theirs["aggregates"]["mine"]
    found = {name: score["mean"] for name, score in ours["scores"].items()}
    assert found["choice"] == pytest.approx(expected["acc,none"], abs=1e-12)
    assert found["acc_norm"] == pytest.approx(expected["acc_norm,none"], abs=1e-12)
    assert found["acc_bytes"] == pytest.approx(expected["acc_bytes,none"], abs=1e-12)
    assert len({found[name] for name in ("choice", "acc_norm", "acc_bytes", "acc_tokens")}) > 1
