"""The authors' GPT-3 runs: every prompt, and ROUGE-L of every task, encoding and count."""

import gzip
import hashlib
import json
import os
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from harness.datasets.folder import DataFolder
from harness.plugins.benchmarks.natural_instructions.encodings import InstructionItem, fields_of
from harness.plugins.benchmarks.natural_instructions.task import NaturalInstructionsTask
from harness.records import Instance

Key = tuple[str, str, int]
"""Task, encoding as the authors write it, number of examples."""


def rows(path: Path) -> Iterator[dict[str, Any]]:
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        yield from map(json.loads, lines)


@dataclass
class Recorded:
    data: DataFolder
    outputs: dict[Key, dict[int, str]]
    prompts: dict[Key, dict[int, str]]
    expected: dict[Key, dict[str, Any]]

    def run(
        self, key: Key, **options: Any
    ) -> tuple[NaturalInstructionsTask, list[Instance[InstructionItem]]]:
        name, encoding, examples = key
        task = NaturalInstructionsTask(
            *("v1", [name], encoding, examples, "paper"),
            **{"instances": 100} | options,
            data=self.data,
        )
        return task, list(task.instances())


@pytest.fixture(scope="module")
def recorded() -> Recorded:
    beside = Path(__file__).parents[5] / "shared" / "data"
    root = Path(os.environ.get("HARNESS_DATA_DIR", beside))
    folder = root / "natural_instructions"
    if not (folder / "expected_rougeL.json").is_file():
        pytest.skip("no reference data: set HARNESS_DATA_DIR")
    outputs: dict[Key, dict[int, str]] = defaultdict(dict)
    prompts: dict[Key, dict[int, str]] = defaultdict(dict)
    for row in rows(folder / "gpt3_predictions.jsonl.gz"):
        assert list(fields_of(row["encoding"])) == row["fields"]
        key = row["task"], row["encoding"], row["n_examples"]
        outputs[key][row["index"]] = row["output"]
    for row in rows(folder / "expected_prompts.jsonl.gz"):
        key = row["task"], "".join(f"_{field}" for field in row["encoding"]), row["n_examples"]
        prompts[key][row["index"]] = row["prompt_sha256"]
    expected = json.loads((folder / "expected_rougeL.json").read_text())["by_task_encoding"]
    return Recorded(
        DataFolder(root),
        outputs,
        prompts,
        {(row["task"], row["encoding"], row["n_examples"]): row for row in expected},
    )


EVERY = pytest.param(1, marks=pytest.mark.exhaustive, id="all")
SOME = pytest.param(13, id="every 13th")
"""Of 130 combinations of task, encoding and number of examples."""


@pytest.mark.parametrize("step", [SOME, EVERY])
def test_prompts_are_as_recorded(recorded: Recorded, step: int) -> None:
    same = 0
    for key, hashes in list(recorded.prompts.items())[::step]:
        task, instances = recorded.run(key)
        assert [instance.id for instance in instances] == [f"{key[0]}/{index}" for index in hashes]
        for instance, expected in zip(instances, hashes.values(), strict=True):
            assert instance.groups["encoding"] == key[1]
            assert instance.groups["examples"] == str(key[2])
            (message,) = task.messages(instance, ())
            assert hashlib.sha256(message.content.encode()).hexdigest() == expected, instance.id
            same += 1
    assert same == 13_000 / step


@pytest.mark.parametrize("step", [SOME, EVERY])
def test_rouge_l_is_as_recorded(recorded: Recorded, step: int) -> None:
    assert len(recorded.expected) == 130
    for key, expected in list(recorded.expected.items())[::step]:
        task, instances = recorded.run(key, truncation="first_line")
        outputs = recorded.outputs[key].values()
        scores = [
            task.score(instance, text) for instance, text in zip(instances, outputs, strict=True)
        ]

        def mean(name: str, n: int = 100, of: Any = scores) -> float:
            return sum(float(score[name].value) for score in of[:n]) / n

        assert mean("rouge_l") == pytest.approx(expected["rougeL"], abs=1e-9)
        assert mean("rouge_l", 50) == pytest.approx(expected["rougeL_first50"], abs=1e-9)
        first_line = expected["rougeL_first_line"]
        assert mean("rouge_l_first_line") == pytest.approx(first_line, abs=1e-9)
        assert mean("exact_match") == pytest.approx(expected["em_first_line"], abs=1e-9)


def test_fifty_instances_are_the_first_of_the_hundred(recorded: Recorded) -> None:
    key = next(iter(recorded.expected))
    _, hundred = recorded.run(key)
    _, fifty = recorded.run(key, instances=50)
    assert fifty == hundred[:50]


@pytest.mark.parametrize("step", [SOME, EVERY])
def test_an_estimate_fits_no_more_examples_than_the_authors_did(
    recorded: Recorded, step: int
) -> None:
    fullest = [k for k, found in recorded.expected.items() if found["example_class"] == "max"]
    for key in fullest[::step]:
        _, instances = recorded.run((key[0], key[1], "fit"))  # type: ignore[arg-type]
        shown = instances[0].data.n_examples
        assert 0.7 * key[2] <= shown <= key[2], (key, shown)


def test_the_seven_tasks_have_categories(recorded: Recorded) -> None:
    task = NaturalInstructionsTask("v1", instances=1, data=recorded.data)
    assert {i.groups["task"][:10]: i.groups["category"] for i in task.instances()} == {
        "subtask003": "question generation",
        "subtask005": "incorrect answer generation",
        "subtask008": "incorrect answer generation",
        "subtask022": "classification",
        "subtask034": "minimal text modification",
        "subtask039": "verification",
        "subtask044": "verification",
    }
