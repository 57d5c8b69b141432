"""`harness matrix`, and what it must refuse."""

import json
import os
from pathlib import Path

import pytest

from tests.cli.command import harness, mistake


def on(runs: Path, **more: str) -> dict[str, str]:
    return os.environ | {"HARNESS_RUNS_DIR": str(runs)} | more


@pytest.fixture(scope="module")
def quick(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Simulated runs, and published scores for them."""
    runs = tmp_path_factory.mktemp("runs")
    for name, accuracy in {"weak": 0.2, "middling": 0.5, "strong": 0.9}.items():
        ended = harness(
            "run", "configs/quickstart.yaml", "--limit", "26", "--name", name,
            "-o", f"model.accuracy={accuracy}", "-o", "samples=1", "-o", "rounds.max=1",
            env=on(runs),
        )  # fmt: skip
        assert ended.returncode == 0, ended.stderr
    (runs / "published.csv").write_text("model,ifeval\nweak,1\nmiddling,2\nstrong,3\nelse,4\n")
    return runs


def test_every_pair_and_rankings(quick: Path) -> None:
    ended = harness(
        "matrix", "weak", "middling", "strong", "--by", "structure",
        "--external", quick / "published.csv", "--format", "json", env=on(quick),
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr
    found = json.loads(ended.stdout)
    rows = found["matrix"]["rows"]
    assert [row["run"] for row in rows] == ["weak", "middling", "strong"]
    for row in rows:
        metrics = json.loads((quick / row["run"] / "metrics.json").read_text())["overall"]
        assert row["value"]["mean"] == metrics["pass_rate"]
        assert row["value"]["ci95"] == metrics["ci95"]
    compared = harness("compare", "weak", "strong", "--format", "json", env=on(quick))
    (other,) = json.loads(compared.stdout)["others"]
    pair = next(one for one in found["matrix"]["pairs"] if (one["first"], one["second"]) == (0, 2))
    assert pair["comparison"]["p_value"] == other["overall"]["p_value"]
    assert pair["comparison"]["method"] == "exact McNemar"
    assert pair["starred"] == (other["overall"]["p_value"] < 0.01)
    assert found["rankings"]["unmatched"] == ["else"]
    assert len(found["rankings"]["scorings"]) == 1 + 13 + 1


def test_in_a_terminal(quick: Path) -> None:
    ended = harness("matrix", "weak", "strong", env=on(quick, COLUMNS="80"))
    assert ended.returncode == 0, ended.stderr
    assert "1 weak" in ended.stdout
    assert "McNemar's exact test" in ended.stdout
    assert "tau-b" not in ended.stdout
    alone = harness("matrix", "weak", "--by", "structure", env=on(quick, COLUMNS="80"))
    assert alone.returncode == 0, alone.stderr
    assert "word01" in alone.stdout
    assert "diagonal" not in alone.stdout
    assert "tau-b" not in alone.stdout
    for form in ("markdown", "latex", "csv"):
        assert harness("matrix", "weak", "strong", "--format", form, env=on(quick)).stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("weak",), "Only one run was named"),
        (("weak", "strong", "--by", "structur"), "Did you mean 'structure'?"),
        (("weak", "strong", "--score", "constraint"), "Did you mean 'constraints'?"),
        (("weak", "strong", "--cluster", "x"), "--cluster: the run 'weak' has no label"),
        (("weak", "strong", "--round", "9"), "None of the runs has a round 9"),
        (("weak", "strong", "--external", "nowhere.csv"), "Cannot read nowhere.csv"),
    ],
)
def test_mistakes(quick: Path, arguments: tuple[str, ...], message: str) -> None:
    assert message in mistake(harness("matrix", *arguments, env=on(quick)))
