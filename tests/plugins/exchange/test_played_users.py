"""Exports of conversations with a played user."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.plugins.mock.server import MockServer
from tests.cli.test_conversations import Run
from tests.plugins.played_users.test_user import Talk, played, row


@pytest.fixture
def talk() -> Talk:
    return Talk()


@pytest.fixture
def run(tmp_path: Path, talk: Talk) -> Iterator[Run]:
    with MockServer(answers=talk) as server:
        yield Run(tmp_path, server)


def test_exports_have_both_sides(run: Run, talk: Talk) -> None:
    run.harness("run", played(run, [row("Bonn")]))
    written = run.harness("export", "talk", "--attempts", "--format", "csv", "-o", "-")
    rows = list(csv.DictReader(written.splitlines()))
    assert [one["feedback"] for one in rows] == [
        "Turn 2, where do I live?",
        "Turn 3, where do I live?",
        "",
    ]
    assert [(one["round"], one["turns"]) for one in rows] == [("1", "2"), ("2", "3"), ("3", "3")]
    assert rows[-1]["passed"] == "true"
