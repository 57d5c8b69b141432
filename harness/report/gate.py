"""Presents the decisions of a gate."""

from __future__ import annotations

from harness.analysis.comparable import Variant
from harness.analysis.gate import Decision, Gate, Unjudged
from harness.report.run_tables import WITHOUT_SCORE
from harness.report.table import Cell, Column, Note, TableDocument, flat, table
from harness.report.text import interval, number, printable

_STYLES = {"passed": "green", "failed": "red", "too few to tell": "yellow"}


def gate_document(gate: Gate) -> TableDocument:
    """Build the document of a gate: a table of decisions, their overall outcome, and the method."""
    run, baseline, decisions = gate.run, gate.baseline, gate.decisions
    grouped = any(one.group for one in decisions)
    columns = [
        "score",
        Column("group", text=True) if grouped else None,
        Column("instances", hide=2),
        Column("value", digits=4),
        Column("95%", digits=4, hide=1),
        Column("at least", digits=4),
        Column("decision", text=True),
        Column("needed", hide=3) if any(one.needed for one in decisions) else None,
    ]
    rows = [
        [
            one.what,
            one.group or ("all" if grouped else ""),
            one.n,
            one.value,
            one.ci95,
            one.bound,
            Cell(one.outcome, style=_STYLES[one.outcome]),
            Cell("") if one.needed is None else one.needed,
        ]
        for one in decisions
    ]
    notes = [
        "passed: the whole interval is at or above the bound; failed: it is below.",
        *(["The intervals are adjusted for the number of decisions."] if len(rows) > 1 else []),
        *(
            ["needed: instances that tell in 80% of cases, if the true value is the one found."]
            if any(one.needed for one in decisions)
            else []
        ),
    ]
    if any(_leaves_out(one, run) for one in decisions):
        notes.append(WITHOUT_SCORE)
    notes += [unjudged_line(one, gate) for one in gate.unjudged]
    if gate.outcome == "failed":
        notes.append(f"What fails: harness show {run.name} --failed")
    return TableDocument(
        title=_title(gate),
        marks=_marks(gate),
        parts=[table(columns, rows), *map(Note, notes)],
        records=[flat(one) for one in decisions],
        data={
            "run": run.name,
            "baseline": baseline.name if baseline else None,
            "outcome": gate.outcome,
            "decisions": list(decisions),
            "unjudged": list(gate.unjudged),
        },
    )


def _leaves_out(one: Decision, run: Variant) -> bool:
    whole = not one.group and one.what in run.metrics.scores
    return whole and one.n < run.metrics.n_instances


def gate_line(gate: Gate) -> str:
    """Return the outcome of a gate and the reasons for it, on one line.

    The reasons are up to three decisions, the samples without a verdict, and the runs' marks.
    """
    behind = [one for one in gate.decisions if one.outcome == gate.outcome]
    marks = "".join(f" ({one})" for one in _marks(gate))
    unjudged = [unjudged_line(one, gate) for one in gate.unjudged]
    more = [f"and {len(behind) - 3} more"] if len(behind) > 3 else []
    said = [*map(decision_line, behind[:3]), *more, *unjudged]
    return f"{_title(gate)}: {'; '.join(said)}{marks}"


def decision_line(one: Decision) -> str:
    """Return a decision on one line.

    It shows the figure, its interval, its bound, n and, if there are too few instances to tell, the
    number needed.
    """
    needed = f" ({one.needed:,} needed to tell)" if one.needed else ""
    return (
        f"{printable(f'{one.what} {one.group}'.strip())} {number(one.value)} "
        f"(95% {interval(one.ci95)}), at least {number(one.bound)}, n = {one.n:,}{needed}"
    )


def unjudged_line(one: Unjudged, gate: Gate) -> str:
    """Return how many samples have no verdict, why, and what to do about them, on one line."""
    kinds = {"failed call": one.failed_calls, "failed or missing judgement": one.no_judgement}
    why = ", ".join(f"{n:,} {kind}{'s' * (n != 1)}" for kind, n in kinds.items() if n)
    of = f" of {one.run}" if gate.baseline else ""
    remedy = "run the run file again to retry them, or allow a share with --max-unjudged"
    if one.allowed:
        remedy = "allowed by max_unjudged"
    n = one.failed_calls + one.no_judgement
    have = "has" if n == 1 else "have"
    return f"{n:,} of {one.n_samples:,} samples{of} {have} no verdict ({why}): {remedy}."


def _title(gate: Gate) -> str:
    against = f" against {gate.baseline.name}" if gate.baseline else ""
    return f"{gate.run.name}{against}: {gate.outcome}"


def _marks(gate: Gate) -> list[str]:
    found = {}
    for run in filter(None, (gate.run, gate.baseline)):
        failed = run.metrics.outcomes.get("error", 0)
        marks = [*run.marks, *([f"{failed:,} FAILED CALLS EXCLUDED"] if failed else [])]
        if marks:
            found[run.name] = f"{run.name}: {', '.join(marks)}"
    return sorted(found.values())
