"""Presents the decisions of a gate."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from harness.analysis.metrics import all_cached_note
from harness.plugins.comparisons.comparison_document import bounds_line
from harness.plugins.gate.decision import CHANGE, Decision, Outcome, worst
from harness.plugins.gate.gate import Gate
from harness.plugins.gate.section import COST, COST_PER_SAMPLE, COUNTS, LATENCY
from harness.plugins.gate.unjudged import Unjudged
from harness.report.table import (
    Cell,
    Column,
    Note,
    Table,
    TableDocument,
    flatten_statistic,
    table,
)
from harness.report.text import (
    UNKNOWN,
    escape_unprintable,
    format_clusters,
    format_interval,
    format_number,
    format_percent,
    format_usd,
)
from harness.wording import format_count

_STYLES = {"passed": "green", "failed": "red", "too few to tell": "yellow"}

ALL_CACHED = "ALL REPLIES OF THE MODEL FROM THE CACHE"

_NOT_NEEDED = "-"
_TOO_FEW = " Too few are judged to tell, whatever max_unjudged allows."


def gate_document(gates: Sequence[Gate]) -> TableDocument:
    """Build the document of gates."""
    outcome = worst({gate.outcome for gate in gates})
    result = worst({gate.result for gate in gates})
    title = _title(gates[0])
    if len(gates) > 1:
        title = f"{len(gates):,} runs: {_decided(outcome, result)}"
    marks: dict[str, None] = {}
    records = []
    for gate in gates:
        marks |= dict.fromkeys(_marks(gate))
        records += [
            {"run": gate.run.name, **flatten_statistic(decision)} for decision in gate.decisions
        ]
    return TableDocument(
        title=title,
        marks=list(marks),
        parts=[_decision_table(gates), *map(Note, dict.fromkeys(_notes(gates)))],
        records=records,
        data={"outcome": outcome, "result": result, "runs": list(map(_gate_data, gates))},
    )


def _all_decisions(gates: Sequence[Gate]) -> list[Decision]:
    decisions: list[Decision] = []
    for gate in gates:
        decisions += gate.decisions
    return decisions


def _decision_table(gates: Sequence[Gate]) -> Table:
    decisions = _all_decisions(gates)
    run = Column("run", text=True) if len(gates) > 1 else None
    group = None
    all_groups = ""
    if any(decision.group for decision in decisions):
        group = Column("group", text=True)
        all_groups = "all"
    needed = None
    if any(decision.needed for decision in decisions):
        needed = Column("needed", hide=3)
    columns = [
        run,
        Column("score", text=True),
        group,
        Column("instances", hide=2),
        Column("value"),
        Column("95%", hide=1),
        Column("bound"),
        Column("decision", text=True),
        needed,
    ]
    rows: list[list[object]] = []
    for gate in gates:
        for decision in gate.decisions:
            row = [
                gate.run.name,
                decision.what,
                decision.group or all_groups,
                decision.n,
                Cell(decision.value, figure_text(decision, decision.value)),
                Cell(decision.ci95, _interval(decision)),
                Cell(decision.bound, bound(decision)),
                Cell(decision.outcome, style=_STYLES[decision.outcome]),
                Cell(_NOT_NEEDED) if decision.needed is None else decision.needed,
            ]
            rows.append(row)
    return table(columns, rows)


def _notes(gates: Sequence[Gate]) -> Iterator[str]:
    """Yield the notes below the table of decisions, which may repeat."""
    decisions = _all_decisions(gates)
    several = len(gates) > 1
    exact = [decision for decision in decisions if decision.method == "exact"]
    n_uncertain = len(decisions) - len(exact)
    if n_uncertain:
        yield "passed or failed: the whole interval is within or beyond the bound."
    if n_uncertain > 1:
        yield "The intervals are adjusted for the number of decisions."
    if any(decision.what.startswith(CHANGE) for decision in exact):
        yield "The runs have the same answers, so the score has not changed."
    if any(decision.needed for decision in decisions):
        line = "needed: instances that decide in 80% of cases if the true value is this one."
        if not all(decision.needed for decision in decisions):
            line += f" {_NOT_NEEDED}: the run has enough, or the number cannot be estimated."
        yield line
    for decision in decisions:
        few_clusters = 0 < 10 * decision.n_clusters <= decision.n
        if decision.outcome == "too few to tell" and not decision.group and few_clusters:
            units = format_clusters(decision.n, decision.n_clusters)
            yield (f"Intervals count clusters, not instances: {decision.n:,} instances in {units}.")
            break
    for decision in decisions:
        if decision.bounds is not None:
            line = bounds_line(decision.not_judged, decision.n, decision.bounds)
            yield f"{decision.what}: {line}" + _TOO_FEW * decision.biased
    if any(LATENCY.fullmatch(decision.what) for decision in decisions):
        yield "Latencies are those of calls that were made: cached replies have none."
        for gate in gates:
            yield from latency_lines(gate, several)
    for gate in gates:
        for unjudged in gate.unjudged:
            yield unjudged_line(unjudged, gate, several)
        yield from cached_lines(gate, several)
        yield from gate.notes
        if any(_concerns_answers(decision) for decision in gate.decisions):
            yield f"What fails: harness show {gate.run.name} --failed"


def _concerns_answers(decision: Decision) -> bool:
    """Return whether answers that fail are the reason why a decision is not "passed"."""
    is_of_calls = decision.what in (COST, COST_PER_SAMPLE) or LATENCY.fullmatch(decision.what)
    return decision.outcome != "passed" and not is_of_calls


def _gate_data(gate: Gate) -> dict[str, object]:
    return {
        "run": gate.run.name,
        "baseline": gate.baseline.name if gate.baseline else None,
        "outcome": gate.outcome,
        "result": gate.result,
        "decisions": list(gate.decisions),
        "unjudged": list(gate.unjudged),
        "calls": gate.n_calls,
        "cached_calls": gate.n_cached_calls,
        "crashed_calls": gate.n_crashed_calls,
        "notes": list(gate.notes),
    }


def figure_text(decision: Decision, value: float | None) -> str:
    """Format the value of a decision's figure (``n/a`` for None)."""
    if value is None:
        return UNKNOWN
    if decision.what in (COST, COST_PER_SAMPLE):
        return format_usd(value)
    if LATENCY.fullmatch(decision.what):
        return f"{format_number(value, 3)} s"
    if decision.method == "exact" and decision.what in COUNTS:
        return f"{value:,g}"
    return format_number(value, 4)


