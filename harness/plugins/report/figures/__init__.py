"""All figures of a report, and those of outcomes, time, money and constraints."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil, copysign, floor, log10
from typing import Any

from harness.plugins.comparisons.constraints import MAX_REASONS, ConstraintKind
from harness.plugins.comparisons.pair_matrix import InducedRankings, PairMatrix
from harness.plugins.comparisons.run_comparison import RunComparison
from harness.plugins.report.figure import (
    Figure,
    display_names,
    distinct,
    number,
    sample_sizes,
    slug,
)
from harness.plugins.report.figures import plot, rates
from harness.plugins.report.figures.heat_map import heat_map_figures, pair_figure, ranking_figure
from harness.plugins.report.figures.plot import Plan, Point, Runs, Sheet
from harness.plugins.report.runs import ReportedRun
from harness.records import OUTCOMES
from harness.report.text import usd
from harness.store.columns import natural


def figures(
    reported: Sequence[ReportedRun],
    comparison: RunComparison | None,
    matrix: PairMatrix | None = None,
    rankings: InducedRankings | None = None,
) -> list[Figure]:
    """Return all figures of the runs, and of their comparisons if these are given."""
    runs = Runs.of(reported, comparison)
    every = [
        *rates.rate_figures(runs),
        *rates.any_round_figures(runs),
        *rates.round_figures(runs),
        *rates.sample_figures(runs),
        *rates.effect_figures(runs),
        *rates.position_figures(runs),
        *heat_map_figures(runs),
        *rates.comparison_figures(runs, comparison),
        *rates.ablation_figures(runs, comparison),
        *(
            replace(figure, section=name)
            for run in reported
            for name, section in run.added
            for figure in section.figures()
        ),
        *([pair_figure(runs, matrix)] if matrix and len(reported) > 2 else ()),
        *([ranking_figure(runs, rankings)] if rankings else ()),
        *constraint_figures(runs, comparison),
        *outcome_figures(runs),
        *latency_figures(runs),
        *cost_figures(runs),
    ]
    names = distinct((figure.name for figure in every), "{}_{}")  # labels may yield equal names
    return [replace(figure, name=name) for figure, name in zip(every, names, strict=True)]


PERCENTILES = (0, 1, *range(5, 100, 5), 99, 100)  # percentiles of latency to draw


def outcome_figures(runs: Runs) -> Iterator[Figure]:
    """Draw the share of each run's attempts with each outcome."""
    n = {runs.name_of(run): run.metrics.n_attempts for run in runs.every if run.metrics.n_attempts}
    if not n:
        return
    sheet = Sheet(runs, "run", "outcome", "attempts", "share")
    for run in runs.every:
        name = runs.name_of(run)
        for order, outcome in enumerate(OUTCOMES if name in n else ()):
            count = run.metrics.outcomes.get(outcome, 0)
            texts = [name, outcome, f"{count:,}", f"{count / n[name]:.1%}"]
            sheet.add(name, texts, part=outcome, amount=count / n[name], order=order)
    caption = (
        "An error is an infrastructure failure and has no verdict; a refused, empty or unparseable "
        f"answer fails. {sample_sizes(n, 'attempts')}"
    )
    chart = sheet.chart("outcomes", outcomes=OUTCOMES)
    yield sheet.figure("outcomes", "Outcomes of attempts", caption, chart, "outcomes")


def latency_figures(runs: Runs) -> Iterator[Figure]:
    """Draw the distribution of each run's call latencies, in seconds."""
    timed = {
        runs.name_of(run): run.latencies for run in runs.every if run.latencies and not run.recorded
    }
    if not timed:
        return
    sheet = Sheet(runs, "run", "percentile", "seconds")
    for run, latencies in timed.items():
        for percentile in PERCENTILES:
            seconds = latencies.quantiles[percentile]
            texts = [run, f"{percentile}", number(seconds)]
            sheet.add(run, texts, at=seconds, value=percentile / 100, low=None)
    at = plot.number_axis([point["at"] for point in sheet.data], "seconds")
    options: dict[str, Any] = {"at": at, "joined": True, "ordered": True}
    chart = plot.points_chart(sheet, "share of calls", runs.rates, **options)
    n = {run: latencies.n for run, latencies in timed.items()}
    caption = (
        "Share of calls that took at most this long, excluding failed calls and those answered "
        f"from the cache. {sample_sizes(n, 'calls')}"
        f"{_recorded(runs, 'timed')}"
    )
    yield sheet.figure("latency", "How long calls took", caption, chart, "cost")


