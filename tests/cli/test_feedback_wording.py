"""`rounds.feedback`: the user's own wording of the feedback, for any task."""

import os
from collections.abc import Mapping
from pathlib import Path

import pytest
import yaml

from harness.plugins.mock.server import MockServer
from harness.plugins.mock.wire import MockRequest
from tests.cli.command import harness, mistake, words

AGAIN = "That is not right yet. Please answer again."
WRONG = "nothing that fits"
TASKS = {
    "ifeval": {"name": "ifeval", "dataset": "builtin"},
    "collie": {"name": "collie"},
    "rows": {"rows": [{"id": "a", "prompt": "Say a."}], "checks": [{"contains": {"target": "zz"}}]},
}


def setting(folder: Path, task: Mapping[str, object], url: str, **rounds: object) -> dict[str, str]:
    model = {"backend": "openai", "preset": "vllm", "name": "m", "base_url": url}
    tree = {"task": dict(task), "model": model, "rounds": {"max": 2, **rounds}, "limit": 3}
    (folder / "run.yaml").write_text(yaml.safe_dump(tree))
    return {**os.environ, "HARNESS_RUNS_DIR": "runs", "HARNESS_CACHE_DIR": "cache"}


class WrongAnswers:
    """Answers that never pass. ``feedback`` are the user's later messages."""

    def __init__(self, words: int = 0) -> None:
        self.text = WRONG + " word" * words
        self.feedback: list[str] = []

    def __call__(self, request: MockRequest, index: int) -> str:
        messages = [turn.text for turn in request.turns if turn.role == "user"]
        self.feedback += messages[1:]
        return self.text


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("long", [False, True])
def test_a_template_words_the_feedback_of_any_task(task: str, long: bool, tmp_path: Path) -> None:
    answers = WrongAnswers(9000 * long)
    with MockServer(answers=answers) as server:
        env = setting(tmp_path, TASKS[task], server.base_url, feedback=AGAIN)
        ended = harness("run", "run.yaml", env=env, cwd=tmp_path)
        assert ended.returncode == 0, ended.stderr
        assert {*answers.feedback} == {AGAIN}
        calls = server.stats().requests
        again = harness("run", "run.yaml", "--rescore", env=env, cwd=tmp_path)
        assert again.returncode == 0, again.stderr
        assert "followed other feedback" not in words(again.stdout + again.stderr)
        assert server.stats().requests == calls


def test_a_template_may_quote_the_feedback_of_the_task(tmp_path: Path) -> None:
    answers = WrongAnswers()
    with MockServer(answers=answers) as server:
        env = setting(tmp_path, TASKS["rows"], server.base_url, feedback="Almost! {{ feedback }}")
        assert harness("run", "run.yaml", env=env, cwd=tmp_path).returncode == 0
        (message,) = answers.feedback
        assert message.startswith("Almost! That is not right yet:\n- ")
        env = setting(tmp_path, TASKS["rows"], server.base_url, feedback="Other {{ feedback }}")
        ended = harness("run", "run.yaml", env=env, cwd=tmp_path)
        assert "rounds.feedback" in mistake(ended), "a run keeps its wording"


def test_an_invalid_template_is_refused_before_the_first_call(tmp_path: Path) -> None:
    with MockServer(answers=lambda *_: WRONG) as server:
        env = setting(tmp_path, TASKS["rows"], server.base_url, feedback="{{ reason }}")
        message = mistake(harness("run", "run.yaml", env=env, cwd=tmp_path))
        assert "rounds.feedback: there is no field 'reason' here." in message
        assert "feedback" in message
        assert not server.stats().requests


@pytest.mark.parametrize("task", ["ifeval", "collie"])
def test_a_task_without_the_option_names_the_key_that_has_it(task: str, tmp_path: Path) -> None:
    env = setting(tmp_path, {**TASKS[task], "feedback": AGAIN}, "http://127.0.0.1:1")
    message = mistake(harness("run", "run.yaml", "--dry-run", env=env, cwd=tmp_path))
    assert "has no option 'feedback'" in message
    assert "Write rounds.feedback" in message


def test_a_comparison_names_the_wording(tmp_path: Path) -> None:
    with MockServer(answers=WrongAnswers()) as server:
        env = setting(tmp_path, TASKS["rows"], server.base_url)
        tree = yaml.safe_load((tmp_path / "run.yaml").read_text())
        tree["variants"] = {"reasons": {}, "no_reasons": {"rounds.feedback": AGAIN}}
        (tmp_path / "run.yaml").write_text(yaml.safe_dump(tree))
        assert harness("run", "run.yaml", env=env, cwd=tmp_path).returncode == 0
    config = yaml.safe_load((tmp_path / "runs/run.reasons/config.yaml").read_text())
    assert config["rounds"].keys() == {"max", "stop_on_pass"}, "as in earlier versions"
    compared = harness("compare", "run", env=env, cwd=tmp_path)
    assert compared.returncode == 0, compared.stderr
    assert f"The runs differ in rounds.feedback ({AGAIN}, null)." in words(compared.stdout)
