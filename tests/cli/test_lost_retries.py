"""Answers and judgements that were asked for again stay those that count when lines are lost."""

from __future__ import annotations

import itertools
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harness.plugins.mock.server import MockServer
from harness.plugins.mock.wire import MockRequest
from harness.store.index import read_attempts
from harness.store.lost_lines import find_loss
from harness.store.run_folder import RunFolder
from tests.cli.command import harness, is_complete
from tests.cli.test_run import metrics, runs

__all__ = ["runs"]

ROWS = 4
LONG = "no " * 100


def older_copy(path: Path) -> None:
    shutil.copy2(path.parent.parent / "old.jsonl", path)


def cut(path: Path) -> None:
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:-2]))


def lose_first_draws(path: Path) -> None:
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(line for line in lines if b'"redraw":' in line))


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    return os.environ | {"HARNESS_RUNS_DIR": str(tmp_path / "runs"), "COLUMNS": "200"}


def run_file(tmp_path: Path, server: MockServer, **changes: Any) -> Path:
    rows = tmp_path / "rows.jsonl"
    lines = (f'{{"id": "r{n}", "prompt": "{n}?", "target": "42"}}\n' for n in range(ROWS))
    rows.write_text("".join(lines))
    model = {"backend": "openai", "name": "model", "base_url": server.base_url}
    task = {"name": "jsonl", "path": str(rows), "checks": ["exact_match"]}
    path = tmp_path / "mine.yaml"
    path.write_text(
        json.dumps({"task": task, "model": model, "decoding": {"max_tokens": 20}, **changes})
    )
    return path


def figures(tmp_path: Path) -> dict[str, Any]:
    read: dict[str, Any] = json.loads((tmp_path / "runs/mine/metrics.json").read_bytes())
    return {key: read[key] for key in ("overall", "scores", "complete")}


def test_the_lines_of_a_killed_retry_are_restored(
    tmp_path: Path, environment: dict[str, str]
) -> None:
    """A power cut may lose all lines of a killed session: the file is as the one before left it."""
    answers = [LONG]
    with MockServer(answers=lambda *_: answers[-1]) as server:
        path, folder = run_file(tmp_path, server), tmp_path / "runs/mine"
        assert harness("run", path, env=environment).returncode == 0
        attempts = (folder / "attempts.jsonl").read_bytes()
        manifest = json.loads((folder / "manifest.json").read_bytes())
        answers.append("42")
        assert harness("run", path, "--retry", "truncated", env=environment).returncode == 0
        after, asked = figures(tmp_path), server.stats().requests
        assert after["overall"]["pass_rate"] == 1
        killed = json.loads((folder / "manifest.json").read_bytes())["sessions"][-1]
        killed |= {"ended": "killed", "ended_at": None}
        manifest |= {"sessions": [*manifest["sessions"], killed], "owed": ROWS}
        (folder / "manifest.json").write_text(json.dumps(manifest))
        (folder / "attempts.jsonl").write_bytes(attempts)
        ended = harness("run", path, env=environment)
        assert ended.returncode == 0, ended.stderr
        assert figures(tmp_path) == after
        assert server.stats().requests == asked, "a reply was paid for again"


@pytest.mark.parametrize("damage", [older_copy, cut, Path.unlink, lose_first_draws])
@pytest.mark.parametrize("retries", [1, 2])
def test_the_newest_answers_are_restored(
    tmp_path: Path, environment: dict[str, str], damage: Callable[[Path], None], retries: int
) -> None:
    draws = 0

    def answer(ask: MockRequest, _: int) -> str:
        return "42" if draws == retries else LONG

    with MockServer(answers=answer) as server:
        path, attempts = run_file(tmp_path, server), tmp_path / "runs/mine/attempts.jsonl"
        assert harness("run", path, env=environment).returncode == 0
        shutil.copy2(attempts, tmp_path / "runs/old.jsonl")
        for draws in range(1, retries + 1):  # noqa: B007 (the server's answer reads it)
            ended = harness("run", path, "--retry", "truncated", env=environment)
            assert ended.returncode == 0, ended.stderr
        before, asked = figures(tmp_path), server.stats().requests
        assert before["overall"]["pass_rate"] == 1
        n_lines = len(attempts.read_bytes().splitlines())
        damage(attempts)
        assert not is_complete("mine", environment)
        ended = harness("run", path, env=environment)
        assert ended.returncode == 0, ended.stderr
        assert figures(tmp_path) == before
        assert server.stats().requests == asked, "a reply was paid for again"
        assert is_complete("mine", environment)
        assert len(attempts.read_bytes().splitlines()) == n_lines


