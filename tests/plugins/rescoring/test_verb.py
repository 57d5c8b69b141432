"""`harness score`: the recorded replies of a run, scored anew."""

import json
import os
import re
import resource
import shutil
import signal
import subprocess
from pathlib import Path
from typing import Any

import msgspec
import pytest

from harness.plugins.mock.server import MockServer
from tests.cli.command import harness, mistake
from tests.installed import third_party
from tests.rows import QUICKSTART
from tests.unsealed import unseal

TASK = """
import json
from pathlib import Path

from harness.datasets.folder import sha256
from harness.plugin import Task
from harness.records import Instance, Message, Score
from tests.unsealed import unseal


class plugin(Task):
    on_truncated = "fail"

    def __init__(self, dataset: str):
        self.path = Path(dataset)

    def instances(self):
        for name, number in json.loads(self.path.read_text()).items():
            yield Instance(name, number, {"parity": "odd" if number % 2 else "even"})

    def fingerprint(self):
        return {"dataset_sha256": sha256(self.path)}

    def messages(self, instance, shots):
        return (Message("user", f"Which number is {instance.id}?"),)

    def score(self, instance, text):
        right = text == str(instance.data)
        return {"exact": Score(right, right, f"{text} is right" if right else f"{text} is wrong")}

    def feedback(self, instance, text, scores):
        return "No."

    def reference(self, instance):
        return str(instance.data)
"""
"""A task of another package, which starts faster than any that splits sentences."""


NUMBERS = {f"n{number}": number for number in range(200)}


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a run of that task, of which every answer is right."""
    folder = tmp_path_factory.mktemp("finished")
    third_party(folder / "site", TASK, "tasks", "numbers")
    (folder / "own.json").write_text(json.dumps(NUMBERS))
    (folder / "own.yaml").write_text(
        "task: {name: numbers, dataset: own.json}\nmodel: {backend: simulated, accuracy: 1}\n"
        "limits: {concurrency: 1}\n"
    )
    environment = {"PYTHONPATH": str(folder / "site"), "HARNESS_RUNS_DIR": "runs"}
    ended = harness("run", "own.yaml", cwd=folder, env=os.environ | environment)
    assert ended.returncode == 0, ended.stderr
    return folder


@pytest.fixture
def here(finished: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The working directory of a test, with that run in runs/own."""
    monkeypatch.setenv("PYTHONPATH", str(finished / "site"))
    monkeypatch.setenv("HARNESS_RUNS_DIR", "runs")
    shutil.copytree(finished, tmp_path, dirs_exist_ok=True)
    return tmp_path


