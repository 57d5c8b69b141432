"""How many requests per second the mock provider sustains on one core.

The server runs on one core, the load generator on another: raw connections that
send the next request as soon as the last one is answered. The figure is valid if
the server is the bottleneck, that is if it uses its whole core (column CPU).

    python scripts/bench_mock.py --requests 50000
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import os
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from urllib.parse import urlsplit

import uvloop
from rich.console import Console
from rich.table import Column, Table

from harness.plugins.mock.server import MockServer

PATIENCE_S = 120
LENGTH = re.compile(rb"content-length: (\d+)", re.IGNORECASE)


@dataclass(frozen=True)
class Case:
    """One row of the table."""

    name: str
    concurrency: int
    path: str = "/v1/chat/completions"
    latency: float = 0.0
    faults: dict[str, float] = field(default_factory=dict)
    tokens_per_minute: int | None = None
    reasoning: str | None = None


CASES = (
    Case("chat", 100),
    Case("chat", 500),
    Case("completions", 100, "/v1/completions"),
    Case("messages", 100, "/v1/messages"),
    Case("chat, reasoning", 100, reasoning="field"),
    Case("messages, reasoning", 100, "/v1/messages", reasoning="blocks"),
    Case("messages, rate limit", 100, "/v1/messages", tokens_per_minute=10**9),
    Case("rate limit", 100, tokens_per_minute=10**9),
    Case("14% faults", 100, faults={"429": 0.1, "500": 0.03, "empty": 0.01}),
    Case("50 ms", 500, latency=0.05),
)


def pin(core: int) -> None:
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {core})


def serve(case: Case, core: int, pipe: Connection) -> None:
    """The server's process: serves until the pipe has a message, then sends its CPU seconds."""
    pin(core)
    with MockServer(
        latency=case.latency,
        faults=case.faults,
        tokens_per_minute=case.tokens_per_minute,
        reasoning=case.reasoning,
    ) as server:
        pipe.send(server.base_url)
        pipe.recv()
        before = time.process_time()
        pipe.send(None)
        pipe.recv()
        stats = server.stats()
        pipe.send((time.process_time() - before, stats.requests, stats.by_status))


PROMPT = (
    "Please generate a sentence of exactly 12 words in which the third word is water and the last "
    "word is again. This is number %d."
)
MESSAGES = [{"role": "user", "content": PROMPT}]
BODIES: dict[str, dict[str, object]] = {
    "/v1/chat/completions": {"temperature": 0.7, "stop": ["END"], "messages": MESSAGES},
    "/v1/completions": {"temperature": 0.7, "stop": ["END"], "prompt": PROMPT},
    "/v1/messages": {"stop_sequences": ["END"], "messages": MESSAGES},
}


def requests(count: int, host: str, path: str) -> Iterator[bytes]:
    """Yield distinct requests of typical size."""
    template = json.dumps({"model": "m", "max_tokens": 1000} | BODIES[path])
    for number in range(count):
        body = (template % number).encode()
        yield (
            b"POST %s HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\n"
            b"Authorization: Bearer sk-mock\r\nanthropic-version: 2026-10-21\r\n"
            b"User-Agent: bench\r\nContent-Length: %d\r\n\r\n%s"
            % (path.encode(), host.encode(), len(body), body)
        )


class Client(asyncio.Protocol):
    """One connection that sends request after request, and records how long each took."""

    def __init__(self, work: Iterator[bytes], times: list[float]) -> None:
        self._work = work
        self._times = times
        self._buffer = b""
        self._sent_at = 0.0
        self.done = asyncio.get_running_loop().create_future()

    # uvloop's transports have the methods of asyncio's, but not their ancestry.
    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        head = self._buffer.find(b"\r\n\r\n")
        if head < 0:
            return
        length = LENGTH.search(self._buffer, 0, head)
        assert length is not None
        if len(self._buffer) >= head + 4 + int(length[1]):
            self._buffer = b""
            self._times.append(time.perf_counter() - self._sent_at)
            self.send()

    def send(self) -> None:
        """Send the next request, or close when there is none."""
        request = next(self._work, None)
        if request is None:
            self._transport.close()
            self.done.set_result(None)
            return
        self._sent_at = time.perf_counter()
        self._transport.write(request)


async def load(url: str, path: str, count: int, concurrency: int) -> tuple[float, list[float]]:
    """Return the seconds for all requests, and for each."""
    host, _, port = urlsplit(url).netloc.partition(":")
    work = iter(list(requests(count, host, path)))
    times: list[float] = []
    loop = asyncio.get_running_loop()
    clients = []
    for _ in range(concurrency):
        _, client = await loop.create_connection(lambda: Client(work, times), host, int(port))
        clients.append(client)
    started = time.perf_counter()
    for client in clients:
        client.send()
    async with asyncio.timeout(PATIENCE_S):
        await asyncio.gather(*(client.done for client in clients))
    return time.perf_counter() - started, times


def measure(case: Case, count: int, server_core: int) -> list[str]:
    here, there = multiprocessing.Pipe()
    context = multiprocessing.get_context("spawn")
    process = context.Process(target=serve, args=(case, server_core, there))
    process.start()
    url = here.recv()
    here.send(None)
    here.recv()
    seconds, times = uvloop.run(load(url, case.path, count, case.concurrency))
    here.send(None)
    cpu, served, by_status = here.recv()
    process.join()
    times.sort()
    return [
        case.name,
        str(case.concurrency),
        f"{served:,}",
        f"{100 * by_status.get(200, 0) / served:.0f}%",
        f"{served / seconds:,.0f}",
        f"{1e6 * cpu / served:.0f}",
        f"{100 * cpu / seconds:.0f}%",
        f"{1000 * times[len(times) // 2]:.1f}",
        f"{1000 * times[len(times) * 99 // 100]:.1f}",
    ]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--requests", type=int, default=50_000, help="requests per row")
    count = parser.parse_args().requests
    cores = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else [0]
    pin(cores[-1])
    table = Table(Column("case", no_wrap=True), padding=(0, 0))
    for name in ("conns", "requests", "200", "req/s", "CPU µs", "CPU", "p50 ms", "p99 ms"):
        table.add_column(name, justify="right", no_wrap=True)
    for case in CASES:
        table.add_row(*measure(case, count, cores[0]))
    Console().print(table)


if __name__ == "__main__":
    main()
