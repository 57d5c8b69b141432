"""`harness init`: the starter, and the files for Slurm."""

import os
import subprocess
import sys
from pathlib import Path

from tests.cli.command import harness, mistake


def on(folder: Path) -> dict[str, str]:
    return os.environ | {"HARNESS_RUNS_DIR": str(folder / "runs")}


def test_the_starter_runs_and_is_never_replaced(tmp_path: Path) -> None:
    written = harness("init", "mine", cwd=tmp_path)
    assert written.returncode == 0, written.stderr
    assert "cd mine && harness run my_run.yaml" in written.stderr
    mine = tmp_path / "mine"
    ended = harness("run", "my_run.yaml", cwd=mine, env=on(tmp_path))
    assert ended.returncode == 0, ended.stderr
    attempts = (tmp_path / "runs/my_run.feedback/attempts.jsonl").read_text()
    assert '"my_check":' in attempts
    assert "my_check.py exists" in mistake(harness("init", cwd=mine))


def test_the_parts_of_a_slurm_array_are_merged(tmp_path: Path) -> None:
    harness("init", cwd=tmp_path)
    written = harness("init", "slurm", cwd=tmp_path)
    assert written.returncode == 0, written.stderr
    bin_ = Path(sys.executable).parent
    env = on(tmp_path) | {"PATH": f"{bin_}:{os.environ['PATH']}", "SLURM_ARRAY_TASK_COUNT": "2"}
    for number in "12":
        job = ["bash", "my_array.sbatch"]
        ended = subprocess.run(job, cwd=tmp_path, env=env | {"SLURM_ARRAY_TASK_ID": number})
        assert ended.returncode == 0
    merged = harness("merge", "my_run", cwd=tmp_path, env=on(tmp_path))
    assert merged.returncode == 0, merged.stderr
    lines = (tmp_path / "runs/my_run.feedback/attempts.jsonl").read_text().splitlines()
    whole = harness("run", "my_run.yaml", cwd=tmp_path, env=on(tmp_path))  # nothing is left to do
    assert whole.returncode == 0, whole.stderr
    assert (tmp_path / "runs/my_run.feedback/attempts.jsonl").read_text().splitlines() == lines
    subprocess.run(["bash", "-n", "my_cluster.sbatch"], cwd=tmp_path, check=True)


def test_reference_answers_of_the_starter_pass(tmp_path: Path) -> None:
    harness("init", cwd=tmp_path)
    plan = harness("run", "my_run.yaml", "--dry-run", cwd=tmp_path, env=on(tmp_path))
    assert "6 of 6 pass" in plan.stdout
