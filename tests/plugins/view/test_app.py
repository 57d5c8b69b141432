"""The live page's server: who is answered, what it says of a run at work, how one is stopped."""

import asyncio
import contextlib
import hashlib
import json
import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, NamedTuple

import httpx2
import pytest

from harness.config.run_file import RunFile
from harness.config.settings import Settings
from harness.engine.executor import execute
from harness.engine.preparation import prepare
from harness.errors import FatalCallError
from harness.plugins.mock.server import MockServer
from harness.plugins.view.app import LiveView, listen, serve
from harness.plugins.view.chosen import QUICK_TEXTS
from harness.plugins.view.status import STATUS, STOP, RunStatus, write_status
from tests.cli.command import QUICK, harness, on
from tests.plugins.view.test_status import run_file, running, settings
from tests.unsealed import unseal


class Page(NamedTuple):
    """A running server, with a client that has its cookie and one that has not."""

    url: str
    origin: str
    token: str
    client: httpx2.AsyncClient
    stranger: httpx2.AsyncClient

    async def get(self, path: str, **query: Any) -> Any:
        reply = await self.client.get(path, params=query)
        assert reply.status_code == 200, reply.text
        return reply.json()

    async def post(self, path: str, **headers: str) -> httpx2.Response:
        return await self.client.post(path, headers={"origin": self.origin, **headers})


