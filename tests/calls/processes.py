"""Other processes that use the same file of replies."""

from __future__ import annotations

import contextlib
import math
import subprocess
import sys
import textwrap
from collections.abc import Collection, Iterator
from pathlib import Path

from harness.calls.reply_cache import ReplyCache

PRELUDE = """
import asyncio, os, signal, sys, time
from pathlib import Path
from harness.errors import StoreFailed
from tests.calls.paid import paid_calls
from harness.calls.reply_cache import Payment
from harness.calls.reply_cache import ReplyCache
from harness.records import Decoding, Message, Origin, Reply, Request

path = Path(sys.argv[1])

def key(number):
    return f"{number:032x}"

def request(number):
    return Request("m", (Message("user", str(number)),), Decoding(), 0, Origin("a", 0, 1))
"""

ROOT = Path(__file__).parents[2]


@contextlib.contextmanager
def process(script: str, *arguments: object) -> Iterator[subprocess.Popen[bytes]]:
    """A process that runs a script after the prelude; killed at the end where it still runs."""
    started = subprocess.Popen(
        [sys.executable, "-c", PRELUDE + textwrap.dedent(script), *map(str, arguments)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        bufsize=0,  # a line can be read, and the rest later
        cwd=ROOT,
    )
    try:
        yield started
    finally:
        started.kill()
        if started.stdout is not None and not started.stdout.closed:
            started.communicate(timeout=60)


def tell(started: subprocess.Popen[bytes]) -> None:
    """Send a line to a process that waits for one."""
    assert started.stdin is not None
    started.stdin.write(b"go\n")


def line(started: subprocess.Popen[bytes]) -> str:
    """The next line that a process says."""
    assert started.stdout is not None
    said = started.stdout.readline()
    assert said, "the process has ended"
    return said.decode().strip()


def output(started: subprocess.Popen[bytes]) -> str:
    """All that a process says until it has ended well."""
    said, complained = started.communicate(timeout=120)
    assert started.returncode == 0, complained.decode()
    return said.decode()


def spent(replies: ReplyCache, runs: Collection[str]) -> float:
    """What some runs have paid, by the book."""
    return math.fsum(usd for run in set(runs) for usd in replies.payments_of(run).values())
