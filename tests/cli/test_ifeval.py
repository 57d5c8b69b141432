"""IFEval from end to end: a model on loopback that reads the checkers' feedback."""

import json
import os
from pathlib import Path

from harness.datasets.folder import DataFolder
from harness.mock import MockRequest, MockServer
from harness.tasks.ifeval import IFEvalTask
from tests.cli.command import ROOT, harness

CONFIG = ROOT / "configs" / "gpt4_ifeval.yaml"


def test_feedback_makes_a_model_follow_the_instructions(tmp_path: Path) -> None:
    """Half of the answers follow their instructions in round 2, all of them in round 3."""
    instances = {
        one.data.messages[-1].content: one.data
        for one in IFEvalTask(data=DataFolder(tmp_path)).instances()
    }
    slow = set(list(instances)[::2])

    def model(ask: MockRequest, index: int) -> str:
        prompt, *turns = [one.text for one in ask.turns if one.role == "user"]
        item = instances[prompt]
        if turns:
            assert turns[-1].startswith("Your answer does not follow these instructions yet:\n- ")
        improved = len(turns) > (1 if prompt in slow else 0)
        return (item.reference if improved else item.wrong) or ""

    with MockServer(answers=model) as server:
        model_ = f"model.base_url={server.base_url}"
        environment = os.environ | {"HARNESS_RUNS_DIR": str(tmp_path)}
        ended = harness("run", CONFIG, "-o", model_, env=environment)
        assert ended.returncode == 0, ended.stderr
    attempts = [
        json.loads(line)
        for line in (tmp_path / "gpt4_ifeval.feedback" / "attempts.jsonl").read_text().splitlines()
    ]
    passed = {
        number: [one["passed"] for one in attempts if one["round"] == number]
        for number in (1, 2, 3)
    }
    n, n_slow = len(instances), len(slow)
    assert passed == {1: [False] * n, 2: passed[2], 3: [True] * n_slow}
    assert (passed[2].count(True), passed[2].count(False)) == (n - n_slow, n_slow)
    compared = harness("compare", "gpt4_ifeval", env=environment)
    assert "+1.0000" in compared.stdout, compared.stdout
