"""One request's connection: the ways to answer, and the ways to fail to.

ASGI can only answer properly. To reset or cut a connection its transport is
needed, which `MockProtocol` hands through the request's state.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Awaitable, Callable
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from harness.mock.wire import Headers

# ASGI leaves its messages open: each kind has its own keys.
Scope = dict[str, Any]
Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]

TRICKLE_S = 1.0
"""Seconds between the bytes of an answer that trickles: less than any client waits for a read."""

_RESET_ON_CLOSE = struct.pack("ii", 1, 0)


class MockProtocol(HttpToolsProtocol):
    """uvicorn's HTTP protocol, with the transport within the application's reach."""

    def on_message_begin(self) -> None:
        """Start a request."""
        super().on_message_begin()
        self.scope["state"]["transport"] = self.transport


class Connection:
    """What the application does to the client of one request."""

    def __init__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._transport: asyncio.Transport = scope["state"]["transport"]
        self._receive = receive
        self._send = send

    async def body(self) -> bytes | None:
        """The request's body; None when the client left while sending it."""
        event = await self._receive()
        body: bytes = event.get("body", b"")
        while event.get("more_body"):
            event = await self._receive()
            body += event.get("body", b"")
        return None if event["type"] == "http.disconnect" else body

    async def answer(self, status: int, body: bytes, headers: Headers) -> None:
        """A whole response."""
        await self._start(status, len(body), headers)
        await self._send({"type": "http.response.body", "body": body})

    async def answer_half(self, body: bytes, headers: Headers) -> None:
        """A 200 that promises the whole body and sends half of it."""
        await self._start(200, len(body), headers)
        half = body[: len(body) // 2]
        await self._send({"type": "http.response.body", "body": half, "more_body": True})

    async def trickle(self, body: bytes, headers: Headers) -> None:
        """A 200 whose body comes byte by byte, without the last; until the client leaves."""
        await self._start(200, len(body), headers)
        for at in range(len(body) - 1):
            byte = body[at : at + 1]
            await self._send({"type": "http.response.body", "body": byte, "more_body": True})
            if await self.left_within(TRICKLE_S):
                return
        await self.gone()

    async def cut(self) -> None:
        """Close the connection in good order, whatever was promised."""
        self._transport.close()
        await self.gone()

    async def reset(self) -> None:
        """Break the connection so that the client's kernel reports a reset."""
        raw = self._transport.get_extra_info("socket")
        if raw.fileno() >= 0:  # else the client has left already
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
        self._transport.abort()
        await self.gone()

    async def gone(self) -> None:
        """Wait until the client, or the server's end, has closed the connection."""
        while (await self._receive())["type"] != "http.disconnect":
            pass

    async def left_within(self, seconds: float) -> bool:
        """Wait so long, or until the client leaves; whether it left."""
        try:
            async with asyncio.timeout(seconds):
                await self.gone()
        except TimeoutError:
            return False
        return True

    async def _start(self, status: int, length: int, headers: Headers) -> None:
        await self._send(
            {
                "type": "http.response.start",
                "status": status,
                "headers": [
                    (b"content-type", b"application/json"),
                    (b"content-length", str(length).encode()),
                    *headers,
                ],
            }
        )
