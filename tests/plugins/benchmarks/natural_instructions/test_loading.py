import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from harness.errors import DataInvalid, DataMissing
from harness.plugins.benchmarks.natural_instructions.loading import (
    SHIPPED,
    Entry,
    Example,
    Instruction,
    category_of,
    read_categories,
    read_task,
    task_files,
)

FIRST: dict[str, Any] = {
    "Title": "Colours",
    "Prompt": "Which colour? ",
    "Definition": "Name the colour.",
    "Things to Avoid": "-",
    "Emphasis & Caution": "One word.",
    "Instances": [{"input": "grass", "output": ["green", "Green"]}],
    "Examples": {
        "Positive Examples": [{"input": "snow", "output": "white", "reason": "It is."}],
        "Negative Examples": ["-"],
    },
}
SECOND: dict[str, Any] = {
    "Contributors": ["A. Person"],
    "Categories": ["Question Answering", "Other"],
    "Definition": ["Name the colour."],
    "Positive Examples": [{"input": "snow", "output": "white", "explanation": "It is."}],
    "Negative Examples": [],
    "Instances": [
        {"id": "task9-a", "input": "grass", "output": ["green"]},
        {"id": "task9-b", "input": "sky", "output": ["blue", "grey"]},
    ],
}
OWN = """
category: classification
title: Colours
definition: Name the colour.
prompt: Which colour?
things_to_avoid: Shades.
emphasis_and_caution: One word.
positive_examples:
  - {input: snow, output: white, reason: It is.}
negative_examples:
  - {input: coal, output: dark, reason: No colour., suggestion: Say black.}
instances:
  - {input: grass, output: green}
  - {id: 7, input: sky, output: [blue, grey]}
"""


def written(folder: Path, name: str, content: object) -> Path:
    path = folder / name
    text = content if isinstance(content, str) else json.dumps(content)
    path.write_text(text, encoding="utf-8", newline="")
    return path


def test_the_first_json_form(tmp_path: Path) -> None:
    task = read_task(written(tmp_path, "subtask001.json", FIRST))
    assert (task.name, task.category) == ("subtask001", None)
    assert task.entries == (Entry("0", "grass", ("green", "Green")),)
    assert task.instruction == Instruction(
        title="Colours",
        definition="Name the colour.",
        prompt="Which colour? ",
        things_to_avoid="-",
        emphasis_and_caution="One word.",
        positive=(Example("snow", "white", "It is."),),
    )
    assert task.instruction.text("Things to Avoid") is None
    assert task.instruction.text("Prompt") == "Which colour? "


def test_the_second_json_form(tmp_path: Path) -> None:
    task = read_task(written(tmp_path, "task9.json", SECOND))
    assert (task.name, task.category) == ("task9", "Question Answering")
    assert [entry.id for entry in task.entries] == ["task9-a", "task9-b"]
    assert task.entries[1].outputs == ("blue", "grey")
    assert task.instruction == Instruction(
        definition="Name the colour.", positive=(Example("snow", "white", "It is."),)
    )


def test_several_definitions_are_lines_of_one(tmp_path: Path) -> None:
    raw = SECOND | {"Definition": ["One.", "Two."]}
    assert read_task(written(tmp_path, "t.json", raw)).instruction.definition == "One.\nTwo."


def test_ones_own_in_yaml(tmp_path: Path) -> None:
    task = read_task(written(tmp_path, "colours.yaml", OWN))
    assert (task.name, task.category) == ("colours", "classification")
    assert [entry.id for entry in task.entries] == ["0", "7"]
    assert task.entries[0].outputs == ("green",)
    assert task.instruction.negative == (Example("coal", "dark", "No colour.", "Say black."),)


def changed(raw: dict[str, Any], **changes: Any) -> str:
    return json.dumps(raw | {key.replace("_", " "): value for key, value in changes.items()})


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("[1]", "Expected `object`, got `array`"),
        ("{", "not JSON"),
        ('{"Other": ' + "[" * 100_000, "not JSON"),
        ('{"Instances": [{"input": "\\ud800", "output": "x"}]}', "not JSON"),
        ("{}", "missing required field `instances`"),
        (changed(FIRST, Instances=[]), "length >= 1 - at `$.instances`"),
        (changed(FIRST, Instances=[{"input": "x"}]), "`output` - at `$.instances[0]`"),
        (changed(FIRST, Instances=[{"input": 1, "output": "x"}]), "at `$.instances[0].input`"),
        (changed(FIRST, Instances=[{"input": "x", "output": []}]), "at `$.instances[0].output`"),
        (changed(FIRST, Title=["x"]), "at `$.title`"),
        (
            changed(FIRST, Examples={"Positive Examples": ["x"]}),
            "`$.positive_examples[0]`",
        ),
        (changed(FIRST, Examples={"Positive Examples": [{"input": "x"}]}), "`output`"),
        (changed(SECOND, Definition={"a": 1}), "at `$.definition`"),
        (changed(SECOND, Instances=SECOND["Instances"][:1] * 2), "'task9-a' occurs twice"),
        (changed(SECOND, Categories="x"), "at `$.categories`"),
    ],
)
def test_json_that_is_no_task_is_refused_with_file_and_place(
    content: str, message: str, tmp_path: Path
) -> None:
    path = written(tmp_path, "bad.json", content)
    with pytest.raises(DataInvalid) as refused:
        read_task(path)
    assert str(path) in str(refused.value)
    assert message in str(refused.value)