def bound(decision: Decision) -> str:
    """Format a decision's bound, such as ``≥ 0.9000``."""
    sign = "≤" if decision.at_most else "≥"
    return f"{sign} {figure_text(decision, decision.bound)}"


def _interval(decision: Decision) -> str:
    digits = 3 if LATENCY.fullmatch(decision.what) else 4
    return format_interval(decision.ci95, digits)


def gate_line(gate: Gate) -> str:
    """Return the outcome of a gate and the main reasons for it, on one line.

    Warnings about the runs follow in brackets, such as ``(NAME: SIMULATED)``.
    """
    reasons = [
        decision_line(decision) for decision in gate.decisions if decision.outcome == gate.outcome
    ]
    n_more = len(reasons) - 3
    if n_more > 0:
        reasons = [*reasons[:3], f"and {n_more} more"]
    if not gate.decisions:
        reasons = ["the run is the baseline"]
    reasons += [unjudged_line(unjudged, gate) for unjudged in gate.unjudged]
    marks = "".join(f" ({mark})" for mark in _marks(gate))
    return f"{_title(gate)}: {'; '.join(reasons)}{marks}"


def decision_line(decision: Decision) -> str:
    """Return a decision on one line."""
    line = escape_unprintable(f"{decision.what} {decision.group}".strip())
    line += f" {figure_text(decision, decision.value)}"
    if decision.method != "exact":
        line += f" (95% {_interval(decision)})"
    line += f", bound {bound(decision)}, n = {decision.n:,}"
    if decision.needed:
        line += f" ({decision.needed:,} needed to tell)"
    if decision.bounds is not None and decision.biased:
        line += f"; {bounds_line(decision.not_judged, decision.n, decision.bounds)}{_TOO_FEW}"
    return line


