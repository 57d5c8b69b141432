"""Processes of a team under one rate limit, on a real database."""

import contextlib
import time
from pathlib import Path
from typing import Any

import pytest

from harness.plugins.mock.server import MockServer
from tests.plugins.team.team_runs import team_run
from tests.postgres import Postgres

COUNT = 6
MEASURED_S = 120.0


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("key", "unit", "limit"),
    [
        ("rpm", "requests", 600),
        ("input_tpm", "input_tokens", 20_000),
        ("output_tpm", "output_tokens", 20_000),
    ],
)
def test_six_processes_use_one_limit_and_keep_it(
    tmp_path: Path,
    postgres: Postgres,
    key: str,
    unit: str,
    limit: int,
    capsys: pytest.CaptureFixture[str],
) -> None:
    limits: dict[str, Any] = {"limits": {key: limit, "concurrency": 50}}
    with MockServer(latency=0.2) as mock, contextlib.ExitStack() as stack:
        (url,) = postgres.database("acme")
        for number in range(COUNT):
            stack.enter_context(team_run(tmp_path, f"p{number}", url, mock, 2000, **limits))
        while not mock.stats().requests:
            time.sleep(0.01)
        began, marks, restarted = time.monotonic(), [], False
        while (passed := time.monotonic() - began) < MEASURED_S:
            time.sleep(0.05)
            stats = mock.stats()
            amounts = {
                "requests": stats.requests,
                "input_tokens": stats.prompt_tokens,
                "output_tokens": stats.completion_tokens,
            }
            marks.append((passed, amounts[unit]))
            if passed > MEASURED_S / 2 and not restarted:
                postgres.stop()
                postgres.start()
                restarted = True
    peak = getattr(mock.stats().peak_per_minute, unit)
    used = marks[-1][1] / (limit * MEASURED_S / 60)
    with capsys.disabled():
        print(f"\n{COUNT} processes, {key} {limit:,}: at most {peak:,} in 60 s; used {used:.1%}")
    assert peak <= limit
    assert used >= 0.9
