"""Tables of runs, for `harness ls`, comparisons and costs."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from os.path import commonprefix
from types import MappingProxyType

from harness.analysis.metrics import PASS_RATE, Metrics, all_from_cache
from harness.analysis.summary import measure
from harness.plugin_loader import Kind
from harness.report.run_tables import PARTIAL
from harness.report.table import Cell, Column, Table, TableDocument, table
from harness.report.text import (
    COMPUTED,
    interval,
    is_zero,
    number,
    task_shown,
    time_text,
    usd,
    with_error,
)
from harness.store.run_folder import RunFolder
from harness.wording import first_few


def common_start(names: Iterable[str]) -> str:
    """Return the common prefix of names, up to its last dot that is not a decimal point, or ""."""
    every = list(names)
    if len(every) < 2:
        return ""
    shared = commonprefix(every)  # noqa: RUF071 (names, not paths)
    while start := shared[: shared.rfind(".") + 1]:
        rests = [name.removeprefix(start).strip() for name in every]
        in_number = start[-2:-1].isdigit() and any(rest[:1].isdigit() for rest in rests)
        if all(rests) and not in_number:
            return start
        shared = start[:-1]
    return ""


_UNANSWERABLE = "The simulated model knows no correct answer to some or all instances of"


def runs_table(
    runs: Mapping[str, Metrics | None],
    started: Mapping[str, float] = MappingProxyType({}),
    damaged: Collection[str] = (),
    paid_usd: float | None = None,
) -> Table:
    """Build a table with one row per run.

    ``started`` are the times (epoch seconds) at which the runs started. ``damaged`` are the names
    of runs that cannot be read. ``paid_usd`` is what all runs have paid; None hides the payments.
    """
    rows = []
    readable = {}
    for name, metrics in runs.items():
        if metrics is not None:
            readable[name] = metrics
            cells = _run_cells(metrics)
        elif name in damaged:
            cells = _without_figures(Cell("DAMAGED", style="red"))
        else:
            cells = _without_figures(Cell("not finished", style="dim"))
        time = time_text(started[name]) if name in started else ""
        rows.append([name, *cells, time])
    any_of_several = any(map(_any_passed, readable.values()))
    columns: list[Column | str | None] = [
        "run",
        Column("task", text=True, hide=2),
        Column("model", text=True),
        "n",
        "rate ± s.e.",
        Column("any of", hide=4) if any_of_several else None,
        "not judged",
        Column("cost", hide=3),
        None if paid_usd is None else Column("paid", hide=3),
        Column("started", hide=1) if started else None,
    ]
    notes = _notes(readable)
    if paid_usd is not None:
        unknown = any(metrics.n_calls_without_cost for metrics in readable.values())
        more = ", and calls of unknown cost" if unknown else ""
        total = f"{usd(paid_usd)}{more}"
        notes.append(f"Paid by all runs: {total} (cost without replies from the cache).")
    return table(columns, rows, notes=notes)


def _notes(runs: Mapping[str, Metrics]) -> list[str]:
    notes = []
    if not all(metrics.complete for metrics in runs.values()):
        notes.append(f"INCOMPLETE: {PARTIAL}")
    primary = [metrics.primary() for metrics in runs.values()]
    if any(is_zero(statistic.stderr) and statistic.ci95 for statistic in primary):
        notes.append("In brackets: the 95% interval if all samples have the same verdict.")
    if any(metrics.computed_usd for metrics in runs.values()):
        notes.append(COMPUTED)
    unanswered = [name for name, metrics in runs.items() if metrics.unanswerable]
    if unanswered:
        notes.append(f"{_UNANSWERABLE} {first_few(unanswered, 3)}.")
    cached = [name for name, metrics in runs.items() if metrics.from_cache]
    if cached:
        notes.append(all_from_cache(first_few(cached, 3)))
    return notes


def runs_document(
    runs: Mapping[str, Metrics | None],
    started: Mapping[str, float] = MappingProxyType({}),
    problems: Mapping[str, str] = MappingProxyType({}),
    paid_usd: float | None = None,
) -> TableDocument:
    """Build a document with the `runs_table`. ``problems`` say why runs cannot be read."""
    records = []
    for name, metrics in runs.items():
        record: dict[str, object] = {"run": name}
        if metrics is not None:
            record |= _record(metrics)
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
        brief: Whether to leave out how the models compare.
    """
    document = _by_plugin("suite", runs, brief)
    if document is None:
        document = runs_document({run.name: measure(run) for run in runs})
    return document


def variants_document(runs: Sequence[RunFolder]) -> TableDocument | None:
    """Compare the variants of a run file briefly, or return None if no plug-in does.

    Raises:
        HarnessError: If the runs cannot be compared.
    """
    return _by_plugin("variants", runs, brief=True)


def _by_plugin(name: str, runs: Sequence[RunFolder], brief: bool) -> TableDocument | None:
    documents = Kind("suite_documents")
    if name not in documents.names():
        return None
    document: TableDocument = documents.load(name)(runs, brief=brief)
    return document


def _record(metrics: Metrics) -> dict[str, object]:
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


def _without_figures(state: Cell) -> list[object]:
    return ["", "", "", state, "", "", "", ""]


def _run_cells(metrics: Metrics) -> list[object]:
    primary = metrics.primary()
    rate = f"{metrics.measure or ''} {with_error(primary.mean, primary.stderr)}".strip()
    if is_zero(primary.stderr) and primary.ci95:
        rate += f" ({interval(primary.ci95)})"
    model = Cell(metrics.model or "")
    if metrics.simulated:  # if there is no room for both, the mark matters more than the model
        model = Cell(f"SIMULATED {metrics.model or ''}".strip(), style="bold yellow")
    n: object = primary.n
    if not metrics.complete:
        n = Cell(metrics.progress, style="yellow")
    cost = usd(metrics.cost_usd, computed=metrics.computed_usd)
    return [
        task_shown(metrics.task),
        model,
        n,
        rate,
        _any_passed(metrics),
        primary.missing,
        cost,
        usd(metrics.paid_usd) if metrics.n_calls_without_cost == 0 else "unknown",
    ]


def _any_passed(metrics: Metrics) -> str:
    several = {"samples": metrics.pass_at_k, "rounds": metrics.rounds.any_of_first_k}
    for unit, series in several.items():
        last = max(series, default=1)
        if last > 1:
            return f"{number(series[last])} of {last:,} {unit}"
    return ""
