"""Make the pictures of pages in docs/images: python scripts/pictures.py

Needs Chromium. The runs are simulated, or answered by `harness mock` with faults, so the pictures
look alike each time, but they are not the same to the last pixel.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import httpx2
from playwright.sync_api import Page, sync_playwright

IMAGES = Path(__file__).parents[1] / "docs" / "images"
MOST_BYTES = 200_000
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
HARNESS = [sys.executable, "-m", "harness"]
COLLIE = {"name": "collie", "dataset": "builtin"}
FAULTS = {"429": 0.05, "500": 0.02, "400": 0.01}
OPEN = "card => { for (let e = card; e; e = e.parentElement) if ('open' in e) e.open = true; }"
LARGE = {"model.name": "large", "model.accuracy": 0.5}
FEEDBACK = {"rounds.max": 4, "model.gain": 0.3}
VARIANTS = {"plain": {}, "feedback": FEEDBACK, "large": LARGE, "large_feedback": LARGE | FEEDBACK}


def run(file: Path, content: Mapping[str, Any], *options: str) -> subprocess.Popen[bytes]:
    """Write a run file and begin its run."""
    file.write_text(json.dumps(content))
    command = [*HARNESS, "run", str(file), "--yes", *options]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


@contextlib.contextmanager
def printing(*command: str) -> Iterator[str]:
    """Run a server within a ``with`` block. Yields the first line that it prints."""
    process = subprocess.Popen(
        [*HARNESS, *command], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    assert process.stdout is not None
    try:
        yield process.stdout.readline().strip()
    finally:
        process.send_signal(signal.SIGINT)
        process.wait()


def save(page: Page, name: str, selector: str = "") -> None:
    """Save a picture of what a page shows, or of an element."""
    path = IMAGES / f"{name}.png"
    if selector:
        page.locator(selector).first.screenshot(path=path)
    else:
        page.screenshot(path=path)
    size = path.stat().st_size
    print(f"{path.name}: {size / 1000:.0f} KB")
    if size > MOST_BYTES:
        sys.exit(f"{path} is larger than {MOST_BYTES / 1000:.0f} KB.")


def reports(page: Page, folder: Path) -> None:
    """Take pictures of a report of simulated variants."""
    model = {"backend": "simulated", "name": "small", "accuracy": 0.3}
    study = {"task": COLLIE, "model": model, "samples": 2, "limit": 65, "variants": VARIANTS}
    run(folder / "study.yaml", study).wait()
    html = folder / "report.html"
    subprocess.run([*HARNESS, "report", "study", "--output", str(html)], check=True)
    page.set_viewport_size({"width": 1280, "height": 1000})
    page.goto(html.as_uri())
    page.locator(".rates li b").first.wait_for()
    page.wait_for_timeout(500)
    save(page, "report")
    save(page, "compare", "#comparison")
    figure = page.locator("#figure-ablation")
    figure.evaluate(OPEN)
    figure.scroll_into_view_if_needed()
    figure.locator(".drawn").wait_for()
    page.wait_for_timeout(500)
    save(page, "ablation", "#figure-ablation")
    page.set_viewport_size({"width": 1280, "height": 640})
    page.goto(f"{html.as_uri()}#attempts?differ=1")
    page.locator(".rows .cell").first.wait_for()
    page.wait_for_timeout(500)
    save(page, "report-cases")
    page.emulate_media(color_scheme="dark")
    page.set_viewport_size({"width": 1280, "height": 760})
    page.locator(".rows .row").nth(1).locator(".cell").first.click()
    page.locator(".attempt").first.wait_for()
    page.wait_for_timeout(500)
    save(page, "report-case")
    page.emulate_media(color_scheme="light")


def live_view(page: Page, folder: Path) -> None:
    """Take pictures of the live page, while a run is at work that has met an outage."""
    faults = [f"--fault={name}={share}" for name, share in FAULTS.items()]
    options = [
        "--port=0",
        "--latency=lognormal:0.4:0.6",
        "--model=mock-small",
        "--model=mock-large",
    ]
    with (
        printing("mock", *options, *faults) as url,
        printing("view", "--no-browser") as address,
    ):

        def asking(model: str, samples: int) -> dict[str, Any]:
            price = {"input": 2, "output": 8}
            section = {"backend": "openai", "name": model, "base_url": url, "price": price}
            limits = {"concurrency": 12, "timeout_s": 10}
            return {"task": COLLIE, "model": section, "samples": samples, "limits": limits}

        run(folder / "missing.yaml", asking("mock-xl", 1)).wait()
        run(folder / "small.yaml", asking("mock-small", 1)).wait()
        working = run(folder / "large.yaml", asking("mock-large", 10))
        time.sleep(14)
        origin = url.removesuffix("/v1")
        httpx2.post(f"{origin}/faults", json={"faults": {"503": 1.0}}).raise_for_status()
        time.sleep(6)
        httpx2.post(f"{origin}/faults", json={"faults": FAULTS}).raise_for_status()
        time.sleep(25)
        page.set_viewport_size({"width": 1280, "height": 720})
        page.goto(address)
        page.locator("tbody tr").first.wait_for()
        page.wait_for_timeout(500)
        save(page, "view")
        page.get_by_role("link", name="large", exact=True).click()
        page.locator(".time-chart").first.wait_for()
        page.set_viewport_size({"width": 1280, "height": 800})
        page.locator("#timeline").evaluate("box => scrollTo(0, box.offsetTop - 60)")
        page.wait_for_timeout(500)
        save(page, "view-run")
        working.send_signal(signal.SIGINT)
        working.wait()


def main() -> None:
    browser_path = next(filter(None, map(shutil.which, BROWSERS)), None)
    with tempfile.TemporaryDirectory() as name, sync_playwright() as playwright:
        folder = Path(name)
        os.environ |= {
            "HARNESS_RUNS_DIR": f"{name}/runs",
            "HARNESS_CACHE_DIR": f"{name}/cache",
            "OPENAI_API_KEY": "not-a-key",
        }
        browser = playwright.chromium.launch(executable_path=browser_path, args=["--no-sandbox"])
        page = browser.new_page()
        reports(page, folder)
        live_view(page, folder)
        browser.close()


if __name__ == "__main__":
    main()
