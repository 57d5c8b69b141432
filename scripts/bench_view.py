"""What `harness view` costs with a large run, and what it costs a run that it follows.

    python scripts/bench_view.py                   # 1,000,000 attempts
    python scripts/bench_view.py --attempts 100000 --pairs 5

Times are of requests to a server in a process of its own, in seconds; the reference is the time in
which a bare loop reads the lines of the same file. The throughput is that of runs against the
simulated provider, in pairs: one alone, and one with a page open that asks for everything that the
real page asks for, whenever an event announces a change.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import httpx2

from harness.config.run_file import RunFile
from harness.mock import MockServer
from harness.records import Attempt, Score, Usage
from harness.store.files import write_json
from harness.store.json_lines import encode
from harness.store.run_folder import RunFolder

CALLS = 20_000
FILTERS = {
    "all": "",
    "failed": "verdict=failed",
    "group": "in.structure=s3",
    "score": "score=style&sort=-big",
    "outcome": "outcome=truncated",
    "far page": "verdict=passed&from=400000&to=400200",
}


def make_run(root: Path, count: int) -> RunFolder:
    """Write a finished run with four samples of each instance."""
    draw = random.Random(0)
    words = ["".join(draw.choices("abcdefghijklmnopqrstuvwxyz", k=6)) for _ in range(8_000)]
    texts = [" ".join(draw.choices(words, k=120)) for _ in range(2_000)]
    folder = RunFolder(root, "big")
    folder.path.mkdir(parents=True)
    model = {"backend": "openai", "name": "m"}
    folder.write_config(RunFile.model_validate({"task": {"name": "collie"}, "model": model}))
    session = {"started_at": 1.7e9, "ended_at": 1.7e9 + count / 200, "ended": "finished"}
    about = {"schema_version": 1, "run": "big", "task": "collie", "model": "m", "samples": count}
    write_json(folder.manifest, {**about, "owed": 0, "sessions": [session], "started_at": 1.7e9})
    with folder.attempts.open("wb") as file:
        for number in range(count):
            instance, sample = divmod(number, 4)
            passed, took = draw.random() < 0.6, draw.expovariate(0.5)
            ended = 1.7e9 + number / 200
            rule = {"constraint": "two sentences", "passed": passed, "observed": 3, "target": 2}
            attempt = Attempt(
                v=1,
                instance=f"bench/{instance:06}",
                sample=sample,
                round=1,
                groups={"structure": f"s{instance % 13}"},
                cluster=f"{instance:032x}",
                request={"messages": [{"role": "user", "content": texts[instance % 2_000]}]},
                outcome="truncated" if number % 100 == 7 else "ok",
                started_at=ended - took,
                ended_at=ended,
                text=f"{texts[number * 7 % 2_000]} {number}",
                passed=passed,
                scores={
                    "rules": Score(passed, passed, "too long", {"constraints": [rule]}),
                    "style": Score(draw.random()),
                },
                call_id=f"{number:032x}",
                usage=Usage(100, 200),
                cost_usd=0.001,
                latency_s=took,
            )
            file.write(encode(attempt) + b"\n")
    return folder


@contextlib.contextmanager
def page(root: Path) -> Iterator[tuple[str, str, int]]:
    """A page's server in a process of its own: its origin, token and pid."""
    command = [sys.executable, "-m", "harness", "view", "--no-browser"]
    env = {**os.environ, "HARNESS_RUNS_DIR": str(root)}
    process = subprocess.Popen(
        command, env=env, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    assert process.stdout is not None
    origin, _, token = process.stdout.readline().strip().partition("/?token=")
    try:
        yield origin, token, process.pid
    finally:
        process.send_signal(signal.SIGINT)
        process.wait()


def client(origin: str, token: str) -> httpx2.Client:
    headers = {"authorization": f"Bearer {token}"}
    return httpx2.Client(base_url=origin, headers=headers, timeout=600)


def memory(pid: int) -> float:
    """The largest resident memory of a process so far, in MB (Linux)."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) / 1024


def opening(root: Path, folder: RunFolder) -> None:
    began = time.perf_counter()
    with folder.attempts.open("rb") as file:
        lines = sum(1 for _ in file)
    reference = time.perf_counter() - began
    size = folder.attempts.stat().st_size / 1e9
    print(f"{lines:,} attempts, {size:.2f} GB; reference (reading its lines): {reference:.2f} s")
    for state in ("without a saved index", "with a saved index"):
        print(state)
        began = time.perf_counter()
        with page(root) as (origin, token, pid), client(origin, token) as web:

            def timed(name: str, path: str) -> Any:
                start = time.perf_counter()
                reply = web.get(path)
                took = time.perf_counter() - start
                reply.raise_for_status()
                print(f"  {name:<26}{took:8.2f} s  {took / reference:6.2f} x the reference")
                return reply.json() if "/api/" in path else None

            web.get("/api/runs").raise_for_status()
            web.get("/runs/big/").raise_for_status()
            first = web.get("/runs/big/api/cases").json()
            took = time.perf_counter() - began
            print(f"  opened, start included    {took:8.2f} s  ({first['cases']:,} cases so far)")
            while web.get("/runs/big/api/cases?to=1").json()["cases"] < lines:
                time.sleep(0.2)
            took = time.perf_counter() - began
            print(f"  all cases are there       {took:8.2f} s")
            while not web.get("/runs/big/api/overview").json()["runs"]:
                time.sleep(0.2)
            took = time.perf_counter() - began
            print(f"  the overview is there     {took:8.2f} s")
            if state.startswith("with a"):
                for name, query in FILTERS.items():
                    timed(f"filter: {name}", f"/runs/big/api/cases?{query}")
                timed("index", "/runs/big/api/index")
                timed("timeline", "/runs/big/api/timelines")
                timed("entry", "/runs/big/api/entry?instance=bench/000777")
                found = timed("search: first reply", f"/runs/big/api/cases?q=%20{lines - 3}")
                start = time.perf_counter()
                while found["done"] < 1:
                    found = web.get(f"/runs/big/api/cases?q=%20{lines - 3}").json()
                took = time.perf_counter() - start
                print(f"  search: the whole file    {took:8.2f} s  ({found['cases']} found)")
            else:
                while not (folder.path / ".view-index").exists():
                    time.sleep(0.2)
            print(f"  memory at most            {memory(pid):8.0f} MB")


async def follow(origin: str, token: str) -> None:
    """Ask for what the page asks for, whenever the server says that something changed."""
    headers = {"authorization": f"Bearer {token}"}
    async with httpx2.AsyncClient(base_url=origin, headers=headers, timeout=None) as web:
        while not (await web.get("/api/runs")).json()["runs"]:  # noqa: ASYNC110
            await asyncio.sleep(0.1)
        async with web.stream("GET", "/runs/run/api/events") as events:
            async for line in events.aiter_lines():
                if line.startswith("data:"):
                    for path in ("overview", "index", "cases?from=0&to=200", "timelines"):
                        await web.get(f"/runs/run/api/{path}")


class Spent(NamedTuple):
    """What a run of `CALLS` calls took: calls per second, and processor seconds."""

    speed: float
    run: float  # processor seconds of the run
    page: float  # processor seconds of the page's server


def processor_s(pid: int) -> float:
    """Wait for a process, and return the processor time that it took, in seconds."""
    usage = os.wait4(pid, 0)[2]
    return usage.ru_utime + usage.ru_stime


def work(followed: bool) -> Spent:
    """Run `CALLS` calls, while a page is open or without one."""
    with tempfile.TemporaryDirectory() as folder, MockServer(latency=0.05) as server:
        env = {**os.environ, "HARNESS_CACHE_DIR": folder, "OPENAI_API_KEY": "not-a-key"}
        env["HARNESS_RUNS_DIR"] = f"{folder}/runs"
        run = {
            "task": {"name": "last_letter", "n": 1_000},
            "model": {"backend": "openai", "name": "m", "base_url": server.base_url},
            "samples": CALLS // 1_000,
            "limits": {"concurrency": 200},
        }
        file = Path(folder) / "run.yaml"
        file.write_text(json.dumps(run))
        quiet: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        page_s = 0.0
        with contextlib.ExitStack() as stack:
            if followed:
                origin, token, pid = stack.enter_context(page(Path(folder) / "runs"))
                watcher = [sys.executable, __file__, "--watch", origin, token]
                watching = subprocess.Popen(watcher, **quiet)
                stack.callback(watching.wait)
                stack.callback(watching.kill)
                idle = cpu_so_far(pid)
            command = [sys.executable, "-m", "harness", "run", str(file)]
            working = subprocess.Popen(command, env=env, **quiet)
            while (begun := server.stats().answered) < CALLS // 10:
                time.sleep(0.01)
            start = time.perf_counter()
            while (done := server.stats().answered) < CALLS * 9 // 10:
                time.sleep(0.01)
            took = time.perf_counter() - start
            run_s = processor_s(working.pid)
            working.returncode = 0
            if followed:
                page_s = cpu_so_far(pid) - idle
    return Spent((done - begun) / took, run_s, page_s)


def cpu_so_far(pid: int) -> float:
    """The processor time of a process so far, in seconds (Linux)."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def throughput(pairs: int) -> None:
    print(f"Runs of {CALLS:,} calls: calls per second, processor seconds")
    found: dict[bool, list[Spent]] = {True: [], False: []}
    for number in range(pairs):
        for followed in (False, True) if number % 2 else (True, False):
            found[followed].append(work(followed))
        alone, with_page = found[False][-1], found[True][-1]
        print(
            f"  alone {alone.speed:5.0f}/s {alone.run:5.1f} s, "
            f"followed {with_page.speed:5.0f}/s {with_page.run:5.1f} s "
            f"and the page {with_page.page:4.1f} s"
        )
    for name, of in (("speed", 0), ("the run's processor time", 1)):
        ratios = [b[of] / a[of] for a, b in zip(found[False], found[True], strict=True)]
        print(f"  median ratio of {name}, followed to alone: {statistics.median(ratios):.3f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--attempts", type=int, default=1_000_000)
    parser.add_argument("--pairs", type=int, default=3, help="of runs, alone and followed")
    parser.add_argument("--watch", nargs=2, metavar=("ORIGIN", "TOKEN"), help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.watch:
        with contextlib.suppress(httpx2.HTTPError):
            asyncio.run(follow(*asked.watch))
        return
    if asked.attempts:
        with tempfile.TemporaryDirectory() as folder:
            opening(Path(folder), make_run(Path(folder), asked.attempts))
    if asked.pairs:
        throughput(asked.pairs)


if __name__ == "__main__":
    main()
