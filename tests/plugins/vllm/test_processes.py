"""Processes that the harness owns: they end when it wants, when it ends, and when it is killed."""

from __future__ import annotations

import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from harness.backends import OwnedServers
from harness.errors import StoreFailed
from harness.plugins.vllm.processes import ServerProcess, errors_in, free_port
from tests.backends.stand_ins import alive, until

FAMILY = (
    sys.executable,
    "-c",
    "import subprocess, sys, time\n"
    "child = subprocess.Popen(['sleep', '600'])\n"
    "print('child', child.pid, 'mine', __import__('os').getpid(), flush=True)\n"
    "{then}",
)


def family(then: str = "time.sleep(600)") -> list[str]:
    """A program that begins another one, and then does something."""
    return [*FAMILY[:2], FAMILY[2].format(then=then)]


def pids(log: Path) -> list[int]:
    until(lambda: log.exists() and "mine" in log.read_text(), "the program has begun")
    words = next(line for line in log.read_text().splitlines() if "mine" in line).split()
    return [int(words[1]), int(words[3])]


def test_it_is_ended_with_all_that_it_has_begun(tmp_path: Path) -> None:
    server = ServerProcess(family(), tmp_path / "logs" / "it.log")
    began = pids(server.log)
    assert all(map(alive, began))
    assert not server.has_ended()
    server.end()
    assert server.has_ended()
    until(lambda: not any(map(alive, began)), "its child is killed")
    server.end()  # again: nothing


def test_one_that_does_not_want_to_end_is_killed(tmp_path: Path) -> None:
    stubborn = (
        "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN);"
        " print('x', flush=True); time.sleep(600)"
    )
    server = ServerProcess(family(stubborn), tmp_path / "it.log", grace_s=0.1)
    began = pids(server.log)
    until(lambda: "x" in server.last_words().splitlines(), "it ignores the signal")
    server.end()
    until(lambda: not any(map(alive, began)), "both are killed")


def test_one_that_dies_leaves_nothing_behind_and_its_last_words(tmp_path: Path) -> None:
    log = tmp_path / "it.log"
    log.write_text("of an earlier server\n")
    server = ServerProcess(family("sys.exit('no memory left')"), log)
    child, _ = pids(log)
    until(server.has_ended, "the guard has seen it")
    assert server.last_words().splitlines()[-1] == "no memory left"
    assert "earlier" not in server.last_words()
    until(lambda: not alive(child), "its child is killed")
    server.end()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_it_does_not_outlive_the_harness(tmp_path: Path, number: int) -> None:
    owner = subprocess.Popen(
        [
            sys.executable,
            "-c",
            "import sys, time\n"
            "from pathlib import Path\n"
            "from harness.plugins.vllm.processes import ServerProcess\n"
            f"server = ServerProcess({family()!r}, Path({str(tmp_path / 'it.log')!r}))\n"
            "time.sleep(600)",
        ]
    )
    began = pids(tmp_path / "it.log")
    owner.send_signal(number)
    owner.wait()
    until(lambda: not any(map(alive, began)), "the server and its child are gone")


def test_a_log_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StoreFailed, match="log"):
        ServerProcess(family(), tmp_path / "file" / "it.log")


def test_a_free_port_can_be_listened_on() -> None:
    import socket

    with socket.create_server(("127.0.0.1", free_port())):
        pass


class Launches:
    """Launches sleeping programs, and knows which."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.servers: list[ServerProcess] = []

    def __call__(self) -> ServerProcess:
        server = ServerProcess(["sleep", "600"], self.folder / f"{len(self.servers)}.log")
        self.servers.append(server)
        return server


def test_a_server_is_shared_kept_for_the_next_and_ended_with_the_last(tmp_path: Path) -> None:
    launch = Launches(tmp_path)
    with OwnedServers() as servers:
        first, second = servers.lease("a"), servers.lease("a")
        found = servers.acquire(first, None, launch)
        servers.release(first)
        assert servers.acquire(second, None, launch) is found, "another run wants it"
        servers.release(first)
        assert not found.has_ended(), "a backend may be closed twice"
        servers.release(second)
        assert found.has_ended()
    assert len(launch.servers) == 1


def test_an_idle_server_makes_room_and_a_used_one_stays(tmp_path: Path) -> None:
    launch = Launches(tmp_path)
    with OwnedServers() as servers:
        idle, used, new = (servers.lease(name) for name in ("idle", "used", "new"))
        servers.lease("idle")  # for a later run
        kept = servers.acquire(used, None, launch)
        unused = servers.acquire(idle, None, launch)
        servers.release(idle)
        assert not unused.has_ended()
        servers.acquire(new, None, launch)
        assert unused.has_ended()
        assert not kept.has_ended()
    assert all(server.has_ended() for server in launch.servers)


def test_one_that_has_died_is_started_again(tmp_path: Path) -> None:
    with OwnedServers() as servers:
        lease = servers.lease("a")
        found = servers.acquire(lease, None, lambda: ServerProcess(["true"], tmp_path / "a.log"))
        until(found.has_ended, "it ends by itself")
        assert servers.acquire(lease, None, Launches(tmp_path)) is not found


def test_of_two_that_see_it_fail_one_starts_it_again(tmp_path: Path) -> None:
    launch = Launches(tmp_path)
    with OwnedServers() as servers:
        leases = [servers.lease("a") for _ in range(2)]
        failed = servers.acquire(leases[0], None, launch)
        with ThreadPoolExecutor() as pool:
            both = pool.map(lambda lease: servers.acquire(lease, failed, launch), leases)
            first, second = both
        assert first is second is not failed
        assert not first.has_ended()
        assert len(launch.servers) == 2


def test_a_log_shows_each_error_once() -> None:
    worker = "(EngineCore pid=632) ERROR 11-21 23:40:21 [core.py:1750] "
    said = (
        f"{worker}Traceback (most recent call last):\n"
        f'{worker}  File "/v/core.py", line 5, in run\n'
        f"{worker}ValueError: No memory\n"
        "ValueError: No memory\n"
        "pydantic_core.ValidationError: 1 validation error for ModelConfig\n"
        "(APIServer pid=1) INFO 11-21 23:40:21 [core_client.py:770] shutdown\n"
    )
    assert errors_in(said).splitlines() == [
        "ValueError: No memory",
        "pydantic_core.ValidationError: 1 validation error for ModelConfig",
    ]
    assert errors_in("Killed") == "Killed"


OPEN_FILES = """
import resource
from harness.plugins.vllm.processes import open_files
resource.setrlimit(resource.RLIMIT_NOFILE, ({soft}, 500))
print(open_files(), resource.getrlimit(resource.RLIMIT_NOFILE)[0])
"""


@pytest.mark.parametrize("soft", [64, 500])
def test_as_many_files_are_opened_as_the_system_allows(soft: int) -> None:
    program = OPEN_FILES.format(soft=soft)
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    assert ended.stdout.split() == [b"500", b"500"]
