"""Run as a program: kills processes that the harness has begun, once the harness has died.

    python _orphan_guard.py PID…

vLLM's engine works in processes of its own, which hold the GPUs' memory. They mostly notice that
the harness is gone, and not always. The guard reads its input, which nothing is ever written to,
and whose end is the harness's. A harness that ends its engine itself kills the guard before.

It imports nothing of the harness, and begins in a moment.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys


def main() -> None:
    """Wait for the end of the input, then kill."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    sys.stdin.buffer.read()
    for pid in map(int, sys.argv[1:]):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)


if __name__ == "__main__":
    main()
