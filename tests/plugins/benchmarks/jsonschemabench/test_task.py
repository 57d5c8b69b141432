"""The task: our own schemas, both kinds of verdicts, the prompts, and rows that are malformed."""

import json
from pathlib import Path
from typing import Any

import pytest

from harness.datasets.folder import DataFolder
from harness.engine.assessment import assess
from harness.errors import ConfigError, DataInvalid
from harness.plugins.benchmarks.jsonschemabench.task import (
    JSONSchemaBenchTask,
    SchemaItem,
    Verdicts,
    deciding_keyword,
    read_items,
)
from harness.records import CONSTRAINT_REFUSED, DecodingConstraint, Instance, Reply, Score

NOWHERE = DataFolder(Path("nowhere"))
ROW: dict[str, Any] = {"name": "a---b", "dataset": "a", "schema": {"type": "integer"}}


def task_of(path: Path, *rows: Any, **options: Any) -> JSONSchemaBenchTask:
    path = path / "own.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return JSONSchemaBenchTask(str(path), data=NOWHERE, **options)


def verdict(task: JSONSchemaBenchTask, one: Instance[SchemaItem], text: str) -> bool | None:
    return assess(task, one, Reply(text, "stop")).passed


@pytest.mark.parametrize("prompt", ["paper", "copy"])
@pytest.mark.parametrize("verdicts", ["strict", "official"])
def test_references_pass_and_wrong_answers_fail(prompt: str, verdicts: Verdicts) -> None:
    task = JSONSchemaBenchTask(prompt=prompt, verdicts=verdicts, data=NOWHERE)
    instances = list(task.instances())
    assert len(instances) == (16 if prompt == "paper" else 55)
    without = set()
    for one in instances:
        reference, wrong = task.reference(one), task.wrong_answer(one)
        assert wrong is not None
        assert verdict(task, one, wrong) is False
        if reference is None:
            without.add(one.data.id)
        else:
            assert verdict(task, one, reference) is True
    # An IPv4 address, and draft 4's boolean exclusiveMinimum, which 2020-12 does not allow.
    official = {"settings---server", "events---click"}
    assert without == (official if verdicts == "official" else set())


def test_the_description_counts_keywords_and_names_doubtful_labels() -> None:
    sizes, words, doubtful = JSONSchemaBenchTask(data=NOWHERE).describe()
    assert ("settings", 4, 5, 9, 1) in sizes.rows
    assert next(row for row in words.rows if row[0] == "oneOf")[1:] == (1, 0, 1, 0, 0)
    assert not doubtful.rows
    *_, doubtful = JSONSchemaBenchTask(verdicts="official", data=NOWHERE).describe()
    assert doubtful.rows == [
        ("settings---server/0", "valid", "invalid", "format"),
        ("events---click/0", "valid", "invalid", "$schema"),
    ]


def test_a_keyword_that_only_the_other_verdicts_assert_is_named() -> None:
    schema = {"$schema": "http://json-schema.org/draft-04/schema#", "format": "duration"}
    assert deciding_keyword(schema, "soon", "strict") == "format"
    assert deciding_keyword({}, 5, "strict") == ""


@pytest.mark.parametrize(
    ("text", "strict", "official"),
    [
        ('{"a": 1}', True, True),
        ('Here it is:\n```json\n{"a": 1}\n```\nDone.', True, False),
        ('{"a": NaN}', False, True),
        ('{"a": 1, "a": 2}', False, True),
        ('{"b": "```"}', True, True),
        ("", False, False),
        ("none", False, False),
    ],
)
def test_how_an_answer_is_read(text: str, strict: bool, official: bool, tmp_path: Path) -> None:
    row = {**ROW, "schema": {"type": "object", "properties": {"a": {"type": "number"}}}}
    for verdicts, passes in (("strict", strict), ("official", official)):
        task = task_of(tmp_path, row, verdicts=verdicts)
        [one] = task.instances()
        assert verdict(task, one, text) is passes