def score(here: Path, *arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
    return harness("score", "own", *arguments, cwd=here, **options)


def changed_data(here: Path, **numbers: int) -> None:
    (here / "own.json").write_text(json.dumps(numbers))


def lines(path: Path) -> list[dict[str, Any]]:
    return [msgspec.json.decode(line) for line in path.read_bytes().splitlines()]


def test_a_quickstart_has_not_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HARNESS_RUNS_DIR", str(tmp_path))
    harness("run", QUICKSTART, "--limit", "26")
    folder = tmp_path / "quickstart"
    before = (folder / "attempts.jsonl").read_bytes()
    ended = harness("score", folder)
    assert ended.returncode == 0, ended.stderr
    assert re.search(r"changed +0 *\n", ended.stdout)
    assert "source" not in ended.stdout, "no table of groups where nothing has changed"
    assert (folder / "attempts.jsonl").read_bytes() == before
    head, *scored = lines(folder / "scores.jsonl")
    recorded = {
        (a["instance"], a["sample"], a["round"]): a for a in lines(folder / "attempts.jsonl")
    }
    assert head["header"]["attempts"] == len(scored) == len(recorded)
    assert head["header"]["attempts_bytes"] == len(before)
    assert head["header"]["packages"]["harness"]
    assert head["header"]["fingerprint"] == head["header"]["fingerprint_before"]
    for one in scored:
        attempt = recorded[one["instance"], one["sample"], one["round"]]
        assert {key: attempt[key] for key in ("v", "outcome", "passed", "scores")} == {
            key: one[key] for key in ("v", "outcome", "passed", "scores")
        }


def test_no_model_is_asked(here: Path) -> None:
    changed_data(here, one=1, two=2)
    with MockServer(api_key="sk-1") as server:
        (here / "asked.yaml").write_text(
            "task: {name: numbers, dataset: own.json}\n"
            f"model: {{backend: openai, name: m, base_url: '{server.base_url}',"
            " api_key_env: MY_KEY}"
        )
        ended = harness("run", "asked.yaml", cwd=here, env=os.environ | {"MY_KEY": "sk-1"})
        assert ended.returncode == 0, ended.stderr
        asked = server.stats().requests
        ended = harness("score", "asked", cwd=here)  # without the key
        assert ended.returncode == 0, ended.stderr
        assert server.stats().requests == asked == 2


def test_changed_verdicts_are_counted_shown_and_told_by_the_exit_code(here: Path) -> None:
    unseal(here / "runs" / "own")
    file = here / "runs" / "own" / "attempts.jsonl"
    attempts = lines(file)
    for attempt in attempts[:15]:  # as if by a worse checker
        attempt["passed"] = False
        attempt["scores"]["exact"] |= {"passed": False, "value": False, "reason": "a slip"}
    attempts[20] |= {"outcome": "error", "passed": None, "scores": {}}
    file.write_bytes(b"".join(msgspec.json.encode(attempt) + b"\n" for attempt in attempts))
    before = file.read_bytes()
    ended = score(here, env=os.environ | {"COLUMNS": "60"})
    assert ended.returncode == 3, ended.stderr
    assert file.read_bytes() == before
    assert re.search(r"same verdict +184 *\n", ended.stdout)
    assert re.search(r"changed +15 *\n +false → true +15 *\n", ended.stdout)
    assert re.search(r"passed +184 of 199, now 199 of 199", ended.stdout)
    assert "1 failed call: nothing to score" in ended.stdout
    assert re.search(r"parity +n +false → true", ended.stdout)
    assert "n0  sample 0  round 1  false → true" in ended.stdout
    assert ended.stdout.count("was: exact: a slip") == 10
    assert "… and 5 more; --all shows them." in ended.stdout
    assert all(len(line) <= 60 for line in ended.stdout.splitlines())
    assert score(here, "--all").stdout.count("was: exact: a slip") == 15


def test_a_changed_data_set_is_said_and_what_it_lost_has_no_verdict(here: Path) -> None:
    changed_data(here, **NUMBERS | {"n2": 22, "n4": 44})
    ended = score(here)
    assert ended.returncode == 3, ended.stderr
    assert "Changed since the run: the data" in ended.stderr
    assert re.search(r"n2  sample 0  round 1  true → false\s+exact: 2 is wrong", ended.stdout)
    changed_data(here, n1=1)
    ended = score(here)
    assert re.search(r"n2  sample 0  round 1  true → null\s+The instance is no", ended.stdout)
    assert "199 attempts on instances no longer in the data set" in ended.stdout
    head, *scored = lines(here / "runs" / "own" / "scores.jsonl")
    assert head["header"]["fingerprint"] != head["header"]["fingerprint_before"]
    assert {one["instance"]: one["passed"] for one in scored} == dict.fromkeys(NUMBERS) | {
        "n1": True
    }


def test_what_cannot_be_scored_or_written_leaves_the_old_scores(here: Path) -> None:
    def small_files() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, resource.RLIM_INFINITY))

    assert score(here).returncode == 0
    scores = here / "runs" / "own" / "scores.jsonl"
    before = scores.read_bytes()
    assert len(before) > 20_000

    said = mistake(score(here, preexec_fn=small_files))
    assert "scores.jsonl" in said
    assert "Free some space" in said
    changed_data(here, other=1)
    assert "none of the run's instances, such as 'n" in mistake(score(here))
    assert scores.read_bytes() == before
    assert not list(scores.parent.glob(".scores*"))


def test_hostile_names_are_shown_and_not_obeyed(here: Path) -> None:
    hostile = "[bold]\x1b[2J\u202e" + "x" * 300
    unseal(here / "runs" / "own")
    file = here / "runs" / "own" / "attempts.jsonl"
    attempts = lines(file)
    attempts[0]["instance"] = attempts[0]["groups"]["parity"] = hostile
    file.write_bytes(b"".join(msgspec.json.encode(attempt) + b"\n" for attempt in attempts))
    changed_data(here, **NUMBERS | {hostile: -1})
    for width in ("60", "80"):
        ended = score(here, env=os.environ | {"COLUMNS": width})
        assert ended.returncode == 3, ended.stderr
        assert ended.stdout.count("[bold]\\x1b[2J\\u202e") == 2
        assert not set("\x1b\u202e") & set(ended.stdout + ended.stderr)
        assert all(len(line) <= int(width) for line in ended.stdout.splitlines())


def test_runs_that_cannot_be_scored(here: Path) -> None:
    assert "There is no run 'owm'" in mistake(harness("score", "owm", cwd=here))
    (here / "runs" / "own" / "attempts.jsonl").unlink()
    assert "no attempts to score" in mistake(score(here))


def test_scores_that_are_missing_are_reported(tmp_path: Path) -> None:
    answers = {"bo": "བོད་ཡིག", "hi": "यह है। वह है।", "en": "One. Two."}
    lines = (json.dumps({"id": name, "text": text}) for name, text in answers.items())
    (tmp_path / "answers.jsonl").write_text("\n".join(lines))
    (tmp_path / "scripts.yaml").write_text("""
task:
  rows: [{id: bo, prompt: a}, {id: hi, prompt: b}, {id: en, prompt: c}]
  checks:
    - word_count: {at_most: 9}
model:
  {backend: replay, path: answers.jsonl, match: instance, columns: {instance: id, text: text}}
decoding: {max_tokens: 100}
""")
    environment = os.environ | {"HARNESS_RUNS_DIR": "runs"}
    for command in (("run", "scripts.yaml"), ("score", "scripts")):
        ended = harness(*command, cwd=tmp_path, env=environment)
        assert ended.returncode == 0, ended.stderr
        told = " ".join((ended.stdout + ended.stderr).split())
        assert "word_count: on 1 answer, the score is missing: There are no rules" in told
