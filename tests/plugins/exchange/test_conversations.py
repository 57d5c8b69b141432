"""Exports of conversations."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.plugins.mock.server import MockServer
from tests.cli.test_conversations import Counting, Run, row


@pytest.fixture
def counting() -> Counting:
    return Counting()


@pytest.fixture
def run(tmp_path: Path, counting: Counting) -> Iterator[Run]:
    with MockServer(answers=counting) as server:
        yield Run(tmp_path, server)


def test_a_first_turn_that_fails_fails_the_sample(run: Run) -> None:
    strict = row("Bonn")
    strict["turns"][0]["target"] = "Yes"
    run.harness("run", run.file([strict, row("Rome")]))
    for options, n_rows in (((), 2), (("--attempts",), 6)):
        written = run.harness("export", "talk", *options, "--format", "csv", "-o", "-")
        rows = list(csv.DictReader(written.splitlines()))
        last = {one["instance"]: one["passed"] for one in rows}
        assert [last[name].title() for name in ("Bonn", "Rome")] == ["False", "True"]
        assert len(rows) == n_rows
