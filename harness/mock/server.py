"""Running the provider: a socket, uvicorn's protocol, and an event loop in a thread.

uvicorn's own server loop is not used: it polls for its end every tenth of a
second, takes over the process's signals and waits for open connections, which
a server that stalls on purpose has for ever. Its protocol is all that is needed.

>>> with MockServer(latency=0.01, faults={"500": 0.1}) as server:  # doctest: +SKIP
...     server.base_url
'http://127.0.0.1:36147/v1'
"""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path
from types import TracebackType

from uvicorn import Config
from uvicorn.server import ServerState

from harness.mock.answers import Answer, Answerer, invented, read_recording, recorded
from harness.mock.app import Provider
from harness.mock.connection import MockProtocol
from harness.mock.control import Weather, change
from harness.mock.errors import MockError
from harness.mock.faults import FaultMix
from harness.mock.latency import Latency
from harness.mock.limits import Limits, RateLimits
from harness.mock.reasoning import Reasoning
from harness.mock.stats import BodyCount, Snapshot

_BACKLOG = 4096
# uvicorn's five seconds would close a slow run's idle connections under its
# requests: a fault that nobody ordered.
_KEEP_ALIVE_S = 3600

Answers = Answerer | Mapping[str, str | Answer | Sequence[str | Answer]] | Path


class MockServer:
    """A provider on a loopback port, served by a thread of its own.

    Use it as a context manager; it can be started again after its end, on the
    same port if that was given.

    host, port: where to listen; port 0 is any free one.
    latency: seconds, or a distribution as `latency.FORMS` has it.
    faults: probability by name (see `faults.Fault`).
    seed: of faults and latencies.
    answers: texts by last user message, an answers file, or a function; by
        default sentences that depend on the body. An `Answer` is a text with the
        log-probabilities that are told to those who ask for them.
    api_key: the one key that is let in; None lets all in.
    models: the models that there are; none given means any.
    requests_per_minute, tokens_per_minute, input_tokens_per_minute,
    output_tokens_per_minute: rate limits over any 60 seconds, for each model by itself.
    retry_after: seconds told with a drawn 429; None tells nothing.
    reasoning: the form in which answers carry reasoning: think, field or blocks
        (see `reasoning.Reasoning`); None for a model that does not reason.
    refuse: parameters that the model does not take, by the names they are sent under.

    Raises: MockError for an option that makes no sense.
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
        self._provider = Provider(
            faults=FaultMix.of(faults or {}),
            latency=Latency.of(latency),
            seed=seed,
            answerer=_answerer(answers),
            limits=RateLimits(
                Limits(
                    requests_per_minute,
                    tokens_per_minute,
                    input_tokens_per_minute,
                    output_tokens_per_minute,
                )
            ),
            api_key=api_key,
            models=models,
            retry_after=retry_after,
            reasoning=Reasoning.of(reasoning),
            refuse=tuple(refuse),
        )
        self._running: _Running | None = None

    def start(self) -> None:
        """Listen, and serve from now on.

        Raises: MockError where the address cannot be had.
        """
        if self._running is not None:
            raise MockError("The mock server is running already.")
        self._running = _Running(self._provider, _listen(self._host, self._port))

    def stop(self) -> None:
        """Cut all connections and end; waits until the thread is gone."""
        if self._running is not None:
            self._running.end()
            self._running = None

    def __enter__(self) -> MockServer:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    @property
    def url(self) -> str:
        """The server's root: what an Anthropic client takes as its ``base_url``."""
        if self._running is None:
            raise MockError("The mock server is not running.")
        return self._running.url

    @property
    def base_url(self) -> str:
        """What an OpenAI client takes as its ``base_url``."""
        return f"{self.url}/v1"

    def stats(self) -> Snapshot:
        """The counters now; also after the end."""
        return self._provider.stats.snapshot()

    def bodies(self) -> dict[str, BodyCount]:
        """How often each body was asked and answered, by its digest."""
        return self._provider.stats.by_body()

    def change(
        self,
        *,
        faults: Mapping[str, float] | None = None,
        latency: float | str | None = None,
        limits: Limits | None = None,
    ) -> None:
        """Exchange faults, latency or limits for the requests from now on.

        ``faults={}`` and ``limits=Limits()`` end them. Raises: MockError.
        """
        change(self._provider, Weather(None if faults is None else dict(faults), latency, limits))


class _Running:
    """One start of a server: its socket, loop and thread."""

    def __init__(self, provider: Provider, listener: socket.socket) -> None:
        host, port = listener.getsockname()[:2]
        self.url = f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
        # How the thread hands over its loop and the event that ends it, or its failure.
        self._started: Future[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = Future()
        self._config = Config(
            provider,
            http=MockProtocol,
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
            lambda: MockProtocol(self._config, state, {}, loop),
            sock=self._listener,
            backlog=_BACKLOG,
        )
        ending = asyncio.Event()
        self._started.set_result((loop, ending))
        await ending.wait()
        server.close()
        for connection in list(state.connections):
            connection.transport.abort()
        # Every request notices that its connection is gone, and ends. It takes a
        # few turns of the loop, for whose end uvicorn has no event.
        while state.connections or state.tasks:  # noqa: ASYNC110
            await asyncio.sleep(0)
        await server.wait_closed()


def _listen(host: str, port: int) -> socket.socket:
    if not 0 <= port <= 65535:
        raise MockError(f"Not a port: {port}. Ports are 0 (any free one) to 65535.")
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listener = socket.socket(family, kind, protocol)
    except OSError as error:
        raise _cannot_listen(host, port, error) from None
    try:
        # So that a server can come back to the port it has just left.
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(_BACKLOG)
    except OSError as error:
        listener.close()
        raise _cannot_listen(host, port, error) from None
    return listener


def _cannot_listen(host: str, port: int, error: OSError) -> MockError:
    return MockError(
        f"Cannot listen on {host}:{port}: {error.strerror}. Port 0 takes any free one."
    )


def _answerer(answers: Answers | None) -> Answerer:
    if answers is None:
        return invented
    if isinstance(answers, Path):
        return read_recording(answers)
    if isinstance(answers, Mapping):
        return recorded(answers)
    return answers