def cost_figures(runs: Runs) -> Iterator[Figure]:
    """Draw the primary metric against the cost of runs, if at least two were paid for."""
    points = []
    for run in runs.every:
        part = runs.measured(run, last=True).get(())
        own_calls = run.metrics.own_calls
        cost = own_calls.cost_usd
        if cost and not run.recorded and part is not None and part.mean is not None:
            paid = usd(cost, computed=own_calls.computed_usd)
            points.append(Point(paid, runs.name_of(run), part, cost))
    if len(points) < 2:
        return
    value = runs.value(plot.LAST_ROUNDS)
    plan = Plan(
        name="cost_rate",
        title=f"Cost against {value}",
        caption="All calls of the run, each counted once. No run is both cheaper and better than "
        f"one on the dashed line.{_others(runs)}{_recorded(runs, 'paid for')}",
        section="cost",
        heading="cost, US dollars",
        value=value,
        unit=runs.unit,
        joined=False,
        frontier=True,
    )
    yield plot.lines(points, plan, runs)


def _others(runs: Runs) -> str:
    others = any(run.metrics.model_calls for run in runs.every)
    return " Without the calls of judges and of a model that plays the user." * others


def _recorded(runs: Runs, action: str) -> str:
    recorded = [runs.name_of(run) for run in runs.every if run.recorded]
    return (
        f" Without {', '.join(recorded)}: recorded answers were not {action}." if recorded else ""
    )


MOST_KINDS = 6  # maximum number of kinds whose misses are drawn
BINS = 30  # maximum bins of a histogram, plus one for the outliers at each end
_TAIL = 0.02  # share of the misses at each end that are outliers

OffBy = Mapping[str, Mapping[float, int]]  # by run: misses (observed minus wanted) and counts


def constraint_figures(runs: Runs, comparison: RunComparison | None) -> Iterator[Figure]:
    """Draw the satisfied share of each kind of constraint, and histograms of numeric misses.

    Only the `MOST_KINDS` kinds with the most misses have a histogram.
    """
    kinds_by_name: dict[str, dict[str, ConstraintKind]] = {}
    for run in runs.every:
        for constraint in run.constraints:
            kinds_by_name.setdefault(constraint.kind, {})[runs.name_of(run)] = constraint
    if not kinds_by_name:
        return
    rounds = rates.compared_rounds(comparison)
    yield _met(runs, kinds_by_name, rounds)
    numeric = {
        kind: {run: constraint.off_by for run, constraint in by_run.items() if constraint.off_by}
        for kind, by_run in kinds_by_name.items()
    }
    sizes = {
        kind: sum(sum(o.values()) for o in by_run.values())
        for kind, by_run in numeric.items()
        if by_run
    }
    chosen = sorted(sizes, key=lambda kind: (-sizes[kind], natural(kind)))
    names = display_names(chosen)
    for kind in chosen[:MOST_KINDS]:
        yield _misses(runs, names[kind], numeric[kind], rounds)


def _met(
    runs: Runs, kinds_by_name: Mapping[str, Mapping[str, ConstraintKind]], rounds: str
) -> Figure:
    shown_kinds, only = rates.most(
        {
            kind: sum(constraint.n for constraint in by_run.values())
            for kind, by_run in kinds_by_name.items()
        }
    )
    names = display_names(shown_kinds)
    points = [
        Point(names[kind], run, constraint, beside={"failed": f"{constraint.n_failed:,}"})
        for kind in shown_kinds
        for run, constraint in kinds_by_name[kind].items()
    ]
    without = {runs.name_of(run): run.without_constraints for run in runs.every}
    excluded_runs = ", ".join(f"{run} {count:,}" for run, count in without.items() if count)
    excluded = (
        excluded_runs
        and f"Excluded, samples without constraints (refused, empty, failed): {excluded_runs}."
    )
    value = runs.of_answers("constraints met", rounds)
    plan = Plan(
        name="constraints",
        title=f"{value}, by kind",
        caption=" ".join(["Each constraint has equal weight.", *filter(None, [only, excluded])]),
        section="constraints",
        heading="constraint",
        value=value,
        unit=runs.rates,
        of="constraints",
        levels={"": list(names.values())},
    )
    return plot.dots(points, plan, runs)


