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
from harness.report.text import format_usd
from harness.store.columns import natural_sort_key


def figures(
    reported: Sequence[ReportedRun],
    comparison: RunComparison | None,
    matrix: PairMatrix | None = None,
    rankings: InducedRankings | None = None,
) -> list[Figure]:
    """Return all figures of the runs, and of their comparisons if these are given."""
    runs = Runs.of(reported, comparison)
    drawn = [
        *rates.rate_figures(runs),
        *rates.any_round_figures(runs),
        *rates.round_figures(runs),
        *rates.sample_figures(runs),
        *rates.effect_figures(runs),
        *rates.position_figures(runs),
        *heat_map_figures(runs),
        *rates.comparison_figures(runs, comparison),
        *rates.ablation_figures(runs, comparison),
    ]
    for run in reported:
        for name, section in run.added:
            drawn += [replace(figure, section=name) for figure in section.figures()]
    if matrix and len(reported) > 2:
        drawn.append(pair_figure(runs, matrix))
    if rankings:
        drawn.append(ranking_figure(runs, rankings))
    drawn += constraint_figures(runs, comparison)
    drawn += outcome_figures(runs)
    drawn += latency_figures(runs)
    drawn += cost_figures(runs)
    names = distinct((figure.name for figure in drawn), "{}_{}")  # labels may yield equal names
    return [replace(figure, name=name) for figure, name in zip(drawn, names, strict=True)]


PERCENTILES = (0, 1, *range(5, 100, 5), 99, 100)  # percentiles of latency to draw


def outcome_figures(runs: Runs) -> Iterator[Figure]:
    """Draw the share of each run's attempts with each outcome."""
    n = {}
    sheet = Sheet(runs, "run", "outcome", "attempts", "share")
    for run in runs.every:
        total = run.metrics.n_attempts
        if not total:
            continue
        name = runs.name_of(run)
        n[name] = total
        for order, outcome in enumerate(OUTCOMES):
            count = run.metrics.outcomes.get(outcome, 0)
            texts = [name, outcome, f"{count:,}", f"{count / total:.1%}"]
            sheet.add(name, texts, part=outcome, amount=count / total, order=order)
    if not n:
        return
    caption = (
        "An error is an infrastructure failure and has no verdict; a refused, empty or unparseable "
        f"answer fails. {sample_sizes(n, 'attempts')}"
    )
    chart = sheet.chart("outcomes", outcomes=OUTCOMES)
    yield sheet.figure("outcomes", "Outcomes of attempts", caption, chart, "outcomes")


def latency_figures(runs: Runs) -> Iterator[Figure]:
    """Draw the distribution of each run's call latencies, in seconds."""
    n = {}
    sheet = Sheet(runs, "run", "percentile", "seconds")
    for run in runs.every:
        latencies = run.latencies
        if latencies is None or run.recorded:
            continue
        name = runs.name_of(run)
        n[name] = latencies.n
        for percentile in PERCENTILES:
            seconds = latencies.quantiles[percentile]
            texts = [name, f"{percentile}", number(seconds)]
            sheet.add(name, texts, at=seconds, value=percentile / 100, low=None)
    if not n:
        return
    axis = plot.number_axis([point["at"] for point in sheet.data], "seconds")
    options: dict[str, Any] = {"at": axis, "joined": True, "ordered": True}
    chart = plot.points_chart(sheet, "share of calls", runs.rates, **options)
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
        own_calls = run.metrics.main_model_calls
        cost = own_calls.cost_usd
        if cost and not run.recorded and part is not None and part.mean is not None:
            paid = format_usd(cost, computed=own_calls.computed_usd)
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
    recorded = ", ".join(runs.name_of(run) for run in runs.every if run.recorded)
    if not recorded:
        return ""
    return f" Without {recorded}: recorded answers were not {action}."


MOST_KINDS = 6  # maximum number of kinds whose misses are drawn
BINS = 30  # maximum bins of a histogram, plus one for the outliers at each end
_TAIL = 0.02  # share of the misses at each end that are outliers

OffBy = Mapping[str, Mapping[float, int]]  # by run: misses (observed minus wanted) and counts