def test_only_the_rounds_that_were_lost_are_written_again(
    tmp_path: Path, environment: dict[str, str]
) -> None:
    def lines() -> dict[tuple[str, int], bytes]:
        written = attempts.read_bytes().splitlines(keepends=True)
        by_round = {}
        for line in written:
            fields = json.loads(line)
            by_round[fields["instance"], fields["round"]] = line
        assert len(by_round) == len(written), "a round was written twice"
        return by_round

    with MockServer(answers=lambda ask, _: f"no {len(ask.turns)}") as server:
        path = run_file(tmp_path, server, rounds={"max": 3})
        attempts = tmp_path / "runs/mine/attempts.jsonl"
        assert harness("run", path, env=environment).returncode == 0
        before, asked, complete = figures(tmp_path), server.stats().requests, lines()
        lost = {("r0", 1), ("r1", 1), ("r1", 2), ("r2", 3), ("r3", 2)}
        kept = {place: line for place, line in complete.items() if place not in lost}
        attempts.write_bytes(b"".join(kept.values()))
        ended = harness("run", path, env=environment)
        assert ended.returncode == 0, ended.stderr
        assert lines().keys() == complete.keys()
        assert {place: lines()[place] for place in kept} == kept
        assert figures(tmp_path) == before
        assert server.stats().requests == asked, "a reply was paid for again"
        assert is_complete("mine", environment)


def test_a_replaced_answer_is_restored_after_the_rounds_before_it(
    tmp_path: Path, environment: dict[str, str]
) -> None:
    last = LONG

    def answer(ask: MockRequest, _: int) -> str:
        return "no" if len(ask.turns) == 1 else last

    with MockServer(answers=answer) as server:
        path = run_file(tmp_path, server, rounds={"max": 2})
        attempts = tmp_path / "runs/mine/attempts.jsonl"
        assert harness("run", path, env=environment).returncode == 0
        last = "wrong"
        assert harness("run", path, "--retry", "truncated", env=environment).returncode == 0
        before, asked = figures(tmp_path), server.stats().requests
        lines = attempts.read_bytes().splitlines()
        lose_first_draws(attempts)  # of both rounds
        ended = harness("run", path, env=environment)
        assert ended.returncode == 0, ended.stderr
        assert figures(tmp_path) == before
        assert server.stats().requests == asked, "a reply was paid for again"
        assert len(attempts.read_bytes().splitlines()) == len(lines)


@pytest.mark.parametrize(("damage", "retries"), [(older_copy, 1), (cut, 1), (cut, 2)])
def test_without_the_cache_the_run_stays_incomplete_and_names_the_option(
    tmp_path: Path,
    environment: dict[str, str],
    damage: Callable[[Path], None],
    retries: int,
) -> None:
    draws = 0

    def answer(ask: MockRequest, _: int) -> str:
        return "42" if draws == retries else LONG

    environment |= {"HARNESS_CACHE_DIR": str(tmp_path / "cache")}
    with MockServer(answers=answer) as server:
        path, attempts = run_file(tmp_path, server), tmp_path / "runs/mine/attempts.jsonl"
        assert harness("run", path, env=environment).returncode == 0
        shutil.copy2(attempts, tmp_path / "runs/old.jsonl")
        retry = ("run", path, "--retry", "truncated")
        for draws in range(1, retries + 1):  # noqa: B007 (the server's answer reads it)
            assert harness(*retry, env=environment).returncode == 0
        damage(attempts)
        shutil.rmtree(tmp_path / "cache")
        ended = harness("run", path, env=environment)
        assert ended.returncode == 1
        assert "INCOMPLETE" in ended.stdout
        assert not is_complete("mine", environment)
        loss = find_loss(RunFolder(tmp_path / "runs", "mine"), read_attempts(attempts))
        assert loss is not None
        assert "--retry truncated" in loss.remedy
        assert harness(*retry, env=environment).returncode == 0
        assert is_complete("mine", environment)
        assert figures(tmp_path)["overall"]["pass_rate"] == 1


