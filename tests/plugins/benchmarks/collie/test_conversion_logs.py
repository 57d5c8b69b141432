"""Logs of generations are converted."""

import json
from pathlib import Path
from typing import Any

import pytest

from harness.errors import DataInvalid, DataMissing
from harness.plugins.benchmarks.collie.conversion import write_generations
from tests.plugins.benchmarks.collie import originals

ONE = {"prompts": ["p", "q"], "texts": ["a", "b"]}
THREE = {
    "prompts": ["p", "q"],
    "1st_round_text": ["a1", "b1"],
    "1st_round_feedback": ["fa1", "fb1"],
    "2nd_round_text": ["a2", "b2"],
    "2nd_round_feedback": ["fa2", "fb2"],
    "3rd_round_text": ["a3", "b3"],
}


def read(folder: Path, content: Any) -> list[dict[str, Any]]:
    file = folder / "log.json"
    file.write_text(content if isinstance(content, str) else json.dumps(content, indent=2))
    return [json.loads(line) for line in write_generations(file)]


def test_one_answer_per_prompt(tmp_path: Path) -> None:
    assert read(tmp_path, ONE) == [
        {"prompt": "p", "rounds": [{"text": "a", "feedback": None}]},
        {"prompt": "q", "rounds": [{"text": "b", "feedback": None}]},
    ]


def test_rounds_with_feedback(tmp_path: Path) -> None:
    found = read(tmp_path, THREE)
    assert [row["prompt"] for row in found] == ["p", "q"]
    assert found[1]["rounds"] == [
        {"text": "b1", "feedback": "fb1"},
        {"text": "b2", "feedback": "fb2"},
        {"text": "b3", "feedback": None},
    ]


def test_lines_are_json(tmp_path: Path) -> None:
    (tmp_path / "log.json").write_text(json.dumps(ONE | {"texts": ["ä\n", "\u2028"]}))
    lines = list(write_generations(tmp_path / "log.json"))
    assert [json.loads(line)["rounds"][0]["text"] for line in lines] == ["ä\n", "\u2028"]
    assert "ä".encode() in lines[0]


@pytest.mark.parametrize(
    "content",
    [
        "nonsense",
        "[" * 100_000,
        [1],
        {"prompts": ["p"], "texts": [None]},
        {"texts": ["a"]},
        ONE | {"texts": ["a"]},
        THREE | {"2nd_round_feedback": []},
    ],
)
def test_another_form_is_refused(tmp_path: Path, content: Any) -> None:
    with pytest.raises(DataInvalid, match=r"log\.json: not a log of generations"):
        read(tmp_path, content)


def test_a_file_that_is_not_there_is_missing(tmp_path: Path) -> None:
    with pytest.raises(DataMissing):
        list(write_generations(tmp_path / "log.json"))


def test_the_official_logs_give_the_recordings(data_dir: Path, tmp_path: Path) -> None:
    """Logs in the official form, which have the official sizes: see the catalogue."""
    for name, content in originals.collie(data_dir).items():
        if name.endswith(".json"):
            (tmp_path / name).write_bytes(content)
            model = "gpt-4" if name.startswith("gpt-4") else "vicuna-7b"
            recorded = data_dir / "collie" / "generations" / f"{model}.jsonl"
            assert b"".join(write_generations(tmp_path / name)) == recorded.read_bytes()
