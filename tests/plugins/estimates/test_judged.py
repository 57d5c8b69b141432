"""The estimated cost of judges."""

from functools import partial
from pathlib import Path

import pytest

from harness.plugins.mock.server import MockServer
from tests.cli.command import harness
from tests.cli.test_jsonl_judged import ROWS, Run, planned, run, server
from tests.cli.test_judges import judge, run_file

__all__ = ["run", "server"]


def test_a_dry_run_counts_and_prices_the_judges_calls_in_all_rounds_still_possible(
    run: Run,
) -> None:
    price = {"input": 0, "output": 1_000_000}  # one dollar a token
    model = {**run.model("judge-kind"), "price": price}
    judge = {**run.judge("kind"), "model": model, "max_tokens": 2}
    rounds = {"max": 2, "stop_on_pass": True}
    free = {**run.model("model"), "price": {"input": 0, "output": 0}}
    changes = {"judges": [judge], "model": free, "samples": 2}
    said = planned(run, run.file(**changes, rounds=rounds))
    assert "judge kind judge-kind: at most 16 calls, cost $8.00 to $32.00; input tokens" in said
    assert "output tokens at most 32" in said
    assert "cost $8.00 to $32.00, nothing of it for the answers" in said
    ended = harness("run", run.file(**changes), env=run.environment)
    assert "Estimated cost, judges included: $8.00 to $16.00" in ended.stderr
    assert "judge kind judge-kind: 0 calls" in planned(run, run.file(**changes))


def test_a_dry_run_counts_the_judges_calls_with_those_of_the_model(
    run: Run, server: MockServer
) -> None:
    plan = partial(planned, run, run.file())
    assert "calls to pay at most 8: 4 for answers, at most 4 for judges" in plan()
    run.harness("run", run.file())
    paid = server.stats().requests
    again = plan("--name", "again")
    assert "calls to pay 0 " in again
    assert "tokens" not in again, "there are no calls to pay"
    assert f"judge kind judge-kind: 0 calls ({paid - 4} more are cached)" in again
    other = ("--name", "again", "-o", "judges.kind.model.name=judge-other")
    assert f"calls to pay {paid - 4}: 0 for answers, {paid - 4} for judges" in plan(*other)
    run.harness("run", run.file(), *other)
    assert server.stats().requests == 2 * paid - 4
    more = plan("--name", "more", "-o", "samples=2")
    assert "calls to pay at most 8: 4 for answers, at most 4 for judges" in more


def test_the_dry_run_asks_no_judge(
    server: MockServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HARNESS_RUNS_DIR", str(tmp_path / "runs"))
    ended = harness("run", run_file(tmp_path, server, judge(server)), "--dry-run")
    assert ended.returncode == 0, ended.stderr
    assert server.stats().requests == 0


def test_a_dry_run_counts_the_calls_of_the_judges_that_rows_name(
    run: Run, server: MockServer
) -> None:
    assert "judge kind judge-kind: at most 4 calls" in planned(run, run.file())
    assert server.stats().requests == 0
    run.harness("run", run.file())
    assert "judge kind judge-kind: 0 calls" in planned(run, run.file())


def test_a_dry_run_counts_the_calls_of_a_judge_that_no_row_names(run: Run) -> None:
    rows = [{**row, "criteria": "It is brief."} for row in ROWS]
    file = run.file(rows, judges=[run.judge("kind"), run.judge("brief")])
    plan = planned(run, file)
    assert "judge kind judge-kind: at most 4 calls" in plan
    assert "judge brief judge-brief: at most 8 calls" in plan
