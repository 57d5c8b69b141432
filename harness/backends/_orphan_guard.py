"""Run as a program: kills processes that the harness has begun, once the harness has died.

    python _orphan_guard.py

vLLM's engine works in processes of its own, which hold the GPUs' memory. They mostly notice that
the harness is gone, and not always: never while they load. The guard reads their numbers from
its input, a line each, as they are begun; the end of the input is the harness's. A harness that
has ended its engine itself kills the guard.

It imports nothing of the harness, and begins in a moment.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import Iterable
from pathlib import Path


def main() -> None:
    """Wait for the end of the input, then kill."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    kill([int(line) for line in sys.stdin])


def kill(pids: Iterable[int]) -> None:
    """Kill processes, and on Linux all that they have begun; nothing where they have ended."""
    doomed = list(pids)
    begun = _begun() if doomed else {}
    for pid in doomed:
        doomed += begun.get(pid, ())
    for pid in doomed:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)


def _begun() -> dict[int, list[int]]:
    """The children of each process of this machine, by their numbers."""
    found: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            # Behind the program's name, which may hold anything, brackets too.
            parent = stat.read_text(errors="replace").rpartition(")")[2].split()[1]
            found.setdefault(int(parent), []).append(int(stat.parent.name))
    return found


if __name__ == "__main__":
    main()
