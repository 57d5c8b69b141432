"""A process that is stopped for longer than a call may take, as by Ctrl-Z or `docker pause`."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from harness.plugins.mock.server import MockServer
from tests.rows import GPT4_FILE


def until(true: Callable[[], object], seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_replies_that_arrive_during_a_pause_are_not_paid_for_again(tmp_path: Path) -> None:
    environment = os.environ | {
        "HARNESS_RUNS_DIR": str(tmp_path / "runs"),
        "HARNESS_CACHE_DIR": str(tmp_path / "cache"),
        "OPENAI_API_KEY": "sk-none",
    }
    with MockServer(latency=1.0) as server:
        settings = (
            *(f"model.base_url={server.base_url}", "samples=1"),
            *("limits.timeout_s=3", "limits.concurrency=16"),
        )
        words = [word for setting in settings for word in ("-o", setting)]
        process = subprocess.Popen(
            [sys.executable, "-m", "harness", "run", GPT4_FILE, "--limit", "32",
             "--name", "paused", *words],
            env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        until(lambda: server.stats().requests == 16)
        process.send_signal(signal.SIGSTOP)
        time.sleep(3.5)
        process.send_signal(signal.SIGCONT)
        process.wait(60)
        stats = server.stats()
    assert process.returncode == 0
    assert (stats.requests, stats.repeated, stats.abandoned) == (32, 0, 0)
