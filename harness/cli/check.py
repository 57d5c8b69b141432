"""`harness check`: a gate for releases, decided on recorded runs."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from typing import Annotated, Any, Literal
from xml.etree import ElementTree

import typer

from harness.analysis.gate import Gate, check_run
from harness.cli.console import By, Run, show
from harness.config.sections import CheckSection
from harness.config.settings import Settings
from harness.config.validation import validated
from harness.errors import ConfigError
from harness.report.gate import decision_line, gate_document, unjudged_line
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
    score: Annotated[str, typer.Option(metavar="NAME")] = "",
    by: By = "",
    max_unjudged: Annotated[float | None, typer.Option(min=0.0, max=1.0, metavar="SHARE")] = None,
    form: Annotated[
        Literal["table", "markdown", "json", "junit"], typer.Option("--format")
    ] = "table",
) -> None:
    """Does a finished run meet its bounds, given the uncertainty of its figures?

    No model is called. A bound is broken if the whole 95% interval is below it, and kept if the
    whole interval is at or above it. Without a bound, those of the run file's `check:` are used.
    Exit codes: 0 kept, 4 broken, 5 too few instances or verdicts to tell, 1 failed.

    Args:
        least: Minimum of a score, such as pass_rate=0.9; repeatable.
        baseline: The run to compare with, paired by instance.
        max_drop: Maximum drop of the score below the baseline's, such as 0.02.
        score: The compared score (default: the pass rate).
        max_unjudged: Maximum share of samples without a verdict, such as 0.02 (default: 0).
        form: Output format; junit is XML for CI systems.
    """
    bounds = dict(map(bound, least or []))
    if bool(baseline) != (max_drop is not None):
        raise ConfigError("--baseline and --max-drop need each other.", "Give both, or neither.")
    root = Settings().runs_dir
    folder = find_run(root, run)
    given: dict[str, Any] = {"min": bounds, "baseline": baseline, "max_drop": max_drop}
    given |= {"score": score, "by": by, "max_unjudged": max_unjudged}
    asked = section(folder.read_config().check, given)
    gate = check_run(folder, asked, root)
    if form == "junit":
        sys.stdout.write(junit(gate))
    else:
        show(gate_document(gate), form)
    raise typer.Exit(CODES[gate.outcome])


def bound(text: str) -> tuple[str, float]:
    """Parse ``SCORE=BOUND``, and return the score's name and the number.

    Raises:
        ConfigError: If the text does not have this form.
    """
    name, _, value = text.partition("=")
    if not name or not re.fullmatch(r"-?\d*\.?\d+", value):
        raise ConfigError(f"--min {text!r:.60} is not a bound.", "Write --min pass_rate=0.9.")
    return name, float(value)


def section(own: CheckSection | None, given: Mapping[str, Any]) -> CheckSection:
    """Return the bounds to check.

    They are those of the command line (``given``) or, if it sets no bound, the section ``check`` of
    the run file (``own``).

    Raises:
        ConfigError: If neither sets a bound.
    """
    given = {key: value for key, value in given.items() if value not in ("", None, {})}
    if not given.keys() & {"min", "baseline"}:
        if own is None:
            remedy = "Set --min pass_rate=0.9, or --baseline and --max-drop (docs/check.md)."
            raise ConfigError("There is no bound to check.", remedy)
        given = own.model_dump() | given
    return validated(CheckSection, given, "check")


def junit(gate: Gate) -> str:
    """Return the decisions as JUnit XML.

    In the XML, the decision "too few to tell" is an error, and so are too many samples without a
    verdict.
    """
    tags = {"failed": "failure", "too few to tell": "error"}
    found = [
        (f"{one.what} {one.group}".strip(), one.outcome, decision_line(one))
        for one in gate.decisions
    ]
    lacking = [unjudged_line(one, gate) for one in gate.unjudged if not one.allowed]
    if lacking:
        found.append(("verdicts", "too few to tell", " ".join(lacking)))
    outcomes = [outcome for _, outcome, _ in found]
    run = printable(gate.run.name)
    suite = ElementTree.Element(
        "testsuite",
        {
            "name": run,
            "tests": str(len(found)),
            "failures": str(outcomes.count("failed")),
            "errors": str(outcomes.count("too few to tell")),
        },
    )
    for name, outcome, message in found:
        case = ElementTree.SubElement(
            suite, "testcase", {"classname": run, "name": printable(name), "time": "0"}
        )
        if outcome != "passed":
            said = {"message": message, "type": outcome}
            ElementTree.SubElement(case, tags[outcome], said)
    ElementTree.indent(suite)
    return f'<?xml version="1.0" encoding="utf-8"?>\n{ElementTree.tostring(suite, "unicode")}\n'
