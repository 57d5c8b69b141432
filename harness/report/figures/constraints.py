"""Figures of which kinds of base constraints are met, and how far off failing answers are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import ceil, floor, log10
from typing import Any

from harness.analysis.constraints import MAX_REASONS, ConstraintKind
from harness.analysis.run_comparison import RunComparison
from harness.report.figure import Figure
from harness.report.figures.names import counted, natural, number, shown, slug
from harness.report.figures.plot import SIGNED, Runs, Sheet, alt, specification
from harness.report.figures.points import BARS, Plan, Point, dots
from harness.report.figures.rates import compared_rounds, counts, most

MOST_KINDS = 6
"""Kinds whose misses are drawn."""
BINS = 30
"""Most bins of a histogram, besides two for what is further off at either end."""

_TAIL = 0.02
_LEAST = 4

OffBy = Mapping[str, Mapping[float, int]]
"""Shown name of a run to its misses: observed minus wanted, to how many."""


def constraint_figures(runs: Runs, comparison: RunComparison | None) -> Iterator[Figure]:
    """Draw the share met by kind, and histograms of the kinds with most numeric misses."""
    found: dict[str, dict[str, ConstraintKind]] = {}
    for run in runs.every:
        for one in run.constraints:
            found.setdefault(one.kind, {})[runs.shown(run)] = one
    if not found:
        return
    rounds = compared_rounds(comparison)
    yield _met(runs, found, rounds)
    numeric = {
        kind: {run: one.off_by for run, one in of.items() if one.off_by}
        for kind, of in found.items()
    }
    sizes = {kind: sum(sum(o.values()) for o in of.values()) for kind, of in numeric.items() if of}
    chosen = sorted(sizes, key=lambda kind: (-sizes[kind], natural(kind)))
    names = shown(chosen)
    for kind in chosen[:MOST_KINDS]:
        yield _misses(runs, names[kind], numeric[kind], rounds)


def _met(runs: Runs, found: Mapping[str, Mapping[str, ConstraintKind]], rounds: str) -> Figure:
    sizes = {kind: sum(one.n for one in of.values()) for kind, of in found.items()}
    kept, only = most(sizes, "most frequent kinds")
    names = shown(kept)
    points = [
        Point(names[kind], run, one, beside={"failed": f"{one.n_failed:,}"})
        for kind in kept
        for run, one in found[kind].items()
    ]
    without = {runs.shown(run): run.without_constraints for run in runs.every}
    told = ", ".join(f"{run} {count:,}" for run, count in without.items() if count)
    excluded = f" Excluded, samples without any (refused, empty, failed): {told}." if told else ""
    plan = Plan(
        name="constraints",
        title=runs.titled("base constraints met, by kind", rounds),
        caption=f"Dots: share of the base constraints of a kind that are met{_of(runs, rounds)}, "
        f"each constraint with equal weight.{only}{excluded} {BARS} "
        f"{counts(points, 'constraints')}",
        section="constraints",
        heading="constraint",
        value="share met",
        of="constraints",
        levels={"": list(names.values())},
    )
    return dots(points, plan, runs)


def _misses(runs: Runs, kind: str, off_by: OffBy, rounds: str) -> Figure:
    n = {run: sum(of.values()) for run, of in off_by.items()}
    cut = [run for run, of in off_by.items() if len(of) >= MAX_REASONS]
    rare = f" Of {', '.join(cut)} only the {MAX_REASONS} most frequent misses." if cut else ""
    caption = (
        f"Bars: failed constraints of this kind by observed minus wanted{_of(runs, rounds)}; below "
        f"0 is too few. {counted(n, 'misses')}{rare} The unit is the constraint."
    )
    chart, sheet = _histogram(off_by, runs)
    title = f"How far off{f' in {rounds}' if runs.several_rounds else ''}: {kind}"
    return sheet.figure(f"off_by_{slug(kind)}", title, caption, chart, "constraints")


def _of(runs: Runs, rounds: str) -> str:
    return f", of {rounds}" if runs.several_rounds else ""


@dataclass(frozen=True, slots=True)
class Bins:
    """Bins of misses, numbered from 0 outwards.

    0 has its own bin, so that none holds both too little and too much. The furthest misses, 2% at
    either end, share a bin before `first` and one after `last`, so that one answer that is off by
    thousands does not hide the others.
    """

    width: float
    first: int
    last: int
    whole: bool

    @classmethod
    def of(cls, off_by: OffBy) -> Bins:
        """Choose bins of one whole number each, or wider ones if those would be too many."""
        total = Counter[float]()
        for misses in off_by.values():
            total.update(misses)
        values = sorted(total.elements())
        low, high = values[0], values[-1]
        if high - low >= BINS:
            tail = int(_TAIL * len(values))
            low, high = values[tail], values[-1 - tail]
        whole = all(float(value).is_integer() for value in total)
        power = 0 if whole else floor(log10(max(high - low, abs(high), 1e-9) / BINS))
        while True:
            for step in (1, 2, 5):
                width = step * 10.0**power
                first, last = _bin(low, width), _bin(high, width)
                if last - first < BINS:
                    return cls(width, first, last, whole)
            power += 1

    def holding(self, value: float) -> int:
        """Return the number of the bin that holds a miss."""
        return min(max(_bin(value, self.width), self.first - 1), self.last + 1)

    def edges(self, number: int) -> tuple[float, float]:
        """Return a bin's smallest and largest value; both are in it if values are whole."""
        far = self.width * number
        near = far - (self.width - self.whole) * ((number > 0) - (number < 0))
        return min(near, far), max(near, far)

    def drawn(self, number: int) -> tuple[float, float]:
        """Return where a bin is drawn: bars of whole numbers stand over them."""
        low, high = self.edges(number)
        around = 0.5 if self.whole else 0.0 if number else self.width / 10
        return low - around, high + around

    def said(self, number: int) -> str:
        """Describe a bin in words."""
        low, high = self.edges(number)
        if number < self.first:
            return f"{_text(high)} or less"
        if number > self.last:
            return f"{_text(low)} or more"
        return _text(low) if low == high else f"{_text(low)} to {_text(high)}"


