"""`harness compare` on the arms of a task: what a form does, and what else the prompts may do."""

import json
import os
from pathlib import Path

import pytest

from tests.cli.command import harness

ONE = ("run", "configs/last_letter_free.yaml", "--limit", "20", "-o", "variants={}", "--name")


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Simulated runs: of two own examples, freely, as JSON and constrained; of the paper's one."""
    folder = tmp_path_factory.mktemp("runs")
    for name, *options in (
        ("two", "task.examples=2"),
        ("paper", "task.examples=paper"),
        ("json", "task.examples=2", "task.form=json"),
        ("held", "task.examples=2", "decoding.constraint=task"),
    ):
        changes = [part for option in options for part in ("-o", option)]
        ended = harness(*ONE, name, *changes, env=os.environ | {"HARNESS_RUNS_DIR": str(folder)})
        assert ended.returncode == 0, ended.stderr
    return folder


def compared(runs: Path, *arguments: str, width: str = "120") -> str:
    environment = os.environ | {"HARNESS_RUNS_DIR": str(runs), "COLUMNS": width}
    ended = harness("compare", *arguments, env=environment)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


@pytest.mark.parametrize("width", ["60", "120"])
def test_prompts_that_differ_in_more_than_the_form_are_marked(runs: Path, width: str) -> None:
    said = compared(runs, "two", "paper", "json", width=width)
    table = said.partition("Standard error")[0]
    lines = [line.strip() for line in table.splitlines()]
    [row] = (number for number, line in enumerate(lines) if line.startswith("paper "))
    assert lines[row + 1] == "CONFOUNDED"
    assert lines.count("CONFOUNDED") == 1
    whole = " ".join(said.split())
    assert "CONFOUNDED: the prompts of paper and of two differ in more than the form" in whole
    assert "the prompts of json say what those of two do: the comparison is of" in whole


def test_arms_of_the_form_and_of_decoding_are_not(runs: Path) -> None:
    said = " ".join(compared(runs, "two", "json", "held").split())
    assert "CONFOUNDED" not in said
    assert "in more than" not in said
    assert "scored with a different" not in said
    assert "differ in decoding.constraint, task.form." in said
    assert "the comparison is of form, parser, prompt." in said


def test_it_is_said_in_every_format(runs: Path) -> None:
    for form in ("markdown", "json"):
        said = compared(runs, "two", "paper", "--format", form)
        assert "CONFOUNDED: the prompts of paper and of two" in said
    found = json.loads(compared(runs, "paper", "two", "--format", "json"))
    assert found["notes"][0].startswith("CONFOUNDED: the prompts of two and of paper")
