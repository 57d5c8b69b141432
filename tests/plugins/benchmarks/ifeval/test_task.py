"""The task: rows, scores, feedback, and the built-in set."""

import json
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from harness.datasets.folder import DataFolder
from harness.engine.assessment import score_warnings
from harness.errors import DataInvalid, DataMissing
from harness.plugin_loader import kind
from harness.plugins.benchmarks.ifbench.instructions import IFBENCH
from harness.plugins.benchmarks.ifeval.instructions.ifeval import CHECKS as IFEVAL
from harness.plugins.testing import check_task
from harness.records import verdict

NOWHERE = DataFolder(Path("nowhere"))
KINDS = {
    "ifeval": set(IFEVAL),
    # Two kinds need data of NLTK that a fresh machine does not have.
    "ifbench": set(IFBENCH) - {"words:start_verb", "ratio:stop_words"},
}
pytestmark = pytest.mark.usefixtures("punkt_data")


def built(name: str = "ifeval", **options: Any) -> Any:
    return kind("tasks").build(name, options, data=NOWHERE)


def written(path: Path, *rows: Any) -> str:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


ROW = {
    "key": 7,
    "prompt": "Say it in two words, without commas.",
    "instruction_id_list": ["length_constraints:number_words", "punctuation:no_comma"],
    "kwargs": [{"num_words": 3, "relation": "less than", "keyword": None}, {}],
}


@pytest.mark.parametrize("verdicts", ["official", "corrected"])
@pytest.mark.parametrize("name", ["ifeval", "ifbench"])
def test_official_counts_in_other_scripts_have_a_warning(
    name: str, verdicts: str, tmp_path: Path
) -> None:
    pytest.importorskip("icu4py")
    row = ROW
    if name == "ifbench":
        range_ = {"min_words": 1, "max_words": 2}
        row = {**ROW, "instruction_id_list": ["count:word_count_range"], "kwargs": [range_]}
    task = built(name, dataset=written(tmp_path / "own.jsonl", row), verdicts=verdicts)
    [instance] = task.instances()
    assert "warning" not in task.score(instance, "two words")["strict"].details
    strict = task.score(instance, "我喜欢机器学习和编程，今天下雨我在家")["strict"]
    assert ("may be wrong" in str([*score_warnings({"strict": strict})])) == (
        verdicts == "official"
    )
    assert strict.passed is (verdicts == "official")
    [plain] = built(name, dataset=written(tmp_path / "plain.jsonl", ROW)).instances()
    commas = replace(plain, data=replace(plain.data, instructions=plain.data.instructions[1:]))
    assert "warning" not in task.score(commas, "我喜欢机器学习")["strict"].details


@pytest.mark.parametrize("verdicts", ["official", "corrected"])
@pytest.mark.parametrize("name", KINDS)
def test_the_builtin_set_has_every_kind_and_its_answers_are_as_they_claim(
    name: str, verdicts: str
) -> None:
    task = built(name, verdicts=verdicts)
    instances = list(task.instances())
    asked = {one.id for instance in instances for one in instance.data.instructions}
    assert asked == KINDS[name]
    for instance in instances:
        right, wrong = task.reference(instance), task.wrong_answer(instance)
        assert verdict(task.score(instance, right)) is True, instance.id
        assert verdict(task.score(instance, wrong)) is False, instance.id
    if verdicts == "corrected":  # the default is checked with all built-in tasks
        assert not check_task(task)


def test_an_answer_gets_its_verdicts_and_a_reason_for_each_instruction(tmp_path: Path) -> None:
    task = built(dataset=written(tmp_path / "own.jsonl", ROW))
    [instance] = task.instances()
    assert (instance.id, instance.groups) == ("7", {"n_instructions": "2"})
    [message] = task.messages(instance, [])
    assert message.content == ROW["prompt"]
    scores = task.score(instance, "Well, here you are:\n*one two*")
    assert {name: score.value for name, score in scores.items()} == {
        "strict": False,
        "loose": True,
        "strict_instructions": 0.0,
        "loose_instructions": 1.0,
        "n_instructions": 2,
    }
    assert [name for name, score in scores.items() if score.passed is not None] == ["strict"]
    assert scores["strict"].details["instructions"] == [
        {
            "id": "length_constraints:number_words",
            "strict": False,
            "loose": True,
            "reason": "6 words, fewer than 3 wanted",
        },
        {
            "id": "punctuation:no_comma",
            "strict": False,
            "loose": True,
            "reason": "1 comma, none wanted",
        },
    ]
    assert task.feedback(instance, "", scores) == (
        "Your answer does not follow these instructions yet:\n"
        "- length_constraints:number_words: 6 words, fewer than 3 wanted\n"
        "- punctuation:no_comma: 1 comma, none wanted\n"
        "Please write the whole answer again."
    )
    assert "follows all" in task.feedback(instance, "", task.score(instance, "one two"))
    assert task.score_of_no_answer(instance)["strict"].passed is False


