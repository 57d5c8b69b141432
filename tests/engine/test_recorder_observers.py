"""Observers: the calls that they get, and that their errors cost nothing."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from harness.config.settings import Settings
from harness.engine.preparation import prepare
from harness.errors import ConfigError
from tests.cli.command import harness
from tests.conftest import ROOT, run_file
from tests.rows import QUICKSTART, WORDS

pytestmark = pytest.mark.usefixtures("executing_code")

OBSERVER = """
import json
from pathlib import Path


from harness.plugin import Observer

class Diary(Observer):
    def _write(self, *facts):
        with Path("diary.jsonl").open("a") as file:
            file.write(json.dumps(facts) + "\\n")

    def run_begun(self, run):
        self._write("begun", run.name, run.task, run.backend, run.simulated, run.config["samples"])

    def attempt(self, attempt):
        assert attempt.instance in Path("runs/q/attempts.jsonl").read_text()
        self._write("attempt", attempt.instance, attempt.passed)
        FAULT

    def run_ended(self, ended, metrics):
        self._write("ended", ended, metrics["n_samples"], metrics["pass_at_k"]["1"])
"""


def observed(
    folder: Path, name: str, fault: str = "", most: str = "13"
) -> tuple[Any, list[list[Any]]]:
    """A run's command with an observer, and what this observer was told."""
    (folder / name).write_text(OBSERVER.replace("FAULT", fault))
    env = {key: value for key, value in os.environ.items() if not key.startswith("HARNESS_")}
    env |= {"HARNESS_OBSERVERS": f"./{name}", "HARNESS_CACHE_DIR": str(folder / "cache")}
    told = (
        "run",
        ROOT / QUICKSTART,
        "--limit",
        most,
        "--name",
        "q",
        "-o",
        "samples=1",
        "-o",
        "rounds.max=1",
    )
    ended = harness(*told, cwd=folder, env=env)
    assert ended.returncode == 0, ended.stderr
    diary = folder / "diary.jsonl"
    lines = [json.loads(line) for line in diary.read_text().splitlines()]
    diary.unlink()
    return ended, lines


def test_a_session_is_observed_and_so_is_the_one_that_resumes_it(tmp_path: Path) -> None:
    for most, more in (("13", 13), ("20", 7)):
        _, (first, *attempts, last) = observed(tmp_path, "diary.py", most=most)
        assert first == ["begun", "q", "jsonl", "simulated", True, 1]
        assert [kind for kind, *_ in attempts] == ["attempt"] * more
        metrics = json.loads((tmp_path / "runs/q/metrics.json").read_text())
        assert last == ["ended", "finished", int(most), metrics["overall"]["pass_rate"]]


def test_an_observer_that_raises_is_dropped_with_one_warning(tmp_path: Path) -> None:
    ended, told = observed(tmp_path, "faulty.py", "raise KeyError('oops')")
    assert [kind for kind, *_ in told] == ["begun", "attempt"]
    [warning] = [line for line in ended.stderr.splitlines() if "observer" in line]
    assert "observer ./faulty.py: attempt failed (KeyError: 'oops'); it is not called" in warning
    assert json.loads((tmp_path / "runs/q/metrics.json").read_text())["complete"]


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("oteel", "no observer named 'oteel'"),
        ("./half.py", "no 'attempt' and no 'run_ended'"),
    ],
)
def test_a_mistake_is_reported_before_any_call(
    name: str, problem: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("half.py").write_text(
        "from harness.plugin import Observer\n"
        "class Half(Observer):\n    def run_begun(self, run): ...\n"
    )
    run = run_file(task=WORDS, model={"backend": "simulated", "name": "m"})
    with pytest.raises(ConfigError, match=problem):
        prepare(run, "run", Settings(runs_dir=tmp_path, observers=name))
