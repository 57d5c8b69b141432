"""Values with error bars: dots in rows of groups, and lines along an axis of numbers.

Unknown values are visible as such: a row without a value says ``n/a``, and a value without an
interval is a hollow dot.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil
from typing import Any

from harness.analysis.clustered import Statistic
from harness.report.figure import Figure
from harness.report.figures.names import interval, number, on_axis
from harness.report.figures.plot import (
    HEIGHT,
    PADDING,
    SIGNED,
    STEP,
    UNIT,
    Runs,
    Sheet,
    alt,
    known,
    name_axis,
    number_x,
    specification,
    unknown,
)
from harness.report.text import UNKNOWN

BARS = (
    "Thick bars: one standard error each way; thin bars: 95% interval. A hollow dot has no "
    "interval."
)
LINE_BARS = "Bars: 95% interval. A hollow dot has no interval."
BANDS = "Bands: 95% intervals, not adjusted. A hollow dot has no interval."

_STEP_OF_RUN = 9
_MANY = 8
_MOST_TICKS = 10


@dataclass(frozen=True, slots=True)
class Point:
    """One run's value in one row, or at one place of an axis.

    Attributes:
        row: As shown in tooltip and table.
        at: The place on an axis of numbers.
        beside: Further texts by heading; all points of a figure have the same headings. ``line``
            names one of a run's several lines.
    """

    row: str
    run: str
    of: Statistic
    at: float = 0.0
    beside: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A figure of points before it is drawn.

    Attributes:
        heading: What the rows are, or the title of the axis of numbers.
        value: What the points show.
        levels: Shown names of rows from the top, by the heading above them; it may be empty.
        bounded: Whether the values are fractions.
        baseline: The run that values are differences from.
        kinds: The lines of each run, with bands; the first is solid, the others are dashed.
    """

    name: str
    title: str
    caption: str
    section: str = "results"
    heading: str
    value: str
    of: str = "samples"
    levels: Mapping[str, Sequence[str]] = field(default_factory=dict)
    bounded: bool = True
    baseline: str = ""
    kinds: Sequence[str] = ()
    joined: bool = True


def are_fractions(points: Sequence[Point]) -> bool:
    """Return whether all values are between 0 and 1."""
    return all(0 <= one.of.mean <= 1 for one in points if one.of.mean is not None)


def dots(points: Sequence[Point], plan: Plan, runs: Runs) -> Figure:
    """Draw dots with error bars in rows of groups."""
    axis = on_axis([row for rows in plan.levels.values() for row in rows])
    order = {name: place for place, name in enumerate(runs.names.values())}
    # A dot's place in its row is not its run's: of many runs only a few may have a group.
    in_row: dict[str, list[str]] = {}
    for one in sorted(points, key=lambda one: order[one.run]):
        in_row.setdefault(one.row, []).append(one.run)
    sheet = _sheet(
        points,
        plan,
        runs,
        [{"row": axis[one.row], "slot": in_row[one.row].index(one.run)} for one in points],
    )
    deep = max(map(len, in_row.values()), default=1)
    # Names above rows have axis keys of spaces only, which no shown name is.
    heads = [
        {"row": " " * place, "level": level}
        for place, level in enumerate(plan.levels, start=1)
        if level
    ]
    domain: list[str] = []
    for place, (level, rows) in enumerate(plan.levels.items(), start=1):
        domain += [" " * place] if level else []
        domain += [axis[row] for row in rows]
    scale = alt.Scale(domain=domain)
    grid = {"condition": {"test": "trim(datum.label) == ''", "value": 0}, "value": 1}
    row = alt.Y("row:N", scale=scale, axis=name_axis(grid=True, gridOpacity=grid))
    base = sheet.base().encode(y=row)
    if deep > 1:
        base = base.encode(yOffset=alt.YOffset("slot:O", scale=alt.Scale(domain=list(range(deep)))))
    colour, shape, x = sheet.colour(), sheet.shape(), _x("value", plan)
    layers: list[Any] = []
    if plan.baseline:
        zero = alt.Chart(alt.InlineData(values=[{"zero": 0, "told": "no difference"}]))
        tooltip = [alt.Tooltip("told:N", title="0")]
        line = zero.mark_rule(strokeDash=[4, 3])
        layers.append(line.encode(x=_x("zero", plan), tooltip=tooltip))
    thin: dict[str, Any] = {"strokeWidth": 1.25}
    thick: dict[str, Any] = {"strokeWidth": 4, "opacity": 0.55}
    layers += [
        known(base, low).mark_rule(**look).encode(x=_x(low, plan), x2=f"{high}:Q", color=colour)
        for low, high, look in (("low", "high", thin), ("low_se", "high_se", thick))
    ]
    point: dict[str, Any] = {"size": 50, "strokeWidth": 1.5, "opacity": 1}
    layers += [
        known(known(base), "low")
        .mark_point(**point, fillOpacity=1)
        .encode(x=x, color=colour, fill=sheet.colour(alt.Fill), shape=shape),
        unknown(known(base), "low")
        .mark_point(**point, filled=False)
        .encode(x=x, color=colour, shape=shape),
        unknown(base).mark_text(align="left", text=UNKNOWN, fontSize=9).encode(x=alt.value(2)),
    ]
    if heads:
        above = alt.Chart(alt.InlineData(values=heads)).encode(
            x=alt.value(2),
            y=alt.Y("row:N", scale=scale),
            text="level:N",
            tooltip=[alt.Tooltip("level:N", title="level")],
        )
        layers.append(above.mark_text(align="left", fontWeight="bold", fontSize=10.5))
    # With many runs a row would be higher than a screen.
    of_run = _STEP_OF_RUN if deep <= _MANY else _STEP_OF_RUN / 2
    folded = any("\n" in name for name in axis.values())
    step = max(STEP + (4 if folded else 0), of_run * deep + 6)
    height = alt.Step(step=step, **{"for": "position"})
    return _figure(sheet, plan, specification(*layers, height=height))