def _bin(value: float, width: float) -> int:
    return ceil(value / width) if value > 0 else floor(value / width)


def _text(value: float) -> str:
    if value == 0:
        return "0"
    return f"{value:+,.0f}" if float(value).is_integer() else number(value, sign=True)


def _histogram(off_by: OffBy, runs: Runs) -> tuple[dict[str, Any], Sheet]:
    """Draw the bars of the runs side by side in each bin."""
    bins = Bins.of(off_by)
    sheet = Sheet(runs, "run", "off by", "misses")
    edges = [0.0]
    for place, (run, misses) in enumerate(off_by.items()):
        found = Counter[int]()
        for value, count in misses.items():
            found[bins.holding(value)] += count
        for bin_, count in sorted(found.items()):
            left, right = bins.drawn(bin_)
            edges += [left, right]
            share = (right - left) * 0.9 / len(off_by)
            start = left + (right - left) * 0.05 + place * share
            sheet.add(
                run,
                [run, bins.said(bin_), f"{count:,}"],
                start=start,
                end=start + share,
                count=count,
                zero=0,
            )
    # With 0 in sight, and not one bar as wide as the figure.
    misses_ = [value for of in off_by.values() for value in of]
    least = _LEAST * bins.width
    domain = [
        min([*edges, -least if min(misses_) < 0 else -bins.width / 2]),
        max([*edges, least if max(misses_) > 0 else bins.width / 2]),
    ]
    axis = alt.Axis(
        title="observed minus wanted",
        labelExpr=SIGNED,
        tickCount=7,
        tickMinStep=1 if bins.whole else 0,
        grid=False,
    )
    chart = sheet.base().encode(
        x=alt.X("start:Q", scale=alt.Scale(domain=domain, nice=False, padding=6), axis=axis),
        x2="end:Q",
        y=alt.Y("count:Q", axis=alt.Axis(title="misses", tickCount=4, tickMinStep=1, format="~s")),
        y2="zero:Q",
        color=sheet.colour(),
    )
    return specification(chart.mark_rect(), height=150), sheet
