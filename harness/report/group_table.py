"""The groups of one label of a run: a row for each, and one for all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table
from rich.text import Text

from harness.analysis.metrics import Mean, Metrics, Rate
from harness.report.cells import (
    column_width,
    empty_table,
    figure,
    inert,
    interval_text,
    measure_of,
    with_error,
)

MOST_GROUPS = 50
"""Of a label with more groups than this, the others are left to metrics.json."""

ROUND_NOTE = "A round's rate is among the samples judged in it."

_ROUND = len("0.500")
_INTERVAL = len("0.400-0.600")


class GroupTable:
    """Rates of the groups of one label; of a run with a measure, its means.

    Where the terminal is narrow, the interval goes first, then all but the
    last of the rounds, from the back.
    """

    def __init__(self, metrics: Metrics, label: str) -> None:
        self._metrics = metrics
        self._label = label
        groups = metrics.groups[label]
        self._shown = dict(list(groups.items())[:MOST_GROUPS])
        self._n_left_out = len(groups) - len(self._shown)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        rounds = list(self._metrics.rounds.each)
        rounds = rounds if len(rounds) > 1 and not self._metrics.measure else []
        room = options.max_width - self._least_width()
        fitting = room // column_width(_ROUND)
        shown = rounds if len(rounds) <= fitting else [*rounds[: max(0, fitting - 1)], rounds[-1]]
        yield self._table(
            shown, with_interval=room >= len(shown) * column_width(_ROUND) + column_width(_INTERVAL)
        )
        notes = []
        if rounds and unequal_rounds(self._metrics):
            notes.append(ROUND_NOTE)
        if len(shown) < len(rounds):
            notes.append(f"Rounds left out for want of room: {len(rounds) - len(shown)}.")
        if self._n_left_out:
            notes.append(f"{self._n_left_out:,} more groups are in metrics.json.")
        if notes:
            yield Text(" ".join(notes), style="dim")

    def _least_width(self) -> int:
        """Of the label, n and rate; a long name of a group may be cut."""
        longest = max(cell_len(inert(name).plain) for name in ["all", self._label, *self._shown])
        n = len(f"{self._metrics.overall.n:,}")
        return min(longest, 20) + column_width(n) + column_width(len("0.500 ± 0.010"))

    def _table(self, rounds: Sequence[int], with_interval: bool) -> Table:
        metrics = self._metrics

        def figures(rate: Rate, scores: Mapping[str, Mean], each: Mapping[int, float]) -> list[str]:
            measure = measure_of(metrics, scores)
            shown: Rate | Mean | None = measure if metrics.measure else rate
            value = measure.mean if measure else None if metrics.measure else rate.pass_rate
            error = with_error(value, shown.stderr if shown else None)
            interval = [interval_text(shown)] if with_interval else []
            by_round = [figure(each.get(number)) for number in rounds]
            return [f"{shown.n if shown else 0:,}", error, *interval, *by_round]

        headings = ["n", f"{'mean' if metrics.measure else 'rate'} ± s.e."]
        headings += ["95%"] if with_interval else []
        headings += [f"r{number}" for number in rounds]
        table = empty_table(metrics, show_footer=True)
        table.add_column(inert(self._label), footer="all")
        totals = figures(metrics.overall, metrics.scores, metrics.rounds.each)
        for heading, total in zip(headings, totals, strict=True):
            table.add_column(heading, footer=total, justify="right", no_wrap=True)
        for name, group in self._shown.items():
            table.add_row(inert(name), *figures(group, group.scores, group.rounds.each))
        return table


def unequal_rounds(metrics: Metrics) -> bool:
    """Whether some samples had fewer rounds: they stopped on a pass, failed or wait."""
    return len(set(metrics.rounds.n.values())) > 1
