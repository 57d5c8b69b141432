"""Reports of conversations with a played user."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.plugins.mock.server import MockServer
from tests.cli.test_conversations import Run
from tests.plugins.played_users.test_user import Talk, played, row
from tests.plugins.report.pages import data


@pytest.fixture
def talk() -> Talk:
    return Talk()


@pytest.fixture
def run(tmp_path: Path, talk: Talk) -> Iterator[Run]:
    with MockServer(answers=talk) as server:
        yield Run(tmp_path, server)


def test_what_a_hostile_user_says_is_text(run: Run, talk: Talk) -> None:
    speaks = talk.user
    nasty = "</script><b>\x1b[31m{{ 7*7 }}"
    talk.user = lambda ask: f"{nasty} {speaks(ask)}"  # type: ignore[method-assign]
    run.harness("run", played(run, [row("Bonn")]))
    report = run.folder / "report.html"
    run.harness("report", "talk", "--output", report)
    page = report.read_text()
    assert nasty not in page
    assert "</script><b>" not in page
    assert data(report, "overview")["runs"]
