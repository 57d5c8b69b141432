"""What all figures share: runs with their colours and shapes, data with tooltips, scales, axes.

A run looks the same in all figures.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from harness.analysis.breakdown import means, of_round, rates
from harness.analysis.clustered import SampleStatistic
from harness.analysis.run_comparison import RunComparison
from harness.plugins import import_extra
from harness.report.figure import SHAPES, Figure
from harness.report.figures.names import in_legend, shown
from harness.report.runs import ReportedRun, common_start
from harness.report.text import printable
from harness.store.columns import AttemptTable

if TYPE_CHECKING:
    import altair as alt
else:
    alt = import_extra("altair", "report")

__all__ = ["Runs", "alt"]

STEP = 22
"""Pixels of a row."""
HEIGHT = 240
SIGNED = "datum.value == 0 ? '0' : format(datum.value, '+.3~r')"
"""The format of an axis of signed numbers."""
UNIT = alt.Scale(domain=[0, 1])

UNITS = "Samples of one prompt, or of one named cluster, are one statistical unit."
_WIDE = 50
"""An axis is logarithmic if its values differ by more than this factor."""
PADDING = 8
"""Pixels at either end of an axis: for marks there, and for labels under its ends."""
_LONG_KEY = 16
"""Characters of a name in a legend of two columns."""


@dataclass(frozen=True, slots=True)
class Runs:
    """All runs of a report.

    Attributes:
        names: The shown name of each run; its position decides the colour.
        short: Shown names without their common prefix, for axes. Tables and tooltips have the
            whole name.
        keys: Shown names on a short line, for legends.
        marks: Each run's marks (SIMULATED, INCOMPLETE), by its shown name.
    """

    every: tuple[ReportedRun, ...]
    names: Mapping[str, str]
    short: Mapping[str, str]
    keys: Mapping[str, str]
    marks: Mapping[str, Sequence[str]]

    @classmethod
    def of(cls, runs: Sequence[ReportedRun], comparison: RunComparison | None = None) -> Runs:
        """Collect the runs, and those that only the comparison has."""
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
        """Return a run's name."""
        return self.names[run.name]

    @property
    def measure(self) -> str | None:
        """The primary metric that all runs share; None for the pass rate."""
        found = {run.metrics.measure for run in self.every}
        return found.pop() if len(found) == 1 else None

    @property
    def what(self) -> str:
        """Name what `measured` returns."""
        return "pass rate" if self.measure is None else f"mean {printable(self.measure)}"

    @property
    def value(self) -> str:
        """Like `what`, with the answers that it covers if runs have several rounds."""
        return f"{self.what} of first answers" if self.several_rounds else self.what

    @property
    def several_rounds(self) -> bool:
        """Whether any run has more than one."""
        return any(run.last_round > 1 for run in self.every)

    @property
    def which_answers(self) -> str:
        """Name the answers that `measured` covers."""
        return "first answers" if self.several_rounds else "answers"

    def titled(self, title: str, of: str = "first answers") -> str:
        """Return a title, with the answers it covers if runs have several rounds."""
        told = f"{of}: {title}" if self.several_rounds and of else title
        return told[:1].upper() + told[1:]

    def measured(
        self, run: ReportedRun, *labels: str, last: bool = False
    ) -> Mapping[tuple[str, ...], SampleStatistic]:
        """Return the mean of the primary metric, or the pass rate, by the groups of labels.

        With ``last``, of each sample's last round, which is what the run was paid for.
        """
        first = self.several_rounds and not last
        answers: AttemptTable = of_round(run.attempts) if first else run.attempts.last_rounds()
        if self.measure is None:
            return rates(answers, *labels)
        return means(answers, self.measure, *labels)


