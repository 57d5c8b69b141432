"""Runs in processes of their own, on a cluster or without."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

COMMAND = (sys.executable, "-m", "harness")
TIMES = ("run", "started_at", "ended_at", "latency_s", "cached")


class PlacedRun:
    """A run of 40 instances in a folder. Without a cluster's address, Ray is not found."""

    def __init__(self, folder: Path, address: str = "") -> None:
        folder.mkdir(exist_ok=True)
        self.folder, self._address = folder, address
        self._attempts = folder / "runs" / "run" / "attempts.jsonl"

    @contextlib.contextmanager
    def started(self, model: dict[str, Any], **given: Any) -> Iterator[subprocess.Popen[bytes]]:
        """The process of `harness run`, which is killed if the block fails."""
        asked = {"task": {"name": "collie"}, "limit": 40, "model": model, **given}
        (self.folder / "run.yaml").write_text(json.dumps(asked))
        with (self.folder / "output").open("ab") as output:
            process = subprocess.Popen(
                [*COMMAND, "run", "run.yaml"],
                stdout=output,
                stderr=output,
                cwd=self.folder,
                env=self._environment(),
            )
        try:
            yield process
        finally:
            process.kill()
            process.wait()

    def harness(self, *arguments: str) -> str:
        """What another command of the harness prints in the run's folder."""
        ended = subprocess.run(
            [*COMMAND, *arguments],
            stdout=subprocess.PIPE,
            check=False,
            cwd=self.folder,
            env=self._environment(),
        )
        return ended.stdout.decode()

    def _environment(self) -> dict[str, str]:
        dirs = {f"HARNESS_{one.upper()}_DIR": str(self.folder / one) for one in ("runs", "cache")}
        return {**os.environ, **dirs, "RAY_ADDRESS": self._address}

    def output(self) -> str:
        """What the run has printed."""
        return (self.folder / "output").read_text()

    def written(self) -> int:
        """The number of recorded attempts."""
        path = self._attempts
        return path.read_bytes().count(b"\n") if path.exists() else 0

    def attempts(self) -> dict[tuple[str, int, int], dict[str, Any]]:
        """The recorded attempts, without what depends on time. None is recorded twice."""
        return _lines(self._attempts)

    def judgements(self) -> dict[tuple[str, int, int], dict[str, Any]]:
        """The recorded judgements of the run's judge, likewise."""
        return _lines(self._attempts.with_name("judgements.jsonl"))


def _lines(path: Path) -> dict[tuple[str, int, int], dict[str, Any]]:
    written = path.read_text() if path.exists() else ""
    lines = [json.loads(line) for line in written.splitlines(keepends=True) if line[-1] == "\n"]
    found = {}
    for line in lines:
        found[line["instance"], line["sample"], line["round"]] = line
        for key in TIMES:
            line.pop(key, None)
    assert len(found) == len(lines)
    return found
