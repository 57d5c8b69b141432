"""The official verdicts on the recorded instances and answers, and ours beside the labels."""

import json
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.datasets.folder import DataFolder, read_jsonl
from harness.engine.assessment import assess
from harness.plugins.benchmarks.jsonschemabench.official import OfficialValidator, is_json, read
from harness.plugins.benchmarks.jsonschemabench.task import (
    ALWAYS_REFUSED,
    JSONSchemaBenchTask,
    deciding_keyword,
)
from harness.records import Reply
from harness.scoring.validators import UnparseableDocument, schemas, validator

Case = tuple[str, Any, Any, dict[str, Any]]
"""A schema's name, the schema, a value, and the verdicts."""


def recorded(folder: Path, name: str) -> Iterator[dict[str, Any]]:
    return read_jsonl(DataFolder(folder).file(name))


@pytest.fixture(scope="module")
def cases(data_dir: Path) -> list[Case]:
    found: list[Case] = [
        (row["name"], row["schema"], one["data"], one)
        for row in recorded(data_dir, "jsonschemabench/sample500.jsonl")
        for one in row["instances"]
    ]
    sample = {row["name"]: row for row in recorded(data_dir, "jsonschema/sample200.jsonl")}
    for one in recorded(data_dir, "jsonschemabench/expected_sample200.jsonl"):
        row = sample[one["name"]]
        found.append((one["name"], row["schema"], row["instances"][one["instance"]]["data"], one))
    assert len(found) == 2057 + 962
    return found


def by_schema(cases: list[Case]) -> Iterator[tuple[Any, list[Case]]]:
    groups: dict[str, list[Case]] = defaultdict(list)
    for case in cases:
        groups[case[0]].append(case)
    return ((group[0][1], group) for group in groups.values())


@pytest.mark.exhaustive
@pytest.mark.timeout(900)
@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_official_verdicts_are_those_of_lm_eval(cases: list[Case]) -> None:
    found = Counter[tuple[bool, bool]]()
    for schema, group in by_schema(cases):
        compiled = OfficialValidator(schema)
        for name, _, value, expected in group:
            accepts = not compiled.violations(value)
            assert accepts is expected["lm_eval"], name
            assert accepts is expected.get("epfl", accepts), name
            found[expected["valid"], accepts] += 1
    assert found[True, False] + found[False, True] > 0


@pytest.mark.exhaustive
def test_strict_verdicts_are_the_labels_or_a_keyword_says_why(cases: list[Case]) -> None:
    doubtful = []
    for schema, group in by_schema(cases):
        compiled = validator(schema)
        for name, _, value, expected in group:
            if (not compiled.violations(value)) is not expected["valid"]:
                assert expected["valid"] is False
                doubtful.append((name, deciding_keyword(schema, value, "strict")))
    # These formats are unknown to the draft that the schema names; the last is inside a oneOf.
    assert doubtful == [
        ("Github_easy---o73983", "format"),
        ("Github_easy---o73983", "format"),
        ("JsonSchemaStore---artifacthub-repo", "format"),
        ("JsonSchemaStore---component_spec.json_schema", "oneOf"),
    ]


@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_official_verdicts_on_answers(data_dir: Path, tmp_path: Path) -> None:
    rows = list(recorded(data_dir, "jsonschemabench/output_cases.jsonl"))
    assert len(rows) == 94
    path = tmp_path / "schemas.jsonl"
    named = ({"name": str(n), "schema": row["schema"]} for n, row in enumerate(rows))
    path.write_text("".join(json.dumps(row) + "\n" for row in named))
    task = JSONSchemaBenchTask(str(path), verdicts="official", data=DataFolder(data_dir))
    for row, one in zip(rows, task.instances(), strict=True):
        compiled = OfficialValidator(row["schema"])
        assert is_json(row["output"]) is row["lm_eval_json_validity"], row
        try:
            complies = not compiled.violations(read(row["output"]))
        except UnparseableDocument:
            complies = False
        assert complies is row["lm_eval_schema_compliance"], row
        try:  # the other official code, which strips nothing
            complies = not compiled.violations(json.loads(row["output"]))
        except ValueError:
            complies = False
        assert complies is row["epfl_valid"], row
        found = assess(task, one, Reply(row["output"], "stop"))
        assert found.passed is row["lm_eval_schema_compliance"], row
        assert found.scores["json"].value is row["lm_eval_json_validity"], row


def test_schemas_that_official_verdicts_can_hardly_accept(data_dir: Path) -> None:
    path = data_dir / "jsonschemabench" / "always_false_formats.json"
    listed = {name.replace("/", "---") for name in json.loads(path.read_text())["names"]}
    asked = {f"format: {name}" for name in ALWAYS_REFUSED}
    rows = list(recorded(data_dir, "jsonschemabench/sample500.jsonl"))
    found = {row["name"] for row in rows if asked & {*schemas.schema_features(row["schema"])}}
    assert found == listed & {row["name"] for row in rows}


def test_keywords_are_counted_as_in_the_repository(data_dir: Path) -> None:
    path = data_dir / "jsonschemabench" / "features_by_dataset.tsv"
    lines = [line.split("\t") for line in path.read_text().splitlines()[2:]]
    expected = {line[0]: int(line[2]) for line in lines}
    rows = recorded(data_dir, "jsonschemabench/sample500.jsonl")
    found = Counter(word for row in rows for word in schemas.schema_features(row["schema"]))
    for word in ("properties", "additionalProperties", "$ref", "pattern", "patternProperties"):
        assert found[word] == expected[word], word
    for word in ("type", "required", "enum", "items", "minimum", "maxItems", "minLength"):
        assert abs(found[word] - expected[word]) <= 1, word  # names of members counted once or not
