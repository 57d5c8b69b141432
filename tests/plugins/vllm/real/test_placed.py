"""Two copies of a model on the real vLLM, placed by Ray: one is killed, then the other's engine.

Each computes one request at a time and keeps no prefixes: the last digits of what a CPU computes
depend on what it computes together.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.backends.stand_ins import alive, until
from tests.plugins.vllm.real.conftest import ENGINE, PYTHON, SECONDS, Bench, descendants, made

pytestmark = pytest.mark.timeout(900)

ROWS, CONCURRENCY = 100, 4
SPREAD = "0.3"  # of the weights, so that answers depend on the prompts
PLACEMENT = {"engine": "ray", "replicas": 2, "cpus": 0.5, "address": "local"}
TIMINGS = ("run", "started_at", "ended_at", "latency_s", "cached")


class PlacedBench(Bench):
    """A folder to run a model's copies in, with the short name of one that they log in."""

    def __init__(self, folder: Path, model: Path, logs: Path) -> None:
        super().__init__(folder, model, "vllm_engine")
        self._logs = logs
        self.env["TMPDIR"] = str(logs)  # also of sockets, whose names have at most 107 characters

    def asked(self) -> Counter[int]:
        """By the process of a copy, how many requests it has been asked."""
        logs = "".join(path.read_text() for path in self._logs.glob("*/vllm-engine.log"))
        return Counter(int(pid) for pid in re.findall(r"INFO (\d+) Added request", logs))


@pytest.fixture
def logs() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        yield Path(folder)


def within(pid: int, name: str) -> set[int]:
    """The processes with this in their names that a process has begun, also by others."""
    return {one for one, found in descendants(pid).items() if name in found}


def settled(bench: Bench) -> dict[str, dict[str, Any]]:
    """The attempts by instance, without what depends on time. None is recorded twice."""
    lines = bench.attempts()
    found = {one["instance"]: one for one in lines}
    assert len(found) == len(lines)
    for one in lines:
        for name in TIMINGS:
            one.pop(name, None)
    return found


def test_a_run_whose_copies_are_killed_has_the_attempts_of_one_without_placement(
    tmp_path: Path, logs: Path, figures: list[str]
) -> None:
    model = made(tmp_path / "model", SPREAD)
    if subprocess.run([PYTHON, "-c", "import ray"], capture_output=True, check=False).returncode:
        pytest.skip("no Ray beside vLLM: scripts/test-vllm makes it and runs this")
    rows = tmp_path / "rows.jsonl"
    rows.write_text(
        "".join(
            json.dumps({"id": f"r{n}", "prompt": f"Say something about {n}.", "target": "x"}) + "\n"
            for n in range(ROWS)
        )
    )
    engine = {
        **ENGINE, "max_num_seqs": 1, "enable_prefix_caching": False, "enable_log_requests": True,
    }  # fmt: skip
    content = {
        "task": {
            "name": "jsonl",
            "path": str(rows),
            "prompt": "{{ prompt }}",
            "checks": [{"regex_match": {"pattern": "[e]"}}],
        },
        "decoding": {"temperature": 0, "max_tokens": 24},
        "limits": {"concurrency": CONCURRENCY},
    }
    (tmp_path / "placed").mkdir()
    placed = PlacedBench(tmp_path / "placed", model, logs)
    process = placed.begin(
        {**content, "model": {**placed.model, "engine": engine, "placement": PLACEMENT}}
    )

    def reached(what: Callable[[], object], name: str) -> None:
        until(lambda: what() or process.poll() is not None, name, SECONDS)
        assert process.poll() is None, placed.output()

    try:
        reached(lambda: len(placed.attempts()) > CONCURRENCY, "answers")
        [(first, _)] = placed.asked().most_common(1)
        family = descendants(process.pid)
        os.kill(first, signal.SIGKILL)
        before = len(placed.attempts())
        reached(lambda: len(placed.attempts()) > before + 2 * CONCURRENCY, "answers of the other")
        [(second, _)] = (placed.asked() - Counter({first: ROWS})).most_common(1)
        [engine_core] = within(second, "EngineCore")
        os.kill(engine_core, signal.SIGKILL)
        between = len(placed.attempts())
        # Without the second's engine, the run waits for one that is started again.
        reached(
            lambda: within(process.pid, "ray::BackendActor") - {first, second},
            "a copy in the place of the first",
        )
        family |= descendants(process.pid)
        assert process.wait(SECONDS) == 0, placed.output()
    finally:
        process.kill()
    until(lambda: not any(map(alive, family)), "what it had begun has ended")
    asked = placed.asked()
    figures.append(
        f"placed: a copy was killed after {before} attempts and the other's engine after "
        f"{between} of {ROWS}; calls by copy: {list(asked.values())}"
    )
    assert before < between < ROWS
    assert ROWS <= asked.total() <= ROWS + 2 * CONCURRENCY  # again only what was in flight
    (tmp_path / "alone").mkdir()
    alone = Bench(tmp_path / "alone", model, "vllm_engine")
    alone.run({**content, "model": {**alone.model, "engine": engine}})
    assert len(settled(alone)) == ROWS
    assert len({one["text"] for one in settled(alone).values()}) > ROWS / 2
    assert settled(placed) == settled(alone)
