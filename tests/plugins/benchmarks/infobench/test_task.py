"""The task: our own instructions, the authors' form of rows, and rows that are malformed."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from harness.datasets.folder import DataFolder
from harness.errors import DataInvalid, DataMissing
from harness.plugins.benchmarks.infobench.task import InfoBenchTask, read_items
from harness.records import Criterion
from tests.cli.command import harness

NOWHERE = DataFolder(Path("nowhere"))
ROW: dict[str, Any] = {"instruction": "Write.", "decomposed_questions": ["Is it a text?"]}


def written(path: Path, *rows: Any) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_the_builtin_set_has_both_subsets_all_labels_and_references() -> None:
    task = InfoBenchTask(data=NOWHERE)
    instances = list(task.instances())
    assert {one.groups["subset"] for one in instances} == {"Easy_set", "Hard_set"}
    criteria = [criterion for one in instances for criterion in task.criteria(one)]
    labels = {label for one in criteria for label in one.groups["label"].split(", ")}
    assert labels == {"Content", "Format", "Number", "Style", "Linguistic"}
    assert (len(instances), len(criteria)) == (13, 50)
    assert all(task.reference(one) for one in instances)
    assert {bool(task.text_to_work_on(one)) for one in instances} == {True, False}


def test_a_model_gets_instruction_and_input_in_the_authors_form(tmp_path: Path) -> None:
    rows = {**ROW, "input": "Text.", "id": "a"}, {**ROW, "question_label": [["Format", "Style"]]}
    task = InfoBenchTask(str(written(tmp_path / "own.jsonl", *rows)), data=NOWHERE)
    first, second = task.instances()
    (message,) = task.messages(first, ())
    assert message.content == "Write.\n\nText.\n"
    assert task.instruction(first) == "Write.\n\nText."
    assert (second.id, task.instruction(second)) == ("2", "Write.")
    assert task.criteria(first) == [Criterion("Is it a text?")]
    assert task.criteria(second) == [Criterion("Is it a text?", {"label": "Format, Style"})]
    assert second.groups == {"n_requirements": "1"}
    assert task.score(first, "anything") == {}
    assert "again" in task.feedback(first, "anything", {})
    assert task.reference(first) is None
    assert task.fingerprint()["dataset_sha256"]


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"decomposed_questions": ["a"]}, "missing required field `instruction`"),
        ({**ROW, "decomposed_questions": []}, "decomposed_questions"),
        ({**ROW, "decomposed_questions": [" "]}, "decomposed_questions"),
        ({**ROW, "question_label": []}, "1 questions, but 0 lists"),
    ],
)
def test_malformed_rows_are_refused(row: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(DataInvalid, match=message):
        list(read_items(written(tmp_path / "own.jsonl", row)))
    with pytest.raises(DataInvalid, match="occurs twice"):
        list(read_items(written(tmp_path / "twice.jsonl", {**ROW, "id": 1}, {**ROW, "id": 1})))


def test_data_that_is_missing_says_where_to_put_it() -> None:
    with pytest.raises(DataMissing, match="harness docs infobench"):
        InfoBenchTask("public", data=NOWHERE)


def test_real_models_get_our_own_instances_and_are_told_because_there_is_no_download(
    tmp_path: Path,
) -> None:
    env = os.environ | {"HARNESS_DATA_DIR": str(tmp_path), "HARNESS_RUNS_DIR": str(tmp_path)}
    asked = ("eval", "infobench", "--dry-run", "--judge", "openai/gpt-4o", "--model")
    ended = harness(*asked, "openai/gpt-4o-mini", env=env)
    assert ended.returncode == 0, ended.stderr
    assert "infobench: our own instances, not the published data" in ended.stderr
