"""Which kinds of base constraints are met, and how far off the answers are that miss."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from harness.analysis.constraints import MAX_REASONS, ConstraintKind
from harness.analysis.run_comparison import RunComparison
from harness.report.figure import Figure
from harness.report.figures.comparison import looked_at
from harness.report.figures.dots import BARS, Dot, Plan, chart, table
from harness.report.figures.misses import miss_chart, miss_rows
from harness.report.figures.names import counted, kinds_on_axis, natural, shown, slug
from harness.report.figures.rates import MOST_GROUPS, units
from harness.report.figures.runs import Runs

MOST_KINDS = 6
"""Kinds whose misses are drawn."""

Kinds = Mapping[str, Mapping[str, ConstraintKind]]
"""Kind, then shown name of a run, to how often it is met."""


def constraint_figures(runs: Runs, comparison: RunComparison | None) -> Iterator[Figure]:
    """The share that is met by kind, and a histogram for the kinds with most numeric misses."""
    found: dict[str, dict[str, ConstraintKind]] = {}
    for run in runs.every:
        for one in run.constraints:
            found.setdefault(one.kind, {})[runs.shown(run)] = one
    if found:
        # Where runs are compared, it is what the comparison looks at.
        rounds = looked_at(comparison)
        yield _met(runs, found, rounds)
        yield from _misses(runs, found, rounds)


def _met(runs: Runs, found: Kinds, rounds: str) -> Figure:
    sizes = {kind: sum(one.n for one in of.values()) for kind, of in found.items()}
    kept = sorted(sizes, key=lambda kind: (-sizes[kind], natural(kind)))[:MOST_GROUPS]
    kept.sort(key=natural)
    names = shown(kept)
    dots = [
        Dot(
            *(names[kind], run, one.rate, one.stderr, one.ci95, one.n, one.n_clusters),
            {"failed": f"{one.n_failed:,}"},
        )
        for kind in kept
        for run, one in found[kind].items()
    ]
    labels = kinds_on_axis(names.values())
    plan = Plan("constraint", "share met", list(names.values()), of="constraints", labels=labels)
    only = (
        f" The {len(kept)} most frequent of {len(found):,} kinds." if len(kept) < len(found) else ""
    )
    total: dict[str, int] = {}
    for one in dots:
        total[one.run] = total.get(one.run, 0) + one.n
    return runs.figure(
        "constraints",
        runs.titled("base constraints met, by kind", rounds),
        f"Dots: share of the base constraints of a kind that are met{_of(runs, rounds)}, each "
        f"constraint weighing the same.{only}{_without(runs)} {BARS} "
        f"{counted(total, 'constraints')} {units()}",
        chart(dots, plan, runs),
        *table(dots, plan),
        present={one.run for one in dots},
        section="constraints",
    )


def _without(runs: Runs) -> str:
    left_out = {runs.shown(r): r.without_constraints for r in runs.every if r.without_constraints}
    if not left_out:
        return ""
    told = ", ".join(f"{run} {count:,}" for run, count in left_out.items())
    return f" Samples without any (refused, empty, failed) are left out: {told}."


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
    only = f" Of {', '.join(cut)} only the {MAX_REASONS} most frequent misses." if cut else ""
    headings: Sequence[str] = ("run", "off by", "misses")
    in_which = f" in {rounds}" if runs.several_rounds else ""
    return runs.figure(
        f"off_by_{slug(kind)}",
        f"How far off{in_which}: {kind}",
        "Bars: failed constraints of this kind by observed minus wanted"
        f"{_of(runs, rounds)}; below 0 is too few. {counted(n, 'misses')}{only} The unit is the "
        "constraint.",
        miss_chart(off_by, runs),
        headings,
        miss_rows(off_by),
        off_by,
        section="constraints",
    )


def _of(runs: Runs, rounds: str) -> str:
    return f", of {rounds}" if runs.several_rounds else ""
