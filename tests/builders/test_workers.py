"""Processes of a build: in order, a few pieces at a time, and no orphans."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.builders.workers import PENDING, Workers
from harness.errors import ConfigError, HarnessError


def squared(number: int) -> int:
    if number < 0:
        raise ConfigError("negative")
    return number * number


def killed(number: int) -> int:
    os.kill(os.getpid(), signal.SIGKILL)
    return number


def test_many_pieces_in_order_and_few_at_a_time() -> None:
    taken = []

    def pieces() -> Iterator[int]:
        for number in range(40):
            taken.append(number)
            yield number

    with Workers(2) as workers:
        found = workers.in_order(squared, pieces())
        assert next(found) == 0
        assert len(taken) <= 2 * PENDING
        assert list(found) == [number * number for number in range(1, 40)]
        assert list(workers.in_order(squared, [3, 4, 5])) == [9, 16, 25]
        with pytest.raises(ConfigError, match="negative"):
            list(workers.in_order(squared, [1, -1, 2, 3]))
        assert list(workers.in_order(squared, [6, 7])) == [36, 49]


def test_a_little_work_begins_no_process() -> None:
    with Workers(8) as workers:
        assert list(workers.in_order(_own_id, [1])) == [os.getpid()]
        assert list(workers.in_order(_own_id, [])) == []


def _own_id(_: int) -> int:
    return os.getpid()


def test_a_killed_process_is_reported_and_not_waited_for() -> None:
    with Workers(2) as workers, pytest.raises(HarnessError, match="ended before its work"):
        list(workers.in_order(killed, range(8)))


def test_processes_end_with_the_one_that_began_them(tmp_path: Path) -> None:
    script = tmp_path / "begin.py"
    script.write_text(
        "import os, time\n"
        "from pathlib import Path\n"
        "from harness.builders.workers import Workers\n"
        "def work(n):\n"
        f"    Path({str(tmp_path)!r}, str(os.getpid())).touch()\n"
        "    time.sleep(600)\n"
        "if __name__ == '__main__':\n"
        "    with Workers(2) as workers:\n"
        "        list(workers.in_order(work, range(4)))\n"
    )
    process = subprocess.Popen([sys.executable, script])
    while len(ids := [int(path.name) for path in tmp_path.iterdir() if path.name.isdigit()]) < 2:
        assert process.poll() is None
        time.sleep(0.05)
    process.kill()
    process.wait()
    for one in ids:
        while _is_there(one):  # the test's own limit of time ends it where they stay
            time.sleep(0.05)


def _is_there(process: int) -> bool:
    try:
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"
