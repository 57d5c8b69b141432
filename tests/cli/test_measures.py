"""What a run is measured by: `measure` in a run file, and `--score pass@4` in every verb."""

import json
import os
from pathlib import Path

from tests.cli.command import harness, mistake
from tests.installed import has_verb
from tests.rows import QUICKSTART, TASK

SIMULATED = "model={backend: simulated, accuracy: 0.3, gain: 0}"
PROMPTING = "prompting"
VARIANTS = "{best_of_4: {samples: 4, measure: pass@4}, feedback: {rounds.max: 4}, zero_shot: {}}"


def prompt_in_three_ways(folder: Path) -> tuple[dict[str, str], str]:
    """Run three variants; return the environment, and what the run printed."""
    env = os.environ | {"HARNESS_RUNS_DIR": str(folder)}
    file = folder / f"{PROMPTING}.yaml"
    file.write_text(f"{TASK}model: simulated\nvariants: {VARIANTS}\n")
    ended = harness("run", file, "-o", SIMULATED, env=env)
    assert ended.returncode == 0, ended.stderr
    return env, ended.stdout


TOO_FEW = "has no score 'pass@4'. It needs 4 samples of an instance; this run has 1."


def test_the_measure_of_a_run_may_change(tmp_path: Path) -> None:
    env = os.environ | {"HARNESS_RUNS_DIR": str(tmp_path)}
    run = ("run", QUICKSTART, "--limit", "13")
    assert harness(*run, env=env).returncode == 0
    attempts = (tmp_path / "quickstart" / "attempts.jsonl").read_bytes()
    assert harness(*run, "-o", "measure=any@2", env=env).returncode == 0
    assert (tmp_path / "quickstart" / "attempts.jsonl").read_bytes() == attempts
    (listed,) = json.loads(harness("ls", "--format", "json", env=env).stdout)
    assert listed["measure"] == "any@2"
    for measure in ("pass@5", "pass@0"):
        said = mistake(harness(*run, "-o", f"measure={measure}", env=env))
        assert f"measure: '{measure}' is not one of 4 samples" in said
    said = mistake(harness(*run, "-o", "measure=f1", env=env))
    assert "measure: 'f1' is not a score of the task or of a judge" in said


def test_a_number_alone_is_the_primary_metric(tmp_path: Path) -> None:
    (tmp_path / "rows.jsonl").write_text('{"id": "a"}\n{"id": "b"}\n')
    (tmp_path / "dens.py").write_text("def dens(text): return len(text) / 1000\n")
    file = tmp_path / "n.yaml"
    file.write_text(
        "task: {name: jsonl, path: rows.jsonl, checks: ./dens.py, prompt: 'Write {{ id }}'}\n"
        "model: {backend: simulated}\n"
    )
    env = os.environ | {"HARNESS_RUNS_DIR": str(tmp_path / "runs")}
    ran = harness("run", file, env=env)
    assert ran.returncode == 0, ran.stderr
    assert "mean dens 0." in ran.stderr
    assert "pass rate" not in ran.stdout
    assert harness("run", file, "--name", "m", "-o", "measure=dens", env=env).returncode == 0
    if has_verb("compare"):
        compared = harness("compare", "n", "m", env=env)
        assert "dens of each sample's last round" in compared.stdout
    assert "dens" in harness("ls", env=env).stdout
