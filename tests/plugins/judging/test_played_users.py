"""A later judge of conversations with a played user."""

from __future__ import annotations

import json
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


def test_a_later_judge_reads_the_same_as_one_of_the_run(run: Run, talk: Talk) -> None:
    assistant = talk.assistant
    talk.assistant = lambda ask: "yes" if ask.model.startswith("judge") else assistant(ask)  # type: ignore[method-assign]
    town = {**row("Bonn"), "criteria": ["The goal was reached."]}
    judge = {"name": "yes_no", "model": run.model("judge")}
    run.harness("run", played(run, [town], judges=[judge]))
    later = run.folder / "judge.yaml"
    later.write_text(json.dumps({**judge, "as": "later", "model": run.model("judge-2")}))
    run.harness("judge", "talk", "--judge", later)
    (first,), (second,) = talk.calls("judge"), talk.calls("judge-2")
    assert second.prompt == first.prompt
