"""Figures of which kinds of base constraints are met, and how far off failing answers are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import ceil, floor
from typing import Any

from harness.analysis.constraints import MAX_REASONS, ConstraintKind
from harness.analysis.run_comparison import RunComparison
from harness.report.figures.dots import BARS, Dot, DotPlan, dot_chart
from harness.report.figures.figure import Figure
from harness.report.figures.groups import UNITS, compared_rounds, counts, most, only
from harness.report.figures.names import counted, kinds_on_axis, natural, number, shown, slug
from harness.report.figures.runs import SIGNED, Drawn, Runs, Sheet, alt, specification

MOST_KINDS = 6
"""Kinds whose misses are drawn."""
BINS = 30
"""Most bins of a histogram, besides two for what is further off at either end."""

_TAIL = 0.02
_LEAST = 4
_STEPS = (1, 2, 5, 10, 20, 25, 50)

Kinds = Mapping[str, Mapping[str, ConstraintKind]]
"""Kind, then shown name of a run, to how often it is met."""
OffBy = Mapping[str, Mapping[float, int]]
"""Shown name of a run to its misses: observed minus wanted, to how many."""


def constraint_figures(runs: Runs, comparison: RunComparison | None) -> Iterator[Figure]:
    """Draw the share that is met by kind, and a histogram for kinds with the most numeric
    misses.
    """
    found: dict[str, dict[str, ConstraintKind]] = {}
    for run in runs.every:
        for one in run.constraints:
            found.setdefault(one.kind, {})[runs.shown(run)] = one
    if found:
        rounds = compared_rounds(comparison)
        yield _met(runs, found, rounds)
        yield from _misses(runs, found, rounds)


def _met(runs: Runs, found: Kinds, rounds: str) -> Figure:
    kept = most({kind: sum(one.n for one in of.values()) for kind, of in found.items()})
    names = shown(kept)
    dots = [
        Dot(names[kind], run, one, {"failed": f"{one.n_failed:,}"})
        for kind in kept
        for run, one in found[kind].items()
    ]
    labels = kinds_on_axis(names.values())
    plan = DotPlan("constraint", "share met", list(names.values()), of="constraints", labels=labels)
    chart, sheet = dot_chart(dots, plan, runs)
    caption = (
        f"Dots: share of the base constraints of a kind that are met{_of(runs, rounds)}, each "
        f"constraint with equal weight.{only(len(kept), len(found), 'most frequent', 'kinds')}"
        f"{_without(runs)} {BARS} {counts(dots, 'constraints')} {UNITS}"
    )
    title = runs.titled("base constraints met, by kind", rounds)
    drawn = Drawn("constraints", title, caption, chart, sheet, "constraints")
    return runs.figure(drawn, {one.run for one in dots})


def _without(runs: Runs) -> str:
    left_out = {runs.shown(r): r.without_constraints for r in runs.every if r.without_constraints}
    if not left_out:
        return ""
    told = ", ".join(f"{run} {count:,}" for run, count in left_out.items())
    return f" Excluded, samples without any (refused, empty, failed): {told}."


def _misses(runs: Runs, found: Kinds, rounds: str) -> Iterator[Figure]:
    numeric = {
        kind: {run: one.off_by for run, one in of.items() if one.off_by}
        for kind, of in found.items()
    }
    sizes = {kind: sum(sum(o.values()) for o in of.values()) for kind, of in numeric.items()}
    most = sorted(
        (kind for kind, size in sizes.items() if size), key=lambda k: (-sizes[k], natural(k))
    )
    names = shown(most)
    for kind in most[:MOST_KINDS]:
        yield _miss(runs, names[kind], numeric[kind], rounds)


def _miss(runs: Runs, kind: str, off_by: Mapping[str, Mapping[float, int]], rounds: str) -> Figure:
    n = {run: sum(of.values()) for run, of in off_by.items()}
    cut = [run for run, of in off_by.items() if len(of) >= MAX_REASONS]
    rare = f" Of {', '.join(cut)} only the {MAX_REASONS} most frequent misses." if cut else ""
    in_which = f" in {rounds}" if runs.several_rounds else ""
    caption = (
        f"Bars: failed constraints of this kind by observed minus wanted{_of(runs, rounds)}; below "
        f"0 is too few. {counted(n, 'misses')}{rare} The unit is the constraint."
    )
    chart, sheet = miss_chart(off_by, runs)
    title = f"How far off{in_which}: {kind}"
    return runs.figure(
        Drawn(f"off_by_{slug(kind)}", title, caption, chart, sheet, "constraints"), off_by
    )


def _of(runs: Runs, rounds: str) -> str:
    return f", of {rounds}" if runs.several_rounds else ""


@dataclass(frozen=True, slots=True)
class MissBin:
    """A bin of a histogram, from ``low`` to below ``high``; None is an open end."""

    low: float | None
    high: float | None
    drawn: tuple[float, float]

    def holds(self, value: float) -> bool:
        """Return whether a miss belongs in this bin."""
        return (self.low is None or self.low <= value) and (self.high is None or value < self.high)

    def said(self, *, integers: bool) -> str:
        """Describe the bin in words."""
        last = None if self.high is None else self.high - 1 if integers else self.high
        if self.low is None:
            return f"{_text(last)} or less" if integers else f"below {_text(last)}"
        if last is None:
            return f"{_text(self.low)} or more"
        if last == self.low:
            return _text(self.low)
        return f"{_text(self.low)} to {'' if integers else 'below '}{_text(last)}"


def bins(off_by: OffBy) -> list[MissBin]:
    """Choose bins of one whole number each, or wider ones if those would be too many.

    The furthest misses, 2% at either end, share a bin, so that one answer that is off by thousands
    does not hide the others.
    """
    total: dict[float, int] = {}
    for of in off_by.values():
        for value, count in of.items():
            total[value] = total.get(value, 0) + count
    values = sorted(total)
    low, high = values[0], values[-1]
    if high - low >= BINS:
        low, high = _quantile(total, _TAIL), _quantile(total, 1 - _TAIL)
    integers = _integers(off_by)
    width = _width(low, high, integers=integers)
    # Bars of whole numbers stand over them, not beside them.
    shift = 0.5 if integers else 0.0
    found = [
        MissBin(left, right, (left - shift, right - shift))
        for left, right in pairwise(_edges(low, high, width, integers=integers))
    ]
    least, most = found[0].drawn[0] + shift, found[-1].drawn[1] + shift
    if values[0] < least:
        found.insert(0, MissBin(None, least, (least - width - shift, least - shift)))
    if values[-1] >= most:
        found.append(MissBin(most, None, (most - shift, most + width - shift)))
    return found


def misses_by_bin(off_by: OffBy, every: Sequence[MissBin]) -> Iterator[tuple[str, MissBin, int]]:
    """Run, bin and number of misses, for the bins that are not empty."""
    for run, of in off_by.items():
        for one in every:
            if count := sum(count for value, count in of.items() if one.holds(value)):
                yield run, one, count


def miss_chart(off_by: OffBy, runs: Runs) -> tuple[dict[str, Any], Sheet]:
    """Draw a histogram with the bars of the runs side by side in each bin."""
    places = {run: place for place, run in enumerate(off_by)}
    integers = _integers(off_by)
    every = bins(off_by)
    # With 0 in sight, and not one bar as wide as the figure.
    step = max(right - left for left, right in (one.drawn for one in every))
    misses = [value for of in off_by.values() for value in of]
    domain = [
        min(every[0].drawn[0], -_LEAST * step if min(misses) < 0 else -step / 2),
        max(every[-1].drawn[1], _LEAST * step if max(misses) > 0 else step / 2),
    ]
    sheet = Sheet("run", "off by", "misses")
    for run, one, count in misses_by_bin(off_by, every):
        left, right = one.drawn
        share = (right - left) * 0.9 / len(places)
        start = left + (right - left) * 0.05 + places[run] * share
        sheet.add(
            [run, one.said(integers=integers), f"{count:,}"],
            run=run,
            key=runs.keys[run],
            start=start,
            end=start + share,
            count=count,
            zero=0,
        )
    axis = alt.Axis(
        title="observed minus wanted",
        labelExpr=SIGNED,
        tickCount=7,
        tickMinStep=1 if integers else 0,
        grid=False,
    )
    chart = sheet.base().encode(
        x=alt.X("start:Q", scale=alt.Scale(domain=domain, nice=False, padding=6), axis=axis),
        x2="end:Q",
        y=alt.Y("count:Q", axis=alt.Axis(title="misses", tickCount=4, tickMinStep=1, format="~s")),
        y2="zero:Q",
        color=runs.colour(off_by),
    )
    return specification(chart.mark_rect(), height=150), sheet


def _edges(low: float, high: float, width: float, *, integers: bool) -> list[float]:
    """Return the edges of bins that hold ``low`` and ``high``.

    With whole numbers no bin holds both too little and too much: 0 has its own bin.
    """
    if not integers:
        return [i * width for i in range(floor(low / width), floor(high / width) + 2)]
    edges = {0.0, 1.0} if low <= 0 <= high else set()
    if low < 0:
        first, last = ceil(max(1.0, -high) / width) - 1, ceil(-low / width)
        edges |= {-i * width for i in range(first, last + 1)}
    if high > 0:
        first, last = int((max(1.0, low) - 1) // width), int((high - 1) // width) + 1
        edges |= {1 + i * width for i in range(first, last + 1)}
    return sorted(edges)


def _integers(off_by: OffBy) -> bool:
    return all(float(value).is_integer() for of in off_by.values() for value in of)


def _width(low: float, high: float, *, integers: bool) -> float:
    if integers and high - low < BINS:
        return 1.0
    scale = 1.0
    if not integers:
        while (high - low) / scale < 1 and scale > 1e-12:
            scale /= 10
        scale /= 10
    while True:
        for step in _STEPS:
            if ceil((high - low) / (step * scale)) < BINS:
                return step * scale
        scale *= 10


def _quantile(total: Mapping[float, int], share: float) -> float:
    """Return the smallest value such that at least this share of the total lies at or below it."""
    wanted, seen = share * sum(total.values()), 0
    for value in sorted(total):
        seen += total[value]
        if seen >= wanted:
            return value
    return max(total)


def _text(value: float | None) -> str:
    if value is None or value == 0:
        return "0"
    return f"{value:+,.0f}" if float(value).is_integer() else number(value, sign=True)
