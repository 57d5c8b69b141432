"""Runs as records of Every Eval Ever, valid by the schemas of its package, version 0.3.0."""

import hashlib
import json
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from jsonschema import Draft7Validator

from harness.analysis.exported_run import exported_run
from harness.errors import ConfigError, DataMissing
from harness.plugins.exchange.every_eval_ever import write_every_eval_ever
from harness.records import Attempt
from tests.plugins.exchange.made import attempt, attempts, whole_run

SCHEMAS = Path(__file__).parent / "every_eval_ever"  # as published, under the MIT licence
WHO = {"source_organization_name": "Us"}


def validator(name: str) -> Draft7Validator:
    return Draft7Validator(json.loads((SCHEMAS / name).read_text()))


RECORD = validator("eval.schema.json")
LINE = validator("instance_level_eval.schema.json")


def written(
    tmp: Path, found: list[Attempt], fields: dict[str, str] | None = None
) -> tuple[dict[str, Any], list[dict[str, Any]], int]:
    """A run's record, its lines, and the number of samples skipped; all are valid."""
    exported = exported_run(whole_run(tmp / "runs", "made", found))
    given = {**WHO, **(fields or {})}
    path, _, skipped = write_every_eval_ever(exported, tmp / "out", given)
    record = json.loads(path.read_bytes())
    RECORD.validate(record)
    detail = record["detailed_evaluation_results"]
    samples = (tmp / "out" / detail["file_path"]).read_bytes()
    assert path.with_name(f"{path.stem}_samples.jsonl").read_bytes() == samples
    assert hashlib.sha256(samples).hexdigest() == detail["checksum"]
    lines = [json.loads(line) for line in samples.split(b"\n") if line]
    assert len(lines) == detail["total_rows"]
    for line in lines:
        LINE.validate(line)
        assert line["evaluation_id"] == record["evaluation_id"]
    return record, lines, skipped


@settings(max_examples=15, deadline=None)
@given(attempts())
def test_any_run_gives_valid_files(found: list[Attempt]) -> None:
    found = [*found, attempt("certain")]
    with tempfile.TemporaryDirectory() as tmp:
        record, lines, _ = written(Path(tmp), found)
    results = {one["evaluation_result_id"] for one in record["evaluation_results"]}
    assert {line["evaluation_result_id"] for line in lines} <= results


def test_results_have_intervals_and_lines_have_verdicts(tmp_path: Path) -> None:
    found = [attempt(f"i{n}", passed=n > 1, feedback="No." if n == 5 else None) for n in range(6)]
    found += [attempt("i5", 0, 2), attempt("broken", passed=None, outcome="error", scores={})]
    record, lines, skipped = written(tmp_path, found)
    assert skipped == 1
    rate, score = record["evaluation_results"]
    assert (rate["evaluation_result_id"], score["evaluation_result_id"]) == ("pass_rate", "exact")
    assert rate["score_details"]["score"] == pytest.approx(4 / 6)
    interval = rate["score_details"]["uncertainty"]["confidence_interval"]
    assert 0 < interval["lower"] < 4 / 6 < interval["upper"] < 1
    assert rate["score_details"]["details"]["samples_without_a_value"] == "1"
    assert record["model_info"]["id"] == "scripted/m"
    passed = [one for one in lines if one["evaluation_result_id"] == "pass_rate"]
    assert [one["evaluation"]["is_correct"] for one in passed] == [False, False, *[True] * 4]
    assert [one["interaction_type"] for one in passed] == [*["single_turn"] * 5, "multi_turn"]
    roles = [turn["role"] for turn in passed[-1]["messages"]]
    assert roles == ["user", "assistant", "user", "assistant"]


def test_another_export_replaces_the_files(tmp_path: Path) -> None:
    first, *_ = written(tmp_path, [attempt()])
    again, *_ = written(tmp_path, [attempt(), attempt("j")])
    assert len(list((tmp_path / "out").rglob("*.*"))) == 2
    paths = [one["detailed_evaluation_results"]["file_path"] for one in (first, again)]
    assert paths[0] == paths[1]


def test_the_users_fields(tmp_path: Path) -> None:
    fields = {"model_id": "../up:x/..", "model_availability": "open_weights"}
    record, *_ = written(tmp_path, [attempt()], fields)
    assert record["model_info"]["additional_details"]["model_availability"] == "open_weights"
    assert record["detailed_evaluation_results"]["file_path"].startswith("data/sums/unknown/up_x_")
    for wrong in ({"modle_id": "a/b"}, {"model_id": "m"}, {"deployment_type": "mine"}):
        with pytest.raises(ConfigError):
            written(tmp_path, [attempt()], wrong)
    with pytest.raises(ConfigError, match="source_organization_name"):
        written(tmp_path, [attempt()], {"source_organization_name": ""})
    with pytest.raises(DataMissing, match="no verdict and no score"):
        written(tmp_path, [attempt(passed=None, scores={})])