def _misses(runs: Runs, kind: str, off_by: OffBy, rounds: str) -> Figure:
    bins = Bins.of(off_by)
    sheet = Sheet(runs, "run", "off by", "misses")
    for run, misses in off_by.items():
        counts = Counter[int]()
        for value, count in misses.items():
            counts[bins.holding(value)] += count
        for bin_, count in sorted(counts.items()):
            sheet.add(run, [run, bins.said(bin_), f"{count:,}"], bin=bins.said(bin_), count=count)
    drawn = {bins.holding(value) for misses in off_by.values() for value in misses} | {0}
    every = [bins.said(bin_) for bin_ in range(min(drawn), max(drawn) + 1)]
    cut = [run for run, run_misses in off_by.items() if len(run_misses) >= MAX_REASONS]
    rare = f" Of {', '.join(cut)} only the {MAX_REASONS} most frequent misses." if cut else ""
    n = {run: sum(run_misses.values()) for run, run_misses in off_by.items()}
    caption = f"Failed constraints; below 0 is too few. {sample_sizes(n, 'misses')}{rare}"
    title = f"How far off{f' in {rounds}' if runs.several_rounds else ''}: {kind}"
    chart = sheet.chart("misses", bins=every, keys=[runs.short[run] for run in off_by])
    return sheet.figure(f"off_by_{slug(kind)}", title, caption, chart, "constraints")


@dataclass(frozen=True, slots=True)
class Bins:
    """Bins of differences. Bin 0 holds only 0; outliers are in ``first`` - 1 and ``last`` + 1."""

    width: float
    first: int
    last: int
    whole: bool

    @classmethod
    def of(cls, off_by: OffBy) -> Bins:
        """Build at most `BINS` bins of the least width that fits: 1, 2 or 5 times a power of 10."""
        total = Counter[float]()
        for misses in off_by.values():
            total.update(misses)
        values = sorted(total.elements())
        low = values[0]
        high = values[-1]
        if high - low >= BINS:
            tail = int(_TAIL * len(values))
            low = values[tail]
            high = values[-1 - tail]
        # Always include 0, the wanted value.
        low = min(low, 0.0)
        high = max(high, 0.0)
        is_whole = all(float(value).is_integer() for value in total)
        power = 0 if is_whole else floor(log10(max(high - low, 1e-9) / BINS))
        widths = (step * 10.0**exponent for exponent in range(power, 400) for step in (1, 2, 5))
        width = next(
            candidate for candidate in widths if _bin(high, candidate) - _bin(low, candidate) < BINS
        )
        return cls(width, _bin(low, width), _bin(high, width), is_whole)

    def holding(self, value: float) -> int:
        """Return the number of the bin that holds a difference (observed minus wanted)."""
        return min(max(_bin(value, self.width), self.first - 1), self.last + 1)

    def said(self, number: int) -> str:
        """Return the range of a bin, such as "+1 to +5", or "+6 or more" for a bin of outliers."""
        far = self.width * number
        near = far - (self.width - self.whole) * ((number > 0) - (number < 0))
        low, high = map(_text, sorted((near, far)))
        if number < self.first:
            return f"{high} or less"
        if number > self.last:
            return f"{low} or more"
        return low if low == high else f"{low} to {high}"


def _bin(value: float, width: float) -> int:
    return int(copysign(ceil(abs(value) / width), value))


def _text(value: float) -> str:
    if value == 0:
        return "0"
    return f"{value:+,.0f}" if float(value).is_integer() else number(value, sign=True)
