"""`harness view`: the server of the live page, an ASGI application on the loopback address.

Model output and other web pages are treated as hostile. Every request needs the token, which is in
the printed URL and then in a cookie. To prevent DNS rebinding, the request's Host, and its Origin
if it has one, must be this server's own. Only stopping a run (`request_stop`) changes anything, and
it must have an Origin.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import secrets
import signal
import socket
import threading
import webbrowser
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import partial
from html import escape
from http.cookies import CookieError, SimpleCookie
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import parse_qs, urlencode

import typer
from uvicorn import Config
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

from harness.cli.options import RUNS
from harness.cli.verbs import run_names
from harness.config.settings import Settings, has_display
from harness.engine.run_files import runs_named
from harness.errors import ConfigError, HarnessError
from harness.plugins.report.figure import config
from harness.plugins.report.parts import built, to_json
from harness.plugins.report.recorded_task import task_of
from harness.plugins.report.runs import TaskAnswers
from harness.plugins.view.cases import CaseFilter
from harness.plugins.view.chosen import AnswersOf, Chosen
from harness.plugins.view.runs import POLL_S, Followed, RunList, in_thread, timeline
from harness.plugins.view.status import request_stop
from harness.store.run_folder import RunFolder
from harness.terminal.console import say, write

Message = dict[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Query = Mapping[str, list[str]]
# Takes the last state that was sent (at first None), and returns the new one with an event's data,
# or None if nothing has changed.
Changes = Callable[[object], Awaitable[tuple[object, object] | None]]

HOST = "127.0.0.1"
TOKEN = "token"  # noqa: S105 (a parameter's name)
MOST_RUNS = 50  # in one page
BEAT_S = 15.0  # between signs of life on a stream without events
_PATH = re.compile(r"/runs/([\w.+-]+)/(?:api/(\w+))?")
_FILES = {"app.js": "text/javascript", "charts.js": "text/javascript", "app.css": "text/css"}
_HEADERS = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "connect-src 'self'; img-src 'self' data: blob:; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}
_PAGE = """\
<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{title}</title>
<link rel="icon" href="data:,">
<link rel="stylesheet" href="/app.css">
</head>
<body>
<div id="app"></div>
<noscript>This page needs JavaScript.</noscript>
<script src="/app.js"></script>
</body>
</html>
"""


class Refused(Exception):
    """A request that is answered only with an error status and a reason."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status
        self.reason = reason


