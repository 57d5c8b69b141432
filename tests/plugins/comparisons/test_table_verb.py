"""`harness table`: runs as a paper's table, and what it must refuse."""

import csv
import io
import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.cli.command import harness, mistake
from tests.rows import QUICKSTART

RUN = ("run", QUICKSTART, "--limit", "26", "--name")


def on(runs: Path, **more: str) -> dict[str, str]:
    return os.environ | {"HARNESS_RUNS_DIR": str(runs)} | more


@pytest.fixture(scope="module")
def quick(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Simulated runs: a weak and a strong one, and the variants of a file."""
    runs = tmp_path_factory.mktemp("runs")
    variants = "variants={zero: {}, taught: {rounds.max: 3}}"
    for name, option in (
        ("weak", "model.accuracy=0.2"),
        ("strong", "model.accuracy=0.9"),
        ("both", variants),
    ):
        ended = harness(*RUN, name, "-o", option, env=on(runs))
        assert ended.returncode == 0, ended.stderr
    return runs


def shown(runs: Path, *arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
    ended = harness("table", *arguments, env=on(runs, **more))
    assert ended.returncode == 0, ended.stderr
    return ended


def test_two_runs(quick: Path) -> None:
    printed = shown(quick, "weak", "strong", "--rows", "structure", COLUMNS="80").stdout
    lines = printed.splitlines()
    assert lines[2].split() == ["structure", "pass", "rate"]
    assert [line.strip() for line in lines if "accuracy=" in line] == [
        "model.accuracy=0.2",
        "model.accuracy=0.9",
    ]
    assert sum(line.strip() == "SIMULATED" for line in lines) == 2
    assert sum(line.startswith("  word01") for line in lines) == 2


def test_the_figures_are_those_of_the_run(quick: Path) -> None:
    found = json.loads(shown(quick, "weak", "--rows", "", "--format", "json").stdout)
    metrics = json.loads((quick / "weak" / "metrics.json").read_text())["overall"]
    (row,) = found["rows"]
    (cell,) = row["cells"]
    assert (cell["value"], cell["stderr"]) == (metrics["pass_rate"], metrics["stderr"])
    assert (cell["n"], cell["ci95"]) == (metrics["n"], metrics["ci95"])
    assert row["marks"] == ["SIMULATED"]


def test_a_file_s_name_means_its_variants(quick: Path) -> None:
    told = shown(quick, "both", "--rows", "structure", "--format", "csv").stdout
    rows = list(csv.DictReader(io.StringIO(told)))
    assert {row["settings"] for row in rows} == {"rounds.max=2", "rounds.max=3"}
    assert {row["runs"] for row in rows} == {"both.zero", "both.taught"}


def test_the_table_of_an_evaluation_again(quick: Path) -> None:
    told = shown(quick, "weak", "strong", "--intervals", COLUMNS="200").stdout
    assert "Per cent, with 95% intervals" in told
    assert "Against simulated" in told
    assert "adjusted for 1 comparison." in told
    latex = shown(quick, "weak", "strong", "--intervals", "--format", "latex").stdout
    assert r"benchmark & difference & p (Holm) & p & n \\" in latex
    refused = harness("table", "weak", "--intervals", "--rows", "structure", env=on(quick))
    assert "Leave out --rows" in mistake(refused)


def test_other_formats(quick: Path) -> None:
    runs = ("weak", "strong", "--rows", "structure", "--columns", "source")
    markdown = shown(quick, *runs, "--format", "markdown").stdout
    assert "| simulated (SIMULATED) | 0.2 | word01 |" in markdown
    assert r"\begin{tabular}{lllr}" in shown(quick, *runs, "--format", "latex").stdout
    scores = ("--score", "pass_rate", "--score", "exact_match", "--round", "1")
    found = json.loads(shown(quick, *runs, *scores, "--format", "json").stdout)
    assert [figure["name"] for figure in found["figures"]] == ["pass rate", "exact_match"]
    assert found["round"] == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("weak", "--rows", "structur"), "Did you mean 'structure'?"),
        (("weak", "--rows", "structure", "--columns", "x"), "--columns: the run 'weak' has no"),
        (("weak", "--rows", "", "--score", "exact_mach"), "Did you mean 'exact_match'?"),
        (("weak", "--rows", "", "--round", "9"), "None of the runs has a round 9"),
        (("wek", "--rows", ""), "There is no run 'wek'"),
        (("weak", "weak"), "'weak' is named twice"),
    ],
)
def test_mistakes(quick: Path, arguments: tuple[str, ...], message: str) -> None:
    assert message in mistake(harness("table", *arguments, env=on(quick)))
