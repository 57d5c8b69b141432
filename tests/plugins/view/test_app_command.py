"""`harness view`, from the printed address to Ctrl-C."""

import signal
import socket
import subprocess
from pathlib import Path

import httpx2
import pytest

from tests.cli.command import COMMAND, QUICK, harness, mistake, on


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_page_is_served_until_a_signal(tmp_path: Path, number: signal.Signals) -> None:
    assert harness(*QUICK, "first", env=on(tmp_path)).returncode == 0
    command = [*COMMAND, "view", "first", "--no-browser"]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, env=on(tmp_path), stdout=pipe, stderr=pipe, text=True) as page:
        assert page.stdout is not None
        address = page.stdout.readline().strip()
        assert address.startswith("http://127.0.0.1:")
        assert "/runs/first/?token=" in address
        with (
            httpx2.Client(follow_redirects=True) as client,
            client.stream("GET", address) as reply,
        ):
            assert reply.status_code == 200
            with client.stream("GET", reply.url.join("api/events")) as events:
                assert next(events.iter_lines()) == "event: change"
                page.send_signal(number)  # although a connection is open
                assert page.wait() == 0


def test_a_run_that_does_not_exist_is_a_mistake(tmp_path: Path) -> None:
    assert "There is no run 'x'" in mistake(harness("view", "x", env=on(tmp_path)))


def test_a_port_in_use_is_a_mistake(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        ended = harness("view", "--no-browser", "--port", port, env=on(tmp_path))
    assert f"Cannot listen on 127.0.0.1:{port}" in mistake(ended)
