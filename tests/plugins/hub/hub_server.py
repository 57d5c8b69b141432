"""A small Hub on loopback, with the files of a folder as each of its data sets."""

import contextlib
import json
from collections.abc import Iterator
from hashlib import sha1
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

COMMIT = "a" * 40


class Handler(BaseHTTPRequestHandler):
    root: Path
    requests: list[str]

    def log_message(self, *args: Any) -> None:
        pass

    def reply(self, status: int, body: bytes = b"{}", **headers: str) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def facts(self, path: Path) -> dict[str, object]:
        content = path.read_bytes()
        facts = {"type": "file", "path": path.name, "size": len(content)}
        return facts | {"oid": sha1(content).hexdigest()}

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_POST(self) -> None:
        wanted = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["paths"]
        found = [self.facts(self.root / name) for name in wanted if (self.root / name).is_file()]
        self.reply(200, json.dumps(found).encode())

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        self.requests.append(path)
        if "/resolve/" in path:
            return self.file(self.root / path.rpartition("/")[2])
        if not path.startswith("/api/datasets/"):
            return self.reply(404)
        if "/missing/" in path:
            return self.reply(404, X_Error_Code="RepoNotFound")
        if path.endswith("/auth-check"):
            return self.reply(403, X_Error_Code="GatedRepo")
        if "/tree/" in path:
            found = [self.facts(file) for file in sorted(self.root.iterdir())]
            return self.reply(200, json.dumps(found).encode())
        if "/revision/" in path and not path.endswith((COMMIT, "/main")):
            return self.reply(404, X_Error_Code="RevisionNotFound")
        _, _, _, owner, name, *_ = path.split("/")
        info = {"id": f"{owner}/{name}", "sha": COMMIT, "private": False, "disabled": False}
        info |= {"gated": "manual" if owner == "gated" else False, "downloads": 0, "likes": 0}
        info |= {"tags": [], "siblings": [{"rfilename": f.name} for f in self.root.iterdir()]}
        self.reply(200, json.dumps(info).encode())

    def file(self, path: Path) -> None:
        if not path.is_file():
            return self.reply(404, X_Error_Code="EntryNotFound", X_Repo_Commit=COMMIT)
        content = path.read_bytes()
        facts = {"ETag": f'"{sha1(content).hexdigest()}"', "X_Repo_Commit": COMMIT}
        if (part := self.headers.get("Range")) is None:
            return self.reply(200, content, **facts)
        start, _, end = part.removeprefix("bytes=").partition("-")
        first, last = int(start), min(int(end or len(content)), len(content) - 1)
        facts["Content_Range"] = f"bytes {first}-{last}/{len(content)}"
        self.reply(206, content[first : last + 1], **facts)


@contextlib.contextmanager
def hub_server(root: Path) -> Iterator[tuple[str, list[str]]]:
    """Serve the files of a folder. Yields the server's address and the paths that it was asked."""
    requests: list[str] = []
    handler = type("Handler", (Handler,), {"root": root, "requests": requests})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}", requests
    finally:
        server.shutdown()
        server.server_close()
