"""Crashes of a user's application: they are verdicts, unless nothing was ever answered."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import harness
from harness.errors import ConfigError, HarnessError, RequestRejected, RunConflict
from harness.plugin import Backend
from harness.records import Reply, Request
from harness.report.costs import cost_facts
from harness.store.run_folder import RunFolder
from tests.unsealed import unseal

ROWS = [{"id": f"r{n}", "prompt": str(n), "target": str(n)} for n in range(20)]
TASK = {"rows": ROWS, "checks": "exact_match"}


def raising(error: Callable[[], BaseException]) -> Callable[[int], Any]:
    def fail(number: int) -> Any:
        raise error()

    return fail


def sleep(number: int) -> Any:
    time.sleep(10)


FAILURES: dict[str, tuple[Callable[[int], Any], str]] = {
    "error": (raising(lambda: KeyError("price")), "KeyError at test_recorder_crashes.py:"),
    "exit": (raising(lambda: SystemExit(3)), "SystemExit at test_recorder_crashes.py:"),
    "outage": (raising(lambda: ConnectionRefusedError("no")), "ConnectionRefusedError at "),
    "memory": (raising(MemoryError), "MemoryError at test_recorder_crashes.py:"),
    "nothing": (lambda number: None, "returned NoneType"),
    "hang": (sleep, "no answer in time"),
    "rejected": (raising(lambda: RequestRejected("too long")), ""),
}


def application(failing: str, every: int) -> Callable[[str], Any]:
    """Return a function that echoes its prompt, and fails for one in ``every`` numbers."""

    def answer(prompt: str) -> Any:
        failed = int(prompt) % every == 1 or "BROKEN" in os.environ
        return FAILURES[failing][0](int(prompt)) if failed else prompt

    answer.__name__ = answer.__qualname__ = f"{failing}_{every}"
    return answer


def counts(run: harness.RunResult) -> dict[tuple[str, bool | None], int]:
    return dict(Counter((one.outcome, one.passed) for one in run.samples()))


def lines(run: harness.RunResult) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (run.path / "attempts.jsonl").read_text().splitlines()]


def crashing_run(failing: str) -> harness.RunResult:
    """Run an application that fails for a fifth of the rows."""
    harness.backend(application(failing, 5))
    limits = {"timeout_s": 0.5, "attempts": 1}
    file = {"task": TASK, "model": {"backend": f"{failing}_5"}, "limits": limits}
    return harness.run(file, name=failing, progress=False)


@pytest.mark.parametrize("failing", FAILURES)
def test_a_crash_is_a_failure_and_a_providers_failure_is_none(failing: str) -> None:
    run = crashing_run(failing)
    exception = FAILURES[failing][1]
    failed = ("crashed", False) if exception else ("error", None)
    assert counts(run) == {("ok", True): 16, failed: 4}
    assert run.metrics.pass_rate == (0.8 if exception else 1.0)
    recorded = [one for one in lines(run) if one["outcome"] != "ok"]
    for one in recorded:
        assert one.get("exception", "").startswith(exception)
        assert one["v"] == (2 if exception else 1), "earlier versions do not know crashes"
    crashing_run(failing)
    assert len(lines(run)) == (20 if exception else 24), "a crash is not asked again"


async def test_an_asynchronous_application_may_exit_or_cancel_itself() -> None:
    @harness.backend
    async def own_end(prompt: str) -> str:
        match int(prompt) % 4:
            case 1:
                sys.exit(3)
            case 2:
                raise asyncio.CancelledError
        return prompt

    run = await harness.arun({"task": TASK, "model": {"backend": "own_end"}}, progress=False)
    assert counts(run) == {("ok", True): 10, ("crashed", False): 10}


@pytest.mark.parametrize("rows", [3, 20])
def test_crashes_count_only_once_a_call_was_answered(
    rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    harness.backend(application("error", 4))
    task = {**TASK, "rows": ROWS[:rows]}
    file = {"task": task, "model": {"backend": "error_4"}, "limits": {"concurrency": 1}}
    monkeypatch.setenv("BROKEN", "1")  # what the application depends on
    if rows == 3:  # too few to end the run
        run = harness.run(file, name="all", progress=False)
        assert counts(run) == {("error", None): 3}
        assert run.metrics.pass_rate is None
    else:
        with pytest.raises(HarnessError, match="The first 10 calls failed"):
            harness.run(file, name="all", progress=False)
    run = harness.run(file, name="all", progress=False)
    assert counts(run) == {("error", None): rows}, "nor does a repeat, which asks all"
    monkeypatch.delenv("BROKEN")
    run = harness.run(file, name="all", progress=False)
    crashes = len([n for n in range(rows) if n % 4 == 1])
    assert counts(run) == {("ok", True): rows - crashes, ("crashed", False): crashes}


def test_a_repeat_with_cached_answers_may_begin_with_crashes() -> None:
    harness.backend(application("error", 2))
    file = {"task": TASK, "model": {"backend": "error_2"}}
    for name in ("first", "second"):
        run = harness.run(file, name=name, progress=False)
        assert counts(run) == {("ok", True): 10, ("crashed", False): 10}


def test_crashes_can_be_excluded_and_counted_later_but_not_excluded_again() -> None:
    harness.backend(application("error", 2))
    file: dict[str, Any] = {"task": TASK, "model": {"backend": "error_2", "on_error": "exclude"}}
    run = harness.run(file, name="mine", progress=False)
    assert counts(run) == {("ok", True): 10, ("error", None): 10}
    assert all(line["latency_s"] is not None for line in lines(run)), "as of a crash"
    assert (run.metrics.n_calls, run.metrics.n_crashed_calls) == (10, 10)
    file["model"]["on_error"] = "fail"
    assert counts(harness.run(file, name="mine", progress=False))["crashed", False] == 10
    file["model"]["on_error"] = "exclude"
    with pytest.raises(RunConflict, match=r"model.on_error \(fail, now exclude\)"):
        harness.run(file, name="mine", progress=False)


def test_a_run_of_an_earlier_version_still_excludes_crashes() -> None:
    harness.backend(application("error", 2))
    model = {"backend": "error_2", "on_error": "exclude"}
    run = harness.run({"task": TASK, "model": model}, name="old", progress=False)
    unseal(run.path)
    config = run.path / "config.yaml"
    config.write_text(config.read_text().replace("  on_error: exclude\n", ""))
    file = {"task": TASK, "model": {"backend": "error_2"}}
    assert counts(harness.run(file, name="old", progress=False))["error", None] == 10
    assert counts(harness.run(file, name="new", progress=False))["crashed", False] == 10


class Adapter(Backend):
    """A user's class, which calls an application in this process."""

    endpoint = ""
    features = frozenset({"max_tokens"})
    cacheable = True

    async def generate(self, request: Request) -> Reply:
        text = request.messages[-1].content
        return Reply({n: n for n in map(str, range(10))}[text], "stop")

    async def aclose(self) -> None:
        pass