def _x(name: str, plan: Plan) -> alt.X:
    scale = alt.Scale(zero=bool(plan.baseline), padding=PADDING)
    if plan.bounded:
        scale = alt.Scale(domain=[0, 1], padding=PADDING, nice=False)
    axis = alt.Axis(title=plan.value, tickCount=5, format=".1f" if plan.bounded else "~r")
    if plan.baseline:
        axis.labelExpr = SIGNED
    return alt.X(f"{name}:Q", scale=scale, axis=axis)


def lines(points: Sequence[Point], plan: Plan, runs: Runs) -> Figure:
    """Draw points with intervals along an axis of numbers."""
    numbers = sorted({one.at for one in points})
    places = [{"at": one.at, "line": one.beside.get("line", "")} for one in points]
    sheet = _sheet(points, plan, runs, places)
    ticks = numbers[:: ceil(len(numbers) / _MOST_TICKS)] if plan.joined else None
    x = number_x("at", numbers, plan.heading, ticks)
    base = sheet.base().encode(x=x, color=sheet.colour(), detail="line:N")
    scale = UNIT if plan.bounded else alt.Scale(zero=False)

    def y(name: str) -> alt.Y:
        return alt.Y(f"{name}:Q", scale=scale, axis=alt.Axis(title=plan.value, tickCount=5))

    shape, bars = sheet.shape(), known(base, "low")
    bars = bars.mark_area(opacity=0.13) if plan.kinds else bars.mark_rule(strokeWidth=1.25)
    line = known(base).mark_line(strokeWidth=2).encode(y=y("value"))
    if plan.kinds:
        legend = alt.Legend(title=None, symbolType="stroke", symbolSize=300)
        dashes = alt.Scale(domain=list(plan.kinds), range=[[1, 0], [5, 3]][: len(plan.kinds)])
        line = line.encode(
            strokeDash=alt.StrokeDash(
                "line:N", scale=dashes, legend=legend if plan.kinds[1:] else None
            )
        )
    point: dict[str, Any] = {"size": 45, "strokeWidth": 1.5, "opacity": 1}
    sure, unsure = known(known(base), "low"), unknown(known(base), "low")
    missing = unknown(base).mark_text(text=UNKNOWN, fontSize=9, baseline="bottom")
    chart = specification(
        bars.encode(y=y("low"), y2="high:Q"),
        *([line] if plan.joined else []),
        sure.mark_point(**point, filled=True).encode(y=y("value"), shape=shape),
        unsure.mark_point(**point, filled=False).encode(y=y("value"), shape=shape),
        missing.encode(y=alt.value(HEIGHT - 2)),
        height=HEIGHT,
    )
    return _figure(sheet, plan, chart)


def _figure(sheet: Sheet, plan: Plan, chart: Mapping[str, Any]) -> Figure:
    return sheet.figure(plan.name, plan.title, plan.caption, chart, plan.section)


def _sheet(
    points: Sequence[Point], plan: Plan, runs: Runs, places: Sequence[Mapping[str, Any]]
) -> Sheet:
    """Return the data of points, each with the fields that say where it is drawn."""
    beside = list(points[0].beside) if points else []
    headings = ("run", plan.value, "s.e.", "95% interval", plan.of, "units", *beside)
    sheet = Sheet(runs, plan.heading, *headings)
    sheet.present |= {plan.baseline} - {""}
    for one, place in zip(points, places, strict=True):
        of, sign = one.of, bool(plan.baseline)
        low_se = high_se = None
        if of.mean is not None and of.stderr is not None:
            low_se, high_se = of.mean - of.stderr, of.mean + of.stderr
            if plan.bounded:
                low_se, high_se = max(0.0, low_se), min(1.0, high_se)
        texts = [number(of.mean, sign), number(of.stderr), interval(of.ci95, sign)]
        texts += [f"{of.n:,}", f"{of.n_clusters:,}", *one.beside.values()]
        low, high = of.ci95 or (None, None)
        sheet.add(
            one.run,
            [one.row, one.run, *texts],
            name=one.row,
            value=of.mean,
            low=low,
            high=high,
            low_se=low_se,
            high_se=high_se,
            **place,
        )
    return sheet
