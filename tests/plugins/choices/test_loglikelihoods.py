"""A task of one's own that compares given answers, and has a metric of all of them together."""

import json
import os
from pathlib import Path
from subprocess import CompletedProcess

import pytest
import yaml

from harness.plugins.mock.server import MockServer
from tests.cli.command import harness

TASK = """
import json
from msgspec.structs import replace
from harness.plugin import Task
from harness.records import Instance, Message, Score


class Capitals(Task):
    on_truncated = "fail"
    needed_features = frozenset({"loglikelihoods"})
    needed_samples = 1

    def __init__(self, samples: int = 1) -> None:
        self.needed_samples = samples

    def instances(self):
        for number, country in enumerate(["France", "Italy", "Spain", "Chad"]):
            yield Instance(country, number)

    def fingerprint(self):
        return {}

    def messages(self, instance, shots):
        answers = ("Paris", "Rome", "Madrid", "Lima")
        asked = Message("user", f"The capital of {instance.id} is ")
        return (asked, *(Message("assistant", answer) for answer in answers))

    def adapted_request(self, instance, request):
        return replace(request, loglikelihoods=True)

    def score(self, instance, text):
        sums = [total for total, *_ in json.loads(text)]
        right = sums.index(max(sums)) == instance.data
        return {"right": Score(right, right)}

    def feedback(self, instance, text, scores):
        return ""

    def reference(self, instance):
        return None

    def aggregate_answers(self, answers):
        found = [one for one in answers if one.sample == 0]
        least = min(total for one in found for total, *_ in json.loads(one.text))
        return {"capitals": {"least": least, "answers": float(len(found))}}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "capitals.py").write_text(TASK)
    return tmp_path


def run(folder: Path, *options: str, **tree: object) -> CompletedProcess[str]:
    task = {"name": "./capitals.py"}
    (folder / "run.yaml").write_text(yaml.safe_dump({"task": task, **tree}))
    env = {**os.environ, "HARNESS_RUNS_DIR": "runs", "HARNESS_CACHE_DIR": "cache"}
    return harness("run", "run.yaml", *options, env=env, cwd=folder)


def model(server: MockServer) -> dict[str, str]:
    return {"backend": "openai_completions", "name": "m", "base_url": server.base_url}


def test_answers_are_scored_in_one_call_each_and_metrics_of_all_are_shown(folder: Path) -> None:
    with MockServer() as server:
        first = run(folder, model=model(server), samples=2)
        calls = server.stats().requests
        again = run(folder, "--fresh", model=model(server), samples=2)
        assert server.stats().requests == calls == 8
    assert first.returncode == again.returncode == 0, first.stderr + again.stderr
    lines = (folder / "runs/run/attempts.jsonl").read_text().splitlines()
    attempts = [json.loads(line) for line in lines]
    assert all(one["request"]["loglikelihoods"] for one in attempts)
    assert all(len(json.loads(one["text"])) == 4 for one in attempts)
    least = min(total for one in attempts for total, *_ in json.loads(one["text"]))
    metrics = json.loads((folder / "runs/run/metrics.json").read_text())
    assert metrics["aggregates"] == {"capitals": {"least": least, "answers": 4.0}}
    env = {**os.environ, "HARNESS_RUNS_DIR": str(folder / "runs")}
    shown = harness("show", "run", env=env).stdout
    assert f"{least:.6g}" in shown
    # They are not shown for answers that they do not cover.
    with (folder / "runs/run/attempts.jsonl").open("a") as file:
        file.write(lines[0].replace('"France"', '"Peru"') + "\n")
    assert f"{least:.6g}" not in harness("show", "run", env=env).stdout


@pytest.mark.parametrize(
    ("tree", "options", "said"),
    [
        ({}, ("-o", "model.backend=openai"), ["loglikelihoods", "vLLM", "echo"]),
        ({"model": {"backend": "simulated"}}, (), ["loglikelihoods", "vllm_server"]),
        ({}, ("-o", "task.samples=3"), ["over 3 samples", "samples: 3"]),
    ],
)
def test_what_cannot_give_them_is_refused_before_any_call(
    folder: Path, tree: dict[str, object], options: tuple[str, ...], said: list[str]
) -> None:
    with MockServer() as server:
        ended = run(folder, *options, **{"model": model(server), **tree})
        assert server.stats().requests == 0
    assert ended.returncode == 1
    words = " ".join(ended.stderr.split())
    assert all(one in words for one in said), words
