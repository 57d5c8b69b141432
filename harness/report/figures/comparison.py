"""How far runs are from their baseline, over all instances and by group."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from msgspec.structs import replace

from harness.analysis.comparison import Comparison
from harness.analysis.metrics import PASS_RATE
from harness.analysis.run_comparison import RunComparison
from harness.report.comparison import captions
from harness.report.figure import Figure
from harness.report.figures.dots import BARS, Dot, Plan, chart, table
from harness.report.figures.names import natural, number, shown
from harness.report.figures.rates import MOST_GROUPS
from harness.report.figures.runs import Runs
from harness.report.text import p_value, printable

ALL = "all instances"


def comparison_figures(runs: Runs, comparison: RunComparison | None) -> Iterator[Figure]:
    """A forest plot; none where nothing was compared."""
    if comparison is None or not comparison.others:
        return
    sizes: dict[str, int] = {}
    for one in comparison.others:
        for group, found in one.groups.items():
            sizes[group] = max(found.n, sizes.get(group, 0))
    kept = sorted(sizes, key=lambda group: (-sizes[group], natural(group)))[:MOST_GROUPS]
    names = shown([ALL, *sorted(kept, key=natural)])
    baseline = runs.names[comparison.baseline]
    dots = [_dot(names[ALL], runs.names[one.run], one.overall) for one in comparison.others]
    dots += [
        _dot(names[group], runs.names[one.run], one.groups[group])
        for group in names
        for one in comparison.others
        if group in one.groups
    ]
    pass_rate = comparison.asked.score == PASS_RATE
    what = "pass rate" if pass_rate else printable(comparison.asked.score)
    rounds = looked_at(comparison)
    by = printable(comparison.asked.by) if kept else "instances"
    plan = Plan(
        heading=by,
        value=f"difference in {what}" + (f" of {rounds}" if runs.several_rounds else ""),
        rows=list(names.values()),
        of="instances",
        levels=_levels(names, by) if kept else {},
        bounded=False,
        difference=True,
    )
    only = f" The {len(kept)} largest of {len(sizes):,} groups." if len(sizes) > len(kept) else ""
    what_is_drawn, of_p = _captions(comparison, groups=bool(kept))
    yield runs.figure(
        "comparison",
        runs.titled(f"difference to {runs.short[baseline]}", rounds),
        f"Dots: {what_is_drawn}{only} {BARS} Dashed line: no difference; intervals are each for "
        f"itself.{of_p}",
        chart(dots, plan, runs),
        *table(dots, plan),
        present=[baseline, *(one.run for one in dots)],
        section="comparison",
    )


def looked_at(comparison: RunComparison | None) -> str:
    """Which of each sample's rounds is looked at, where there are several."""
    last = comparison.asked.round if comparison is not None else None
    return {None: "last rounds", 1: "first answers"}.get(last, f"last rounds up to {last}")


def _captions(comparison: RunComparison, *, groups: bool) -> tuple[str, str]:
    """What the dots are, and how p is adjusted: nothing of what is only in the tables."""
    drawn = replace(
        comparison,
        asked=comparison.asked if groups else replace(comparison.asked, by=""),
        others=[replace(one, constraints={}) for one in comparison.others],
        notes=[],
    )
    first, *of_p = captions(drawn)
    return first, f" In tooltips and table: {' '.join(of_p)}" if of_p else ""


def _levels(names: Mapping[str, str], by: str) -> dict[str, list[str]]:
    groups = [name for group, name in names.items() if name != names[ALL]]
    return {"Overall": [names[ALL]], f"By {by}": groups}


def _dot(row: str, run: str, found: Comparison) -> Dot:
    beside = {
        "baseline": number(found.first),
        "of the run": number(found.second),
        "p": p_value(found.p_adjusted),
        "more": f"{found.better:,}",
        "less": f"{found.worse:,}",
    }
    return Dot(
        row,
        run,
        found.difference,
        found.stderr,
        found.ci95,
        found.n,
        found.n_clusters,
        beside,
    )
