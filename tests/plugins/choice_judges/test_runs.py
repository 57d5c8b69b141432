"""Two runs' answers set against each other by a judge, on the loopback server."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.plugins.mock.server import MockServer
from harness.plugins.mock.wire import MockRequest
from tests.cli.command import harness, mistake
from tests.unsealed import unseal

INSTANCES = 12
ROWS = "".join(
    json.dumps({"id": f"row-{n}", "task": f"Say {n}.", "constraints": ["Be brief."]}) + "\n"
    for n in range(INSTANCES)
)


def answer(ask: MockRequest, _: int) -> str:
    """Two models, one better at two of three; a judge that sees it; one that takes the first."""
    asked = int(re.findall(r"Say (\d+)\.", ask.prompt)[0])
    if ask.model == "strong":
        return f"grade {asked % 3 + 1}"
    if ask.model == "weak":
        return "grade 1" if asked % 3 else "grade 2"
    first, second = map(int, re.findall(r"grade (\d)", ask.prompt))
    if ask.model == "first":
        return "I like it.\nVerdict: A"
    better = "tie" if first == second else "A" if first > second else "B"
    return f"I have looked.\nVerdict: {better}"


@pytest.fixture(scope="module")
def server() -> Iterator[MockServer]:
    with MockServer(answers=answer) as running:
        yield running


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, server: MockServer) -> Path:
    """Runs of both models, and a run of half the data's prompts in other words."""
    folder = tmp_path_factory.mktemp("pairwise")
    (folder / "rows.jsonl").write_text(ROWS)
    (folder / "others.jsonl").write_text(ROWS.replace("Be brief.", "Be long."))
    environment = {**os.environ, "HARNESS_RUNS_DIR": str(folder / "runs")}
    for name, rows in (("strong", "rows"), ("weak", "rows"), ("other", "others")):
        model = {"backend": "openai", "base_url": server.base_url}
        model["name"] = "weak" if name == "other" else name
        task = {
            "path": str(folder / f"{rows}.jsonl"),
            "prompt": "{{ task }} {{ constraints[0] }}",
            "checks": [{"regex_match": {"pattern": "grade"}}],
        }
        (folder / f"{name}.yaml").write_text(json.dumps({"task": task, "model": model}))
        ended = harness("run", folder / f"{name}.yaml", env=environment)
        assert ended.returncode == 0, ended.stderr
    return folder


@pytest.fixture(autouse=True)
def runs(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    monkeypatch.setenv("HARNESS_RUNS_DIR", str(folder / "runs"))
    monkeypatch.setenv("COLUMNS", "120")


def judge(folder: Path, server: MockServer, model: str, **options: Any) -> Path:
    path = folder / f"judge-{len(list(folder.iterdir()))}.yaml"
    section = {"name": "pairwise", "against": "weak", **options}
    section["model"] = {"backend": "openai", "name": model, "base_url": server.base_url}
    path.write_text(json.dumps(section))
    return path


def scores(folder: Path, run: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "runs" / run / "metrics.json").read_text())
    return found["scores"]


def test_a_judge_that_sees_prefers_the_better_one(folder: Path, server: MockServer) -> None:
    """Of three answers one is worse (1 against 2) and two are better (2 and 3 against 1)."""
    before = server.stats().requests
    ended = harness("judge", "strong", "--judge", judge(folder, server, "sees"))
    assert ended.returncode == 0, ended.stderr
    assert server.stats().requests == before + 2 * INSTANCES
    found = scores(folder, "strong")
    assert found["pairwise.preferred"]["mean"] == pytest.approx(2 / 3)
    assert found["pairwise.consistent"]["mean"] == 1


def test_a_judge_that_takes_the_first_prefers_nobody(folder: Path, server: MockServer) -> None:
    ended = harness("judge", "strong", "--judge", judge(folder, server, "first", **{"as": "blind"}))
    assert ended.returncode == 0, ended.stderr
    found = scores(folder, "strong")
    assert found["blind.preferred"]["mean"] == 0.5
    assert found["blind.consistent"]["mean"] == 0


def test_against_itself_nothing_is_asked(folder: Path, server: MockServer) -> None:
    before = server.stats().requests
    file = judge(folder, server, "sees", **{"as": "mirror"}, against="strong")
    assert harness("judge", "strong", "--judge", file).returncode == 0
    assert server.stats().requests == before
    assert scores(folder, "strong")["mirror.preferred"]["mean"] == 0.5


