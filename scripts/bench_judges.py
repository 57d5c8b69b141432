"""Judging while generating: a run with its judge (60 connections each, 200 ms), against each alone.

Each run executes the command in a separate process against the mock provider. Seconds are
those from the first call's start to the last one's end: a process's start is not in them.

    python scripts/bench_judges.py            the figures
    python scripts/bench_judges.py --check    and an error where both take 1.15 of the slower
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from harness.plugins.mock.server import MockServer
from harness.plugins.mock.wire import MockRequest

MOST = 1.15
ROOT = Path(__file__).parents[1]
console = Console()


def answer(ask: MockRequest, _: int) -> str:
    """Answer a judge with letters, and the model with a text unique to the question."""
    return "abcd" if ask.model == "judge" else f"It is {ask.digest}. The answer is abcd."


class Place:
    """A folder with runs, cache and run file."""

    def __init__(self, folder: Path, url: str, samples: int, connections: int) -> None:
        self.folder, self.samples = folder, samples
        limits = {"concurrency": connections}
        model = {"backend": "openai", "base_url": url}
        self.judge = {"name": "ai_parser", "model": {**model, "name": "judge"}, "limits": limits}
        self.run_file = {
            "task": {"name": "last_letter", "n": samples},
            "model": {**model, "name": "model"},
            "limits": limits,
        }

    def harness(self, *words: str, cache: str) -> None:
        environment = os.environ | {
            "HARNESS_RUNS_DIR": str(self.folder / "runs"),
            "HARNESS_CACHE_DIR": str(self.folder / cache),
            "OPENAI_API_KEY": "sk-none",
        }
        subprocess.run(
            [sys.executable, "-m", "harness", *words],
            cwd=ROOT, env=environment, check=True, capture_output=True,
        )  # fmt: skip

    def write(self, name: str, content: dict[str, Any]) -> str:
        path = self.folder / f"{name}.yaml"
        path.write_text(json.dumps(content))  # JSON is YAML
        return str(path)

    def lines(self, run: str, file: str) -> list[dict[str, Any]]:
        path = self.folder / "runs" / run / f"{file}.jsonl"
        return [json.loads(line) for line in path.read_text().splitlines()]

    def alone(self) -> tuple[float, float]:
        """Return the seconds of the model without a judge, and then of the judge alone."""
        self.harness("run", self.write("alone", self.run_file), cache="first")
        judge = self.write("judge", self.judge)
        self.harness("judge", "alone", "--judge", judge, cache="first")
        return seconds(self.lines("alone", "attempts")), seconds(self.lines("alone", "judgements"))

    def both(self) -> float:
        """Return the seconds of the model and the judge together."""
        content = {**self.run_file, "judges": [self.judge]}
        self.harness("run", self.write("both", content), cache="second")
        lines = [*self.lines("both", "attempts"), *self.lines("both", "judgements")]
        assert len(lines) == 2 * self.samples
        assert all(line["outcome"] == "ok" for line in lines)
        return seconds(lines)


def seconds(lines: list[dict[str, Any]]) -> float:
    """Return the seconds from the first call's start to the last one's end."""
    return float(
        max(line["ended_at"] for line in lines) - min(line["started_at"] for line in lines)
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--samples", type=int, default=2400)
    parser.add_argument("--connections", type=int, default=60)
    parser.add_argument("--latency", type=float, default=0.2)
    parser.add_argument("--check", action="store_true")
    asked = parser.parse_args()
    with (
        tempfile.TemporaryDirectory() as folder,
        MockServer(latency=asked.latency, answers=answer) as server,
    ):
        place = Place(Path(folder), server.base_url, asked.samples, asked.connections)
        model, judge = place.alone()
        both = place.both()
        requests = server.stats().requests
    ratio = both / max(model, judge)
    table = Table("what", "seconds", "samples/s")
    for name, found in {"model alone": model, "judge alone": judge, "both": both}.items():
        table.add_row(name, f"{found:.2f}", f"{asked.samples / found:,.0f}")
    console.print(table)
    console.print(f"both / slower alone: {ratio:.3f} (at most {MOST}); {requests:,} requests")
    assert requests == 4 * asked.samples
    sys.exit(asked.check and ratio > MOST)


if __name__ == "__main__":
    main()
