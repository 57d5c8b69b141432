import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from harness.datasets.folder import DataFolder
from harness.plugins.benchmarks.collie.constraints.check import Splitter, check
from harness.plugins.benchmarks.collie.task import BUILTIN, CollieTask
from tests.plugins.benchmarks.collie.nltk_reference import english, own
from tests.plugins.benchmarks.collie.structures import STRUCTURES

TASK = CollieTask(data=DataFolder(Path("nowhere")))
INSTANCES = list(TASK.instances())
ROWS = {row["id"]: row for row in map(json.loads, BUILTIN.read_text("utf-8").splitlines())}


@pytest.fixture(params=[english, own])
def units(request: pytest.FixtureRequest) -> Splitter:
    splitter: Splitter = request.param()
    return splitter


def test_ten_instances_per_structure() -> None:
    assert Counter(instance.groups["structure"] for instance in INSTANCES) == dict.fromkeys(
        STRUCTURES, 10
    )
    assert list(INSTANCES[0].groups) == ["structure", "source"]
    assert len({TASK.messages(instance, ())[0].content for instance in INSTANCES}) == 130


def test_every_gold_passes(units: Splitter) -> None:
    for instance in INSTANCES:
        gold = TASK.reference(instance)
        assert gold is not None
        assert check(instance.data.specification, gold, units).passed, instance.id


def test_every_near_miss_fails(units: Splitter) -> None:
    for instance in INSTANCES:
        bases = len(list(instance.data.specification.bases()))
        near_misses = ROWS[instance.id]["near_misses"]
        assert len(near_misses) >= min(bases, 2)
        missed: set[int] = set()
        for text in near_misses:
            verdict = check(instance.data.specification, text, units)
            assert not verdict.passed, (instance.id, text)
            missed |= {n for n, finding in enumerate(verdict.findings) if not finding.passed}
        assert len(missed) >= min(bases, 2), instance.id


def test_score_and_feedback_agree() -> None:
    for instance in INSTANCES:
        for text in (instance.data.example or "", "", *ROWS[instance.id]["near_misses"]):
            scores = TASK.score(instance, text)
            said = TASK.feedback(instance, text, scores)
            assert list(scores) == ["constraints"]
            assert scores["constraints"].passed == said.endswith("satisfies all constraints.")


def test_the_prompt_is_one_turn() -> None:
    (message,) = TASK.messages(INSTANCES[0], ())
    assert message.role == "user"
    assert message.content == "Please generate a word with at least 6 characters."


def test_fingerprint_names_data_and_splitter() -> None:
    fingerprint: Any = TASK.fingerprint()
    assert fingerprint["dataset"] == "builtin"
    assert len(fingerprint["dataset_sha256"]) == 64
    assert "punkt" in fingerprint["splitter"]
