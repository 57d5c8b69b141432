"""`limits.samples_per_call`: fewer calls, the same bill, and nothing is drawn twice."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import msgspec
import pytest

from harness.plugins.mock.server import MockServer
from tests.cli.command import begun, harness, mistake
from tests.cli.test_run import attempts, wait_until
from tests.installed import has_backend
from tests.rows import TASK

FILE = (
    f"\n{TASK}"
    + """model: {backend: BACKEND, base_url: URL, name: m, price: {input: 2, output: 10}}
decoding: {temperature: 0.7, max_tokens: 60}
samples: 6
limit: 20
seed: null
limits: {samples_per_call: 4, concurrency: 8}
"""
)
MODELS = {"openai, preset: openai": "/v1", "gemini": "/v1beta"}
INSTALLED = [name for name in MODELS if has_backend(f"backend: {name}")]


@pytest.fixture
def folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    for name in ("RUNS", "CACHE"):
        monkeypatch.setenv(f"HARNESS_{name}_DIR", str(tmp_path / name.lower()))
    return tmp_path


def written(folder: Path, server: MockServer, backend: str = "openai, preset: openai") -> Path:
    file = folder / "joint.yaml"
    url = server.url + MODELS[backend]
    file.write_text(FILE.replace("BACKEND", backend).replace("URL", url))
    return file


@pytest.mark.parametrize("backend", INSTALLED)
def test_six_samples_are_two_calls_and_usage_adds_up_to_the_bill(
    folder: Path, backend: str
) -> None:
    with MockServer() as server:
        file = written(folder, server, backend)
        ended = harness("run", file)
        assert ended.returncode == 0, ended.stderr
        stats = server.stats()
        assert stats.requests < 80
        found = attempts(folder / "runs", "joint").values()
        assert len(found) == 120
        assert len({attempt["call_id"] for attempt in found}) == 120
        usages = [attempt["usage"] for attempt in found]
        assert sum(usage["input_tokens"] for usage in usages) == stats.prompt_tokens
        assert sum(usage["output_tokens"] for usage in usages) == stats.completion_tokens
        bill = (2 * stats.prompt_tokens + 10 * stats.completion_tokens) / 1e6
        assert sum(attempt["cost_usd"] for attempt in found) == pytest.approx(bill)
        # Another run finds each sample in the cache.
        assert harness("run", file, "--name", "again").returncode == 0
        assert server.stats().requests == stats.requests


def cached(folder: Path) -> int:
    """The number of replies in the cache."""
    path = folder / "cache" / "replies.sqlite"
    if not path.exists():
        return 0
    try:
        with sqlite3.connect(path) as cache:
            ((found,),) = cache.execute("SELECT count(*) FROM replies").fetchall()
    except sqlite3.OperationalError:  # it is being created
        return 0
    return int(found)


def test_no_sample_in_the_cache_is_drawn_again_after_kill_9(folder: Path) -> None:
    drawn: list[int] = []

    def answer(ask: object, index: int) -> str:
        drawn.append(index)
        return f"Snow fell on the quiet town {len(drawn)} times."

    with MockServer(answers=answer, latency=0.05, faults={"500": 0.1, "reset": 0.05}) as server:
        file = written(folder, server)
        budget = ("-o", "budget.usd=0.5")
        for number in (1, 30, 60):
            process = begun("run", str(file), *budget)
            wait_until(lambda number=number: cached(folder) >= number)
            process.kill()
            process.communicate(timeout=60)
        kept = cached(folder)
        assert 60 <= kept < 120
        server.change(faults={})
        before = len(drawn)
        ended = harness("run", str(file), *budget)
        assert ended.returncode == 0, ended.stderr
        assert len(drawn) - before == 120 - kept
    lines = (folder / "runs" / "joint" / "attempts.jsonl").read_bytes().splitlines()
    texts = [msgspec.json.decode(line)["text"] for line in lines]
    assert len(texts) == len(set(texts)) == 120


def test_a_seed_and_a_provider_that_draws_one_sample_are_refused(folder: Path) -> None:
    with MockServer() as server:
        file = written(folder, server)
        said = mistake(harness("run", file, "-o", "seed=0"))
        assert "seed: null" in said
        said = mistake(harness("run", file, "-o", "model.preset=groq"))
        assert "limits.samples_per_call" in said
        assert server.stats().requests == 0
