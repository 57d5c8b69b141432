"""`harness show`: what judges say of an answer."""

from __future__ import annotations

from pathlib import Path

from harness.plugins.mock.server import MockServer
from tests.cli.command import harness
from tests.cli.test_judges import judge, lines, run_file, runs, server

__all__ = ["runs", "server"]


def test_the_scores_and_replies_of_two_judges_are_shown(
    runs: Path, server: MockServer, tmp_path: Path
) -> None:
    second = judge(server, "judge-2") | {"as": "second"}
    ended = harness("run", run_file(tmp_path, server, judge(server), second))
    assert ended.returncode == 0, ended.stderr
    instance = lines(runs, "judgements.jsonl")[0]["instance"]
    shown = harness("show", "letters", "--instance", instance).stdout
    assert "second.strict: " in shown
    assert "judge reader, It is correct." in shown
    assert harness("show", "letters").returncode == 0
