"""`harness check`: a gate for releases, decided on recorded runs."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from typing import Annotated, Literal
from xml.etree import ElementTree

import typer

from harness.analysis.comparable import read_run
from harness.analysis.gate import Decision, decide, overall
from harness.analysis.metrics import PASS_RATE
from harness.cli.console import By, Run, show
from harness.config.settings import Settings
from harness.errors import ConfigError
from harness.report.gate import gate_document
from harness.report.table import Table, TableDocument
from harness.report.text import printable
from harness.store.run_folder import find_run

CODES = {"passed": 0, "failed": 4, "too few to tell": 5}


def check(
    run: Run,
    least: Annotated[
        list[str] | None, typer.Option("--min", metavar="SCORE=BOUND", help="")
    ] = None,
    baseline: Annotated[str, typer.Option(metavar="RUN")] = "",
    max_drop: Annotated[float | None, typer.Option(min=0.0, metavar="DROP")] = None,
    score: Annotated[str, typer.Option(metavar="NAME")] = PASS_RATE,
    by: By = "",
    form: Annotated[
        Literal["table", "markdown", "json", "junit"], typer.Option("--format")
    ] = "table",
) -> None:
    """Decide whether a recorded run keeps its bounds, given how uncertain its figures are.

    No model is called. A bound is broken if the whole 95% interval is below it, and kept if the
    whole interval is at or above it. Exit codes: 0 kept, 4 broken, 5 too few instances to tell, 1
    failed.

    Args:
        least: Minimum of a score, such as pass_rate=0.9; repeatable.
        baseline: The run to compare with, paired by instance.
        max_drop: Maximum drop of the score below the baseline's, such as 0.02.
        score: The compared score (default: the pass rate).
        form: Output format; junit is XML for CI systems.
    """
    bounds = dict(map(_bound, least or []))
    if bool(baseline) != (max_drop is not None):
        raise ConfigError("--baseline and --max-drop need each other.", "Give both, or neither.")
    if not bounds and not baseline:
        remedy = "Set --min pass_rate=0.9, or --baseline RUN --max-drop 0.02."
        raise ConfigError("There is no bound to check.", remedy)
    root = Settings().runs_dir
    asked = read_run(find_run(root, run))
    before = read_run(find_run(root, baseline)) if baseline else None
    found = decide(asked, bounds, before, max_drop, score=score, by=by)
    document = gate_document(asked[0], before[0] if before else None, found)
    if form == "junit":
        sys.stdout.write(junit(asked[0].name, found, document))
    else:
        show(document, form)
    raise typer.Exit(CODES[overall(found)])


def _bound(text: str) -> tuple[str, float]:
    name, _, value = text.partition("=")
    if not name or not re.fullmatch(r"-?\d*\.?\d+", value):
        raise ConfigError(f"--min {text!r:.60} is not a bound.", "Write --min pass_rate=0.9.")
    return name, float(value)


def junit(run: str, decisions: Sequence[Decision], document: TableDocument) -> str:
    """Return the decisions as JUnit XML, in which "too few to tell" is an error, not a failure."""
    tags = {"failed": "failure", "too few to tell": "error"}
    counts = {tag: sum(tags.get(one.outcome) == tag for one in decisions) for tag in tags.values()}
    suite = ElementTree.Element(
        "testsuite",
        {
            "name": printable(run),
            "tests": str(len(decisions)),
            "failures": str(counts["failure"]),
            "errors": str(counts["error"]),
        },
    )
    [table] = [part for part in document.parts if isinstance(part, Table)]
    for one, row in zip(decisions, table.rows, strict=True):
        name = f"{one.what} {one.group}".strip()
        case = ElementTree.SubElement(
            suite, "testcase", {"classname": printable(run), "name": printable(name), "time": "0"}
        )
        if one.outcome != "passed":
            said = ", ".join(
                f"{column.heading} {text}"
                for column, text in zip(table.columns, table.texts(row), strict=True)
                if text and column.heading
            )
            ElementTree.SubElement(case, tags[one.outcome], {"message": said, "type": one.outcome})
    ElementTree.indent(suite)
    return f'<?xml version="1.0" encoding="utf-8"?>\n{ElementTree.tostring(suite, "unicode")}\n'
