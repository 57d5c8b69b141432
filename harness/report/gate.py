"""Presents the decisions of a gate."""

from __future__ import annotations

from collections.abc import Sequence

from harness.analysis.comparable import Variant
from harness.analysis.gate import Decision, overall
from harness.report.table import Cell, Column, Note, TableDocument, flat, table

_STYLES = {"passed": "green", "failed": "red", "too few to tell": "yellow"}


def gate_document(
    run: Variant, baseline: Variant | None, decisions: Sequence[Decision]
) -> TableDocument:
    """Build the document of a gate: a table of decisions, their overall outcome, and the method."""
    grouped = any(one.group for one in decisions)
    columns = [
        "score",
        Column("group", text=True) if grouped else None,
        Column("n", hide=2),
        Column("value", digits=4),
        Column("95%", digits=4, hide=1),
        Column("at least", digits=4),
        Column("decision", text=True),
        Column("n needed", hide=3) if any(one.needed for one in decisions) else None,
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
            ["n needed: would tell in 80% of cases, if the true value is the one found."]
            if any(one.needed for one in decisions)
            else []
        ),
    ]
    worst = overall(decisions)
    against = f" against {baseline.name}" if baseline else ""
    marks = {f"{one.name}: {', '.join(one.marks)}" for one in (run, baseline) if one and one.marks}
    return TableDocument(
        title=f"{run.name}{against}: {worst}",
        marks=sorted(marks),
        parts=[table(columns, rows), *map(Note, notes)],
        records=[flat(one) for one in decisions],
        data={
            "run": run.name,
            "baseline": baseline.name if baseline else None,
            "outcome": worst,
            "decisions": list(decisions),
        },
    )
