"""Shipped run files by name, and run files from any folder."""

import os
from pathlib import Path

from tests.cli.command import harness, mistake
from tests.installed import has_verb


def on(folder: Path) -> dict[str, str]:
    return os.environ | {"HARNESS_RUNS_DIR": str(folder / "runs")}


def test_a_shipped_run_file_runs_by_its_name_from_any_folder(tmp_path: Path) -> None:
    for name in ("jsonl_example", "configs/jsonl_example.yaml"):
        ended = harness("run", name, "--limit", "2", cwd=tmp_path, env=on(tmp_path))
        assert ended.returncode == 0, ended.stderr
    refused = mistake(harness("run", "jsonl_exampel", cwd=tmp_path, env=on(tmp_path)))
    assert "There is no run file 'jsonl_exampel'." in refused
    assert "jsonl_example" in refused.splitlines()[-1]


def test_another_model_is_another_run(tmp_path: Path) -> None:
    options = ("--limit", "2", "--model", "simulated/other")
    ended = harness("run", "jsonl_example", *options, cwd=tmp_path, env=on(tmp_path))
    assert ended.returncode == 0, ended.stderr
    assert (tmp_path / "runs/jsonl_example.simulated-other").is_dir()


def test_a_run_of_rows_in_its_file_finds_its_check_from_any_folder(tmp_path: Path) -> None:
    mine, elsewhere = tmp_path / "mine", tmp_path / "elsewhere"
    mine.mkdir()
    elsewhere.mkdir()
    (mine / "check.py").write_text('def check(text: str) -> bool:\n    return text == "hi"\n')
    (mine / "app.py").write_text('def app(prompt: str) -> str:\n    return "hi"\n')
    (mine / "own.yaml").write_text(
        "task: {rows: [{id: a, prompt: q}], checks: [./check.py]}\nmodel: {backend: ./app.py}\n"
    )
    for command in (
        ("run", "mine/own.yaml"),
        *([("score", "own")] if has_verb("score") else []),
        ("run", "runs/own/config.yaml", "--name", "again"),
    ):
        ended = harness(*command, cwd=tmp_path, env=on(tmp_path))
        assert ended.returncode == 0, ended.stderr
    (elsewhere / "check.py").write_text("def check(text: str) -> bool:\n    return False\n")
    again = ("run", tmp_path / "runs/own/config.yaml", "--name", "third")
    refused = mistake(harness(*again, cwd=elsewhere, env=on(tmp_path)))
    assert "There are two different files './check.py'" in refused
    if not has_verb("score"):
        return
    refused = mistake(harness("score", "own", cwd=elsewhere, env=on(tmp_path)))
    assert "There are two different files './check.py'" in refused