class ServerAdapter(Adapter):
    endpoint = "http://localhost:1"


def test_a_class_crashes_unless_it_names_a_server() -> None:
    harness.backend(Adapter)
    harness.backend(ServerAdapter)
    for name, failed in {"adapter": ("crashed", False), "server_adapter": ("error", None)}.items():
        run = harness.run({"task": TASK, "model": {"backend": name}}, name=name, progress=False)
        assert counts(run) == {("ok", True): 10, failed: 10}
        timed = [line for line in lines(run) if line["latency_s"] is not None]
        assert len(timed) == (10 if failed == ("error", None) else 20), "its crashes, no failures"


def test_a_providers_model_does_not_crash() -> None:
    model = {"backend": "simulated", "on_error": "fail"}
    with pytest.raises(ConfigError, match="on_error: fail is for your own application"):
        harness.run({"task": TASK, "model": model}, progress=False)
    run = harness.run({"task": TASK, "model": {"backend": "simulated"}}, progress=False)
    assert "on_error" not in (run.path / "config.yaml").read_text()


def test_a_crash_ends_the_rounds_of_its_sample() -> None:
    @harness.backend
    def sometimes(messages: list[dict[str, str]]) -> str:
        if len(messages) > 1:
            raise KeyError("a second round")
        return messages[0]["content"].replace("1", "?")

    file = {"task": {**TASK, "rows": ROWS[:2]}, "model": {"backend": "sometimes"}}
    for rounds in (3, 4):
        changed = {"rounds.max": rounds}
        run = harness.run(file, name="rounds", overrides=changed, progress=False)
        assert [(one.round, one.outcome) for one in run.attempts()] == [
            *[(1, "ok"), (1, "ok"), (2, "crashed")]
        ], "with more rounds, too"
        assert run.metrics.pass_rate == 0.5


def test_a_crash_ends_a_conversation_which_then_fails() -> None:
    @harness.backend
    def forgetful(messages: list[dict[str, str]]) -> str:
        if messages[-1]["content"] == "2":
            raise KeyError("2")
        return messages[-1]["content"]

    turns = [{"content": n, "checks": ["exact_match"], "target": n} for n in "123"]
    task = {"rows": [{"turns": turns}, {"turns": turns[:1]}]}
    run = harness.run({"task": task, "model": {"backend": "forgetful"}}, progress=False)
    assert [(one.round, one.outcome) for one in run.attempts()][:2] == [(1, "ok"), (2, "crashed")]
    assert run.metrics.pass_rate == 0.5
    again = harness.run({"task": task, "model": {"backend": "forgetful"}}, progress=False)
    assert len(list(again.attempts())) == 3


