"""A program that kills the processes started by the harness when the harness dies.

The harness writes the id of each process that it starts to this program's input, one per line. The
input closes when the harness ends, even by kill -9. vLLM's own processes do not always notice that
the harness has ended, and never while they load. To start quickly, the program imports nothing from
the harness.
"""

import contextlib
import os
import signal
import sys
from collections.abc import Iterable
from pathlib import Path


def kill(pids: Iterable[int]) -> None:
    """Kill processes, the groups that they lead and, on Linux, their descendants."""
    leaders = list(pids)
    doomed = [*leaders]
    children = _children() if leaders else {}
    for pid in doomed:
        doomed += children.get(pid, ())
    for pid in doomed:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)
    for pid in leaders:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(pid, signal.SIGKILL)


def _children() -> dict[int, list[int]]:
    """Map the ids of processes to those of their children, from ``/proc``."""
    children: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            # Fields after the program's name, which may contain anything, even brackets.
            parent = stat.read_text(errors="replace").rpartition(")")[2].split()[1]
            children.setdefault(int(parent), []).append(int(stat.parent.name))
    return children


if __name__ == "__main__":
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    kill([int(line) for line in sys.stdin])
