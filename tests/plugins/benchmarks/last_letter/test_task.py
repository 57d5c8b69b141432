import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from harness.datasets.folder import DataFolder
from harness.engine.assessment import assess
from harness.errors import ConfigError, DataMissing, Unparseable
from harness.plugin_loader import kind
from harness.plugins.benchmarks.last_letter.task import MOST_EXAMPLES, LastLetterTask
from harness.records import Instance, Message, Reply, Score

NOWHERE = DataFolder(Path("nowhere"))
ARMS: list[dict[str, Any]] = [
    {"form": "free", "parser": "strict"},
    {"form": "free", "parser": "flexible"},
    {"form": "json"},
    {"form": "free", "examples": "paper"},
    {"form": "json", "parser": "flexible", "prompt": "dottxt"},
]


def task(**options: Any) -> LastLetterTask:
    built: LastLetterTask = kind("tasks").build("last_letter", {"n": 50, **options}, data=NOWHERE)
    return built


@pytest.fixture
def five(tmp_path: Path) -> Path:
    path = tmp_path / "five.jsonl"
    path.write_text(json.dumps({"names": ["Claudia", "Cole", "Matthew", "Juan", "Pablo"]}))
    return path


@pytest.mark.parametrize("options", ARMS)
def test_gold_passes_and_wrong_fails(options: Mapping[str, Any]) -> None:
    built = task(**options)
    for instance in built.instances():
        gold = built.reference(instance)
        assert gold is not None
        (name, score), *others = built.score(instance, gold).items()
        assert (name, score.passed, score.value) == ("correct", True, True)
        assert [(reader, one.value, one.passed) for reader, one in others] == [
            *(("strict", True, None), ("flexible", True, None)),
        ]
        label = instance.data.label
        wrong = "zzzz" if label != "zzzz" else "aaaa"
        score = built.score(instance, gold.replace(label, wrong).replace(label.upper(), "ZZZZ"))[
            "correct"
        ]
        assert score.passed is False
        assert score.reason == "read 'zzzz', which is wrong"
        assert label not in built.feedback(instance, "", {"correct": score})
        with pytest.raises(Unparseable):
            built.score(instance, "No.")


@pytest.mark.parametrize("parser", ["strict", "flexible"])
def test_every_reader_reads_every_answer(parser: str) -> None:
    built = task(parser=parser)
    instance = next(built.instances())
    label = instance.data.label
    for text, right in [
        (f"The answer is {label}.", {"strict": True, "flexible": True}),
        (f"The answer is: {label}.", {"strict": False, "flexible": True}),
        ("No.", {"strict": False, "flexible": False}),
    ]:
        found = assess(built, instance, Reply(text, "stop"))
        assert {name: found.scores[name].value for name in right} == right
        assert found.passed is found.scores["correct"].value is right[parser]
        assert found.outcome == ("ok" if right[parser] else "unparseable")
    cut = assess(built, instance, Reply(f"The answer is {label}", "length"))
    assert {name: one.value for name, one in cut.scores.items()} == {
        **{"correct": False, "strict": False, "flexible": False},
    }


def test_the_published_json_prompts() -> None:
    question = 'Take the last letters of each words in "Britt Tamara" and concatenate them.'
    tool, dottxt = (task(form="json", prompt=name) for name in ("tool", "dottxt"))
    instance = next(tool.instances())
    asked = Instance("q", structs.replace(instance.data, text=question))
    assert tool.messages(asked, ()) == (
        Message(
            "user",
            "Follow the instruction to complete the task:\nRead carefully for each of the last "
            "question and think step by step before answering. You are given a string of words and "
            "you need to take the last letter of each words and concate them\n\n\n"
            f"Instruct : You must use the tool\n\n\n\nQuestion: {question}",
        ),
    )
    system, example, answer, user = dottxt.messages(asked, ())
    assert [each.role for each in (system, example, answer, user)] == [
        *("system", "user", "assistant", "user"),
    ]
    assert system.content.endswith(
        '{"reasoning": <reasoning about the answer>, "answer": <final answer>}'
    )
    assert user.content == f'Question: {question}",'
    for parser in ("strict", "flexible"):
        built = task(form="json", prompt="dottxt", parser=parser)
        nrdn = Instance("q", structs.replace(instance.data, label="nrdn"))
        assert built.score(nrdn, answer.content)["correct"].passed
    assert dottxt.form.holds(answer.content)
    assert dottxt.prompt_errors() == []
    assert tool.prompt_errors() == ["The prompt does not name the key 'answer' that is read."]
    own = task(form="json")
    hashes = {built.fingerprint()["content_sha256"] for built in (own, tool, dottxt)}
    assert len(hashes) == 3
    with pytest.raises(ConfigError, match="no place for shots"):
        tool.messages(asked, [instance])


def test_the_readings_of_flexible_tell_their_pattern() -> None:
    built = task(parser="flexible")
    instance = next(built.instances())
    letters = "-".join(instance.data.label)
    score = built.score(instance, f"The answer is {letters}.")["correct"]
    assert score.details == {"read": instance.data.label, "pattern": 1}
    assert built.feedback(instance, "", {"correct": score}) == "That is right."


