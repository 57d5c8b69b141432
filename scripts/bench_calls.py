"""Speed and memory of a run through the harness, compared with a bare SDK loop.

The client has one core, a mock provider that answers after 50 ms another. Every
row is a separate process on uvloop with 500 calls in flight. The rows are measured
in turn, several times; the table shows medians. Imports are not counted.

    python scripts/bench_calls.py --large --resume

bare SDK: AsyncOpenAI on aiohttp, as in its documentation; answers are compared, nothing is stored.
harness: what `harness run` does, from run file to metrics; cache and attempts on disk.
from the cache: the same run from scratch (--fresh): no request is made.
harness, 100,000: ten times as many prompts; with --million, a hundred times as many.
resumed: the same, of which half was done; seconds from the start of the process to
    the first new request.
"""

from __future__ import annotations

import argparse
import asyncio
import multiprocessing
import os
import socket
import sys
import tempfile
import time
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import contextmanager
from multiprocessing.connection import Connection
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from harness.plugin import Task
from harness.plugin_loader import register

CONCURRENCY = 500
LATENCY_S = 0.05
PROMPTS = 10_000
LARGE = 100_000
MILLION = 1_000_000
MODEL = "mock"
TEMPERATURE = 0.7
MAX_TOKENS = 1000

LEAST_RATIO = 1.1
MOST_CPU_MS = 0.65
MOST_MB = 150
LEAST_CACHED = 15_000
MOST_GROWTH = 1.1
MOST_MILLION_MB = 401
MOST_RESUME_S = 2.0

LARGE_ROW, MILLION_ROW = f"harness, {LARGE:,}", f"harness, {MILLION:,}"
PROMPT = (
    "Please generate a sentence of exactly 12 words in which the third word is water and the last "
    "word is again. This is number %d."
)


def answer(prompt: str) -> str:
    """The single correct answer to a prompt, of typical length."""
    number = prompt[prompt.rindex(" ") + 1 : -1]
    return f"Cold clear water ran down the hill, and number {number} saw it once again."


class Numbered(Task[int]):
    """A task with a number of distinct prompts, whose answers must match exactly."""

    on_truncated = "fail"

    def __init__(self, count: int) -> None:
        self._count = count

    def instances(self) -> Iterator[Any]:
        from harness.records import Instance

        for number in range(self._count):
            yield Instance(f"number/{number}", PROMPT % number)

    def fingerprint(self) -> Mapping[str, str]:
        return {"dataset": str(self._count)}

    def messages(self, instance: Any, shots: Sequence[Any]) -> tuple[Any, ...]:
        from harness.records import Message

        return (Message("user", instance.data),)

    def score(self, instance: Any, text: str) -> Mapping[str, Any]:
        from harness.records import Score

        right = text == answer(instance.data)
        return {"exact": Score(right, right)}

    def feedback(self, instance: Any, text: str, scores: Mapping[str, Any]) -> str:
        return "No."

    def reference(self, instance: Any) -> str:
        return answer(instance.data)


class Work(NamedTuple):
    """The input of a row's process.

    prompts: of its run; limit: how many of them it takes.
    """

    url: str
    prompts: int
    folder: Path
    run: str
    limit: int | None = None


Row = Callable[[Work], "Measured"]


class Measured(NamedTuple):
    """The measurements of a row's process, and what its server counted.

    first_request_s: seconds from the start of the process to the first request.
    """

    right: int
    seconds: float
    cpu: float
    peak_mb: float
    requests: int = 0
    first_request_s: float = 0.0


def pin(core: int) -> None:
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {core})


def serve(port: int, core: int, pipe: Connection) -> None:
    """The server's process: serves until the pipe has a message, then reports its counts."""
    from harness.plugins.mock.server import MockServer

    pin(core)
    first: list[float] = []

    def answers(ask: Any, index: int) -> str:
        if not first:
            first.append(time.monotonic())
        return answer(ask.prompt)

    with MockServer(port=port, latency=LATENCY_S, answers=answers) as server:
        pipe.send(server.base_url)
        pipe.recv()
        pipe.send((server.stats().requests, first[0] if first else 0.0))


def timed(main: Callable[[], Coroutine[Any, Any, int]]) -> Measured:
    """Run a row's work on uvloop and measure it."""
    import resource

    import uvloop

    begun, cpu = time.perf_counter(), time.process_time()
    right = uvloop.run(main())
    seconds, cpu = time.perf_counter() - begun, time.process_time() - cpu
    unit = 2**20 if sys.platform == "darwin" else 2**10
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit
    return Measured(right, seconds, cpu, peak)