class Sheet:
    """The data of a chart. Its tooltips and the figure's table have the same texts."""

    def __init__(self, runs: Runs, *headings: str) -> None:
        first, *others = headings
        # A label may have any name, and a tooltip has one line per name.
        self.headings = (f"group of {first}" if first in others else first, *others)
        self.rows: list[tuple[str, ...]] = []
        self.data: list[dict[str, Any]] = []
        self._runs = runs
        self.present: set[str] = set()
        """Shown names of the runs whose marks the figure has."""

    def add(self, run: str, texts: Sequence[str], **fields: Any) -> None:
        """Add a run's datum: its texts under the headings, and what channels use."""
        if run:
            self.present.add(run)
            fields["key"] = self._runs.keys[run]
        self.rows.append(tuple(texts))
        self.data.append({**fields, **{f"t{at}": text for at, text in enumerate(texts)}})

    def base(self) -> alt.Chart:
        """Return a chart of the data, with its tooltips."""
        tooltip = [
            alt.Tooltip(f"t{at}:N", title=heading) for at, heading in enumerate(self.headings)
        ]
        return alt.Chart(alt.InlineData(values=self.data)).encode(tooltip=tooltip)

    def colour(self, channel: type[Any] = alt.Color) -> Any:
        """Return the channel that distinguishes runs by colour, with a legend if there are any."""
        scale = alt.Scale(domain=list(self._runs.keys.values()))
        return channel("key:N", scale=scale, legend=self._legend())

    def shape(self) -> alt.Shape:
        """Return the channel that distinguishes runs by shape."""
        every = list(self._runs.keys.values())
        scale = alt.Scale(domain=every, range=[SHAPES[i % len(SHAPES)] for i in range(len(every))])
        return alt.Shape("key:N", scale=scale, legend=self._legend())

    def _legend(self) -> alt.Legend | None:
        if len(self._runs.names) < 2:
            return None
        values = [key for name, key in self._runs.keys.items() if name in self.present]
        # Two columns of long names are wider than a small screen.
        columns = 1 if max(map(len, values), default=0) > _LONG_KEY else 2
        return alt.Legend(title=None, values=values, columns=columns, symbolOpacity=1)

    def figure(
        self, name: str, title: str, caption: str, chart: Mapping[str, Any], section: str = ""
    ) -> Figure:
        """Return the figure; the marks of the runs in it are added to title and caption."""
        by_mark: dict[str, list[str]] = {}
        for run, marks in self._runs.marks.items():
            for mark in marks if run in self.present else ():
                by_mark.setdefault(printable(mark), []).append(run)
        words = ", ".join(dict.fromkeys(mark.split(" ")[0] for mark in by_mark))
        told = [f"{mark}: {', '.join(runs)}." for mark, runs in by_mark.items()]
        only = [f"Run: {run}." for run in self.present if len(self._runs.names) == 1]
        return Figure(
            name=name,
            title=f"{title} ({words})" if words else title,
            caption=" ".join([*told, caption, *only]),
            chart=chart,
            headings=self.headings,
            rows=tuple(self.rows),
            section=section or "results",
        )


def known(chart: alt.Chart, name: str = "value") -> alt.Chart:
    """Keep only the data that have a field."""
    return chart.transform_filter(f"isValid(datum.{name})")


def unknown(chart: alt.Chart, name: str = "value") -> alt.Chart:
    """Keep only the data that lack a field."""
    return chart.transform_filter(f"!isValid(datum.{name})")


def specification(*layers: Any, height: Any) -> dict[str, Any]:
    """Layer charts, without what belongs to the page: theme, schema, URLs."""
    chart = layers[0] if len(layers) == 1 else alt.layer(*layers)
    found: dict[str, Any] = chart.properties(width="container", height=height).to_dict()
    return {key: value for key, value in found.items() if key not in ("$schema", "config")}


def name_axis(**options: Any) -> alt.Axis:
    """Return an axis of names; two-line names are split here, because data has only one line."""
    middle = {"condition": {"test": "indexof(datum.label, '\\n') >= 0", "value": -5.5}, "value": 0}
    return alt.Axis(
        title=None,
        labelExpr="split(datum.label, '\\n')",
        labelLineHeight=11,
        labelOffset=middle,
        # Room for a dot at the figure's edge.
        **{"labelPadding": 8, "labelLimit": 215, "ticks": False, **options},
    )


def share_axis(title: str) -> alt.Axis:
    """Return an axis of percentages."""
    return alt.Axis(title=title, format=".0%", tickCount=5)


def number_x(
    name: str, values: Sequence[float], title: str, ticks: Sequence[float] | None = None
) -> alt.X:
    """Return a horizontal channel of numbers, logarithmic if they span a wide range.

    Without ``ticks`` it starts at 0, and has a grid.
    """
    low, high = min(values, default=0.0), max(values, default=0.0)
    scale = alt.Scale(zero=ticks is None, nice=False, padding=PADDING)
    axis = alt.Axis(title=title, format="~g", grid=ticks is None)
    logarithmic = low > 0 and high / low > _WIDE
    if logarithmic:
        scale = alt.Scale(type="log", nice=False, padding=PADDING)
        axis.title = f"{title} (logarithmic)"
    if ticks is None or logarithmic:
        axis.tickCount = 4
    else:
        axis.values = list(ticks)
    return alt.X(f"{name}:Q", scale=scale, axis=axis)
