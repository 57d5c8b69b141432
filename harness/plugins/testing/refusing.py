"""A local server that refuses all calls, to see what a backend sends and how it treats errors."""

from __future__ import annotations

import contextlib
import json
import re
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

# A header or a URL parameter that carries a key.
KEY = re.compile(r"(?i)[\w-]*(?:auth|key|secret|token)[\w-]*(?:: (?:\w+ )?|=)([^\s&]{8,})")


class Refusing(ThreadingHTTPServer):
    """A local server that answers all calls with ``status`` and ``body``.

    With the status 401, the body instead quotes the call's keys. With ``together``, each call is
    answered only when a second call has arrived, or after 3 s.
    """

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Refusal)
        self.url = f"http://127.0.0.1:{self.server_port}"
        self.status = 429
        self.body = b"{}"
        self.keys: set[str] = set()
        self.together: threading.Barrier | None = None
        self.sent: list[tuple[str, bytes]] = []


class _Refusal(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        assert isinstance(self.server, Refusing)
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        self.server.sent.append((self.path, body))
        keys = KEY.findall(f"{self.path}\n{self.headers}")
        self.server.keys.update(keys)
        if self.server.together:
            with contextlib.suppress(threading.BrokenBarrierError):
                self.server.together.wait(3)
        answer = self.server.body
        if self.server.status == 401:  # some providers quote the key
            answer = json.dumps({"error": {"message": f"Wrong key: {keys}"}}).encode()
        self.send_response(self.server.status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(answer)))
        self.send_header("retry-after", "1")
        self.end_headers()
        self.wfile.write(answer)

    do_GET = do_POST  # noqa: N815 (named by http.server)

    def log_message(self, *_: object) -> None:
        """Log nothing: the base class would print a line for each call."""


@contextlib.contextmanager
def refusing() -> Iterator[Refusing]:
    """Run a `Refusing` server in a thread."""
    with Refusing() as server:
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        try:
            yield server
        finally:
            server.shutdown()
