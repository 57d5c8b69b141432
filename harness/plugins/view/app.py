"""`harness view`: the server of the live page, on the loopback address.

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
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial
from html import escape
from pathlib import Path
from typing import Annotated

import typer
from aiohttp import web

from harness.cli.options import RUNS
from harness.cli.verbs import run_names
from harness.config.settings import Settings, has_display
from harness.engine.run_files import find_named_runs
from harness.errors import ConfigError, HarnessError
from harness.plugins.report.figure import config
from harness.plugins.report.parts import built, to_json
from harness.plugins.view.cases import CaseFilter
from harness.plugins.view.chosen import Chosen
from harness.plugins.view.runs import POLL_S, Followed, RunList, in_thread, timeline
from harness.plugins.view.status import request_stop
from harness.terminal.console import say, write

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
# Takes the last state that was sent (at first None), and returns the new one with an event's data,
# or None if nothing has changed.
Changes = Callable[[object], Awaitable[tuple[object, object] | None]]

HOST = "127.0.0.1"
TOKEN = "token"  # noqa: S105 (a parameter's name)
MOST_RUNS = 50  # in one page
BEAT_S = 15.0  # between signs of life on a stream without events
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


class LiveView:
    """The application of the live page.

    ``roots`` are the folders that contain the runs. The Host of every request must name the
    server's ``port``.
    """

    def __init__(self, roots: Iterable[Path], port: int, settings: Settings) -> None:
        self._settings = settings
        self.token = secrets.token_urlsafe(32)
        self._port = port
        self._runs = RunList(roots)
        self._followed: dict[str, Followed] = {}
        self._chosen: dict[str, Chosen] = {}
        self.application = web.Application(middlewares=[self._guarded])
        self.application.on_response_prepare.append(_add_headers)
        self.application.add_routes([
            web.get("/", self._list),
            web.get("/api/runs", self._summaries),
            web.get("/api/events", self._list_events),
            web.post("/api/stop", self._stop),
            web.get(r"/runs/{names:[\w.+-]+}/", self._page),
            web.get(r"/runs/{names:[\w.+-]+}/api/{what:\w+}", self._data),
            *[web.get(f"/{name}", _file) for name in _FILES],
        ])  # fmt: skip

    def url(self, names: Sequence[str] = ()) -> str:
        """Return the URL of the list of runs or, if ``names`` are given, of these runs' page."""
        path = f"/runs/{'+'.join(names)}/" if names else "/"
        return f"http://{HOST}:{self._port}{path}?{TOKEN}={self.token}"

    @web.middleware
    async def _guarded(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Answer a request, if it comes from where it may come from and has the token."""
        _check_origin(request, self._port)
        query = request.query
        if TOKEN in query:
            if request.method != "GET" or not self._is_token(query.getall(TOKEN)[-1]):
                raise web.HTTPForbidden(text="The token is not this server's.")
            # Not an absolute path: "//host" would lead elsewhere.
            path = request.rel_url.raw_path.lstrip("/")
            rest = request.rel_url.without_query_params(TOKEN).raw_query_string
            entered = web.Response(status=303)
            entered.headers["location"] = f"/{path}" + (f"?{rest}" if rest else "")
            entered.set_cookie(self._cookie, self.token, httponly=True, samesite="Strict")
            return entered
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        if scheme != "Bearer":
            token = request.cookies.get(self._cookie, "")
        if not self._is_token(token):
            text = "Open the address that 'harness view' printed: it contains a token."
            raise web.HTTPForbidden(text=text)
        try:
            return await handler(request)
        except HarnessError as error:
            return web.Response(body=str(error).encode(errors="replace"), status=500)

    @property
    def _cookie(self) -> str:
        return f"harness_view_{self._port}"  # cookies are shared by all ports

    def _is_token(self, token: str) -> bool:
        return secrets.compare_digest(token.encode(errors="replace"), self.token.encode())

    async def _list(self, request: web.Request) -> web.Response:
        return _html("Runs")

    async def _summaries(self, request: web.Request) -> web.Response:
        await in_thread(self._runs.look)
        return _json({"runs": list(self._runs.summaries.values())})

    async def _list_events(self, request: web.Request) -> web.StreamResponse:
        return await _stream(request, self._list_changes)

    async def _page(self, request: web.Request) -> web.Response:
        await self._choose(request)
        return _html(request.match_info["names"].replace("+", ", "))

    async def _data(self, request: web.Request) -> web.StreamResponse:
        chosen = await self._choose(request)
        query = request.query
        match request.match_info["what"]:
            case "overview":
                return _json(await chosen.overview())
            case "index":
                return _json(await chosen.index())
            case "cases":
                start = _number(request, "from", 0)
                end = _number(request, "to", 200)
                filters = CaseFilter.of({name: query.getall(name) for name in query})
                return _json(await chosen.cases(filters, start, end))
            case "entry":
                return _json(await chosen.entry(query.get("instance", "")), "instance")
            case "line":
                numbers = _number(request, "sample", -1), _number(request, "round", -1)
                names = query.get("run", ""), query.get("instance", "")
                return _json(await chosen.line(*names, *numbers), "attempt")
            case "themes":
                return _json({"light": config(), "dark": config(dark=True)})
            case "timelines":
                return _json(await self._timelines(chosen, _number(request, "session", -1)))
            case "events":
                return await _stream(request, chosen.changes)
        raise web.HTTPNotFound(text="There is no such page.")

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

    async def _choose(self, request: web.Request) -> Chosen:
        key = request.match_info["names"]
        names = key.split("+")
        if key not in self._chosen:
            await in_thread(self._runs.look)
            unknown = [name for name in names if name not in self._runs.folders]
            if unknown or len(set(names)) < len(names) or len(names) > MOST_RUNS:
                raise web.HTTPNotFound(text="There is no such run.")
            for name in names:
                if name not in self._followed:
                    self._followed[name] = Followed(self._runs.folders[name])
            self._chosen[key] = Chosen([self._followed[name] for name in names], self._settings)
        return self._chosen[key]

    async def _stop(self, request: web.Request) -> web.Response:
        self._runs.look()
        folder = self._runs.folders.get(request.query.get("run", ""))
        if folder is None:
            raise web.HTTPNotFound(text="There is no such run.")
        if not request_stop(folder.path):
            raise web.HTTPConflict(text="No session of this run is in progress.")
        return _json({"stopping": folder.name})

    async def _list_changes(self, seen: object) -> tuple[object, object] | None:
        await in_thread(self._runs.look)
        before = seen if isinstance(seen, int) else -1
        if self._runs.revision == before:
            return None
        changed = [entry for entry in self._runs.summaries.values() if entry.revision > before]
        return self._runs.revision, {"runs": changed, "names": list(self._runs.summaries)}


async def _add_headers(request: web.Request, response: web.StreamResponse) -> None:
    response.headers.update(_HEADERS)
    response.headers.pop("server", None)


def _check_origin(request: web.Request, port: int) -> None:
    """Refuse a wrong method, Host or Origin."""
    if request.method not in ("GET", "POST"):
        raise web.HTTPMethodNotAllowed(request.method, ["GET", "POST"])
    hosts = [f"{name}:{port}" for name in (HOST, "localhost")]  # localhost: through a tunnel
    if request.headers.getall("host", []) not in [[host] for host in hosts]:
        raise web.HTTPForbidden(text="The Host header is not this server's.")
    origins = request.headers.getall("origin", [])
    expected = [f"http://{request.host}"]
    if origins not in ([], expected) or (request.method == "POST" and origins != expected):
        raise web.HTTPForbidden(text="The Origin header is not this server's.")


async def _file(request: web.Request) -> web.Response:
    name = request.path[1:]
    return web.Response(text=built(name), content_type=_FILES[name])


async def _stream(request: web.Request, changes: Changes) -> web.StreamResponse:
    response = web.StreamResponse(headers={"content-type": "text/event-stream; charset=utf-8"})
    await response.prepare(request)
    seen: object = None
    silent = 0.0
    while True:
        if (change := await changes(seen)) is not None:
            seen, data = change
            await response.write(b"event: change\ndata: " + to_json(data) + b"\n\n")
            silent = 0.0
        elif silent >= BEAT_S:
            await response.write(b":\n\n")
            silent = 0.0
        await asyncio.sleep(POLL_S)
        silent += POLL_S


def _html(title: str) -> web.Response:
    return web.Response(text=_PAGE.format(title=escape(title)), content_type="text/html")


def _json(value: object, what: str = "") -> web.Response:
    if value is None:
        raise web.HTTPNotFound(text=f"There is no such {what}.")
    return web.Response(body=to_json(value), content_type="application/json", charset="utf-8")


def _number(request: web.Request, name: str, default: int) -> int:
    text = request.query.get(name, "")
    return int(text) if re.fullmatch(r"-?\d{1,9}", text) else default


async def serve(
    listener: socket.socket,
    roots: Iterable[Path],
    opened: Callable[[LiveView], None],
    settings: Settings,
) -> None:
    """Serve the live page of the runs in the folders ``roots`` until the task is cancelled.

    Cancelling closes all connections. ``opened`` is called once requests are accepted.
    """
    view = LiveView(roots, listener.getsockname()[1], settings)
    runner = web.AppRunner(
        view.application,
        access_log=None,
        handler_cancellation=True,
        shutdown_timeout=0.01,  # for requests in progress, such as streams; 0 is without end
    )
    await runner.setup()
    try:
        await web.SockSite(runner, listener).start()
        opened(view)
        await asyncio.Event().wait()
    finally:
        await runner.cleanup()


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
    folders = find_named_runs(runs or [], settings)
    roots = [settings.runs_dir, *(folder.path.parent for folder in folders)]
    names = [folder.name for folder in folders]
    listener = listen(port)

    def opened(page: LiveView) -> None:
        url = page.url(names)
        write(url)
        say("Ctrl-C ends the page. Runs continue without it.")
        if not no_browser and has_display():
            # It may wait for a browser to start.
            threading.Thread(target=webbrowser.open, args=(url,), daemon=True).start()

    async def until_signalled() -> None:
        serving = asyncio.create_task(serve(listener, roots, opened, settings))
        for number in (signal.SIGINT, signal.SIGTERM):
            with contextlib.suppress(NotImplementedError):  # Windows
                asyncio.get_running_loop().add_signal_handler(number, serving.cancel)
        await serving

    with contextlib.suppress(KeyboardInterrupt, asyncio.CancelledError):
        asyncio.run(until_signalled())
