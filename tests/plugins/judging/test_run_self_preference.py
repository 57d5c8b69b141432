"""A judge of a model's own family, wherever its scores are read: two models, one judge."""

from __future__ import annotations

import json
import os
from pathlib import Path

import msgspec
import pytest

from harness.plugins.mock.server import MockServer
from harness.plugins.mock.wire import MockRequest
from tests.cli.command import harness

NAMES = {"own": "ft:gpt-4o-mini:acme:x:1", "other": "meta-llama/Llama-3.1-8B-Instruct"}


CHECKS = [{"contains": {"target": "4"}}]


def said(ask: MockRequest, _: int) -> str:
    if "<judged_text>" not in ask.prompt:
        return f"{ask.model} says 4."
    return "Verdict: bad" if "2 + 0" in ask.prompt else "Verdict: good"


def judged_runs(folder: Path) -> dict[str, str]:
    """Make two runs, each judged by a GPT and by an unknown model; return the environment."""
    environment = os.environ | {"HARNESS_RUNS_DIR": str(folder), "COLUMNS": "200"}
    rows = folder / "rows.jsonl"
    rows.write_text("".join(f'{{"prompt": "{n} + 0?", "target": "{n}"}}\n' for n in range(4)))
    with MockServer(answers=said) as server:

        def model(name: str) -> dict[str, str]:
            return {"backend": "openai", "name": name, "base_url": server.base_url}

        choices = {"good": 1, "bad": 0}
        criteria = {"fine": {"question": "Is it?", "choices": choices, "passes_from": 1}}
        for run, name in NAMES.items():
            content = {
                "task": {"name": "jsonl", "path": str(rows), "checks": CHECKS},
                "model": model(name),
                "judges": [
                    {"name": "choice", "as": "j", "model": model("gpt-4"), "criteria": criteria},
                    {"name": "choice", "as": "k", "model": model("judge"), "criteria": criteria},
                ],
                "panels": [{"as": "jury", "of": ["j", "k"], "quorum": 1}],
            }
            file = folder / f"{run}.yaml"
            file.write_text(json.dumps(content))
            ended = harness("run", file, env=environment)
            assert ended.returncode == 0, ended.stderr
    return environment


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    return judged_runs(tmp_path_factory.mktemp("families"))


def test_a_run_tells_which_of_its_judges_is_of_its_models_family(
    environment: dict[str, str],
) -> None:
    own = harness("show", "own", env=environment).stdout
    assert "j.fine †" in own
    assert "k.fine †" not in own
    note = "† self-preference: the judge 'j' asks gpt-4, of the model's own family (OpenAI)"
    assert note in own
    assert "jury.fine †" in own
    assert "the panel 'jury' has the judge 'j', which asks gpt-4, of the model's own" in own
    assert "†" not in harness("show", "other", env=environment).stdout
    path = Path(environment["HARNESS_RUNS_DIR"]) / "own" / "metrics.json"
    judges = msgspec.json.decode(path.read_bytes())["judges"]
    assert {name: (one["model"], one["family"]) for name, one in judges.items()} == {
        "j": ("gpt-4", "OpenAI"), "k": ("judge", None), "jury": ("", "OpenAI"),
    }  # fmt: skip


def test_comparisons_tell_it(environment: dict[str, str]) -> None:
    told = harness("compare", "own", "other", env=environment).stdout
    assert (
        "The judge 'j' shares a family (OpenAI) with the model of own but not with that of other"
        in " ".join(told.split())
    )