BOMB = "x0: &x0 {k: v}\n" + "".join(
    f"x{n}: &x{n} {{<<: [*x{n - 1}, *x{n - 1}], k{n}: v}}\n" for n in range(1, 40)
)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("- a", "is not a task. It must contain at least 'instances:'"),
        ("", "is empty"),
        ("a: [", "line 1"),
        ("\x00", "control characters"),
        ("instances: " + "[" * 900, "nesting is too deep"),
        ("instances: !!python/name:os.x", "line 1"),
        (BOMB, "aliases (*) repeat too many values"),
        ("title: x", "missing required field `instances`"),
        ("instances: []", "length >= 1"),
        ("instanecs: []", "unknown key 'instanecs'. Did you mean 'instances'?"),
        ("instances: [{input: x, output: yes}]", "got `bool` - at `$.instances[0].output`. Put it"),
        ("instances: [{input: 2024-01-01, output: x}]", "at `$.instances[0].input`"),
        (
            "instances: [{input: x, output: y, out: z}]",
            "instances: unknown key 'out'",
        ),
        ("instances: [{input: x, output: y}, {id: 0, input: z, output: y}]", "'0' occurs twice"),
        ("instances: &a [*a]", "line 1: found unconstructable recursive node"),
        ('instances: [{input: "\\ud800", output: x}]', "lone surrogate"),
    ],
)
def test_yaml_that_is_no_task_is_refused_with_file_and_place(
    content: str, message: str, tmp_path: Path
) -> None:
    path = written(tmp_path, "bad.yaml", content)
    with pytest.raises(DataInvalid) as refused:
        read_task(path)
    assert str(path) in str(refused.value)
    assert message in str(refused.value)


OWN_TREE: dict[str, Any] = yaml.safe_load(OWN)
KEYS = [*FIRST, *SECOND, *OWN_TREE]

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from([*KEYS, "input", "output", "id", "reason"]), inner, max_size=4
        )
    ),
    max_leaves=12,
)


@settings(
    max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    changes=st.dictionaries(st.sampled_from(KEYS), json_values, max_size=3),
    name=st.sampled_from(["any.json", "any.yaml"]),
)
def test_whatever_a_file_holds_it_is_a_task_or_refused(
    changes: dict[str, Any], name: str, tmp_path: Path
) -> None:
    path = written(tmp_path, name, (FIRST if name == "any.json" else OWN_TREE) | changes)
    problem = None
    try:
        task = read_task(path)
        assert all(isinstance(output, str) for e in task.entries for output in e.outputs)
    except DataInvalid as error:
        problem = str(error)
    assert problem is None or str(path) in problem


def test_bytes_that_are_no_text_are_refused(tmp_path: Path) -> None:
    for name in ("bad.json", "bad.yaml"):
        (tmp_path / name).write_bytes(b'{"Instances": "\xff"}')
        with pytest.raises(DataInvalid, match=name):
            read_task(tmp_path / name)


def test_a_file_that_cannot_be_read_is_missing(tmp_path: Path) -> None:
    with pytest.raises(DataMissing, match=r"none\.json"):
        read_task(tmp_path / "none.json")


def test_a_folders_tasks_by_name(tmp_path: Path) -> None:
    for name in ("b.json", "a.yaml", "README.md"):
        (tmp_path / name).touch()
    (tmp_path / "folder.json").mkdir()
    assert list(task_files(tmp_path)) == ["a", "b"]
    assert list(task_files(tmp_path / "b.json")) == ["b"]
    (tmp_path / "a.json").touch()
    with pytest.raises(DataInvalid, match="two tasks named 'a'"):
        task_files(tmp_path)


def test_a_place_without_tasks_is_refused(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").touch()
    for path in (tmp_path, tmp_path / "notes.txt"):
        with pytest.raises(DataInvalid, match="contains no task"):
            task_files(path)


def test_ours_knows_the_papers_tasks() -> None:
    known = read_categories(SHIPPED)
    assert {
        name: category_of(name, known)
        for name in (
            "subtask005_mctaco_wrong_answer_generation_event_duration",
            "subtask002_quoref_answer_generation",
            "subtask034_winogrande_question_modification_object",
            "subtask039_qasc_find_overlapping_words",
            "another",
        )
    } == {
        "subtask005_mctaco_wrong_answer_generation_event_duration": "incorrect answer generation",
        "subtask002_quoref_answer_generation": "answer generation",
        "subtask034_winogrande_question_modification_object": "minimal text modification",
        "subtask039_qasc_find_overlapping_words": "verification",
        "another": None,
    }


def test_the_first_pattern_that_fits_counts(tmp_path: Path) -> None:
    path = tmp_path / "own.yaml"
    path.write_text('one_two: exact\n"one_*": first\n"*_two": second\n')
    own = read_categories(path)
    assert [category_of(name, own) for name in ("one_two", "one_three", "a_two", "x")] == [
        *("exact", "first", "second"),
        None,
    ]


@pytest.mark.parametrize("text", ["- a", "a: 1", "a: ' '", "a: [", "a: {b: c}", ""])
def test_what_maps_no_names_is_refused(text: str, tmp_path: Path) -> None:
    path = tmp_path / "own.yaml"
    path.write_text(text)
    with pytest.raises(DataInvalid, match=r"own\.yaml"):
        read_categories(path)
