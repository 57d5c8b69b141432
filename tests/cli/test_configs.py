"""Every file in configs/ is run: hosted models against the loopback provider, recordings where
the data is there."""

import json
import os
import shlex
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from harness.plugins.mock.server import MockServer
from harness.store.runs import run_name
from tests.cli.command import ROOT, harness

WHOLE = {"replay_gpt3_natural_instructions"}
"""Run by test_ablation with all of their instances."""
PARTLY_RECORDED = {"replay_ifbench", "replay_jsonschemabench"}
"""Run by test_ifeval and test_jsonschemabench: many prompts have no recorded answer."""
QUICK = {
    "jsonl_example",
    "quickstart",
    "gpt4_collie",
    "gpt4_ifeval",
    "replay_gpt4_collie",
    "vllm_collie",
}
"""The others are run in the exhaustive stage. test_configs checks all of them."""
CONFIGS = sorted(
    path for path in (ROOT / "configs").glob("*.yaml") if path.stem not in WHOLE | PARTLY_RECORDED
)
HOSTED = {"openai", "openai_completions", "openai_responses", "anthropic"}


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One folder for all, so that few-shot runs find those whose errors they show."""
    return tmp_path_factory.mktemp("runs")


@pytest.mark.parametrize(
    "path",
    [
        pytest.param(path, marks=[] if path.stem in QUICK else pytest.mark.exhaustive)
        for path in CONFIGS
    ],
    ids=lambda path: path.stem,
)
def test_a_config_runs(
    path: Path, runs: Path, request: pytest.FixtureRequest, mock_server: MockServer
) -> None:
    content = yaml.safe_load(path.read_text())
    if content["task"]["name"] == "lm_eval" and not find_spec("lm_eval"):
        pytest.skip("no lm-eval: scripts/test-exchange has it")
    backend = content["model"]["backend"]
    environment = os.environ | {
        "HARNESS_RUNS_DIR": str(runs),
    }
    if "vllm" in backend:
        from tests.plugins.vllm.journal import COMMAND  # a server that the harness starts itself

        environment["HARNESS_VLLM_COMMAND"] = shlex.join(COMMAND)
    options = ["--limit", "13"]
    if backend == "replay":
        data = request.getfixturevalue("data_dir")
        environment["HARNESS_DATA_DIR"] = str(data)
    if backend in HOSTED:
        url = mock_server.url if backend == "anthropic" else mock_server.base_url
        options += ["-o", f"model.base_url={url}", "-o", "task.dataset=builtin"]
        judges = content.get("judges", [])
        for judge in judges:
            own = judge["model"]["backend"] == "anthropic"
            judge["model"]["base_url"] = mock_server.url if own else mock_server.base_url
        options += ["-o", f"judges={json.dumps(judges)}"] if judges else []
    for file in [*learnt_from(content, runs), path]:
        ended = harness("run", file, *options, env=environment)
        assert ended.returncode == 0, ended.stderr
    for variant in content.get("variants", {"": {}}):
        folder = runs / run_name(path.stem, variant)
        found = msgspec.json.decode((folder / "metrics.json").read_bytes())
        most = 5 if content["task"]["name"] == "multi_if" else 13  # its built-in set is smaller
        assert found["n_instances"] == len(content["task"].get("rows", range(most)))
        assert found["overall"]["n"] > 0
        if content.get("judges"):
            judged = (folder / "judgements.jsonl").read_text().splitlines()
            outcomes = {json.loads(line)["outcome"] for line in judged}
            assert outcomes - ({"empty"} if backend == "replay" else set()) == {"ok"}
    assert (backend in HOSTED) == (mock_server.stats().requests > 0)


def learnt_from(content: dict[str, Any], runs: Path) -> list[Path]:
    """The files whose runs the shots of a file learn from, where they were not run yet."""
    shots = content["task"].get("shots")
    name = shots.get("run") if isinstance(shots, dict) else None
    if not name or (runs / name).is_dir():
        return []
    return [ROOT / "configs" / f"{name.partition('.')[0]}.yaml"]
