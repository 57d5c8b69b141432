"""Runs of lm-eval's tasks, by lm-eval itself and by the harness, in processes of their own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

OFFLINE = {"HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1"}


def environment(folder: Path) -> dict[str, str]:
    own = {"HARNESS_RUNS_DIR": folder / "runs", "HARNESS_CACHE_DIR": folder / "cache"}
    own |= {"HF_HOME": folder / "hf"}
    return {**os.environ, **OFFLINE, **{key: str(path) for key, path in own.items()}}


def run(folder: Path, *command: str | Path) -> None:
    given = [str(part) for part in command]
    ended = subprocess.run(
        given, capture_output=True, text=True, check=False, env=environment(folder), cwd=folder
    )
    assert ended.returncode == 0, ended.stdout[-3000:] + ended.stderr[-3000:]


def lm_eval(
    folder: Path, asked: dict[str, Any], python: str | Path = sys.executable
) -> dict[str, Any]:
    """Evaluate by lm-eval (see peer.py), and return its results by task or group."""
    (folder / "asked.json").write_text(json.dumps(asked))
    peer = Path(__file__).with_name("peer.py")
    run(folder, python, peer, folder / "asked.json", folder / "found.json")
    found: dict[str, Any] = json.loads((folder / "found.json").read_text())
    return found


def run_file(folder: Path, url: str, task: Mapping[str, Any], **more: Any) -> Path:
    model = {"backend": "openai_completions", "name": "m", "base_url": f"{url}/v1"}
    tree = {
        **more,
        "task": {"name": "lm_eval", "include_path": "tasks", **task},
        "model": {**model, **more.get("model", {})},
    }
    (folder / "run.yaml").write_text(yaml.safe_dump(tree))
    return folder / "run.yaml"


def aggregates(folder: Path, name: str = "run") -> dict[str, dict[str, float]]:
    metrics = json.loads((folder / "runs" / name / "metrics.json").read_text())
    found: dict[str, dict[str, float]] = metrics["aggregates"]
    return found


def recorded(folder: Path) -> int:
    """The number of attempts in the file of a run."""
    path = folder / "runs" / "run" / "attempts.jsonl"
    return path.read_bytes().count(b"\n") if path.exists() else 0


def kill(folder: Path, *command: str | Path, when: Callable[[], bool]) -> None:
    """Begin a command, and kill it with SIGKILL as soon as the condition holds."""
    begun = subprocess.Popen([str(part) for part in command], env=environment(folder), cwd=folder)
    while not when():
        assert begun.poll() is None
        time.sleep(0.01)
    begun.kill()
    begun.wait()


def assert_equal(theirs: Mapping[str, Any], ours: Mapping[str, float]) -> None:
    expected = {
        key: value
        for key, value in theirs.items()
        if key == "sample_len" or ("," in key and "_stderr" not in key)
    }
    assert expected.keys() == ours.keys()
    assert ours == pytest.approx(expected, rel=0, abs=1e-9)