def bare(work: Work) -> Measured:
    """The loop that one would write without a harness."""
    from httpx2 import Limits
    from openai import AsyncOpenAI, DefaultAioHttpClient

    async def main() -> int:
        limits = Limits(max_connections=CONCURRENCY, max_keepalive_connections=CONCURRENCY)
        client = AsyncOpenAI(
            api_key="none", base_url=work.url, http_client=DefaultAioHttpClient(limits=limits)
        )
        prompts = (PROMPT % number for number in range(work.prompts))
        right = 0

        async def ask() -> None:
            nonlocal right
            for prompt in prompts:
                completion = await client.chat.completions.create(
                    model=MODEL,
                    messages=[{"role": "user", "content": prompt}],
                    temperature=TEMPERATURE,
                    max_tokens=MAX_TOKENS,
                )
                right += completion.choices[0].message.content == answer(prompt)

        async with client, asyncio.TaskGroup() as group:
            for _ in range(CONCURRENCY):
                group.create_task(ask())
        return right

    return timed(main)


def job(work: Work) -> Any:
    """The run that `harness run` would make of a run file."""
    from harness.config.run_file import RunFile
    from harness.config.settings import Settings
    from harness.engine.preparation import prepare

    run = RunFile.model_validate(
        {
            "task": {"name": "numbered", "count": work.prompts},
            "model": {"backend": "openai", "name": MODEL, "base_url": work.url},
            "decoding": {"temperature": TEMPERATURE, "max_tokens": MAX_TOKENS},
            "limits": {"concurrency": CONCURRENCY},
            "limit": work.limit,
        }
    )
    folder = work.folder
    return prepare(
        run, work.run, Settings(runs_dir=folder / "runs", cache_dir=folder, data_dir=folder)
    )


def passed(result: Any) -> int:
    """Return how many answers the checker found correct."""
    overall = result.metrics.overall
    right: int = round((overall.pass_rate or 0) * overall.n)
    return right


def harness(work: Work) -> Measured:
    """Run a run file from start to metrics."""
    # Otherwise imported by the first call or by `job`, and counted.
    import openai  # noqa: F401

    import harness.engine.preparation  # noqa: F401
    from harness.engine.executor import execute

    async def main() -> int:
        return passed(await execute(job(work)))

    return timed(main)


