"""Runs the mock provider in a thread, with uvicorn's HTTP protocol, and for `harness mock`.

uvicorn's server loop is not used: it needs up to a tenth of a second to stop, takes over the
process's signals, and waits for open connections, which a stalling server never closes.
"""

from __future__ import annotations

import asyncio
import signal
import socket
import threading
from concurrent.futures import Future
from pathlib import Path
from typing import Annotated, Any

import typer
from uvicorn import Config
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

from harness.cli.options import Limit
from harness.errors import ConfigError
from harness.plugins.mock.app import Conditions, Provider
from harness.plugins.mock.faults import parse_shares
from harness.plugins.mock.stats import BodyCount, Snapshot
from harness.plugins.mock.wire import MockError

_BACKLOG = 4096
# uvicorn's default of five seconds would close idle connections during slow runs.
_KEEP_ALIVE_S = 3600


class MockServer:
    """A simulated provider in a thread, on a loopback port by default. Also a context manager.

    Port 0 stands for any free port. For other options, see `app.Provider`.

    Raises:
        MockError: If an option is invalid.
    """

    def __init__(self, *, host: str = "127.0.0.1", port: int = 0, **options: Any) -> None:
        self._host = host
        self._port = port
        self._provider = Provider(**options)
        self._url = ""
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Start serving.

        Raises:
            MockError: If the server is already running, or cannot listen at its address.
        """
        if self._thread is not None:
            raise MockError("The mock server is already running.")
        listener = _listen(self._host, self._port)
        host, port = listener.getsockname()[:2]
        self._url = f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
        # The thread passes its loop and the event that ends it, or its exception.
        started: Future[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = Future()
        thread = threading.Thread(
            target=_run, args=(self._provider, listener, started), name="mock-provider", daemon=True
        )
        thread.start()
        self._loop, self._ending = started.result()
        self._thread = thread

    def stop(self) -> None:
        """Close all connections, and wait for the thread to end. Does nothing if not running."""
        if self._thread is not None:
            self._loop.call_soon_threadsafe(self._ending.set)
            self._thread.join()
            self._thread = None

    def __enter__(self) -> MockServer:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def url(self) -> str:
        """The server's root URL, which an Anthropic client takes as its ``base_url``.

        Raises:
            MockError: If the server is not running.
        """
        if self._thread is None:
            raise MockError("The mock server is not running.")
        return self._url

    @property
    def base_url(self) -> str:
        """The URL that an OpenAI client takes as its ``base_url``."""
        return f"{self.url}/v1"

    def stats(self) -> Snapshot:
        """Return a copy of the current counters, even after the server has stopped."""
        return self._provider.stats.snapshot()

    def bodies(self) -> dict[str, BodyCount]:
        """Return how often each request body was sent and answered, by the body's digest."""
        return self._provider.stats.by_body()

    def change(self, **settings: Any) -> None:
        """Change settings, fields of `app.Conditions`, for future requests.

        Raises:
            MockError: If a setting is invalid.
        """
        self._provider.change(Conditions(**settings))


class _Protocol(HttpToolsProtocol):
    def on_message_begin(self) -> None:
        super().on_message_begin()
        self.scope["state"]["transport"] = self.transport


def _run(
    provider: Provider,
    listener: socket.socket,
    started: Future[tuple[asyncio.AbstractEventLoop, asyncio.Event]],
) -> None:
    async def serve(config: Config) -> None:
        loop = asyncio.get_running_loop()
        state = ServerState()
        ending = asyncio.Event()
        config.load()
        server = await loop.create_server(
            lambda: _Protocol(config, state, {}, loop), sock=listener, backlog=_BACKLOG
        )
        started.set_result((loop, ending))
        await ending.wait()
        server.close()
        for connection in list(state.connections):
            connection.transport.abort()
        # Every request notices that its connection is gone, and ends. This takes a few turns of
        # the loop; uvicorn has no event for it.
        while state.connections or state.tasks:  # noqa: ASYNC110
            await asyncio.sleep(0)
        await server.wait_closed()

    try:
        with listener:
            config = Config(
                provider,
                ws="none",
                log_config=None,
                access_log=False,
                timeout_keep_alive=_KEEP_ALIVE_S,
            )
            with asyncio.Runner(loop_factory=config.get_loop_factory()) as runner:
                runner.run(serve(config))
    except BaseException as error:
        if started.done():
            raise
        started.set_exception(error)


