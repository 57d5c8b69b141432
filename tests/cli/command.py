"""Running the real command in a process of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
COMMAND = [sys.executable, "-m", "harness"]


def harness(*arguments: str | Path, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run ``harness …`` to its end."""
    return subprocess.run(
        [*COMMAND, *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        cwd=options.pop("cwd", ROOT),
        **options,
    )


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
