"""Running the command in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.cli import forked

ROOT = Path(__file__).parents[2]
COMMAND = [sys.executable, "-m", "harness"]
SECONDS = 120

forked.begin()


def harness(
    *arguments: str | Path, env: dict[str, str] | None = None, cwd: Path = ROOT, **options: Any
) -> subprocess.CompletedProcess[str]:
    """Run ``harness …`` to its end: forked, which is faster, where that makes no difference.

    options: of `subprocess.run`; with any, the command is begun from nothing.
    """
    given = [str(argument) for argument in arguments]
    env = dict(os.environ if env is None else env)
    if not options and forked.can_run(env):
        return forked.run(given, env, cwd, SECONDS)
    return subprocess.run(
        [*COMMAND, *given],
        capture_output=True, text=True, check=False, timeout=SECONDS, cwd=cwd, env=env, **options,
    )  # fmt: skip


def begun(*arguments: str | Path, **options: Any) -> subprocess.Popen[str]:
    """Begin ``harness …`` and leave it running."""
    return subprocess.Popen(
        [*COMMAND, *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        **options,
    )


def mistake(ended: subprocess.CompletedProcess[str]) -> str:
    """The message of a command that ended with a user's mistake: short, with no traceback."""
    assert ended.returncode == 1, ended.stdout + ended.stderr
    assert "Traceback" not in ended.stderr
    lines = ended.stderr.strip().splitlines()
    begins = next(number for number, line in enumerate(lines) if line.startswith("harness: "))
    message = lines[begins:]
    assert len(message) <= 3, message
    return "\n".join(message)
