"""The recorded models replayed, and against each other."""

import os
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.cli.command import harness, on
from tests.plugins.comparisons.test_compare_verb import compared


@pytest.mark.exhaustive
def test_the_recorded_models(data_dir: Path, tmp_path: Path) -> None:
    tokeniser = Path(os.environ.get("NLTK_DATA", data_dir.parent / "nltk_data"))
    if not (tokeniser / "tokenizers" / "punkt_tab" / "english").is_dir():
        pytest.skip("no English Punkt parameters: set NLTK_DATA")
    env = on(tmp_path, HARNESS_DATA_DIR=str(data_dir), NLTK_DATA=str(tokeniser))
    for name in ("replay_vicuna7b_collie", "replay_gpt4_collie"):
        assert harness("run", f"configs/{name}.yaml", env=env).returncode == 0
    runs = ("replay_vicuna7b_collie", "replay_gpt4_collie")
    told = compared(tmp_path, *runs, "--round", "1", "--by", "structure", "--constraints")
    (found,) = told["others"]
    overall = found["overall"]
    assert overall["first"] == pytest.approx(341 / 2080, abs=1e-12)
    assert overall["second"] == pytest.approx(0.5125, abs=1e-12)
    assert overall["difference"] == pytest.approx(0.5125 - 341 / 2080, abs=1e-12)
    assert round(overall["stderr"], 4) == 0.0266
    assert (overall["better"], overall["worse"], overall["n_clusters"]) == (753, 28, 1435)
    assert overall["method"] == "clustered paired t"
    assert (len(found["better"]), len(found["worse"])) == (753, 28)
    assert len(found["groups"]) == 13
    assert all(one["p_adjusted"] >= one["p_value"] for one in found["groups"].values())
    assert sum(one["better"] for one in found["groups"].values()) == 753
    # 209 constraints on a word were met and 9 were not, of the same 822
    without = found["constraints"]["not containing the word '…'"]
    assert (without["comparison"]["n"], without["comparison"]["better"]) == (822, 209)
    assert without["comparison"]["worse"] == 9
    assert len(without["broken"]) == 9
    assert set(without["broken"]).isdisjoint(found["better"])
    fixed = {id_ for kind in found["constraints"].values() for id_ in kind["fixed"]}
    assert set(found["better"]) <= fixed
    # the last round instead: one of the runs has but one
    (last,) = compared(tmp_path, *runs)["others"]
    assert last["overall"]["second"] != overall["second"]


def replayed(name: str, data: Path, runs: Path) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    tokeniser = Path(os.environ.get("NLTK_DATA", data.parent / "nltk_data"))
    if not (tokeniser / "tokenizers" / "punkt_tab" / "english").is_dir():
        pytest.skip("no English Punkt parameters: set NLTK_DATA")
    environment = os.environ | {
        "HARNESS_RUNS_DIR": str(runs),
        "HARNESS_DATA_DIR": str(data),
        "NLTK_DATA": str(tokeniser),
    }
    ended = harness("run", f"configs/{name}.yaml", env=environment)
    assert ended.returncode == 0, ended.stderr
    metrics = msgspec.json.decode((runs / name / "metrics.json").read_bytes())
    lines = (runs / name / "attempts.jsonl").read_bytes().splitlines()
    return metrics, [msgspec.json.decode(line) for line in lines]


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("name", "model", "rounds"),
    [("replay_gpt4_collie", "gpt-4", 4), ("replay_vicuna7b_collie", "vicuna-7b", 1)],
)
def test_a_replay_gives_the_published_numbers(
    name: str, model: str, rounds: int, data_dir: Path, tmp_path: Path
) -> None:
    metrics, attempts = replayed(name, data_dir, tmp_path)
    expected = msgspec.json.decode((data_dir / f"collie/expected_{model}.json").read_bytes())
    verdicts = {found["id"]: found["verdicts"] for found in expected["instances"]}
    assert len(attempts) == rounds * 2080
    assert all(a["passed"] is verdicts[a["instance"]][a["round"] - 1] for a in attempts)
    for number in range(1, rounds + 1):
        table = expected["tables"][f"round{number}"]
        assert metrics["rounds"]["each"][str(number)] == pytest.approx(table["overall"], abs=1e-12)
        for structure, group in metrics["groups"]["structure"].items():
            rate = group["rounds"]["each"][str(number)]
            assert rate == pytest.approx(table[structure], abs=1e-12), structure
    assert len(metrics["groups"]["structure"]) == 13
    if rounds > 1:
        any_of = expected["tables"]["any_of_first_k_rounds"]
        assert metrics["rounds"]["any_of_first_k"] == pytest.approx(any_of)
    assert metrics["n_clusters"] == 1435
