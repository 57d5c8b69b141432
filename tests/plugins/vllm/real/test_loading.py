"""The engine in the harness's process while it is loaded: killed, interrupted, not to be loaded."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.backends.stand_ins import alive, until
from tests.plugins.vllm.real.conftest import SECONDS, Bench, descendants

pytestmark = pytest.mark.timeout(900)

BEGINS, LOADED = "Initializing a V1 LLM engine", "init engine (profile"
"""What vLLM says when the engine's process has begun, and when it has the weights."""


@pytest.fixture
def bench(model: Path, tmp_path: Path) -> Bench:
    return Bench(tmp_path, model, "vllm_engine")


@pytest.fixture
def loading(bench: Bench) -> Iterator[tuple[subprocess.Popen[str], list[int]]]:
    """A run whose engine's process has begun, and all processes of it."""
    process = bench.begin(content(bench))
    try:
        until(lambda: BEGINS in bench.log() or process.poll() is not None, "it begins", SECONDS)
        assert process.poll() is None, bench.output()
        yield process, list(descendants(process.pid))
    finally:
        process.kill()


def content(bench: Bench, **more: Any) -> dict[str, Any]:
    return {
        "task": {"name": "last_letter", "dataset": "builtin"},
        "model": {**bench.model, **more},
        "limit": 4,
    }


def test_a_harness_that_is_killed_leaves_nothing_behind(
    loading: tuple[subprocess.Popen[str], list[int]],
) -> None:
    process, family = loading
    assert sum(map(alive, family)) >= 2, "the guard, and the engine's"
    process.kill()
    until(lambda: not any(map(alive, family)), "its processes are gone")


def test_ctrl_c_is_obeyed_before_the_model_is_loaded(
    loading: tuple[subprocess.Popen[str], list[int]], bench: Bench
) -> None:
    process, family = loading
    process.send_signal(signal.SIGINT)
    assert process.wait(SECONDS) == 130, bench.output()
    assert LOADED not in bench.log()
    assert "Traceback" not in bench.output()
    until(lambda: not any(map(alive, family)), "its processes are gone")


def test_an_adapter_that_does_not_fit_is_told_at_the_first_start(bench: Bench) -> None:
    process = bench.begin(content(bench, lora=str(Path(bench.model["path"], "lora32"))))
    try:
        assert process.wait(SECONDS) == 1, bench.output()
    finally:
        process.kill()
    assert "LoRA rank 32 is greater than max_lora_rank 16" in bench.output()
    assert "model.engine.max_lora_rank" in bench.output()
    assert bench.log().count(BEGINS) == 1
