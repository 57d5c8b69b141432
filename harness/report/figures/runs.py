"""Shared by all figures: runs with their colours and shapes, data with tooltips, scales, axes.

A run looks the same in all figures.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from harness.analysis.breakdown import means, of_round, rates
from harness.analysis.clustered import SampleStatistic
from harness.analysis.run_comparison import RunComparison
from harness.plugins import import_extra
from harness.report.figures.figure import SHAPES, Figure
from harness.report.figures.names import in_legend, said_of, shown
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
WIDE = 50
"""An axis is logarithmic if its values differ by more than this factor."""
PADDING = 8
"""Pixels at either end of an axis: for marks there, and for labels under its ends."""

SIGNED = "datum.value == 0 ? '0' : format(datum.value, '+.3~r')"
"""The format of an axis of signed numbers."""

UNIT = alt.Scale(domain=[0, 1])


class Sheet:
    """The data of a chart. Its tooltips and the figure's table have the same texts."""

    def __init__(self, *headings: str) -> None:
        self.headings = headings
        self.rows: list[tuple[str, ...]] = []
        self.data: list[dict[str, Any]] = []

    def add(self, texts: Sequence[str], **fields: Any) -> None:
        """Add a datum.

        Args:
            texts: Its row of the table, under the headings.
            fields: What the chart's channels use.
        """
        self.rows.append(tuple(texts))
        self.data.append({**fields, **{f"t{at}": text for at, text in enumerate(texts)}})

    def base(self) -> alt.Chart:
        """Return a chart of the data, with its tooltips."""
        tooltip = [
            alt.Tooltip(f"t{at}:N", title=heading) for at, heading in enumerate(self.headings)
        ]
        return alt.Chart(alt.InlineData(values=self.data)).encode(tooltip=tooltip)


def bounds(ci95: tuple[float, float] | None) -> dict[str, float | None]:
    """Return an interval as fields of a datum."""
    low, high = ci95 or (None, None)
    return {"low": low, "high": high}


def known(chart: alt.Chart, field: str = "value") -> alt.Chart:
    """Keep only the data that have a field."""
    return chart.transform_filter(f"isValid(datum.{field})")


def unknown(chart: alt.Chart, field: str = "value") -> alt.Chart:
    """Keep only the data that lack a field."""
    return chart.transform_filter(f"!isValid(datum.{field})")


def specification(*layers: Any, height: Any) -> dict[str, Any]:
    """Layer charts, without what belongs to the page: theme, schema, URLs."""
    chart = layers[0] if len(layers) == 1 else alt.layer(*layers)
    found: dict[str, Any] = chart.properties(width="container", height=height).to_dict()
    return {key: value for key, value in found.items() if key not in ("$schema", "config")}


def name_axis(**options: Any) -> alt.Axis:
    """Return an axis of names; those of two lines are split here, for data has only one line."""
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


def wide(values: Sequence[float]) -> bool:
    """Return whether a logarithmic axis is needed, and possible."""
    return min(values) > 0 and max(values) / min(values) > WIDE


def number_scale(values: Sequence[float], zero: bool = True) -> alt.Scale:
    """Return a logarithmic scale if needed, otherwise a linear one, from 0 if ``zero``."""
    if wide(values):
        return alt.Scale(type="log", nice=False, padding=PADDING)
    return alt.Scale(zero=zero, nice=False, padding=PADDING)


def number_title(values: Sequence[float], title: str) -> str:
    """Return the title of an axis, which says if it is logarithmic."""
    return f"{title} (logarithmic)" if wide(values) else title


def number_x(field: str, values: Sequence[float], title: str) -> alt.X:
    """Return a horizontal channel of numbers."""
    axis = alt.Axis(title=number_title(values, title), tickCount=4, format="~g", grid=True)
    return alt.X(f"{field}:Q", scale=number_scale(values), axis=axis)


_LONG = 16
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
        """Name what is measured for `answers`."""
        return "pass rate" if self.measure is None else f"mean {printable(self.measure)}"

    @property
    def value(self) -> str:
        """Name it, with the answers it covers if runs have several rounds."""
        return f"{self.what} of first answers" if self.several_rounds else self.what

    @property
    def several_rounds(self) -> bool:
        """Whether any run has more than one."""
        return any(run.last_round > 1 for run in self.every)

    @property
    def which_answers(self) -> str:
        """Describe which answers `answers` are."""
        return "first answers" if self.several_rounds else "answers"

    def titled(self, title: str, of: str = "first answers") -> str:
        """Return a title, with the answers it covers if runs have several rounds."""
        told = f"{of}: {title}" if self.several_rounds and of else title
        return told[:1].upper() + told[1:]

    def answers(self, run: ReportedRun) -> AttemptTable:
        """Return a row per sample: its first round if runs have several, otherwise its last."""
        return of_round(run.attempts) if self.several_rounds else run.attempts.last_rounds()

    def measured(
        self, run: ReportedRun, *labels: str, last: bool = False
    ) -> Mapping[tuple[str, ...], SampleStatistic]:
        """Return the mean of the primary metric, or the pass rate, by the groups of labels.

        Args:
            run: The run.
            *labels: None for all answers together.
            last: Use each sample's last round, which is what the run was paid for.
        """
        answers = run.attempts.last_rounds() if last else self.answers(run)
        return (
            rates(answers, *labels)
            if self.measure is None
            else means(answers, self.measure, *labels)
        )

    def colour(self, present: Iterable[str], channel: type[Any] = alt.Color) -> Any:
        """Return the channel that distinguishes runs by colour, with a legend if there are several.

        Its field ``key`` is one of `keys`.
        """
        scale = alt.Scale(domain=list(self.keys.values()))
        return channel("key:N", scale=scale, legend=self._legend(present))

    def shape(self, present: Iterable[str]) -> alt.Shape:
        """Return the channel that distinguishes runs by shape."""
        every = list(self.keys.values())
        scale = alt.Scale(domain=every, range=[SHAPES[i % len(SHAPES)] for i in range(len(every))])
        return alt.Shape("key:N", scale=scale, legend=self._legend(present))

    def _legend(self, present: Iterable[str]) -> alt.Legend | None:
        here = set(present)
        if len(self.names) < 2:
            return None
        values = [key for name, key in self.keys.items() if name in here]
        # Two columns of long names are wider than a small screen.
        columns = 1 if max(map(len, values), default=0) > _LONG else 2
        return alt.Legend(title=None, values=values, columns=columns, symbolOpacity=1)

    def figure(self, drawn: Drawn, present: Iterable[str]) -> Figure:
        """Complete a figure with the marks of the runs in it."""
        here = set(present)
        ending, told = said_of({run: said for run, said in self.marks.items() if run in here})
        only = f"Run: {next(iter(here))}." if len(self.names) == len(here) == 1 else ""
        return Figure(
            name=drawn.name,
            title=drawn.title + ending,
            caption=" ".join(part for part in (told, drawn.caption, only) if part),
            chart=drawn.chart,
            headings=tuple(drawn.sheet.headings),
            rows=tuple(drawn.sheet.rows),
            section=drawn.section,
        )


@dataclass(frozen=True, slots=True)
class Drawn:
    """A figure before the marks of its runs are added to its title and caption."""

    name: str
    title: str
    caption: str
    chart: Mapping[str, Any]
    sheet: Sheet
    section: str = "results"
