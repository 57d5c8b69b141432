"""The live page in a real browser: the list of runs, a run at work, and answers that attack."""

import json
import shutil
from collections.abc import AsyncIterator
from importlib.resources import files
from pathlib import Path
from typing import Literal

import pytest
import pytest_asyncio
from playwright.async_api import Browser, async_playwright, expect
from playwright.async_api import Page as Tab

from harness.plugins.mock.server import MockServer
from tests.plugins.report.test_browser import ARGUMENTS, AXE, CHROMIUM
from tests.plugins.view.test_app import Page, made, opened
from tests.plugins.view.test_status import run_file, running
from tests.unsealed import unseal

__all__ = ["made"]
pytestmark = [
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium to open the page in"),
    pytest.mark.asyncio(loop_scope="module"),
]

expect.set_options(timeout=20_000)
SCHEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark")
HOSTILE = '</script><img src=x onerror="obeyed=1"><a href="http://evil.example/">x</a>\u202e'


class Watched:
    """A tab, and everything that it asked for or complained about."""

    def __init__(self, tab: Tab) -> None:
        self.tab = tab
        self.told: list[str] = []
        self.asked: list[str] = []
        tab.set_default_timeout(20_000)
        tab.on("console", lambda message: self.told.append(message.text))
        tab.on("pageerror", lambda error: self.told.append(str(error)))
        tab.on("request", lambda request: self.asked.append(request.url))

    def assert_quiet(self, page: Page) -> None:
        assert self.told == []
        assert all(url.startswith(f"{page.origin}/") or url == "data:," for url in self.asked)


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def browser() -> AsyncIterator[Browser]:
    """One for all tests: a launch takes as long as most of them."""
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        yield browser
        await browser.close()


@pytest_asyncio.fixture(loop_scope="module")
async def watched(browser: Browser) -> AsyncIterator[Watched]:
    async with await browser.new_context(viewport={"width": 1280, "height": 900}) as context:
        yield Watched(await context.new_page())


async def test_runs_are_searched_and_opened_together(made: Path, watched: Watched) -> None:
    tab = watched.tab
    async with opened(made) as page:
        await tab.goto(page.url)
        lines = tab.locator("tbody tr")
        await expect(lines).to_have_count(2)
        await tab.get_by_label("Search runs").fill("weak simulated")
        await expect(lines).to_have_count(1)
        await tab.reload()  # the search is in the link
        await expect(lines).to_have_count(1)
        await tab.get_by_label("Search runs").fill("")
        await tab.get_by_label("Only runs with simulated").first.click()
        assert tab.url.endswith("#q=simulated")
        for name in ("a.weak", "a.strong"):
            await tab.get_by_label(f"Choose {name}").check()
        await tab.get_by_role("link", name="Open the 2 chosen runs together").click()
        await expect(tab.locator("h1")).to_contain_text("strong")
        assert tab.url.startswith(f"{page.origin}/runs/a.weak+a.strong/")
        assert page.token not in tab.url
        await expect(tab.locator(".rates li b").first).to_be_visible()
        await tab.get_by_label("Verdicts of runs", exact=True).select_option(label="differ")
        first = tab.locator(".rows .cell").first
        await first.click()
        await expect(tab.locator(".case")).to_be_visible()
        await tab.get_by_text("Request and reply as recorded").first.click()
        await expect(tab.get_by_text('"messages_hash"').first).to_be_visible()
        await tab.go_back()
        await expect(first).to_be_visible()
        watched.assert_quiet(page)


