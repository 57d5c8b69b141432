"""`harness init`, `harness configs`, and shipped run files by name."""

import os
import subprocess
import sys
from pathlib import Path

from tests.cli.command import ROOT, harness, mistake


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


def test_every_shipped_run_file_is_listed_with_what_it_does() -> None:
    listed = harness("configs").stdout.splitlines()
    names = sorted(path.stem for path in (ROOT / "configs").glob("*.yaml"))
    assert [line.split()[0] for line in listed] == names
    assert all(len(line.split()) > 4 for line in listed)


def test_a_shipped_run_file_runs_by_its_name_from_any_folder(tmp_path: Path) -> None:
    for name in ("quickstart", "configs/quickstart.yaml"):
        ended = harness("run", name, "--limit", "2", cwd=tmp_path, env=on(tmp_path))
        assert ended.returncode == 0, ended.stderr
    refused = mistake(harness("run", "quickstrat", cwd=tmp_path, env=on(tmp_path)))
    assert "There is no run file 'quickstrat'." in refused
    assert "quickstart" in refused.splitlines()[-1]


def test_another_model_is_another_run(tmp_path: Path) -> None:
    options = ("--limit", "2", "--model", "simulated/other")
    ended = harness("run", "quickstart", *options, cwd=tmp_path, env=on(tmp_path))
    assert ended.returncode == 0, ended.stderr
    assert (tmp_path / "runs/quickstart.simulated-other").is_dir()


def test_a_run_file_finds_its_rows_and_check_from_any_folder(tmp_path: Path) -> None:
    harness("init", "deep/mine", cwd=tmp_path)
    mine, elsewhere = tmp_path / "deep" / "mine", tmp_path / "deep"
    for folder, file in (
        (elsewhere, "mine/my_run.yaml"),
        (mine, "my_run.yaml"),
        (tmp_path, mine / "my_run.yaml"),
    ):
        ended = harness("run", file, cwd=folder, env=on(tmp_path))
        assert ended.returncode == 0, ended.stderr
    scored = harness("score", "my_run.plain", cwd=elsewhere, env=on(tmp_path))
    assert scored.returncode == 0, scored.stderr
    (elsewhere / "my_rows.jsonl").write_text(
        '{"id": "x", "topic": "x", "most_words": 9, "gold": "x."}\n'
    )
    refused = mistake(harness("run", "mine/my_run.yaml", cwd=elsewhere, env=on(tmp_path)))
    assert "There are two different files 'my_rows.jsonl'" in refused
    assert "Write the whole path of the one that is meant." in refused


def test_nothing_is_left_of_a_run_whose_rows_are_refused(tmp_path: Path) -> None:
    harness("init", cwd=tmp_path)
    rows = tmp_path / "my_rows.jsonl"
    good = rows.read_text()
    rows.write_text(f'{good}{{"id": "tides", "topic": "x", "most_words": 9, "gold": "x."}}\n')
    refused = mistake(harness("run", "my_run.yaml", cwd=tmp_path, env=on(tmp_path)))
    assert "the id 'tides' occurs twice" in refused
    assert not list((tmp_path / "runs").glob("*"))
    rows.write_text(good)
    assert harness("run", "my_run.yaml", cwd=tmp_path, env=on(tmp_path)).returncode == 0
    rows.write_text(f"{good}nonsense\n")
    mistake(harness("run", "my_run.yaml", cwd=tmp_path, env=on(tmp_path)))
    assert (tmp_path / "runs/my_run.plain/attempts.jsonl").read_text(), "a run that had begun stays"
