"""`harness judge`: judges of a run that has ended."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.plugins.mock.server import MockServer
from tests.backends.answering import answering
from tests.cli.command import harness, mistake
from tests.cli.test_judges import QUESTIONS, answer, judge, keys, lines, metrics, run_file


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("HARNESS_RUNS_DIR", str(tmp_path / "runs"))
    return tmp_path / "runs"


@pytest.fixture
def server() -> Iterator[MockServer]:
    with MockServer(answers=answer) as running:
        yield running


def test_a_finished_run_is_judged_by_another_judge_once(
    runs: Path, server: MockServer, tmp_path: Path
) -> None:
    assert harness("run", run_file(tmp_path, server)).returncode == 0
    before = (runs / "letters" / "attempts.jsonl").read_bytes()
    rate = metrics(runs)["overall"]
    asked = server.stats().requests
    file = tmp_path / "judge.yaml"
    file.write_text(json.dumps(judge(server) | {"as": "later"}))
    ended = harness("judge", "letters", "--judge", file)
    assert ended.returncode == 0, ended.stderr
    assert f"later: {QUESTIONS} answers judged" in ended.stderr
    assert metrics(runs)["scores"]["later.strict"]["n"] == QUESTIONS
    assert server.stats().requests == asked + QUESTIONS
    again = harness("judge", "letters", "--judge", file)
    assert again.returncode == 0, again.stderr
    assert harness("judge", "letters", "--judge", "later").returncode == 0, "by its name, too"
    assert server.stats().requests == asked + QUESTIONS, "no request"
    assert len(lines(runs, "judgements.jsonl")) == QUESTIONS
    assert (runs / "letters" / "attempts.jsonl").read_bytes() == before
    assert metrics(runs)["overall"] == rate
    assert harness("run", run_file(tmp_path, server)).returncode == 0, "the run is the same"
    assert metrics(runs)["scores"]["later.strict"]["n"] == QUESTIONS

    file.write_text(json.dumps(judge(server, "judge-9", max_tokens=9) | {"as": "later"}))
    said = mistake(harness("judge", "letters", "--judge", file))
    assert "max_tokens, model.name" in said
    assert "as: NAME" in said

    register = runs / "letters" / "judges.json"
    known = json.loads(register.read_text())
    known["judges"]["later"]["section"]["model"]["price"] = {"in": "sk-no-number"}
    register.write_text(json.dumps(known))
    manifest = runs / "letters" / "manifest.json"
    recorded = json.loads(manifest.read_text())
    del recorded["files"]  # as an earlier version wrote it
    manifest.write_text(json.dumps(recorded))
    for named in (file, "later"):
        said = mistake(harness("judge", "letters", "--judge", named))
        assert "judges.json: " in said
        assert "sk-no-number" not in said


def test_the_changed_settings_of_a_later_judge_are_not_adopted(
    runs: Path, server: MockServer, tmp_path: Path
) -> None:
    path, file = run_file(tmp_path, server), tmp_path / "judge.yaml"
    assert harness("run", path).returncode == 0
    file.write_text(json.dumps(judge(server) | {"as": "later"}))
    assert harness("judge", "letters", "--judge", file).returncode == 0
    before, asked = metrics(runs), server.stats().requests
    register = runs / "letters" / "judges.json"
    known = json.loads(register.read_text())
    known["judges"]["later"]["decides"] = True
    register.write_text(json.dumps(known))
    for command in (("run", path), ("judge", "letters", "--judge", file), ("show", "letters")):
        said = mistake(harness(*command))
        assert "'later'" in said
        assert "Restore the file. Or delete it and judgements.jsonl" in said

    register.unlink()
    (runs / "letters" / "judgements.jsonl").unlink()
    assert harness("run", path).returncode == 0
    assert harness("judge", "letters", "--judge", file).returncode == 0
    assert server.stats().requests == asked, "no request"
    now = metrics(runs)
    assert (now["overall"], now["scores"]) == (before["overall"], before["scores"])


def test_more_samples_are_judged_by_the_later_judge_when_it_is_asked_again(
    runs: Path, server: MockServer, tmp_path: Path
) -> None:
    assert harness("run", run_file(tmp_path, server)).returncode == 0
    file = tmp_path / "judge.yaml"
    file.write_text(json.dumps(judge(server)))
    assert harness("judge", "letters", "--judge", file).returncode == 0
    assert harness("run", run_file(tmp_path, server, samples=2)).returncode == 0
    assert len(lines(runs, "judgements.jsonl")) == QUESTIONS
    assert harness("judge", "letters", "--judge", file).returncode == 0
    assert len(keys(lines(runs, "judgements.jsonl"))) == 2 * QUESTIONS


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("name: yes_no", "model is missing"),
        ("[1]", "is not a judge"),
        ("name: score\nmodel: {backend: opnai}", "Did you mean 'openai'?"),
        ("name: score\nmodel: {backend: simulated}", "is simulated, and the run"),
        ("name: score\nmodel: {backend: openai, name: m}\nshots: 1", "no option 'shots'"),
    ],
)
def test_a_judge_that_cannot_be_is_refused(
    content: str, said: str, runs: Path, server: MockServer, tmp_path: Path
) -> None:
    assert harness("run", run_file(tmp_path, server), "--limit", "1").returncode == 0
    file = tmp_path / "judge.yaml"
    file.write_text(content)
    assert said in mistake(harness("judge", "letters", "--judge", file))
    assert not (runs / "letters" / "judges.json").exists()
    assert "has no judge 'other'" in mistake(harness("judge", "letters", "--judge", "other"))


def test_a_later_judge_keeps_to_a_budget_and_goes_on(
    runs: Path, server: MockServer, tmp_path: Path
) -> None:
    assert harness("run", run_file(tmp_path, server)).returncode == 0
    section = judge(server)
    section["model"]["price"] = {"input": 0, "output": 1000}
    file = tmp_path / "judge.yaml"
    file.write_text(json.dumps(section))
    ended = harness("judge", "letters", "--judge", file, "--budget", "0.21")
    assert ended.returncode == 3, ended.stderr
    assert "Raise --budget." in ended.stderr
    judged = len(lines(runs, "judgements.jsonl"))
    assert 0 < judged < QUESTIONS
    assert harness("judge", "letters", "--judge", file, "--budget", "9").returncode == 0
    assert len(keys(lines(runs, "judgements.jsonl"))) == QUESTIONS
    assert all(body.requests == 1 for body in server.bodies().values())


def test_later_judges_of_variants_share_the_budget_of_the_file(
    runs: Path, server: MockServer, tmp_path: Path
) -> None:
    model = {"backend": "openai", "name": "model", "base_url": server.base_url}
    model["price"] = {"input": 0, "output": 0}
    variants = {"one": {}, "two": {"seed": 2}}
    run = run_file(tmp_path, server, model=model, variants=variants, budget={"usd": 0.21})
    assert harness("run", run).returncode == 0
    section = judge(server)
    section["model"]["price"] = {"input": 0, "output": 1000}
    file = tmp_path / "judge.yaml"
    file.write_text(json.dumps(section))
    assert harness("judge", "letters.one", "--judge", file).returncode == 3
    assert lines(runs, "judgements.jsonl", "letters.one")
    requests = server.stats().requests
    assert harness("judge", "letters.two", "--judge", file).returncode == 3
    assert server.stats().requests == requests
    assert harness("judge", "letters.two", "--judge", file, "--budget", "9").returncode == 0


def test_a_judge_whose_address_has_a_key_in_its_path_is_not_restored_from_the_run(
    runs: Path, tmp_path: Path
) -> None:
    choice = {"message": {"content": "The coherency score is 5."}, "finish_reason": "stop"}
    with answering(json.dumps({"choices": [choice]})) as (url, _):
        url = f"{url}/sk-live-0123456789abcdef/openai"
        model = {"backend": "openai", "name": "m", "base_url": url}
        judges = [{"name": "score", "samples": 1, "model": model}]
        task = {"rows": [{"prompt": "Which?", "target": "5"}], "checks": ["contains"]}
        file = tmp_path / "run.yaml"
        file.write_text(json.dumps({"task": task, "model": model, "judges": judges}))
        assert harness("run", file).returncode == 0
        (runs / "run/judgements.jsonl").unlink()
        recorded = harness("judge", "run", "--judge", "score")
    assert "was recorded without the key in its path" in mistake(recorded)
