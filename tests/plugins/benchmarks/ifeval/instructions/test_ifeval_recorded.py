"""The published code's verdicts, on recorded answers, edge cases and its own unit tests."""

import json
from pathlib import Path
from typing import Any

import pytest

from harness.datasets.folder import read_jsonl
from harness.plugins.benchmarks.ifeval.instructions import Verdict, instruction, judge

ALL = pytest.mark.exhaustive
MODELS = [
    "gpt4",
    *(
        pytest.param(name, marks=ALL)
        for name in (
            "gpt-4o-2024-08-06",
            "claude-3-haiku-20240307",
            "llama-3.1-8b-instruct-awq-int4",
            "qwen2.5-0.5b-instruct-gptq-int4",
        )
    ),
]
pytestmark = pytest.mark.usefixtures("punkt_data")


@pytest.fixture
def folder(data_dir: Path) -> Path:
    found = data_dir / "ifeval"
    if not found.is_dir():
        pytest.skip("no recorded answers to IFEval")
    return found


def judged(row: dict[str, Any], text: str) -> list[Verdict]:
    pairs = zip(row["instruction_id_list"], row["kwargs"], strict=True)
    return judge([instruction(name, arguments) for name, arguments in pairs], text)


@pytest.mark.parametrize("model", MODELS)
def test_recorded_answers_get_the_official_verdicts(folder: Path, model: str) -> None:
    prompts = {row["prompt"]: row for row in read_jsonl(folder / "input_data.jsonl")}
    expected = {row["key"]: row for row in read_jsonl(folder / f"expected_{model}.jsonl")}
    counts = {"strict": [0, 0], "loose": [0, 0]}
    differ, undecided = [], 0
    for answer in read_jsonl(folder / f"responses_{model}.jsonl.gz"):
        row = prompts[answer["prompt"]]
        found = judged(row, answer["response"])
        assert [one.reason == "" for one in found] == [one.strict for one in found]
        assert not any(one.strict and not one.loose for one in found)
        for mode, total in counts.items():
            ours = [getattr(one, mode) for one in found]
            total[0] += all(ours)
            total[1] += sum(ours)
            official = expected[row["key"]][mode]
            undecided += official.count(None)
            pairs = zip(ours, official, strict=True)
            differ += [(row["key"], mode) for a, b in pairs if b is not None and a != b]
    assert differ == []
    assert undecided == 4  # the two instructions with a random letter
    [aggregate] = [
        row
        for row in json.loads((folder / "expected_aggregates.json").read_text())["models"]
        if row["model"] == model
    ]
    for mode, (prompts_passed, followed) in counts.items():
        literal = aggregate[mode]["literal_symbol"]
        assert (prompts_passed, followed) == (
            literal["prompts_true"],
            literal["instructions_true"],
        )
        assert prompts_passed / aggregate["prompts"] == literal["prompt_level"]
        assert followed / aggregate["instructions"] == literal["instruction_level"]


def test_edge_cases_get_the_official_verdicts(folder: Path) -> None:
    rows = list(read_jsonl(folder / "edge_cases.jsonl.gz"))
    assert len(rows) == 3_527
    differ = []
    for row in rows:
        [found] = judge([instruction(row["instruction_id"], row["kwargs"])], row["response"])
        for mode in ("strict", "loose"):
            if row[mode] is not None and getattr(found, mode) != row[mode]:
                differ.append((row["id"], mode))
    assert differ == []


def test_the_official_unit_tests_pass(folder: Path) -> None:
    rows = [row for row in read_jsonl(folder / "unit_tests.jsonl") if row["instruction_id"]]
    assert len(rows) == 81
    for row in rows:
        asked = instruction(row["instruction_id"], row["effective_args"] or row["kwargs"])
        assert (asked.check(row["response"]) == "") is row["follows"], row
