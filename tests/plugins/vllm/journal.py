"""The command of the stand-in for vLLM's server, and its journal."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

COMMAND = (sys.executable, str(Path(__file__).with_name("stand_in.py")))


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