def test_answers_that_were_never_asked_for_again_are_not_missed(
    tmp_path: Path, environment: dict[str, str]
) -> None:
    """Half of the answers were retried in vain before the run grew."""
    with MockServer(answers=lambda ask, _: LONG) as server:
        path, attempts = run_file(tmp_path, server), tmp_path / "runs/mine/attempts.jsonl"
        half = ("--limit", str(ROWS // 2))
        assert harness("run", path, *half, env=environment).returncode == 0
        retry = ("run", path, *half, "--retry", "truncated")
        assert harness(*retry, env=environment).returncode == 0
        assert harness("run", path, env=environment).returncode == 0
        before, asked = figures(tmp_path), server.stats().requests
        attempts.unlink()
        assert harness("run", path, env=environment).returncode == 0
        assert figures(tmp_path) == before
        assert server.stats().requests == asked == ROWS + ROWS // 2
        assert is_complete("mine", environment)


def test_a_round_after_a_lost_answer_does_not_count(
    runs: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """If the first rounds and the cache are lost, the second ones follow no recorded answer."""
    answers = ["wrong"]
    rows = [{"id": f"r{number}", "prompt": f"Q {number}", "target": "right"} for number in range(4)]
    with MockServer(answers=lambda *_: answers[-1]) as server:
        model = {"backend": "openai", "name": "m", "base_url": server.base_url}
        file = {"task": {"rows": rows, "checks": ["contains"]}, "model": model}
        path = tmp_path / "mine.yaml"
        path.write_text(json.dumps(file | {"rounds": {"max": 2}}))
        assert harness("run", path).returncode == 0
        attempts = runs / "mine" / "attempts.jsonl"
        lines = attempts.read_bytes().splitlines(keepends=True)
        assert len(lines) == 8
        attempts.write_bytes(b"".join(line for line in lines if json.loads(line)["round"] == 2))
        assert "INCOMPLETE" in harness("show", "mine").stdout
        assert "lacks the first round of 4 samples" in caplog.messages[-1]
        # From the cache, they are restored, and the second rounds are theirs.
        assert harness("run", path).returncode == 0
        assert server.stats().requests == 8
        assert metrics(runs, "mine")["n_attempts"] == 8
        attempts.write_bytes(b"".join(line for line in lines if json.loads(line)["round"] == 2))
        shutil.rmtree(os.environ["HARNESS_CACHE_DIR"])
        answers.append("right")
        assert harness("run", path).returncode == 0
        assert server.stats().requests == 12
    found = metrics(runs, "mine")
    assert (found["n_attempts"], found["overall"]["pass_rate"]) == (4, 1.0)
    assert found["complete"]


def test_what_was_paid_for_a_superseded_judgement_stays_stated(runs: Path, tmp_path: Path) -> None:
    """It is not made again if its line is lost, but it is part of the run's cost."""
    prompts = [f"Q {number}" for number in range(6)]
    price = {"input": 1, "output": 10}
    numbers = itertools.count()

    def answer(request: MockRequest, index: int) -> str:
        return "yes" if request.model == "j" else f"{next(numbers)} one two three four five six"

    with MockServer(answers=answer) as server:
        model = {"backend": "openai", "base_url": server.base_url, "price": price}
        criteria = {"good": {"question": "Good?", "choices": {"yes": 1, "no": 0}}}
        judge = {"name": "choice", "model": model | {"name": "j"}, "criteria": criteria}
        task = {"rows": [{"prompt": prompt, "target": "one"} for prompt in prompts]}
        task |= {"checks": ["contains"], "on_truncated": "grade"}
        file = {"task": task, "model": model | {"name": "m"}, "judges": [judge]}
        path = tmp_path / "mine.yaml"
        path.write_text(json.dumps(file | {"decoding": {"max_tokens": 3}}))
        ended = harness("run", path)
        assert ended.returncode == 0, ended.stderr
        ended = harness("run", path, "--retry", "truncated")
        assert ended.returncode == 0, ended.stderr
        before = metrics(runs, "mine")
        requests = server.stats().requests
        judgements = runs / "mine" / "judgements.jsonl"
        n_lines = len(judgements.read_bytes().splitlines())
        judgements.unlink()
        assert harness("run", path).returncode == 0
        assert server.stats().requests == requests == before["n_calls"]
        assert len(judgements.read_bytes().splitlines()) < n_lines
    after = metrics(runs, "mine")
    for key in ("n_calls", "n_cached_calls", "usage"):
        assert after[key] == before[key]
        assert after["judges"]["choice"][key] == before["judges"]["choice"][key]
    assert after["paid_usd"] == pytest.approx(before["paid_usd"])
