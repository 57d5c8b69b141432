"""An engine's processes end with it, when it is called off, and with a harness that is killed."""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
import threading
import time
from multiprocessing.process import BaseProcess
from pathlib import Path

import pytest

from harness.backends._engine_processes import EngineProcesses
from harness.errors import FatalCallError
from tests.backends.stand_ins import alive, until

pytestmark = pytest.mark.skipif(not Path("/proc").exists(), reason="Linux tells who began whom")


def work(told: Path) -> None:
    """As a process of an engine: begins another, and ends by itself only after long."""
    worker = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    told.write_text(f"{os.getpid()} {worker.pid}\n")
    time.sleep(600)


def begin(told: Path) -> BaseProcess:
    process = multiprocessing.get_context("spawn").Process(target=work, args=(told,))
    process.start()
    return process


def hold(told: Path) -> None:
    """As a harness with an engine."""
    with EngineProcesses().begun():
        begin(told)
    sys.stdout.write("begun\n")
    sys.stdout.flush()
    time.sleep(600)


def family(told: Path) -> list[int]:
    """The process and what it has begun, once they are there."""
    until(lambda: told.exists() and told.read_text().endswith("\n"), "they are begun")
    return [int(word) for word in told.read_text().split()]


def test_they_end_with_a_harness_that_is_killed(tmp_path: Path) -> None:
    told = tmp_path / "told"
    code = "import sys, pathlib, tests.backends.test_engine_processes as it; "
    code += "it.hold(pathlib.Path(sys.argv[1]))"
    with subprocess.Popen(
        [sys.executable, "-c", code, told],
        cwd=Path(__file__).parents[2],
        stdout=subprocess.PIPE,
        text=True,
    ) as harness:
        assert harness.stdout
        assert harness.stdout.readline() == "begun\n"
        pids = family(told)
        assert all(map(alive, pids))
        harness.kill()
    until(lambda: not any(map(alive, pids)), "they are killed")


def test_called_off_they_are_killed_and_what_waits_for_them_goes_on(tmp_path: Path) -> None:
    told, before, processes = tmp_path / "told", begin(tmp_path / "before"), EngineProcesses()

    def load() -> None:
        with processes.begun():
            begin(told).join()

    loading = threading.Thread(target=load)
    loading.start()
    pids = family(told)
    processes.check()
    processes.call_off()
    loading.join()
    until(lambda: not any(map(alive, pids)), "they are killed")
    with pytest.raises(FatalCallError, match="called off"):
        processes.check()
    with pytest.raises(FatalCallError, match="called off"), processes.begun():
        pass
    processes.end()
    pids = family(tmp_path / "before")
    assert all(map(alive, pids)), "it is not the engine's"
    with (ended := EngineProcesses()).begun():
        later = begin(tmp_path / "later")
    ended.end()
    later.join()
    assert later.exitcode == -9, "what is left of an engine is killed"
    for pid in pids:
        os.kill(pid, 9)
    before.join()
