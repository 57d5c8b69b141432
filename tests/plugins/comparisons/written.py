"""Runs of made-up attempts, and their comparison."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from harness.analysis.summary import RunFacts, summarise
from harness.plugins.comparisons.comparable import Run, Variant
from harness.plugins.comparisons.run_comparison import (
    ComparisonOptions,
    RunComparison,
    compare_runs,
)
from harness.records import Attempt
from harness.store.json_lines import JsonLinesWriter
from tests.columns import read_columns
from tests.report.attempts import before_and_after


def write_run(folder: Path, name: str, attempts: Sequence[Attempt]) -> Run:
    """A run of these attempts, in a file of its own."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "attempts.jsonl"
    with JsonLinesWriter(path) as writer:
        for one in attempts:
            writer.append(one)
    table, calls = read_columns(path)
    metrics = summarise(table, calls, RunFacts(run=name, task="sums", model=f"model of {name}"))
    return Variant(name, metrics, {"model.name": name, "task.shots": 0}, {}), table


def compared(runs: Sequence[Run], by: str = "shape", round_: int | None = None) -> RunComparison:
    return compare_runs(list(runs), ComparisonOptions(by=by, round=round_))


def two_runs(folder: Path) -> list[Run]:
    """`before_and_after` as runs."""
    before, after = before_and_after()
    return [write_run(folder / "a", "before", before), write_run(folder / "b", "after", after)]
