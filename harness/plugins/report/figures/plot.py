"""Building blocks of figures: runs with their colours, data with tooltips, and drawing functions.

A missing value is shown as ``n/a``, and a value without an interval as a hollow dot.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil, inf
from typing import TYPE_CHECKING, Any

from harness.analysis.breakdown import scored, values_by
from harness.analysis.metrics import PASS_RATE, SampleStatistic, Statistic
from harness.errors import import_extra
from harness.plugins.comparisons.comparison_document import ShownUnit
from harness.plugins.comparisons.run_comparison import RunComparison
from harness.plugins.report.figure import (
    SHAPES,
    Figure,
    display_names,
    in_legend,
    interval,
    number,
    on_axis,
    sample_sizes,
)
from harness.plugins.report.runs import ReportedRun, unit_of
from harness.report.runs import common_start
from harness.report.text import UNKNOWN, printable

if TYPE_CHECKING:
    import altair as alt
else:
    alt = import_extra("altair", "report")

__all__ = ["Runs", "alt"]

LAST_ROUNDS = "last rounds"
_SHEET = "sheet"
STEP = 24  # pixels per row, enough for a two-line name
_STEP_OF_RUN = 9
HEIGHT = 240
PADDING = 8  # pixels at either end of an axis, for marks and labels at its ends
_SIGNED = "datum.value == 0 ? '0' : format(datum.value, '+.3~r')"  # Vega expression for axis labels
_POINTS = _SIGNED.replace("format(", "format(100 * ")
_WIDE = 50  # An axis is logarithmic if its values differ by more than this factor
_LONG_KEY = 16  # maximum characters of names in a two-column legend
_MOST_TICKS = 10
_POINT: Mapping[str, Any] = {"size": 50, "strokeWidth": 1.5, "opacity": 1}


@dataclass(frozen=True, slots=True)
class Runs:
    """All runs of a report, with their display names and marks."""

    every: tuple[ReportedRun, ...]
    names: Mapping[str, str]  # by run: the shown name, whose position determines the colour
    short: Mapping[str, str]  # by shown name: the name in axes and legends
    marks: Mapping[str, Sequence[str]]  # by shown name: SIMULATED, INCOMPLETE
    unit: ShownUnit  # of `measured`

    @classmethod
    def of(cls, runs: Sequence[ReportedRun], comparison: RunComparison | None = None) -> Runs:
        """Collect a report's runs, and name and mark further runs of the comparison."""
        marks = {run.name: run.marks for run in runs}
        if comparison is not None:
            marks = {comparison.baseline: comparison.marks, **marks}
            marks = {against.run: against.marks for against in comparison.others} | marks
        names = display_names([*(run.name for run in runs), *marks])  # the report's own runs first
        start = len(common_start(names.values()))
        keys = in_legend(name[start:].strip() for name in names.values())
        brief = dict(zip(names.values(), keys, strict=True))
        shown_marks = {names[name]: marks[name] for name in names}
        return cls(tuple(runs), names, brief, shown_marks, unit_of(runs))

    def name_of(self, run: ReportedRun) -> str:
        """Return the name that figures show for a run."""
        return self.names[run.name]

    @property
    def measure(self) -> str | None:
        """The primary metric of all runs; None for the pass rate, or if the runs differ in it."""
        measures = {run.metrics.measure for run in self.every}
        return measures.pop() if len(measures) == 1 else None

    @property
    def rates(self) -> ShownUnit:
        """The unit of pass rates and other shares."""
        return ShownUnit(True, self.unit.digits)

    @property
    def several_rounds(self) -> bool:
        """Whether any run has several rounds."""
        return any(run.last_round > 1 for run in self.every)

    def value(self, answers: str = "first answers") -> str:
        """Return the name of the values of `measured`, such as "pass rate of first answers"."""
        what = "pass rate" if self.measure is None else f"mean {printable(self.measure)}"
        return self.of_answers(what, answers)

    def of_answers(self, what: str, answers: str) -> str:
        """Return the text ``what`` or, if any run has several rounds, "``what`` of ``answers``"."""
        return f"{what} of {answers}" if self.several_rounds else what

    def measured(
        self, run: ReportedRun, *labels: str, last: bool = False
    ) -> Mapping[tuple[str, ...], SampleStatistic]:
        """Return a run's `measure` by group of the labels, over first or ``last`` answers."""
        first = self.several_rounds and not last
        answers = scored(run.attempts.last_rounds(1 if first else None), self.measure or "")
        return values_by(answers, self.measure or PASS_RATE, *labels)


