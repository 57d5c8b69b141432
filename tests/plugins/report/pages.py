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

from harness.plugins.comparisons.comparable import Variant
from harness.plugins.comparisons.costs import latencies
from harness.plugins.comparisons.run_comparison import RunComparison
from harness.plugins.report.entries import read_failures
from harness.plugins.report.figure import Figure
from harness.plugins.report.page import ReportPage, write_page
from harness.plugins.report.runs import Reported, ReportedRun
from harness.records import Attempt
from harness.store.index import AttemptIndex
from tests.plugins.comparisons import written
from tests.report.attempts import before_and_after

MADE_AT = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
SECTIONS = ("results", "comparison", "constraints", "outcomes", "cost")


def reported_run(
    folder: Path, name: str, attempts: Sequence[Attempt], marks: Sequence[str] = (), **more: Any
) -> ReportedRun:
    """A run of these attempts, in a file of its own."""
    variant, _ = written.write_run(folder, name, attempts)
    index = AttemptIndex(folder / "attempts.jsonl")
    return ReportedRun(
        **(
            {
                "name": name,
                "metrics": variant.metrics,
                "marks": marks,
                "index": index,
                "settings": variant.settings,
                "manifest": {"run": name, "started_at": 0.0, "packages": {"harness": "1"}},
                "latencies": latencies([0.5, 1.5]),
                "failures": read_failures(index),
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
    return written.compared(list(zip(variants, tables, strict=True)), by, round_)


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
    """The runs `before_and_after`."""
    before, after = before_and_after()
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
