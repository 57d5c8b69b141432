"""Presents the decisions of a gate."""

from __future__ import annotations

from collections.abc import Sequence

from harness.analysis.gate import Decision, Gate, Outcome, worst
from harness.analysis.metrics import all_from_cache
from harness.analysis.unjudged import Unjudged
from harness.config.sections import COST, COST_PER_SAMPLE, LATENCY
from harness.report.comparison import bounds_line
from harness.report.run_tables import WITHOUT_SCORE, of_groups
from harness.report.table import Cell, Column, Note, TableDocument, flat, table
from harness.report.text import UNKNOWN, clusters_text, interval, number, percent, printable, usd
from harness.wording import count_of

_STYLES = {"passed": "green", "failed": "red", "too few to tell": "yellow"}

ALL_CACHED = "ALL REPLIES OF THE MODEL FROM THE CACHE"

_TOO_FEW = " Too few are judged to tell, whatever max_unjudged allows."


def gate_document(gates: Sequence[Gate]) -> TableDocument:
    """Build the document of gates."""
    found = [(gate, one) for gate in gates for one in gate.decisions]
    decisions = [one for _, one in found]
    grouped = any(one.group for one in decisions)
    needed = any(one.needed for one in decisions)
    columns = [
        Column("run", text=True) if len(gates) > 1 else None,
        Column("score", text=True),
        Column("group", text=True) if grouped else None,
        Column("instances", hide=2),
        Column("value"),
        Column("95%", hide=1),
        Column("bound"),
        Column("decision", text=True),
        Column("needed", hide=3) if needed else None,
    ]
    rows = [
        [
            gate.run.name,
            one.what,
            one.group or ("all" if grouped else ""),
            one.n,
            Cell(one.value, figure_text(one, one.value)),
            Cell(one.ci95, _interval(one)),
            Cell(one.bound, bound(one)),
            Cell(one.outcome, style=_STYLES[one.outcome]),
            Cell("") if one.needed is None else one.needed,
        ]
        for gate, one in found
    ]
    exact = [one for one in decisions if one.method == "exact"]
    notes = []
    if len(exact) < len(decisions):
        notes.append("passed or failed: the whole interval is within or beyond the bound.")
    if len(decisions) - len(exact) > 1:
        notes.append("The intervals are adjusted for the number of decisions.")
    if any(one.what not in (COST, COST_PER_SAMPLE) for one in exact):
        notes.append("The runs have the same answers, so the score has not changed.")
    if needed:
        notes.append("needed: instances that decide in 80% of cases if the true value is this one.")
    unsure = [one for one in decisions if one.outcome == "too few to tell" and not one.group]
    if few := [one for one in unsure if 0 < 10 * one.n_clusters <= one.n]:
        n, units = few[0].n, clusters_text(few[0].n, few[0].n_clusters)
        notes.append(f"Intervals count clusters, not instances: {n:,} instances in {units}.")
    notes += [
        f"{one.what}: {bounds_line(one.not_judged, one.n, one.bounds)}" + _TOO_FEW * one.biased
        for one in decisions
        if one.bounds is not None
    ]
    if any(LATENCY.fullmatch(one.what) for one in decisions):
        notes.append("Latencies are those of calls that were made: cached replies have none.")
        for gate in gates:
            notes += latency_lines(gate, len(gates) > 1)
    if any(_leaves_out(one, gate) for gate, one in found):
        notes.append(WITHOUT_SCORE)
    for gate in gates:
        notes += [unjudged_line(one, gate, len(gates) > 1) for one in gate.unjudged]
        notes += [*cached_lines(gate, len(gates) > 1), *gate.notes]
        if gate.outcome == "failed":
            notes.append(f"What fails: harness show {gate.run.name} --failed")
    outcome, overall = worst({one.outcome for one in gates}), worst({one.result for one in gates})
    return TableDocument(
        title=_title(gates[0])
        if len(gates) == 1
        else f"{len(gates):,} runs: {_decided(outcome, overall)}",
        marks=list(dict.fromkeys(mark for gate in gates for mark in _marks(gate))),
        parts=[table(columns, rows), *map(Note, dict.fromkeys(notes))],
        records=[{"run": gate.run.name, **flat(one)} for gate, one in found],
        data={
            "outcome": outcome,
            "result": overall,
            "runs": [
                {
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
                for gate in gates
            ],
        },
    )


def figure_text(one: Decision, value: float | None) -> str:
    """Format the value of a decision's figure (``n/a`` for None)."""
    if value is None:
        return UNKNOWN
    if one.what in (COST, COST_PER_SAMPLE):
        return usd(value)
    return f"{number(value, 3)} s" if LATENCY.fullmatch(one.what) else number(value, 4)


def bound(one: Decision) -> str:
    """Format a decision's bound, such as ``≥ 0.9000``."""
    return f"{'≤' if one.at_most else '≥'} {figure_text(one, one.bound)}"


def _interval(one: Decision) -> str:
    return interval(one.ci95, 3 if LATENCY.fullmatch(one.what) else 4)


def _leaves_out(one: Decision, gate: Gate) -> bool:
    whole = not one.group and one.what in gate.run.metrics.scores
    return whole and one.n < gate.run.metrics.n_instances and not of_groups(gate.run.metrics)


def gate_line(gate: Gate) -> str:
    """Return the outcome of a gate and the main reasons for it, on one line.

    Warnings about the runs follow in brackets, such as ``(NAME: SIMULATED)``.
    """
    behind = [one for one in gate.decisions if one.outcome == gate.outcome]
    marks = "".join(f" ({one})" for one in _marks(gate))
    unjudged = [unjudged_line(one, gate) for one in gate.unjudged]
    more = [f"and {len(behind) - 3} more"] if len(behind) > 3 else []
    own = [] if gate.decisions else ["the run is the baseline"]
    said = [*own, *map(decision_line, behind[:3]), *more, *unjudged]
    return f"{_title(gate)}: {'; '.join(said)}{marks}"


def decision_line(one: Decision) -> str:
    """Return a decision on one line."""
    needed = f" ({one.needed:,} needed to tell)" if one.needed else ""
    uncertain = "" if one.method == "exact" else f" (95% {_interval(one)})"
    more = ""
    if one.bounds is not None and one.biased:
        more = f"; {bounds_line(one.not_judged, one.n, one.bounds)}{_TOO_FEW}"
    return (
        f"{printable(f'{one.what} {one.group}'.strip())} {figure_text(one, one.value)}{uncertain}, "
        f"bound {bound(one)}, n = {one.n:,}{needed}{more}"
    )


def unjudged_line(one: Unjudged, gate: Gate, named: bool = False) -> str:
    """Return one line on how many samples have no verdict, why, and what to do about it.

    It names the run if there is a baseline or ``named`` is true.
    """
    retried = one.failed_calls + one.no_judgement
    kinds = {
        "failed call": one.failed_calls,
        "failed or missing judgement": one.no_judgement,
        "inconclusive judgement": one.final,
    }
    why = ", ".join(count_of(n, kind) for kind, n in kinds.items() if n)
    of = f" of {one.run}" if gate.baseline or named else ""
    them = "the failed or missing ones" if one.final else "them"
    remedies = [f"run the run file again to retry {them}"] if retried else []
    if one.final:
        final = "inconclusive judgements are final"
        remedies.append(f"{final}: to judge differently, change the judge and run with --fresh")
    remedy = f"{'; '.join(remedies)}, or allow a share with --max-unjudged"
    if one.allowed:
        remedy = "allowed by max_unjudged"
    n = retried + one.final
    have = "has" if n == 1 else "have"
    return f"{n:,} of {one.n_samples:,} samples{of} {have} no verdict ({why}): {remedy}."


def latency_lines(gate: Gate, named: bool = False) -> list[str]:
    """Return lines on how crashes and failed calls count in a gate's latencies.

    They name the run if ``named`` is true.
    """
    of_run = f" of {gate.run.name}" if named else ""
    lines = []
    crashed = gate.run.metrics.outcomes.get("crashed", 0)
    failed = gate.run.metrics.outcomes.get("error", 0)
    if crashed:
        crashes = count_of(crashed, "crashed call")
        lines.append(f"Latencies{of_run} include {crashes}. A time-out is beyond any bound.")
    if failed:
        lines.append(f"Latencies{of_run} leave out {count_of(failed, 'failed call')}.")
    return lines


def cached_lines(gate: Gate, named: bool = False) -> list[str]:
    """Return lines on how many replies of the model and judges came from the cache.

    There is none for a model or judge without such replies. They name the run if ``named`` is true.
    """
    run = gate.run.name if named else ""
    lines = []
    if 0 < gate.n_calls == gate.n_cached_calls:
        lines.append(all_from_cache(run))
    elif gate.n_cached_calls:
        of_model = " of the model" if gate.judges else ""
        lines.append(_share_line(gate.n_cached_calls, gate.n_calls, of_model, run))
    for name, calls in gate.judges.items():
        if calls.n_cached:
            of_judge = f" of judge {printable(name)}"
            lines.append(_share_line(calls.n_cached, calls.n, of_judge, run))
    return lines


def _share_line(cached: int, total: int, source: str, run: str) -> str:
    in_run = f" in {run}" if run else ""
    share = f"{cached:,} of {total:,} replies{source}{in_run} ({percent(cached, total)})"
    return f"{share} came from the cache: these calls were made by other runs."


def _title(gate: Gate) -> str:
    against = f" against {gate.baseline.name}" if gate.baseline else ""
    return f"{gate.run.name}{against}: {_decided(gate.outcome, gate.result)}"


def _decided(outcome: Outcome, result: Outcome) -> str:
    return outcome if result == outcome else f"{outcome}, which counts as {result}"


def _marks(gate: Gate) -> list[str]:
    found = {}
    for run in filter(None, (gate.run, gate.baseline)):
        failed = run.metrics.outcomes.get("error", 0)
        marks = [*run.marks, *([f"{failed:,} FAILED CALLS EXCLUDED"] if failed else [])]
        if run is gate.run and 0 < gate.n_calls == gate.n_cached_calls:
            marks.append(ALL_CACHED)
        if marks:
            found[run.name] = f"{run.name}: {', '.join(marks)}"
    return sorted(found.values())
