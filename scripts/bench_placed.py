"""Speed of a model's copies on a Ray cluster, compared with the same model in this process.

The model answers after 50 ms. The cluster is this machine: the driver, Ray and the copies share
its cores. Seconds of starting Ray and the copies are not counted.

    python scripts/bench_placed.py

calls: the backend alone, without a run. run: a whole run, from the run file to the metrics.
beside idle Ray: the same in this process, while a cluster with idle copies runs here.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import os
import tempfile
import time
from pathlib import Path
from typing import Any

import uvloop
from rich.console import Console
from rich.table import Table

from harness.config.run_file import RunFile
from harness.config.settings import Settings
from harness.engine.executor import execute
from harness.engine.models import ModelBuilder, Resources
from harness.engine.preparation import prepare
from harness.records import Decoding, Message, Origin, Request

LATENCY_S = 0.05
CONCURRENCY = 500
LEAST = 4000  # calls a second through Ray
PROMPT = "Write a sentence of exactly 12 words whose third word is water. This is number %d."


def run_file(copies: int, samples: int) -> RunFile:
    """A run of 40 instances. Without copies, the model is in this process."""
    placement = {"engine": "ray", "replicas": copies, "cpus": 0.1} if copies else None
    model = {"backend": "simulated", "latency_s": LATENCY_S, "placement": placement}
    asked: dict[str, Any] = {"task": {"name": "collie"}, "model": model, "samples": samples}
    limits = {"concurrency": CONCURRENCY}
    return RunFile.model_validate({**asked, "limit": 40, "limits": limits})


async def calls(copies: int, count: int, resources: Resources, folder: Path) -> float:
    """Return the calls a second of the backend alone."""
    run = run_file(copies, 1)
    backend = ModelBuilder(resources, run.limits, folder).build(run.model).backend
    if not backend.ready:
        await backend.start(lambda _: None)
        await asyncio.sleep(10)  # for the other copies
    numbers, decoding = iter(range(count)), Decoding(temperature=0.7, max_tokens=1000)

    async def ask() -> None:
        for number in numbers:
            messages = (Message("user", PROMPT % number),)
            origin = Origin(f"number/{number}", 0, 1)
            await backend.generate(Request("", messages, decoding, 0, origin, seed=number))

    begun = time.perf_counter()
    async with asyncio.TaskGroup() as group:
        for _ in range(CONCURRENCY):
            group.create_task(ask())
    speed = count / (time.perf_counter() - begun)
    await backend.aclose()
    return speed


async def whole(copies: int, count: int, resources: Resources, folder: Path, name: str) -> float:
    """Return the calls a second of a run, from its first attempt to its last."""
    settings = resources.settings
    job = prepare(run_file(copies, count // 40), name, settings, resources=resources)
    await execute(job)
    times = [
        float(line.split(b'"ended_at":')[1].split(b",")[0])
        for line in job.folder.attempts.read_bytes().splitlines()
    ]
    return len(times) / (max(times) - min(times) + LATENCY_S)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=20_000)
    parser.add_argument("--copies", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--check", action="store_true", help=f"fail below {LEAST:,} calls a second")
    given = parser.parse_args()
    names = itertools.count()
    with tempfile.TemporaryDirectory(prefix="bench-placed-") as path:
        folder = Path(path)
        settings = Settings(runs_dir=folder, cache_dir=folder, data_dir=folder)
        table = Table("", "calls/s", "run, calls/s")
        best = 0.0
        with Resources(settings) as resources:
            for row, copies in {
                "in this process": 0,
                "placed": given.copies,
                "beside idle Ray": 0,
            }.items():
                speeds = [
                    uvloop.run(calls(copies, given.calls, resources, folder))
                    for _ in range(given.repeats)
                ]
                runs = [
                    uvloop.run(whole(copies, given.calls, resources, folder, f"run-{next(names)}"))
                    for _ in range(given.repeats)
                ]
                best = max(speeds) if copies else best
                table.add_row(
                    row, *(", ".join(f"{one:,.0f}" for one in many) for many in (speeds, runs))
                )
        console = Console()
        console.print(table)
        console.print(f"load average {os.getloadavg()[0]:.1f}, {os.cpu_count()} cores")
    if given.check and best < LEAST:
        raise SystemExit(f"below {LEAST:,} calls a second")


if __name__ == "__main__":
    main()
