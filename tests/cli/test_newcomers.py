"""Small things that newcomers meet first."""

import os
from pathlib import Path

import pytest

from tests.cli.command import QUICK, harness, mistake, on
from tests.installed import has_verb


@pytest.mark.parametrize("backend", ["simulated", "openai"])
@pytest.mark.parametrize("key", ["temperature", "max_tokens"])
def test_a_decoding_parameter_of_the_model_is_pointed_to_its_place(backend: str, key: str) -> None:
    options = "-o", f"model={{backend: {backend}, name: m, {key}: 1}}"
    env = os.environ | {"OPENAI_API_KEY": "k"}
    said = mistake(harness("run", "jsonl_example", *options, env=env))
    assert f"Did you mean 'decoding.{key}'?" in said


@pytest.mark.parametrize("file", ["jsonl_example.yaml", "some/jsonl_exmple.yaml"])
def test_a_file_that_is_not_there_may_be_a_shipped_one(file: str, tmp_path: Path) -> None:
    said = mistake(harness("run", file, cwd=tmp_path))
    assert f"There is no run file '{file}'" in said
    assert "Did you mean the shipped 'jsonl_example'?" in said


@pytest.mark.parametrize(
    ("file", "remedy"),
    [
        (
            "rows.jsonl",
            "is a data file, not a run file. Evaluate it with harness eval rows.jsonl",
        ),
        ("unheard_of", "'harness configs' lists run files, 'harness tasks' lists tasks"),
        ("other.yaml", "task is missing; model is missing; unknown key 'prompts'"),
    ],
)
def test_what_is_no_run_file_has_one_line_of_help(file: str, remedy: str, tmp_path: Path) -> None:
    (tmp_path / "rows.jsonl").write_text('{"prompt": "a", "gold": "b"}\n')
    (tmp_path / "other.yaml").write_text("{prompts: [a]}")
    said = mistake(harness("run", file, cwd=tmp_path))
    assert remedy in " ".join(said.split())
    assert len(said.splitlines()) <= 2


def test_a_file_beside_it_is_nearer_than_a_shipped_one(tmp_path: Path) -> None:
    (tmp_path / "jsonl_examples.yaml").touch()
    said = mistake(harness("run", "jsonl_exampl.yaml", cwd=tmp_path))
    assert "Did you mean 'jsonl_examples.yaml'?" in said


def test_a_name_in_a_run_file_is_answered_with_where_a_name_comes_from(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text("{name: my study, task: {rows: [{q: a}]}, model: simulated/0.5}")
    said = mistake(harness("run", file))
    assert "unknown key 'name'" in said
    assert "A run has the name of its file, or another one with --name NAME." in said


def test_narrow_terminals_show_the_names_of_runs_and_of_variants(tmp_path: Path) -> None:
    ended = harness(*QUICK, "a_run_with_a_long_name", "-o", "samples=1", env=on(tmp_path))
    assert ended.returncode == 0, ended.stderr
    said = harness("ls", env=on(tmp_path, COLUMNS="40")).stdout
    assert "a_run_with_a_long_name" in "".join(said.split())
    assert all(len(line) <= 40 for line in said.splitlines())


def test_attempts_in_rounds_are_counted_as_such(tmp_path: Path) -> None:
    ended = harness(*QUICK, "rounds", "-o", "model.accuracy=0.2", env=on(tmp_path))
    assert " in up to 2 rounds" in ended.stdout


MISTAKEN = [
    ((), "harness run quickstart"),
    (("run",), "Try harness run quickstart"),
    (("eval",), "Such as: harness eval ifeval --model openai/gpt-4o-mini"),
    (("eval", "ifeval"), "Such as openai/gpt-4o-mini"),
    (("show",), "'harness ls' lists the runs"),
    (("evl",), "Did you mean 'eval'?"),
    (("rnu",), "Did you mean 'run'?"),
    (("frobnicate",), "harness --help lists the commands"),
    (("run", "jsonl_example", "--limit", "0.1"), "It is a number of instances, such as 50"),
    (("run", "jsonl_example", "--freh"), "Possible options: --fresh"),
]
"""Mistaken commands, and what the answer has."""

OF_OTHERS = {"eval": "eval", "evl": "eval", "show": "show"}
"""The verb that a command needs, by the command's first word."""


def is_answered(words: tuple[str, ...]) -> bool:
    """Whether the verb that a command needs is installed."""
    return has_verb(OF_OTHERS.get("".join(words[:1]), "run"))


@pytest.mark.parametrize(
    ("words", "said"), [(words, said) for words, said in MISTAKEN if is_answered(words)]
)
def test_a_mistaken_command_is_answered_with_what_helps(words: tuple[str, ...], said: str) -> None:
    ended = harness(*words)
    assert (ended.returncode, said in ended.stdout + ended.stderr) == (2, True), ended.stderr
