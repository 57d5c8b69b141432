"""`harness show`: a run's base constraints by a label, and what it must refuse."""

import os
from pathlib import Path

import pytest

from tests.cli.command import QUICK, harness, mistake, on


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    runs = tmp_path_factory.mktemp("runs")
    ended = harness(*QUICK, "weak", "-o", "model.accuracy=0.2", env=on(runs))
    assert ended.returncode == 0, ended.stderr
    return runs


@pytest.mark.parametrize(
    "others", [(), ("--instance", "sent01/0"), ("--instance", "sent01/0", "--constraints")]
)
def test_by_goes_with_constraints_alone(runs: Path, others: tuple[str, ...]) -> None:
    said = mistake(harness("show", "weak", *others, "--by", "structure", env=on(runs)))
    assert "use it with --constraints" in said
    assert "harness show weak --constraints --by structure" in said


def test_a_run_without_its_first_answers_is_shown_as_incomplete(tmp_path: Path) -> None:
    file = tmp_path / "file.yaml"
    file.write_text(
        "task: {rows: [{q: a, target: z}, {q: b, target: z}], prompt: '{{ q }}', "
        "checks: [contains]}\n"
        "model: {backend: simulated, name: m, accuracy: 0}\nrounds: {max: 3}\n"
    )
    env = os.environ | {"HARNESS_RUNS_DIR": str(tmp_path / "runs")}
    assert harness("run", str(file), env=env).returncode == 0
    attempts = tmp_path / "runs" / "file" / "attempts.jsonl"
    lines = attempts.read_text().splitlines(keepends=True)
    attempts.write_text("".join(line for line in lines if '"round":1' not in line))
    ended = harness("show", "file", env=env)
    assert "INCOMPLETE" in ended.stdout, ended.stderr
    for listing in ("show file --instance 1", "errors draw file"):
        ended = harness(*listing.split(), env=env, apart=True)
        assert ended.returncode == 0, ended.stderr
        assert "lacks the first round of 2 samples" in ended.stderr, listing


def test_long_reasons_are_cut_where_they_are_shown(tmp_path: Path) -> None:
    (tmp_path / "long.py").write_text("def long(text): return 'x' * 100_000\n")
    file = tmp_path / "file.yaml"
    file.write_text(
        "task: {rows: [{q: a}], prompt: '{{ q }}', checks: [./long.py]}\nmodel: simulated/1\n"
    )
    env = os.environ | {"HARNESS_RUNS_DIR": str(tmp_path / "runs")}
    assert harness("run", str(file), env=env, apart=True).returncode == 0
    (tmp_path / "long.py").write_text("def long(text): return True\n")
    for command in (
        "show file --instance 1",
        "show file --failed",
        "errors draw file",
        "score file",
    ):
        ended = harness(*command.split(), env=env, apart=True)
        assert ended.returncode in (0, 3), ended.stderr
        assert len(ended.stdout) < 5_000, command
        assert "…" in ended.stdout, command
