"""Run as a program: holds a server, and ends it with all that it has begun.

    python _process_guard.py LOG GRACE_S COMMAND…

The server has a session of its own, so that a Ctrl-C in the terminal ends no answer that the
harness still waits for. The guard reads its own input, which nothing is ever written to: its
end says that the harness has ended, be it by kill -9, or wants the server ended. The server is
asked to end (SIGTERM) and given its grace, then it and all processes of its group are killed.
Where the server ends by itself, what it left behind is killed too, and the guard ends with its
exit code. Should the guard itself be killed, Linux kills the server.

It imports nothing of the harness, and begins in a moment.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import signal
import subprocess
import sys
import threading

PR_SET_PDEATHSIG = 1


def hold(log: str, grace_s: float, command: list[str]) -> int:
    """Run a command until it ends or the harness does; its exit code.

    Prints the number of its process group.

    log: file that its output is added to.
    grace_s: seconds between asking and killing.
    """
    with open(log, "ab") as output:  # noqa: PTH123
        held = subprocess.Popen(  # noqa: S603
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
            preexec_fn=_die_with_me,
        )
    print(held.pid, flush=True)  # noqa: T201
    gone_reader, gone_writer = os.pipe()

    def wait() -> None:
        # It is not reaped, so that its number stays its own until the group is killed.
        os.waitid(os.P_PID, held.pid, os.WEXITED | os.WNOWAIT)
        os.close(gone_writer)

    threading.Thread(target=wait, daemon=True).start()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda *_: sys.exit(0))
    try:
        ended, _, _ = select.select([sys.stdin.buffer, gone_reader], [], [])
        if gone_reader not in ended:
            held.send_signal(signal.SIGTERM)
            select.select([gone_reader], [], [], grace_s)
    finally:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(held.pid, signal.SIGKILL)
    return held.wait()


def _die_with_me() -> None:
    """Linux: the server dies when the guard is killed; elsewhere the harness sees to it."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


if __name__ == "__main__":
    code = hold(sys.argv[1], float(sys.argv[2]), sys.argv[3:])
    sys.exit(code if code >= 0 else 128 - code)
