"""Rows with several turns of the user: asked, killed, resumed, judged, scored again and shown."""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from harness.engine.models import WORKERS_PER_SLOT
from harness.plugins.mock.server import MockServer
from harness.plugins.mock.wire import MockRequest
from tests.cli.command import begun, harness, mistake
from tests.cli.test_run import attempts, timeless, wait_until

PLACES = [f"town {number}" for number in range(20)]


def row(place: str) -> dict[str, Any]:
    return {
        "id": place,
        "turns": [
            {"content": f"I live in {place}. Say OK.", "checks": ["exact_match"], "target": "OK"},
            "Remember it.",
            "Where do I live?",
        ],
        "checks": ["exact_match"],
        "target": place,
    }


def remembers(ask: MockRequest) -> str:
    """The place of the conversation's first turn, when it is asked for."""
    first = next(turn.text for turn in ask.turns if turn.role == "user")
    place = first.removeprefix("I live in ").partition(".")[0]
    return place if ask.prompt == "Where do I live?" else "OK"


class Counting:
    """Answers conversations, and counts how often each request was made."""

    def __init__(self) -> None:
        self.asked: Counter[tuple[str, int]] = Counter()
        self.lock = threading.Lock()

    def __call__(self, ask: MockRequest, index: int) -> str:
        with self.lock:
            self.asked[ask.digest, index] += 1
        return remembers(ask)


class Run:
    """A run of such rows in a folder, its models on a server."""

    def __init__(self, folder: Path, server: MockServer) -> None:
        self.folder, self.server = folder, server
        self.environment = os.environ | {
            "HARNESS_RUNS_DIR": str(folder / "runs"),
            "HARNESS_CACHE_DIR": str(folder / "cache"),
            "COLUMNS": "200",
        }

    def file(self, rows: list[dict[str, Any]] | None = None, **changes: Any) -> Path:
        rows = list(map(row, PLACES)) if rows is None else rows
        (self.folder / "rows.jsonl").write_text("".join(f"{json.dumps(one)}\n" for one in rows))
        content = {
            "task": {"name": "jsonl", "path": "rows.jsonl", **changes.pop("task", {})},
            "model": self.model("m"),
            **changes,
        }
        file = self.folder / "talk.yaml"
        file.write_text(json.dumps(content))  # JSON is YAML
        return file

    def model(self, name: str) -> dict[str, Any]:
        return {"backend": "openai", "name": name, "base_url": self.server.base_url}

    def harness(self, *arguments: str | Path) -> str:
        ended = harness(*arguments, env=self.environment)
        assert ended.returncode == 0, ended.stderr
        return ended.stdout

    def refused(self, *arguments: str | Path) -> str:
        return mistake(harness(*arguments, env=self.environment))

    def attempts(self) -> dict[tuple[str, int, int], dict[str, Any]]:
        return attempts(self.folder / "runs", "talk")

    def saved(self) -> int:
        """The number of replies in the cache."""
        with contextlib.closing(sqlite3.connect(self.folder / "cache" / "replies.sqlite")) as cache:
            ((number,),) = cache.execute("SELECT count(*) FROM replies").fetchall()
        return int(number)

    def metrics(self) -> dict[str, Any]:
        found: dict[str, Any] = msgspec.json.decode(
            (self.folder / "runs" / "talk" / "metrics.json").read_bytes()
        )
        return found


@pytest.fixture
def counting() -> Counting:
    return Counting()


@pytest.fixture
def run(tmp_path: Path, counting: Counting) -> Iterator[Run]:
    with MockServer(answers=counting) as server:
        yield Run(tmp_path, server)