def test_an_answer_that_official_code_calls_json_but_cannot_validate(tmp_path: Path) -> None:
    task = task_of(tmp_path, ROW, verdicts="official")
    [one] = task.instances()
    found = assess(task, one, Reply("json\xa05", "stop"))
    assert (found.outcome, found.scores["json"].value) == ("unparseable", True)


def test_a_broken_value_is_not_replaced_by_a_part_of_it(tmp_path: Path) -> None:
    task = task_of(tmp_path, {**ROW, "schema": {"type": "object"}})
    [one] = task.instances()
    assert verdict(task, one, '{"a": {"b": 1}, "c": }') is False


def test_violations_are_named_for_feedback_and_few_shot_prompts(tmp_path: Path) -> None:
    task = task_of(tmp_path, ROW)
    [one] = task.instances()
    scores = task.score(one, '"5"')
    assert scores["compliant"].details["keywords"] == {"type": 1}
    assert scores["compliant"].reason in task.feedback(one, '"5"', scores)
    assert task.feedback(one, "5", task.score(one, "5")) == "That value is right."


def test_a_refused_schema_is_not_covered_and_other_refusals_are() -> None:
    task = JSONSchemaBenchTask(data=NOWHERE)
    one = next(task.instances())
    found = assess(task, one, Reply("400: pattern is not permitted", CONSTRAINT_REFUSED))
    assert (found.outcome, found.passed) == ("refused", False)
    assert found.scores["declared"] == Score(False)
    assert found.scores["compliant"].value is False
    found = assess(task, one, Reply("No.", "refusal"))
    assert found.outcome == "refused"
    assert {name: score.value for name, score in found.scores.items()} == {
        **{"declared": True, "json": False, "compliant": False}
    }


def test_copies_show_whether_a_provider_constrains_too_much_or_too_little(tmp_path: Path) -> None:
    instances = [{"data": {"b": 1, "a": 2}, "valid": True}, {"data": {"a": ""}, "valid": False}]
    row = {**ROW, "schema": {"additionalProperties": {"type": "integer"}}, "instances": instances}
    task = task_of(tmp_path, row, prompt="copy")
    valid, invalid = task.instances()
    assert (valid.groups, valid.cluster) == ({"dataset": "a", "label": "valid"}, "a---b")
    assert '{"a": ""}' in task.messages(invalid, ())[0].content
    assert "additionalProperties" not in task.messages(invalid, ())[0].content
    same, other, wrong = '{"a": 2, "b": 1}', '{"a": 2}', '{"a": ""}'
    assert task.score(valid, same)["over_constrained"] == Score(False, True)
    assert task.score(valid, other)["over_constrained"].value is True
    assert task.score(invalid, wrong)["under_constrained"].value is True
    assert task.score(invalid, other)["under_constrained"] == Score(False, True)
    for one, name in ((valid, "over_constrained"), (invalid, "under_constrained")):
        scores = task.score(one, "[" * 3000 + "]" * 3000)
        assert scores.keys() == {"declared", "json", name}
        assert (scores[name].value, scores[name].passed) == (None, None)
        assert "nested deeper" in scores[name].reason
    assert task.score_of_no_answer(valid).keys() == {"declared", "json"}
    assert task.score_of_refused_constraint(valid) == {"declared": Score(False)}
    assert task.reference(invalid) == '{"b": 1, "a": 2}'


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        ({"$ref": "https://example.com/schema.json"}, "References are not fetched"),
        ({"$schema": "http://json-schema.org/draft-03/schema#"}, "not a supported draft"),
        ({"type": "int"}, "breaks the rules"),
        ({"pattern": r"^((a|a)+)+\1$"}, "takes too many steps"),
    ],
)
def test_a_schema_without_a_strict_verdict_leaves_the_score_open(
    schema: Any, reason: str, tmp_path: Path
) -> None:
    task = task_of(tmp_path, {**ROW, "schema": schema})
    [one] = task.instances()
    scores = task.score(one, json.dumps("a" * 60 + "!"))
    found = scores["compliant"]
    assert found.value is None
    assert task.feedback(one, "", scores).startswith("That value could not be checked.")
    assert reason in found.reason
    assert verdict(task, one, json.dumps("a" * 60 + "!")) is None