def test_the_arms_of_the_form_say_all_else_alike() -> None:
    free, as_json, paper = task(), task(form="json"), task(examples="paper")
    hashes = [built.fingerprint()["content_sha256"] for built in (free, as_json, paper)]
    assert hashes[0] == hashes[1] != hashes[2]
    assert len({built.fingerprint()["prompt_sha256"] for built in (free, as_json, paper)}) == 3
    instance = next(free.instances())
    ours, theirs = (
        built.messages(instance, ())[0].content.split("\n") for built in (free, as_json)
    )
    differing = [n for n, (a, b) in enumerate(zip(ours, theirs, strict=True)) if a != b]
    assert len(differing) == 1 + 2  # the form, and two answers


def test_the_fingerprint_names_parser_form_and_data() -> None:
    told = task(form="free", parser="flexible").fingerprint()
    assert told["parser"] == "flexible"
    assert told["form"] == "free"
    assert told["dataset"] == "builtin"
    assert told["dataset_sha256"] != task(seed=1).fingerprint()["dataset_sha256"]
    assert told["parser_sha256"] != task().fingerprint()["parser_sha256"]
    assert task(form="json").fingerprint()["parser_sha256"]


def test_shots_are_of_the_questions_kind_and_give_nothing_away() -> None:
    built = task(examples=MOST_EXAMPLES)
    for instance in built.instances():
        said = built.messages(instance, ())[0].content
        assert said.count("Question: ") == MOST_EXAMPLES + 1
        assert said.endswith(f"Question: {instance.data.text}")
        assert f"answer is {instance.data.label}" not in said
    assert "examples" not in task(examples=0).messages(instance, ())[0].content


def test_shots_of_the_run_file_take_the_place_of_the_tasks_own() -> None:
    built = task()
    first, second, *_ = built.instances()
    said = built.messages(first, [second])[0].content
    assert said.count("Question: ") == 2
    assert second.data.text in said
    assert built.leaks(first, first)
    assert not built.leaks(first, second)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"form": "free", "parser": "json"}, "json cannot read .*Write strict or flexible"),
        ({"form": "free", "prompt": "tool"}, "Set task.form to json"),
        ({"form": "json", "examples": "paper"}, "asks for free text"),
        ({"examples": 99}, f"0 to {MOST_EXAMPLES}, or paper"),
        ({"examples": -1}, "0 to"),
        ({"n": 0}, r"task\.n must be"),
        ({"parser": "ai"}, "'parser'"),
    ],
)
def test_options_that_do_not_go_together_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        task(**options)


def test_the_recorded_data_are_missed_with_a_word_where_they_are_from() -> None:
    with pytest.raises(DataMissing, match="harness docs last_letter"):
        task(dataset="recorded")


def test_five_words_have_no_answer_of_four_letters(five: Path) -> None:
    built = task(dataset=str(five))
    (instance,) = built.instances()
    assert instance.groups == {"source": "own", "words": "5"}
    assert built.reference(instance) is None
    said = built.prompt_errors()
    assert "1 of 1 questions do not have 4 words, and the parser reads 4 letters: 1." in said


def test_a_wrong_label_is_asked_for_or_put_right(tmp_path: Path) -> None:
    path = tmp_path / "q.jsonl"
    path.write_text(json.dumps({"names": ["Ian", "Peter", "Ann", "Bob"], "answer": "NRNX"}))
    for labels, right in (("given", "nrnx"), ("true", "nrnb")):
        built = task(dataset=str(path), labels=labels)
        (instance,) = built.instances()
        assert built.score(instance, f"The answer is {right}.")["correct"].passed


def test_the_constraint_comes_from_the_structure() -> None:
    for form, kind_ in (("free", "regex"), ("json", "json_schema")):
        built = task(form=form)
        constraint = built.constraint(next(built.instances()))
        assert constraint.kind == built.constraint_kind == kind_
        assert constraint == built.form.constraint


@pytest.mark.parametrize("options", ARMS[:3])
def test_a_prompt_of_one_structure_has_no_fault(options: Mapping[str, Any]) -> None:
    assert task(**options).prompt_errors() == []


def test_the_errors_of_the_papers_prompt_are_found() -> None:
    said = "\n".join(task(examples="paper").prompt_errors())
    assert "(Elon Musk) has 2 words; the questions have 4." in said
    assert "answers 'nk', which the parser does not read." in said
    assert "The final answer is <answer>' is not the one that constrained decoding writes" in said


def test_a_score_is_of_the_text_alone() -> None:
    built = task()
    instance: Instance[Any] = next(built.instances())
    texts = ["The answer is abcd.", built.reference(instance) or ""]
    scores: list[Mapping[str, Score]] = [built.score(instance, text) for text in texts]
    assert scores == [built.score(instance, text) for text in texts]


@given(
    st.fixed_dictionaries(
        {},
        optional={
            "form": st.sampled_from(["free", "json"]),
            "examples": st.integers(0, MOST_EXAMPLES),
            "labels": st.sampled_from(["given", "true"]),
            "n": st.integers(1, 5),
            "seed": st.integers(-(2**40), 2**40),
        },
    )
)
def test_options_that_are_written_down_make_the_same_task(options: dict[str, Any]) -> None:
    written = kind("tasks").validate_options("last_letter", options).model_dump(mode="json")
    first, again = task(**options), task(**json.loads(json.dumps(written)))
    if "n" in options:
        assert first.fingerprint() == again.fingerprint()
        assert list(first.instances()) == list(again.instances())
    assert first.prompt_errors() == []
