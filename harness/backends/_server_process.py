"""A server program that the harness has started and owns.

It holds a guard (`_process_guard`), which holds the server: so the server ends when it is to,
when the harness ends, and when the harness is killed.

>>> server = ServerProcess(["python", "-m", "http.server"], Path("it.log"))  # doctest: +SKIP
>>> server.ended()  # doctest: +SKIP
False
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from harness.errors import ConfigError, StoreFailed

GRACE_S = 10.0
"""Seconds between asking a server to end and killing it."""

TAIL_BYTES, TAIL_LINES = 20_000, 15


class ServerProcess:
    """Started with the object; ended by `end`, or with this process.

    command: the program and its arguments.
    log: file that its output is added to.

    Raises: ConfigError where the program cannot be started; StoreFailed where the log cannot be
        written.
    """

    def __init__(self, command: Sequence[str], log: Path, grace_s: float = GRACE_S) -> None:
        self.log = log
        self._grace_s = grace_s
        try:
            log.parent.mkdir(parents=True, exist_ok=True)
            with log.open("ab") as file:
                self._begins = file.tell()
                guard = [sys.executable, "-I", str(Path(__file__).with_name("_process_guard.py"))]
                self._guard = subprocess.Popen(  # noqa: S603
                    [*guard, str(log.absolute()), str(grace_s), *command],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=file,
                    start_new_session=True,
                )
        except OSError as error:
            raise StoreFailed(
                f"Cannot write the server's log {log}: {error.strerror}.", "Mend its permissions."
            ) from None
        assert self._guard.stdout is not None
        told = self._guard.stdout.readline()
        if not told:
            self.end()
            raise ConfigError(
                f"Cannot start {command[0]!r}: {self.last_words(1) or 'no such program'}.",
                "Set HARNESS_VLLM_COMMAND to what starts vLLM's server here.",
            )
        self._group = int(told)

    def ended(self) -> bool:
        """Whether it runs no more."""
        return self._guard.poll() is not None

    def end(self) -> None:
        """End the server and all that it has begun; waits until it is gone."""
        for pipe in (self._guard.stdin, self._guard.stdout):
            if pipe is not None:
                pipe.close()
        try:
            self._guard.wait(self._grace_s + 5)
        except subprocess.TimeoutExpired:
            self._guard.kill()
            self._guard.wait()
        if self._guard.returncode < 0 and hasattr(self, "_group"):
            # The guard was killed: what it held may be there still.
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._group, signal.SIGKILL)

    def last_words(self, lines: int = TAIL_LINES) -> str:
        """The last lines of its log since it was started."""
        return tail(self.log, self._begins, lines)


def tail(log: Path, begins: int = 0, lines: int = TAIL_LINES) -> str:
    """The last lines of a log, of what it has from a byte on; empty where it cannot be read."""
    try:
        with log.open("rb") as file:
            file.seek(max(begins, file.seek(0, os.SEEK_END) - TAIL_BYTES))
            said = file.read().decode(errors="replace")
    except OSError:
        return ""
    return "\n".join([line for line in said.splitlines() if line.strip()][-lines:])


def free_port() -> int:
    """A port of the loopback interface that nobody listens on now."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port
