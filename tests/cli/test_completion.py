"""What a TAB offers, and that neither it nor --help makes anyone wait."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.cli.command import ROOT, harness
from tests.installed import has_verb

SCRIPT = Path(sys.executable).with_name("harness")
SMALLEST = """
import typer

app = typer.Typer(pretty_exceptions_enable=False, rich_markup_mode=None)


@app.command("rm")
def rm(run: str = typer.Argument(autocompletion=lambda incomplete: ["one"])) -> None:
    pass


@app.command("other")
def other() -> None:
    pass


app()
"""


def asking(line: str) -> dict[str, str]:
    """The variables with which bash starts the program for a TAB at the end of a line."""
    word = str(line.count(" "))
    return {"_HARNESS_COMPLETE": "complete_bash", "COMP_WORDS": line, "COMP_CWORD": word}


def offered(line: str, cwd: Path = ROOT, **environment: str) -> list[str]:
    ended = harness(env=os.environ | asking(line) | environment, cwd=cwd)
    assert not ended.stderr
    return ended.stdout.split()


def test_the_shell_gets_its_script() -> None:
    command = f"'{SCRIPT}' --show-completion; exit $?"  # which asks for the shell that started it
    ended = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    assert "complete -o default -F" in ended.stdout


def test_options_by_the_installed_program() -> None:
    env = os.environ | asking("harness run --fr")
    ended = subprocess.run([SCRIPT], env=env, capture_output=True, text=True, check=False)
    assert (ended.stdout.split(), ended.stderr) == (["--fresh"], "")


def test_commands() -> None:
    assert offered("harness ru") == ["run"]
    assert {"mv", "mock"} <= set(offered("harness m"))


@pytest.mark.parametrize("command", ["rm", *filter(has_verb, ["show", "score"])])
def test_run_names(command: str, tmp_path: Path) -> None:
    for name in ("first", "second", "third"):
        (tmp_path / "runs" / name).mkdir(parents=True)
        (tmp_path / "runs" / name / "config.yaml").touch()
    (tmp_path / "runs" / "other").mkdir()
    runs = str(tmp_path / "runs")
    assert offered(f"harness {command} ", HARNESS_RUNS_DIR=runs) == ["first", "second", "third"]
    assert offered(f"harness {command} s", HARNESS_RUNS_DIR=runs) == ["second"]
    assert offered(f"harness {command} s", cwd=tmp_path, HARNESS_RUNS_DIR="") == ["second"]
    assert not offered(f"harness {command} s", HARNESS_RUNS_DIR=str(tmp_path / "none"))
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / ".env").write_text(f"HARNESS_RUNS_DIR={runs}\n")
    elsewhere = tmp_path / "elsewhere"
    assert offered(f"harness {command} t", cwd=elsewhere, HARNESS_RUNS_DIR="") == ["third"]


def test_run_files(tmp_path: Path) -> None:
    assert "configs/jsonl_example.yaml" in offered("harness run ")
    assert offered("harness run configs/jsonl_e") == ["configs/jsonl_example.yaml"]
    (tmp_path / "deep" / "er").mkdir(parents=True)
    (tmp_path / "deep" / "er" / "one.yml").touch()
    assert offered("harness run deep/er/", cwd=tmp_path) == ["deep/er/one.yml"]


@pytest.mark.parametrize(
    ("arguments", "environment"),
    [
        (["--help"], {}),
        ([], asking("harness rm ")),
    ],
    ids=["help", "completion"],
)
@pytest.mark.timed
def test_nobody_waits(arguments: list[str], environment: dict[str, str], tmp_path: Path) -> None:
    """Typer takes most of the time, which varies with the machine: so beside a smallest program."""
    (tmp_path / "harness").write_text(f"#!{sys.executable}\n{SMALLEST}")
    (tmp_path / "harness").chmod(0o755)

    def taken(program: Path) -> float:
        start = time.monotonic()
        subprocess.run(
            [program, *arguments], env=os.environ | environment, capture_output=True, check=True
        )
        return time.monotonic() - start

    turns = [(taken(SCRIPT), taken(tmp_path / "harness")) for _ in range(7)]
    ours, smallest = map(min, zip(*turns, strict=True))
    assert ours < 2 * smallest, f"{ours:.3f} s, and the smallest program {smallest:.3f} s"


def test_the_name_of_the_command_does_not_depend_on_the_main_program(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys.modules["__main__"], "__package__", "pytest")  # python -m pytest
    assert harness("--help").stdout.startswith("Usage: harness [OPTIONS]")
