import contextlib
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.datasets.folder import DataFolder
from harness.engine.assessment import assess
from harness.errors import ConfigError, DataInvalid, DataMissing, Unparseable
from harness.plugin_loader import kind
from harness.plugins.benchmarks.concodeeval.setting import BUILTIN
from harness.plugins.benchmarks.concodeeval.tasks import ConCodeEvalValidation, yes_or_no
from harness.plugins.builders.concodeeval import build
from harness.plugins.few_shot.shots import Mistake, mistakes_of
from harness.records import Reply

NOWHERE = DataFolder(Path("nowhere"))


def task(**options: Any) -> ConCodeEvalValidation:
    built: ConCodeEvalValidation = kind("tasks").build(
        "concodeeval_validation", options, data=NOWHERE
    )
    return built


@pytest.mark.parametrize("mode", ["strict", "paper"])
def test_gold_passes_and_the_other_answer_fails(mode: str) -> None:
    built = task(mode=mode)
    labels: Counter[str] = Counter()
    for instance in built.instances():
        gold = built.reference(instance)
        other = {"yes": "No", "no": "Yes"}[gold]
        assert built.wrong_answer(instance) == other.lower()
        assert assess(built, instance, Reply(gold, "stop")).passed is True
        wrong = assess(built, instance, Reply(f"{other}.", "stop"))
        assert wrong.passed is False
        labels[gold] += 1
        assert instance.groups["label"] == gold
        assert ("keyword" in instance.groups) == (gold == "no")
    rows = [json.loads(line) for line in (BUILTIN / "validation.jsonl").read_text().splitlines()]
    label = "label" if mode == "strict" else "paper_label"
    assert labels == {name: 3 * n for name, n in Counter(row[label] for row in rows).items()}


def test_the_groups_of_an_invalid_sample_tell_what_it_breaks_and_where() -> None:
    rows = [json.loads(line) for line in (BUILTIN / "validation.jsonl").read_text().splitlines()]
    expected = {row["id"]: row for row in rows}
    thirds = set()
    for instance in task(representation="python").instances():
        row = expected[instance.id.rpartition("/")[0]]
        assert instance.groups.get("keyword") == row["keyword"]
        if row["keyword"]:
            assert instance.groups["schema_third"] in ("first", "middle", "last")
            assert (instance.groups["sample_third"] == "whole") == (row["path"] == "")
            thirds.add(instance.groups["sample_third"])
    assert {"whole", "first", "middle", "last"} == thirds


def test_a_wrong_answer_is_a_mistake_of_the_keyword_that_was_overlooked() -> None:
    built = task(outputs=["json"])
    instances = list(built.instances())
    invalid = next(one for one in instances if one.groups.get("keyword") == "multipleOf")
    valid = next(one for one in instances if one.data.label == "yes")
    said_yes = built.score(invalid, "yes")["correct"]
    assert "is no multiple of" in said_yes.reason
    assert said_yes.details["keywords"] == {"multipleOf": 1}
    assert built.score(valid, "no")["correct"].details["keywords"] == {"valid": 1}
    assert Mistake("correct", "multipleOf") in mistakes_of(_attempt(said_yes))


def _attempt(score: Any) -> Any:
    from harness.records import Attempt

    return Attempt(
        1, "a", 0, 1, {}, "c", {}, "ok", 0.0, 0.0, passed=False, scores={"correct": score}
    )


def test_a_non_answer_is_unparseable_and_wrong() -> None:
    built = task(outputs=["json"])
    instance = next(built.instances())
    with pytest.raises(Unparseable):
        built.score(instance, "Perhaps.")
    found = assess(built, instance, Reply("Perhaps.", "stop"))
    assert (found.outcome, found.passed, found.scores) == ("unparseable", False, {})


def test_the_prompts(data_dir: Path) -> None:
    built = task(representation="yaml", outputs=["json"])
    [message] = built.messages(next(built.instances()), ())
    assert message.content == (
        "Here is a schema, written in YAML:\n\n<schema>\nmultipleOf: 8.48\ntype: number\n</schema>"
        "\n\nHere is a sample, written in JSON:\n\n<sample>\n110.24\n</sample>\n\nDoes the sample "
        "obey every constraint of the schema? Answer yes or no, and nothing else."
    )
    recorded = json.loads((data_dir / "concodeeval/prompts.json").read_text("utf-8"))
    built = task(representation="yaml", outputs=["json"], prompt="paper")
    first, *others = built.instances()
    system, user = built.messages(first, ())
    filled = recorded["Task_2_inference.py:prompt"].format(
        input_repr="YAML", output_repr="JSON", sample=first.data.sample, schema=first.data.text
    )
    assert f"\n{system.content}\n<|eot_id|>" in filled
    assert f"<|end_header_id|>\n\n{user.content}\n<|eot_id|>" in filled
    few = built.messages(first, others[3:5])[0].content
    assert few.endswith(user.content)
    answers = "".join(f"Answer:\n```\n{one.data.label}\n```\n\nQuestion:" for one in others[3:4])
    assert answers in few


