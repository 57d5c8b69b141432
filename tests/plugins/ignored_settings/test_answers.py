"""Runs on servers that ignore decoding parameters say so, in the run's results."""

import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from harness.analysis.identical_samples import IDENTICAL_SAMPLES_PREFIX
from harness.plugins.mock import wire
from harness.plugins.mock.server import MockServer
from tests.cli.command import harness

LONG = "A pangolin sleeps by day and eats ants by night. " * 5
SCHEMA = {"type": "object", "required": ["name"], "additionalProperties": False}
SCHEMA |= {"properties": {"name": {"type": "string"}}}
UNSAMPLED = "All samples of an instance are the same text"
UNENFORCED = "are not valid against the JSON schema that was sent"


def cautions(
    folder: Path,
    answer: Callable[[wire.MockRequest, int], str] | None = None,
    faults: Sequence[str] = (),
    **settings: Any,
) -> list[str]:
    """Run three prompts, and return the sentences, which the run must show."""
    env = {**os.environ, "HARNESS_RUNS_DIR": "runs", "HARNESS_CACHE_DIR": "cache"}
    rows = [{"id": f"r{number}", "text": f"question {number}"} for number in range(3)]
    with MockServer(answers=answer, faults=dict.fromkeys(faults, 1.0)) as server:
        model = {"backend": "openai", "preset": "vllm", "name": "m", "base_url": server.base_url}
        tree = {
            "task": {
                "rows": rows,
                "prompt": "{{ text }}",
                "checks": [{"contains": {"target": "a"}}],
            }
        }
        (folder / "run.yaml").write_text(yaml.safe_dump({**tree, "model": model, **settings}))
        ended = harness("run", "run.yaml", env=env, cwd=folder)
    assert ended.returncode == 0, ended.stderr
    saved = json.loads((folder / "runs/run/metrics.json").read_text())
    sentences: list[str] = saved["ignored_settings"]
    shown = " ".join(ended.stdout.split())
    for sentence in sentences:
        assert sentence in shown
    return sentences


@pytest.mark.parametrize(
    ("decoding", "answer", "reported"),
    [
        ({"temperature": 0.7}, LONG, UNSAMPLED),
        ({}, LONG, UNSAMPLED),
        (
            {"temperature": 0},
            LONG,
            f"{IDENTICAL_SAMPLES_PREFIX}: all samples of an instance are the same "
            "text at temperature 0, in 3 of 3 instances.",
        ),
        # may be drawn twice by chance, which says nothing about the server
        (
            {"temperature": 0.7},
            "B",
            f"{IDENTICAL_SAMPLES_PREFIX}: all samples of an instance are the same "
            "text, in 3 of 3 instances.",
        ),
    ],
)
def test_samples_that_are_all_the_same(
    decoding: dict[str, Any], answer: str, reported: str, tmp_path: Path
) -> None:
    (sentence,) = cautions(tmp_path, lambda request, index: answer, decoding=decoding, samples=2)
    assert sentence.startswith(reported)


def test_samples_of_which_some_differ(tmp_path: Path) -> None:
    def answer(request: wire.MockRequest, index: int) -> str:
        return LONG + request.digest * ("question 2" in request.prompt)

    assert not cautions(tmp_path, answer, samples=2)


@pytest.mark.parametrize(
    ("answer", "broken"),
    [
        (json.dumps({"name": "Ada"}), 0),
        (json.dumps({"age": 36}), 3),
        ("```json\n" + json.dumps({"name": "Ada"}) + "\n```", 3),
        ("Her name is Ada.", 3),
    ],
)
def test_a_schema_that_is_not_enforced(answer: str, broken: int, tmp_path: Path) -> None:
    decoding = {"constraint": {"json_schema": SCHEMA}}
    sentences = cautions(tmp_path, lambda request, index: answer, decoding=decoding)
    assert [UNENFORCED in one for one in sentences] == [True] * bool(broken)
    assert all(one.startswith(f"{broken} of 3 ") for one in sentences)


def test_log_probabilities_that_are_not_returned(tmp_path: Path) -> None:
    (sentence,) = cautions(tmp_path, faults=["no_logprobs"], decoding={"logprobs": 2})
    assert sentence.startswith("3 of 3 complete answers came without log-probabilities")