def _listen(host: str, port: int) -> socket.socket:
    if not 0 <= port <= 65535:
        raise MockError(f"Invalid port {port}. Use 0 (any free one) to 65535.")
    try:
        family, *_, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        return socket.create_server(address[:2], family=family, backlog=_BACKLOG)
    except OSError as error:
        raise MockError(
            f"Cannot listen on {host}:{port}: {error.strerror}. Port 0 uses any free port."
        ) from None


def mock(
    host: str = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535)] = 8077,
    latency: str = "0",
    fault: Annotated[list[str] | None, typer.Option(metavar="NAME=PROBABILITY")] = None,
    fault_on: Annotated[list[str] | None, typer.Option(metavar="TEXT")] = None,
    seed: int = 0,
    answers: Path | None = None,
    api_key: str | None = None,
    model: list[str] | None = None,
    rpm: Limit = None,
    tpm: Limit = None,
    input_tpm: Limit = None,
    output_tpm: Limit = None,
    max_parallel: Limit = None,
    retry_after: Annotated[float, typer.Option(min=0)] = 1.0,
    reasoning: Annotated[str | None, typer.Option(metavar="FORM")] = None,
    refuse: Annotated[list[str] | None, typer.Option(metavar="PARAMETER")] = None,
    batch_latency: str = "0",
    batch_fault: Annotated[list[str] | None, typer.Option(metavar="NAME=PROBABILITY")] = None,
    enqueued_tokens: Limit = None,
) -> None:
    """Serve a simulated provider on this machine: calls and batches of OpenAI and others.

    Prints its base URL when it is ready: use this URL as model.base_url in a run file (without /v1
    for the backend anthropic). GET /stats returns counters and peak_per_minute, the maximum
    requests and tokens in any 60 seconds. POST /faults changes faults, latency and limits. Ctrl-C
    ends the server.

    Args:
        host: Address to listen on.
        port: Port to listen on; 0 uses any free port.
        latency: Time to answer in seconds: SECONDS, uniform:LOW:HIGH or lognormal:MEDIAN:SIGMA.
        fault: Make a share of requests fail; repeatable. Names: HTTP statuses such as 429 and 500,
            reset, stall, truncated_body, error_body, no_credit, finish:REASON, empty, refusal, and
            many more (harness docs mock). A retried request may succeed.
        fault_on: Let only prompts that contain this text fail; repeatable.
        seed: Seed of faults and latencies.
        answers: JSONL of {"prompt": …, "text": …}; prompt is the last user message or the whole
            list of messages. Any other prompt gets a 400. Default: made-up sentences.
        api_key: The only valid key; any other gets a 401.
        model: A known model; repeatable. Any other gets a 404.
        rpm: Maximum requests per model in any 60 seconds.
        tpm: Maximum tokens per model in any 60 seconds.
        input_tpm: Maximum input tokens per model in any 60 seconds.
        output_tpm: Maximum output tokens per model in any 60 seconds.
        max_parallel: Maximum requests per model at any moment. Any other gets a 429 at once.
        retry_after: Retry-After header of a 429 by --fault or --max-parallel, in seconds; 0 sends
            none.
        reasoning: Return reasoning as: think (<think>…</think> in the text), field
            (reasoning_content and reasoning of a chat message) or blocks (Anthropic's).
        refuse: A parameter that the model rejects with a 400, or schema:KEYWORD for schemas
            (decoding.constraint) with this keyword; repeatable.
        batch_latency: Time until a batch has ended, like --latency.
        batch_fault: Make a share of batches fail; repeatable. Names: lost_id, unlisted, late,
            poll_500, expired, duplicated, damaged, foreign, gzip_bomb (harness docs mock). --fault
            fails single requests of a batch.
        enqueued_tokens: Maximum input tokens in OpenAI's unfinished batches.
    """
    ended = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: ended.set())
    try:
        server = MockServer(
            host=host,
            port=port,
            latency=latency,
            faults=parse_shares(fault or []),
            fault_on=fault_on or (),
            seed=seed,
            answers=answers,
            api_key=api_key,
            models=model or (),
            requests_per_minute=rpm,
            tokens_per_minute=tpm,
            input_tokens_per_minute=input_tpm,
            output_tokens_per_minute=output_tpm,
            parallel_requests=max_parallel,
            retry_after=retry_after or None,
            reasoning=reasoning,
            refuse=refuse or (),
            batch_faults=parse_shares(batch_fault or []),
            batch_latency=batch_latency,
            enqueued_tokens=enqueued_tokens,
        )
        with server:
            typer.echo(server.base_url)
            ended.wait()
    except MockError as error:
        raise ConfigError(str(error)) from None
