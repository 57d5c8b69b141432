"""`harness eval`: several models on several benchmarks, offline."""

import json
import os
from pathlib import Path

import pytest
import yaml

from tests.cli.command import harness, mistake

FILES, TASKS = "tests/fixtures/words.jsonl,harness/tasks/example.jsonl", ("words", "example")
CHECKED = ("-o", "task.prompt='Write: {{ target }}.'", "-o", "task.checks=exact_match")
EVAL = ("eval", FILES, *CHECKED, "--model", "simulated/0.2,simulated/0.9", "--limit", "6")


def on(runs: Path) -> dict[str, str]:
    return os.environ | {"HARNESS_RUNS_DIR": str(runs), "COLUMNS": "120"}


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> Path:
    runs = tmp_path_factory.mktemp("runs")
    ended = harness(*EVAL, env=on(runs))
    assert ended.returncode == 0, ended.stderr
    for said in (*TASKS, "average rank", "SIMULATED", "Against 0.2"):
        assert said in ended.stdout
    return runs


def test_a_run_of_each_model_on_each_benchmark_and_their_run_file(done: Path) -> None:
    names = {path.name for path in done.iterdir() if path.is_dir()}
    assert names == {f"eval.{task}.simulated-{model}" for task in TASKS for model in ("0.2", "0.9")}
    tree = yaml.safe_load((done / "eval.yaml").read_text())
    assert list(tree["matrix"]) == ["task", "model"]
    assert tree["limit"] == 6
    again = harness("run", done / "eval.yaml", "--dry-run", env=on(done))
    assert again.returncode == 0, again.stderr


def test_the_same_command_resumes_and_asks_nothing_again(done: Path) -> None:
    attempts = done / "eval.words.simulated-0.2" / "attempts.jsonl"
    whole = attempts.read_bytes()
    attempts.write_bytes(b"".join(whole.splitlines(keepends=True)[:2]))
    assert harness(*EVAL, env=on(done)).returncode == 0
    assert len(attempts.read_bytes().splitlines()) == len(whole.splitlines()) == 6
    before = attempts.read_bytes()
    assert harness(*EVAL, env=on(done)).returncode == 0
    assert attempts.read_bytes() == before


def test_table_and_results_of_all_runs(done: Path) -> None:
    shown = harness("table", "eval", env=on(done))
    assert shown.returncode == 0, shown.stderr
    assert "average rank" in shown.stdout
    again = harness("show", "eval", env=on(done))
    assert again.returncode == 0, again.stderr
    assert "average rank" in again.stdout
    assert "One in full: harness show eval.words" in again.stdout
    found = json.loads(harness("show", "eval", "--format", "json", env=on(done)).stdout)
    assert len(found) == 4
    assert all(one["n_samples"] == 6 for one in found.values())
    both = ("eval.words.simulated-0.2", "eval.words.simulated-0.9")
    shown = harness("show", *both, env=on(done))
    assert shown.returncode == 0, shown.stderr
    assert all(run in shown.stdout for run in both)
    failed = harness("show", "eval", "--failed", env=on(done)).stdout
    assert failed.count("SIMULATED") >= 4
    found = json.loads(harness("show", "eval", "--failed", "--format", "json", env=on(done)).stdout)
    assert found.keys() == {*both, *(run.replace("words", "example") for run in both)}
    one = mistake(harness("show", "eval", "--instance", "x", env=on(done)))
    assert "for one run, not for 4" in one


