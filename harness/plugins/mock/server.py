"""Runs the mock provider in a thread, with uvicorn's HTTP protocol.

uvicorn's server loop is not used: it needs up to a tenth of a second to stop, takes over the
process's signals, and waits for open connections, which a stalling server never closes.
"""

from __future__ import annotations

import asyncio
import socket
import threading
from concurrent.futures import Future
from typing import Any

from uvicorn import Config
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

from harness.plugins.mock.app import Conditions, Provider
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
        self._host, self._port = host, port
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
        loop, state, ending = asyncio.get_running_loop(), ServerState(), asyncio.Event()
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
