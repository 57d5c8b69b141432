"""The engine is killed in the middle of a run that also has a judge on the same model."""

from __future__ import annotations

import os
import signal
from typing import Any

import msgspec
import pytest

from tests.backends.stand_ins import alive, until
from tests.plugins.vllm.real.conftest import SECONDS, Bench, descendants

pytestmark = pytest.mark.timeout(900)

CONCURRENCY, JUDGING, SAMPLES = 8, 8, 4


def test_the_run_completes_and_asks_again_only_what_was_in_flight(
    bench: Bench, figures: list[str]
) -> None:
    engine = {**bench.model["engine"], "enable_log_requests": True}
    model = {**bench.model, "engine": engine}
    content = {
        "task": {"name": "wildifeval", "dataset": "builtin"},
        "model": model,
        "decoding": {"temperature": 1.0, "max_tokens": 40},
        "samples": SAMPLES,
        "limits": {"concurrency": CONCURRENCY},
        "judges": [
            {"name": "yes_no", "model": {**model, "limits": {"concurrency": JUDGING}}},
        ],
    }
    process = bench.begin(content)
    try:
        until(lambda: len(bench.attempts()) >= 15 or process.poll() is not None, "work", SECONDS)
        assert process.poll() is None, bench.output()
        family = descendants(process.pid)
        cores = [pid for pid, name in family.items() if "EngineCore" in name]
        assert cores, family
        for core in cores:
            os.kill(core, signal.SIGKILL)
        before = len(bench.attempts())
        assert process.wait(SECONDS) == 0, bench.output()
    finally:
        process.kill()
    until(lambda: not any(map(alive, family)), "what it had begun has ended")
    attempts = bench.attempts()
    assert before < len(attempts) == bench.metrics()["n_instances"] * SAMPLES
    assert bench.metrics()["outcomes"]["error"] == 0
    judged = judgements(bench)
    assert len(judged) == sum(attempt["outcome"] != "empty" for attempt in attempts)
    of_judge = {call for one in judged for call in one["call_ids"]}
    asked = len({attempt["call_id"] for attempt in attempts} | of_judge)
    sent = bench.log().count("Added request") or bench.log().count("POST /v1/chat/completions")
    figures.append(
        f"{bench.backend}: killed after {before} of {len(attempts)} attempts: {sent} calls were "
        f"made for {asked} answers; at most {CONCURRENCY + JUDGING} were in flight"
    )
    control_calls = 2  # one of the run and one of the judge ask whether the new engine works
    assert 0 <= sent - asked <= CONCURRENCY + JUDGING + control_calls


def test_the_judge_reads_the_probability_of_a_yes(bench: Bench, figures: list[str]) -> None:
    """Of the run above."""
    constraints = [
        one
        for judgement in judgements(bench)
        for one in judgement["scores"]["yes_no.strict"]["details"]["constraints"]
    ]
    decided = [one["probability"] for one in constraints if one["probability"] is not None]
    figures.append(f"{bench.backend}: {len(decided)} of {len(constraints)} constraints decided on")
    assert len(decided) > 0.9 * len(constraints)
    assert all(0 < probability < 1 for probability in decided)
    assert len(set(decided)) > 10, "it is the model's, and differs with the prompt"


def judgements(bench: Bench) -> list[dict[str, Any]]:
    path = bench.folder / "runs" / "it" / "judgements.jsonl"
    return [msgspec.json.decode(line) for line in path.read_bytes().splitlines()]
