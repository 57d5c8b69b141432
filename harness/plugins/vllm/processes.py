"""Starts and ends the local servers of this process."""

import contextlib
import os
import re
import socket
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from subprocess import DEVNULL, PIPE, Popen
from typing import BinaryIO

from harness.errors import StoreFailed
from harness.plugins.vllm.guard import kill

GRACE_S = 10.0  # between asking a server to end and killing it
PAUSE_S = 0.02
TAIL_BYTES = 20_000
TAIL_LINES = 100
MANY_FILES = 65_536  # number of open files to assume where the system sets no limit

ERROR = re.compile(r"(?:^|^\S+: |[\])] )(?P<said>(?:[\w.]*(?:Error|Exception): |error: ).+)")
"""Matches an error printed by Python or argparse, even after a program's name or a time."""


def _started(command: Sequence[str], stdin: int, output: BinaryIO | int) -> Popen[bytes]:
    """Start a program in a new session, so that Ctrl-C does not end it during calls in flight."""
    return Popen(command, stdin=stdin, stdout=output, stderr=output, start_new_session=True)  # noqa: S603


class Guard:
    """A child process that kills the watched processes if this process dies, even by kill -9."""

    def __init__(self) -> None:
        program = [sys.executable, "-I", str(Path(__file__).with_name("guard.py"))]
        self._process = _started(program, PIPE, DEVNULL)

    def watch(self, pid: int) -> None:
        """Watch a process and, on Linux, everything that it starts."""
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):  # the guard was killed
            self._process.stdin.write(b"%d\n" % pid)
            self._process.stdin.flush()

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()


class ServerProcess:
    """A server program that runs as a child process, started by the constructor.

    `end` kills it if stopping takes more than ``grace_s`` seconds. It is also killed if this
    process dies. Its output is appended to the file ``log``.
    """

    def __init__(
        self, command: Sequence[str], log: Path, grace_s: float = GRACE_S, url: str = ""
    ) -> None:
        self.log = log
        self.url = url
        self._grace_s = grace_s
        try:
            log.parent.mkdir(parents=True, exist_ok=True)
            output = log.open("ab")
        except OSError as error:
            problem = f"Cannot write the server's log {log}: {error.strerror}."
            raise StoreFailed(problem, "Fix its permissions.") from None
        self._guard = Guard()
        with output:
            self._begins = output.tell()
            self._process = _started(command, DEVNULL, output)
        self._guard.watch(self._process.pid)

    def has_ended(self) -> bool:
        """Return whether the server has ended. If so, kill the processes that it left behind."""
        try:
            options = os.WEXITED | os.WNOHANG | os.WNOWAIT
            if os.waitid(os.P_PID, self._process.pid, options) is None:
                return False
        except ChildProcessError:  # already reaped
            return True
        kill([self._process.pid])  # before the id can be reused
        self._process.wait()
        return True

    def end(self) -> None:
        """End the server and all processes that it has started, and wait until they are dead."""
        end = time.monotonic() + self._grace_s
        if not self.has_ended():
            self._process.terminate()
        while not self.has_ended():
            if time.monotonic() > end:
                kill([self._process.pid])
            time.sleep(PAUSE_S)
        self._guard.close()

    def last_words(self) -> str:
        return tail(self.log, self._begins)


def tail(log: Path, begins: int = 0) -> str:
    """Return the last 100 non-blank lines of a log, or "" if it cannot be read.

    It reads at most the last 20,000 bytes, and nothing before the offset ``begins``.
    """
    try:
        with log.open("rb") as file:
            file.seek(max(begins, file.seek(0, os.SEEK_END) - TAIL_BYTES))
            text = file.read().decode(errors="replace")
    except OSError:
        return ""
    return "\n".join([line for line in text.splitlines() if line.strip()][-TAIL_LINES:])


def errors_in(log: str) -> str:
    """Return the last 10 different errors in a log's text, or the whole text if there are none.

    >>> errors_in("usage: server [-h]\\n  [--dtype D]\\nserver: error: unrecognized arguments: --x")
    'error: unrecognized arguments: --x'
    """
    matches = map(ERROR.search, log.splitlines())
    errors = dict.fromkeys(match["said"][:500] for match in matches if match)
    return "\n".join(list(errors)[-10:]) or log


def free_port() -> int:
    """Return a free TCP port on 127.0.0.1."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


def open_files() -> int:
    """Return how many files may be open, at most 65,536, after raising a lower limit if allowed."""
    if sys.platform == "win32":  # no such limit
        return MANY_FILES
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    allowed = MANY_FILES if hard == resource.RLIM_INFINITY else min(hard, MANY_FILES)
    if soft != resource.RLIM_INFINITY and soft < allowed:
        with contextlib.suppress(ValueError, OSError):  # macOS has another, undocumented limit
            resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))
        soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return MANY_FILES if soft == resource.RLIM_INFINITY else min(soft, MANY_FILES)
