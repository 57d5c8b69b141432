"""Processes that share work: in order, a few pieces at a time, and no orphans."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.errors import ConfigError, HarnessError
from harness.workers import MAX_PENDING_PER_PROCESS, Workers
from tests.backends.stand_ins import alive


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
        found = workers.map_in_order(squared, pieces())
        assert next(found) == 0
        assert len(taken) <= 2 * MAX_PENDING_PER_PROCESS
        assert list(found) == [number * number for number in range(1, 40)]
        assert list(workers.map_in_order(squared, [3, 4, 5])) == [9, 16, 25]
        with pytest.raises(ConfigError, match="negative"):
            list(workers.map_in_order(squared, [1, -1, 2, 3]))
        assert list(workers.map_in_order(squared, [6, 7])) == [36, 49]


def test_a_little_work_begins_no_process() -> None:
    with Workers(8) as workers:
        assert list(workers.map_in_order(_own_id, [1])) == [os.getpid()]
        assert list(workers.map_in_order(_own_id, [])) == []


def _own_id(_: int) -> int:
    return os.getpid()


def test_the_calling_process_begins_and_others_help_if_there_is_more_to_do() -> None:
    with Workers(2, start_after_s=60.0) as workers:
        assert set(workers.map_in_order(_own_id, range(50))) == {os.getpid()}
    with Workers(2, start_after_s=0.2) as workers:
        found = list(workers.map_in_order(_slow_id, range(40)))
    assert found[0] == os.getpid()
    assert set(found[-4:]).isdisjoint({os.getpid()})


def _slow_id(_: int) -> int:
    time.sleep(0.02)
    return os.getpid()


class Unpicklable:
    def __reduce__(self) -> str:
        raise TypeError("cannot be pickled")


def test_a_piece_that_cannot_be_sent_is_worked_on_here() -> None:
    pieces = [1, Unpicklable(), 2]
    with Workers(2) as workers:
        found = list(workers.map_in_order(_own_id_of, pieces))
    assert found[1] == os.getpid()
    assert os.getpid() not in (found[0], found[2])


def _own_id_of(_: object) -> int:
    return os.getpid()


class Odd(Exception):
    def __init__(self, one: int, other: int) -> None:
        super().__init__(f"{one} and {other}")


def _fails(number: int) -> None:
    print("not an answer")
    if number:
        raise Odd(number, number)
    raise ValueError("wrong value")


def test_an_unexpected_error_has_the_traceback_of_its_process() -> None:
    with Workers(2) as workers:
        with pytest.raises(ValueError, match="wrong value") as raised:
            list(workers.map_in_order(_fails, [0, 0]))
        assert "in _fails" in "".join(raised.value.__notes__)
        with pytest.raises(RuntimeError, match="Odd: 1 and 1"):
            list(workers.map_in_order(_fails, [1, 1]))


def test_a_killed_process_is_reported_and_not_waited_for() -> None:
    with Workers(2) as workers, pytest.raises(HarnessError, match="ended before its work"):
        list(workers.map_in_order(killed, range(8)))


def test_processes_end_with_the_one_that_began_them(tmp_path: Path) -> None:
    (tmp_path / "work.py").write_text(
        "import os, time\n"
        "from pathlib import Path\n"
        "def work(n):\n"
        f"    Path({str(tmp_path)!r}, str(os.getpid())).touch()\n"
        "    time.sleep(600)\n"
    )
    script = tmp_path / "begin.py"
    script.write_text(
        "from harness.workers import Workers\n"
        "from work import work\n"
        "with Workers(2) as workers:\n"  # not run again by the processes
        "    list(workers.map_in_order(work, range(4)))\n"
    )
    process = subprocess.Popen([sys.executable, script])
    while len(ids := [int(path.name) for path in tmp_path.iterdir() if path.name.isdigit()]) < 2:
        assert process.poll() is None
        time.sleep(0.05)
    process.kill()
    process.wait()
    for one in ids:
        while alive(one):  # the test's own limit of time ends it where they stay
            time.sleep(0.05)


def test_a_module_of_the_current_folder_is_not_executed(tmp_path: Path) -> None:
    """The current folder may be that of somebody else's run."""
    for module in ("re", "typing", "harness", "msgspec"):
        (tmp_path / f"{module}.py").write_text("import os; os._exit(9)")
    script = (
        "from harness.workers import Workers\n"
        "with Workers(2) as workers:\n"
        "    print(list(workers.map_in_order(abs, iter([-1, 2]))))\n"
    )
    command = [sys.executable, "-P", "-c", script]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout == "[1, 2]\n"
