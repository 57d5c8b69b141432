"""Tables of runs, for `harness ls`, comparisons and costs."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from os.path import commonprefix
from types import MappingProxyType

from harness.analysis.metrics import PASS_RATE, Metrics, all_cached_note
from harness.analysis.summary import compute_metrics
from harness.plugin_loader import Kind
from harness.report.run_tables import PARTIAL_NOTE
from harness.report.table import Cell, Column, Table, TableDocument, table
from harness.report.text import (
    COMPUTED_NOTE,
    format_interval,
    format_number,
    format_task,
    format_time,
    format_usd,
    format_with_error,
    is_zero_error,
)
from harness.store.run_folder import RunFolder
from harness.wording import join_first


def common_prefix(names: Iterable[str]) -> str:
    """Return the common prefix of names, up to a dot that is not a decimal point, or ""."""
    all_names = list(names)
    if len(all_names) < 2:
        return ""
    shared = commonprefix(all_names)  # noqa: RUF071 (names, not paths)
    while prefix := shared[: shared.rfind(".") + 1]:
        suffixes = [name.removeprefix(prefix).strip() for name in all_names]
        is_decimal = prefix[-2:-1].isdigit() and any(suffix[:1].isdigit() for suffix in suffixes)
        if all(suffixes) and not is_decimal:
            return prefix
        shared = prefix[:-1]
    return ""


_UNANSWERABLE = "The simulated model knows no correct answer to some or all instances of"


def runs_table(
    runs: Mapping[str, Metrics | None],
    started: Mapping[str, float] = MappingProxyType({}),
    damaged: Collection[str] = (),
    paid_usd: float | None = None,
) -> Table:
    """Build a table with one row per run.

    Args:
        runs: The metrics of each run, by name; None if a run has none.
        started: The times at which runs started (epoch seconds), by name.
        damaged: The names of runs that cannot be read.
        paid_usd: The total that all runs have paid, in US dollars; None hides the payments.
    """
    rows = []
    readable = {}
    for name, metrics in runs.items():
        if metrics is not None:
            readable[name] = metrics
            cells = _run_cells(metrics)
        elif name in damaged:
            cells = _state_cells(Cell("DAMAGED", style="red"))
        else:
            cells = _state_cells(Cell("not finished", style="dim"))
        time = format_time(started[name]) if name in started else ""
        rows.append([name, *cells, time])
    has_any_of = any(map(_format_any_passed, readable.values()))
    columns: list[Column | str | None] = [
        "run",
        Column("task", text=True, hide=2),
        Column("model", text=True),
        "n",
        "rate ± s.e.",
        Column("any of", hide=4) if has_any_of else None,
        "not judged",
        Column("cost", hide=3),
        None if paid_usd is None else Column("paid", hide=3),
        Column("started", hide=1) if started else None,
    ]
    notes = _table_notes(readable)
    if paid_usd is not None:
        paid = format_usd(paid_usd)
        if any(metrics.n_calls_without_cost for metrics in readable.values()):
            paid += ", and calls of unknown cost"
        notes.append(f"Paid by all runs: {paid} (cost without replies from the cache).")
    return table(columns, rows, notes=notes)


def _table_notes(runs: Mapping[str, Metrics]) -> list[str]:
    notes = []
    if not all(metrics.complete for metrics in runs.values()):
        notes.append(f"INCOMPLETE: {PARTIAL_NOTE}")
    primary = [metrics.primary() for metrics in runs.values()]
    if any(is_zero_error(statistic.stderr) and statistic.ci95 for statistic in primary):
        notes.append("In brackets: the 95% interval if all samples have the same verdict.")
    if any(metrics.computed_usd for metrics in runs.values()):
        notes.append(COMPUTED_NOTE)
    unanswered = [name for name, metrics in runs.items() if metrics.unanswerable]
    if unanswered:
        notes.append(f"{_UNANSWERABLE} {join_first(unanswered, 3)}.")
    cached = [name for name, metrics in runs.items() if metrics.from_cache]
    if cached:
        notes.append(all_cached_note(join_first(cached, 3)))
    return notes


def runs_document(
    runs: Mapping[str, Metrics | None],
    started: Mapping[str, float] = MappingProxyType({}),
    problems: Mapping[str, str] = MappingProxyType({}),
    paid_usd: float | None = None,
) -> TableDocument:
    """Build a document with the `runs_table`.

    Args:
        runs: The metrics of each run, by name; None if a run has none.
        started: The times at which runs started (epoch seconds), by name.
        problems: The reasons why runs cannot be read, by name.
        paid_usd: The total that all runs have paid, in US dollars; None hides the payments.
    """
    records = []
    for name, metrics in runs.items():
        record: dict[str, object] = {"run": name}
        if metrics is not None:
            record |= _metrics_record(metrics)
        if name in started:
            time = datetime.fromtimestamp(started[name], UTC)
            record["started_at"] = time.isoformat(timespec="seconds")
        if name in problems:
            record["problem"] = problems[name]
        records.append(record)
    parts = [runs_table(runs, started, problems, paid_usd)]
    return TableDocument(parts=parts, records=records, data=records)


def suite_document(runs: Sequence[RunFolder], *, brief: bool = False) -> TableDocument:
    """Build a document about runs of several tasks.

    A plug-in brings the table of models and benchmarks (`Plugin.suite_documents`). Without it, the
    document has the `runs_table`.

    Args:
        runs: The folders of the runs.
        brief: Whether to omit the comparison of the models.
    """
    document = _build_with_plugin("suite", runs, brief)
    if document is None:
        document = runs_document({run.name: compute_metrics(run) for run in runs})
    return document


def variants_document(runs: Sequence[RunFolder]) -> TableDocument | None:
    """Build a short comparison of the variants of a run file, or None without a plug-in for it.

    Raises:
        HarnessError: If the runs cannot be compared.
    """
    return _build_with_plugin("variants", runs, brief=True)


def _build_with_plugin(name: str, runs: Sequence[RunFolder], brief: bool) -> TableDocument | None:
    documents = Kind("suite_documents")
    if name not in documents.names():
        return None
    document: TableDocument = documents.load(name)(runs, brief=brief)
    return document


def _metrics_record(metrics: Metrics) -> dict[str, object]:
    primary = metrics.primary()
    low, high = primary.ci95 or (None, None)
    return {
        "task": metrics.task,
        "model": metrics.model,
        "simulated": metrics.simulated,
        "complete": metrics.complete,
        "measure": metrics.measure or PASS_RATE,
        "mean": primary.mean,
        "stderr": primary.stderr,
        "n": primary.n,
        "n_clusters": primary.n_clusters,
        "missing": primary.missing,
        "ci95_low": low,
        "ci95_high": high,
        "n_planned": metrics.n_planned,
        "cost_usd": metrics.cost_usd,
        "paid_usd": metrics.paid_usd,
        "computed_usd": metrics.computed_usd,
    }


def _state_cells(state: Cell) -> list[object]:
    return ["", "", "", state, "", "", "", ""]


def _run_cells(metrics: Metrics) -> list[object]:
    primary = metrics.primary()
    rate = f"{metrics.measure or ''} {format_with_error(primary.mean, primary.stderr)}".strip()
    if is_zero_error(primary.stderr) and primary.ci95:
        rate += f" ({format_interval(primary.ci95)})"
    model = Cell(metrics.model or "")
    if metrics.simulated:  # at the start, because narrow columns may be cut off
        model = Cell(f"SIMULATED {metrics.model or ''}".strip(), style="bold yellow")
    n: object = primary.n
    if not metrics.complete:
        n = Cell(metrics.progress, style="yellow")
    cost = format_usd(metrics.cost_usd, computed=metrics.computed_usd)
    return [
        format_task(metrics.task),
        model,
        n,
        rate,
        _format_any_passed(metrics),
        primary.missing,
        cost,
        format_usd(metrics.paid_usd) if metrics.n_calls_without_cost == 0 else "unknown",
    ]


def _format_any_passed(metrics: Metrics) -> str:
    """Format the rate of any of several samples or rounds passing, or return ""."""
    rates_by_unit = {"samples": metrics.pass_at_k, "rounds": metrics.rounds.any_of_first_k}
    for unit, rates in rates_by_unit.items():
        k = max(rates, default=1)
        if k > 1:
            return f"{format_number(rates[k])} of {k:,} {unit}"
    return ""