def test_a_run_file_that_was_changed_is_not_replaced(done: Path) -> None:
    path = done / "eval.yaml"
    before = path.read_text()
    path.write_text(before.replace("limit: 6", "limit: 7"))
    assert "was edited" in mistake(harness(*EVAL, env=on(done)))
    assert "limit: 7" in path.read_text()
    path.write_text(before)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("jsonll", "--model", "simulated/a"), "Did you mean 'jsonl'?"),
        (("jsonl", "--model", "simulatd/a"), "simulatd"),
        (("jsonl", "--model", "simulated/a,simulated/a"), "Two models"),
        (("my_run.yaml", "--model", "simulated/a"), "Use harness run my_run.yaml --model"),
        (("./rows.jsonl", "--model", "simulated/a"), "There is no file"),
        (("./rows.txt", "--model", "simulated/a"), "Rows are read from .jsonl, .json, .csv"),
        (("a/rows.jsonl,b/rows.csv", "--model", "simulated/a"), "Two tasks have runs named 'rows'"),
        (("unheard_of", "--model", "simulated/a"), "'harness tasks' describes them"),
        (("jsonl", "--model", "gpt-4o-mini"), "such as openai/gpt-4o-mini"),
        (("jsonl_example", "--model", "simulated/a"), "harness run jsonl_example --model"),
        (("jsonl", "--model", "simulated/a", "-o", "base_url=x"), "unknown key 'base_url'"),
        (("jsonl", "--model", "simulated/a", "-o", "task.prompt=Q: {q}"), "'task.prompt=\"Q: …\"'"),
        (("jsonl", "--model", "simulated/a", "-o", "task.checks=a,b"), "Write [a,b]."),
        ((",", "--model", "simulated/a"), "Which task?"),
        (("jsonl", "--model", ""), "Which model?"),
        (
            ("jsonl", "--model", "simulated/a,openai/b", "-o", "model.base_url=http://h/v1"),
            "write a run file with 'matrix: {model: {NAME: {backend:",
        ),
    ],
)
def test_mistakes(arguments: tuple[str, ...], message: str, tmp_path: Path) -> None:
    assert message in mistake(harness("eval", *arguments, "--dry-run", env=on(tmp_path)))
    assert not list(tmp_path.iterdir())


ROWS = '{"prompt": "2 + 2?", "target": "4"}\n{"prompt": "Capital of France?", "target": "Paris"}'


def test_a_file_of_rows_is_evaluated(tmp_path: Path) -> None:
    (tmp_path / "rows.jsonl").write_text(ROWS)
    asked = ("eval", "rows.jsonl", "--model", "simulated")
    unchecked = mistake(harness(*asked, env=on(tmp_path / "runs"), cwd=tmp_path))
    assert "-o task.checks=exact_match" in unchecked
    asked = (*asked, "-o", "task.checks=contains")
    ended = harness(*asked, env=on(tmp_path / "runs"), cwd=tmp_path)
    assert ended.returncode == 0, ended.stderr
    again = harness("run", tmp_path / "runs/eval.yaml", env=on(tmp_path / "runs"))
    assert again.returncode == 0, again.stderr
    shown = harness("show", "eval.rows.simulated", env=on(tmp_path / "runs"))
    assert "2 samples of 2 instances" in shown.stdout


def test_files_of_rows_are_separate_benchmarks(tmp_path: Path) -> None:
    (tmp_path / "sums.jsonl").write_text(ROWS)
    (tmp_path / "cities.csv").write_text("prompt,target\nCapital of Italy?,Rome\n")
    env = on(tmp_path / "runs")
    asked = ("eval", "sums.jsonl,cities.csv", "--model", "simulated/1,simulated/0")
    ended = harness(*asked, "-o", "task.checks=contains", env=env, cwd=tmp_path)
    assert ended.returncode == 0, ended.stderr
    assert "jsonl:sums" in ended.stdout
    assert "jsonl:cities" in ended.stdout
    runs = [f"eval.{task}.simulated-{n}" for task in ("cities", "sums") for n in (0, 1)]
    assert sorted(path.name for path in (tmp_path / "runs").glob("*/")) == runs
    found = json.loads(harness("table", "eval", "--format", "json", env=env).stdout)
    assert found["table"]["tasks"] == ["jsonl:sums", "jsonl:cities"]
    other = mistake(harness("compare", runs[0], runs[2], env=env))
    assert "different data sets" in other


def test_rows_may_be_named_by_their_task_too(tmp_path: Path) -> None:
    (tmp_path / "rows.jsonl").write_text(ROWS)
    asked = ("eval", "jsonl", "-o", "task.path=rows.jsonl", "-o", "task.checks=[contains]")
    asked = (*asked, "--model", "openai/m", "-o", "model.base_url=http://127.0.0.1:9/v1")
    ended = harness(*asked, "--dry-run", env=on(tmp_path / "runs"), cwd=tmp_path)
    assert ended.returncode == 0, ended.stderr
    assert "our own instances" not in ended.stderr
