import contextlib
import json
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.datasets.folder import DataFolder
from harness.declarations import declared_members
from harness.errors import ConfigError, DataInvalid, Unparseable
from harness.plugin_loader import kind
from harness.plugins.testing import check_task
from harness.records import Message, Score, verdict
from harness.tasks import JsonlTask

Made = Callable[..., JsonlTask]
SLOW = "(a|a)*$(?<=b)"


@pytest.fixture
def made(tmp_path: Path) -> Made:
    """A task of these rows."""

    def make(*rows: dict[str, Any], **options: Any) -> JsonlTask:
        folder = tmp_path / str(len(list(tmp_path.iterdir())))
        folder.mkdir()
        path = folder / "rows.jsonl"
        path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
        built: JsonlTask = kind("tasks").build(
            "jsonl", {"path": str(path), **options}, data=DataFolder(tmp_path)
        )
        return built

    return make


CHECKED: dict[str, Any] = {"checks": ["exact_match"]}
ROW: dict[str, Any] = {"prompt": "2 + 2?", "target": "4"}


def passed(task: JsonlTask, text: str) -> bool | None:
    return verdict(task.score(next(task.instances()), text))


def test_the_example_is_a_benchmark() -> None:
    task: JsonlTask = kind("tasks").build(
        "jsonl",
        {
            "prompt": "{{ question }} End with: The answer is <word>",
            "extract": {"regex": r"answer is (\w+)"},
            "checks": [{"exact_match": {"ignore_case": True}}],
            "groups": ["topic"],
        },
        data=DataFolder(Path("nowhere")),
    )
    instances = list(task.instances())
    assert len(instances) == 15
    assert {one.groups["topic"] for one in instances} == {"capital", "opposite", "letters"}
    for one in instances:
        gold = task.reference(one)
        assert gold is not None
        assert gold.startswith("answer is ")
        assert verdict(task.score(one, gold)) is True
        assert verdict(task.score(one, "The answer is wrong.")) is False
        with pytest.raises(Unparseable):
            task.score(one, "No.")
    assert task.prompt_errors() == []


def test_a_row_has_an_id_groups_and_a_cluster_of_its_own(made: Made) -> None:
    rows = (
        {**ROW, "id": "a", "groups": {"hard": True}, "cluster": 7, "topic": "sums"},
        {**ROW, "topic": 1.5},
    )
    first, second = made(*rows, groups=["topic"], **CHECKED).instances()
    assert (first.id, first.groups, first.cluster) == ("a", {"topic": "sums", "hard": "true"}, "7")
    assert (second.id, second.groups, second.cluster) == ("2", {"topic": "1.5"}, None)


def test_the_prompt_is_the_rows_or_a_template(made: Made) -> None:
    def asked(row: dict[str, Any], **options: Any) -> tuple[Message, ...]:
        task = made({"target": "4", **row}, **CHECKED, **options)
        return task.messages(next(task.instances()), ())

    turns = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]
    turns.append({"role": "user", "content": "c"})
    assert asked({"prompt": "2?"}) == (Message("user", "2?"),)
    assert asked({"messages": turns}) == tuple(Message(**turn) for turn in turns)  # type: ignore[arg-type]
    assert asked({"q": "2"}, prompt="{{ q }}?") == (Message("user", "2?"),)
    assert asked({"prompt": "2"}, prompt="{{ prompt }}?", system="Be {{ target }}.") == (
        Message("system", "Be 4."),
        Message("user", "2?"),
    )