def test_a_row_may_be_a_conversation(tmp_path: Path) -> None:
    turns = [
        {"role": "user", "content": "Name a bird."},
        {"role": "assistant", "content": "A heron."},
        {"role": "user", "content": "Rewrite it without white space."},
    ]
    row = {"key": 1, "prompt": "Name a bird.", "messages": turns, "kwargs": [{"N": None}]}
    row["instruction_id_list"] = ["format:no_whitespace"]
    task = built("ifbench", dataset=written(tmp_path / "own.jsonl", row))
    [instance] = task.instances()
    assert [one.role for one in task.messages(instance, [])] == ["user", "assistant", "user"]
    assert verdict(task.score(instance, "Heron")) is True
    ends = row | {"messages": turns[:2]}
    with pytest.raises(DataInvalid, match="user's turn"):
        list(built("ifbench", dataset=written(tmp_path / "own.jsonl", ends)).instances())


def test_missing_data_is_said_before_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = ROW | {"instruction_id_list": ["words:start_verb"], "kwargs": [{}]}
    task = built("ifbench", dataset=written(tmp_path / "own.jsonl", row))
    monkeypatch.setattr("nltk.data.path", [])
    with pytest.raises(DataMissing, match="averaged_perceptron_tagger_eng"):
        task.fingerprint()


def test_corrected_verdicts_count_what_they_change(tmp_path: Path) -> None:
    row = ROW | {"instruction_id_list": ["startend:quotation", "detectable_format:json_format"]}
    path = written(tmp_path / "own.jsonl", row | {"kwargs": [{}, {}]})
    task = built(dataset=path, verdicts="corrected")
    [instance] = task.instances()
    scores = task.score(
        instance, "\N{LEFT DOUBLE QUOTATION MARK}NaN\N{RIGHT DOUBLE QUOTATION MARK}"
    )
    assert (scores["corrected_to_pass"].value, scores["corrected_to_fail"].value) == (1, 0)
    scores = task.score(instance, "NaN")
    assert (scores["corrected_to_pass"].value, scores["corrected_to_fail"].value) == (0, 1)
    assert task.fingerprint()["verdicts"] == "corrected"
    assert "corrected_to_pass" not in built(dataset=path).score(instance, "NaN")


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"kwargs": [{}]}, "1 kwargs for 2 instructions"),
        ({"instruction_id_list": ["keywords:exists", "punctuation:no_comma"]}, "keywords:exists"),
        ({"kwargs": [{"num_words": 3}, {}]}, "relation"),
        ({"prompt": " "}, "prompt"),
        ({"instruction_id_list": [], "kwargs": []}, "instruction_id_list"),
    ],
)
def test_a_malformed_row_is_refused(tmp_path: Path, changed: Any, said: str) -> None:
    with pytest.raises(DataInvalid, match=said):
        list(built(dataset=written(tmp_path / "own.jsonl", ROW | changed)).instances())


def test_a_slow_pattern_gives_no_verdict(tmp_path: Path) -> None:
    row = ROW | {
        "instruction_id_list": ["keywords:existence"],
        "kwargs": [{"keywords": ["(a|a)*$"]}],
    }
    task = built(dataset=written(tmp_path / "own.jsonl", row))
    [instance] = task.instances()
    scores = task.score(instance, "a" * 60 + "b")
    assert verdict(scores) is None
    assert "takes more than" in scores["strict"].reason
    assert task.feedback(instance, "", scores).startswith("Your answer could not be checked.")


def test_the_fingerprint_names_what_decides_the_verdicts() -> None:
    found = built().fingerprint()
    assert found["verdicts"] == "official"
    assert found["langdetect"] == "1.0.9"
    assert "nltk" in found["splitter"]
