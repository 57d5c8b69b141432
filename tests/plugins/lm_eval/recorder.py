"""A mock provider that keeps the requests it gets, and answers each prompt in its own way."""

from __future__ import annotations

import asyncio
import json
import re
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from math import inf
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from harness.plugins.mock.app import Provider
from harness.plugins.mock.wire import MockRequest

ANSWERS = [" It is {}.", " {}", "\n{} I think", " I do not know", " {} or {}"]


class Recorder:
    """The provider as an ASGI application; ``bodies`` are the requests for completions.

    An answer depends on the prompt alone or, if ``drawn``, also on how often it was asked before.
    """

    def __init__(self, *, drawn: bool = False, latency: float = 0.0) -> None:
        self.bodies: list[dict[str, Any]] = []
        self._seen: Counter[tuple[str, ...]] = Counter()
        self._drawn = drawn
        self._provider: Any = Provider(answers=self._answer, latency=latency)

    def _answer(self, request: MockRequest, index: int) -> str:
        turns = tuple(turn.text for turn in request.turns)
        number = self._seen[turns] if self._drawn else 0
        self._seen[turns] += 1
        drawn = int(sha256(repr((turns, number)).encode()).hexdigest(), 16)
        asked = re.findall(r"What is (-?\d+) and (-?\d+)\?", " ".join(turns))
        value = sum(map(int, asked[-1])) + drawn // 7 % 5 // 3 if asked else 0
        return ANSWERS[drawn % len(ANSWERS)].format(value, value + 1)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        parts = bytearray()

        async def reading() -> Any:
            message = await receive()
            parts.extend(message.get("body", b""))
            whole = message["type"] == "http.request" and not message.get("more_body")
            if whole and scope["path"].endswith("completions"):
                self.bodies.append(json.loads(bytes(parts)))
            return message

        await self._provider(scope, reading, send)

    def texts(self) -> list[str]:
        """Every text that was sent, in alphabetical order."""
        found: list[str] = []
        for body in self.bodies:
            if "messages" in body:
                found.append(json.dumps(body["messages"], ensure_ascii=False))
            else:
                found += [body["prompt"]] if isinstance(body["prompt"], str) else body["prompt"]
        return sorted(found, key=str)


class Relay(Recorder):
    """A relay to another server, as an ASGI application.

    It lets so many requests for completions pass, and holds the others back until it is released.
    """

    def __init__(self, url: str) -> None:
        super().__init__()
        self._provider = self._relayed
        self._url = url
        self._passing: float = inf
        self._released = threading.Event()
        self.held = 0

    def hold(self, after: int) -> None:
        self.bodies, self._passing, self.held = [], after, 0
        self._released.clear()

    def release(self) -> None:
        self.bodies, self._passing = [], inf
        self._released.set()

    async def _relayed(self, scope: Any, receive: Any, send: Any) -> None:
        body, more = b"", True
        while more:
            message = await receive()
            body, more = body + message.get("body", b""), message.get("more_body", False)
        if scope["path"].endswith("completions"):
            self._passing -= 1
            if self._passing < 0:
                self.held += 1
                await asyncio.to_thread(self._released.wait)
        status, content = await asyncio.to_thread(self._sent, scope["method"], scope["path"], body)
        headers = [(b"content-type", b"application/json")]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": content})

    def _sent(self, method: str, path: str, body: bytes) -> tuple[int, bytes]:
        headers = {"content-type": "application/json"}
        request = Request(self._url + path, body or None, headers, method=method)
        try:
            with urlopen(request) as found:
                return found.status, found.read()
        except HTTPError as error:
            return error.code, error.read()


class _Protocol(HttpToolsProtocol):
    def on_message_begin(self) -> None:  # the provider may break the connection
        super().on_message_begin()
        self.scope["state"]["transport"] = self.transport


@contextmanager
def serving(recorder: Recorder) -> Iterator[str]:
    """Serve on a loopback port, and yield the root URL."""
    config = uvicorn.Config(
        recorder, port=0, http=_Protocol, ws="none", lifespan="off", log_level="error"
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    server.should_exit = True
    thread.join()
