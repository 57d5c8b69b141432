"""Multiple choice over your own rows, from the run file to the metrics."""

from __future__ import annotations

import json
import os
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest
import yaml

from harness.plugins.mock.server import MockServer
from tests.cli.command import harness

ROWS = [
    {"question": f"Which is number {n}?", "choices": [f"{n}", f"not {n}", "neither é"], "target": 0}
    for n in range(3, 9)
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path


def run(folder: Path, *options: str, by: str, **tree: Any) -> CompletedProcess[str]:
    rows = [{**row, "target": row["choices"][0]} for row in ROWS]
    task = {"rows": rows, "choices": {"by": by}, **tree.pop("task", {})}
    (folder / "run.yaml").write_text(yaml.safe_dump({"task": task, **tree}))
    env = {**os.environ, "HARNESS_RUNS_DIR": "runs", "HARNESS_CACHE_DIR": "cache"}
    return harness("run", "run.yaml", *options, env=env, cwd=folder)


def model(server: MockServer) -> dict[str, str]:
    return {"backend": "openai_completions", "name": "m", "base_url": server.base_url}


def metrics(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "runs/run/metrics.json").read_text())
    return found


@pytest.mark.parametrize("by", ["letter_logprob", "choice_logprob"])
def test_answers_are_compared_by_a_server_in_one_call_per_row(folder: Path, by: str) -> None:
    with MockServer() as server:
        ended = run(folder, by=by, model=model(server), samples=2)
        assert server.stats().requests == len(ROWS)
    assert ended.returncode == 0, ended.stderr
    found = metrics(folder)
    assert found["outcomes"]["ok"] == 2 * len(ROWS)
    normalised = ["acc_norm", "acc_bytes", "acc_tokens"]
    assert [*found["scores"]] == ["choice", *(normalised if by == "choice_logprob" else [])]
    assert found["scores"]["choice"]["mean"] == found["overall"]["pass_rate"]


def test_a_normalised_accuracy_may_be_the_primary_metric(folder: Path) -> None:
    with MockServer() as server:
        ended = run(folder, by="choice_logprob", model=model(server), measure="acc_bytes")
    assert ended.returncode == 0, ended.stderr
    assert metrics(folder)["measure"] == "acc_bytes"


@pytest.mark.parametrize(
    ("tree", "said"),
    [
        ({"model": {"backend": "simulated"}}, "needs loglikelihoods"),
        (
            {"model": {"backend": "openai", "preset": "vllm", "name": "m"}},
            "the backend 'openai' with the preset 'vllm' does not give",
        ),
        ({"rounds": {"max": 2}}, "no further rounds"),
        ({"task": {"checks": ["contains"]}}, "not text"),
    ],
)
def test_what_log_likelihoods_cannot_do_is_refused(
    folder: Path, tree: dict[str, Any], said: str
) -> None:
    with MockServer() as server:
        ended = run(folder, by="letter_logprob", **{"model": model(server), **tree})
        assert server.stats().requests == 0
    assert ended.returncode == 1
    assert said in " ".join(ended.stderr.split())


def planted(folder: Path, habit_share: float) -> tuple[dict[str, Any], str]:
    """The position bias in the metrics of a simulated run, and what its report says."""
    rows = [
        {"question": f"{n} + 1 = ?", "choices": [n + 1, n + 2, n + 3, n], "target": str(n + 1)}
        for n in range(10, 130)
    ]
    simulated = {"backend": "simulated", "accuracy": 0.7, "habit": "C", "habit_share": habit_share}
    tree = {"task": {"rows": rows, "choices": {"shuffle": 1}}, "model": simulated}
    (folder / "run.yaml").write_text(yaml.safe_dump(tree))
    env = {**os.environ, "HARNESS_RUNS_DIR": "runs", "HARNESS_CACHE_DIR": "cache"}
    ended = harness("run", "run.yaml", env=env, cwd=folder)
    assert ended.returncode == 0, ended.stderr
    shown = harness("show", "run", env=env, cwd=folder).stdout
    assert "By position of the option" in shown
    found: dict[str, Any] = metrics(folder)["positions"]
    return found, " ".join(shown.split())


def test_a_planted_position_bias_is_found(folder: Path) -> None:
    found, shown = planted(folder, 0.3)
    assert found["p_value"] < 0.001
    assert "Position bias (p <0.001; Stuart-Maxwell test" in shown
    excess = {one["option"]: one["excess"] for one in found["positions"]}
    assert excess["C"]["ci95"][0] > 0.1
    assert max(excess, key=lambda option: excess[option]["mean"]) == "C"


def test_a_model_without_a_habit_has_no_clear_bias(folder: Path) -> None:
    found, shown = planted(folder, 0.0)
    assert found["p_value"] > 0.05
    assert "No clear position bias" in shown
    assert all(abs(one["excess"]["mean"]) < 0.1 for one in found["positions"])
