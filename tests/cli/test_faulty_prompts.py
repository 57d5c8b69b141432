"""Prompts that a working provider never answers, and outages, in real runs against `harness mock`.

Only the faulty prompts fail, the run ends with its table, and an outage costs no prompt its tries.
"""

from __future__ import annotations

import itertools
import json
import os
import re
import shutil
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from harness.calls.circuit import CONTROL_PROMPT, MAX_FAILURES_IN_A_ROW
from harness.plugins.mock.server import MockServer
from harness.plugins.mock.wire import ApiError, MockRequest
from tests.cli.command import begun, harness
from tests.cli.test_run import wait_until

N = 40
TRIES = 2
FAULTS = ("500", "503", "429", "stall", "reset", "403", "404", "error_body", "truncated_body")
FAULTY = {"one": 1, "two": 2, "a fifth": N // 5}
SHAPES = (*FAULTY, "three samples", "judge")
QUICK = {
    ("500", "two", "first"),
    ("503", "judge", "last"),
    ("429", "three samples", "last"),
    ("403", "a fifth", "first"),
    ("404", "judge", "first"),
    ("reset", "one", "last"),
    ("error_body", "two", "last"),
    ("truncated_body", "one", "first"),
}
MATRIX = [
    pytest.param(*case, marks=() if case in QUICK else pytest.mark.exhaustive)
    for case in itertools.product(FAULTS, SHAPES, ("first", "last"))
]


def answer(request: MockRequest, index: int) -> str:
    """Repeat the row's number, which thus identifies the judge's prompt too."""
    if request.model == "judge":
        return "Yes"
    return f"answer to {request.prompt}"


class Run:
    """A run of `N` rows in a folder of its own."""

    def __init__(self, folder: Path, server: MockServer, judged: bool = False, **more: Any) -> None:
        data = folder / "rows.jsonl"
        row = {"target": "answer", "criteria": ["It is fine."]}
        rows = [{"question": f"row {number:02}.", **row} for number in range(N)]
        data.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
        model = {"backend": "openai", "name": "m", "base_url": server.base_url}
        judge = {"name": "yes_no", "votes": 1, "model": {**model, "name": "judge"}}
        task = {"name": "jsonl", "path": str(data), "prompt": "{{ question }}"}
        run = {
            "task": {**task, "checks": ["contains"]},
            "model": model,
            "judges": [judge] if judged else [],
            **more,
        }
        self.file = folder / "mine.yaml"
        self.file.write_text(json.dumps(run))
        self.folder = folder / "runs" / "mine"
        self.environment = os.environ | {
            "HARNESS_RUNS_DIR": str(folder / "runs"),
            "HARNESS_CACHE_DIR": str(folder / "cache"),
            "OPENAI_API_KEY": "sk-none",
        }

    def outcomes(self, lines: str = "attempts.jsonl") -> dict[tuple[str, int], str]:
        """Return the outcome of each sample of each row, by the row's number and the sample's."""
        found = {}
        for line in (self.folder / lines).read_text().splitlines():
            row = json.loads(line)
            found[row["instance"], row["sample"]] = row["outcome"]
        return found


@pytest.mark.parametrize(("fault", "shape", "place"), MATRIX)
def test_only_the_faulty_prompts_fail(tmp_path: Path, fault: str, shape: str, place: str) -> None:
    count = FAULTY.get(shape, 1 if shape == "three samples" else 2)
    numbers = range(count) if place == "first" else range(N - count, N)
    samples = 3 if shape == "three samples" else 1
    begin = "answer to row" if shape == "judge" else "row"
    faulty = [f"{begin} {number:02}." for number in numbers]
    limits = {"attempts": TRIES, "concurrency": 4}
    if fault == "stall":
        limits["timeout_s"] = 1
    with MockServer(faults={fault: 1}, fault_on=faulty, answers=answer, retry_after=0.01) as server:
        run = Run(tmp_path, server, shape == "judge", limits=limits, samples=samples)
        ended = harness("run", run.file, env=run.environment)
        requests = server.stats().requests
        assert ended.returncode == 1, ended.stderr
        assert "Results in" in ended.stderr
        assert "paused" not in ended.stderr
        outcomes = run.outcomes("judgements.jsonl" if shape == "judge" else "attempts.jsonl")
        failed = {key for key, outcome in outcomes.items() if outcome == "error"}
        assert len(outcomes) == N * samples
        assert len(failed) == count * samples
        assert set(Counter(outcomes.values())) == {"ok", "error"}
        # Each faulty prompt has its tries, and control calls before and after the last one.
        tries = 1 if fault in ("403", "404") else TRIES
        calls = N * samples + (N if shape == "judge" else 0)
        assert requests <= calls + len(failed) * (tries + 1)
        # The second command asks only the faulty ones again.
        again = harness("run", run.file, env=run.environment)
        assert "Results in" in again.stderr
        assert server.stats().requests - requests <= len(failed) * (tries + 2)


def test_a_retry_that_is_too_far_away_is_an_error_that_names_the_time(tmp_path: Path) -> None:
    limits = {"outage_s": 60, "concurrency": 4}
    fault: dict[str, Any] = {"faults": {"429": 1}, "fault_on": ["row 07."]}
    with MockServer(**fault, answers=answer, retry_after=86_400) as server:
        run = Run(tmp_path, server, limits=limits)
        ended = harness("run", run.file, env=run.environment)
        assert server.stats().requests == N
    assert "Results in" in ended.stderr
    assert Counter(run.outcomes().values()) == {"ok": N - 1, "error": 1}
    lines = (run.folder / "attempts.jsonl").read_text()
    assert re.search(r"It asks to wait until \d{4}-\d\d-\d\d \d\d:\d\d", lines)


def test_a_wait_for_a_retry_is_reported_with_its_end(tmp_path: Path) -> None:
    fault: dict[str, Any] = {"faults": {"429": 1}, "fault_on": ["row 07."]}
    with MockServer(**fault, answers=answer, retry_after=6) as server:
        run = Run(tmp_path, server, limits={"concurrency": 4})
        process = begun("run", run.file, env=run.environment)
        wait_until(lambda: server.stats().requests >= N)
        server.change(faults={})
        said = process.communicate(timeout=60)[1]
    assert process.returncode == 0, said
    assert re.search(r"waiting until [-\d: ]+ to retry: .* answered 429", said)


@pytest.mark.parametrize("left", [N, 2])
@pytest.mark.parametrize(
    "fault",
    [
        "503",
        *(
            pytest.param(fault, marks=pytest.mark.exhaustive)
            for fault in ("500", "429", "reset", "error_body", "truncated_body")
        ),
    ],
)
def test_an_outage_costs_no_prompt_its_tries(tmp_path: Path, fault: str, left: int) -> None:
    answered = itertools.count(1)

    def answer_until_outage(request: MockRequest, index: int) -> str:
        if next(answered) == N - left:
            server.change(faults={fault: 1})
        return answer(request, index)

    faults = {fault: 1.0} if left == N else {}
    with MockServer(answers=answer_until_outage, faults=faults, retry_after=0.01) as server:
        run = Run(tmp_path, server, limits={"attempts": 1, "concurrency": 2})
        process = begun("run", run.file, env=run.environment)
        while server.stats().requests < N - left + min(left, MAX_FAILURES_IN_A_ROW) + 4:
            assert process.poll() is None
            time.sleep(0.01)
        server.change(faults={})
        _, stderr = process.communicate()
        assert process.returncode == 0, stderr
        assert set(run.outcomes().values()) == {"ok"}
        assert len(run.outcomes()) == N


@pytest.mark.parametrize("attempts", [2, 3])
def test_a_short_outage_of_a_small_run_costs_no_prompt_its_tries(
    tmp_path: Path, attempts: int
) -> None:
    requests = itertools.count(1)

    def answer_after_outage(request: MockRequest, index: int) -> str:
        if next(requests) == attempts:
            server.change(faults={})  # of later requests
        return answer(request, index)

    with MockServer(answers=answer_after_outage, faults={"503": 1}) as server:
        run = Run(tmp_path, server, limits={"attempts": attempts}, limit=1)
        ended = harness("run", run.file, env=run.environment)
    assert ended.returncode == 0, ended.stderr
    assert [*run.outcomes().values()] == ["ok"]


@pytest.mark.parametrize("left", [N, 2])
def test_an_outage_that_lasts_ends_the_run(tmp_path: Path, left: int) -> None:
    answered = itertools.count(1)

    def answer_until_outage(request: MockRequest, index: int) -> str:
        if next(answered) == N - left:
            server.change(faults={"503": 1})
        return answer(request, index)

    faults = {"503": 1.0} if left == N else {}
    with MockServer(answers=answer_until_outage, faults=faults) as server:
        limits = {"attempts": 1, "concurrency": 2, "outage_s": 2}
        run = Run(tmp_path, server, limits=limits)
        ended = harness("run", run.file, env=run.environment)
        assert ended.returncode == 1
        assert "All calls have failed for" in ended.stderr
        assert "error" not in run.outcomes().values()
        server.change(faults={})
        assert harness("run", run.file, env=run.environment).returncode == 0
        assert set(run.outcomes().values()) == {"ok"}
        assert len(run.outcomes()) == N


CONTROL_FAULTS = ("403", "404", "429", "500", "stall", "finish:abort")
CONTROL_MATRIX = [
    pytest.param(
        control,
        status,
        shape,
        marks=()
        if (control, status, shape) in {("403", 500, "run"), ("stall", 403, "judge")}
        else pytest.mark.exhaustive,
    )
    for control, status, shape in itertools.product(CONTROL_FAULTS, (500, 403), ("run", "judge"))
]


@pytest.mark.parametrize(("control", "status", "shape"), CONTROL_MATRIX)
def test_a_gateway_that_never_answers_the_control_call_and_a_prompt(
    tmp_path: Path, control: str, status: int, shape: str
) -> None:
    judged = shape == "judge"
    faulty = "answer to row 07." if judged else "row 07."

    def answer_others(request: MockRequest, index: int) -> str:
        if faulty in request.prompt and (request.model == "judge") == judged:
            raise ApiError(status, "blocked")
        return answer(request, index)

    limits = {"attempts": 2, "concurrency": 4, "outage_s": 20, "timeout_s": 1}
    faults = {"faults": {control: 1.0}, "fault_on": [CONTROL_PROMPT]}
    with MockServer(answers=answer_others, retry_after=0.01, **faults) as server:
        run = Run(tmp_path, server, judged, limits=limits)
        # The first session has answers of its own, the second one those of the first, and the third
        # one those in the cache.
        for session in range(3):
            ended = harness("run", run.file, env=run.environment)
            assert "Results in" in ended.stderr, ended.stderr
            outcomes = run.outcomes("judgements.jsonl" if judged else "attempts.jsonl")
            assert Counter(outcomes.values()) == {"ok": N - 1, "error": 1}
            assert "key" not in ended.stderr
            if session == 1:
                shutil.rmtree(run.folder)


def test_an_outage_of_a_gateway_that_never_answers_the_control_call_ends_the_run(
    tmp_path: Path,
) -> None:
    answered = itertools.count(1)

    def answer_until_outage(request: MockRequest, index: int) -> str:
        if next(answered) > N - 12:
            raise ApiError(503, "overloaded")
        return answer(request, index)

    with MockServer(
        answers=answer_until_outage, faults={"403": 1}, fault_on=[CONTROL_PROMPT]
    ) as server:
        limits = {"attempts": 2, "concurrency": 4, "outage_s": 3}
        run = Run(tmp_path, server, limits=limits)
        ended = harness("run", run.file, env=run.environment)
    assert ended.returncode == 1
    assert "All calls have failed for 3 s" in ended.stderr
    assert Counter(run.outcomes().values()) == {"ok": N - 12}


@pytest.mark.parametrize("concurrency", [1, 4])
def test_a_prompt_that_is_denied_first_does_not_end_the_run(
    tmp_path: Path, concurrency: int
) -> None:
    faulty = ["row 00.", "row 01."]
    with MockServer(
        answers=answer, faults={"403": 1}, fault_on=[CONTROL_PROMPT, *faulty]
    ) as server:
        run = Run(tmp_path, server, limits={"concurrency": concurrency})
        ended = harness("run", run.file, env=run.environment)
    assert "Results in" in ended.stderr, ended.stderr
    assert Counter(run.outcomes().values()) == {"ok": N - 2, "error": 2}


@pytest.mark.parametrize("fault", ["401", "403", "404"])
def test_a_denial_of_all_calls_ends_the_run_at_once(tmp_path: Path, fault: str) -> None:
    with MockServer(faults={fault: 1}) as server:
        run = Run(tmp_path, server, limits={"concurrency": 2})
        ended = harness("run", run.file, env=run.environment)
        assert ended.returncode == 1
        assert f"answered {fault}" in ended.stderr
        assert server.stats().requests <= 5


def test_many_prompts_that_are_rejected_alike_end_the_run(tmp_path: Path) -> None:
    with MockServer(faults={"400": 1}) as server:
        run = Run(tmp_path, server, limits={"concurrency": 2})
        ended = harness("run", run.file, env=run.environment)
        assert ended.returncode == 1
        assert "20 different prompts in a row were rejected alike" in ended.stderr
        assert server.stats().requests <= 23


def test_many_prompts_that_are_rejected_alike_do_not_end_a_run_that_was_answered(
    tmp_path: Path,
) -> None:
    """Every other prompt is rejected. The second session has only these."""

    def reply(request: MockRequest, index: int) -> str:
        if any(f"row {number:02}." in request.prompt for number in range(0, N, 2)):
            raise ApiError(400, "Input rejected")
        return answer(request, index)

    with MockServer(answers=reply) as server:
        run = Run(tmp_path, server, limits={"concurrency": 1})
        for _ in range(2):
            ended = harness("run", run.file, env=run.environment)
            assert "pass rate" in ended.stdout, ended.stderr
            assert "rejected alike" not in ended.stderr


@pytest.mark.parametrize(("fault", "outcome"), [("filtered", "refused"), ("too_long", "error")])
def test_any_number_of_prompts_that_are_filtered_or_too_long_do_not(
    tmp_path: Path, fault: str, outcome: str
) -> None:
    with MockServer(faults={fault: 1}) as server:
        run = Run(tmp_path, server, limits={"concurrency": 2})
        ended = harness("run", run.file, env=run.environment)
    assert "Results in" in ended.stderr
    assert Counter(run.outcomes().values()) == {outcome: N}


def test_a_budget_counts_control_calls(tmp_path: Path) -> None:
    prompts = [f"row {number:02}." for number in range(N)]
    with MockServer(faults={"500": 1}, fault_on=prompts) as server:
        run = Run(
            tmp_path,
            server,
            limits={"attempts": 1, "concurrency": 1},
            decoding={"max_tokens": 100},
            budget={"usd": 1},
        )
        config = json.loads(run.file.read_text())
        config["model"]["price"] = {"input": 0, "output": 1000}
        run.file.write_text(json.dumps(config))
        ended = harness("run", run.file, env=run.environment)
        assert "Results in" in ended.stderr
        stats = server.stats()
        spending = json.loads((run.folder / "spending.json").read_text())
        assert stats.answered > 0
        assert spending["usd"] == pytest.approx(stats.completion_tokens / 1000)
