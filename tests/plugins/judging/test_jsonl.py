"""Later judges of rows that name their judges."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.plugins.mock.server import MockServer
from tests.cli.command import harness, mistake
from tests.cli.test_jsonl_judged import ROWS, Run, said


@pytest.fixture
def server() -> Iterator[MockServer]:
    with MockServer(answers=said) as running:
        yield running


@pytest.fixture
def run(tmp_path: Path, server: MockServer) -> Run:
    return Run(tmp_path, server)


def test_a_later_judge_needs_criteria(run: Run, server: MockServer) -> None:
    run.harness("run", run.file())
    requests = server.stats().requests
    second = run.folder / "second.yaml"
    second.write_text(json.dumps(run.judge("second")))
    message = mistake(harness("judge", "mine", "--judge", second, env=run.environment))
    assert "item 2: the judge 'second' has no criteria to decide on" in message
    assert server.stats().requests == requests


def test_a_validation_is_of_the_criteria_that_both_judges_decided_on(run: Run) -> None:
    rows = [{**row, "criteria": "It is brief."} for row in ROWS]
    run.harness("run", run.file(rows, judges=[run.judge("kind"), run.judge("brief")]))
    second = run.folder / "second.yaml"
    second.write_text(json.dumps(run.judge("second")))
    run.harness("judge", "mine", "--judge", second)
    written = run.harness(
        "judge", "validate", "mine", "--judge", "kind", "--against", "second", "--format", "json"
    )
    assert json.loads(written)["n"] == 4
