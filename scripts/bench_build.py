"""Time and memory of building COLLIE's 13 structures from 300 documents.

    python scripts/bench_build.py [--megabytes 20] [--jobs 2] [--check]

The corpus is made by rule (`tests/plugins/builders/collie/corpus.py`). The time is that of the
whole command, audit included; the memory is that of its largest process. --check exits with 1 if
the build is slower than 20 MB a minute, memory grows with the corpus, a build in one process
differs, a structure has fewer than 50 instances, or a reference answer fails.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from harness.datasets.folder import read_jsonl  # noqa: E402
from harness.plugins.builders.collie import AUDIT, INSTANCES  # noqa: E402
from tests.plugins.builders.collie.corpus import write_corpus, write_words  # noqa: E402

DOCUMENTS = 300
LEAST_MB_A_MINUTE = 20.0
LEAST_INSTANCES = 50
MOST_GROWTH = 1.5
"""Growth of memory, from a quarter of the corpus to all of it."""


def built(corpus: Path, words: Path, out: Path, jobs: int) -> tuple[float, float]:
    """Seconds of a build, and the MB of its largest process."""
    sources = ["--source", f"corpus={corpus}", "--source", f"words={words}"]
    return timed([*sources, "--out", str(out), "--jobs", str(jobs)])


def timed(arguments: list[str]) -> tuple[float, float]:
    """Seconds of a build with these arguments, and the MB of its largest process."""
    command = [sys.executable, "-m", "harness", "build", "collie", *arguments]
    began = time.perf_counter()
    process = subprocess.Popen(command, cwd=ROOT, stderr=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        sys.exit(f"The build failed: {' '.join(command)}")
    return time.perf_counter() - began, used.ru_maxrss / 1024


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--megabytes", type=float, default=20)
    options.add_argument("--jobs", type=int, default=2)
    options.add_argument("--check", action="store_true")
    asked = options.parse_args()
    failures = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        words = write_words(folder / "words.txt")
        size = int(asked.megabytes * 1e6 / DOCUMENTS)
        whole = write_corpus(folder / "whole", DOCUMENTS, size)
        quarter = write_corpus(folder / "quarter", DOCUMENTS, size // 4)
        megabytes = sum(path.stat().st_size for path in whole.iterdir()) / 1e6
        _, less_memory = built(quarter, words, folder / "of_quarter", asked.jobs)
        seconds, memory = built(whole, words, folder / "of_whole", asked.jobs)
        rate = 60 * megabytes / seconds
        print(f"{megabytes:.1f} MB in {DOCUMENTS} documents, {asked.jobs} processes")
        print(f"{seconds:.1f} s, {rate:.0f} MB/minute")
        print(f"{memory:.0f} MB in the largest process, {less_memory:.0f} MB for a quarter of it")
        instances = Counter(row["structure"] for row in read_jsonl(folder / "of_whole" / INSTANCES))
        failing = [
            row["id"] for row in read_jsonl(folder / "of_whole" / AUDIT) if not row["passes"]
        ]
        fewest, n = min(instances.items(), key=lambda pair: pair[1])
        print(f"{sum(instances.values()):,} instances of {len(instances)} structures, at least {n}")
        print(f"{len(failing)} reference answers fail")
        if asked.check:
            built(whole, words, folder / "again", 1)
            same = all(
                (folder / "of_whole" / file.name).read_bytes() == file.read_bytes()
                for file in (folder / "again").iterdir()
                if file.suffix == ".jsonl"
            )
            print(f"built by one process: {'the same' if same else 'another'}")
            if rate < LEAST_MB_A_MINUTE:
                failures.append(f"slower than {LEAST_MB_A_MINUTE:.0f} MB a minute")
            if memory > MOST_GROWTH * less_memory:
                failures.append("memory grows with the corpus")
            if not same:
                failures.append("two builds differ")
            if len(instances) < 13 or n < LEAST_INSTANCES:
                failures.append(f"{fewest} has {n} instances")
            if failing:
                failures.append(f"reference answers fail, such as {failing[0]}")
    if failures:
        sys.exit("; ".join(failures))


if __name__ == "__main__":
    main()
