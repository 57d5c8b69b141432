"""Measure what rows with their own ``checks`` cost, compared with the same checks in the run file.

    python scripts/bench_jsonl.py [--rows 6000] [--repeat 3]

For each form it runs one simulated run from start to end, and prints the seconds and their ratio;
then the seconds of one pass over the task's instances. Best of the repetitions.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from harness.datasets.folder import DataFolder
from harness.tasks import JsonlTask

CHECK = {"exact_match": {"ignore_case": True}}
WORDS = {"word_count": {"at_most": 60}, "of": "text", "as": "short"}


def write(folder: Path, rows: int, own: bool) -> Path:
    """A run file and its rows, with the checks in the rows or in the run file."""
    name = "own" if own else "shared"
    with (folder / f"{name}.jsonl").open("w") as file:
        for number in range(rows):
            row: dict[str, object] = {"id": number, "question": f"Word {number}?", "target": "a"}
            if own:
                row["checks"] = [CHECK, WORDS]
            file.write(json.dumps(row) + "\n")
    run = {
        "task": {
            "name": "jsonl",
            "path": str(folder / f"{name}.jsonl"),
            "prompt": "{{ question }}",
            "checks": [] if own else [CHECK, WORDS],
        },
        "model": {"backend": "simulated"},
    }
    path = folder / f"{name}.yaml"
    path.write_text(json.dumps(run))
    return path


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    arguments.add_argument("--rows", type=int, default=6_000)
    arguments.add_argument("--repeat", type=int, default=3)
    given = arguments.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        best: dict[str, float] = {}
        passes: dict[str, list[float]] = {}
        for attempt in range(given.repeat):
            environment = os.environ | {
                "HARNESS_RUNS_DIR": str(folder / f"runs{attempt}"),
                "HARNESS_CACHE_DIR": str(folder / f"cache{attempt}"),
            }
            for own in (False, True):
                path = write(folder, given.rows, own)
                began = time.perf_counter()
                command = [sys.executable, "-m", "harness", "run", str(path)]
                subprocess.run(command, env=environment, check=True, capture_output=True)
                seconds = time.perf_counter() - began
                best[path.stem] = min(best.get(path.stem, seconds), seconds)
                checks = [] if own else [CHECK, WORDS]
                task = JsonlTask(
                    str(path.with_suffix(".jsonl")),
                    prompt="{{ question }}",
                    checks=checks,
                    data=DataFolder(folder),
                )
                passes[path.stem] = []
                for _ in range(2):
                    began = time.perf_counter()
                    for _ in task.instances():
                        pass
                    passes[path.stem].append(time.perf_counter() - began)
    print(f"{given.rows:,} rows        run   first pass   second pass")
    for name, seconds in best.items():
        first, second = passes[name]
        print(f"{name:<10}  {seconds:>8.2f} s  {first:>8.3f} s  {second:>9.3f} s")
    print(f"ratio       {best['own'] / best['shared']:>8.2f}")


if __name__ == "__main__":
    main()