class Sheet:
    """A chart's data, with the texts shown in its tooltips and in the figure's table."""

    def __init__(self, runs: Runs, *headings: str) -> None:
        first, *others = headings
        # A label may have any name, but a tooltip allows each name only once.
        self.headings = (f"group of {first}" if first in others else first, *others)
        self.rows: list[tuple[str, ...]] = []
        self.data: list[dict[str, Any]] = []
        self._runs = runs
        self.present: set[str] = set()
        """Shown names of the figure's runs; its title and caption show their marks."""

    def add(self, run: str, texts: Sequence[str], **fields: Any) -> None:
        """Add a data point of a run ("" for none): a text for each heading, and fields to draw."""
        if run:
            self.present.add(run)
            fields["key"] = self._runs.short[run]
        self.rows.append(tuple(texts))
        self.data.append({**fields, **{f"t{column}": text for column, text in enumerate(texts)}})

    def base(self) -> alt.Chart:
        """Return a chart of the data with tooltips, to which marks can be added."""
        tooltip = [
            alt.Tooltip(f"t{column}:N", title=title) for column, title in enumerate(self.headings)
        ]
        return alt.Chart(alt.NamedData(name=_SHEET)).encode(tooltip=tooltip)

    def looks(self, *channels: str) -> dict[str, Any]:
        """Return the encodings that distinguish runs, if any, by channel (color, fill, shape)."""
        every = list(self._runs.short.values())
        shapes = [SHAPES[position % len(SHAPES)] for position in range(len(every))]
        legend = None
        if len(every) > 1:
            values = [key for name, key in self._runs.short.items() if name in self.present]
            # Two columns of long names would not fit on a small screen.
            columns = 1 if max(map(len, values), default=0) > _LONG_KEY else 2
            legend = alt.Legend(title=None, values=values, columns=columns, symbolOpacity=1)
        colour = alt.Scale(domain=every)
        shape = alt.Scale(domain=every, range=shapes)
        classes: Mapping[str, Any] = {"color": alt.Color, "fill": alt.Fill, "shape": alt.Shape}
        return {
            name: classes[name]("key:N", scale=shape if name == "shape" else colour, legend=legend)
            for name in (channels if self.present else ())
        }

    def figure(
        self, name: str, title: str, caption: str, chart: Mapping[str, Any], section: str = ""
    ) -> Figure:
        """Build the figure of a chart, with the marks of its runs in title and caption."""
        by_mark: dict[str, list[str]] = {}
        for run, marks in self._runs.marks.items():
            for mark in marks if run in self.present else ():
                by_mark.setdefault(printable(mark), []).append(run)
        words = ", ".join(dict.fromkeys(mark.split(" ")[0] for mark in by_mark))
        warnings = [
            f"{mark}: {', '.join(runs)}."
            for mark, runs in by_mark.items()
            if mark not in words or len(runs) < len(self.present)  # the title has the others
        ]
        return Figure(
            name=name,
            title=title[:1].upper() + title[1:] + (f" ({words})" if words else ""),
            caption=" ".join([*warnings, caption]),
            chart=chart,
            headings=self.headings,
            rows=tuple(self.rows),
            section=section or "results",
        )


