"""A price that is set after the calls: the cost of recorded calls is computed from their tokens."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from harness.plugins.mock.server import MockServer
from tests.cli.command import harness, mistake
from tests.installed import has_run_step, has_verb

TASK = "task: {rows: [{prompt: 'A river?', target: Nile}, {prompt: 'A sea?', target: Aral}], "
MODEL = """
model: {backend: openai, name: answerer, base_url: URL}
decoding: {max_tokens: 50}
"""
ALONE = f"{TASK}checks: contains}}{MODEL}"
JUDGED = f"""{TASK}checks: [{{judge: reader, criteria: [It is short.]}}]}}{MODEL}
judges:
  - {{name: yes_no, as: reader, model: {{backend: openai, name: judge-model, base_url: URL}}}}
"""
CHECK = ("check", "priced", "--max", "cost=1")


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    own = {"HARNESS_RUNS_DIR": str(tmp_path / "runs"), "OPENAI_API_KEY": "key", "COLUMNS": "200"}
    return os.environ | own


def metrics(tmp_path: Path) -> Any:
    return json.loads((tmp_path / "runs/priced/metrics.json").read_text())


def test_the_cost_of_recorded_calls(tmp_path: Path, env: dict[str, str]) -> None:
    file = tmp_path / "priced.yaml"
    with MockServer() as server:
        file.write_text(JUDGED.replace("URL", server.base_url))
        if has_run_step("dry_run"):
            planned = harness("run", file, "--dry-run", env=env)
            unpriced = "no price for answerer (model), judge-model (judges.reader.model)"
            assert unpriced in planned.stdout
        assert harness("run", file, env=env).returncode == 0
        if has_verb("check"):
            said = mistake(harness(*CHECK, env=env))
            assert "Set model.price (answerer) and judges.reader.model.price (judge-model)" in said
        lines = (tmp_path / "runs/priced/attempts.jsonl").read_bytes()
        paid = server.stats().requests
        both = ("-o", "model.price={input: 3, output: 5}")
        harness("run", file, *both, env=env)
        if has_verb("check"):
            said = mistake(harness(*CHECK, env=env))
            assert "Set judges.reader.model.price (judge-model), such as" in said
        assert metrics(tmp_path)["cost_usd"] is None
        both += ("-o", "judges.reader.model.price={input: 7, output: 11}")
        again = harness("run", file, *both, env=env)
        assert server.stats().requests == paid
    assert again.returncode == 0, again.stderr
    assert (tmp_path / "runs/priced/attempts.jsonl").read_bytes() == lines
    found = metrics(tmp_path)
    model, judge = found["model_calls"], found["judges"]["reader"]
    for part, (read, written) in ((model, (3, 5)), (judge, (7, 11))):
        usage = part["usage"]
        usd = (read * usage["input_tokens"] + written * usage["output_tokens"]) / 1e6
        assert part["cost_usd"] == part["computed_usd"] == pytest.approx(usd)
    assert found["cost_usd"] == pytest.approx(model["cost_usd"] + judge["cost_usd"])
    if has_verb("check"):
        assert harness(*CHECK, env=env).returncode == 0
    assert "of it computed from tokens at a price set afterwards" in again.stdout
    if has_verb("show"):
        shown = harness("show", "priced", env=env).stdout
        assert "of it computed from tokens at a price set afterwards" in shown
    assert "≈: computed from recorded tokens" in harness("ls", env=env).stdout


def test_recorded_costs_stay(tmp_path: Path, env: dict[str, str]) -> None:
    file = tmp_path / "priced.yaml"
    with MockServer() as server:
        file.write_text(ALONE.replace("URL", server.base_url))
        cheap, dear = ("-o", "model.price={input: 1, output: 1}"), "model.price.input=1000"
        harness("run", file, *cheap, env=env)
        once = metrics(tmp_path)["cost_usd"]
        assert harness("run", file, *cheap, "-o", dear, env=env).returncode == 0
    found = metrics(tmp_path)
    assert (found["cost_usd"], found["computed_usd"]) == (once, 0)
    assert "≈" not in harness("ls", env=env).stdout


def test_cached_replies_cost_what_was_paid(tmp_path: Path, env: dict[str, str]) -> None:
    file = tmp_path / "priced.yaml"
    cheap, dear = ("-o", "model.price={input: 1, output: 1}"), ("-o", "model.price.input=1000")
    with MockServer() as server:
        file.write_text(ALONE.replace("URL", server.base_url))
        harness("run", file, *cheap, env=env)
        once = metrics(tmp_path)["cost_usd"]
        harness("run", file, *cheap, *dear, "--fresh", env=env)
        assert server.stats().requests == 2
    found = metrics(tmp_path)
    assert (found["cost_usd"], found["paid_usd"], found["computed_usd"]) == (once, 0, 0)


def test_cached_replies_of_unknown_cost_are_priced_afterwards(
    tmp_path: Path, env: dict[str, str]
) -> None:
    file = tmp_path / "priced.yaml"
    with MockServer() as server:
        file.write_text(ALONE.replace("URL", server.base_url))
        harness("run", file, env=env)
        harness("run", file, "--fresh", "-o", "model.price={input: 3, output: 5}", env=env)
        assert server.stats().requests == 2
    found = metrics(tmp_path)
    usage = found["usage"]
    usd = (3 * usage["input_tokens"] + 5 * usage["output_tokens"]) / 1e6
    assert found["cost_usd"] == found["computed_usd"] == pytest.approx(usd)


def test_a_resumed_run_counts_what_it_has_paid(tmp_path: Path, env: dict[str, str]) -> None:
    file = tmp_path / "priced.yaml"
    cheap, dear = ("-o", "model.price={input: 1, output: 1}"), ("-o", "model.price.input=1000")
    with MockServer() as server:
        file.write_text(ALONE.replace("URL", server.base_url))
        harness("run", file, *cheap, env=env)
        once = metrics(tmp_path)["cost_usd"]
        attempts = tmp_path / "runs/priced/attempts.jsonl"
        first, second = attempts.read_bytes().splitlines(keepends=True)
        attempts.write_bytes(first)  # as if the run had been killed before its second line
        harness("run", file, *cheap, *dear, env=env)
        assert server.stats().requests == 2
    found = metrics(tmp_path)
    assert (found["cost_usd"], found["paid_usd"], found["computed_usd"]) == (once, once, 0)
    assert json.loads(attempts.read_bytes().splitlines()[1])["cost_usd"] == pytest.approx(
        json.loads(second)["cost_usd"]
    )
