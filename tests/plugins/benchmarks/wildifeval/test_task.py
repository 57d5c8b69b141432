"""The task: what it shows a model and a judge, and rows that are malformed."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from harness.datasets.folder import DataFolder
from harness.errors import ConfigError, DataInvalid, DataMissing
from harness.plugin_loader import kind
from harness.plugins.benchmarks.wildifeval.task import (
    BUILTIN,
    CATEGORIES,
    OTHER,
    Constraint,
    WildIFEvalTask,
    named,
    read_items,
)
from harness.records import Criterion

NOWHERE = DataFolder(Path("nowhere"))


def written(path: Path, *rows: Any) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_the_builtin_set_has_every_number_of_constraints_and_every_category() -> None:
    task = WildIFEvalTask(data=NOWHERE)
    instances = list(task.instances())
    assert 12 <= len(instances) <= 20
    assert {one.groups["n_constraints"] for one in instances} == set("12345678")
    assert all(one.groups["domain"] for one in instances)
    criteria = [criterion for one in instances for criterion in task.criteria(one)]
    assert {one.groups["category"] for one in criteria} == {*CATEGORIES, OTHER}
    assert len({one.text for one in criteria}) == len(criteria)
    assert task.fingerprint()["dataset"] == "builtin"


def test_a_model_gets_the_users_words_and_a_judge_the_constraints() -> None:
    task = WildIFEvalTask(data=NOWHERE)
    instance = next(task.instances())
    (message,) = task.messages(instance, [])
    assert message.role == "user"
    assert message.content == task.instruction(instance) == instance.data.task
    assert task.criteria(instance) == [
        Criterion("The poem should be exactly four lines long.", {"category": "Length"}),
        Criterion("Mention an umbrella.", {"category": "Include / Avoid"}),
    ]
    assert task.on_truncated == "grade"


def test_no_answer_is_known_to_be_right() -> None:
    task = WildIFEvalTask(data=NOWHERE)
    instance = next(task.instances())
    assert task.reference(instance) is None
    assert "again" in task.feedback(instance, "anything", {})


def test_the_option_rules_is_gone() -> None:
    with pytest.raises(ConfigError, match="has no option 'rules'"):
        kind("tasks").build("wildifeval", {"rules": "beside"}, data=NOWHERE)


def test_the_papers_examples(data_dir: Path) -> None:
    task = WildIFEvalTask("paper_examples", data=DataFolder(data_dir))
    instances = list(task.instances())
    assert len(instances) == 20
    assert Counter(one.groups["n_constraints"] for one in instances) == Counter(
        {"2": 7, "3": 5, "8": 3, "5": 2, "6": 2, "7": 1}
    )
    criteria = [criterion for one in instances for criterion in task.criteria(one)]
    assert len(criteria) == 82
    assert {one.groups["category"] for one in criteria} == {*CATEGORIES, OTHER}


@pytest.mark.parametrize(
    ("written_as", "category"),
    [
        ("Include / Avoid", "Include / Avoid"),
        ("include/avoid", "Include / Avoid"),
        ("*Style and Tone*", "Style and Tone"),
        ("Other: Language Specification", "Other"),
        ("Other: *Visual Aesthetic*", "Other"),
        ("Other", "Other"),
        ("Otherworldly: ghosts", "Otherworldly: ghosts"),
        ("Rhyme", "Rhyme"),
        (" ", ""),
    ],
)
def test_categories_are_named_as_in_the_paper(written_as: str, category: str) -> None:
    assert named(written_as) == category


def test_rows_in_every_form(tmp_path: Path) -> None:
    path = written(
        tmp_path / "own.jsonl",
        {"task": "A", "constraints": ["Be brief.", {"text": "Be kind.", "category": "length"}]},
        {"id": "b", "task": "B", "constraints": {"Be bold.": "Mine"}, "domain": "Law"},
    )
    first, second = read_items(path)
    assert first.id == "1"
    assert first.constraints == (Constraint("Be brief."), Constraint("Be kind.", "Length"))
    assert (second.id, second.domain) == ("b", "Law")
    task = WildIFEvalTask(str(path), data=NOWHERE)
    instance = next(task.instances())
    assert instance.groups == {"n_constraints": "2"}
    assert [one.groups for one in task.criteria(instance)] == [{}, {"category": "Length"}]


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"constraints": ["a"]}, "missing required field `task`"),
        ({"task": " ", "constraints": ["a"]}, r"`$.task`"),
        ({"task": "t"}, "missing required field `constraints`"),
        ({"task": "t", "constraints": []}, "length >= 1 - at `$.constraints`"),
        ({"task": "t", "constraints": [""]}, "at `$.constraints[0]`"),
        ({"task": "t", "constraints": {"a": 3}}, "got `int` - at `$.constraints[...]`"),
        ({"task": "t", "constraints": [7]}, "got `int` - at `$.constraints[0]`"),
        (
            {"task": "t", "constraints": {"a": "Length"}, "total_num_constraints": 2},
            "1 constraints, but 'total_num_constraints' is 2",
        ),
    ],
)
def test_a_malformed_row_is_named(row: dict[str, Any], message: str, tmp_path: Path) -> None:
    path = written(tmp_path / "own.jsonl", {"task": "t", "constraints": ["a"]}, row)
    with pytest.raises(DataInvalid, match=r"own\.jsonl, item 2") as raised:
        list(read_items(path))
    assert message in raised.value.message


def test_an_id_is_there_once_and_an_empty_file_is_none(tmp_path: Path) -> None:
    row = {"id": "a", "task": "t", "constraints": ["a"]}
    with pytest.raises(DataInvalid, match="occurs twice"):
        list(read_items(written(tmp_path / "twice.jsonl", row, row)))
    with pytest.raises(DataInvalid, match="contains no items"):
        list(read_items(written(tmp_path / "none.jsonl")))


def test_options_of_the_public_form_are_refused_elsewhere() -> None:
    with pytest.raises(ConfigError, match=r"task\.chats, .* are for data in the published format"):
        WildIFEvalTask(chats=str(BUILTIN), data=NOWHERE)


@pytest.mark.parametrize("dataset", ["paper_examples", "public"])
def test_what_is_not_there_is_said_with_where_it_is_from(dataset: str) -> None:
    with pytest.raises(DataMissing) as raised:
        WildIFEvalTask(dataset, data=NOWHERE)
    assert "harness docs wildifeval" in str(raised.value.remedy)
