"""Run as a program: kills what the harness has started, once the harness has died.

    python _guard.py MARKER

Its input is a pipe that nothing is ever written to: the end of the input is the end of the
harness, also by kill -9. Everything that the harness starts for one model, and everything that
those processes start in turn, has the marker in its environment. It imports nothing of the
harness, and starts in a moment.
"""

import contextlib
import os
import signal
import sys
import time
from pathlib import Path

VARIABLE = "HARNESS_OWNER"
ROUNDS, PAUSE_S = 200, 0.01


def kill_marked(marker: str) -> None:
    """Kill every process that was started with the marker in its environment (Linux)."""
    for _ in range(ROUNDS):  # one may start another in the meantime
        if not (found := marked(marker)):
            return
        # Stopped first, so that none of them reports the death of another.
        for number in (signal.SIGSTOP, signal.SIGKILL):
            for pid in found:
                with contextlib.suppress(OSError):
                    os.kill(pid, number)
        time.sleep(PAUSE_S)


def marked(marker: str) -> list[int]:
    """The processes with the marker in their environment."""
    wanted, found = f"{VARIABLE}={marker}".encode(), []
    for environment in Path("/proc").glob("[0-9]*/environ"):
        with contextlib.suppress(OSError):
            if wanted in environment.read_bytes().split(b"\0"):
                found.append(int(environment.parent.name))
    return found


if __name__ == "__main__":
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    sys.stdin.read()
    kill_marked(sys.argv[1])
