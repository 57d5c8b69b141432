"""The authors' verdicts on recorded answers and on texts near the rules' boundaries."""

import hashlib
import json
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.analysis.breakdown import mean_by_group
from harness.datasets.folder import DataFolder, read_jsonl
from harness.plugin_loader import kind
from harness.plugins.benchmarks.followbench.task import (
    CATEGORIES,
    CONSECUTIVE,
    FollowBenchItem,
    FollowBenchTask,
    consecutive,
)
from harness.records import Attempt, Instance
from harness.store.json_lines import JsonLinesWriter
from tests.columns import read_columns

MODELS = (
    *("mistral-7b-instruct-v0.3", "deepseek-llm-7b-chat"),
    *("meta-llama-3.1-8b", "mistral-7b-v0.3"),
)


def recorded(folder: Path, name: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """The rows of a file in the data folder, with their instances' ids."""
    path = DataFolder(folder).file(f"followbench/{name}.jsonl")
    for row in read_jsonl(path):
        yield f"{row['constraint_type']}/{row['example_id']}/{row['level']}", row


@pytest.fixture(scope="module")
def task(data_dir: Path) -> FollowBenchTask:
    return FollowBenchTask("public", data=DataFolder(data_dir))


@pytest.fixture(scope="module")
def instances(task: FollowBenchTask) -> dict[str, Instance[FollowBenchItem]]:
    return {one.id: one for one in task.instances()}


@pytest.mark.parametrize("model", MODELS)
def test_rules_agree_on_every_recorded_answer(
    model: str,
    task: FollowBenchTask,
    instances: dict[str, Instance[FollowBenchItem]],
    data_dir: Path,
) -> None:
    answers = {name: row["response"] for name, row in recorded(data_dir, f"responses_{model}")}
    hits: dict[str, list[int]] = defaultdict(lambda: [0] * 5)
    for name, row in recorded(data_dir, f"expected_{model}"):
        instance = instances[name]
        assert (instance.data.rule is not None) == (row["scored_by"] == "rule"), name
        scores = task.score(instance, answers[name])
        assert bool(scores) == (row["scored_by"] == "rule")
        if scores:
            assert scores["rule"].passed is row["satisfied"], name
            assert bool(scores["rule"].reason) is not row["satisfied"]
            hits[row["constraint_type"]][row["level"] - 1] += row["satisfied"]
    path = data_dir / "followbench" / "expected_aggregates.json"
    expected = json.loads(path.read_text())["models"][model]
    for category, own in expected.items():
        key = "satisfied_by_level" if category == "example" else "rule_satisfied_by_level"
        assert hits[category] == own[key], category


@pytest.mark.parametrize("model", MODELS)
def test_consecutive_levels_are_the_authors(
    model: str,
    task: FollowBenchTask,
    instances: dict[str, Instance[FollowBenchItem]],
    data_dir: Path,
    tmp_path: Path,
) -> None:
    with JsonLinesWriter(tmp_path / "attempts.jsonl") as writer:
        for name, row in recorded(data_dir, f"responses_{model}"):
            one = instances[name]
            passed = task.rule_verdict(one, row["response"])
            if passed is not None:
                writer.append(
                    Attempt(
                        v=1, instance=name, sample=0, round=1, groups=one.groups, request={},
                        cluster=one.cluster or "", outcome="ok", started_at=0, ended_at=0,
                        passed=passed,
                    )
                )  # fmt: skip
    found = mean_by_group(
        consecutive(read_columns(tmp_path / "attempts.jsonl")[0], "level"), CONSECUTIVE, "category"
    )
    path = data_dir / "followbench" / "expected_aggregates.json"
    for category, own in json.loads(path.read_text())["models"][model].items():
        part = "" if category == "example" else "rule_"
        total, n = own[f"{part}csl_sum"], own[f"{part}csl_groups" if part else "groups"]
        if n:
            mean = found[category,].mean
            assert mean == pytest.approx(total / n), category
            assert round(mean, 1) == own[f"{part}csl"]


def test_rules_agree_on_texts_near_their_boundaries(
    task: FollowBenchTask, instances: dict[str, Instance[FollowBenchItem]], data_dir: Path
) -> None:
    n = passed = 0
    for name, row in recorded(data_dir, "rule_edge_cases"):
        found = task.score(instances[name], row["response"])["rule"].passed
        assert found is row["satisfied"], (name, row["id"])
        n, passed = n + 1, passed + found
    assert (n, passed) == (3841, 790)


@pytest.mark.parametrize("model", MODELS)
def test_prompts_are_the_published_ones_byte_for_byte(
    model: str,
    task: FollowBenchTask,
    instances: dict[str, Instance[FollowBenchItem]],
    data_dir: Path,
) -> None:
    judge = kind("judges").build("followbench", {}, task=task)
    whole = (data_dir / "followbench" / f"judge_prompts_{model}.jsonl.gz").is_file()
    file = f"judge_prompts_{model}" + "_sha256" * (not whole)
    expected = {name: row["sha256"] for name, row in recorded(data_dir, file)}
    found = {
        name: hashlib.sha256(question.messages[0].content.encode()).hexdigest()
        for name, row in recorded(data_dir, f"responses_{model}")
        for question in judge.questions(instances[name], row["response"])
    }
    assert found == expected


def test_the_published_data(
    task: FollowBenchTask, instances: dict[str, Instance[FollowBenchItem]]
) -> None:
    assert len(instances) == 820
    by_rule = [one for one in instances.values() if one.data.rule is not None]
    assert len(by_rule) == 350
    known = [one for one in by_rule if task.reference(one) is not None]
    assert len(known) == 195 + 115  # five examples' answers are not in their form
    for one in known:
        assert task.score(one, task.reference(one) or "")["rule"].passed
    assert {one.groups["category"] for one in instances.values()} == set(CATEGORIES)
    assert {one.cluster for one in instances.values()} >= {"content/1", "example/40"}
