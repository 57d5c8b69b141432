"""A file server on loopback, with ranges and with the faults of real ones."""

from __future__ import annotations

import hashlib
import re
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self


@dataclass
class FileServer:
    """Serves bytes by path; the fields change how, also while it runs.

    ranges: whether it knows `Range` and `If-Range`.
    cut: the most bytes of a body it sends before it hangs up.
    pace: seconds to wait before each further 10,000 bytes.
    false_range: the start of ranges that it claims to send, and does not.
    ignore_version: gives a range of whatever there is, also where `If-Range` does not match.
    requests: of each request, its path and its `Range`.
    """

    files: dict[str, bytes] = field(default_factory=dict)
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    versions: bool = True
    ranges: bool = True
    ignore_version: bool = False
    false_range: int | None = None
    cut: int | None = None
    pace: float = 0.0
    redirect: str = ""
    length: bool = True
    requests: list[tuple[str, str | None]] = field(default_factory=list)

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

    @property
    def asked(self) -> list[str | None]:
        """The ranges that were asked for."""
        return [wanted for _, wanted in self.requests]


def _handler(server: FileServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *arguments: Any) -> None:
            pass

        def do_GET(self) -> None:
            wanted = self.headers.get("Range")
            server.requests.append((self.path, wanted))
            body = server.files.get(self.path)
            status = server.status if body is not None else 404
            if server.redirect:
                status = 302
                self.send_response(302)
                self.send_header("Location", server.redirect)
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
            version = f'"{hashlib.md5(body or b"").hexdigest()}"'
            start = 0
            if body is None or status != 200:
                body = b"<html>no</html>"
            elif wanted and server.ranges:
                match = re.fullmatch(r"bytes=(\d+)-", wanted)
                assert match
                fits = self.headers.get("If-Range") == version or server.ignore_version
                if fits and int(match[1]) >= len(body):
                    status, body = 416, b""
                elif fits:
                    status, start = 206, int(match[1])
            self.send_response(status)
            whole = len(body)
            if status == 206:
                claimed = start if server.false_range is None else server.false_range
                self.send_header("Content-Range", f"bytes {claimed}-{whole - 1}/{whole}")
            if server.length:
                self.send_header("Content-Length", str(whole - start))
            if server.versions and status in (200, 206):
                self.send_header("ETag", version)
            for name, value in server.headers.items():
                self.send_header(name, value)
            self.end_headers()
            self._send(body[start:])
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