class LiveView:
    """The ASGI application of the live page.

    ``roots`` are the folders that contain the runs. The Host of every request must name the
    server's ``port``. ``answers_of`` returns the facts that a run's task knows about answers, or
    None.
    """

    def __init__(
        self, roots: Iterable[Path], port: int, answers_of: AnswersOf = lambda _: None
    ) -> None:
        self._answers_of = answers_of
        self.token = secrets.token_urlsafe(32)
        self._port = port
        self._runs = RunList(roots)
        self._followed: dict[str, Followed] = {}
        self._chosen: dict[str, Chosen] = {}

    def url(self, names: Sequence[str] = ()) -> str:
        """Return the URL of the list of runs or, if ``names`` are given, of these runs' page."""
        path = f"/runs/{'+'.join(names)}/" if names else "/"
        return f"http://{HOST}:{self._port}{path}?{TOKEN}={self.token}"

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Answer one ASGI request."""
        try:
            reply = await self._answer(scope)
        except Refused as refused:
            reply = _Reply(refused.reason.encode(), "text/plain", refused.status)
        except HarnessError as error:
            reply = _Reply(str(error).encode(errors="replace"), "text/plain", 500)
        if isinstance(reply, _Reply):
            await reply.send(send)
        else:
            await _stream(reply, receive, send)

    async def _answer(self, scope: Message) -> _Reply | Changes:
        headers = _checked_headers(scope, self._port)
        path = scope["path"]
        query = parse_qs(scope["query_string"].decode("latin-1"))
        if tokens := query.pop(TOKEN, None):
            if scope["method"] != "GET" or not _same(tokens[-1], self.token):
                raise Refused(403, "The token is not this server's.")
            rest = urlencode(query, doseq=True)
            cookie = f"{self._cookie}={self.token}; Path=/; HttpOnly; SameSite=Strict"
            # Not an absolute path: "//host" would lead elsewhere.
            back = f"/{path.lstrip('/')}" + (f"?{rest}" if rest else "")
            return _Reply(b"", "text/plain", 303, {"location": back, "set-cookie": cookie})
        if not self._knows(headers):
            raise Refused(403, "Open the address that 'harness view' printed: it contains a token.")
        if scope["method"] == "POST":
            if path != "/api/stop":
                raise Refused(405, "Only a run can be stopped.")
            return self._stop(query)
        return await self._get(path, query)

    @property
    def _cookie(self) -> str:
        return f"harness_view_{self._port}"  # cookies are shared by all ports

    def _knows(self, headers: Mapping[str, str]) -> bool:
        scheme, _, token = headers.get("authorization", "").partition(" ")
        if scheme == "Bearer":
            return _same(token, self.token)
        try:
            cookie = SimpleCookie(headers.get("cookie", "")).get(self._cookie)
        except CookieError:
            return False
        return cookie is not None and _same(cookie.value, self.token)

    async def _get(self, path: str, query: Query) -> _Reply | Changes:
        if path == "/":
            return _page("Runs")
        if path[1:] in _FILES:
            return _Reply(built(path[1:]).encode(), _FILES[path[1:]])
        if path == "/api/runs":
            await in_thread(self._runs.look)
            return _json({"runs": list(self._runs.summaries.values())})
        if path == "/api/events":
            return self._list_changes
        if (match := _PATH.fullmatch(path)) is None:
            raise Refused(404, "There is no such page.")
        names = match[1].split("+")
        what = match[2]
        chosen = await self._choose(names)
        if what is None:
            return _page(", ".join(names))
        return await self._get_of(chosen, what, query)

    async def _get_of(self, chosen: Chosen, what: str, query: Query) -> _Reply | Changes:
        match what:
            case "overview":
                return _json(await chosen.overview())
            case "index":
                return _json(await chosen.index())
            case "cases":
                start = _number(query, "from", 0)
                end = _number(query, "to", 200)
                return _json(await chosen.cases(CaseFilter.of(query), start, end))
            case "entry":
                entry = await chosen.entry(query.get("instance", [""])[-1])
                if entry is None:
                    raise Refused(404, "There is no such instance.")
                return _json(entry)
            case "line":
                run, instance = (query.get(name, [""])[-1] for name in ("run", "instance"))
                numbers = _number(query, "sample", -1), _number(query, "round", -1)
                if (line := await chosen.line(run, instance, *numbers)) is None:
                    raise Refused(404, "There is no such attempt.")
                return _json(line)
            case "themes":
                return _json({"light": config(), "dark": config(dark=True)})
            case "timelines":
                return _json(await self._timelines(chosen, _number(query, "session", -1)))
            case "events":
                return chosen.changes
        raise Refused(404, "There is no such page.")

    async def _timelines(self, chosen: Chosen, session: int) -> list[object]:
        await chosen.ready()
        await in_thread(self._runs.look)
        timelines: list[object] = []
        for run in chosen.followed:
            own_timeline = await in_thread(partial(timeline, run.folder, run.index, session))
            timelines.append(
                {"run": self._runs.summaries.get(run.folder.name), "timeline": own_timeline}
            )
        return timelines

    async def _choose(self, names: Sequence[str]) -> Chosen:
        key = "+".join(names)
        if key not in self._chosen:
            await in_thread(self._runs.look)
            unknown = [name for name in names if name not in self._runs.folders]
            if unknown or len(set(names)) < len(names) or len(names) > MOST_RUNS:
                raise Refused(404, "There is no such run.")
            for name in names:
                if name not in self._followed:
                    self._followed[name] = Followed(self._runs.folders[name])
            self._chosen[key] = Chosen([self._followed[name] for name in names], self._answers_of)
        return self._chosen[key]

    def _stop(self, query: Query) -> _Reply:
        self._runs.look()
        folder = self._runs.folders.get(query.get("run", [""])[-1])
        if folder is None:
            raise Refused(404, "There is no such run.")
        if not request_stop(folder.path):
            raise Refused(409, "No session of this run is in progress.")
        return _json({"stopping": folder.name})

    async def _list_changes(self, seen: object) -> tuple[object, object] | None:
        await in_thread(self._runs.look)
        before = seen if isinstance(seen, int) else -1
        if self._runs.revision == before:
            return None
        changed = [entry for entry in self._runs.summaries.values() if entry.revision > before]
        return self._runs.revision, {"runs": changed, "names": list(self._runs.summaries)}


class _Reply:
    def __init__(
        self, body: bytes, kind: str, status: int = 200, headers: Mapping[str, str] | None = None
    ) -> None:
        self._body = body
        self._status = status
        sized = {"content-type": f"{kind}; charset=utf-8", "content-length": str(len(body))}
        self._headers = {**_HEADERS, **sized, **(headers or {})}

    async def send(self, send: Send) -> None:
        await _start(send, self._status, self._headers)
        await send({"type": "http.response.body", "body": self._body})


async def _stream(changes: Changes, receive: Receive, send: Send) -> None:
    kind = {"content-type": "text/event-stream; charset=utf-8"}
    await _start(send, 200, {**_HEADERS, **kind})

    async def tell() -> None:
        seen: object = None
        silent = 0.0
        while True:
            if (change := await changes(seen)) is not None:
                seen, data = change
                body = b"event: change\ndata: " + to_json(data) + b"\n\n"
                await send({"type": "http.response.body", "body": body, "more_body": True})
                silent = 0.0
            elif silent >= BEAT_S:
                await send({"type": "http.response.body", "body": b":\n\n", "more_body": True})
                silent = 0.0
            await asyncio.sleep(POLL_S)
            silent += POLL_S

    telling = asyncio.create_task(tell())
    while (await receive())["type"] != "http.disconnect":
        pass
    telling.cancel()
    await asyncio.wait({telling})


async def _start(send: Send, status: int, headers: Mapping[str, str]) -> None:
    pairs = [(name.encode(), value.encode("latin-1")) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": status, "headers": pairs})


def _checked_headers(scope: Message, port: int) -> dict[str, str]:
    """Return a request's headers, or raise `Refused` for a wrong method, Host or Origin."""
    if scope["method"] not in ("GET", "POST"):
        raise Refused(405, "Only GET and POST are answered.")
    pairs = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in scope["headers"]]
    headers = dict(pairs)
    hosts = [f"{name}:{port}" for name in (HOST, "localhost")]  # localhost: through a tunnel
    if [value for name, value in pairs if name == "host"] not in [[host] for host in hosts]:
        raise Refused(403, "The Host header is not this server's.")
    origins = [value for name, value in pairs if name == "origin"]
    expected = [f"http://{headers['host']}"]
    if origins not in ([], expected) or (scope["method"] == "POST" and origins != expected):
        raise Refused(403, "The Origin header is not this server's.")
    return headers


