"""The sections below the answer on a page: figures and tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from msgspec.structs import replace as replaced

from harness.analysis.panels import PanelFindings
from harness.records import OUTCOMES
from harness.report.comparison import tables_within
from harness.report.constraints import constraint_document, constraint_shares
from harness.report.cross_table import suite_document
from harness.report.figure import Figure
from harness.report.judges import validation_document
from harness.report.parts import NotePart, PageSection, Part, TablePart, figure_part, table_part
from harness.report.provenance import by_key, prompts
from harness.report.run_tables import (
    MOST_GROUPS,
    aggregate_table,
    cost_facts,
    pass_at_k_table,
    position_table,
    round_table,
    turn_table,
)
from harness.report.runs import Reported, ReportedRun, references
from harness.report.table import Cell, Column, Note, Row, ShownUnit, Table, table

TITLES: Mapping[str, str] = {
    "matrix": "Models and benchmarks",
    "results": "Results",
    "scores": "Checks and judges",
    "comparison": "Comparison",
    "constraints": "Constraints",
    "rounds": "Rounds and samples",
    "turns": "Turns of conversations",
    "outcomes": "Outcomes",
    "cost": "Cost and time",
}
_CALLS = (
    "Each call counts once, even if attempts share it. Seconds are of calls that were answered or "
    "crashed, without those answered from the cache."
)


def sections(reported: Reported, unit: ShownUnit, figures: Sequence[Figure]) -> list[PageSection]:
    """Return the sections of a page, without empty ones. With figures, most tables are folded."""
    parts: dict[str, list[Part]] = {name: [] for name in TITLES}
    if reported.suite is not None:
        parts["matrix"] += [_part(part, unit) for part in suite_document(reported.suite).parts]
    elif (by_model := _by_model(reported.runs)) is not None:
        parts["results"].append(_part(by_model, unit))
    for figure in figures:
        parts[figure.section].append(figure_part(figure))
    for name, found in _tables(reported):
        folded = bool(figures) and name not in ("scores", "cost")
        part = _part(found, unit, folded)
        own = parts[name]
        if folded and own and isinstance(part, NotePart) and isinstance(own[-1], TablePart):
            own[-1] = replaced(own[-1], notes=[*own[-1].notes, part.text])
        else:
            own.append(part)
    return [PageSection(name, TITLES[name], own) for name, own in parts.items() if own]


def _part(part: Table | Note, unit: ShownUnit, folded: bool = False) -> Part:
    return NotePart(part.text) if isinstance(part, Note) else table_part(part, unit, folded=folded)


def _tables(reported: Reported) -> Iterator[tuple[str, Table | Note]]:
    runs, comparison = reported.runs, reported.comparison
    for label in dict.fromkeys(label for run in runs for label in run.metrics.groups):
        yield "results", _groups(runs, label)
    for run in runs:
        if (found := run.metrics.positions) is not None:
            title = f"{run.name}: by position of the option"
            yield "results", replace(position_table(found), title=title)
    if aggregating := [run.metrics for run in runs if run.metrics.aggregates]:
        yield "scores", aggregate_table(aggregating)
    if (told := references(runs)) is not None:
        yield "scores", told
    for run in runs:
        for panel in run.panels:
            yield "scores", _panel(run, panel)
        for judge in run.validations:
            document = validation_document(judge)
            # Without the name of the run, which is in the title.
            for part in _titled(document.parts[1:], f"{run.name}: {document.title}"):
                yield "scores", part
    if comparison is not None:
        for one in comparison.others:
            for each in tables_within(one, comparison):
                yield "comparison", each
    of_kinds = {run.name: run.constraints for run in runs if run.constraints}
    if of_kinds:
        first = next(iter(of_kinds.values()))
        several = constraint_shares(of_kinds) if len(runs) > 1 else None
        document = several or constraint_document(first, runs[0].without_constraints)
        for part in _titled(document.parts, "Constraints by kind"):
            yield "constraints", part
    for run in runs:
        if len(run.metrics.rounds.each) > 1:
            yield "rounds", replace(round_table(run.metrics), title=f"Rounds of {run.name}")
        if run.metrics.turns:
            yield "turns", replace(turn_table(run.metrics), title=f"Turns of {run.name}")
        if len(run.metrics.pass_at_k) > 1:
            title = f"Samples of {run.name}: any or all of k pass"
            yield "rounds", replace(pass_at_k_table(run.metrics), title=title)
    counts = [[run.name, *(run.metrics.outcomes.get(one, 0) for one in OUTCOMES)] for run in runs]
    yield "outcomes", table(["run", *OUTCOMES], counts, title="Outcomes of attempts")
    yield "cost", by_key("Calls, tokens and cost", "", runs, [dict(_cost(run)) for run in runs])
    yield "cost", Note(_CALLS)


def _titled(parts: Sequence[Table | Note], title: str) -> Iterator[Table | Note]:
    for part in parts:
        yield replace(part, title=title) if isinstance(part, Table) else part


def _by_model(runs: Sequence[ReportedRun]) -> Table | None:
    """Build a table of runs by settings and model, or None if it would be a mere list."""
    models = list(dict.fromkeys(run.metrics.model or "" for run in runs))
    told = prompts(runs)
    cells = {(label, run.metrics.model or ""): run for label, run in zip(told, runs, strict=True)}
    labels = list(dict.fromkeys(told))
    if len(cells) < len(runs) or len(runs) <= max(len(models), len(labels)) or len(labels) < 2:
        return None
    rows = []
    for label in labels:
        row: list[object] = [Cell(label)]
        for model in models:
            if (run := cells.get((label, model))) is None:
                row += [None, None]
            else:
                found = run.metrics.primary()
                row += [found.mean, found.ci95]
        rows.append(row)
    columns = [
        Column("setting"),
        *(Column(head, over=model, rate=True) for model in models for head in ("rate", "95%")),
    ]
    return table(columns, rows, title="Settings by model")


def _groups(runs: Sequence[ReportedRun], label: str) -> Table:
    groups = dict.fromkeys(group for run in runs for group in run.metrics.groups.get(label, ()))
    rows = []
    for group in list(groups)[:MOST_GROUPS]:
        cells: list[object] = [Cell(group)]
        for run in runs:
            if (of := run.metrics.groups.get(label, {}).get(group)) is None:
                cells += [None, None, 0]
            else:
                found = run.metrics.primary(of)
                cells += [found, found.ci95, found.n]
        rows.append(Row(cells))
    columns = [
        replace(column, over=run.name if len(runs) > 1 else "")
        for run in runs
        for column in (
            Column(f"{run.metrics.measure or 'pass rate'} ± s.e.", rate=True),
            Column("95%", rate=True),
            Column("n"),
        )
    ]
    left = len(groups) - len(rows)
    notes = [f"{left:,} more groups are in metrics.json."] if left else []
    first = Column(label, text=True)
    return table([first, *columns], rows, title=f"By {label}", notes=notes)


def _panel(run: ReportedRun, found: PanelFindings) -> Table:
    rows = [[one.judge, one.yes, one.yes.n, one.agrees, one.agrees.ci95] for one in found.members]
    split = found.split
    footer = Row(["the judges disagree", "", split.n, split, split.ci95])
    says, agrees = (Column(f"{what} ± s.e.", rate=True) for what in ("says yes", "as the panel"))
    columns: list[Column | str] = ["judge", says, Column("n"), agrees, Column("95%", rate=True)]
    title = f"{found.score}, the panel's judges in {run.name}"
    return table(columns, rows, title=title, footer=footer)


def _cost(run: ReportedRun) -> Iterator[tuple[str, str]]:
    if run.recorded:
        yield "cost", "recorded answers: nothing was paid for or timed"
        return
    for name, said in cost_facts(run.metrics):
        yield name.strip(), said
    if run.latencies:
        median, most = run.latencies.median, run.latencies.quantiles[95]
        yield "seconds per uncached call, median", f"{median:.2f}"
        yield "seconds per uncached call, 95th percentile", f"{most:.2f}"
