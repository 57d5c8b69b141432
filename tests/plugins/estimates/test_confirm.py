"""What a paid run says, and asks, before its first call."""

import os
import pty
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.plugins.mock.server import MockServer
from tests.cli.command import harness, on
from tests.cli.test_jsonl import ROWS, environment, written
from tests.rows import QUICKSTART

__all__ = ["environment"]


@pytest.fixture
def server() -> Iterator[MockServer]:
    with MockServer() as serving:
        yield serving


def command(server: MockServer, output: float | None = 1e6) -> list[str]:
    """A run of a few calls that cost at most ten times ``output`` millionths of a US dollar."""
    price = "null" if output is None else f"{{input: 0, output: {output}}}"
    model = f"{{backend: openai, name: m, base_url: '{server.base_url}', price: {price}}}"
    words = "run", QUICKSTART, "--limit", "2", "-o", f"model={model}", "-o", "samples=1"
    return [*words, "-o", "decoding.max_tokens=10", "-o", "rounds.max=1"]


def paying(runs: Path, **more: str) -> dict[str, str]:
    return on(runs, OPENAI_API_KEY="k", **more)


def test_without_a_terminal_the_estimate_is_printed_and_nothing_asked(
    server: MockServer, tmp_path: Path
) -> None:
    ended = harness(*command(server), env=paying(tmp_path))
    assert ended.returncode == 0, ended.stderr
    assert "Estimated cost: $4.00 to $20.00\n" in ended.stderr
    assert "Continue?" not in ended.stderr
    again = harness(*command(server), env=paying(tmp_path))
    assert "Estimated cost" not in again.stderr
    grown = harness(*command(server), "-o", "samples=2", env=paying(tmp_path))
    assert "Estimated cost" in grown.stderr


@pytest.mark.parametrize("output", [None, 0])
def test_free_models_and_own_servers_have_no_estimate(
    server: MockServer, tmp_path: Path, output: float | None
) -> None:
    ended = harness(*command(server, output), env=paying(tmp_path))
    assert ended.returncode == 0, ended.stderr
    assert "cost" not in ended.stderr.partition("samples")[0]
    assert "is unknown" not in ended.stderr


def test_a_budget_is_the_most_that_a_run_costs(server: MockServer, tmp_path: Path) -> None:
    ended = harness(*command(server), "-o", "budget.usd=5", env=paying(tmp_path))
    said = "$4.00 to $20.00. The budget of $5.00 ends the work before it costs more."
    assert f"Estimated cost: {said}\n" in ended.stderr
    enough = harness(*command(server), "-o", "budget.usd=20", "--fresh", env=paying(tmp_path))
    assert "Estimated cost: $4.00 to $20.00\n" in enough.stderr


def test_variants_share_the_budget_in_estimates(server: MockServer, tmp_path: Path) -> None:
    words = [*command(server), "-o", "budget.usd=25", "-o", "variants={a: {}, b: {seed: 1}}"]
    planned = harness(*words, "--dry-run", env=paying(tmp_path))
    assert planned.stdout.count("$25.00, shared with 1 other run") == 1
    assert "$25.00 for all: they end before they cost more" in planned.stdout
    ended = harness(*words, env=paying(tmp_path))
    assert "Estimated cost: $8.00 to $40.00. The budget of $25.00 ends the work" in ended.stderr


def answered(answer: bytes, words: list[str], runs: Path) -> subprocess.CompletedProcess[str]:
    """Run a command on a terminal on which someone types an answer."""
    master, terminal = pty.openpty()
    try:
        os.write(master, answer)
        with os.fdopen(terminal, "r") as stdin:
            return harness(*words, input=stdin, env=paying(runs))
    finally:
        os.close(master)


def test_on_a_terminal_a_run_above_the_bound_asks(server: MockServer, tmp_path: Path) -> None:
    refused = answered(b"n\n", command(server), tmp_path)
    assert refused.returncode == 1
    assert "Continue? [y/N]" in refused.stderr
    assert "Nothing was run." in refused.stderr
    assert server.stats().requests == 0
    assert not list(tmp_path.iterdir())
    agreed = answered(b"y\n", command(server), tmp_path)
    assert agreed.returncode == 0, agreed.stderr
    assert server.stats().requests == 2


def test_a_run_warns_if_no_reference_answer_passes(
    tmp_path: Path, environment: dict[str, str]
) -> None:
    wrong = [{**row, "most": 1} for row in ROWS]
    said = "mine: 0 of 10 reference answers pass, so correct answers may fail, too."
    assert said in harness("run", written(tmp_path, wrong), env=environment).stderr
    assert said not in harness("run", tmp_path / "mine.yaml", env=environment).stderr  # finished
    one_passes = written(tmp_path, [*wrong, {**wrong[0], "most": 9}])
    assert "answers pass" not in harness("run", one_passes, "--fresh", env=environment).stderr
