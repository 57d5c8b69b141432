"""`harness matrix` and `harness data describe`, and what they must refuse."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from harness.datasets.folder import DataFolder
from harness.plugin_loader import kind
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


def test_what_a_data_set_asks_for() -> None:
    ended = harness("data", "describe", "wildifeval", "--format", "json")
    assert ended.returncode == 0, ended.stderr
    found = json.loads(ended.stdout)
    assert (found["n_tasks"], found["n_criteria"]) == (16, 61)
    assert sum(found["groups"].values()) == found["repeated"]["1"] == 61
    assert found["tasks_by_count"]["8"] == 1
    assert set(found["labels"]) == {"n_constraints", "domain"}
    shown = harness("data", "describe", "wildifeval", env=os.environ | {"COLUMNS": "80"})
    assert "Persona and Role" in shown.stdout
    assert "PMI" in shown.stdout
    assert "…" not in shown.stdout
    arguments = ("wildifeval", "--verbs", "--format", "markdown")
    assert "| verb | opening | anywhere |" in harness("data", "describe", *arguments).stdout


def test_a_map_of_criteria_from_words_and_from_embeddings(tmp_path: Path) -> None:
    describe = ("data", "describe", "wildifeval", "--format", "json", "--map", tmp_path / "map.svg")
    words = harness(*describe)
    assert words.returncode == 0, words.stderr
    drawn = (tmp_path / "map.svg").read_text()
    assert "61 different criteria of wildifeval" in drawn
    assert "Persona and Role" in drawn
    built: Any = kind("tasks").build("wildifeval", {}, data=DataFolder(tmp_path))
    texts = [one.text for each in built.instances() for one in built.criteria(each)]
    path = tmp_path / "embeddings.jsonl"
    path.write_text(
        "".join(json.dumps({"text": t, "embedding": [len(t), 1]}) + "\n" for t in texts)
    )
    assert harness(*describe, "--embeddings", path).returncode == 0
    assert (tmp_path / "map.svg").read_text() != drawn
    path.write_text(json.dumps({"text": texts[0], "embedding": [1]}) + "\n")
    assert "no embedding of 60 texts" in mistake(harness(*describe, "--embeddings", path))


def test_sizes_and_lengths_of_a_data_set() -> None:
    def described(task: str) -> list[dict[str, list[Any]]]:
        tables: list[dict[str, list[Any]]] = json.loads(
            harness("data", "describe", task, "--format", "json").stdout
        )
        return tables

    structures, lengths = described("collie")
    assert structures["columns"] == ["structure", "builtin", "instances", "prompts"]
    assert ["pass01", 10, 10, 10] in structures["rows"]
    assert ["paragraphs per passage", 10, 2.3] in [row[:3] for row in lengths["rows"]]
    characters, words, keywords = described("concodeeval_generation")
    assert [row[1] for row in characters["rows"] + words["rows"]] == [62] * 10
    assert ["type", 62] in keywords["rows"]
    categories, lengths = described("natural_instructions")
    assert ["generation", 2, 24, 6, 4] in categories["rows"]
    assert ["Title", 6] in [row[:2] for row in lengths["rows"]]
    shown = harness("data", "describe", "natural_instructions", "--format", "markdown").stdout
    assert "| Instance, input | 72 | 8.75 |" in shown


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("wildifevl",), "Did you mean 'wildifeval'?"),
        (("last_letter",), "cannot describe its data"),
        (("wildifeval", "-o", "dataset"), "is not an override"),
        (("wildifeval", "--map", "map.gif"), "does not end in"),
        (("wildifeval", "-o", "datset=builtin"), "Did you mean 'dataset'?"),
    ],
)
def test_mistakes_of_describe(arguments: tuple[str, ...], message: str) -> None:
    assert message in mistake(harness("data", "describe", *arguments))
