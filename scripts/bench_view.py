"""What `harness view` costs with a large run, and what it costs a run that it follows.

    python scripts/bench_view.py                   # 1,000,000 attempts
    python scripts/bench_view.py --attempts 100000 --pairs 5

The server is a process of its own. Openings are in Chromium, with and without the run's
metrics.json. The throughput is that of runs against the
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
import shutil
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

from harness.analysis.metrics import encode_metrics
from harness.analysis.summary import compute_metrics
from harness.config.run_file import RunFile
from harness.plugins.mock.server import MockServer
from harness.records import Attempt, Score, Usage
from harness.store.files import write_atomically, write_json
from harness.store.json_lines import encode
from harness.store.run_folder import RunFolder

CALLS = 20_000
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
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
    write_atomically(folder.metrics, encode_metrics(compute_metrics(folder)))
    return folder


@contextlib.contextmanager
def page(root: Path, run: str = "") -> Iterator[tuple[str, int]]:
    """A page's server in a process of its own: its address with the token, and its pid."""
    command = [sys.executable, "-m", "harness", "view", *[run] * bool(run), "--no-browser"]
    env = {**os.environ, "HARNESS_RUNS_DIR": str(root)}
    process = subprocess.Popen(
        command, env=env, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    assert process.stdout is not None
    try:
        yield process.stdout.readline().strip(), process.pid
    finally:
        process.send_signal(signal.SIGINT)
        process.wait()


def client(url: str) -> httpx2.Client:
    origin, _, token = url.partition("?token=")
    headers = {"authorization": f"Bearer {token}"}
    return httpx2.Client(base_url=origin, headers=headers, timeout=600)


def memory(pid: int) -> float:
    """The largest resident memory of a process so far, in MB (Linux)."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) / 1024


class Opening(NamedTuple):
    """Seconds from the command's start, processor seconds of the server, and its memory in MB."""

    address: float  # it is printed
    figures: float  # the browser shows the run's rate
    spent: float  # processor seconds until then
    whole: float  # everything is there
    whole_spent: float
    memory: float


def open_in_browser(root: Path, folder: RunFolder, count: int, tab: Any) -> Opening:
    """Open the run's page in a browser that runs already. Returns when everything is computed."""
    began = time.perf_counter()
    with page(root, folder.name) as (url, pid):
        address = time.perf_counter() - began
        tab.goto(url, wait_until="commit")
        tab.locator(".rates li b").first.wait_for()
        figures, spent = time.perf_counter() - began, cpu_so_far(pid)
        tab.locator(".found p", has_text=f"{count:,} samples").wait_for()
        tab.locator(".indexing").wait_for(state="detached")
        tab.locator(".figures").first.wait_for(state="attached")
        whole = time.perf_counter() - began
        return Opening(address, figures, spent, whole, cpu_so_far(pid), memory(pid))


def opening(root: Path, folder: RunFolder, count: int, times: int) -> None:
    """Open a run several times, and print the least of each figure."""
    from playwright.sync_api import sync_playwright

    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    metrics = folder.metrics.read_bytes()
    print(f"Least of {times} openings: seconds (and of the server's processor), MB")
    heads = ("address", "figures", "(cpu)", "all", "(cpu)", "memory")
    print(" " * 30 + "".join(f"{head:>9}" for head in heads))
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=browser, args=["--no-sandbox"])
        for state in ("finished run", "no metrics.json"):
            if state == "no metrics.json":
                folder.metrics.unlink()
            found: list[Opening] = []
            for _ in range(times):
                tab = chromium.new_page()
                tab.set_default_timeout(120_000)
                found.append(open_in_browser(root, folder, count, tab))
                tab.close()
            least = [min(column) for column in zip(*found, strict=True)]
            least[-1] = max(one.memory for one in found)
            print(f"  {state:<28}" + "".join(f"{value:9.2f}" for value in least))
        chromium.close()
    folder.metrics.write_bytes(metrics)


def filtering(root: Path, folder: RunFolder, lines: int, times: int) -> None:
    """Print how long requests take, as the least of several times."""
    with page(root, folder.name) as (url, pid), client(url) as web:
        while web.get("api/cases?to=1").json()["cases"] < lines:
            time.sleep(0.2)

        def timed(name: str, path: str) -> None:
            took = []
            for _ in range(times):
                start = time.perf_counter()
                web.get(path).raise_for_status()
                took.append(time.perf_counter() - start)
            print(f"  {name:<28}{min(took):9.2f}")

        print(f"Least of {times} requests: seconds")
        for name, query in FILTERS.items():
            timed(f"filter: {name}", f"api/cases?{query}")
        timed("index", "api/index")
        timed("timeline", "api/timelines")
        timed("entry", "api/entry?instance=bench/000777")
        start = time.perf_counter()
        found = {"done": 0, "cases": 0}
        while found["done"] < 1:
            found = web.get(f"api/cases?q=%22%20{lines - 3}%22").json()
        took = time.perf_counter() - start
        print(f"  {'search: the whole file':<28}{took:9.2f}  ({found['cases']} found)")
        print(f"  memory at most {memory(pid):.0f} MB")


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
                url, pid = stack.enter_context(page(Path(folder) / "runs"))
                watcher = [sys.executable, __file__, "--watch", *url.split("?token=")]
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
    parser.add_argument("--openings", type=int, default=3)
    parser.add_argument("--pairs", type=int, default=3, help="of runs, alone and followed")
    parser.add_argument("--watch", nargs=2, metavar=("ORIGIN", "TOKEN"), help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.watch:
        with contextlib.suppress(httpx2.HTTPError):
            asyncio.run(follow(*asked.watch))
        return
    if asked.attempts:
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder)
            run = make_run(root, asked.attempts)
            size = run.attempts.stat().st_size / 1e9
            print(f"{asked.attempts:,} attempts, {size:.2f} GB")
            opening(root, run, asked.attempts, asked.openings)
            filtering(root, run, asked.attempts, asked.openings)
    if asked.pairs:
        throughput(asked.pairs)


if __name__ == "__main__":
    main()
