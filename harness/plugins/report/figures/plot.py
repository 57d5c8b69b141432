"""Building blocks of figures: runs with their colours, data with tooltips, and drawing functions.

A missing value is shown as ``n/a``, and a value without an interval as a hollow dot.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from math import ceil, inf
from typing import Any

from harness.analysis.breakdown import mean_by_group, rows_for_score
from harness.analysis.metrics import PASS_RATE, SampleStatistic, Statistic
from harness.plugins.comparisons.comparison_document import ShownUnit
from harness.plugins.comparisons.run_comparison import RunComparison
from harness.plugins.report.figure import (
    Figure,
    display_names,
    filled,
    in_legend,
    interval,
    number,
    on_axis,
    run_shapes,
    sample_sizes,
)
from harness.plugins.report.runs import ReportedRun, unit_of
from harness.report.runs import common_prefix
from harness.report.text import escape_unprintable

LAST_ROUNDS = "last rounds"
STEP = 24  # pixels per row, enough for a two-line name
_STEP_OF_RUN = 9
HEIGHT = 240
_WIDE = 50  # An axis is logarithmic if its values differ by more than this factor
_LONG_KEY = 16  # maximum characters of names in a two-column legend
_MOST_TICKS = 10


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
        marks: dict[str, Sequence[str]] = {}
        if comparison is not None:
            for against in comparison.others:
                marks[against.run] = against.marks
            marks[comparison.baseline] = comparison.marks
        for run in runs:
            marks[run.name] = run.marks
        names = display_names([*(run.name for run in runs), *marks])  # the report's own runs first
        start = len(common_prefix(names.values()))
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
        if len(measures) != 1:
            return None
        return measures.pop()

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
        what = "pass rate"
        if self.measure is not None:
            what = f"mean {escape_unprintable(self.measure)}"
        return self.of_answers(what, answers)

    def of_answers(self, what: str, answers: str) -> str:
        """Return the text ``what`` or, if any run has several rounds, "``what`` of ``answers``"."""
        if self.several_rounds:
            return f"{what} of {answers}"
        return what

    def measured(
        self, run: ReportedRun, *labels: str, last: bool = False
    ) -> Mapping[tuple[str, ...], SampleStatistic]:
        """Return a run's `measure` by group of the labels, over first or ``last`` answers."""
        round_ = None if last or not self.several_rounds else 1
        answers = rows_for_score(run.attempts.last_rounds(round_), self.measure or "")
        return mean_by_group(answers, self.measure or PASS_RATE, *labels)


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
        for column, text in enumerate(texts):
            fields[f"t{column}"] = text
        self.data.append(fields)

    def chart(self, template: str, **values: object) -> dict[str, Any]:
        """Return the Vega-Lite specification of the data, without the theme.

        ``values`` are those of the template in ``charts/``.
        """
        tooltip = []
        for column, title in enumerate(self.headings):
            tooltip.append({"field": f"t{column}", "type": "nominal", "title": title})
        tree = filled(template, tooltip=tooltip, runs=self._looks(), **values)
        tree["width"] = "container"
        tree.setdefault("datasets", {})["sheet"] = self.data
        return tree

    def _looks(self) -> dict[str, object]:
        """Return the names of all runs, their shapes, and the legend if there are several."""
        keys = list(self._runs.short.values())
        legend = None
        if len(keys) > 1:
            values = []
            columns = 2
            for name, key in self._runs.short.items():
                if name in self.present:
                    values.append(key)
                    if len(key) > _LONG_KEY:  # two columns would not fit on a small screen
                        columns = 1
            legend = {"title": None, "values": values, "columns": columns, "symbolOpacity": 1}
        shapes = run_shapes(len(keys))
        return {"present": bool(self.present), "names": keys, "shapes": shapes, "legend": legend}

    def figure(
        self, name: str, title: str, caption: str, chart: Mapping[str, Any], section: str = ""
    ) -> Figure:
        """Build the figure of a chart, with the marks of its runs in title and caption."""
        by_mark: dict[str, list[str]] = {}
        for run, marks in self._runs.marks.items():
            if run in self.present:
                for mark in marks:
                    by_mark.setdefault(escape_unprintable(mark), []).append(run)
        title = title[:1].upper() + title[1:]
        words = ", ".join(dict.fromkeys(mark.split(" ")[0] for mark in by_mark))
        if words:
            title += f" ({words})"
        sentences = []
        for mark, runs in by_mark.items():
            if mark not in words or len(runs) < len(self.present):  # the title has the others
                sentences.append(f"{mark}: {', '.join(runs)}.")
        sentences.append(caption)
        return Figure(
            name=name,
            title=title,
            caption=" ".join(sentences),
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
    rows = list(chain.from_iterable(plan.levels.values()))
    axis = dict(zip(rows, on_axis(rows), strict=True))
    order = {name: place for place, name in enumerate(runs.names.values())}
    # A dot's position in its row is not fixed per run: few of many runs may have a group.
    in_row: dict[str, list[str]] = {}
    for point in sorted(points, key=lambda point: order[point.run]):
        in_row.setdefault(point.row, []).append(point.run)
    places = []
    for point in points:
        slot = in_row[point.row].index(point.run)
        places.append({"row": axis[point.row], "slot": slot})
    sheet = _sheet(points, plan, runs, places)
    domain: list[str] = []
    levels = []
    for place, (level, of_level) in enumerate(plan.levels.items(), start=1):
        if level:  # its row is named by spaces alone, unlike any shown name
            levels.append({"row": " " * place, "level": level})
            domain.append(" " * place)
        domain += [axis[row] for row in of_level]
    depth = max(map(len, in_row.values()), default=1)
    height = {"step": max(STEP, _STEP_OF_RUN * depth + 6), "for": "position"}
    options = {"rows": domain, "depth": depth, "levels": levels, "height": height}
    chart = points_chart(sheet, plan.value, plan.unit, signed=plan.signed, **options)
    return _figure(sheet, points, plan, chart)


def lines(points: Sequence[Point], plan: Plan, runs: Runs) -> Figure:
    """Draw points along a numeric axis, with their intervals as bars."""
    sheet = _sheet(points, plan, runs, [{"at": point.at} for point in points])
    numbers = sorted({point.at for point in points})
    ticks = None
    if plan.joined:
        ticks = numbers[:: ceil(len(numbers) / _MOST_TICKS)]
    options: dict[str, Any] = {"at": number_axis(numbers, plan.heading, ticks)}
    if plan.frontier:
        mark = {"type": "line", "interpolate": "step-after", "strokeDash": [4, 4], "opacity": 0.6}
        options |= {"curve": [*_frontier(points)], "curve_mark": mark, "frontier": True}
    chart = points_chart(sheet, plan.value, plan.unit, joined=plan.joined, **options)
    return _figure(sheet, points, plan, chart)


def _frontier(points: Sequence[Point]) -> Iterator[dict[str, Any]]:
    best = -inf
    for point in sorted(points, key=lambda point: (point.at, -(point.of.mean or 0.0))):
        mean = point.of.mean
        if mean is not None and mean > best:
            best = mean
            yield {"at": point.at, "value": best, "told": "no run is cheaper and better"}


def points_chart(
    sheet: Sheet, value: str, unit: ShownUnit, *, signed: bool = False, **options: object
) -> dict[str, Any]:
    """Return a chart of the values of a sheet with their intervals.

    ``value`` is the title of their axis. If ``signed``, they are differences. ``options`` are the
    other values of ``charts/points.json.j2``.
    """
    values = [point["value"] for point in sheet.data if point["value"] is not None]
    bounded = not signed and all(0 <= value <= 1 for value in values)
    options = {"height": HEIGHT, "percent": unit.percent, **options}
    return sheet.chart("points", value=value, signed=signed, bounded=bounded, **options)


def _sheet(
    points: Sequence[Point], plan: Plan, runs: Runs, places: Sequence[Mapping[str, Any]]
) -> Sheet:
    headings = [plan.heading, "run", plan.value, "s.e.", "95% interval", plan.of, "units"]
    if points:
        headings += points[0].beside
    sheet = Sheet(runs, *headings)
    if plan.baseline:
        sheet.present.add(plan.baseline)
    for point, place in zip(points, places, strict=True):
        statistic = point.of
        low, high = statistic.ci95 or (None, None)
        texts = [point.row, point.run, number(statistic.mean, plan.signed, plan.unit)]
        texts.append(number(statistic.stderr, unit=plan.unit))
        texts.append(interval(statistic.ci95, plan.signed, plan.unit))
        texts += [f"{statistic.n:,}", f"{statistic.n_clusters:,}", *point.beside.values()]
        fields = {"name": point.row, "value": statistic.mean, "low": low, "high": high}
        sheet.add(point.run, texts, **fields, **place)
    return sheet


def _figure(sheet: Sheet, points: Sequence[Point], plan: Plan, chart: Mapping[str, Any]) -> Figure:
    n = plan.n
    if not n:
        n = Counter[str]()
        for point in points:
            n[point.run] += point.of.n
    sentences = ["Bars: 95% intervals; a hollow dot has none.", sample_sizes(n, plan.of)]
    if plan.caption:
        sentences.insert(0, plan.caption)
    return sheet.figure(plan.name, plan.title, " ".join(sentences), chart, plan.section)


def number_axis(
    values: Sequence[float], title: str, ticks: Sequence[float] | None = None
) -> dict[str, object]:
    """Return an axis for the field ``at``, logarithmic if its values cover a wide range.

    Without ``ticks``, the axis has grid lines and, unless logarithmic, includes 0.
    """
    low = min(values, default=0.0)
    high = max(values, default=0.0)
    logarithmic = low > 0 and high / low > _WIDE
    if logarithmic:
        title = f"{title} (logarithmic)"
    return {"title": title, "ticks": ticks, "logarithmic": logarithmic}
