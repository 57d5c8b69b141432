"""Multiple choice over rows: letters, log-likelihoods, and the order of the options."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harness.datasets.folder import DataFolder
from harness.errors import ConfigError, DataInvalid, Unparseable
from harness.plugin_loader import kind
from harness.plugins.choices.multiple_choice import choice_texts, right_choice
from harness.plugins.testing import check_task
from harness.records import Decoding, Instance, Message, Origin, Request
from harness.tasks import JsonlTask

Made = Callable[..., JsonlTask]
ROW: dict[str, Any] = {
    "id": "it",
    "question": "The capital of Italy?",
    "choices": ["Paris", "Rome", "Chad"],
    "target": "Rome",
}
ROWS = [ROW, {**ROW, "id": "fr", "question": "The capital of France?", "target": 0}]


@pytest.fixture
def made(tmp_path: Path) -> Made:
    """A task of these rows."""

    def make(*rows: dict[str, Any], **options: Any) -> JsonlTask:
        path = tmp_path / "rows.jsonl"
        path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
        given = {"path": str(path), **options}
        built: JsonlTask = kind("tasks").build("jsonl", given, data=DataFolder(tmp_path))
        return built

    return make


def prompt(task: JsonlTask, instance: Instance[Any]) -> str:
    return task.messages(instance, ())[-1].content


def request(task: JsonlTask, instance: Instance[Any], *before: Message) -> Request:
    messages = (*before, *task.messages(instance, ()))
    decoding = Decoding(0.7, 100, extra={"top_k": 1})
    given = Request("m", messages, decoding, 2, Origin(instance.id, 2, 1), seed=5)
    return task.adapted_request(instance, given)


def test_rows_with_choices_and_no_prompt_ask_for_a_letter(made: Made) -> None:
    task = made(*ROWS)
    first, second = task.instances()
    assert prompt(task, first) == (
        "The capital of Italy?\n\nA. Paris\nB. Rome\nC. Chad\n\n"
        "Which option is right? Answer with its letter only (A, B or C)."
    )
    ((name, score),) = task.score(first, "The answer is B.").items()
    assert (name, score.value, score.passed) == ("choice", True, True)
    wrong = task.score(first, "Chad")["choice"]
    assert (wrong.passed, wrong.reason) == (False, "C is not the right option")
    assert wrong.details == {"positions": {"chosen": 2, "right": 1, "of": 3}}
    assert [task.reference(one) for one in (first, second)] == ["B", "A"]
    assert task.extracted(first, "It is **Rome**.") == "B"
    with pytest.raises(Unparseable):
        task.score(first, "A or B")
    assert request(task, first).decoding.temperature == 0.7
    assert task.needed_features == frozenset()
    assert check_task(task) == []


def test_a_wrong_answer_is_another_letter_in_no_fixed_position(made: Made) -> None:
    task = made(*({**ROW, "id": n} for n in range(40)))
    found = [task.wrong_answer(one) for one in task.instances()]
    assert set(found) == {"A", "C"}


def test_a_prompt_with_choices_is_multiple_choice_only_if_asked(made: Made) -> None:
    row = {**ROW, "prompt": "Which of {}?"}
    plain = made(row, checks=["exact_match"])
    assert prompt(plain, next(plain.instances())) == "Which of {}?"
    own = {"prompt": "{{ question }} {{ choices | join('/') }}", "checks": ["exact_match"]}
    templated = made(ROW, **own)
    assert templated.score(next(templated.instances()), "Rome")["exact_match"].passed is True
    question = {key: value for key, value in row.items() if key != "question"}
    asked = made(question, choices={"by": "letter"})
    assert prompt(asked, next(asked.instances())).startswith("Which of {}?\n\nA. Paris")


def test_a_template_gets_the_options_in_the_order_shown(made: Made) -> None:
    template = "{{ question }}|{{ options }}|{{ letters }}|{{ choices | join(',') }}"
    task = made(ROW, prompt=template, choices={"shuffle": 3}, gold="It is {{ target }}")
    instance = next(task.instances())
    _, options, letters, choices = prompt(task, instance).split("|")
    order = choices.split(",")
    assert sorted(order) == ["Chad", "Paris", "Rome"]
    assert options == "\n".join(
        f"{letter}. {text}" for letter, text in zip("ABC", order, strict=True)
    )
    assert letters == "A, B or C"
    assert task.reference(instance) == f"It is {'ABC'[order.index('Rome')]}"


def test_the_order_depends_on_the_seed_and_the_id_only(made: Made) -> None:
    rows = [{**ROW, "id": n} for n in range(60)]

    def orders(*rows: dict[str, Any], seed: int | None) -> dict[str, str]:
        task = made(*rows, choices={"shuffle": seed})
        return {one.id: prompt(task, one) for one in task.instances()}

    first = orders(*rows, seed=0)
    assert first == orders(*reversed(rows), seed=0)
    assert first != orders(*rows, seed=1)
    assert len(set(first.values())) == 6
    assert len(set(orders(*rows, seed=None).values())) == 1
    fixed = orders(*({**row, "shuffle": False} for row in rows), seed=0)
    assert len(set(fixed.values())) == 1


def test_the_right_option_is_as_often_at_each_position_if_shuffled(made: Made) -> None:
    task = made(*({**ROW, "id": n} for n in range(600)), choices={"shuffle": 0})
    found = [task.reference(one) for one in task.instances()]
    assert all(160 < found.count(letter) < 240 for letter in "ABC")


def test_further_checks_and_an_extraction_apply_to_letters(made: Made) -> None:
    task = made(
        ROW,
        choices={"by": "letter"},
        extract={"regex": r"Urteil: (\w+)"},
        checks=[{"word_count": {"at_most": 3}, "of": "text"}],
    )
    instance = next(task.instances())
    found = task.score(instance, "A oder B? Urteil: B")
    assert {name: score.passed for name, score in found.items()} == {
        "choice": True,
        "word_count": False,
    }
    assert task.score_parsed(instance, "B")["choice"].passed is None


LIKELY = "[[-4.0,false,4],[-6.0,false,2],[-5.0,true,1]]"


def test_letters_are_compared_by_log_likelihood(made: Made) -> None:
    task = made(ROW, choices={"by": "letter_logprob"})
    instance = next(task.instances())
    found = request(task, instance)
    assert [(one.role, one.content) for one in found.messages] == [
        ("user", "The capital of Italy?\nA. Paris\nB. Rome\nC. Chad\nAnswer:"),
        *(("assistant", f" {letter}") for letter in "ABC"),
    ]
    assert found.loglikelihoods
    assert found.decoding == Decoding(0.0, 3, extra={"top_k": 1})
    assert (found.sample, found.seed) == (0, None)
    assert task.needed_features == {"loglikelihoods"}
    scores = task.score(instance, LIKELY)
    assert scores.keys() == {"choice"}
    assert scores["choice"].details == {"positions": {"chosen": 0, "right": 1, "of": 3}}
    assert task.extracted(instance, LIKELY) == "A"
    assert task.reference(instance) == "B"
    assert task.score(instance, "B")["choice"].passed is True
    for text in ("[[-1.0,true]]", "Rome is right", "{}"):
        with pytest.raises(Unparseable):
            task.score(instance, text)


def test_texts_are_compared_by_sum_per_character_per_byte_and_per_token(made: Made) -> None:
    row = {**ROW, "choices": ["Ré", "Rome", "Paname"], "target": 1}
    task = made(row, choices={"by": "choice_logprob"})
    instance = next(task.instances())
    found = request(task, instance)
    assert [one.content for one in found.messages] == [
        "Question: The capital of Italy?\nAnswer:",
        *(" Ré", " Rome", " Paname"),
    ]
    # per character -2, -1.5, -1; per byte -4/3, -1.5, -1; per token -1, -3, -6
    scores = task.score(instance, "[[-4.0,false,4],[-6.0,false,2],[-6.0,true,1]]")
    assert {name: score.value for name, score in scores.items()} == {
        "choice": False,
        "acc_norm": False,
        "acc_bytes": False,
        "acc_tokens": False,
    }
    scores = task.score(instance, "[[-4.0,false,1],[-4.1,false,9],[-9.0,true,1]]")
    assert {name: score.value for name, score in scores.items()} == {
        "choice": False,
        "acc_norm": True,
        "acc_bytes": True,
        "acc_tokens": True,
    }
    assert [score.passed for score in scores.values()] == [False, None, None, None]
    assert scores["choice"].details == {}  # the prompt does not show the options
    older = task.score(instance, "[[-4.0,false],[-4.1,false],[-9.0,true]]")
    assert older.keys() == {"choice", "acc_norm", "acc_bytes"}
    assert task.extracted(instance, "[[-4.0,false],[-4.1,false],[-9.0,true]]") == "Ré"
    assert task.reference(instance) == "Rome"


def test_few_shot_examples_come_before_a_prompt_as_plain_text(made: Made) -> None:
    task = made(ROW, choices={"by": "choice_logprob"}, system="Be brief.")
    shots = (Message("user", "Question: 1 + 1?\nAnswer:"), Message("assistant", "2"))
    system, *asked = task.messages(instance := next(task.instances()), ())
    given = Request("m", (system, *shots, *asked), Decoding(), 0, Origin("it", 0, 1))
    context = task.adapted_request(instance, given).messages[0].content
    assert context == (
        "Be brief.\n\nQuestion: 1 + 1?\nAnswer: 2\n\nQuestion: The capital of Italy?\nAnswer:"
    )


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ({"target": "Oslo"}, "item 2: the target 'Oslo' is none of the 'choices'"),
        ({"choices": ["B", "A", "Rome"], "target": "B"}, "item 2: the target 'B' could mean"),
        ({"choices": "Rome"}, "item 2: 'choices' must be a list"),
        ({"messages": []}, "item 2: a row cannot have both"),
    ],
)
def test_a_row_without_one_right_option_is_named(
    made: Made, row: dict[str, Any], said: str
) -> None:
    with pytest.raises(DataInvalid) as raised:
        list(made(ROW, {**ROW, "id": "x", **row}).instances())
    assert said in raised.value.message


def test_choices_may_have_labels_of_their_own(made: Made) -> None:
    choices = {"text": ["4", "1", "2"], "label": ["1", "2", "3"]}
    task = made({**ROW, "choices": choices, "target": "2"}, choices={"by": "letter"})
    instance = next(task.instances())
    assert task.reference(instance) == "B"
    assert "B. 1\n" in prompt(task, instance)  # the options are numbers, too
    rows = [{**ROW, "choices": [1, 2, 3], "target": 2}]
    with pytest.raises(DataInvalid, match="could mean several"):
        list(made(*rows).instances())
    indexed = made(*rows, choices={"target": "index"})
    assert indexed.reference(next(indexed.instances())) == "C"


@pytest.mark.parametrize("label", [[1, 2, 3], ["1", "2", "3"]])
@pytest.mark.parametrize("by", ["letter", "letter_logprob"])
def test_numbers_as_labels_are_shown_and_read(made: Made, label: list[Any], by: str) -> None:
    choices = {"text": ["Oslo", "Rome", "Bern"], "label": label}
    task = made({**ROW, "choices": choices, "target": label[1]}, choices={"by": by})
    instance = next(task.instances())
    assert task.reference(instance) == "2"
    assert "\n1. Oslo\n2. Rome\n3. Bern\n" in prompt(task, instance)
    assert task.score(instance, "2")["choice"].passed
    assert not task.score(instance, "3")["choice"].passed


def test_other_labels_only_name_the_target(made: Made) -> None:
    choices = {"text": ["Oslo", "Rome"], "label": ["x", "y"]}
    task = made({**ROW, "choices": choices, "target": "y"}, {**ROW, "id": "t", "choices": choices})
    assert [task.reference(instance) for instance in task.instances()] == ["B", "B"]
    for label in (["x"], ["x", "x"], "xy"):
        row = {**ROW, "choices": {**choices, "label": label}}
        with pytest.raises(DataInvalid, match="a different 'label' for each"):
            list(made(row).instances())


def test_each_row_needs_choices_and_a_target(made: Made) -> None:
    for lacking in ("choices", "target", "question"):
        row = {key: value for key, value in ROW.items() if key != lacking}
        with pytest.raises(DataInvalid, match=lacking):
            list(made(row, choices={"by": "letter"}).instances())


def test_checks_of_log_likelihoods_and_unknown_options_are_refused(made: Made) -> None:
    choices = {"by": "choice_logprob"}
    with pytest.raises(ConfigError, match="not text"):
        made(ROW, choices=choices, checks=["exact_match"])
    with pytest.raises(DataInvalid, match="cannot read log-likelihoods"):
        list(made({**ROW, "checks": ["exact_match"]}, choices=choices).instances())
    for wrong in ({"by": "text"}, {"seed": 1}, {"shuffle": True}):
        with pytest.raises(ConfigError, match="choices"):
            made(ROW, choices=wrong)


def test_the_fingerprint_depends_on_how_choices_are_asked(made: Made) -> None:
    ways = [None, {"shuffle": 0}, {"shuffle": 1}, {"by": "letter_logprob"}]
    found = [made(ROW, choices=way).fingerprint() for way in ways]
    assert len({one["choices_sha256"] for one in found}) == 4
    assert (
        "choices_sha256"
        not in made({"prompt": "?", "target": "x"}, checks="contains").fingerprint()
    )


def test_a_table_holds_choices_as_json(tmp_path: Path) -> None:
    def of(choices: str) -> JsonlTask:
        path = tmp_path / "rows.csv"
        path.write_text(f"question,choices,target\nThe capital of Italy?,{choices},Rome\n")
        built: JsonlTask = kind("tasks").build(
            "jsonl", {"path": str(path)}, data=DataFolder(tmp_path)
        )
        return built

    task = of('"[""Paris"", ""Rome""]"')
    [instance] = task.instances()
    assert "\nA. Paris\nB. Rome" in prompt(task, instance)
    assert task.reference(instance) == "B"
    with pytest.raises(DataInvalid, match="list of texts") as raised:
        next(of("Paris;Rome").instances())
    assert "in a table the JSON list" in raised.value.remedy


def test_a_prompt_without_the_options_is_reported(made: Made) -> None:
    (said,) = made(*ROWS, prompt="{{ question }}", choices={}).prompt_errors()
    assert said.endswith("write {{ options }} into task.prompt. (it and 1 more)")
    for prompt, choices in (
        ("{{ question }}\n{{ options }}", {}),
        ("{{ question }} PARIS, ROME OR CHAD?", {}),
        ("{{ question }}", {"by": "choice_logprob"}),
        (None, {}),
    ):
        assert made(*ROWS, prompt=prompt, choices=choices).prompt_errors() == []
    system = "Choose: {{ options }}"
    assert made(ROW, prompt="{{ question }}", system=system, choices={}).prompt_errors() == []


@pytest.mark.parametrize(
    ("target", "choices", "right"),
    [
        (1, ["Paris", "Rome"], 1),
        ("1", ["Paris", "Rome"], 1),
        ("B", ["Paris", "Rome"], 1),
        ("b", ["Paris", "Rome"], 1),
        ("Rome", ["Paris", "Rome"], 1),
        (7, ["5", "7"], 1),
        (True, ["false", "true"], 1),
        ("A", ["A", "B"], 0),
    ],
)
def test_a_target_is_an_index_a_letter_or_a_text(
    target: object, choices: list[str], right: int
) -> None:
    assert right_choice(target, choices) == right


@pytest.mark.parametrize(
    ("target", "choices", "said"),
    [
        ("B", ["B", "A"], "several"),
        (1, ["1", "2"], "several"),
        ("C", ["Paris", "Rome"], "none"),
        (2, ["Paris", "Rome"], "none"),
        (None, ["Paris", "Rome"], "must be"),
        ([0], ["Paris", "Rome"], "must be"),
    ],
)
def test_a_target_that_fits_no_option_or_several_is_an_error(
    target: object, choices: list[str], said: str
) -> None:
    with pytest.raises(DataInvalid, match=said):
        right_choice(target, choices)


def test_the_meaning_of_targets_may_be_given() -> None:
    assert right_choice(1, ["1", "2"], "index") == 1
    assert right_choice("1", ["1", "2"], "text") == 0
    assert right_choice("B", ["B", "A"], "letter") == 1
    with pytest.raises(DataInvalid, match="none"):
        right_choice("Rome", ["Paris", "Rome"], "letter")
    with pytest.raises(DataInvalid) as raised:
        right_choice(1, ["1", "2"])
    assert "task.choices.target" in raised.value.remedy


@pytest.mark.parametrize("raw", ["ab", ["a"], ["a", "a"], ["a", " "], ["a", None], [1, "1"], {}])
def test_choices_are_a_list_of_different_texts(raw: object) -> None:
    with pytest.raises(DataInvalid, match="choices"):
        choice_texts(raw)
    assert choice_texts(["a", 2, True]) == ("a", "2", "true")
