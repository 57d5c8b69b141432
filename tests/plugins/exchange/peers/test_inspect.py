"""A real evaluation of Inspect, imported; and an exported run in Inspect's viewer."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.analysis.metrics import decode_metrics
from tests.cli.command import harness
from tests.plugins.exchange.made import attempt, whole_run
from tests.plugins.exchange.peers.conftest import Peer

HERE = Path(__file__).parent
CHROMIUM = "/usr/bin/chromium"


def done(runs: Path, *arguments: str | Path) -> None:
    ended = harness(*arguments, env=os.environ | {"HARNESS_RUNS_DIR": str(runs)})
    assert ended.returncode == 0, ended.stderr


@pytest.fixture
def taught(tmp_path: Path) -> Path:
    """A folder of two runs: a real one with rounds and samples, a made-up one with an error."""
    runs = tmp_path / "runs"
    told = ("run", "configs/quickstart.yaml", "--limit", "13", "--name", "taught")
    done(runs, *told, "-o", "rounds.max=3", "-o", "samples=2")
    hostile = "<script>document.title = 'owned'</script> \0 🙂 \ufeff"
    whole_run(
        runs,
        "made",
        [
            attempt("a/../../b", 0, text=hostile, reasoning="hm"),
            attempt("a/../../b", 1, text=None, outcome="error", passed=None, scores={}, error="no"),
            attempt("\0", 0, cost_usd=0.5, finish_reason="length"),
        ],
    )
    return runs


@pytest.mark.parametrize("form", ["eval", "json"])
def test_a_run_of_inspect_has_the_accuracy_that_it_says(
    form: str, peer: Peer, tmp_path: Path
) -> None:
    said = peer("python", HERE / "inspect_run.py", tmp_path / "logs", form).stdout
    told = {(name, metric): float(v) for name, metric, v in map(str.split, said.splitlines())}
    (log,) = (tmp_path / "logs").iterdir()
    done(tmp_path / "runs", "import", log, "--name", "x")
    path = tmp_path / "runs" / "x" / "metrics.json"
    metrics = decode_metrics(path.read_bytes(), path)
    assert metrics.overall.pass_rate == pytest.approx(told["match", "accuracy"])
    assert metrics.overall.stderr == pytest.approx(told["match", "stderr"])
    assert metrics.scores["length"].mean == pytest.approx(told["length", "mean"])
    assert metrics.scores["partly"].mean == pytest.approx(told["partly", "accuracy"])
    assert metrics.usage is not None
    assert metrics.usage.input_tokens == 30


@contextlib.contextmanager
def viewed(peers: Path, folder: Path) -> Iterator[str]:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    shown = ("view", "start", "--host", "127.0.0.1", "--port", str(port), "--log-dir", str(folder))
    env = os.environ | {"HOME": str(folder), "XDG_DATA_HOME": str(folder / ".share")}
    server = subprocess.Popen(
        [peers / "inspect", *shown], env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        for _ in range(300):
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)):
                break
            assert server.poll() is None
            time.sleep(0.1)
        yield f"http://127.0.0.1:{port}"
    finally:
        server.terminate()
        server.wait(20)


def test_inspect_view_shows_a_sample(taught: Path, peers: Path, tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    logs.mkdir()
    done(taught, "export", "made", "-o", logs / "2026-01-01T00-00-00_made_x.eval")
    done(taught, "export", "taught", "-o", logs / "2026-01-01T00-00-00_taught_y.eval")
    with viewed(peers, logs) as address:
        with urllib.request.urlopen(f"{address}/api/logs", timeout=20) as answer:
            listed = json.loads(answer.read())
        assert "taught_y.eval" in json.dumps(listed)
        if not Path(CHROMIUM).exists():
            pytest.skip("no browser: the server was asked alone")
        from playwright.sync_api import sync_playwright

        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=CHROMIUM)
            page = browser.new_page(viewport={"width": 1400, "height": 900})
            page.goto(f"{address}/#/logs/2026-01-01T00-00-00_taught_y.eval")
            page.get_by_text("pass_rate").first.wait_for(timeout=30_000)
            page.screenshot(path=tmp_path / "log.png")
            page.get_by_text("para02/").first.click(timeout=30_000)
            page.get_by_role("tab", name="Messages").first.click(timeout=30_000)
            page.get_by_text("with exactly 4 sentences").first.wait_for(timeout=30_000)
            page.screenshot(path=tmp_path / "sample.png")
            assert page.title() != "owned"
            browser.close()
