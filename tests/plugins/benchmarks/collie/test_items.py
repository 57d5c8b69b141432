import json
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from harness.datasets.folder import DataFolder
from harness.errors import ConfigError, DataInvalid, DataMissing
from harness.plugin_loader import kind
from harness.plugins.benchmarks.collie.task import CollieTask

ITEM: dict[str, Any] = {
    "id": "haiku",
    "level": "paragraph",
    "constraint": {"target_level": "word", "transformation": {"op": "count"}, "relation": "=="},
    "targets": 17,
}


def task(folder: Path, name: str, text: str) -> CollieTask:
    (folder / name).write_text(text, encoding="utf-8")
    return CollieTask(name, data=DataFolder(folder))


def test_yaml_of_ones_own(tmp_path: Path) -> None:
    written = """
- id: haiku
  level: paragraph
  constraint: {target_level: word, transformation: {op: count}, relation: "=="}
  targets: 17
- id: opening
  structure: para01
  source: mine
  prompt: Begin every sentence with 'We'.
  example: We ran. We hid.
  constraint:
    input_level: sentence
    target_level: word
    transformation: {op: for_each, do: {op: position, index: 0}}
    relation: "=="
    reduction: all
  targets: we
"""
    own = task(tmp_path, "mine.yaml", written)
    haiku, opening = own.instances()
    assert (
        own.messages(haiku, ())[0].content == "Please generate a paragraph with exactly 17 words."
    )
    assert (haiku.groups, own.reference(haiku)) == ({"structure": "own", "source": "own"}, None)
    assert own.messages(opening, ())[0].content == "Begin every sentence with 'We'."
    assert opening.groups == {"structure": "para01", "source": "mine"}
    assert own.score(opening, own.reference(opening) or "")["constraints"].passed


@pytest.mark.parametrize(
    ("unit", "text", "warned"),
    [
        ("word", "我喜欢机器学习和编程", True),
        ("sentence", "今天下雨。我在家。你呢？", True),
        ("character", "我", False),
        ("word", "Schön", False),
    ],
)
def test_official_counts_in_other_scripts_have_a_warning(
    unit: str, text: str, warned: bool, tmp_path: Path
) -> None:
    base = {"target_level": unit, "transformation": {"op": "count"}, "relation": "=="}
    row = {"id": "a", "level": "passage", "constraint": base, "targets": 1}
    own = task(tmp_path, "own.jsonl", json.dumps(row))
    [instance] = own.instances()
    score = own.score(instance, text)["constraints"]
    assert score.passed
    assert ("as in English" in score.details.get("warning", "")) == warned


def test_each_prompt_once(tmp_path: Path) -> None:
    rows = [
        ITEM | {"id": name, "targets": target, "source": source}
        for name, target, source in [
            *(("a", 17, "wiki"), ("b", 17, "guten"), ("c", 9, "wiki"), ("d", 9, "wiki")),
        ]
    ]
    (tmp_path / "mine.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    every, once = (
        CollieTask("mine.jsonl", unique_prompts=unique, data=DataFolder(tmp_path))
        for unique in (False, True)
    )
    found = {instance.id: instance.groups["source"] for instance in once.instances()}
    assert found == {"a": "several", "c": "wiki"}
    assert [instance.id for instance in every.instances()] == ["a", "b", "c", "d"]


def test_jsonl_of_ones_own(tmp_path: Path) -> None:
    own = task(tmp_path, "mine.jsonl", f"{json.dumps(ITEM)}\n\n{json.dumps(ITEM | {'id': 'b'})}\n")
    assert [instance.id for instance in own.instances()] == ["haiku", "b"]


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([ITEM, ITEM], "item 2: the id 'haiku' occurs twice"),
        ([ITEM | {"promt": "x"}], "item 1: unknown key 'promt'. Did you mean 'prompt'?"),
        ([{"level": "word"}], "missing required field `id`"),
        ([ITEM | {"id": 5}], "Expected `str`, got `int` - at `$.id`"),
        ([ITEM | {"level": None}], "'level' is missing"),
        ([ITEM | {"targets": "x"}], "item 1: the target of '==' must be a number"),
        ([ITEM | {"example": ["x"]}], "Expected `str | null`, got `array` - at `$.example`"),
        ([5], "must be a mapping"),
        ({"id": "x"}, "must be a list of items"),
    ],
)
def test_what_is_malformed_is_refused_with_its_place(
    rows: Any, message: str, tmp_path: Path
) -> None:
    with pytest.raises(DataInvalid) as refused:
        list(task(tmp_path, "mine.yaml", json.dumps(rows)).instances())
    assert str(tmp_path / "mine.yaml") in str(refused.value)
    assert message in str(refused.value)


@pytest.mark.parametrize("text", ["[", "- &a [*a]", "\x00", "- " * 5000, "a: !!python/name:os.x"])
def test_what_is_no_yaml_is_refused(text: str, tmp_path: Path) -> None:
    with pytest.raises(DataInvalid, match=r"mine\.yaml"):
        list(task(tmp_path, "mine.yaml", text).instances())


def test_a_missing_data_set_names_the_command(tmp_path: Path) -> None:
    with pytest.raises(DataMissing, match="harness data fetch collie"):
        kind("tasks").build("collie", {"dataset": "v1"}, data=DataFolder(tmp_path))


def test_shots_are_shown_in_the_published_form() -> None:
    builtin = CollieTask(data=DataFolder(Path("nowhere")))
    one, two, three = islice(builtin.instances(), 3)
    (message,) = builtin.messages(three, [one, two])
    assert message.content == (
        f"{one.data.prompt}\n{one.data.example}\n\n"
        f"{two.data.prompt}\n{two.data.example}\n\n{three.data.prompt}"
    )


def test_a_shot_needs_an_example(tmp_path: Path) -> None:
    bare = task(tmp_path, "mine.jsonl", json.dumps(ITEM))
    (instance,) = bare.instances()
    with pytest.raises(ConfigError, match="'haiku' has no example"):
        bare.messages(instance, [instance])
    assert not bare.leaks(instance, instance)
