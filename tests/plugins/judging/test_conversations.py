"""A later judge of conversations."""

from __future__ import annotations

import json
from pathlib import Path

from harness.plugins.mock.server import MockServer
from harness.plugins.mock.wire import MockRequest
from tests.cli.test_conversations import Run, remembers, row


def test_a_later_judge_reads_the_same_as_one_of_the_run(tmp_path: Path) -> None:
    prompts: list[str] = []

    def answer(ask: MockRequest, _: int) -> str:
        if not ask.model.startswith("judge"):
            return remembers(ask)
        prompts.append(ask.prompt)
        return "yes"

    with MockServer(answers=answer) as server:
        run = Run(tmp_path, server)
        town = {**row("Bonn"), "criteria": ["It names a town."]}
        town["turns"][1] = {"content": "Remember it.", "criteria": ["It is polite."]}
        judge = {"name": "yes_no", "as": "kind", "model": run.model("judge")}
        run.harness("run", run.file([town], judges=[judge]))
        of_run = sorted(prompts)
        prompts.clear()
        later = tmp_path / "judge.yaml"
        later.write_text(json.dumps({**judge, "as": "later", "model": run.model("judge-2")}))
        run.harness("judge", "talk", "--judge", later)
        assert sorted(prompts) == of_run
