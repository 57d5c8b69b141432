"""Judgements that were asked for again stay those that count when lines are lost."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from harness.plugins.mock.server import MockServer
from harness.plugins.mock.wire import MockRequest
from harness.store.index import read_attempts
from harness.store.lost_lines import find_loss
from harness.store.run_folder import RunFolder
from tests.cli.command import harness
from tests.cli.test_lost_retries import ROWS, cut, figures, older_copy, run_file


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    return os.environ | {"HARNESS_RUNS_DIR": str(tmp_path / "runs"), "COLUMNS": "200"}


@dataclass
class Judged:
    """A run whose judges give no verdict until ``mute`` is false, and its files."""

    folder: Path
    environment: dict[str, str]
    server: MockServer
    path: Path
    later: Path
    mute: bool = True

    @property
    def attempts(self) -> Path:
        return self.folder / "attempts.jsonl"

    def run(self) -> CompletedProcess[str]:
        return harness("run", self.path, env=self.environment)

    def judge(self, judge: Path | str, *options: str) -> int:
        ended = harness("judge", "mine", "--judge", judge, *options, env=self.environment)
        return ended.returncode

    def is_incomplete(self) -> bool:
        return "INCOMPLETE" in harness("show", "mine", env=self.environment).stdout

    def outcomes(self) -> dict[tuple[str, str], str]:
        """Return the outcome of the last judgement of each answer by each judge."""
        lines = map(json.loads, (self.folder / "judgements.jsonl").read_text().splitlines())
        return {(line["judge"], line["instance"]): line["outcome"] for line in lines}


@pytest.fixture(params=["42"])
def judged(
    tmp_path: Path, environment: dict[str, str], request: pytest.FixtureRequest
) -> Iterator[Judged]:
    """A run with a judge in the run file ("choice") and a later one, both asked twice.

    A wrong answer is asked for again, in a second round.
    """

    def answer(ask: MockRequest, _: int) -> str:
        if ask.model == "model":
            return str(request.param)
        return "I cannot say." if judged.mute else "Verdict: good"

    environment |= {"HARNESS_CACHE_DIR": str(tmp_path / "cache")}
    with MockServer(answers=answer) as server:
        judge = {
            "name": "choice",
            "criteria": {"fine": {"question": "Is it?", "choices": {"good": 1, "bad": 0}}},
            "model": {"backend": "openai", "name": "judge", "base_url": server.base_url},
        }
        later = tmp_path / "later.yaml"
        model = {"backend": "openai", "name": "other judge", "base_url": server.base_url}
        later.write_text(json.dumps(judge | {"as": "later", "model": model}))
        path = run_file(tmp_path, server, judges=[judge], rounds={"max": 2})
        judged = Judged(tmp_path / "runs/mine", environment, server, path, later)
        assert judged.run().returncode == 0
        assert judged.judge(later) == 0
        shutil.copy2(judged.folder / "judgements.jsonl", tmp_path / "runs/old.jsonl")
        judged.mute = False
        for name in ("choice", "later"):
            assert judged.judge(name, "--retry", "unparseable") == 0
        assert set(judged.outcomes().values()) == {"ok"}
        yield judged


def lose(outcome: str) -> Callable[[Path], None]:
    def lose_lines(path: Path) -> None:
        lines = path.read_bytes().splitlines(keepends=True)
        path.write_bytes(b"".join(line for line in lines if outcome.encode() not in line))

    return lose_lines


def lose_all(path: Path) -> None:
    path.unlink()
    (path.parent / "attempts.jsonl").unlink()


lose_newest = lose('"outcome":"ok"')
OF_JUDGEMENTS = [(damage, first) for damage in (older_copy, cut, Path.unlink, lose_newest)
                 for first in ("run", "judge")]  # fmt: skip


@pytest.mark.parametrize(("damage", "first"), [*OF_JUDGEMENTS, (lose_all, "run")])
def test_the_newest_judgements_are_restored(
    tmp_path: Path, judged: Judged, damage: Callable[[Path], None], first: str
) -> None:
    before, asked = figures(tmp_path), judged.server.stats().requests
    damage(judged.folder / "judgements.jsonl")
    commands = [lambda: judged.run().returncode, lambda: judged.judge(judged.later)]
    if first == "judge":
        commands.reverse()
    for command in commands:
        assert judged.is_incomplete()
        command()
        if damage is cut and command is commands[0] and first == "judge":
            break  # it has repeated all that was lost
    assert figures(tmp_path) == before
    assert judged.server.stats().requests == asked, "a reply was paid for again"
    assert not judged.is_incomplete()
    assert judged.run().returncode == 0


def test_lost_judgements_that_were_replaced_are_reported_and_do_not_count(
    tmp_path: Path, judged: Judged
) -> None:
    before, asked = figures(tmp_path), judged.server.stats().requests
    lose("unparseable")(judged.folder / "judgements.jsonl")
    assert judged.is_incomplete()
    assert judged.run().returncode == 0
    assert figures(tmp_path) == before
    assert judged.server.stats().requests == asked, "a reply was paid for again"


@pytest.mark.parametrize("judged", ["wrong"], indirect=True)
def test_judgements_of_restored_rounds_are_kept(tmp_path: Path, judged: Judged) -> None:
    before, asked = figures(tmp_path), judged.server.stats().requests
    judgements = judged.folder / "judgements.jsonl"
    content = judgements.read_bytes()
    judged.attempts.unlink()
    assert judged.run().returncode == 0
    assert judgements.read_bytes() == content
    assert figures(tmp_path) == before
    assert judged.server.stats().requests == asked


@pytest.mark.parametrize("cached", [True, False])
def test_judgements_are_kept_if_the_attempts_are_lost(
    tmp_path: Path, judged: Judged, cached: bool
) -> None:
    before, asked = figures(tmp_path), judged.server.stats().requests
    judgements = judged.folder / "judgements.jsonl"
    content = judgements.read_bytes()
    judged.attempts.unlink()
    judged.mute = True
    if not cached:
        shutil.rmtree(tmp_path / "cache")
    assert judged.run().returncode == 0
    assert judgements.read_bytes() == content
    assert figures(tmp_path) == before
    assert judged.server.stats().requests == asked + (0 if cached else ROWS)
    assert not judged.is_incomplete()


def test_judgements_that_the_cache_lacks_keep_the_run_incomplete(
    tmp_path: Path, judged: Judged
) -> None:
    older_copy(judged.folder / "judgements.jsonl")
    shutil.rmtree(tmp_path / "cache")
    ended = judged.run()
    assert ended.returncode == 1
    loss = find_loss(RunFolder(tmp_path / "runs", "mine"), read_attempts(judged.attempts))
    assert loss is not None
    assert "harness judge mine --judge NAME --retry unparseable" in loss.remedy
    for name in ("choice", "later"):
        assert judged.is_incomplete()
        assert judged.judge(name, "--retry", "unparseable") == 0
    assert not judged.is_incomplete()
    assert set(judged.outcomes().values()) == {"ok"}


def test_an_answer_without_a_verdict_for_good_does_not_keep_the_run_incomplete(
    tmp_path: Path, judged: Judged
) -> None:
    (judged.folder / "judgements.jsonl").unlink()
    shutil.rmtree(tmp_path / "cache")
    judged.mute = True
    for name in ("choice", judged.later):
        judged.run()
        assert judged.judge(name) == 0
        assert judged.is_incomplete()
        assert judged.judge(name, "--retry", "unparseable") == 0
    assert set(judged.outcomes().values()) == {"unparseable"}
    assert not judged.is_incomplete()
    (judged.folder / "judgements.jsonl").unlink()
    assert judged.run().returncode == 1
    assert judged.judge(judged.later) == 0
    assert not judged.is_incomplete(), "both judges' replies are in the cache"


def test_no_round_is_paid_for_that_followed_a_replaced_answer(
    tmp_path: Path, environment: dict[str, str]
) -> None:
    """The first answer was asked for again before there was a second round."""
    draws = 0

    def answer(ask: MockRequest, _: int) -> str:
        return "42" if draws else "no"

    with MockServer(answers=answer) as server:
        path, attempts = run_file(tmp_path, server), tmp_path / "runs/mine/attempts.jsonl"
        assert harness("run", path, env=environment).returncode == 0
        run_file(tmp_path, server, rounds={"max": 2})
        draws = 1
        ended = harness("run", path, "--retry", "stop", env=environment)
        assert ended.returncode == 0, ended.stderr
        before, asked = figures(tmp_path), server.stats().requests
        assert before["overall"]["pass_rate"] == 1
        attempts.unlink()
        assert harness("run", path, env=environment).returncode == 0
        assert figures(tmp_path) == before
        assert server.stats().requests == asked, "a reply was paid for again"
        assert "INCOMPLETE" not in harness("show", "mine", env=environment).stdout
