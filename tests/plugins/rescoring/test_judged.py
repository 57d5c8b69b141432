"""`harness score`: judgements stay as they are."""

from __future__ import annotations

from pathlib import Path

from harness.plugins.mock.server import MockServer
from tests.cli.command import harness
from tests.cli.test_judges import QUESTIONS, judge, lines, run_file, runs, server

__all__ = ["runs", "server"]


def test_no_answer_is_judged_again(runs: Path, server: MockServer, tmp_path: Path) -> None:
    ended = harness("run", run_file(tmp_path, server, judge(server)))
    assert ended.returncode == 0, ended.stderr
    asked = server.stats().requests
    scored = harness("score", "letters")
    assert scored.returncode == 0, scored.stdout
    assert len(lines(runs, "judgements.jsonl")) == QUESTIONS
    assert server.stats().requests == asked
