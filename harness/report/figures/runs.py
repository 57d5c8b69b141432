"""The runs of a report as its pictures see them: with their colours, and what is measured.

Owns that a run looks the same in all pictures.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import altair as alt

from harness.analysis.breakdown import means, of_round, rates
from harness.analysis.clustered import SampleStatistic
from harness.analysis.run_comparison import RunComparison
from harness.report.figure import Figure
from harness.report.figures.names import in_legend, said_of, shown
from harness.report.figures.theme import SHAPES
from harness.report.reported_run import ReportedRun, common_start
from harness.report.text import printable
from harness.store.columns import AttemptTable

_LONG = 16
"""Characters of a name in a legend of two columns."""


@dataclass(frozen=True, slots=True)
class Runs:
    """All runs of a report.

    names: of a run to how it is shown; its place is its colour.
    short: of shown names, without what all begin with: how pictures have them. Tables
        and tooltips have the whole name.
    keys: of shown names, on a short line, in a legend.
    marks: of shown names.
    """

    every: tuple[ReportedRun, ...]
    names: Mapping[str, str]
    short: Mapping[str, str]
    keys: Mapping[str, str]
    marks: Mapping[str, Sequence[str]]

    @classmethod
    def of(cls, runs: Sequence[ReportedRun], comparison: RunComparison | None = None) -> Runs:
        """The runs, and those that only the comparison knows."""
        marks = {run.name: run.marks for run in runs}
        if comparison is not None:
            marks = {comparison.baseline: comparison.marks, **marks}
            marks = {one.run: one.marks for one in comparison.others} | marks
        # The report's own runs come first, in its order.
        names = shown([*(run.name for run in runs), *marks])
        start = len(common_start(names.values()))
        short = {name: name[start:].strip() for name in names.values()}
        keys = dict(zip(short, in_legend(short.values()), strict=True))
        return cls(tuple(runs), names, short, keys, {names[name]: marks[name] for name in names})

    def shown(self, run: ReportedRun) -> str:
        """A run's name."""
        return self.names[run.name]

    @property
    def measure(self) -> str | None:
        """The score that all runs are measured by; None for the pass rate."""
        found = {run.metrics.measure for run in self.every}
        return found.pop() if len(found) == 1 else None

    @property
    def what(self) -> str:
        """What `answers` are measured in."""
        return "pass rate" if self.measure is None else f"mean {printable(self.measure)}"

    @property
    def value(self) -> str:
        """The same, with which answers it is of where that is not plain."""
        return f"{self.what} of first answers" if self.several_rounds else self.what

    @property
    def several_rounds(self) -> bool:
        """Whether any run has more than one."""
        return any(last_round(run) > 1 for run in self.every)

    @property
    def which_answers(self) -> str:
        """Which answers `answers` are, in words."""
        return "first answers" if self.several_rounds else "answers"

    def titled(self, title: str, of: str = "first answers") -> str:
        """A title; where runs have several rounds, with the answers that it is of."""
        told = f"{of}: {title}" if self.several_rounds and of else title
        return told[:1].upper() + told[1:]

    def answers(self, run: ReportedRun) -> AttemptTable:
        """A row for each sample: of the first round where the runs have several."""
        return of_round(run.attempts) if self.several_rounds else run.attempts.last_rounds()

    def measured(
        self, run: ReportedRun, *labels: str, last: bool = False
    ) -> Mapping[tuple[str, ...], SampleStatistic]:
        """Of the answers, the mean of the measure, or the pass rate.

        last: of each sample's last round instead, which all of the run was paid for.
        """
        answers = run.attempts.last_rounds() if last else self.answers(run)
        return (
            rates(answers, *labels)
            if self.measure is None
            else means(answers, self.measure, *labels)
        )

    def colour(self, present: Iterable[str], channel: type[Any] = alt.Color) -> Any:
        """The channel that tells runs apart by colour, with a legend where there are several.

        Of the field ``key``, which is of `keys`.
        """
        return self._channel(channel, present)

    def shape(self, present: Iterable[str]) -> alt.Shape:
        """The same by shape."""
        every = list(self.keys.values())
        scale = alt.Scale(domain=every, range=[SHAPES[i % len(SHAPES)] for i in range(len(every))])
        return alt.Shape("key:N", scale=scale, legend=self._legend(present))

    def _channel(self, channel: type[Any], present: Iterable[str]) -> Any:
        scale = alt.Scale(domain=list(self.keys.values()))
        return channel("key:N", scale=scale, legend=self._legend(present))

    def _legend(self, present: Iterable[str]) -> alt.Legend | None:
        here = set(present)
        if len(self.names) < 2:
            return None
        values = [key for name, key in self.keys.items() if name in here]
        # Two columns of long names are wider than a small screen.
        columns = 1 if max(map(len, values), default=0) > _LONG else 2
        return alt.Legend(title=None, values=values, columns=columns, symbolOpacity=1)

    def figure(
        self,
        name: str,
        title: str,
        caption: str,
        chart: Mapping[str, Any],
        headings: Sequence[str],
        rows: Iterable[Sequence[str]],
        present: Iterable[str],
        section: str = "results",
    ) -> Figure:
        """A picture, with the marks of the runs that are in it."""
        here = set(present)
        ending, told = said_of({run: said for run, said in self.marks.items() if run in here})
        only = f"Run: {next(iter(here))}." if len(self.names) == len(here) == 1 else ""
        return Figure(
            name=name,
            title=title + ending,
            caption=" ".join(part for part in (told, caption, only) if part),
            chart=chart,
            headings=tuple(headings),
            rows=tuple(tuple(row) for row in rows),
            section=section,
        )


def last_round(run: ReportedRun) -> int:
    """How many rounds a run has; 0 of one without attempts."""
    return int(run.attempts.round.max(initial=0))


def name_axis(**options: Any) -> alt.Axis:
    """An axis of names: those of two lines are parted here, for data has but one."""
    middle = {"condition": {"test": "indexof(datum.label, '\\n') >= 0", "value": -5.5}, "value": 0}
    return alt.Axis(
        title=None,
        labelExpr="split(datum.label, '\\n')",
        labelLineHeight=11,
        labelOffset=middle,
        # Room for a dot at the picture's edge.
        **{"labelPadding": 8, "labelLimit": 215, "ticks": False, **options},
    )


def specification(chart: Any) -> dict[str, Any]:
    """A chart without what belongs to the page: theme, schema and every address."""
    found: dict[str, Any] = chart.to_dict()
    return {key: value for key, value in found.items() if key not in ("$schema", "config")}