def constraint_figures(runs: Runs, comparison: RunComparison | None) -> Iterator[Figure]:
    """Draw the satisfied share of each kind of constraint, and histograms of numeric misses.

    Only the `MOST_KINDS` kinds with the most misses have a histogram.
    """
    constraints: dict[str, dict[str, ConstraintKind]] = {}  # by kind and run
    misses: dict[str, dict[str, Mapping[float, int]]] = {}
    sizes = Counter[str]()
    for run in runs.every:
        name = runs.name_of(run)
        for constraint in run.constraints:
            kind = constraint.kind
            constraints.setdefault(kind, {})[name] = constraint
            if constraint.off_by:
                misses.setdefault(kind, {})[name] = constraint.off_by
                sizes[kind] += sum(constraint.off_by.values())
    if not constraints:
        return
    rounds = rates.compared_rounds(comparison)
    yield _met(runs, constraints, rounds)
    chosen = sorted(sizes, key=lambda kind: (-sizes[kind], natural_sort_key(kind)))
    names = display_names(chosen)
    for kind in chosen[:MOST_KINDS]:
        yield _misses(runs, names[kind], misses[kind], rounds)


def _met(
    runs: Runs, constraints: Mapping[str, Mapping[str, ConstraintKind]], rounds: str
) -> Figure:
    sizes = Counter[str]()
    for kind, by_run in constraints.items():
        for constraint in by_run.values():
            sizes[kind] += constraint.n
    kinds, only = rates.most(sizes)
    names = display_names(kinds)
    points = []
    for kind in kinds:
        for run_name, constraint in constraints[kind].items():
            failed = {"failed": f"{constraint.n_failed:,}"}
            points.append(Point(names[kind], run_name, constraint, beside=failed))
    excluded = []
    for run in runs.every:
        if run.without_constraints:
            excluded.append(f"{runs.name_of(run)} {run.without_constraints:,}")
    sentences = ["Each constraint has equal weight."]
    if only:
        sentences.append(only)
    if excluded:
        without = "Excluded, samples without constraints (refused, empty, failed)"
        sentences.append(f"{without}: {', '.join(excluded)}.")
    value = runs.of_answers("constraints met", rounds)
    plan = Plan(
        name="constraints",
        title=f"{value}, by kind",
        caption=" ".join(sentences),
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
    drawn = {0}
    n = {}
    cut = []
    for run, misses in off_by.items():
        counts = Counter[int]()
        for value, count in misses.items():
            counts[bins.holding(value)] += count
        for bin_, count in sorted(counts.items()):
            text = bins.range_text(bin_)
            sheet.add(run, [run, text, f"{count:,}"], bin=text, count=count)
        drawn.update(counts)
        n[run] = counts.total()
        if len(misses) >= MAX_REASONS:
            cut.append(run)
    caption = f"Failed constraints; below 0 is too few. {sample_sizes(n, 'misses')}"
    if cut:
        caption += f" Of {', '.join(cut)} only the {MAX_REASONS} most frequent misses."
    where = f" in {rounds}" if runs.several_rounds else ""
    texts = [bins.range_text(bin_) for bin_ in range(min(drawn), max(drawn) + 1)]
    chart = sheet.chart("misses", bins=texts, keys=[runs.short[run] for run in off_by])
    name = f"off_by_{slug(kind)}"
    return sheet.figure(name, f"How far off{where}: {kind}", caption, chart, "constraints")


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
        exponent = 0 if is_whole else floor(log10(max(high - low, 1e-9) / BINS))
        widths = _widths(exponent)
        width = next(widths)
        while _bin(high, width) - _bin(low, width) >= BINS:
            width = next(widths)
        return cls(width, _bin(low, width), _bin(high, width), is_whole)

    def holding(self, value: float) -> int:
        """Return the number of the bin that holds a difference (observed minus wanted)."""
        return min(max(_bin(value, self.width), self.first - 1), self.last + 1)

    def range_text(self, number: int) -> str:
        """Return the range of a bin, such as "+1 to +5", or "+6 or more" for a bin of outliers."""
        far = self.width * number
        near = far - (self.width - self.whole) * ((number > 0) - (number < 0))
        low = _text(min(near, far))
        high = _text(max(near, far))
        if number < self.first:
            return f"{high} or less"
        if number > self.last:
            return f"{low} or more"
        if low == high:
            return low
        return f"{low} to {high}"


def _widths(exponent: int) -> Iterator[float]:
    """Yield 1, 2 and 5 times the powers of 10 from an exponent on."""
    for power in range(exponent, 400):
        for step in (1, 2, 5):
            yield step * 10.0**power


def _bin(value: float, width: float) -> int:
    return int(copysign(ceil(abs(value) / width), value))


def _text(value: float) -> str:
    if value == 0:
        return "0"
    if float(value).is_integer():
        return f"{value:+,.0f}"
    return number(value, sign=True)
