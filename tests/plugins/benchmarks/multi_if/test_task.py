"""Multi-IF: its columns, turns, language rules and published scores."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest

from harness.datasets.folder import DataFolder
from harness.errors import DataInvalid
from harness.plugin_loader import kind
from harness.plugins.benchmarks.ifeval.instructions import instruction, judge
from harness.ports import GivenAnswer
from harness.records import Instance, verdict

NOWHERE = DataFolder(Path("nowhere"))
pytestmark = pytest.mark.usefixtures("punkt_data")


def built(**options: Any) -> Any:
    return kind("tasks").build("multi_if", options, data=NOWHERE)


def row(**changes: Any) -> dict[str, Any]:
    """A row as published: JSON in text, and a third turn that is missing."""
    return {
        "key": "7:en",
        "language": "English",
        "turn_1_prompt": json.dumps({"role": "user", "content": "Say it without commas."}),
        "turn_1_instruction_id_list": json.dumps(["punctuation:no_comma"]),
        "turn_1_kwargs": json.dumps(["{}"]),
        "turn_2_prompt": json.dumps({"role": "user", "content": "In at least two words."}),
        "turn_2_instruction_id_list": json.dumps(
            ["punctuation:no_comma", "length_constraints:number_words"]
        ),
        "turn_2_kwargs": json.dumps(["{}", json.dumps({"num_words": 2, "relation": "at least"})]),
        "turn_3_prompt": "None",
        "turn_3_instruction_id_list": "None",
        "turn_3_kwargs": "None",
        "turns": "[]",  # columns of the published file that are not read
        "responses": "None",
        **changes,
    }


def written(path: Path, *rows: dict[str, Any]) -> str:
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return str(path)


def test_the_builtin_answers_are_as_they_claim_in_every_turn() -> None:
    task = built()
    instances = list(task.instances())
    assert len({one.groups["language"] for one in instances}) == len(instances)
    for instance in instances:
        answers: list[str] = []
        for _ in range(task.turns(instance)):
            asked = task.at_turn(instance, answers)
            right, wrong = task.reference(asked), task.wrong_answer(asked)
            assert verdict(task.score(asked, right)) is True, (instance.id, right)
            assert verdict(task.score(asked, wrong)) is False, (instance.id, wrong)
            answers.append(right)


def test_published_columns_are_read_and_a_missing_turn_ends_the_conversation(
    tmp_path: Path,
) -> None:
    task = built(dataset=written(tmp_path / "multi.csv", row()))
    [instance] = task.instances()
    assert (instance.id, instance.groups, task.turns(instance)) == (
        "7:en",
        {"language": "English"},
        2,
    )
    second = task.at_turn(instance, ["One."])
    assert [(one.role, one.content) for one in task.messages(second, ())] == [
        ("user", "Say it without commas."),
        ("assistant", "One."),
        ("user", "In at least two words."),
    ]
    assert verdict(task.score(instance, "Yes")) is True
    assert verdict(task.score(second, "Yes")) is False
    assert task.score(second, "Yes, no")["strict_instructions"].value == 0.5


def test_a_data_set_of_the_hub_is_read_from_its_folder(tmp_path: Path) -> None:
    pytest.importorskip("datasets")
    folder = tmp_path / "data"
    folder.mkdir()
    written(folder / "train.csv", row(), row(key="8:en"))
    task = built(dataset=f"hub:{folder}")
    assert [one.id for one in task.instances()] == ["7:en", "8:en"]
    assert len(task.fingerprint()["dataset_sha256"]) == 64


def test_malformed_rows_name_the_turn(tmp_path: Path) -> None:
    for changes, said in (
        ({"turn_2_kwargs": "[{"}, "turn_2_kwargs is not JSON"),
        ({"turn_2_instruction_id_list": '["nothing:known", "x:y"]'}, "turn 2: there is no instr"),
        ({"turn_1_prompt": ""}, "there is no turn_1_prompt"),
        ({"turn_1_kwargs": "[]"}, "turn 1: 0 kwargs for 1 instructions"),
    ):
        task = built(dataset=written(tmp_path / "multi.csv", row(**changes)))
        with pytest.raises(DataInvalid, match=said):
            list(task.instances())


@pytest.mark.parametrize(
    ("name", "arguments", "text", "follows", "alone"),
    [
        ("number_words", {"num_words": 9}, "今天天气很好，我们去公园。", True, False),
        ("number_words", {"num_words": 13}, "今天天气很好，我们去公园。", False, False),
        # ideographs one by one; "GPT" is one word, and punctuation is none
        ("number_words", {"num_words": 11}, "今天我们用 GPT 写一封信。", False, False),
        ("number_words", {"num_words": 10}, "今天我们用 GPT 写一封信。", True, False),
        ("number_words", {"num_words": 3}, "Uno due tre", True, True),
        ("number_sentences", {"num_sentences": 2}, "今天天气很好。我们去公园！", True, False),
        ("number_sentences", {"num_sentences": 3}, "今天天气很好。我们去公园！", False, False),
        ("number_sentences", {"num_sentences": 2}, "यह मेरा घर है। वह मेरा भाई है।", True, False),
        ("number_sentences", {"num_sentences": 2}, "Это мой дом. Это мой брат.", True, True),
    ],
)
def test_words_and_sentences_are_those_of_the_language(
    name: str, arguments: dict[str, int], text: str, follows: bool, alone: bool
) -> None:
    given = {**arguments, "relation": "at least"}
    for multilingual, expected in ((True, follows), (False, alone)):
        asked = instruction(f"length_constraints:{name}", given, multilingual=multilingual)
        assert judge([asked], text)[0].strict is expected, multilingual


@pytest.mark.parametrize("text", ["“好”", "「好」", '"ok"'])
def test_quotes_are_those_of_any_language(text: str) -> None:
    asked = instruction("startend:quotation", {}, multilingual=True)
    assert judge([asked], text)[0].strict
    assert not judge([asked], text[:-1] + "'")[0].strict


def test_scores_are_the_mean_of_four_accuracies_by_turn_and_language() -> None:
    task = built()
    one, other, *_ = task.instances()

    def answer(instance: Instance[Any], turn: int, n: int, strict: int, loose: int) -> GivenAnswer:
        scores = {
            "strict": float(strict == n),
            "loose": float(loose == n),
            "strict_instructions": strict / n,
            "loose_instructions": loose / n,
            "n_instructions": float(n),
        }
        return GivenAnswer(instance.id, 0, "", turn, scores)

    found = task.aggregate_answers(
        [answer(one, 1, 1, 1, 1), answer(other, 1, 3, 1, 3), answer(one, 2, 2, 0, 1)]
    )
    # Turn 1: prompts 1/2 and 2/2, instructions 2/4 and 4/4.
    assert found["turn 1"] == {
        "multi_if": 0.75,
        "strict": 0.5,
        "strict_instructions": 0.5,
        "loose": 1.0,
        "loose_instructions": 1.0,
        "answers": 2,
    }
    assert found["turn 1, English"] == {"multi_if": 1.0, "answers": 1}
    assert found["turn 2"]["multi_if"] == pytest.approx(0.125)
    assert found["turn 2, English"] == {"multi_if": pytest.approx(0.125), "answers": 1}