def test_a_shot_of_the_same_schema_gives_the_answer_away() -> None:
    built = task()
    by_schema: dict[str, list[Any]] = {}
    for instance in built.instances():
        by_schema.setdefault(instance.data.row.id, []).append(instance)
    (first, *same), other, *_ = by_schema.values()
    assert all(built.leaks(first, one) for one in same)
    assert not any(built.leaks(first, one) for one in other)


def test_a_benchmark_of_ones_own(tmp_path: Path) -> None:
    build(7, tmp_path / "mine")
    built = task(dataset=str(tmp_path / "mine"), outputs=["json"])
    instances = list(built.instances())
    assert len(instances) == 3076
    assert Counter(one.data.label for one in instances)["no"] == round(0.45 * 3076)
    lines = (tmp_path / "mine/validation.jsonl").read_text().splitlines()
    row = json.loads(lines[0])
    row["label"] = {"yes": "no", "no": "yes"}[row["label"]]
    (tmp_path / "mine/validation.jsonl").write_text("\n".join([json.dumps(row), *lines[1:]]))
    with pytest.raises(DataInvalid, match="its schema says otherwise"):
        list(task(dataset=str(tmp_path / "mine")).instances())
    (tmp_path / "mine/validation.jsonl").unlink()
    with pytest.raises(DataMissing, match="has no validation"):
        task(dataset=str(tmp_path / "mine"))


def test_schemas_without_samples_are_for_the_other_task(tmp_path: Path) -> None:
    path = tmp_path / "schemas.jsonl"
    path.write_text('{"id": "a", "schema": {}}\n')
    with pytest.raises(ConfigError, match="no samples to judge"):
        task(dataset=str(path))


def test_decoding_may_be_held_to_yes_and_no() -> None:
    built = task()
    assert built.constraint_kind == "choices"
    assert built.constraint(next(built.instances())).choices == ("yes", "no")


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("yes", "yes"),
        ("No", "no"),
        ("NO.", "no"),
        ("  **Yes**, it does.", "yes"),
        ("```\nno\n```", "no"),
        ("```text\nyes\n```", "yes"),
        ("`yes`", "yes"),
        ("Yes it does.", "yes"),
        ("No, the value 5 is more than 3, so yes would be wrong.", "no"),
        ("No because 5 is too large", "no"),
        ("Answer: yes", "yes"),
        ("There are no errors in it.\n\nAnswer: **Yes**.", "yes"),
        ("First I thought yes, but the answer is no.", "no"),
        ("The answer is yes? The answer is: no", "no"),
        ("It violates maximum: no", "no"),
        ("<answer>no</answer>", "no"),
        ("yes\nno explanation", "yes"),
        ("No_", "no"),
        ("Yes/No: No", "no"),
        ("yes|no: no", "no"),
        ("Is it valid, yes or no? No.", "no"),
        ("minimum: yes\nformat: no\n\n**No**", "no"),
        ("- type: yes\n- maximum: yes\nYes", "yes"),
        ("Yes </s>", "yes"),
        ("no<|eot_id|>", "no"),
        ('{"answer": "no"}', "no"),
        ("\\boxed{no}", "no"),
        ("Yes based on the schema", "yes"),
        ("No – 5 is too large", "no"),
        ("**No** (5 is too large)", "no"),
    ],
)
def test_what_is_said(text: str, answer: str) -> None:
    assert yes_or_no(text) == answer


@pytest.mark.parametrize(
    "text",
    [
        "",
        "maybe",
        "Nothing is wrong with it.",
        "No errors were found in the sample",
        "There is no problem with this sample",
        "It could be yes, or no.",
        "yesterday",
        "noyes",
        'There is no "maxLength" violation; the sample is valid.',
        'No "required" member is missing, so the sample is valid.',
        "There are no (additional) properties.",
        "It has no <item> beyond the schema, hence valid.",
        "There is no $ref here.",
        "Yes/No",
    ],
)
def test_what_says_neither(text: str) -> None:
    with pytest.raises(Unparseable, match="yes"):
        yes_or_no(text)


@given(st.text())
def test_any_text_ends(text: str) -> None:
    with contextlib.suppress(Unparseable):
        assert yes_or_no(text) in ("yes", "no")


def test_long_texts_end_soon() -> None:
    for piece in ("answer ", "no ", "yes*_` ", "*" * 50, "answer is " * 5):
        with contextlib.suppress(Unparseable):
            yes_or_no(piece * 100_000)


def test_the_system_message_for_granite(data_dir: Path) -> None:
    recorded = json.loads((data_dir / "concodeeval/prompts.json").read_text("utf-8"))
    built, paper = task(prompt="granite"), task(prompt="paper")
    instance = next(built.instances())
    system, user = built.messages(instance, ())
    assert f"System:\n{system.content}" == recorded["Task_2_inference.py:system_prompt"].strip()
    assert user == paper.messages(instance, ())[1]