def test_a_judge_that_raises_gives_no_verdict() -> None:
    harness.backend(application("error", 100))

    @harness.backend
    def judging(prompt: str) -> str:
        raise KeyError("judge")

    task = {"rows": [{**ROWS[0], "criteria": ["Is it a number?"]}], "checks": "exact_match"}
    judge = {"name": "yes_no", "model": {"backend": "judging", "name": "j"}}
    file = {"task": task, "model": {"backend": "error_100"}, "judges": [judge]}
    run = harness.run(file, name="judged", progress=False)
    assert [(one.outcome, one.passed) for one in run.attempts()] == [("ok", None)]


def run_that_crashes_at_two_lines(folder: Path) -> harness.RunResult:
    """Run an application that raises a KeyError at its lines 3 and 5, five times each."""
    (folder / "lookup.py").write_text(
        "def answer(prompt):\n"
        "    if int(prompt) % 4 == 1:\n"
        "        return {}[prompt]\n"
        "    if int(prompt) % 4 == 2:\n"
        "        return {}[prompt]\n"
        "    return prompt\n"
    )
    file = {"task": TASK, "model": {"backend": str(folder / "lookup.py")}}
    return harness.run(file, progress=False)


def test_the_line_of_a_crash_is_recorded(tmp_path: Path) -> None:
    attempts = lines(run_that_crashes_at_two_lines(tmp_path))
    places = Counter(one["exception"] for one in attempts if one["outcome"] == "crashed")
    assert places == {"KeyError at lookup.py:3": 5, "KeyError at lookup.py:5": 5}


def timed_run(failing: str) -> harness.RunResult:
    """Run an application that fails for half of eight rows."""
    harness.backend(application(failing, 2))
    file = {
        "task": {**TASK, "rows": ROWS[:8]},
        "model": {"backend": f"{failing}_2"},
        "limits": {"timeout_s": 0.5},
    }
    return harness.run(file, name="timed", progress=False)


@pytest.mark.parametrize("failing", ["hang", "error"])
def test_crashed_calls_are_counted_and_timed(failing: str) -> None:
    run = timed_run(failing)
    crashes = [line for line in lines(run) if line["outcome"] == "crashed"]
    assert len(crashes) == 4
    for crash in crashes:
        assert (crash["latency_s"] >= 0.5) == (failing == "hang")
        assert (crash["call_id"], crash["usage"], crash["cost_usd"]) == (None, None, None)
    assert (run.metrics.n_calls, run.metrics.n_crashed_calls) == (4, 4)
    assert ("calls", "8 (4 crashed)") in list(cost_facts(run.metrics))


def test_calls_of_an_application_that_always_crashes_are_counted() -> None:
    @harness.backend
    def always(prompt: str) -> str:
        raise KeyError(prompt)

    task = {**TASK, "rows": ROWS[:8]}
    run = harness.run({"task": task, "model": {"backend": "always"}}, name="all", progress=False)
    assert counts(run) == {("error", None): 8}
    assert (run.metrics.n_calls, run.metrics.n_crashed_calls) == (0, 8)
    assert run.metrics.cost_usd == 0


def test_a_crashed_call_that_two_rows_share_counts_once() -> None:
    n = 0

    @harness.backend
    async def shared(prompt: str) -> str:
        nonlocal n
        n += 1
        await asyncio.sleep(0.2)
        if prompt == "1":
            raise KeyError(prompt)
        return prompt

    rows = [{**ROWS[1], "id": "x"}, ROWS[1], ROWS[2]]
    run = harness.run(
        {"task": {**TASK, "rows": rows}, "model": {"backend": "shared"}}, name="s", progress=False
    )
    assert counts(run) == {("crashed", False): 2, ("ok", True): 1}
    assert n == run.metrics.n_calls + run.metrics.n_crashed_calls == 2


def test_a_run_whose_file_is_deleted_meanwhile_fails_and_is_incomplete() -> None:
    root = Path(os.environ["HARNESS_RUNS_DIR"])

    @harness.backend
    def deleting(prompt: str) -> str:
        if prompt == "19":
            (root / "mine" / "attempts.jsonl").unlink()
        return prompt

    file = {"task": TASK, "model": {"backend": "deleting"}}
    with pytest.raises(HarnessError, match=r"changed or deleted .*attempts\.jsonl"):
        harness.run(file, name="mine", progress=False)
    assert not RunFolder(root, "mine").progress()[0]
    assert harness.run(file, name="mine", progress=False).metrics.complete