def _same(candidate: str, token: str) -> bool:
    return secrets.compare_digest(candidate.encode(), token.encode())


def _page(title: str) -> _Reply:
    return _Reply(_PAGE.format(title=escape(title)).encode(), "text/html")


def _json(value: object) -> _Reply:
    return _Reply(to_json(value), "application/json")


def _number(query: Query, name: str, default: int) -> int:
    text = query.get(name, [""])[-1]
    return int(text) if re.fullmatch(r"-?\d{1,9}", text) else default


async def serve(
    listener: socket.socket,
    roots: Iterable[Path],
    opened: Callable[[LiveView], None],
    answers_of: AnswersOf = lambda _: None,
) -> None:
    """Serve the live page of the runs in the folders ``roots`` until the task is cancelled.

    Cancelling closes all connections. ``opened`` is called once requests are accepted.
    """
    app = LiveView(roots, listener.getsockname()[1], answers_of)
    settings = Config(
        app, ws="none", lifespan="off", log_config=None, access_log=False, server_header=False
    )
    settings.load()
    loop = asyncio.get_running_loop()
    state = ServerState()
    protocol = partial(HttpToolsProtocol, settings, state, {}, loop)
    server = await loop.create_server(protocol, sock=listener)
    try:
        opened(app)
        await asyncio.Event().wait()
    finally:
        server.close()
        for connection in list(state.connections):
            connection.transport.abort()


def listen(port: int) -> socket.socket:
    """Return a socket that listens on the loopback address (port 0: any free port)."""
    try:
        return socket.create_server((HOST, port))
    except (OSError, OverflowError) as error:
        problem = f"Cannot listen on {HOST}:{port}: {error}."
        raise ConfigError(
            problem, "Choose another --port, or omit it to use any free port."
        ) from None


def view(
    runs: Annotated[
        list[str] | None, typer.Argument(metavar="RUN", help=RUNS, autocompletion=run_names)
    ] = None,
    port: Annotated[int, typer.Option(min=0, max=65535)] = 0,
    no_browser: bool = False,
) -> None:
    """Follow runs in progress in the browser, and read finished ones.

    The page is served to this machine only, until Ctrl-C. Its address contains a secret token:
    whoever knows the address can read the runs and stop them.

    Args:
        port: Port of the page; 0 uses any free port.
        no_browser: Print the address without opening a browser.
    """
    settings = Settings()
    folders = runs_named(runs or [], settings)
    roots = [settings.runs_dir, *(folder.path.parent for folder in folders)]
    names = [folder.name for folder in folders]
    listener = listen(port)

    def answers_of(folder: RunFolder) -> TaskAnswers | None:
        return task_of(folder, settings)

    def opened(page: LiveView) -> None:
        url = page.url(names)
        write(url)
        say("Ctrl-C ends the page. Runs continue without it.")
        if not no_browser and has_display():
            # It may wait for a browser to start.
            threading.Thread(target=webbrowser.open, args=(url,), daemon=True).start()

    async def until_signalled() -> None:
        serving = asyncio.create_task(serve(listener, roots, opened, answers_of))
        for number in (signal.SIGINT, signal.SIGTERM):
            with contextlib.suppress(NotImplementedError):  # Windows
                asyncio.get_running_loop().add_signal_handler(number, serving.cancel)
        await serving

    with contextlib.suppress(KeyboardInterrupt, asyncio.CancelledError):
        asyncio.run(until_signalled())