@pytest.mark.parametrize(
    ("row", "options", "message"),
    [
        ({"promt": "a"}, {}, "neither 'prompt', as text, nor 'messages'.*'promt'"),
        ({"prompt": 1}, {}, "neither 'prompt', as text"),
        ({"prompt": " "}, {}, "the prompt is empty"),
        ({"q": "a"}, {"prompt": "{{ quest }}"}, "needs the field 'quest'"),
        ({"messages": []}, {}, "must be a list of {role, content}"),
        ({"messages": [{"role": "user"}]}, {}, r"missing required field `content` - at `\$\[0\]`"),
        ({"messages": [{"role": "usr", "content": "a"}]}, {}, "Invalid enum value 'usr'"),
        ({"messages": [{"role": "user", "content": 1}]}, {}, r"Expected `str`.*\[0\].content`"),
        ({"messages": [{"role": "assistant", "content": "a"}]}, {}, "must end with the user's"),
        ({"messages": [{"role": "user", "content": "a"}]}, {"prompt": "x"}, "Keep one"),
        (
            {"messages": [{"role": r, "content": "a"} for r in ("system", "user")]},
            {"system": "x"},
            "Remove one",
        ),
        ({"prompt": "a", "id": 1.5}, {}, "'id' must be"),
        ({"prompt": "a", "id": []}, {}, "'id' must be"),
        ({"prompt": "a", "cluster": [1]}, {}, "'cluster' must be"),
        ({"prompt": "a", "groups": ["x"]}, {}, "'groups' must be a mapping"),
        ({"prompt": "a", "groups": {"x": None}}, {}, "group 'x' must be"),
        ({"prompt": "a", "topc": 1}, {"groups": ["topic"]}, "names 'topic'.*'topc'"),
    ],
)
def test_a_row_that_cannot_be_asked_is_refused(
    row: dict[str, Any], options: dict[str, Any], message: str, made: Made
) -> None:
    good = {"prompt": "a", "q": "a", "topic": 1, "quest": 1}
    task = made({"target": "x", **good}, {"target": "x", **row}, **CHECKED, **options)
    with pytest.raises(DataInvalid, match=rf"rows\.jsonl, item 2: .*{message}"):
        list(task.instances())


def test_an_id_that_comes_twice_is_refused(made: Made) -> None:
    with pytest.raises(DataInvalid, match="item 2: the id '2' occurs twice"):
        list(made({**ROW, "id": 2}, ROW, **CHECKED).instances())


def test_checks_see_the_answer_or_all_of_the_text(made: Made) -> None:
    checks = [
        "exact_match",
        {"word_count": {"exactly": 4}, "of": "text", "as": "words"},
        {"word_count": {"exactly": 1}, "as": "one"},
    ]
    task = made(ROW, checks=checks, extract={"regex": r"is (\d)"})
    scores = task.score(next(task.instances()), "2 + 2 is 4.")
    assert {name: score.passed for name, score in scores.items()} == {
        "exact_match": True,
        "words": True,
        "one": True,
    }


def test_a_wrong_answer_whose_words_cannot_be_counted_fails(made: Made) -> None:
    checks = ["exact_match", {"word_count": {"at_most": 5}}]
    task = made({"prompt": "a", "target": "བཀྲ་ཤིས་"}, checks=checks)
    assert passed(task, "བོད་ཡིག་སློབ་སྦྱོང་") is False
    assert passed(task, "བཀྲ་ཤིས་") is None


def test_feedback_gives_reasons_and_no_target(made: Made) -> None:
    checks = ["exact_match", {"word_count": {"at_most": 1}}]
    task = made({"prompt": "a", "target": "SECRET"}, checks=checks)
    (instance,) = task.instances()
    said = task.feedback(instance, "x y", task.score(instance, "x y"))
    assert said.splitlines()[1:3] == [
        "- 'x y' is not the expected answer",
        "- at most 1 word, has 2",
    ]
    assert "SECRET" not in said
    assert task.feedback(instance, "SECRET", task.score(instance, "SECRET")) == "That is right."
    undecided = {"exact_match": Score(True, True), "pattern": Score(None, None, "too slow")}
    assert task.feedback(instance, "SECRET", undecided).startswith("That could not be checked.")


def test_feedback_in_your_own_words(made: Made) -> None:
    row = {"prompt": "a", "target": "b", "topic": "tides"}
    checks = ["exact_match", {"word_count": {"at_most": 1}}]
    words = "On {{ topic }}: {{ reasons | join(', ') }}!"
    task = made(row, checks=checks, feedback=words)
    (instance,) = task.instances()
    said = task.feedback(instance, "x y", task.score(instance, "x y"))
    assert said == "On tides: 'x y' is not the expected answer, at most 1 word, has 2!"
    assert task.fingerprint() != made(row, checks=checks).fingerprint()
    with pytest.raises(DataInvalid, match=r"task\.feedback needs the field 'subject'"):
        list(made(row, feedback="{{ subject }}").instances())


