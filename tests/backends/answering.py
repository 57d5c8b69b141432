"""A server that says one thing, for bodies that no provider would send."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from harness.errors import FailureKind, TransientError


def transient(kind: FailureKind, match: str | None = None) -> pytest.RaisesExc[TransientError]:
    """Expects a failure of this kind."""
    return pytest.raises(TransientError, match=match, check=lambda error: error.kind == kind)


@contextmanager
def answering(
    body: str | bytes, status: int = 200, headers: str = "", port: int = 0
) -> Iterator[tuple[str, list[bytes]]]:
    """A server that answers every request with one body, and keeps what it was sent."""
    content = body.encode() if isinstance(body, str) else body
    head = (
        f"HTTP/1.1 {status} x\r\ncontent-type: application/json\r\n{headers}"
        f"content-length: {len(content)}\r\nconnection: close\r\n\r\n"
    )
    received: list[bytes] = []
    with socket.create_server(("127.0.0.1", port)) as server:

        def serve() -> None:
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                with connection:
                    data = b""
                    while b"\r\n\r\n" not in data:
                        data += connection.recv(65536)
                    sent, _, rest = data.partition(b"\r\n\r\n")
                    lengths = [
                        int(line.split(b":")[1])
                        for line in sent.lower().split(b"\r\n")
                        if line.startswith(b"content-length")
                    ]
                    length = lengths[0] if lengths else 0
                    while len(rest) < length:
                        rest += connection.recv(65536)
                    received.append(sent + b"\r\n\r\n" + rest)
                    connection.sendall(head.encode() + content)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}/v1", received
        server.shutdown(socket.SHUT_RDWR)
    thread.join()