def test_what_cannot_be_compared_is_refused(folder: Path, server: MockServer) -> None:
    def refused(**options: Any) -> str:
        file = judge(folder, server, "sees", **{"as": "x", **options})
        return mistake(harness("judge", "strong", "--judge", file))

    assert "has a different dataset" in refused(against="other")
    assert "There is no run 'waek'" in refused(against="waek")
    stopped = folder / "runs" / "weak" / "manifest.json"
    whole = stopped.read_text()
    stopped.write_text(json.dumps({**json.loads(whole), "owed": 2}))
    assert "the run 'weak' is not finished" in refused()
    stopped.write_text(json.dumps({**json.loads(whole), "simulated": True}))
    assert "the answers of the run 'weak' come from a simulated model" in refused()
    stopped.write_text(whole)
    attempts = folder / "runs" / "weak" / "attempts.jsonl"
    lines = attempts.read_text()
    attempts.write_text("".join(lines.splitlines(keepends=True)[:-1]))
    lost = refused()
    attempts.write_text("")
    emptied = refused()
    attempts.write_text(lines)
    assert "against: weak: attempts.jsonl lacks at least 1 finished sample" in lost
    assert "the run 'weak' is not finished" in emptied


def test_failed_calls_of_the_other_run_are_to_be_made_first(
    folder: Path, server: MockServer
) -> None:
    file = folder / "broken.yaml"
    content = json.loads((folder / "weak.yaml").read_text())
    with MockServer(answers=answer, faults={"400": 1.0}) as broken:
        content["model"]["base_url"] = broken.base_url
        file.write_text(json.dumps(content))
        harness("run", file)
        against = judge(folder, server, "sees", **{"as": "fair"}, against="broken")
        before = server.stats().requests
        said = mistake(harness("judge", "strong", "--judge", against))
        assert f"against: {INSTANCES} calls of the run 'broken' have failed." in said
        assert server.stats().requests == before, "nothing is paid for"
        broken.change(faults={})
        assert harness("run", file).returncode == 0
    assert harness("judge", "strong", "--judge", against).returncode == 0


def test_a_run_of_fewer_instances_leaves_some_unjudged_and_that_is_said_first(
    folder: Path, server: MockServer
) -> None:
    assert harness("run", folder / "weak.yaml", "--limit", "5", "--name", "few").returncode == 0
    section = {"name": "pairwise", "against": "few", "as": "few"}
    section |= {"model": {"backend": "openai", "name": "sees", "base_url": server.base_url}}
    (folder / "section.yaml").write_text(json.dumps(section))
    content = json.loads((folder / "strong.yaml").read_text()) | {"judges": [section]}
    (folder / "in-file.yaml").write_text(json.dumps(content))
    told = f"judge few: {INSTANCES - 5} of {INSTANCES} instances have no answer of 'few'"
    for command in (
        ("judge", "strong", "--judge", folder / "section.yaml"),
        ("run", folder / "in-file.yaml"),
    ):
        ended = harness(*command)
        assert ended.returncode == 0, ended.stderr
        assert told in ended.stderr
    foreseen = harness("run", folder / "in-file.yaml", "--dry-run").stdout
    assert told.replace(":", "") in " ".join(foreseen.split())


def test_other_answers_of_the_same_run_are_told_apart(folder: Path, server: MockServer) -> None:
    file = judge(folder, server, "sees", **{"as": "again"})
    assert harness("judge", "strong", "--judge", file).returncode == 0
    unseal(folder / "runs" / "weak")
    attempts = folder / "runs" / "weak" / "attempts.jsonl"
    whole = attempts.read_bytes()
    attempts.write_bytes(whole.replace(b'"text": "grade 2"', b'"text": "grade 3"'))
    try:
        said = mistake(harness("judge", "strong", "--judge", file))
    finally:
        attempts.write_bytes(whole)
    assert "with different values of: against_sha256" in said


def test_later_judges_of_one_name_that_differ_are_told_where_runs_are_compared(
    folder: Path, server: MockServer
) -> None:
    for run, other in (("strong", "weak"), ("weak", "strong")):
        file = judge(folder, server, "sees", **{"as": "duel"}, against=other)
        assert harness("judge", run, "--judge", file).returncode == 0
    for verb in ("compare", "table"):
        ended = harness(verb, "strong", "weak", "--score", "duel.preferred")
        told = " ".join(ended.stdout.split())
        assert "judges.duel.against (weak, strong)" in told
        assert "were made or scored with a different judge_duel_against:" in told
