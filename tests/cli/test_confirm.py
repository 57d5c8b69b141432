"""What a paid run says, and asks, before its first call."""

import os
import pty
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.mock import MockServer
from tests.cli.command import COMMAND, ROOT, harness
from tests.cli.test_compare import on


@pytest.fixture
def server() -> Iterator[MockServer]:
    with MockServer() as serving:
        yield serving


def command(server: MockServer, output: float | None = 1e6) -> list[str]:
    """A run of a few calls that cost at most ten times ``output`` millionths of a US dollar."""
    price = "null" if output is None else f"{{input: 0, output: {output}}}"
    model = f"{{backend: openai, name: m, base_url: '{server.base_url}', price: {price}}}"
    words = "run", "quickstart", "--limit", "2", "-o", f"model={model}", "-o", "samples=1"
    return [*words, "-o", "decoding.max_tokens=10", "-o", "rounds.max=1"]


def paying(runs: Path, **more: str) -> dict[str, str]:
    return on(runs, OPENAI_API_KEY="k", **more)


def test_without_a_terminal_the_estimate_is_printed_and_nothing_asked(
    server: MockServer, tmp_path: Path
) -> None:
    ended = harness(*command(server), env=paying(tmp_path))
    assert ended.returncode == 0, ended.stderr
    assert "Estimated cost: $20.00\n" in ended.stderr
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
    assert "Estimated cost: $5.00\n" in ended.stderr


def test_on_a_terminal_a_run_above_the_bound_asks(server: MockServer, tmp_path: Path) -> None:
    def answered(answer: bytes) -> subprocess.CompletedProcess[str]:
        master, terminal = pty.openpty()
        try:
            os.write(master, answer)
            return subprocess.run(
                [*COMMAND, *command(server)], stdin=terminal, env=paying(tmp_path),
                capture_output=True, text=True, check=False, cwd=ROOT, timeout=120,
            )  # fmt: skip
        finally:
            os.close(master)
            os.close(terminal)

    refused = answered(b"n\n")
    assert refused.returncode == 1
    assert "Continue? [y/N]" in refused.stderr
    assert "Nothing was run." in refused.stderr
    assert server.stats().requests == 0
    assert not list(tmp_path.iterdir())
    agreed = answered(b"y\n")
    assert agreed.returncode == 0, agreed.stderr
    assert server.stats().requests == 2
