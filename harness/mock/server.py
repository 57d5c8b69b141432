"""Runs the provider: a socket, uvicorn's HTTP protocol, and an event loop in a thread.

uvicorn's own server loop is not used: it polls every tenth of a second for its end, takes over the
process's signals and waits for open connections, which a stalling server never closes.
"""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Collection, Mapping
from concurrent.futures import Future

from uvicorn import Config
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

from harness.mock.answers import Answers, answerer
from harness.mock.app import Conditions, Provider
from harness.mock.faults import FaultMix, Latency
from harness.mock.limits import Limits, MockRateLimits
from harness.mock.stats import BodyCount, Snapshot
from harness.mock.wire import REASONING, MockError

_BACKLOG = 4096
# uvicorn's default of five seconds would close idle connections during slow runs.
_KEEP_ALIVE_S = 3600


class MockServer:
    """A provider on a loopback port, served by its own thread.

    Use it as a context manager. It can be started again, on the same port if one was given.

    Args:
        latency: seconds, or a distribution (see `faults.LATENCY_FORMS`).
        faults: probability by name (see `faults.Fault`).
        answers: texts by last user message, an answers file, or a function; by default sentences
            that depend on the body. An `Answer` is a text with log-probabilities.
        api_key: the only valid key; None accepts any.
        requests_per_minute: rate limit per model, in any 60 seconds, like the next three.
        retry_after: seconds in the retry-after header of a drawn 429; None sends no header.
        reasoning: how answers carry reasoning (see `wire.REASONING`); None for no reasoning.
    """

    def __init__(
        self,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        latency: float | str = 0.0,
        faults: Mapping[str, float] | None = None,
        seed: int = 0,
        answers: Answers | None = None,
        api_key: str | None = None,
        models: Collection[str] = (),
        requests_per_minute: int | None = None,
        tokens_per_minute: int | None = None,
        input_tokens_per_minute: int | None = None,
        output_tokens_per_minute: int | None = None,
        retry_after: float | None = 1.0,
        reasoning: str | None = None,
        refuse: Collection[str] = (),
    ) -> None:
        self._host = host
        self._port = port
        if reasoning not in (None, *REASONING):
            raise MockError(
                f"Unknown form of reasoning: {reasoning!r}. Forms: {', '.join(REASONING)}."
            )
        limits = Limits(
            requests_per_minute,
            tokens_per_minute,
            input_tokens_per_minute,
            output_tokens_per_minute,
        )
        self._provider = Provider(
            faults=FaultMix(faults or {}),
            latency=Latency(latency),
            limits=MockRateLimits(limits),
            seed=seed,
            answerer=answerer(answers),
            api_key=api_key,
            models=models,
            retry_after=retry_after,
            reasoning=reasoning,
            refuse=refuse,
        )
        self._running: _Running | None = None

    def start(self) -> None:
        """Listen and serve. Raises MockError if the address is not available."""
        if self._running is not None:
            raise MockError("The mock server is already running.")
        self._running = _Running(self._provider, _listen(self._host, self._port))

    def stop(self) -> None:
        """Close all connections, and wait for the thread to end."""
        if self._running is not None:
            self._running.end()
            self._running = None

    def __enter__(self) -> MockServer:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def url(self) -> str:
        """The server's root: the ``base_url`` of an Anthropic client."""
        if self._running is None:
            raise MockError("The mock server is not running.")
        return self._running.url

    @property
    def base_url(self) -> str:
        """The ``base_url`` of an OpenAI client."""
        return f"{self.url}/v1"

    def stats(self) -> Snapshot:
        """Return the current counters; also after the end."""
        return self._provider.stats.snapshot()

    def bodies(self) -> dict[str, BodyCount]:
        """Return how often each body was requested and answered, by digest."""
        return self._provider.stats.by_body()

    def change(
        self,
        *,
        faults: Mapping[str, float] | None = None,
        latency: float | str | None = None,
        limits: Limits | None = None,
    ) -> None:
        """Change faults, latency or limits for the requests from now on.

        ``faults={}`` and ``limits=Limits()`` end them. Raises MockError.
        """
        shares = None if faults is None else dict(faults)
        self._provider.change(Conditions(shares, latency, limits))


class _Protocol(HttpToolsProtocol):
    """uvicorn's HTTP protocol; hands its transport to the application."""

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self.scope["state"]["transport"] = self.transport


class _Running:
    """One start of a server: its socket, loop and thread."""

    def __init__(self, provider: Provider, listener: socket.socket) -> None:
        host, port = listener.getsockname()[:2]
        self.url = f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
        # The thread passes its loop and the event that ends it, or its exception.
        self._started: Future[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = Future()
        self._config = Config(
            provider,
            http=_Protocol,
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            timeout_keep_alive=_KEEP_ALIVE_S,
        )
        self._listener = listener
        self._thread = threading.Thread(target=self._run, name="mock-provider", daemon=True)
        self._thread.start()
        self._loop, self._ending = self._started.result()

    def end(self) -> None:
        self._loop.call_soon_threadsafe(self._ending.set)
        self._thread.join()

    def _run(self) -> None:
        try:
            with asyncio.Runner(loop_factory=self._config.get_loop_factory()) as runner:
                runner.run(self._serve())
        except BaseException as error:
            if self._started.done():
                raise
            self._started.set_exception(error)

    async def _serve(self) -> None:
        loop = asyncio.get_running_loop()
        state = ServerState()
        self._config.load()
        server = await loop.create_server(
            lambda: _Protocol(self._config, state, {}, loop),
            sock=self._listener,
            backlog=_BACKLOG,
        )
        ending = asyncio.Event()
        self._started.set_result((loop, ending))
        await ending.wait()
        server.close()
        for connection in list(state.connections):
            connection.transport.abort()
        # Every request notices that its connection is gone, and ends. This takes a few turns of
        # the loop; uvicorn has no event for it.
        while state.connections or state.tasks:  # noqa: ASYNC110
            await asyncio.sleep(0)
        await server.wait_closed()


def _listen(host: str, port: int) -> socket.socket:
    if not 0 <= port <= 65535:
        raise MockError(f"Invalid port {port}. Use 0 (any free one) to 65535.")
    try:
        family, *_, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        return socket.create_server(address[:2], family=family, backlog=_BACKLOG)
    except OSError as error:
        raise MockError(
            f"Cannot listen on {host}:{port}: {error.strerror}. Port 0 takes any free one."
        ) from None