@pytest.mark.parametrize(
    ("row", "options", "gold"),
    [
        ({"target": "4"}, CHECKED, "4"),
        ({"target": True}, CHECKED, "true"),
        ({"target": ["a", "b"]}, CHECKED, "a"),
        ({"target": ["a", "b"]}, {"checks": ["contains"]}, "a b"),
        ({"target": "x"}, {**CHECKED, "extract": {"regex": "is: <(.+)>"}}, "is: <x>"),
        ({"target": "x"}, {**CHECKED, "gold": "It is {{ target }}"}, "It is x"),
        ({"target": ["x", "y"]}, {**CHECKED, "gold": "{{ target }}"}, "x"),
        ({"target": "x", "gold": "X"}, {"checks": [{"exact_match": {"ignore_case": True}}]}, "X"),
        ({"target": "x y"}, {"checks": ["exact_match", {"word_count": {"exactly": 1}}]}, None),
        ({}, {"checks": [{"regex_match": {"pattern": "x"}}]}, None),
    ],
)
def test_gold_is_what_passes(
    row: dict[str, Any], options: dict[str, Any], gold: str | None, made: Made
) -> None:
    task = made({"prompt": "a", **row}, **options)
    assert task.reference(next(task.instances())) == gold


def test_a_target_that_fails_its_own_checks_is_expected_but_no_reference(made: Made) -> None:
    checks = ["exact_match", {"word_count": {"at_most": 1}}]
    rows = {"prompt": "a", "id": "good", "target": "x"}, {"prompt": "b", "target": "x y"}
    task = made(*rows, checks=checks)
    assert [task.reference(one) for one in task.instances()] == ["x", None]
    assert [task.expected_answer(one) for one in task.instances()] == ["x", "x y"]
    assert check_task(task) == [
        "expected_answer 'x y' of '2' does not pass (word_count: at most 1 word, has 2)."
    ]
    none = made({"prompt": "a"}, checks=[{"regex_match": {"pattern": "x"}}])
    assert none.expected_answer(next(none.instances())) is None


def test_the_field_that_a_check_names_as_its_target_is_the_reference(made: Made) -> None:
    row = {"prompt": "a", "expected": "x", "most": 3}
    for check in (
        {"contains": {"field": "expected"}},
        {"exact_match": {"target": {"field": "expected"}}},
    ):
        task = made(row, checks=[check, {"word_count": {"at_most": {"field": "most"}}}])
        assert task.reference(next(task.instances())) == "x"
    limited = made(row, checks=[{"word_count": {"at_most": {"field": "most"}}}])
    assert limited.expected_answer(next(limited.instances())) is None


def test_where_extraction_takes_too_long_nothing_is_judged(made: Made) -> None:
    task = made(ROW, extract={"regex": SLOW}, **CHECKED)
    scores = task.score(next(task.instances()), "a" * 40 + "!")
    assert [(score.value, score.passed) for score in scores.values()] == [(None, None)]
    assert verdict(scores) is None


def test_the_part_of_a_reply_that_is_scored(made: Made) -> None:
    fenced = {"checks": [{"json_schema": {"schema": {}, "extraction": "fence"}}]}
    for options, reply, part in (
        ({"extract": {"regex": r"= (\d)"}, **CHECKED}, "2 + 2 = 4", "4"),
        ({"extract": {"regex": r"= (\d)"}, **CHECKED}, "four", None),
        ({"extract": {"regex": SLOW}, **CHECKED}, "a" * 40 + "!", None),
        (fenced, "So:\n```\n[1]\n```", "[1]\n"),
        (CHECKED, "4", None),
    ):
        task = made(ROW, **options)
        assert task.extracted(next(task.instances()), reply) == part, reply


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"prompt": "{{ q"}, r"task\.prompt, line 1"),
        ({"extract": {"regex": "("}}, r"task\.extract\.regex"),
        ({"checks": ["exact"]}, r"task\.checks\.1"),
        ({"preset": "gsm9k"}, "'preset'"),
        ({"promt": "x"}, "Did you mean 'prompt'"),
    ],
)
def test_options_that_are_wrong_are_refused(
    options: dict[str, Any], message: str, made: Made
) -> None:
    with pytest.raises(ConfigError, match=message):
        made(ROW, **options)


def test_the_fingerprint_tells_data_prompt_and_checks(made: Made) -> None:
    told = made(ROW, **CHECKED).fingerprint()
    assert told["dataset"] == "rows.jsonl"
    others = [
        made({**ROW, "target": "5"}, **CHECKED).fingerprint(),
        made(ROW, **CHECKED, prompt="{{ prompt }}!").fingerprint(),
        made(ROW, checks=["contains"]).fingerprint(),
    ]
    assert others[0]["dataset_sha256"] != told["dataset_sha256"]
    differing = [{key for key in told if one[key] != told[key]} for one in others[1:]]
    assert differing == [{"template_sha256"}, {"checks_sha256"}]


