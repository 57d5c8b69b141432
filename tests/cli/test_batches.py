"""Runs in batches: real kills, two processes on one cache, budgets, and what the command says."""

from __future__ import annotations

import os
import random
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from harness.mock import MockServer
from tests.cli.command import Begun, begun, harness
from tests.cli.test_run import GPT4, attempts, metrics, runs

__all__ = ["runs"]

EXHAUSTIVE = [pytest.mark.exhaustive, pytest.mark.timeout(1800)]
PRICES = {"input": 0, "output": 1000, "batch_input": 0, "batch_output": 500}
CALL_USD = 0.02
"""The most that a call of these runs may cost in a batch. Alone it costs twice as much."""


@pytest.fixture(autouse=True)
def keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY"):
        monkeypatch.setenv(name, f"a-key-for-{name}")


def command(
    server: MockServer, backend: str = "openai", batch: str = "{poll_s: 0.1}", **more: object
) -> list[str]:
    """A run whose calls may each cost at most `CALL_USD` in a batch. Some answers are longer."""
    given: dict[str, object] = {
        "model.backend": backend,
        "model.base_url": server.base_url if backend == "openai" else server.url,
        "decoding.max_tokens": 40,
        "limits.batch": batch,
        **{f"model.price.{name}": price for name, price in PRICES.items()},
    }
    if backend == "anthropic":
        given["decoding.temperature"] = "null"
    return [*GPT4, *(w for k, v in (given | more).items() for w in ("-o", f"{k}={v}"))]


def comparable(runs: Path, name: str) -> dict[Any, dict[str, Any]]:
    """Attempts without times, costs, and which of those that share a call was first."""
    volatile = {"started_at", "ended_at", "latency_s", "cached", "cost_usd"}
    return {
        place: {key: value for key, value in attempt.items() if key not in volatile}
        for place, attempt in attempts(runs, name).items()
    }


def kill_some(server: MockServer, arguments: list[str], kills: int, longest_s: float) -> None:
    """Begin a run again and again, and kill it: at random, or when something has happened."""
    draw = random.Random(kills)

    def watched() -> tuple[int, ...]:
        stats = server.stats()
        return stats.batches, stats.open_batches, stats.answered

    for _ in range(kills):
        process, before, began = begun(*arguments), watched(), time.monotonic()
        seconds = draw.uniform(0.2, longest_s)
        on_change = draw.random() < 0.5
        while process.poll() is None and time.monotonic() - began < seconds:
            if on_change and watched() != before:
                time.sleep(draw.choice((0, 0, 0.01, 0.1)))
                break
            time.sleep(0.001)
        ended_well = process.poll() is not None
        process.kill()
        said = process.communicate()[1]
        if ended_well:
            assert process.returncode in (0, 1, 3), said


def finish(process: Begun) -> str:
    said = process.communicate(timeout=600)[1]
    assert process.returncode == 0, said
    return said


FAULTS: dict[str, Any] = {
    "faults": {"500": 0.03, "429": 0.02},
    "batch_faults": {"lost_id": 0.2, "poll_500": 0.1, "expired": 0.1, "duplicated": 0.05},
    "batch_latency": "uniform:0.05:0.6",
}


@pytest.mark.parametrize("backend", ["openai", "anthropic"])
@pytest.mark.parametrize(("samples", "kills"), [(2, 6), pytest.param(77, 50, marks=EXHAUSTIVE)])
def test_kill_9_at_any_moment_costs_nothing_twice(
    runs: Path, backend: str, samples: int, kills: int
) -> None:
    with MockServer(**FAULTS, seed=samples) as server:
        calls = 130 * samples
        cap: dict[str, Any] = {
            "budget.usd": CALL_USD * calls,
            "samples": samples,
        }  # enough, if nothing is lost
        arguments = [*command(server, backend, **cap), "--name", "batched"]
        kill_some(server, arguments, kills, longest_s=2.5 + samples / 10)
        finish(begun(*arguments))
        stats = server.stats()
        found = attempts(runs, "batched")
        assert len(found) == calls
        assert {attempt["outcome"] for attempt in found.values()} <= {"ok", "truncated"}
        paid = [one for one in found.values() if not one["cached"]]
        assert len({one["call_id"] for one in found.values()}) == len(paid) == stats.answered
        spent = metrics(runs, "batched")["paid_usd"]
        assert spent == pytest.approx(stats.completion_tokens * 500 / 1e6)
        assert spent <= cap["budget.usd"] + 1e-9
        server.change(faults={})
        live = [*command(server, backend, batch="null", samples=samples), "--name", "live"]
        assert harness(*live, env=another_cache(runs)).returncode == 0
    assert comparable(runs, "batched") == comparable(runs, "live")


def another_cache(runs: Path) -> dict[str, str]:
    return {**os.environ, "HARNESS_CACHE_DIR": str(runs.parent / "another")}


@pytest.mark.parametrize("backend", ["openai", "anthropic"])
@pytest.mark.parametrize(("samples", "kills"), [(2, 4), pytest.param(77, 50, marks=EXHAUSTIVE)])
def test_two_processes_on_one_cache_pay_once(
    runs: Path, backend: str, samples: int, kills: int
) -> None:
    with MockServer(**FAULTS, seed=samples) as server:
        cap: dict[str, Any] = {"budget.usd": CALL_USD * 130 * samples, "samples": samples}
        one, two = ([*command(server, backend, **cap), "--name", name] for name in ("one", "two"))
        draw = random.Random(kills)
        for _ in range(kills):
            processes = [begun(*one), begun(*two)]
            time.sleep(draw.uniform(0.5, 2.5 + samples / 10))
            doomed = draw.choice(processes)
            doomed.kill()
            time.sleep(draw.uniform(0, 0.5))
            for process in processes:
                process.kill()
                process.communicate()
        for process in (begun(*one), begun(*two)):
            finish(process)
        stats = server.stats()
        paid = Counter[str]()
        for name in ("one", "two"):
            found = attempts(runs, name)
            assert {attempt["outcome"] for attempt in found.values()} <= {"ok", "truncated"}
            paid.update(a["call_id"] for a in found.values() if not a["cached"])
            assert metrics(runs, name)["paid_usd"] <= cap["budget.usd"] + 1e-9
        assert set(paid.values()) == {1}
        assert len(paid) == stats.answered
        assert comparable(runs, "one") == comparable(runs, "two")
