"""Runs and pages for the tests of the report."""

from __future__ import annotations

import base64
import gzip
import json
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from harness.analysis.comparable import Variant
from harness.analysis.failures import read_failures
from harness.analysis.run_comparison import ComparisonOptions, RunComparison, compare_runs
from harness.analysis.summary import RunFacts, latencies, summarise
from harness.records import Attempt, Score, Usage
from harness.report.figure import Figure
from harness.report.html.page import ReportPage, write_page
from harness.report.runs import Reported, ReportedRun
from harness.store.index import AttemptIndex
from harness.store.json_lines import JsonLinesWriter
from tests.columns import read_columns

MADE_AT = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
SECTIONS = ("results", "comparison", "constraints", "outcomes", "cost")


def attempt(
    instance: str, sample: int = 0, round_: int = 1, passed: bool | None = True, **fields: Any
) -> Attempt:
    """An attempt that says which it is."""
    request: dict[str, Any] = {"messages_hash": "m", "follows": round_ - 1}
    if round_ == 1:
        prompt = fields.pop("prompt", f"Prompt of {instance}.")
        request = {"messages": [{"role": "user", "content": prompt}]}
    score = Score(passed, passed, "" if passed else f"{instance} is wrong in round {round_}")
    return Attempt(
        **(
            {
                "v": 1,
                "instance": instance,
                "sample": sample,
                "round": round_,
                "groups": {"shape": "round" if instance.endswith(("0", "2", "4")) else "square"},
                "cluster": instance,
                "request": request,
                "outcome": "ok",
                "started_at": 1.0,
                "ended_at": 2.0,
                "text": f"Answer {instance}, sample {sample}, round {round_}.",
                "finish_reason": "stop",
                "passed": passed,
                "scores": {"exact": score},
                "call_id": f"{abs(hash((instance, sample, round_))):032x}"[:32],
                "usage": Usage(10, 20),
                "cost_usd": 0.001,
                "latency_s": 0.5,
            }
            | fields
        )
    )


def reported_run(
    folder: Path, name: str, attempts: Sequence[Attempt], marks: Sequence[str] = (), **more: Any
) -> ReportedRun:
    """A run of these attempts, in a file of its own."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "attempts.jsonl"
    with JsonLinesWriter(path) as writer:
        for one in attempts:
            writer.append(one)
    found, calls = read_columns(path)
    metrics = summarise(found, calls, RunFacts(run=name, task="sums", model=f"model of {name}"))
    return ReportedRun(
        **(
            {
                "name": name,
                "metrics": metrics,
                "marks": marks,
                "index": AttemptIndex(path),
                "settings": {"model.name": name, "task.shots": 0},
                "manifest": {"run": name, "started_at": 0.0, "packages": {"harness": "1"}},
                "latencies": latencies([0.5, 1.5]),
                "failures": read_failures(AttemptIndex(path)),
                "constraints": (),
                "effects": (),
            }
            | more
        )
    )


def compared(
    runs: Sequence[ReportedRun], by: str = "shape", round_: int | None = None
) -> RunComparison:
    variants = [Variant(run.name, run.metrics, run.settings, {}) for run in runs]
    tables = [run.attempts for run in runs]
    return compare_runs(
        list(zip(variants, tables, strict=True)), ComparisonOptions(by=by, round=round_)
    )


def _compared(runs: Sequence[ReportedRun]) -> RunComparison | None:
    return compared(runs) if len(runs) > 1 else None


def figure(section: str, values: Sequence[Mapping[str, Any]] | None = None) -> Figure:
    values = values or [{"group": "a", "rate": 0.25}, {"group": "b", "rate": 0.75}]
    return Figure(
        name=f"{section}_rates",
        title=f"Rates of {section}",
        caption="Each bar is a group.",
        chart={
            "data": {"values": list(values)},
            "width": "container",
            "height": 120,
            "mark": {"type": "bar", "tooltip": True},
            "encoding": {
                "x": {"field": "group", "type": "nominal"},
                "y": {"field": "rate", "type": "quantitative"},
            },
        },
        headings=("group", "rate"),
        rows=tuple((str(value["group"]), f"{value['rate']:.3f}") for value in values),
        section=section,
    )


def two_runs(folder: Path) -> list[ReportedRun]:
    """Six instances of two samples and up to two rounds; the second run is better in two of them,
    worse in one."""
    before, after = [], []
    for number in range(6):
        for sample in range(2):
            name = f"sum/{number}"
            before.append(attempt(name, sample, passed=number < 3))
            after.append(attempt(name, sample, passed=False, feedback=f"Try {name} again."))
            after.append(attempt(name, sample, 2, passed=number in (0, 1, 4, 5)))
    return [
        reported_run(folder / "a", "before", before),
        reported_run(folder / "b", "after", after),
    ]


def report(
    runs: Sequence[ReportedRun], comparison: RunComparison | None = None, **more: Any
) -> ReportPage:
    return ReportPage(
        **(
            {
                "title": "A report",
                "made_at": MADE_AT,
                "reported": Reported(list(runs), comparison or _compared(runs)),
                "figures": [figure(section) for section in SECTIONS],
            }
            | more
        )
    )


def write(path: Path, runs: Sequence[ReportedRun], **more: Any) -> Path:
    write_page(path, report(runs, **more))
    return path


def data(path: Path, name: str) -> Any:
    """The content of one of a page's data elements."""
    (found,) = re.findall(f'<script type="[^"]+" id="{name}">([^<]*)</script>', path.read_text())
    return json.loads(gzip.decompress(base64.b64decode(found)))
