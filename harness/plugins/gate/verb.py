"""`harness check`: a gate for releases, decided on recorded runs."""

import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Annotated, Literal, NamedTuple
from xml.etree import ElementTree

import typer

from harness.cli.options import Runs
from harness.config.settings import Settings
from harness.engine.run_files import (
    find_named_run,
    find_recorded_baseline,
    find_runs_and_files,
    is_run_file,
)
from harness.errors import ConfigError
from harness.plugins.gate.api import check_section, read_bounds
from harness.plugins.gate.decision import Outcome, worst
from harness.plugins.gate.document import cached_lines, decision_line, gate_document, unjudged_line
from harness.plugins.gate.gate import Gate, check_runs, failing
from harness.report.text import escape_unprintable
from harness.terminal.console import say, show

CODES: Mapping[Outcome, int] = {"passed": 0, "failed": 4, "too few to tell": 5}
MAX_LISTED_NAMES = 20  # instances beyond a bound, in JUnit XML


def check(
    runs: Runs,
    minima: Annotated[list[str] | None, typer.Option("--min", metavar="SCORE=BOUND")] = None,
    maxima: Annotated[list[str] | None, typer.Option("--max", metavar="SCORE=BOUND")] = None,
    baseline: Annotated[str, typer.Option(metavar="RUN")] = "",
    max_drop: Annotated[float | None, typer.Option(min=0.0, metavar="DROP")] = None,
    score: Annotated[str, typer.Option(metavar="NAME")] = "",
    by: Annotated[str, typer.Option(metavar="LABEL")] = "",
    max_unjudged: Annotated[float | None, typer.Option(min=0.0, max=1.0, metavar="SHARE")] = None,
    too_few: Annotated[Literal["pass", "fail"] | None, typer.Option()] = None,
    form: Annotated[
        Literal["table", "markdown", "json", "junit"], typer.Option("--format")
    ] = "table",
) -> None:
    """Do finished runs meet their bounds, given the uncertainty of their figures?

    No model is called. A minimum is met if the whole 95% interval is at or above it, and broken if
    the whole interval is below it. If no bound is given, those in the run file's section check are
    used. Exit codes, by the worst run: 0 all bounds are met, 4 a bound is broken, 5 too few
    instances or verdicts to tell, 1 an error.

    Args:
        minima: Minimum of a score, such as pass_rate=0.9; repeatable.
        maxima: Maximum of a score, of cost or cost_per_sample (US dollars), or of latency_p95 or
            another percentile (seconds); repeatable.
        baseline: The run to compare with, paired by instance.
        max_drop: Maximum drop of the score below the baseline's, such as 0.02.
        score: The score to compare with the baseline (default: the pass rate).
        by: Label whose groups must also meet the bounds.
        max_unjudged: Maximum share of samples without a verdict, such as 0.02 (default: 0).
        too_few: Count "too few instances to tell" as passed (0) or failed (4), instead of 5.
        form: Output format; junit is XML for CI systems.
    """
    options = {
        "min": read_bounds("--min", minima),
        "max": read_bounds("--max", maxima),
        "baseline": baseline,
        "max_drop": max_drop,
        "score": score,
        "by": by,
        "max_unjudged": max_unjudged,
        "too_few": too_few,
    }
    settings = Settings()
    checks = []
    for folder, run in find_runs_and_files(runs, settings):
        checks.append((folder, check_section(run, options)))
    by_user = bool(baseline) or all(map(is_run_file, runs))
    find = find_named_run if by_user else find_recorded_baseline
    gates = check_runs(checks, partial(find, settings=settings, strict=True))
    if not any(gate.decisions for gate in gates):
        raise ConfigError("The baseline is compared with itself.", "Name another run.")
    if form == "junit":
        sys.stdout.write(junit(gates))
    else:
        show(gate_document(gates), form)
    code = CODES[worst({gate.result for gate in gates})]
    if code == CODES["too few to tell"] and all(
        gate.judged and gate.too_few is None for gate in gates
    ):
        counts = "--too-few pass counts this as passed (0), --too-few fail as failed (4)."
        say(f"Exit code {code}: {counts}")
    raise typer.Exit(code)


def junit(gates: Sequence[Gate]) -> str:
    """Return the decisions as JUnit XML, with a test suite per run.

    "Too few to tell" is an error or, depending on ``too_few``, a failure or a skipped test.
    """
    root = ElementTree.Element("testsuites")
    for gate in gates:
        cases = list(_cases(gate, len(gates) > 1))
        counts = Counter(case.element for case in cases)
        run = escape_unprintable(gate.run.name)
        head = {
            "name": run,
            "tests": str(len(cases)),
            "failures": str(counts["failure"]),
            "errors": str(counts["error"]),
            "skipped": str(counts["skipped"]),
        }
        suite = ElementTree.SubElement(root, "testsuite", head)
        for case in cases:
            names = {"classname": run, "name": escape_unprintable(case.name), "time": "0"}
            node = ElementTree.SubElement(suite, "testcase", names)
            if case.element:
                reason = {"message": case.message, "type": case.outcome}
                ElementTree.SubElement(node, case.element, reason).text = case.text
        if notes := [*cached_lines(gate), *gate.notes]:
            text = "\n".join(map(escape_unprintable, notes))
            ElementTree.SubElement(suite, "system-out").text = text
    ElementTree.indent(root)
    return f'<?xml version="1.0" encoding="utf-8"?>\n{ElementTree.tostring(root, "unicode")}\n'


class _Case(NamedTuple):
    """A test case of JUnit XML."""

    name: str
    element: str  # "" if it passed
    outcome: Outcome
    message: str
    text: str = ""


def _cases(gate: Gate, several: bool) -> Iterator[_Case]:
    unsure = {"pass": "skipped", "fail": "failure", None: "error"}[gate.too_few]
    elements: Mapping[Outcome, str] = {"passed": "", "failed": "failure", "too few to tell": unsure}
    for decision in gate.decisions:
        element = elements[decision.outcome]
        text = ""
        if element and (failed := failing(gate, decision)):
            lines = [
                "Instances beyond the bound:",
                *map(escape_unprintable, failed[:MAX_LISTED_NAMES]),
            ]
            if len(failed) > MAX_LISTED_NAMES:
                lines.append(f"and {len(failed) - MAX_LISTED_NAMES:,} more")
            text = "\n".join(lines)
        name = f"{decision.what} {decision.group}".strip()
        yield _Case(name, element, decision.outcome, decision_line(decision), text)
    lines = [
        unjudged_line(unjudged, gate, several) for unjudged in gate.unjudged if not unjudged.allowed
    ]
    if lines:
        element = "failure" if gate.too_few == "fail" else "error"
        yield _Case("verdicts", element, "too few to tell", " ".join(lines))
