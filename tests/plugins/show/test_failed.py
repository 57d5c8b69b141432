"""`harness show --failed`: the attempts that failed."""

import json
from pathlib import Path
from typing import Any

from tests.cli.command import harness, on
from tests.cli.test_manage import made

__all__ = ["made"]


def attempts_of(run: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (run / "attempts.jsonl").read_text().splitlines()]


def test_failed_attempts_are_listed_with_what_is_wrong(made: Path) -> None:
    attempts = attempts_of(made / "first")
    failed = [one for one in attempts if not one["passed"]]
    assert failed
    ended = harness("show", "first", "--failed", env=on(made))
    assert f"{len(failed)} of {len(attempts)} attempts failed." in ended.stdout
    found = json.loads(
        harness("show", "first", "--failed", "--format", "json", env=on(made)).stdout
    )
    key = ("instance", "sample", "round")
    assert sorted(tuple(one[part] for part in key) for one in found) == sorted(
        tuple(one[part] for part in key) for one in failed
    )
    assert all(one["reason"] for one in found)


def test_failed_attempts_of_an_instance(made: Path) -> None:
    attempts = attempts_of(made / "first")
    instance = next(one["instance"] for one in attempts if not one["passed"])
    more = "--instance", instance, "--failed", "--format", "json"
    found = json.loads(harness("show", "first", *more, env=on(made)).stdout)
    assert found
    assert {one["instance"] for one in found} == {instance}
    assert not any(one["passed"] for one in found)
