"""A file server on loopback, with the faults of real ones."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self


@dataclass
class FileServer:
    """Serves bytes by path; the fields change how, also while it runs.

    cut: the most bytes of a body it sends before it hangs up.
    pace: seconds to wait before each further 10,000 bytes.
    requests: the path of each request.
    """

    files: dict[str, bytes] = field(default_factory=dict)
    status: int = 200
    cut: int | None = None
    pace: float = 0.0
    redirect: str = ""
    length: bool = True
    requests: list[str] = field(default_factory=list)

    def __enter__(self) -> Self:
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"


def _handler(server: FileServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *arguments: Any) -> None:
            pass

        def do_GET(self) -> None:
            server.requests.append(self.path)
            body = server.files.get(self.path)
            status = server.status if body is not None else 404
            if server.redirect:
                status = 302
                self.send_response(302)
                self.send_header("Location", server.redirect)
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
            if body is None or status != 200:
                body = b"<html>no</html>"
            self.send_response(status)
            if server.length:
                self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self._send(body)
            self.close_connection = True

        def _send(self, body: bytes) -> None:
            kept = body if server.cut is None else body[: server.cut]
            try:
                for at in range(0, len(kept), 10_000):
                    time.sleep(server.pace)
                    self.wfile.write(kept[at : at + 10_000])
                    self.wfile.flush()
            except OSError:  # the client has gone
                pass

    return Handler
