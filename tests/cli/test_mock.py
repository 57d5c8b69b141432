"""`harness mock` as a process of its own."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from urllib.parse import urlsplit

import httpx2
import pytest

from tests.cli.command import harness

COMMAND = [sys.executable, "-c", "import harness.cli; harness.cli.main()", "mock"]
Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def start() -> Iterator[Start]:
    """Starts the command; whatever still runs afterwards is killed."""
    processes = []

    def start(*options: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [*COMMAND, *options], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        processes.append(process)
        return process

    yield start
    for process in processes:
        process.kill()
        process.communicate()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.timed
def test_says_where_it_is_and_ends_on_a_signal(start: Start, number: signal.Signals) -> None:
    process = start("--port", "0", "--fault", "stall=1", "--latency", "0.001")
    assert process.stdout is not None
    url = process.stdout.readline().strip()
    parts = urlsplit(url)
    assert (parts.hostname, parts.path) == ("127.0.0.1", "/v1")
    # A connection that stalls must not hold the end up.
    with pytest.raises(httpx2.ReadTimeout):
        httpx2.post(
            f"{url}/chat/completions",
            json={"model": "m", "messages": [{"role": "user", "content": "a"}]},
            timeout=0.1,
        )
    with closing(socket.create_connection((parts.hostname or "", parts.port or 0))) as idle:
        idle.send(b"POST /v1/chat/completions HTTP/1.1\r\nContent-Length: 10\r\n\r\n")
        os.kill(process.pid, number)
        output, errors = process.communicate(timeout=60)
    assert process.returncode == 0
    assert (output, errors) == ("", "")


def test_every_option_reaches_the_server(start: Start) -> None:
    process = start(
        *("--port", "0", "--reasoning", "field", "--refuse", "temperature", "--refuse", "top_p"),
        *("--input-tpm", "1000", "--output-tpm", "2000"),
    )
    assert process.stdout is not None
    url = process.stdout.readline().strip()
    body = {"model": "m", "messages": [{"role": "user", "content": "a"}]}
    reply = httpx2.post(f"{url}/chat/completions", json=body)
    assert reply.json()["choices"][0]["message"]["reasoning"]
    assert httpx2.post(f"{url}/chat/completions", json=body | {"top_p": 1}).status_code == 400
    message = httpx2.post(
        f"{url}/messages",
        json=body | {"max_tokens": 9},
        headers={"anthropic-version": "2026-10-21"},
    )
    told = [
        message.headers[f"anthropic-ratelimit-{unit}-tokens-limit"] for unit in ("input", "output")
    ]
    assert told == ["1000", "2000"]


def test_bad_options_are_told_in_two_lines(tmp_path: Path) -> None:
    broken = tmp_path / "broken.jsonl"
    broken.write_text("{")
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    with closing(socket.create_server(("127.0.0.1", 0))) as taken:
        port = str(taken.getsockname()[1])
        for options, message in {
            ("--port", port): "Address already in use",
            ("--fault", "rest=0.1"): "Did you mean 'reset'?",
            ("--fault", "reset=2"): "must be in 0..1",
            ("--latency", "slow"): "Invalid latency 'slow'",
            ("--reasoning", "loud"): "Forms: think, field, blocks",
            ("--answers", str(tmp_path / "absent.jsonl")): "No such file",
            ("--answers", str(broken)): "line 1",
        }.items():
            ended = harness("mock", *options)
            assert ended.returncode != 0, options
            assert ended.stdout == ""
            assert message in ended.stderr
            assert len(ended.stderr.strip().splitlines()) <= 2
    for number, handler in handlers.items():
        signal.signal(number, handler)


def test_help_tells_the_limits_of_tokens_apart() -> None:
    shown = " ".join(harness("mock", "--help").stdout.split())
    for tokens in ("tokens", "input tokens", "output tokens"):
        assert f"Maximum {tokens} per model in any 60 seconds" in shown