def test_prompts(tmp_path: Path) -> None:
    schema = json.dumps(ROW["schema"])
    [one] = task_of(tmp_path, ROW).instances()
    said = {
        name: [(m.role, m.content) for m in task_of(tmp_path, ROW, prompt=name).messages(one, ())]
        for name in ("paper", "lm_eval", "free")
    }
    asked = "You need to generate a JSON object that matches the schema below."
    assert said["paper"] == [("system", asked), ("user", schema)]
    asked = "Generate a JSON object that matches the following JSON schema."
    assert said["lm_eval"] == [
        ("system", asked),
        ("user", f"JSON schema: {schema}\n\nJSON object: "),
    ]
    [(role, text)] = said["free"]
    assert (role, schema in text, "```json" in text) == ("user", True, True)
    own = tmp_path / "own.jinja"
    own.write_text("A value for {{ schema }}?")
    task = task_of(tmp_path, ROW, prompt=str(own))
    assert task.messages(one, ())[0].content == f"A value for {schema}?"
    own.write_text("A value?")
    with pytest.raises(ConfigError, match="the only field must be 'schema'"):
        task_of(tmp_path, ROW, prompt=str(own))


def test_constraints_and_data_sets(tmp_path: Path) -> None:
    other = {"name": "c---d", "dataset": "c", "schema": True}
    assert [one.id for one in task_of(tmp_path, ROW, other, datasets=["c"]).instances()] == [
        "c---d"
    ]
    task = task_of(tmp_path, ROW, other, {"name": "e", "schema": False})
    assert task.constraint_kind == "json_schema"
    assert [task.constraint(one) for one in task.instances()] == [
        DecodingConstraint(json_schema=schema) for schema in ({"type": "integer"}, {}, {"not": {}})
    ]
    with pytest.raises(ConfigError, match="there is no 'f'"):
        list(task_of(tmp_path, ROW, datasets=["f"]).instances())


def test_a_shot_that_would_answer_the_instance_leaks(tmp_path: Path) -> None:
    instances = [{"data": 5, "valid": True}]
    rows = [{**ROW, "name": name, "instances": instances} for name in "ab"]
    rows.append({**ROW, "name": "c", "schema": {"type": "string"}})
    task = task_of(tmp_path, *rows)
    first, second, third = task.instances()
    assert task.leaks(first, second)
    assert not task.leaks(third, first)
    assert not task.leaks(first, third)


@pytest.mark.parametrize(
    "row",
    [
        {"name": "a"},
        {**ROW, "schema": []},
        {**ROW, "instances": [{"data": 1}]},
        {**ROW, "instances": [{"data": 1, "valid": "yes"}]},
    ],
)
def test_malformed_rows_are_refused(row: Any, tmp_path: Path) -> None:
    with pytest.raises(DataInvalid, match=r"own\.jsonl, item 1"):
        list(task_of(tmp_path, row).instances())
    with pytest.raises(DataInvalid, match="occurs twice"):
        list(read_items(task_of(tmp_path, ROW, ROW).path))


def test_the_fingerprint_names_the_validators() -> None:
    strict, official = (
        JSONSchemaBenchTask(verdicts=verdicts, data=NOWHERE).fingerprint()
        for verdicts in ("strict", "official")
    )
    assert {"jsonschema_rs", "prompt_sha256", "dataset_sha256"} <= strict.keys()
    assert {"jsonschema", "rfc3339-validator"} <= official.keys()
    assert strict["verdicts"] == "strict"
