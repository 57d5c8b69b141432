"""One row for each of several runs: `harness ls`, and the end of a run file with variants.

>>> from rich.console import Console
>>> Console(width=80).print(runs_table({"first": metrics}))  # doctest: +SKIP
"""

from __future__ import annotations

from collections.abc import Mapping

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.text import Text

from harness.analysis.metrics import Metrics
from harness.report.cells import (
    SIMULATED,
    column_width,
    empty_table,
    inert,
    measure_of,
    one_line,
    usd,
    with_error,
)


def runs_table(runs: Mapping[str, Metrics | None]) -> RenderableType:
    """One row for each run.

    runs: name of the run's folder to its metrics, None where it has none yet.
    """
    return _RunsTable(runs)


class _RunsTable:
    """Leaves out columns where the terminal is narrow.

    A run of several samples or rounds also says how often any of them passed: its
    rate is that of one sample, which is not what was paid for.
    """

    _EXPENDABLE = ("task", "cost", "any of")
    """What is left out for want of room, in this order."""

    def __init__(self, runs: Mapping[str, Metrics | None]) -> None:
        self._runs = runs

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        rows = [{"run": inert(name)} | self._cells(metrics) for name, metrics in self._runs.items()]
        names = ["run", "task", "model"]
        headings = [*names, "n", "rate ± s.e.", "any of", "not judged", "cost"]
        if not any(row.get("any of") for row in rows):
            headings.remove("any of")
        width = {
            heading: column_width(max(cell_len(str(row.get(heading, ""))) for row in [{}, *rows]))
            for heading in headings
        }
        for heading in self._EXPENDABLE:
            needed = sum(max(width[name], column_width(len(name))) for name in headings)
            if heading in headings and needed > options.max_width:
                headings.remove(heading)
        table = empty_table()
        for heading in headings:
            if heading in names:
                table.add_column(heading)
            else:
                table.add_column(heading, justify="right", no_wrap=True)
        for row in rows:
            table.add_row(*(row.get(heading, "") for heading in headings))
        yield table
        if any(metrics and not metrics.complete for metrics in self._runs.values()):
            yield Text("INCOMPLETE where n is a part: the rest may differ.", style="yellow")

    @staticmethod
    def _cells(metrics: Metrics | None) -> dict[str, Text]:
        if metrics is None:
            return {"rate ± s.e.": Text("no metrics", style="dim")}
        rate, measure = metrics.overall, measure_of(metrics, metrics.scores)
        shown = Text(with_error(rate.pass_rate, rate.stderr))
        if measure:
            shown = Text(with_error(measure.mean, measure.stderr))
            shown = one_line(inert(metrics.measure or ""), Text(" "), shown)
        model = inert(metrics.model or "")
        if metrics.simulated:
            # Where there is no room for both, the mark matters more than the model.
            model = one_line(SIMULATED, Text(" "), model) if metrics.model else SIMULATED
        return {
            "task": inert(metrics.task),
            "model": model,
            "n": Text(f"{measure.n if measure else rate.n:,}")
            if metrics.complete
            else _part(metrics),
            "rate ± s.e.": shown,
            "any of": Text(_any_passed(metrics)),
            "not judged": Text(f"{measure.not_measured if measure else rate.not_judged:,}"),
            "cost": Text(usd(metrics.cost_usd)),
        }


def _any_passed(metrics: Metrics) -> str:
    """How often one of several samples, or of several rounds, passed; empty of a run of one."""
    rounds, k = metrics.rounds.any_of_first_k, max(metrics.pass_at_k, default=1)
    if k > 1:
        return f"{metrics.pass_at_k[k]:.3f} of {k:,}"
    if len(rounds) > 1:
        last = max(rounds)
        return f"{rounds[last]:.3f} of {last:,}"
    return ""


def _part(metrics: Metrics) -> Text:
    """An incomplete run's samples: of how many."""
    whole = "?" if metrics.n_planned is None else f"{metrics.n_planned:,}"
    return Text(f"{metrics.n_samples:,} of {whole}", style="yellow")
