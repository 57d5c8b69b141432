"""Time to write, open and search a report of 100,000 attempts in Chromium.

    python scripts/bench_report.py --check
    python scripts/bench_report.py --attempts 2000 --no-browser

Attempts have about 2.6 KB each, with prompts and answers of made-up words and six checks. Writing
is the whole command `harness report`, from start to end. Opening is from the start of the
navigation until the grid of cases can be used. Frames are measured while scrolling the grid.
--check fails if opening takes 3 s or more.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from harness.records import Attempt, Score, Usage
from harness.store.json_lines import JsonLinesWriter

ATTEMPTS = 100_000
SLOWEST_OPENING = 3.0
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
ARGUMENTS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
RARE = "zygomorphic"
"""Occurs in one answer only, the last."""

SCROLL = """async () => {
  const frames = [];
  let before = performance.now();
  let going = true;
  const frame = (now) => {
    frames.push(now - before);
    before = now;
    if (going) requestAnimationFrame(frame);
  };
  requestAnimationFrame(frame);
  window.stopFrames = () => { going = false; return frames.slice(2); };
}"""


def make_run(folder: Path, count: int) -> None:
    """Write a run's folder."""
    folder.mkdir()
    config = "task: {name: jsonl, path: builtin}\nmodel: {backend: simulated}\n"
    (folder / "config.yaml").write_text(config)
    manifest = {"task": "jsonl", "model": "made-up", "samples": count, "owed": 0}
    (folder / "manifest.json").write_text(json.dumps(manifest))
    draw = random.Random(0)
    words = [
        "".join(draw.choices("abcdefghijklmnopqrstuvwxyz", k=draw.randint(2, 11)))
        for _ in range(8_000)
    ]
    with JsonLinesWriter(folder / "attempts.jsonl") as writer:
        for number in range(count):
            passed = draw.random() < 0.4
            prompt = " ".join(draw.choices(words, k=60))
            text = " ".join(draw.choices(words, k=200))
            writer.append(
                Attempt(
                    v=1,
                    instance=f"bench/{number:06}",
                    sample=0,
                    round=1,
                    groups={"structure": f"s{number % 13}", "source": f"c{number % 3}"},
                    cluster=f"{number:032x}",
                    request={
                        "model": "made-up",
                        "decoding": {"temperature": 0.7},
                        "messages_hash": f"{number:032x}",
                        "messages": [{"role": "user", "content": prompt}],
                    },
                    outcome="ok",
                    started_at=1.0,
                    ended_at=2.0,
                    text=text if number < count - 1 else f"{text} {RARE}",
                    finish_reason="stop",
                    passed=passed,
                    scores={
                        f"check_{at}": Score(ok, ok, "" if ok else f"{98 - at} of 100 words")
                        for at in range(6)
                        for ok in [passed or at < number % 6]
                    },
                    feedback=" ".join(draw.choices(words, k=20)),
                    call_id=f"{draw.getrandbits(128):032x}",
                    usage=Usage(80, 260),
                    cost_usd=0.001,
                    latency_s=draw.expovariate(1.0),
                )
            )


def write(runs: Path, page: Path, count: int) -> None:
    """Write the report by the command line, and print its time, size and memory."""
    command = [sys.executable, "-m", "harness", "report", "bench", "--output", str(page)]
    command += ["--max-attempts", str(count)]
    start = time.perf_counter()
    subprocess.run(command, check=True, env=os.environ | {"HARNESS_RUNS_DIR": str(runs)})
    seconds = time.perf_counter() - start
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    unit = 1 if sys.platform == "darwin" else 2**10
    print(f"written in {seconds:.1f} s ({used.ru_utime + used.ru_stime:.1f} s of CPU)")
    print(f"{page.stat().st_size / 1e6:.1f} MB, peak memory {used.ru_maxrss * unit / 1e6:.0f} MB")


def measure(page_file: Path, browser_path: str) -> dict[str, float]:
    """Seconds in the browser, and milliseconds of its frames."""
    from playwright.sync_api import sync_playwright

    found: dict[str, float] = {}
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=browser_path, args=list(ARGUMENTS))
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        page.goto(page_file.as_uri())
        page.wait_for_selector("#browser:not([hidden])")
        found["first paint"] = page.evaluate(
            "performance.getEntriesByName('first-contentful-paint')[0]?.startTime / 1000"
        )
        found["list ready"] = page.evaluate(
            "performance.getEntriesByName('attempts-ready')[0].startTime / 1000"
        )
        found["all parsed"] = page.evaluate(
            "performance.getEntriesByType('navigation')[0].domContentLoadedEventEnd / 1000"
        )
        page.evaluate("document.getElementById('attempts').scrollIntoView()")
        page.mouse.move(600, 600)
        page.wait_for_timeout(500)
        page.evaluate(SCROLL)
        for _ in range(120):
            page.mouse.wheel(0, 900)
            page.wait_for_timeout(16)
        frames = page.evaluate("window.stopFrames()")
        found["frames a second"] = 1000 * len(frames) / sum(frames)
        found["longest frame ms"] = max(frames)
        for name, query in (("search, rare", RARE), ("search, common", "an")):
            page.fill("#query", "")
            page.locator("#clear").wait_for(state="hidden")
            start = time.perf_counter()
            page.evaluate(SCROLL)
            page.fill("#query", query)
            page.locator("#clear").wait_for()
            page.locator("#cancel").wait_for(state="hidden")
            found[name] = time.perf_counter() - start
            found[f"{name}: longest frame ms"] = max(page.evaluate("window.stopFrames()"))
            print(f"{query!r}: {page.inner_text('#found')}")
        browser.close()
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--attempts", type=int, default=ATTEMPTS)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--no-browser", action="store_true")
    options = parser.parse_args()
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    if browser is None and not options.no_browser:
        sys.exit("Install Chromium first (Debian: apt install chromium).")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make_run(folder / "bench", options.attempts)
        size = (folder / "bench" / "attempts.jsonl").stat().st_size
        print(f"{options.attempts:,} attempts of {size / options.attempts / 1000:.1f} KB")
        page = folder / "report.html"
        write(folder, page, options.attempts)
        if options.no_browser:
            return
        found = measure(page, browser)
    for what, value in found.items():
        print(f"{what:32}{value:8.2f}")
    if options.check and found["list ready"] >= SLOWEST_OPENING:
        sys.exit(f"Opening took {found['list ready']:.1f} s; {SLOWEST_OPENING} s is the most.")


if __name__ == "__main__":
    main()