async def test_a_run_is_followed_and_stopped(tmp_path: Path, watched: Watched) -> None:
    tab = watched.tab
    with MockServer(latency=0.1) as server:
        run = run_file(server.base_url, samples=400)
        async with running(tmp_path, run) as task, opened(tmp_path) as page:
            await tab.goto(page.url)
            await tab.get_by_role("link", name="run", exact=True).click()
            await expect(tab.locator(".state-running")).to_be_visible()
            found = tab.locator(".found p")
            await expect(found).to_contain_text("samples")
            before = await found.text_content()
            await expect(found).not_to_have_text(before or "")  # without a reload
            await expect(tab.locator(".time-chart").first).to_be_visible()
            await tab.get_by_role("button", name="Stop run").click()
            assert not task.done()  # it asks once more
            await tab.get_by_role("button", name="Really stop run").click()
            assert (await task).ending == "interrupted"
            await expect(tab.locator(".state-interrupted")).to_be_visible()
            watched.assert_quiet(page)


async def test_answers_are_not_obeyed(made: Path, tmp_path: Path, watched: Watched) -> None:
    tab = watched.tab
    shutil.copytree(made / "a.weak", tmp_path / "a.weak")
    unseal(tmp_path / "a.weak")
    attempts = tmp_path / "a.weak" / "attempts.jsonl"
    lines = [json.loads(line) for line in attempts.read_text().splitlines()]
    for line in lines:
        line |= {"text": HOSTILE, "error": HOSTILE, "instance": f"{HOSTILE} {line['instance']}"}
        line["scores"] = {
            f"{HOSTILE} {name}": score | {"reason": HOSTILE}
            for name, score in line["scores"].items()
        }
    attempts.write_text("".join(json.dumps(line) + "\n" for line in lines))
    manifest = json.loads((tmp_path / "a.weak" / "manifest.json").read_text())
    (tmp_path / "a.weak" / "manifest.json").write_text(json.dumps({**manifest, "model": HOSTILE}))
    async with opened(tmp_path) as page:
        await tab.goto(page.url)
        await tab.get_by_role("link", name="a.weak").click()
        await tab.get_by_text("What the run is doing").click()
        await expect(tab.get_by_text("Slowest calls")).to_be_visible()
        await tab.locator(".rows .cell").first.click()
        await expect(tab.locator(".case")).to_contain_text("<img src=x")
        assert await tab.locator("img").count() == 0
        assert await tab.locator('a[href^="http"]').count() == 0
        assert await tab.evaluate("typeof obeyed") == "undefined"
        watched.assert_quiet(page)


async def test_a_narrow_list_stays_in_its_page(made: Path, watched: Watched) -> None:
    tab = watched.tab
    await tab.set_viewport_size({"width": 400, "height": 800})
    async with opened(made) as page:
        await tab.goto(page.url)
        await expect(tab.locator("tbody tr")).to_have_count(2)
        wide = "document.documentElement.scrollWidth > document.documentElement.clientWidth"
        assert not await tab.evaluate(wide)
        watched.assert_quiet(page)


async def test_no_serious_fault_of_accessibility(made: Path, watched: Watched) -> None:
    tab = watched.tab
    async with opened(made) as page:
        for path, ready in (("/", "tbody tr"), ("/runs/a.weak/", ".time-chart")):
            await tab.goto(page.url if path == "/" else page.origin + path)
            if path != "/":
                await tab.get_by_text("What the run is doing").click()
            await expect(tab.locator(ready).first).to_be_visible()
            await tab.evaluate((files("axe_playwright_python") / "axe.min.js").read_text())
            for scheme in SCHEMES:
                await tab.emulate_media(color_scheme=scheme, reduced_motion="reduce")
                found = await tab.evaluate(AXE)
                faults = [
                    one for one in found["violations"] if one["impact"] in ("serious", "critical")
                ]
                assert [(one["id"], one["nodes"][0]["html"]) for one in faults] == [], scheme


async def test_a_page_says_that_its_server_has_ended(made: Path, watched: Watched) -> None:
    tab = watched.tab
    async with opened(made) as page:
        await tab.goto(page.url)
        await expect(tab.locator("tbody tr")).to_have_count(2)
    await expect(tab.get_by_role("alert")).to_contain_text("does not answer")