@dataclass(frozen=True, slots=True)
class Point:
    """A run's value, and its place: a row, or a position on a numeric axis."""

    row: str
    run: str
    of: Statistic
    at: float = 0.0
    beside: Mapping[str, str] = field(default_factory=dict)  # further texts by heading


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The texts and layout of a figure of points."""

    name: str
    title: str
    caption: str = ""
    section: str = "results"
    heading: str  # what the rows are, or the title of the numeric axis
    value: str
    unit: ShownUnit  # of the values
    of: str = "samples"  # what each point's n counts
    n: Mapping[str, int] | None = None  # by run: its n; None: the sum over its points
    levels: Mapping[str, Sequence[str]] = field(default_factory=dict)  # the rows below each heading
    baseline: str = ""  # the run that differences are relative to
    differences: bool = False  # whether values are differences, though not from a baseline
    joined: bool = True  # whether a line connects the points
    frontier: bool = False  # whether a line connects the points with no better point to their left

    @property
    def signed(self) -> bool:
        """Whether values are differences, which have signs and a line at 0."""
        return self.differences or bool(self.baseline)


def dots(points: Sequence[Point], plan: Plan, runs: Runs) -> Figure:
    """Draw points as dots with error bars, in the rows that the plan lists."""
    rows = [row for of_level in plan.levels.values() for row in of_level]
    axis = dict(zip(rows, on_axis(rows), strict=True))
    order = {name: place for place, name in enumerate(runs.names.values())}
    # A dot's position in its row is not fixed per run: few of many runs may have a group.
    in_row: dict[str, list[str]] = {}
    for point in sorted(points, key=lambda point: order[point.run]):
        in_row.setdefault(point.row, []).append(point.run)
    places = [
        {"row": axis[point.row], "slot": in_row[point.row].index(point.run)} for point in points
    ]
    sheet = _sheet(points, plan, runs, places)
    domain: list[str] = []
    heads = []
    for place, (level, of_level) in enumerate(plan.levels.items(), start=1):
        if level:  # its row is named by spaces alone, unlike any shown name
            heads.append({"row": " " * place, "level": level})
            domain.append(" " * place)
        domain += [axis[row] for row in of_level]
    scale = alt.Scale(domain=domain)
    grid = {"condition": {"test": "trim(datum.label) == ''", "value": 0}, "value": 1}
    place_y = alt.Y("row:N", scale=scale, axis=name_axis(grid=True, gridOpacity=grid))
    deep = max(map(len, in_row.values()), default=1)
    base = sheet.base().encode(y=place_y)
    if deep > 1:
        base = base.encode(yOffset=alt.YOffset("slot:O", scale=alt.Scale(domain=list(range(deep)))))
    layers = interval_layers(sheet, base, plan.value, plan.unit, signed=plan.signed)
    if heads:
        above = alt.Chart(alt.InlineData(values=heads)).encode(
            x=_fixed(alt.XValue, 2),
            y=alt.Y("row:N", scale=scale),
            text=alt.Text("level:N"),
            tooltip=[alt.Tooltip("level:N", title="level")],
        )
        layers.append(above.mark_text(align="left", fontWeight="bold", fontSize=10.5))
    height = alt.Step(step=max(STEP, _STEP_OF_RUN * deep + 6), **{"for": "position"})
    return _figure(sheet, points, plan, specification(sheet, *layers, height=height))


def lines(points: Sequence[Point], plan: Plan, runs: Runs) -> Figure:
    """Draw points along a numeric axis, with their intervals as bars."""
    sheet = _sheet(points, plan, runs, [{"at": point.at} for point in points])
    numbers = sorted({point.at for point in points})
    ticks = numbers[:: ceil(len(numbers) / _MOST_TICKS)] if plan.joined else None
    x = number_x(numbers, plan.heading, ticks)
    base = sheet.base().encode(x=x)
    upright = {"upright": True, "joined": plan.joined}
    layers = interval_layers(sheet, base, plan.value, plan.unit, **upright)
    if plan.frontier:
        ends = alt.Chart(alt.InlineData(values=[*_frontier(points)]))
        line = ends.mark_line(interpolate="step-after", strokeDash=[4, 4], opacity=0.6)
        tooltip = [alt.Tooltip("told:N", title="frontier")]
        layers.insert(0, line.encode(x=x, y=alt.Y("value:Q"), tooltip=tooltip))
    return _figure(sheet, points, plan, specification(sheet, *layers, height=HEIGHT))


def _frontier(points: Sequence[Point]) -> Iterator[dict[str, Any]]:
    best = -inf
    for point in sorted(points, key=lambda point: (point.at, -(point.of.mean or 0.0))):
        if point.of.mean is not None and point.of.mean > best:
            best = point.of.mean
            yield {"at": point.at, "value": best, "told": "no run is cheaper and better"}


def interval_layers(
    sheet: Sheet,
    base: alt.Chart,
    title: str,
    unit: ShownUnit,
    *,
    upright: bool = False,
    joined: bool = False,
    signed: bool = False,
) -> list[Any]:
    """Return the layers of a chart that draw the values of a sheet with their intervals.

    The values are on the x axis or, if ``upright``, on the y axis. If ``joined``, a line joins
    them, and an area covers their intervals. If ``signed``, they are differences, with a line at 0.
    """
    values = [point["value"] for point in sheet.data if point["value"] is not None]
    bounded = not signed and all(0 <= value <= 1 for value in values)
    scale = alt.Scale(zero=signed, padding=PADDING)
    if bounded:
        scale = alt.Scale(domain=[0, 1], padding=PADDING, nice=False)
    plain = ".1f" if bounded else "~r"
    axis = alt.Axis(title=title, tickCount=5, format="~%" if unit.percent else plain)
    if signed:
        axis.labelExpr = _POINTS if unit.percent else _SIGNED
        axis.title = f"{title}, points" if unit.percent else title
    name = "y" if upright else "x"
    side = alt.Y if upright else alt.X
    value: dict[str, Any] = {name: side("value:Q", scale=scale, axis=axis)}
    end = alt.Y2 if upright else alt.X2
    ends: dict[str, Any] = {name: side("low:Q", scale=scale, axis=axis), f"{name}2": end("high:Q")}
    unknown = base.transform_filter("!isValid(datum.value)")
    base = base.transform_filter("isValid(datum.value)").encode(**sheet.looks("color"))
    sure = base.transform_filter("isValid(datum.low)").encode(**ends)
    nowhere = {"y": _fixed(alt.YValue, HEIGHT - 2)} if upright else {"x": _fixed(alt.XValue, 2)}
    zero = alt.Chart(alt.InlineData(values=[{"value": 0, "told": "no difference"}])).encode(
        **value, tooltip=[alt.Tooltip("told:N", title="0")]
    )
    return [
        *([zero.mark_rule(strokeDash=[4, 3])] if signed else []),
        *([sure.mark_area(opacity=0.13), base.mark_line().encode(**value)] if joined else []),
        sure.mark_rule(strokeWidth=1.25),
        base.mark_point(**_POINT).encode(
            **value,
            **sheet.looks("fill", "shape"),
            fillOpacity=either("isValid(datum.low)", 1, 0, alt.FillOpacityValue),
        ),
        unknown.mark_text(align="left", text=UNKNOWN, fontSize=9).encode(**nowhere),
    ]


def either(test: str, value: object, fallback: object, channel: Any) -> Any:
    """Return a channel with ``value`` if the test holds for a datum, or else ``fallback``."""
    # Not `alt.condition`: Altair takes milliseconds to find the class of what that returns.
    return channel(fallback, condition={"test": test, "value": value})


def _fixed(channel: Any, value: float) -> Any:
    return channel(value)  # untyped in Altair


def _sheet(
    points: Sequence[Point], plan: Plan, runs: Runs, places: Sequence[Mapping[str, Any]]
) -> Sheet:
    further_headings = list(points[0].beside) if points else []
    headings = ("run", plan.value, "s.e.", "95% interval", plan.of, "units", *further_headings)
    sheet = Sheet(runs, plan.heading, *headings)
    sign = plan.signed
    sheet.present |= {plan.baseline} - {""}
    for point, place in zip(points, places, strict=True):
        statistic = point.of
        low, high = statistic.ci95 or (None, None)
        texts = [number(statistic.mean, sign, plan.unit), number(statistic.stderr, unit=plan.unit)]
        texts.append(interval(statistic.ci95, sign, plan.unit))
        texts += [f"{statistic.n:,}", f"{statistic.n_clusters:,}", *point.beside.values()]
        fields = {"name": point.row, "value": statistic.mean, "low": low, "high": high, **place}
        sheet.add(point.run, [point.row, point.run, *texts], **fields)
    return sheet


def _figure(sheet: Sheet, points: Sequence[Point], plan: Plan, chart: Mapping[str, Any]) -> Figure:
    n = dict(plan.n or {})
    for point in () if n else points:
        n[point.run] = n.get(point.run, 0) + point.of.n
    bars = "Bars: 95% intervals; a hollow dot has none."
    caption = " ".join(filter(None, [plan.caption, bars, sample_sizes(n, plan.of)]))
    return sheet.figure(plan.name, plan.title, caption, chart, plan.section)


def specification(sheet: Sheet, *layers: Any, height: Any) -> dict[str, Any]:
    """Return the Vega-Lite specification of a figure's layers and data, without the theme."""
    chart = layers[0] if len(layers) == 1 else alt.layer(*layers)
    sized = chart.properties(width="container", height=height)
    tree: dict[str, Any] = sized.to_dict(validate=False)  # the tests validate
    # Added here, because Altair copies a chart's values whenever it changes the chart.
    tree["datasets"] = {**tree.get("datasets", {}), _SHEET: sheet.data}
    return {key: value for key, value in tree.items() if key not in ("$schema", "config")}


def name_axis(**options: Any) -> alt.Axis:
    """Return an axis for names of up to two lines (Vega's default is one)."""
    middle = {"condition": {"test": "indexof(datum.label, '\\n') >= 0", "value": -5.5}, "value": 0}
    return alt.Axis(
        title=None,
        labelExpr="split(datum.label, '\\n')",
        labelLineHeight=11,
        labelOffset=middle,
        # Leaves room for a dot at the figure's edge.
        **{"labelPadding": PADDING, "labelLimit": 215, "ticks": False, **options},
    )


def number_x(values: Sequence[float], title: str, ticks: Sequence[float] | None = None) -> alt.X:
    """Return an x channel for the field ``at``, logarithmic if its values cover a wide range.

    Without ``ticks``, the axis has grid lines and, unless logarithmic, includes 0.
    """
    low = min(values, default=0.0)
    high = max(values, default=0.0)
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
    return alt.X("at:Q", scale=scale, axis=axis)
