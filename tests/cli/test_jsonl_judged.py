"""A benchmark whose rows name the judges that check them: model and judge on loopback."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from harness.plugins.mock.server import MockServer
from harness.plugins.mock.wire import MockRequest
from harness.records import Attempt
from harness.store.index import read_instance
from tests.cli.command import harness, mistake
from tests.installed import has_run_step, has_verb

ROWS: list[dict[str, Any]] = [
    {"id": "both", "checks": ["exact_match", {"judge": "kind", "criteria": "It is kind."}]},
    {"id": "rules", "checks": ["exact_match"]},
    {"id": "wrong", "checks": ["exact_match", {"judge": "kind", "criteria": ["It is kind."]}]},
    {"id": "judge", "checks": [{"judge": "kind", "criteria": ["It is kind.", {"field": "must"}]}],
     "must": "It rhymes."},
]  # fmt: skip


def said(ask: MockRequest, _: int) -> str:
    """Of the model, a right answer but to one question; of the judge, no to rhymes."""
    if not ask.model.startswith("judge"):
        return "5" if "wrong" in ask.prompt else "4"
    return "no" if "rhymes" in ask.prompt.partition("has to satisfy")[2] else "yes"


class Run:
    """A run of these rows in a folder, its model and judge on a server."""

    def __init__(self, folder: Path, server: MockServer) -> None:
        self.folder, self.server = folder, server
        self.environment = os.environ | {"HARNESS_RUNS_DIR": str(folder), "COLUMNS": "200"}

    def file(self, rows: list[dict[str, Any]] = ROWS, **changes: Any) -> Path:
        """The run file, with its rows beside it."""
        path = self.folder / "rows.jsonl"
        asked = ({"prompt": f"{row['id']}: 2 + 2?", "target": "4", **row} for row in rows)
        path.write_text("".join(f"{json.dumps(row)}\n" for row in asked))
        content = {
            "task": {"name": "jsonl", "path": str(path)},
            "model": self.model("model"),
            "decoding": {"max_tokens": 100},
            "judges": [self.judge("kind")],
            **changes,
        }
        file = self.folder / "mine.yaml"
        file.write_text(json.dumps(content))  # JSON is YAML
        return file

    def model(self, name: str) -> dict[str, Any]:
        return {"backend": "openai", "name": name, "base_url": self.server.base_url}

    def judge(self, name: str, **changes: Any) -> dict[str, Any]:
        return {"name": "yes_no", "as": name, "model": self.model(f"judge-{name}"), **changes}

    def harness(self, *arguments: str | Path) -> str:
        ended = harness(*arguments, env=self.environment)
        assert ended.returncode == 0, ended.stderr
        return ended.stdout

    def metrics(self) -> dict[str, Any]:
        found: dict[str, Any] = msgspec.json.decode(
            (self.folder / "mine" / "metrics.json").read_bytes()
        )
        return found

    def last(self, instance: str) -> Attempt:
        """With what judges said of it."""
        return read_instance(self.folder / "mine" / "attempts.jsonl", instance)[-1]


@pytest.fixture
def server() -> Iterator[MockServer]:
    with MockServer(answers=said) as running:
        yield running


@pytest.fixture
def run(tmp_path: Path, server: MockServer) -> Run:
    return Run(tmp_path, server)


def planned(run: Run, file: Path, *options: str) -> str:
    """The plan of a dry run, on one line."""
    return " ".join(run.harness("run", file, "--dry-run", *options).split())


def test_rows_are_judged_by_the_judges_that_they_name(run: Run, server: MockServer) -> None:
    run.harness("run", run.file())
    assert server.stats().requests == len(ROWS) + 1 + 1 + 2
    passed = {row["id"]: run.last(row["id"]).passed for row in ROWS}
    assert passed == {"both": True, "rules": True, "wrong": False, "judge": False}
    assert run.last("judge").scores.keys() == {"kind.strict", "kind.soft"}
    assert run.last("judge").scores["kind.strict"].reason == "Not satisfied: It rhymes."
    assert run.last("rules").scores.keys() == {"exact_match"}
    found = run.metrics()
    assert (found["overall"]["pass_rate"], found["overall"]["n"]) == (0.5, 4)
    assert {name: one["n"] for name, one in found["scores"].items()} == {
        "exact_match": 3, "kind.strict": 3, "kind.soft": 3,
    }  # fmt: skip

    asked = server.stats().requests
    run.harness("run", run.file())
    assert server.stats().requests == asked, "nothing is owed"
    if has_verb("score"):
        assert "changed       0" in run.harness("score", "mine")
    if has_verb("show"):
        assert "judge kind:" not in run.harness("show", "mine", "--instance", "rules")


def test_a_judge_that_no_check_names_judges_every_row(run: Run, server: MockServer) -> None:
    rows = [{**row, "criteria": "It is brief."} for row in ROWS]
    file = run.file(rows, judges=[run.judge("kind"), run.judge("brief")])
    run.harness("run", file)
    assert server.stats().requests == len(rows) + 4 + 8
    criteria = [
        [
            one["constraint"]
            for one in run.last(row["id"]).scores["brief.strict"].details["constraints"]
        ]
        for row in ROWS
    ]
    kind, rhymes, brief = "It is kind.", "It rhymes.", "It is brief."
    assert criteria == [[kind, brief], [brief], [kind, brief], [kind, rhymes, brief]]
    assert run.metrics()["scores"]["brief.strict"]["n"] == len(ROWS)


def test_judgements_that_failed_are_owed_by_the_rows_that_name_the_judge(tmp_path: Path) -> None:
    with MockServer(answers=said, faults={"400": 1.0}) as broken, MockServer(answers=said) as well:
        run = Run(tmp_path, well)
        failing = run.judge("kind") | {
            "model": run.model("judge-kind") | {"base_url": broken.base_url}
        }
        file = run.file(judges=[failing])
        assert "3 judgements failed" in harness("run", file, env=run.environment).stderr
        assert [run.last(row["id"]).passed for row in ROWS] == [None, True, None, None]
        assert run.metrics()["overall"]["not_judged"] == 3
        if has_run_step("dry_run"):
            assert "judge kind judge-kind: 4 calls" in planned(run, file)
        broken.change(faults={})
        asked = broken.stats().requests
        run.harness("run", file)
        assert broken.stats().requests == asked + 4
        assert well.stats().requests == len(ROWS)
        assert [run.last(row["id"]).passed for row in ROWS] == [True, True, False, False]


def test_feedback_of_a_row_without_rules_is_the_judges_alone(run: Run, server: MockServer) -> None:
    run.harness("run", run.file(ROWS[-1:], rounds={"max": 2}))
    first, _ = read_instance(run.folder / "mine" / "attempts.jsonl", "judge")
    assert first.feedback == "Not satisfied: It rhymes."


def test_the_wording_of_feedback_covers_the_judges_reasons(run: Run, server: MockServer) -> None:
    rounds = {"max": 2, "feedback": "Please answer again."}
    run.harness("run", run.file(ROWS[-1:], rounds=rounds))
    first, _ = read_instance(run.folder / "mine" / "attempts.jsonl", "judge")
    assert first.feedback == "Please answer again."


def test_a_check_by_a_judge_that_there_is_not_is_told_before_any_call(
    run: Run, server: MockServer
) -> None:
    told = mistake(harness("run", run.file(judges=[run.judge("kid")]), env=run.environment))
    assert (
        "rows.jsonl, item 1: a check names the judge 'kind', which is not in the run file" in told
    )
    assert "Did you mean 'kid'?" in told
    told = mistake(harness("run", run.file(judges=[]), env=run.environment))
    assert "Add it to judges:" in told
    assert server.stats().requests == 0
