"""Reports of conversations."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.plugins.mock.server import MockServer
from tests.cli.test_conversations import Counting, Run, row
from tests.plugins.report.pages import data


@pytest.fixture
def counting() -> Counting:
    return Counting()


@pytest.fixture
def run(tmp_path: Path, counting: Counting) -> Iterator[Run]:
    with MockServer(answers=counting) as server:
        yield Run(tmp_path, server)


def test_a_report_shows_each_turn_and_nothing_as_rounds(run: Run) -> None:
    forgetful = {**row("nowhere"), "target": "somewhere else"}
    run.harness("run", run.file([row("Bonn"), row("Rome"), forgetful]))
    report = run.folder / "report.html"
    run.harness("report", "talk", "--output", report)
    page = data(report, "overview")
    titles = [part["title"] for one in page["sections"] for part in one["parts"] if "title" in part]
    assert "Turns of talk" in titles
    assert data(report, "index")["rounds"] == 1
    for said in (json.dumps(page["sections"]), str(page["answer"])):
        assert "first answers" not in said
        assert "round" not in said
