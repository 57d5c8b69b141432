"""Time and memory of scoring and comparing runs of many attempts.

    python scripts/bench_score.py                        # 1,000,000 attempts
    python scripts/bench_score.py --attempts 10000000 --check

Two runs of a task of rows are written, with ten samples of each row in an order other than that of
the data. Each command is a process of its own, first on one core and then on all of them. Memory
is that of the command and its processes together: the sum of their proportional set sizes, sampled
five times a second. --check exits with 1 if it reaches 1 GB, or if scores.jsonl differs between one
core and all of them.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import os
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from harness.config.run_file import RunFile
from harness.config.settings import Settings
from harness.engine.resolving import build_task
from harness.records import Attempt, Usage
from harness.store.files import write_json
from harness.store.json_lines import encode
from harness.store.run_folder import SCORES, RunFolder

MOST_BYTES = 10**9
WORDS = ("alder", "birch", "cedar", "maple", "rowan", "willow", "aspen", "hazel")


def place_of(number: int) -> int:
    """The place in `WORDS` of the word that a row asks for."""
    return number * 7 % len(WORDS)


def write_rows(path: Path, count: int) -> None:
    with path.open("w") as file:
        for number in range(count):
            word = WORDS[place_of(number)]
            asked = f"Write the word {word} and nothing else."
            file.write(
                f'{{"id":"row/{number}","prompt":"{asked} ({number})","target":"{word}",'
                f'"topic":"t{number % 13}"}}\n'
            )


def write_run(root: Path, name: str, rows: Path, count: int, samples: int, share: float) -> None:
    """Write a finished run, of whose answers the ``share`` are right."""
    draw = random.Random(name)
    folder = RunFolder(root, name)
    folder.path.mkdir(parents=True)
    task = {"name": "jsonl", "path": str(rows), "checks": ["exact_match"], "groups": ["topic"]}
    model = {"backend": "openai", "name": name}
    run = RunFile.model_validate({"task": task, "model": model, "samples": samples})
    folder.write_config(run)
    instances = count // samples
    session = {"started_at": 1.7e9, "ended_at": 1.7e9 + count / 200, "ended": "finished"}
    about = {"schema_version": 1, "run": name, "task": "jsonl", "model": name, "samples": count}
    built = build_task(run, Settings())
    about |= {"fingerprint": dict(built.fingerprint())}
    write_json(folder.manifest, {**about, "owed": 0, "sessions": [session], "started_at": 1.7e9})
    texts = {passed: [word if passed else f"not {word}" for word in WORDS] for passed in (0, 1)}
    first = list(islice(built.instances(), len(WORDS)))
    scores = {
        passed: [built.score(one, said[place_of(n)]) for n, one in enumerate(first)]
        for passed, said in texts.items()
    }
    stride = next(n for n in (7_919, 7_927, 7_933) if instances % n)
    with folder.attempts.open("wb") as file:
        for place in range(instances):
            number = place * stride % instances
            for sample in range(samples):
                passed = draw.random() < share
                ended = 1.7e9 + (place * samples + sample) / 200
                attempt = Attempt(
                    v=1,
                    instance=f"row/{number}",
                    sample=sample,
                    round=1,
                    groups={"topic": f"t{number % 13}"},
                    cluster=f"{number:032x}",
                    request={"messages_hash": f"{number:032x}"},
                    outcome="ok",
                    started_at=ended - 1,
                    ended_at=ended,
                    text=texts[passed][place_of(number)],
                    finish_reason="stop",
                    passed=passed,
                    scores=scores[passed][number % len(WORDS)],
                    call_id=f"{number * samples + sample:032x}",
                    usage=Usage(20, 3),
                    cost_usd=0.001,
                    latency_s=1.0,
                )
                file.write(encode(attempt) + b"\n")


class Spent(NamedTuple):
    """What a command took."""

    seconds: float
    cpu: float  # seconds of all its processes
    peak: int  # bytes, of all its processes
    most_processes: int


def tree(pid: int) -> list[int]:
    """The ids of a process and of its descendants (Linux)."""
    found = [pid]
    for one in found:
        for children in Path(f"/proc/{one}/task").glob("*/children"):
            with contextlib.suppress(OSError):
                found += map(int, children.read_text().split())
    return found


def memory(pid: int) -> int:
    """The proportional set size of a process, in bytes, or 0 if it has ended (Linux)."""
    try:
        rollup = Path(f"/proc/{pid}/smaps_rollup").read_text()
    except OSError:
        return 0
    return int(rollup.partition("Pss:")[2].split()[0]) * 1024 if "Pss:" in rollup else 0


def spent(command: Sequence[str], root: Path, cores: set[int]) -> Spent:
    """Run a command of the harness on some of the cores."""
    env = {"RAY_ADDRESS": "local", **os.environ, "HARNESS_RUNS_DIR": str(root)}
    began = time.perf_counter()
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    process = subprocess.Popen(
        [sys.executable, "-m", "harness", *command],
        env=env,
        stdout=subprocess.DEVNULL,
        preexec_fn=lambda: os.sched_setaffinity(0, cores),
    )
    peak = most = 0
    while process.poll() is None:
        ids = tree(process.pid)
        peak, most = max(peak, sum(map(memory, ids))), max(most, len(ids))
        time.sleep(0.2)
    seconds = time.perf_counter() - began
    if process.returncode not in (0, 3):
        sys.exit(f"harness {' '.join(command)}: exit code {process.returncode}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - used.ru_utime - used.ru_stime
    return Spent(seconds, cpu, peak, most)


def scores_sha256(path: Path) -> str:
    """The hash of scores.jsonl without its first line, which holds the time."""
    with path.open("rb") as file:
        file.readline()
        return hashlib.file_digest(file, "sha256").hexdigest()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--attempts", type=int, default=1_000_000)
    parser.add_argument("--samples", type=int, default=10, help="of each row")
    parser.add_argument("--folder", type=Path, help="where the runs are written (kept)")
    parser.add_argument("--no-reference", action="store_true", help="all cores only")
    parser.add_argument("--only", nargs="*", default=["score", "compare"], help="score or compare")
    parser.add_argument("--check", action="store_true")
    asked = parser.parse_args()
    every = os.sched_getaffinity(0)
    failed = False
    with tempfile.TemporaryDirectory() as temporary:
        root = asked.folder or Path(temporary)
        rows = root / "rows.jsonl"
        if not rows.exists():
            write_rows(rows, asked.attempts // asked.samples)
            for name, share in (("one", 0.6), ("two", 0.62)):
                write_run(root, name, rows, asked.attempts, asked.samples, share)
        size = (root / "one/attempts.jsonl").stat().st_size
        print(f"{asked.attempts:,} attempts in each run, {size / 1e9:.2f} GB; {len(every)} cores")
        commands = {
            "score": ("score", "one"),
            "compare": ("compare", "one", "two", "--by", "topic"),
        }
        scores = set()
        for name in asked.only:
            for cores in [every] if asked.no_reference else [{min(every)}, every]:
                one = spent(commands[name], root, cores)
                print(
                    f"{name:<9} on {len(cores)}: {one.seconds:7.1f} s, {one.cpu:7.1f} s of CPU, "
                    f"{asked.attempts / one.seconds:9,.0f} attempts a second, "
                    f"{one.peak / 1e6:6.0f} MB in at most {one.most_processes} processes",
                    flush=True,
                )
                failed |= one.peak >= MOST_BYTES
                if name != "compare":
                    scores.add(scores_sha256(root / "one" / SCORES))
        failed |= len(scores) > 1
    return int(failed and asked.check)


if __name__ == "__main__":
    sys.exit(main())