def half(work: Work) -> Measured:
    """Begin a run, and write half of its attempts as if they had been made."""
    from msgspec.json import decode
    from msgspec.structs import replace

    from harness.records import Attempt
    from harness.store.json_lines import JsonLinesWriter

    measured = harness(work._replace(limit=1))
    attempts = job(work).folder.attempts
    first = decode(attempts.read_bytes(), type=Attempt)
    with JsonLinesWriter(attempts) as writer:
        for number in range(work.prompts // 2):
            prompt = PROMPT % number
            request = {**first.request, "messages": [{"role": "user", "content": prompt}]}
            name = f"number/{number}"
            writer.append(replace(first, instance=name, request=request, text=answer(prompt)))
    return measured


def resume(work: Work) -> Measured:
    """Continue a run for two seconds."""
    from harness.engine.executor import execute

    @contextmanager
    def watch(tally: Any, stop: Any, *others: Any) -> Iterator[None]:
        asyncio.get_running_loop().call_later(2, stop.request)
        yield

    async def main() -> int:
        return passed(await execute(job(work), watch))

    return timed(main)


def process(row: Row, work: Work, core: int, pipe: Connection) -> None:
    """Entry point of a row's process."""
    pin(core)
    register("tasks", "numbered", Numbered)
    pipe.send(row(work))


def measure(row: Row, port: int, prompts: int, folder: Path, run: str = "") -> Measured:
    """Measure a row in a separate process, with a server on a fixed port.

    (The address is part of a call's key and of a run's identity.)
    """
    context = multiprocessing.get_context("spawn")
    cores = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else [0]
    serving, serving_there = multiprocessing.Pipe()
    server = context.Process(target=serve, args=(port, cores[0], serving_there), daemon=True)
    server.start()
    work = Work(serving.recv(), prompts, folder, run)
    here, there = multiprocessing.Pipe()
    begun = time.monotonic()
    client = context.Process(target=process, args=(row, work, cores[-1], there), daemon=True)
    client.start()
    there.close()  # so that a client that fails ends the wait for it
    measured: Measured = here.recv()
    client.join()
    serving.send(None)
    requests, first = serving.recv()
    server.join()
    return measured._replace(requests=requests, first_request_s=first - begun)


def measure_all(
    repeats: int, *, large: Mapping[str, int], resumed: bool
) -> Iterator[tuple[str, Measured]]:
    """Yield every row once per repetition; the long ones only once."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with tempfile.TemporaryDirectory(prefix="bench-calls-") as name:

        def folder(of: object) -> Path:
            path = Path(name) / str(of)
            path.mkdir()
            return path

        for repeat in range(repeats):
            here = folder(repeat)
            yield "bare SDK", measure(bare, port, PROMPTS, here)
            yield "harness", measure(harness, port, PROMPTS, here, "run")
            yield "from the cache", measure(harness, port, PROMPTS, here, "run-2")
        for row, prompts in large.items():
            yield row, measure(harness, port, prompts, folder(prompts), "run")
        if resumed:
            here = folder("resumed")
            measure(half, port, LARGE, here, "run")
            yield "resumed", measure(resume, port, LARGE, here, "run")


class Medians:
    """A row of the table."""

    def __init__(self, runs: Sequence[Measured]) -> None:
        self.right = min(run.right for run in runs)
        self.rate = median(run.right / run.seconds for run in runs)
        self.cpu_ms = median(1000 * run.cpu / run.right for run in runs)
        self.peak_mb = median(run.peak_mb for run in runs)
        self.requests = max(run.requests for run in runs)
        self.first_request_s = median(run.first_request_s for run in runs)


def bounds(rows: Mapping[str, Medians]) -> Iterator[tuple[str, bool]]:
    """Return the bounds, and whether they hold."""
    bare, ours, cached = rows["bare SDK"], rows["harness"], rows["from the cache"]
    ratio = ours.rate / bare.rate
    yield f"at least {LEAST_RATIO} times as fast as the bare SDK", ratio >= LEAST_RATIO
    yield f"at most {MOST_CPU_MS} ms of CPU a sample", ours.cpu_ms <= MOST_CPU_MS
    yield f"at most {MOST_MB} MB", ours.peak_mb <= MOST_MB
    right = all(row.right == PROMPTS for row in (bare, ours, cached))
    yield "every answer is found right", right
    yield "every prompt is asked once", ours.requests == PROMPTS
    yield "nothing that is cached is asked", cached.requests == 0
    yield f"at least {LEAST_CACHED:,} samples/s from the cache", cached.rate >= LEAST_CACHED
    if LARGE_ROW in rows:
        growth = rows[LARGE_ROW].peak_mb / ours.peak_mb
        yield f"at most {MOST_GROWTH} times the memory for {LARGE:,}", growth <= MOST_GROWTH
    if MILLION_ROW in rows:
        peak = rows[MILLION_ROW].peak_mb
        yield f"at most {MOST_MILLION_MB} MB for {MILLION:,}", peak <= MOST_MILLION_MB
    if "resumed" in rows:
        soon = rows["resumed"].first_request_s < MOST_RESUME_S
        yield f"the first new request within {MOST_RESUME_S} s", soon


def main() -> None:
    from rich.console import Console
    from rich.table import Column, Table

    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--repeats", type=int, default=3, help="of the first three rows")
    parser.add_argument("--large", action="store_true", help=f"also {LARGE:,} prompts")
    parser.add_argument("--million", action="store_true", help=f"also {MILLION:,} prompts")
    parser.add_argument("--resume", action="store_true", help="also continue half a large run")
    parser.add_argument("--check", action="store_true", help="exit with 1 where a bound is missed")
    given = parser.parse_args()
    runs: dict[str, list[Measured]] = {}
    large = {LARGE_ROW: LARGE} if given.large else {}
    large |= {MILLION_ROW: MILLION} if given.million else {}
    for name, measured in measure_all(given.repeats, large=large, resumed=given.resume):
        runs.setdefault(name, []).append(measured)
    rows = {name: Medians(measured) for name, measured in runs.items()}
    table = Table(Column("", no_wrap=True), padding=(0, 0))
    for name in ("samples/s", "ratio", "CPU ms", "peak MB", "requests", "first s"):
        table.add_column(name, justify="right", no_wrap=True)
    for name, found in rows.items():
        ratio = found.rate / rows["bare SDK"].rate
        speed = [f"{found.rate:,.0f}", f"{ratio:.2f}", f"{found.cpu_ms:.3f}"]
        first = f"{found.first_request_s:.2f}" if found.requests else ""
        table.add_row(
            name,
            *(speed if name != "resumed" else [""] * 3),
            f"{found.peak_mb:.0f}",
            f"{found.requests:,}",
            first,
        )
    console = Console()
    console.print(table)
    checked = list(bounds(rows))
    for bound, held in checked:
        console.print(f"{'ok    ' if held else 'MISSED'} {bound}", highlight=False)
    if given.check and not all(held for _, held in checked):
        sys.exit(1)


if __name__ == "__main__":
    main()