def test_conversations_killed_in_the_middle_ask_nothing_twice(
    tmp_path: Path, run: Run, counting: Counting
) -> None:
    run.server.change(latency=0.05)
    file = run.file(samples=2, seed=0, limits={"concurrency": 4})
    lines = run.folder / "runs" / "talk" / "attempts.jsonl"
    lost = 0
    for wanted in (5, 21, 50):  # three lines per conversation
        process = begun("run", file, env=run.environment)
        wait_until(lambda n=wanted: lines.exists() and lines.read_bytes().count(b"\n") >= n)
        process.kill()
        process.communicate(timeout=60)
        wait_until(lambda: run.server.stats().in_flight == 0)
        before, lost = lost, counting.asked.total() - run.saved()
        # Some workers may be waiting for the disk while others have calls in flight.
        assert 0 <= lost - before <= 4 * WORKERS_PER_SLOT
    cut = [key for key in run.attempts() if (*key[:2], 3) not in run.attempts()]
    assert cut  # in the middle of these
    run.server.change(latency=0)
    run.harness("run", file)
    found = run.attempts()
    assert len(found) == 2 * 3 * len(PLACES)
    assert counting.asked.total() == len(found) + lost  # no saved reply was asked for again
    assert len(counting.asked) == len(found)
    assert run.metrics()["overall"]["pass_rate"] == 1
    asked = counting.asked.total()
    run.harness("run", file)
    assert counting.asked.total() == asked
    whole = Run(tmp_path / "whole", run.server)
    whole.folder.mkdir()
    whole.harness("run", whole.file(samples=2, seed=0))
    assert timeless(whole.attempts()) == timeless(found)


def test_each_turn_is_shown_and_nothing_as_rounds(run: Run) -> None:
    forgetful = {**row("nowhere"), "target": "somewhere else"}
    plain = {"id": "plain", "prompt": "Where do I live?", "checks": ["exact_match"], "target": "x"}
    out = run.harness("run", run.file([row("Bonn"), row("Rome"), forgetful, plain]))
    assert "in up to 3 turns" in out
    shown = run.metrics()
    assert shown["overall"]["pass_rate"] == 0.5
    assert {turn: one["pass_rate"] for turn, one in shown["turns"].items()} == {
        "1": 0.75,
        "2": None,
        "3": pytest.approx(2 / 3),
    }
    assert [one["n_answers"] for one in shown["turns"].values()] == [4, 3, 3]
    assert list(shown["rounds"]["each"]) == ["1"]
    assert shown["n_solved"] == 2
    assert "first answers" not in out
    assert "round" not in out


def test_a_first_turn_that_fails_fails_the_sample_and_is_shown_as_such(run: Run) -> None:
    strict = row("Bonn")
    strict["turns"][0]["target"] = "Yes"
    run.harness("run", run.file([strict, row("Rome")]))
    assert run.metrics()["overall"]["pass_rate"] == 0.5
    assert run.metrics()["turns"]["3"]["pass_rate"] == 1
    failed = [place for place, attempt in run.attempts().items() if attempt["passed"] is False]
    assert failed == [("Bonn", 0, 1)]


def test_a_judge_reads_the_conversation_up_to_the_turn_that_it_judges(
    tmp_path: Path,
) -> None:
    asked: list[str] = []

    def answer(ask: MockRequest, _: int) -> str:
        if not ask.model.startswith("judge"):
            return remembers(ask)
        asked.append(ask.prompt)
        return "no" if "polite" in ask.prompt else "yes"

    with MockServer(answers=answer) as server:
        run = Run(tmp_path, server)
        one = {**row("Bonn"), "criteria": ["It names a town."]}
        one["turns"][1] = {"content": "Remember it.", "criteria": ["It is polite."]}
        judge = {"name": "yes_no", "as": "kind", "model": run.model("judge")}
        run.harness("run", run.file([one], judges=[judge]))
        assert len(asked) == 2  # the first turn has no criteria
        second = next(prompt for prompt in asked if "polite" in prompt)
        third = next(prompt for prompt in asked if "names a town" in prompt)
        assert "user: I live in Bonn. Say OK.\n\nassistant: OK\n\nuser: Remember it." in second
        assert "user: Where do I live?" in third
        assert run.metrics()["overall"]["pass_rate"] == 0
        assert run.metrics()["turns"]["2"]["pass_rate"] == 0
        assert run.metrics()["turns"]["3"]["pass_rate"] == 1


def test_what_does_not_fit_conversations_is_refused_before_a_call(
    run: Run, counting: Counting
) -> None:
    said = run.refused("run", run.file(rounds={"max": 2}))
    assert "rounds.max asks for feedback: they cannot be combined" in said
    assert not (run.folder / "runs" / "talk").exists()
    assert counting.asked.total() == 0
