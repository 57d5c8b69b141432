"""What tests of servers that the harness owns share: the stand-in's command and its journal."""

from __future__ import annotations

import contextlib
import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

COMMAND = (sys.executable, str(Path(__file__).with_name("vllm_stand_in.py")))


class Journal:
    """What the stand-ins of a test have told."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "journal.jsonl"

    def lines(self, key: str) -> list[dict[str, Any]]:
        if not self.path.exists():
            return []
        told = [json.loads(line) for line in self.path.read_text().splitlines()]
        return [line for line in told if key in line]

    def pids(self) -> set[int]:
        """All processes: the servers, and the children that they leave behind."""
        servers = {line["pid"] for line in self.lines("starts")}
        return servers | {line["child"] for line in self.lines("child")}


def alive(pid: int) -> bool:
    """Whether a process runs: not one that has ended and waits for somebody to ask."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        if Path("/proc/self/stat").exists():
            return False
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, 0)
            return True
        return False
    return state != "Z"


def until(true: Callable[[], object], what: str, seconds: float = 60.0) -> None:
    """Wait for something to become true: no bound of time but for what never comes."""
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, f"never: {what}"
        time.sleep(0.02)
