"""Import of a real lm-eval run, and exported samples next to lm-eval's."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from harness.analysis.metrics import decode_metrics
from tests.cli.command import harness
from tests.plugins.exchange.peers.conftest import Peer

TASK = """
task: {name}
dataset_path: json
dataset_kwargs: {{data_files: {{test: {data}}}}}
test_split: test
output_type: {kind}
doc_to_text: "Q: {{{{question}}}}\\nA:"
metadata: {{version: 1.0}}
"""
SUMS = """
doc_to_target: "{{answer}}"
generation_kwargs: {until: ["\\n"], max_gen_toks: 8}
metric_list: [{metric: exact_match, aggregation: mean, higher_is_better: true}]
filter_list:
  - {name: as-is, filter: [{function: take_first}]}
  - {name: digits, filter: [{function: regex, regex_pattern: "(\\\\d+)"}, {function: take_first}]}
"""
CHOICE = """
doc_to_choice: "{{choices}}"
doc_to_target: "{{gold}}"
metric_list: [{metric: acc, aggregation: mean, higher_is_better: true}]
"""


@pytest.fixture
def results(peer: Peer, tmp_path: Path) -> Path:
    """The folder of a real evaluation of lm-eval's dummy model on two tasks."""
    (tmp_path / "tasks").mkdir()
    docs = [
        {
            "question": f"{n}+{n}?",
            "answer": "lol" if n % 2 else str(n),
            "choices": [str(n), "x"],
            "gold": 1,
        }
        for n in range(5)
    ]
    data = tmp_path / "data.json"
    data.write_text("".join(json.dumps(doc) + "\n" for doc in docs))
    for name, kind, more in (
        ("tiny_sums", "generate_until", SUMS),
        ("tiny_choice", "multiple_choice", CHOICE),
    ):
        text = TASK.format(name=name, kind=kind, data=data) + more
        (tmp_path / "tasks" / f"{name}.yaml").write_text(text)
    told = ("--model", "dummy", "--tasks", "tiny_sums,tiny_choice", "--log_samples")
    peer("lm_eval", *told, "--include_path", tmp_path / "tasks", "--output_path", tmp_path / "out")
    (folder,) = (tmp_path / "out").iterdir()
    return folder


def done(runs: Path, *arguments: str | Path) -> None:
    ended = harness(*arguments, env=os.environ | {"HARNESS_RUNS_DIR": str(runs)})
    assert ended.returncode == 0, ended.stderr


def test_a_run_of_lm_eval_has_the_metrics_that_it_says(results: Path, tmp_path: Path) -> None:
    (told,) = results.glob("results_*.json")
    said = json.loads(told.read_text())["results"]
    for task, metric, score in (
        ("tiny_sums", "exact_match,as-is", "exact_match,as-is"),
        ("tiny_choice", "acc,none", "acc"),
    ):
        (samples,) = results.glob(f"samples_{task}_*.jsonl")
        done(tmp_path / "runs", "import", samples, "--name", task)
        path = tmp_path / "runs" / task / "metrics.json"
        metrics = decode_metrics(path.read_bytes(), path)
        assert metrics.task == task
        assert metrics.simulated
        assert metrics.n_samples == 5
        assert metrics.overall.pass_rate == pytest.approx(said[task][metric])
        assert metrics.scores[score].mean == pytest.approx(said[task][metric])
    path = tmp_path / "runs" / "tiny_sums" / "metrics.json"
    digits = decode_metrics(path.read_bytes(), path).scores["exact_match,digits"]
    assert digits.mean == pytest.approx(said["tiny_sums"]["exact_match,digits"])