def unjudged_line(unjudged: Unjudged, gate: Gate, several: bool = False) -> str:
    """Return one line on how many samples have no verdict, why, and what to do about it.

    It names the run if there is a baseline, or if ``several`` runs are checked.
    """
    kinds = {
        "failed call": unjudged.failed_calls,
        "failed or missing judgement": unjudged.no_judgement,
        "inconclusive judgement": unjudged.final,
    }
    reasons = [format_count(n, kind) for kind, n in kinds.items() if n]
    reasons += [f"{n:,} {outcome}" for outcome, n in unjudged.unanswered.items()]
    of_run = f" of {unjudged.run}" if gate.baseline or several else ""
    have = "has" if unjudged.n == 1 else "have"
    count = f"{unjudged.n:,} of {unjudged.n_samples:,} samples{of_run} {have}"
    problem = f"{count} no {escape_unprintable(unjudged.lacking)} ({', '.join(reasons)})"
    return f"{problem}: {_remedy(unjudged)}."


def _remedy(unjudged: Unjudged) -> str:
    if unjudged.allowed:
        return "allowed by max_unjudged"
    remedies = []
    retried = unjudged.failed_calls + unjudged.no_judgement
    if retried:
        retried_ones = "the failed or missing ones" if retried < unjudged.n else "them"
        remedies.append(f"run the run file again to retry {retried_ones}")
    if unjudged.final:
        final = "inconclusive judgements are final"
        remedies.append(f"{final}: to judge differently, change the judge and run with --fresh")
    remedy = "allow a share with --max-unjudged"
    return f"{'; '.join(remedies)}, or {remedy}" if remedies else remedy


def latency_lines(gate: Gate, several: bool = False) -> list[str]:
    """Return lines on how crashes and failed calls count in a gate's latencies.

    They name the run if ``several`` runs are checked.
    """
    of_run = f" of {gate.run.name}" if several else ""
    lines = []
    crashed = gate.run.metrics.outcomes.get("crashed", 0)
    failed = gate.run.metrics.outcomes.get("error", 0)
    if crashed:
        crashes = format_count(crashed, "crashed call")
        lines.append(f"Latencies{of_run} include {crashes}. A time-out is beyond any bound.")
    if failed:
        lines.append(f"Latencies{of_run} leave out {format_count(failed, 'failed call')}.")
    return lines


def cached_lines(gate: Gate, several: bool = False) -> list[str]:
    """Return lines on how many replies of the model and judges came from the cache.

    There is none for a model or judge without such replies. They name the run if ``several`` runs
    are checked.
    """
    run = gate.run.name if several else ""
    lines = []
    if 0 < gate.n_calls == gate.n_cached_calls:
        lines.append(all_cached_note(run))
    elif gate.n_cached_calls:
        of_model = " of the model" if gate.judges else ""
        lines.append(_share_line(gate.n_cached_calls, gate.n_calls, of_model, run))
    for name, calls in gate.judges.items():
        if calls.n_cached_calls:
            of_judge = f" of judge {escape_unprintable(name)}"
            lines.append(_share_line(calls.n_cached_calls, calls.n_calls, of_judge, run))
    return lines


def _share_line(cached: int, total: int, source: str, run: str) -> str:
    in_run = f" in {run}" if run else ""
    share = f"{cached:,} of {total:,} replies{source}{in_run} ({format_percent(cached, total)})"
    return f"{share} came from the cache: these calls were made by other runs."


def _title(gate: Gate) -> str:
    against = f" against {gate.baseline.name}" if gate.baseline else ""
    return f"{gate.run.name}{against}: {_decided(gate.outcome, gate.result)}"


def _decided(outcome: Outcome, result: Outcome) -> str:
    return outcome if result == outcome else f"{outcome}, which counts as {result}"


def _marks(gate: Gate) -> list[str]:
    lines = {}
    for run in filter(None, (gate.run, gate.baseline)):
        marks = list(run.marks)
        if n_failed := run.metrics.outcomes.get("error", 0):
            marks.append(f"{n_failed:,} FAILED CALLS EXCLUDED")
        if run is gate.run and 0 < gate.n_calls == gate.n_cached_calls:
            marks.append(ALL_CACHED)
        if marks:
            lines[run.name] = f"{run.name}: {', '.join(marks)}"
    return sorted(lines.values())