def test_a_prompt_that_is_the_same_for_all_rows_is_told(made: Made) -> None:
    rows = {"q": "2?", "target": "2"}, {"q": "3?", "target": "3"}
    (said,) = made(*rows, prompt="Answer.", **CHECKED).prompt_errors()
    assert "uses no field" in said
    assert made(*rows, prompt="Answer.", system="{{ q }}", **CHECKED).prompt_errors() == []
    assert made(rows[0], prompt="Answer.", **CHECKED).prompt_errors() == []
    with pytest.raises(DataInvalid, match=r"\{q\} would be sent as it is.*Write \{\{ q \}\}"):
        list(made(*rows, prompt="Answer {q}", **CHECKED).instances())


def test_a_target_that_is_the_name_of_a_field_is_reported(made: Made) -> None:
    rows = [{"prompt": "2?", "answer": "2"}, {"prompt": "3?", "answer": "3"}]
    checks = [{"contains": {"target": "answer"}}, {"exact_match": {"target": {"field": "answer"}}}]
    (said,) = made(*rows, checks=checks).prompt_errors()
    assert said.startswith("contains: the target of each row is the word 'answer'.")
    assert said.endswith("{contains: {target: {field: answer}}}. (1 and 1 more)")
    assert made(*rows, checks=[{"contains": {"target": "2"}}]).prompt_errors() == []


def test_options_in_the_prompt_need_choices_in_the_task(made: Made) -> None:
    row = {"q": "Why?", "choices": ["x", "y"], "target": "x"}
    options = {"prompt": "{{ q }}\n{{ options }}", "checks": ["exact_match"]}
    with pytest.raises(DataInvalid, match=r"task\.choices is not set\. Write .*by: letter"):
        list(made(row, **options).instances())


def test_misspelt_keywords_in_the_schemas_of_rows_are_reported(made: Made) -> None:
    schemas: list[dict[str, Any]] = [{"minimun": 1}, {"minimum": 1}, {"tpye": "object"}]
    rows = [{"prompt": "A number?", "s": schema} for schema in schemas]
    first, second = made(*rows, checks=[{"json_schema": {"field": "s"}}]).prompt_errors()
    assert first.startswith("json_schema: 'minimun' is no keyword of JSON Schema")
    assert "'type' is." in second


def test_a_prompt_without_the_structure_of_its_parser_is_told(made: Made) -> None:
    extract = {"regex": r"answer is ([a-z]{4})"}
    row = {**ROW, "target": "abcd"}
    task = made(row, row, extract=extract, **CHECKED)
    assert task.prompt_errors() == [
        "The prompt does not ask for what its parser looks for: 'answer is'. (1 and 1 more)"
    ]
    example = "Q: a?\nThe answer is nk.\n\nQ: b?"
    (fault,) = made({**row, "prompt": example}, extract=extract, **CHECKED).prompt_errors()
    assert "says 'answer is nk.' where its parser would read no answer" in fault
    asked = {"prompt": "The answer is <x>", "target": "abcd"}
    gold = made(asked, extract=extract, gold="4", **CHECKED)
    assert gold.prompt_errors() == ["task.gold gives an answer that does not pass. (1)"]
    cut = made({**asked, "target": ["abcd", "abcde", "New"]}, extract=extract, **CHECKED)
    assert cut.prompt_errors() == [
        "From the target 'abcde' the parser would read 'abcd'. (1)",
        "From the target 'New' the parser would read ''. (1)",
    ]


PRESETS = [*declared_members("row_presets")]
SHORT_ANSWERS = [{name: "last"} for name in declared_members("extractions")]

OPTIONS = st.fixed_dictionaries(
    {},
    optional={
        "prompt": st.sampled_from(["{{ prompt }}", "{{ prompt }}! The answer is <x>"]),
        "extract": st.sampled_from(
            [*SHORT_ANSWERS, {"regex": "a (.)"}, {"regex": ["a (.)", "b"], "take": "last"}]
        ),
        "checks": st.lists(
            st.sampled_from(["exact_match", "contains", {"contains": {"field": "target"}}]),
            min_size=1,
        ),
        "gold": st.sampled_from(["{{ target }}", "It is {{ target }}"]),
        "groups": st.just(["target"]),
        "on_truncated": st.sampled_from(["fail", "grade"]),
        "preset": st.sampled_from([None, *PRESETS]),
    },
)


