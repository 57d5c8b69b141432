"""The connection of one request to the simulated provider."""

import asyncio
import contextlib
import socket
import struct
from collections.abc import Awaitable, Callable
from typing import Any

from harness.plugins.mock.wire import Headers

Message = dict[str, Any]  # each kind of ASGI message has its own keys
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

TRICKLE_S = 1.0  # seconds between a trickling answer's bytes: less than any client's read timeout
SPACES = b" " * 1_000_000

_RESET_ON_CLOSE = struct.pack("ii", 1, 0)


class Connection:
    """The connection of one ASGI request."""

    def __init__(self, scope: Message, receive: Receive, send: Send) -> None:
        self._scope = scope
        # ASGI cannot reset or close a connection: `server._Protocol` passes its transport.
        self._transport: asyncio.Transport = scope["state"]["transport"]
        self._receive, self._send = receive, send

    async def body(self) -> bytes | None:
        """Return the request's body, or None if the client disconnected while sending it."""
        event = await self._receive()
        body: bytes = event.get("body", b"")
        while event.get("more_body"):
            event = await self._receive()
            body += event.get("body", b"")
        return None if event["type"] == "http.disconnect" else body

    async def answer(self, status: int, body: bytes, headers: Headers) -> None:
        """Send a complete reply."""
        await self._start(status, len(body), headers)
        await self._send({"type": "http.response.body", "body": body})

    async def begin(self, length: int, headers: Headers, part: bytes) -> None:
        """Send status 200, headers for ``length`` bytes, and only a part of the body."""
        await self._start(200, length, headers)
        await self._send({"type": "http.response.body", "body": part, "more_body": True})

    async def flood(self, times: int) -> None:
        """Send up to ``times`` megabytes of spaces as the rest of the body."""
        for left in reversed(range(times)):
            await self._send({"type": "http.response.body", "body": SPACES, "more_body": left > 0})
            if self._transport.is_closing():
                return

    def elsewhere(self) -> bytes:
        """Return this request's URL with the other name of this host: localhost or 127.0.0.1."""
        own = dict(self._scope["headers"])[b"host"].startswith(b"localhost")
        host = "127.0.0.1" if own else "localhost"
        return f"http://{host}:{self._scope['server'][1]}{self._scope['path']}".encode()

    async def trickle(self, body: bytes, headers: Headers) -> None:
        """Send the body slowly, byte by byte except the last byte."""
        await self._start(200, len(body), headers)
        for at in range(len(body) - 1):
            byte = body[at : at + 1]
            await self._send({"type": "http.response.body", "body": byte, "more_body": True})
            if await self.left_within(TRICKLE_S):
                return
        await self.gone()

    async def close(self) -> None:
        """Close the connection, and wait until the client has disconnected."""
        self._transport.close()
        await self.gone()

    async def reset(self) -> None:
        """Break the connection so that the client sees a connection reset."""
        raw = self._transport.get_extra_info("socket")
        if raw.fileno() >= 0:  # Otherwise the client has already left.
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
        self._transport.abort()
        await self.gone()

    async def gone(self) -> None:
        """Wait until the client has disconnected or the server is stopped."""
        while (await self._receive())["type"] != "http.disconnect":
            pass

    async def left_within(self, seconds: float) -> bool:
        """Return whether the client disconnects within ``seconds``."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self.gone()
                return True
        return False

    async def _start(self, status: int, length: int, headers: Headers) -> None:
        own = [(b"content-length", b"%d" % length)]
        if all(name != b"content-type" for name, _ in headers):
            own.append((b"content-type", b"application/json"))
        start = {"type": "http.response.start", "status": status, "headers": own + headers}
        await self._send(start)
