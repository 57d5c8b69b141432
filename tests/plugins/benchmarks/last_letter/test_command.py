"""Last-letter runs as their users make them."""

import json
import os
from pathlib import Path
from typing import Any

import msgspec
import pytest

from harness.plugins.benchmarks.last_letter.structure import READERS
from harness.plugins.mock.server import MockServer
from tests.cli.command import ROOT, harness, mistake

FREE = "configs/last_letter_free.yaml"


def metrics(runs: Path, name: str) -> dict[str, Any]:
    found: dict[str, Any] = msgspec.json.decode((runs / name / "metrics.json").read_bytes())
    return found


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    return os.environ | {"HARNESS_RUNS_DIR": str(tmp_path)}


def test_the_arms_run_and_right_answers_pass(environment: dict[str, str], tmp_path: Path) -> None:
    ended = harness("run", FREE, "-o", "model.accuracy=1", env=environment)
    assert ended.returncode == 0, ended.stderr
    for arm in ("strict", "flexible", "json"):
        found = metrics(tmp_path, f"last_letter_free.{arm}")
        assert found["n_instances"] == 150
        assert found["overall"]["pass_rate"] == 1
        assert found["outcomes"]["ok"] == 150
    manifest = msgspec.json.decode(
        (tmp_path / "last_letter_free.json" / "manifest.json").read_bytes()
    )
    assert manifest["fingerprint"]["form"] == manifest["fingerprint"]["parser"] == "json"


def test_wrong_answers_are_unparseable_and_fail(
    environment: dict[str, str], tmp_path: Path
) -> None:
    ended = harness("run", FREE, "-o", "model.accuracy=0", "-o", "task.n=9", env=environment)
    assert ended.returncode == 0, ended.stderr
    found = metrics(tmp_path, "last_letter_free.strict")
    assert found["outcomes"]["unparseable"] == found["overall"]["n"] == 9
    assert found["overall"]["pass_rate"] == 0


def test_hosted_models_are_sent_the_tasks_own_prompt(
    environment: dict[str, str], tmp_path: Path, mock_server: MockServer
) -> None:
    ended = harness(
        "run", FREE, "-o", "model={backend: openai, name: m}", "--limit", "3",
        "-o", f"model.base_url={mock_server.base_url}", "-o", "variants={}",
        "-o", "task.shots={n: 1, form: task}", env=environment,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr
    lines = (tmp_path / "last_letter_free" / "attempts.jsonl").read_bytes().splitlines()
    assert len(lines) == mock_server.stats().requests == 3
    for line in lines:
        (message,) = msgspec.json.decode(line)["request"]["messages"]
        assert message["content"].count("Question: ") == 2
        assert "The answer is <the 4 letters>" in message["content"]


def test_recorded_answers_give_the_published_figures(
    environment: dict[str, str], tmp_path: Path, data_dir: Path
) -> None:
    environment["HARNESS_DATA_DIR"] = str(data_dir)
    ended = harness("run", "configs/replay_llama3_last_letter.yaml", env=environment)
    assert ended.returncode == 0, ended.stderr
    for arm, right in (("strict", 53), ("flexible", 91)):
        found = metrics(tmp_path, f"replay_llama3_last_letter.{arm}")
        assert round(found["overall"]["pass_rate"] * 150, 6) == right
        readers = {name: round(found["scores"][name]["mean"] * 150, 6) for name in READERS}
        assert readers == {"strict": 53, "flexible": 91}  # of the same attempts
    script = harness_script(environment)
    assert " 53/150" in script
    assert " 91/150" in script
    assert " 86/150" in script


def harness_script(environment: dict[str, str]) -> str:
    import subprocess
    import sys

    return subprocess.run(
        [sys.executable, "scripts/last_letter_recorded.py"],
        cwd=ROOT,
        env=environment | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
    ).stdout


def test_data_that_are_not_there_and_forms_that_do_not_fit_are_told(
    environment: dict[str, str], tmp_path: Path
) -> None:
    environment["HARNESS_DATA_DIR"] = str(tmp_path)
    one = ("run", FREE, "-o", "variants={}")
    assert "harness docs last_letter" in mistake(
        harness(*one, "-o", "task.dataset=recorded", env=environment)
    )
    assert "json cannot read the form 'free'" in mistake(
        harness(*one, "-o", "task.form=free", "-o", "task.parser=json", env=environment)
    )


def test_form_by_decoding_by_reader_in_one_file_and_one_table(
    environment: dict[str, str], tmp_path: Path
) -> None:
    ended = harness(
        "run", "configs/last_letter_constrained.yaml", "-o", "task.n=12", env=environment
    )
    assert ended.returncode == 0, ended.stderr
    for arm in ("free", "free_constrained", "json", "json_constrained"):
        found = metrics(tmp_path, f"last_letter_constrained.{arm}")
        assert (found["model_calls"]["n_calls"], found["n_calls"]) == (12, 24)  # and the judge's
    shown = harness("table", "last_letter_constrained", "--format", "json", env=environment)
    table = json.loads(shown.stdout)
    assert [figure["name"] for figure in table["figures"]] == ["strict", "flexible", "AI parser"]
    assert len(table["rows"]) == 4
    for row in table["rows"]:
        assert [cell["n"] for cell in row["cells"]] == [12, 12, 12]


def test_the_bad_prompt_is_warned_of_before_the_run(environment: dict[str, str]) -> None:
    file = "configs/last_letter_json_prompts.yaml"
    ended = harness("run", file, "--dry-run", "--limit", "2", env=environment)
    assert "does not name the key 'answer'" in " ".join((ended.stdout + ended.stderr).split())
    assert ended.returncode == 0
