"""A second model rewrites the prompts."""

import os
from pathlib import Path
from typing import Any

import msgspec

from harness.plugins.mock.server import MockServer
from tests.cli.command import harness, mistake
from tests.cli.test_providers import attempts

MODEL = "{backend: openai, base_url: URL/v1, name: m}"
FILE = """task: {name: collie, dataset: builtin}
decoding: {max_tokens: 100}
limit: 26
seed: null
"""


def test_a_second_model_polishes_and_no_target_is_lost(tmp_path: Path) -> None:
    def answer(ask: Any, index: int) -> str:
        said = ask.prompt
        if "Rewrite the text" not in said:
            return "No."
        text = said.split("---\n", 1)[1].removesuffix("\n---")
        return f"Kindly: {text}" if len(text) % 2 else "Please write something nice."

    with MockServer(answers=answer) as server:
        file = tmp_path / "run.yaml"
        file.write_text(
            f"model: {MODEL.replace('URL', server.url)}\n"
            f"polish: {{backend: openai, base_url: {server.base_url}, name: second}}\n{FILE}"
            "rounds: {max: 2}\n"
        )
        environment = os.environ | {"HARNESS_RUNS_DIR": str(tmp_path / "runs")}
        ended = harness("run", file, env=environment)
        assert ended.returncode == 0, ended.stderr
        asked = server.stats().requests
    found = attempts(tmp_path / "runs" / "run")
    used = [rewriting["used"] for attempt in found for rewriting in attempt["polish"]]
    assert set(used) == {True, False}
    for attempt in found:
        if attempt["round"] == 1:
            said = attempt["request"]["messages"][0]["content"]
            assert said.startswith("Kindly: Please generate") == attempt["polish"][0]["used"]
    metrics = msgspec.json.decode((tmp_path / "runs" / "run" / "metrics.json").read_bytes())
    assert metrics["n_calls"] == asked
    refused = harness("run", file, "-o", "polish=null", env=environment)
    assert "polish" in mistake(refused)
