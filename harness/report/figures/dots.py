"""Values with error bars: dots in rows of groups, and lines for groups whose names are numbers.

Unknown values are visible as such: a row without a value says ``n/a``, and a value without an
interval is a hollow dot.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import isfinite
from typing import Any

from harness.analysis.clustered import Statistic
from harness.report.figures.names import interval, number, on_axis
from harness.report.figures.runs import (
    PADDING,
    SIGNED,
    STEP,
    UNIT,
    Runs,
    Sheet,
    alt,
    bounds,
    known,
    name_axis,
    number_scale,
    number_title,
    specification,
    unknown,
)
from harness.report.text import UNKNOWN

BARS = (
    "Thick bars: one standard error each way; thin bars: 95% interval. A hollow dot has no "
    "interval."
)
LINE_BARS = "Bars: 95% interval. A hollow dot has no interval."
LEAST_OF_LINE = 3
"""Groups needed for a line."""

_STEP_OF_RUN = 9
_MANY = 8
_LINE_HEIGHT = 240
_MOST_TICKS = 10
_IS_HEAD = "trim(datum.label) == ''"
_NUMBER = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]{1,3})?")


@dataclass(frozen=True, slots=True)
class Dot:
    """One run's value in one row.

    Attributes:
        row: As shown in tooltip and table.
        beside: Further texts by heading; all dots of a figure have the same headings.
    """

    row: str
    run: str
    of: Statistic
    beside: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class DotPlan:
    """The layout of dots.

    Attributes:
        heading: Heading of the rows.
        value: What the dots show.
        rows: Shown names from the top.
        of: What n counts.
        levels: Headings above rows; empty for none.
        labels: Axis labels that replace row names.
        bounded: Whether the values are fractions.
        difference: Whether the values are signed, with 0 for no difference.
    """

    heading: str
    value: str
    rows: Sequence[str]
    of: str = "samples"
    levels: Mapping[str, Sequence[str]] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    bounded: bool = True
    difference: bool = False


def are_fractions(dots: Sequence[Dot]) -> bool:
    """Return whether all values are between 0 and 1."""
    return all(0 <= one.of.mean <= 1 for one in dots if one.of.mean is not None)


def dot_chart(dots: Sequence[Dot], plan: DotPlan, runs: Runs) -> tuple[dict[str, Any], Sheet]:
    """Draw dots in rows."""
    axis = on_axis(plan.rows, plan.labels)
    domain = list(_domain(plan, axis))
    slots = _slots(dots, runs)
    places = [{"row": axis[one.row], "slot": slot} for one, slot in zip(dots, slots, strict=True)]
    sheet = _sheet(dots, plan, runs, places)
    deep = max(slots, default=0) + 1
    folded = any("\n" in row for row in axis.values())
    # With many runs a row would be higher than a screen.
    of_run = _STEP_OF_RUN if deep <= _MANY else _STEP_OF_RUN / 2
    step = max(STEP + (4 if folded else 0), of_run * deep + 6)
    grid = {"condition": {"test": _IS_HEAD, "value": 0}, "value": 1}
    scale = alt.Scale(domain=domain)
    row = alt.Y("row:N", scale=scale, axis=name_axis(grid=True, gridOpacity=grid))
    base = sheet.base().encode(y=row)
    if deep > 1:
        base = base.encode(yOffset=alt.YOffset("slot:O", scale=alt.Scale(domain=list(range(deep)))))
    present = {one.run for one in dots}
    colour, shape = runs.colour(present), runs.shape(present)
    x = _x("value", plan)
    layers: list[Any] = []
    if plan.difference:
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
        .encode(x=x, color=colour, fill=runs.colour(present, alt.Fill), shape=shape),
        unknown(known(base), "low")
        .mark_point(**point, filled=False)
        .encode(x=x, color=colour, shape=shape),
        unknown(base).mark_text(align="left", text=UNKNOWN, fontSize=9).encode(x=alt.value(2)),
    ]
    if plan.levels:
        heads = [{"row": key, "level": level} for level, key in _heads(plan).items()]
        layers.append(
            alt.Chart(alt.InlineData(values=heads))
            .mark_text(align="left", fontWeight="bold", fontSize=10.5)
            .encode(
                x=alt.value(2),
                y=alt.Y("row:N", scale=scale),
                text="level:N",
                tooltip=[alt.Tooltip("level:N", title="level")],
            )
        )
    height = alt.Step(step=step, **{"for": "position"})
    return specification(*layers, height=height), sheet


def as_numbers(groups: Sequence[str]) -> dict[str, float] | None:
    """Return the number of each group, or None if one has none, or two have the same.

    >>> as_numbers(["2", "10"])
    {'2': 2.0, '10': 10.0}
    >>> as_numbers(["2", "10", "other"])
    """
    found = {group: float(group) for group in groups if _NUMBER.fullmatch(group)}
    differ = len(set(found.values())) == len(groups)
    return found if differ and all(map(isfinite, found.values())) else None


def line_chart(
    dots: Sequence[Dot], at: Mapping[str, float], plan: DotPlan, runs: Runs
) -> tuple[dict[str, Any], Sheet]:
    """Draw lines along an axis of numbers, one for each row."""
    present = {one.run for one in dots}
    numbers = sorted(at.values())
    few = len(numbers) <= _MOST_TICKS
    axis = alt.Axis(
        title=number_title(numbers, plan.heading),
        format="~g",
        grid=False,
        **({"values": numbers} if few else {"tickCount": _MOST_TICKS}),
    )
    sheet = _sheet(dots, plan, runs, [{"at": at[one.row]} for one in dots])
    base = sheet.base().encode(
        x=alt.X("at:Q", axis=axis, scale=number_scale(numbers, zero=False)),
        color=runs.colour(present),
    )
    scale = UNIT if plan.bounded else alt.Scale(zero=False)

    def y(field: str) -> alt.Y:
        return alt.Y(f"{field}:Q", scale=scale, axis=alt.Axis(title=plan.value, tickCount=5))

    shape = runs.shape(present)
    bars = known(base, "low").mark_rule(strokeWidth=1.25, opacity=0.7)
    sure, unsure = known(known(base), "low"), unknown(known(base), "low")
    hollow = unsure.mark_point(filled=False, size=45, strokeWidth=1.5, opacity=1)
    missing = unknown(base).mark_text(text=UNKNOWN, fontSize=9, baseline="bottom")
    chart = specification(
        bars.encode(y=y("low"), y2="high:Q"),
        known(base).mark_line(strokeWidth=1.5).encode(y=y("value")),
        sure.mark_point(filled=True, size=45, opacity=1).encode(y=y("value"), shape=shape),
        hollow.encode(y=y("value"), shape=shape),
        missing.encode(y=alt.value(_LINE_HEIGHT - 2)),
        height=_LINE_HEIGHT,
    )
    return chart, sheet


def _sheet(
    dots: Sequence[Dot], plan: DotPlan, runs: Runs, places: Sequence[Mapping[str, Any]]
) -> Sheet:
    """Build the data of dots.

    Args:
        dots: The dots.
        plan: Their layout.
        runs: The runs.
        places: The fields that say where each dot is.
    """
    beside = list(dots[0].beside) if dots else []
    others = ["run", plan.value, "s.e.", "95% interval", plan.of, "units", *beside]
    # A label may have any name, and a tooltip has one line per name.
    heading = f"group of {plan.heading}" if plan.heading in others else plan.heading
    sheet = Sheet(heading, *others)
    for one, place in zip(dots, places, strict=True):
        of = one.of
        low_se = high_se = None
        if of.mean is not None and of.stderr is not None:
            low_se, high_se = of.mean - of.stderr, of.mean + of.stderr
            if plan.bounded:
                low_se, high_se = max(0.0, low_se), min(1.0, high_se)
        texts = [number(of.mean, plan.difference), number(of.stderr)]
        texts += [interval(of.ci95, plan.difference), f"{of.n:,}", f"{of.n_clusters:,}"]
        sheet.add(
            [one.row, one.run, *texts, *one.beside.values()],
            name=one.row,
            key=runs.keys[one.run],
            value=of.mean,
            low_se=low_se,
            high_se=high_se,
            **bounds(of.ci95),
            **place,
        )
    return sheet


def _slots(dots: Sequence[Dot], runs: Runs) -> list[int]:
    """Return each dot's position among those of its row, in the order of the runs.

    It differs from the run's own position, because of many runs only a few may have a group.
    """
    order = {name: place for place, name in enumerate(runs.names.values())}
    here: dict[str, list[str]] = {}
    for one in dots:
        here.setdefault(one.row, []).append(one.run)
    places = {row: sorted(names, key=order.__getitem__) for row, names in here.items()}
    return [places[one.row].index(one.run) for one in dots]


def _x(name: str, plan: DotPlan) -> alt.X:
    scale = alt.Scale(zero=plan.difference, padding=PADDING)
    if plan.bounded:
        scale = alt.Scale(domain=[0, 1], padding=PADDING, nice=False)
    axis = alt.Axis(title=plan.value, tickCount=5, format=".1f" if plan.bounded else "~r")
    if plan.difference:
        axis.labelExpr = SIGNED
    return alt.X(f"{name}:Q", scale=scale, axis=axis)


def _heads(plan: DotPlan) -> dict[str, str]:
    """Map headings above rows to their axis keys: spaces only, which no shown name is."""
    return {level: " " * place for place, level in enumerate(plan.levels, start=1)}


def _domain(plan: DotPlan, axis: Mapping[str, str]) -> Iterator[str]:
    if not plan.levels:
        yield from (axis[row] for row in plan.rows)
    for level, key in _heads(plan).items():
        yield key
        yield from (axis[row] for row in plan.levels[level])
