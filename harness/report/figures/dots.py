"""Dots with error bars, one row of the picture for each group and a colour for each run.

Owns that what is not known is seen to be unknown: a row without a value says
``n/a``, a value without an interval is a hollow dot.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import altair as alt

from harness.analysis.clustered import SampleStatistic
from harness.report.figures.names import interval, number, on_axis
from harness.report.figures.runs import Runs, name_axis, specification
from harness.report.figures.scales import PADDING
from harness.report.text import UNKNOWN

STEP = 22
"""Pixels of a row."""
_STEP_OF_RUN = 9
_MANY = 8
_IS_HEAD = "trim(datum.label) == ''"

SIGNED = "datum.value == 0 ? '0' : format(datum.value, '+.3~r')"
"""How the figures of an axis are written that have a sign."""

BARS = (
    "Thick bars: one standard error each way; thin ones: 95% interval. A hollow dot has no "
    "interval."
)


@dataclass(frozen=True, slots=True)
class Dot:
    """One run's figure in one row.

    row: as shown in tooltip and table.
    n: of what the figure is the mean; n_clusters: the statistical units they come from.
    beside: what else is known, by its heading: the same headings for all dots of a picture.
    """

    row: str
    run: str
    value: float | None
    stderr: float | None
    ci95: tuple[float, float] | None
    n: int
    n_clusters: int
    beside: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Plan:
    """How dots are arranged.

    heading: of the rows; value: what the dots are; of: what n counts.
    rows: shown names from the top; a heading over rows is in ``levels``.
    labels: what the axis says of a row in place of its shown name.
    levels: heading to its rows; empty where the rows have none.
    bounded: the values are rates or fractions.
    difference: they have a sign, and 0 is where nothing differs.
    """

    heading: str
    value: str
    rows: Sequence[str]
    of: str = "samples"
    levels: Mapping[str, Sequence[str]] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    bounded: bool = True
    difference: bool = False


def dot(row: str, run: str, part: SampleStatistic, beside: Mapping[str, str] | None = None) -> Dot:
    """The dot of a part of the samples."""
    return Dot(row, run, part.mean, part.stderr, part.ci95, part.n, part.n_clusters, beside or {})


def are_fractions(dots: Sequence[Dot]) -> bool:
    """Whether all values are between 0 and 1."""
    return all(0 <= one.value <= 1 for one in dots if one.value is not None)


def table(dots: Sequence[Dot], plan: Plan) -> tuple[list[str], list[list[str]]]:
    """The headings, and a row for each dot."""
    beside = list(dots[0].beside) if dots else []
    others = ["run", plan.value, "s.e.", "95% interval", plan.of, "units", *beside]
    # A label may be called anything; a tooltip has one line of a name.
    heading = f"group of {plan.heading}" if plan.heading in others else plan.heading
    return [heading, *others], [
        [one.row, one.run, *_texts(one, plan), *one.beside.values()] for one in dots
    ]


def chart(dots: Sequence[Dot], plan: Plan, runs: Runs) -> dict[str, Any]:
    """The picture."""
    axis = on_axis(plan.rows, plan.labels)
    domain = list(_domain(plan, axis))
    present = {one.run for one in dots}
    values = [{"row": axis[one.row], **datum(one, plan, runs)} for one in dots]
    slots = _slots(dots, runs)
    for value, slot in zip(values, slots, strict=True):
        value["slot"] = slot
    deep = max(slots, default=0) + 1
    folded = any("\n" in row for row in axis.values())
    # Of many runs a row would be higher than a screen.
    of_run = _STEP_OF_RUN if deep <= _MANY else _STEP_OF_RUN / 2
    step = max(STEP + (4 if folded else 0), of_run * deep + 6)
    base = alt.Chart(alt.InlineData(values=values)).encode(
        y=alt.Y(
            "row:N",
            scale=alt.Scale(domain=domain),
            axis=name_axis(
                grid=True, gridOpacity={"condition": {"test": _IS_HEAD, "value": 0}, "value": 1}
            ),
        ),
        tooltip=tooltip(dots, plan),
    )
    if deep > 1:
        base = base.encode(yOffset=alt.YOffset("slot:O", scale=alt.Scale(domain=list(range(deep)))))
    colour, shape = runs.colour(present), runs.shape(present)
    fill = runs.colour(present, alt.Fill)
    x = _x("value", plan)
    known = base.transform_filter("isValid(datum.value)")
    layers: list[Any] = []
    if plan.difference:
        zero = alt.Chart(alt.InlineData(values=[{"zero": 0, "told": "no difference"}]))
        layers.append(
            zero.mark_rule(strokeDash=[4, 3]).encode(
                x=_x("zero", plan), tooltip=[alt.Tooltip("told:N", title="0")]
            )
        )
    layers += [
        base.transform_filter("isValid(datum.low)")
        .mark_rule(strokeWidth=1.25)
        .encode(x=_x("low", plan), x2="high:Q", color=colour),
        base.transform_filter("isValid(datum.low_se)")
        .mark_rule(strokeWidth=4, opacity=0.55)
        .encode(x=_x("low_se", plan), x2="high_se:Q", color=colour),
        known.transform_filter("isValid(datum.low)")
        .mark_point(size=50, strokeWidth=1.5, fillOpacity=1, opacity=1)
        .encode(x=x, color=colour, fill=fill, shape=shape),
        known.transform_filter("!isValid(datum.low)")
        .mark_point(size=50, strokeWidth=1.5, filled=False, opacity=1)
        .encode(x=x, color=colour, shape=shape),
        base.transform_filter("!isValid(datum.value)")
        .mark_text(align="left", text=UNKNOWN, fontSize=9)
        .encode(x=alt.value(2)),
    ]
    if plan.levels:
        heads = [{"row": key, "level": level} for level, key in _heads(plan).items()]
        layers.append(
            alt.Chart(alt.InlineData(values=heads))
            .mark_text(align="left", fontWeight="bold", fontSize=10.5)
            .encode(
                x=alt.value(2),
                y=alt.Y("row:N", scale=alt.Scale(domain=domain)),
                text="level:N",
                tooltip=[alt.Tooltip("level:N", title="level")],
            )
        )
    picture = alt.layer(*layers).properties(
        width="container", height=alt.Step(step=step, **{"for": "position"})
    )
    return specification(picture)


def _slots(dots: Sequence[Dot], runs: Runs) -> list[int]:
    """For each dot its place among those of its row, in the order of the runs.

    Not the run's own place: of many runs, few may have a group.
    """
    order = {name: place for place, name in enumerate(runs.names.values())}
    here: dict[str, list[str]] = {}
    for one in dots:
        here.setdefault(one.row, []).append(one.run)
    places = {row: sorted(names, key=order.__getitem__) for row, names in here.items()}
    return [places[one.row].index(one.run) for one in dots]


def _x(name: str, plan: Plan) -> alt.X:
    scale = alt.Scale(zero=plan.difference, padding=PADDING)
    if plan.bounded:
        scale = alt.Scale(domain=[0, 1], padding=PADDING, nice=False)
    axis = alt.Axis(title=plan.value, tickCount=5, format=".1f" if plan.bounded else "~r")
    if plan.difference:
        axis.labelExpr = SIGNED
    return alt.X(f"{name}:Q", scale=scale, axis=axis)


def _heads(plan: Plan) -> dict[str, str]:
    """Headings over rows to their keys on the axis: spaces alone, which no shown name is."""
    return {level: " " * place for place, level in enumerate(plan.levels, start=1)}


def _domain(plan: Plan, axis: Mapping[str, str]) -> Iterator[str]:
    if not plan.levels:
        yield from (axis[row] for row in plan.rows)
    for level, key in _heads(plan).items():
        yield key
        yield from (axis[row] for row in plan.levels[level])


def _texts(one: Dot, plan: Plan) -> list[str]:
    return [
        number(one.value, plan.difference),
        number(one.stderr),
        interval(one.ci95, plan.difference),
        f"{one.n:,}",
        f"{one.n_clusters:,}",
    ]


_FIELDS = ("name", "run", "figure", "error", "between", "n", "units")


def tooltip(dots: Sequence[Dot], plan: Plan) -> list[alt.Tooltip]:
    """What a dot tells: its row of the table."""
    headings, _ = table(dots[:1], plan)
    names = [*_FIELDS, *(f"beside{i}" for i in range(len(headings) - len(_FIELDS)))]
    return [
        alt.Tooltip(f"{name}:N", title=title) for name, title in zip(names, headings, strict=True)
    ]


def datum(one: Dot, plan: Plan, runs: Runs) -> dict[str, Any]:
    """A dot as the chart has it; where it is has to be added."""
    texts = dict(zip(_FIELDS[2:], _texts(one, plan), strict=True))
    found: dict[str, Any] = {"name": one.row, "run": one.run, "key": runs.keys[one.run], **texts}
    found |= {f"beside{i}": text for i, text in enumerate(one.beside.values())}
    found["value"] = one.value
    found["low"], found["high"] = one.ci95 or (None, None)
    found["low_se"] = found["high_se"] = None
    if one.value is not None and one.stderr is not None:
        low, high = one.value - one.stderr, one.value + one.stderr
        if plan.bounded:
            low, high = max(0.0, low), min(1.0, high)
        found["low_se"], found["high_se"] = low, high
    return found