@contextlib.asynccontextmanager
async def opened(root: Path) -> AsyncIterator[Page]:
    listener, ready = listen(0), asyncio.get_running_loop().create_future()
    serving = asyncio.create_task(serve(listener, [root], ready.set_result, Settings()))
    app: LiveView = await ready
    origin = app.url().partition("/?")[0]
    async with (
        httpx2.AsyncClient(base_url=origin, timeout=60) as client,
        httpx2.AsyncClient(base_url=origin, timeout=60) as stranger,
    ):
        entered = await client.get(app.url())
        assert entered.status_code == 303
        yield Page(app.url(), origin, app.token, client, stranger)
        serving.cancel()  # Ctrl-C
        with contextlib.suppress(asyncio.CancelledError):
            await serving


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two finished runs of the quickstart."""
    runs = tmp_path_factory.mktemp("viewed")
    for name, accuracy in (("a.weak", 0.2), ("a.strong", 0.9)):
        ended = harness(*QUICK, name, "-o", f"model.accuracy={accuracy}", env=on(runs))
        assert ended.returncode == 0, ended.stderr
    return runs


@pytest.fixture
async def page(made: Path) -> AsyncIterator[Page]:
    async with opened(made) as found:
        yield found


BOTH = "/runs/a.weak+a.strong"


async def settled(page: Page, runs: str = BOTH) -> dict[str, Any]:
    """The overview, once it is computed."""
    while not (found := await page.get(f"{runs}/api/overview"))["runs"]:  # noqa: ASYNC110
        await asyncio.sleep(0.05)
    return dict(found)


async def test_the_token_becomes_a_cookie(page: Page) -> None:
    reply = await page.stranger.get("/runs/a.weak/", params={"token": page.token, "x": "1"})
    assert reply.status_code == 303
    assert reply.headers["location"] == "/runs/a.weak/?x=1"
    cookie = reply.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=Strict" in cookie
    assert (await page.stranger.get("/")).status_code == 200


async def test_a_token_in_a_header_is_accepted(page: Page) -> None:
    headers = {"authorization": f"Bearer {page.token}"}
    assert (await page.stranger.get("/api/runs", headers=headers)).status_code == 200


@pytest.mark.parametrize(
    "path", ["/", "/app.js", "/api/runs", "/api/events", f"{BOTH}/api/overview", "/nothing"]
)
async def test_nothing_is_answered_without_the_token(page: Page, path: str) -> None:
    for headers in ({}, {"authorization": "Bearer x"}, {"cookie": "harness_view_1=x; =; ,"}):
        assert (await page.stranger.get(path, headers=headers)).status_code == 403
    assert (await page.stranger.get(path, params={"token": "é"})).status_code == 403


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("host", "evil.example"),
        ("host", "evil.example:{port}"),
        ("host", "127.0.0.1"),
        ("host", "127.0.0.1:1"),
        ("host", "127.0.0.1:{port}.evil.example"),
        ("origin", "http://evil.example"),
        ("origin", "null"),
        ("origin", "https://127.0.0.1:{port}"),
        ("origin", "http://localhost:{port}"),  # another origin than the request's host
    ],
)
async def test_another_host_or_origin_is_refused(page: Page, name: str, value: str) -> None:
    port = page.origin.rpartition(":")[2]
    headers = {name: value.format(port=port)}
    for path in ("/", "/api/runs", "/api/events"):
        reply = await page.client.get(path, headers=headers)
        assert reply.status_code == 403
        assert "access-control-allow-origin" not in reply.headers


async def test_two_hosts_are_refused(page: Page) -> None:
    host = page.origin.removeprefix("http://")
    reader, writer = await asyncio.open_connection("127.0.0.1", int(host.rpartition(":")[2]))
    lines = ["GET /?token=" + page.token + " HTTP/1.1", f"Host: {host}", "Host: evil", "", ""]
    writer.write("\r\n".join(lines).encode())
    assert b" 400 " in await reader.readline() or reader.at_eof()
    writer.close()


async def test_localhost_is_a_name_of_this_machine(page: Page) -> None:
    port = page.origin.rpartition(":")[2]
    headers = {"host": f"localhost:{port}", "authorization": f"Bearer {page.token}"}
    assert (await page.stranger.get("/api/runs", headers=headers)).status_code == 200


@pytest.mark.parametrize("method", ["PUT", "DELETE", "OPTIONS", "HEAD", "PATCH", "TRACE"])
async def test_other_methods_are_refused(page: Page, method: str) -> None:
    reply = await page.client.request(method, "/api/runs", headers={"origin": page.origin})
    assert reply.status_code == 405


@pytest.mark.parametrize("path", ["/", "/api/runs", f"{BOTH}/api/overview", "/api/events"])
async def test_only_stopping_is_posted(page: Page, path: str) -> None:
    assert (await page.post(path)).status_code == 405


@pytest.mark.parametrize(
    "path",
    [
        "/../app.js",
        "/runs/../api/overview",
        "/runs/..%2f..%2fetc/api/overview",
        "/runs/%2e%2e/api/overview",
        "/runs/a.weak/api/../../secret",
        "/runs/a.weak/api/nothing",
        "/runs/missing/api/overview",
        "/runs/a.weak+a.weak/",
        "/runs/a.weak",
        "//evil.example/",
        "/assets/page.css",
    ],
)
async def test_other_paths_are_not_found(page: Page, path: str) -> None:
    host, port = page.origin.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    lines = [f"GET {path} HTTP/1.1", f"Host: {host}:{port}", f"Authorization: Bearer {page.token}"]
    writer.write("\r\n".join([*lines, "", ""]).encode())
    assert b" 404 " in await reader.readline()
    writer.close()


async def test_the_policy_allows_this_servers_scripts_alone(page: Page) -> None:
    for path in ("/", f"{BOTH}/", "/app.js", "/api/runs", "/nothing"):
        headers = (await page.client.get(path)).headers
        policy = headers["content-security-policy"]
        assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self';")
        assert "unsafe" not in policy
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["cache-control"] == "no-store"
        assert "server" not in headers
        assert headers["referrer-policy"] == "no-referrer"
    text = (await page.client.get(f"{BOTH}/")).text
    assert "<style" not in text
    assert "<script>" not in text


async def test_all_runs_are_listed(page: Page) -> None:
    first, second = (await page.get("/api/runs"))["runs"]
    assert [first["name"], second["name"]] == ["a.strong", "a.weak"]
    assert first["state"] == "complete"
    assert first["done"] == first["planned"] == first["n"] > 0
    assert 0 <= second["low"] <= second["rate"] <= second["high"] <= first["high"]
    assert "SIMULATED" in first["tags"]
    assert first["problem"] == ""


async def test_failed_calls_are_listed_and_not_counted_in_the_rate(tmp_path: Path) -> None:
    with MockServer(faults={"400": 0.3}, seed=1) as server:
        run = RunFile.model_validate(run_file(server.base_url))
        result = await execute(prepare(run, "some", settings(tmp_path)))
    with MockServer(faults={"400": 1.0}) as server:
        run = RunFile.model_validate(run_file(server.base_url, seed=1))
        await execute(prepare(run, "none", settings(tmp_path)))
    failed = result.metrics.outcomes["error"]
    assert 0 < failed < 80
    async with opened(tmp_path) as page:
        none, some = (await page.get("/api/runs"))["runs"]
    assert (none["n"], none["not_judged"], none["rate"], none["done"]) == (0, 80, None, 80)
    assert (some["n"], some["not_judged"], some["done"]) == (80 - failed, failed, 80)


async def test_an_unreadable_run_hides_no_other(made: Path, tmp_path: Path) -> None:
    (tmp_path / "good").symlink_to(made / "a.weak")
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / "config.yaml").write_text("")
    (tmp_path / "bad" / "manifest.json").write_text("{")
    shutil.copytree(made / "a.weak", tmp_path / "blocked")
    (tmp_path / "blocked" / "metrics.json").unlink()
    (tmp_path / "blocked" / "metrics.json").mkdir()
    async with opened(tmp_path) as page:
        bad, blocked, good = (await page.get("/api/runs"))["runs"]
    states = [bad["state"], blocked["state"], good["state"]]
    assert states == ["unreadable", "unreadable", "complete"]
    assert "damaged" in bad["problem"]
    assert "metrics.json" in blocked["problem"]


async def test_a_run_that_ended_early_says_why(tmp_path: Path) -> None:
    with MockServer(models=["other"]) as server:
        run = RunFile.model_validate(run_file(server.base_url, samples=2))
        with pytest.raises(FatalCallError):
            await execute(prepare(run, "failed", settings(tmp_path)))
    shutil.copytree(tmp_path / "failed", tmp_path / "killed")
    manifest = json.loads((tmp_path / "killed" / "manifest.json").read_text())
    manifest["sessions"][-1] = {"started_at": 1.0, "ended_at": None, "ended": "killed"}
    (tmp_path / "killed" / "manifest.json").write_text(json.dumps(manifest))
    status = RunStatus("s", 1.0, 2.0, planned=9, done=4, passed=1, judged=4)
    write_status(tmp_path / "killed", status)
    async with opened(tmp_path) as page:
        failed, killed = (await page.get("/api/runs"))["runs"]
        (told,) = (await page.get("/runs/failed/api/overview"))["warnings"]
    assert failed["state"] == "failed"
    assert "404" in failed["problem"]
    assert told == f"failed: {failed['problem']}"
    assert killed["state"] == "interrupted"
    assert "killed" in killed["problem"]
    assert (killed["done"], killed["planned"], killed["rate"]) == (4, 9, 0.25)


async def test_the_overview_is_that_of_the_report(page: Page) -> None:
    found = await settled(page)
    assert [run["name"] for run in found["runs"]] == ["weak", "strong"]
    assert found["comparison"]["rows"][0]["run"] == "strong"
    assert not found["live"]
    assert "SIMULATED" in [mark["text"] for mark in found["marks"]]


async def test_a_large_run_has_figures_at_once_and_reasons_later(
    made: Path, tmp_path: Path
) -> None:
    shutil.copytree(made / "a.weak", tmp_path / "a.weak")
    unseal(tmp_path / "a.weak")
    attempts = tmp_path / "a.weak" / "attempts.jsonl"
    lines = [json.loads(line) for line in attempts.read_text().splitlines()]
    more = [
        line | {"instance": f"{line['instance']} {copy}"}
        for copy in range(QUICK_TEXTS // len(lines) + 1)
        for line in lines
    ]
    attempts.write_text("".join(f"{json.dumps(line)}\n" for line in more))
    async with opened(tmp_path) as page:
        first = await settled(page, "/runs/a.weak")
        assert first["runs"][0]["attempts"] == len(more)
        while not (found := await settled(page, "/runs/a.weak"))["runs"][0]["failures"]:  # noqa: ASYNC110
            await asyncio.sleep(0.05)
    assert found["indexed"] == 1
    assert found["runs"][0]["rate"] == first["runs"][0]["rate"]


async def test_an_entry_has_all_rounds_of_all_runs(page: Page) -> None:
    (case,) = (await page.get(f"{BOTH}/api/cases", **{"from": 0, "to": 1}))["page"]
    entry = await page.get(f"{BOTH}/api/entry", instance=case["instance"])
    assert {attempt["run"] for attempt in entry["attempts"]} == {0, 1}
    assert entry["prompts"][entry["attempts"][0]["prompt"]][0][0] in ("user", "system")
    passed = {attempt["text"] for attempt in entry["attempts"] if attempt["verdict"] == 1}
    assert passed == set(entry["references"])  # a simulated model's right answer
    missing = await page.client.get(f"{BOTH}/api/entry", params={"instance": "../x"})
    assert missing.status_code == 404


async def test_an_attempt_is_shown_as_it_is_recorded(page: Page, made: Path) -> None:
    recorded = json.loads((made / "a.weak" / "attempts.jsonl").read_text().splitlines()[0])
    names = {key: recorded[key] for key in ("instance", "sample", "round")}
    assert await page.get(f"{BOTH}/api/line", run="weak", **names) == recorded
    for other in ({"run": "a.weak"}, {"round": 99}, {"sample": "-1"}, {"instance": "../x"}):
        asked = {"run": "weak"} | names | other
        assert (await page.client.get(f"{BOTH}/api/line", params=asked)).status_code == 404


async def test_the_page_writes_nothing(made: Path) -> None:
    def contents() -> dict[str, str]:
        files = sorted(path for path in made.rglob("*") if path.is_file())
        return {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}

    before = contents()
    async with opened(made) as page:
        await settled(page)
        for path in ("index", "cases", "timelines", "themes"):
            await page.get(f"{BOTH}/api/{path}")
        assert (await page.post("/api/stop?run=a.weak")).status_code == 409  # it has ended
        assert (await page.post("/api/stop?run=../a.weak")).status_code == 404
    assert contents() == before


async def test_a_run_is_followed_and_stopped(tmp_path: Path) -> None:
    with MockServer(latency=0.05) as server:
        run = run_file(server.base_url, samples=1000)
        async with running(tmp_path, run) as task, opened(tmp_path) as page:
            (listed,) = (await page.get("/api/runs"))["runs"]
            assert listed["state"] == "running"
            assert listed["planned"] > listed["done"]
            versions: list[list[int]] = []
            async with page.client.stream("GET", "/runs/run/api/events") as events:
                assert events.headers["content-type"].startswith("text/event-stream")
                async for line in events.aiter_lines():
                    if line.startswith("data: "):
                        versions.append(json.loads(line[6:])["version"])
                    if versions and versions[-1][1] > versions[0][1] + 1:  # attempts arrived
                        break
            assert versions == sorted(versions)
            assert (await page.get("/runs/run/api/cases"))["cases"] > 0
            (told,) = await page.get("/runs/run/api/timelines")
            assert sum(told["timeline"]["bins"]["attempts"]) > 0
            assert told["timeline"]["status"]["traffic"]

            for origin in ({"origin": "http://evil.example"}, {"origin": ""}):
                refused = await page.client.post("/api/stop?run=run", headers=origin)
                assert refused.status_code == 403
            assert (await page.client.post("/api/stop?run=run")).status_code == 403  # no Origin
            assert not (tmp_path / "run" / STOP).exists()
            assert (await page.post("/api/stop?run=run")).json() == {"stopping": "run"}
            result = await task
            assert result.ending == "interrupted"
            while (await page.get("/api/runs"))["runs"][0]["state"] != "interrupted":  # noqa: ASYNC110
                await asyncio.sleep(0.05)
        assert result.metrics.n_attempts == server.stats().answered
        again = RunFile.model_validate(run)
        total, owed = prepare(again, "run", settings(tmp_path)).plan().count_samples()
        assert 0 < owed < total  # it can be continued


async def test_a_list_of_runs_tells_of_changes(tmp_path: Path) -> None:
    with MockServer() as server:
        async with opened(tmp_path) as page:
            names: list[str] = []
            async with page.client.stream("GET", "/api/events") as events:
                async for line in events.aiter_lines():
                    if not line.startswith("data: "):
                        continue
                    found = json.loads(line[6:])
                    if not found["names"]:  # now a run begins
                        run = RunFile.model_validate(run_file(server.base_url, samples=2))
                        await execute(prepare(run, "new", settings(tmp_path)))
                    names = [one["name"] for one in found["runs"] if one["state"] == "complete"]
                    if names:
                        break
    assert names == ["new"]
    assert (tmp_path / "new" / STATUS).exists()