@settings(deadline=None)  # what is imported first takes its time
@given(OPTIONS)
def test_options_that_are_written_down_make_the_same_task(options: dict[str, Any]) -> None:
    written = kind("tasks").validate_options("jsonl", options).model_dump(mode="json")
    again = (
        kind("tasks")
        .validate_options("jsonl", json.loads(json.dumps(written)))
        .model_dump(mode="json")
    )
    assert again == written
    tasks = [
        kind("tasks").build("jsonl", given, data=DataFolder(Path("nowhere")))
        for given in (options, again)
    ]
    assert tasks[0].fingerprint() == tasks[1].fingerprint()


@given(st.text())
def test_no_answer_is_too_odd(text: str) -> None:
    for instance in islice(EXAMPLE.instances(), 2):
        with contextlib.suppress(Unparseable):
            assert verdict(EXAMPLE.score(instance, text)) is not None


EXAMPLE: JsonlTask = kind("tasks").build(
    "jsonl",
    {
        "prompt": "{{ question }}",
        "extract": {"regex": r"is (\w+)"},
        "checks": ["exact_match", {"word_count": {"at_most": 9}, "of": "text"}],
    },
    data=DataFolder(Path("nowhere")),
)


def test_an_answer_that_a_judge_has_read_is_checked_and_gives_no_verdict(made: Made) -> None:
    checks = ["exact_match", {"word_count": {"at_most": 1}, "of": "text"}]
    task = made(ROW, checks=checks, extract={"regex": r"answer is (\w+)"})
    instance = next(task.instances())
    with pytest.raises(Unparseable):
        task.score(instance, "It must be 4!")
    for answer, right in (("4", True), ("5", False), ("", False)):
        scores = task.score_parsed(instance, answer)
        assert {name: (s.value, s.passed) for name, s in scores.items()} == {
            "exact_match": (right, None)
        }


def test_rows_are_read_and_checked_once(made: Made, tmp_path: Path) -> None:
    task = made(ROW, {**ROW, "checks": ["exact_match"], "groups": {"n": 1}}, **CHECKED)
    first = list(task.instances())
    next(tmp_path.glob("*/rows.jsonl")).unlink()
    assert list(task.instances()) == first
    assert task.score(first[1], "x").keys() == {"exact_match"}


def test_rows_of_a_large_file_are_not_kept_in_memory(
    made: Made, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [{**ROW, "prompt": f"{number:0100}"} for number in range(3)]
    task = made(*rows, **CHECKED)
    first, again = list(task.instances()), list(task.instances())
    assert all(one is other for one, other in zip(first, again, strict=True))
    monkeypatch.setattr("harness.datasets.rows.MAX_BYTES_IN_MEMORY", 250)
    task = made(*rows, **CHECKED)
    first, again = list(task.instances()), list(task.instances())
    assert first == again
    assert all(one is not other for one, other in zip(first, again, strict=True))


def test_the_content_of_a_named_schema_is_in_the_fingerprint(made: Made, tmp_path: Path) -> None:
    schema = tmp_path / "schema.json"
    schema.write_text('{"type": "object"}')
    rows, checks = {"prompt": "a"}, [{"json_schema": {"schema": str(schema)}}]
    before = made(rows, checks=checks).fingerprint()
    schema.write_text('{"type": "array"}')
    after = made(rows, checks=checks).fingerprint()
    assert [key for key in after if after[key] != before[key]] == [f"{schema}_sha256"]


@pytest.mark.parametrize(
    "row",
    [
        {"prompt": "Who?", "targets": "Paris|Paname"},
        {"prompt": "Who?", "targets": "Paris, Paname"},
        {"prompt": "Who?", "targets": "Paris;Paname"},
        {"prompt": "Who?", "target": '["Paris", "Paname"]'},
    ],
)
def test_a_text_that_looks_like_a_list_of_targets_gets_a_warning(
    made: Made, row: dict[str, str]
) -> None:
    (warning,) = made(row, checks=["exact_match"]).prompt_errors()
    assert "is a single text" in warning
    assert (
        made({"prompt": "Who?", "target": "a, b|c"}, checks=["exact_match"]).prompt_errors() == []
    )
