"""Which kinds of base constraints are met, and how far off the answers are that miss."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from harness.analysis.forensics import MOST_REASONS, ConstraintKind
from harness.report.figure import Figure
from harness.report.figures.dots import BARS, Dot, Plan, chart, table
from harness.report.figures.misses import miss_chart, miss_rows
from harness.report.figures.names import counted, natural, shown, slug
from harness.report.figures.rates import MOST_GROUPS, units
from harness.report.figures.runs import Runs

MOST_KINDS = 6
"""Kinds whose misses are drawn."""

Kinds = Mapping[str, Mapping[str, ConstraintKind]]
"""Kind, then shown name of a run, to how often it is met."""


def constraint_figures(runs: Runs) -> Iterator[Figure]:
    """The share that is met by kind, and a histogram for the kinds with most numeric misses."""
    found: dict[str, dict[str, ConstraintKind]] = {}
    for run in runs.every:
        for one in run.constraints:
            found.setdefault(one.kind, {})[runs.shown(run)] = one
    if found:
        yield _met(runs, found)
        yield from _misses(runs, found)


def _met(runs: Runs, found: Kinds) -> Figure:
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
    plan = Plan("constraint", "share met", list(names.values()), of="constraints")
    only = (
        f" The {len(kept)} most frequent of {len(found):,} kinds." if len(kept) < len(found) else ""
    )
    total: dict[str, int] = {}
    for one in dots:
        total[one.run] = total.get(one.run, 0) + one.n
    return runs.figure(
        "constraints",
        "Base constraints met, by kind",
        "Dots: share of the base constraints of a kind that each sample's last round meets, each "
        f"constraint weighing the same.{only} {BARS} {counted(total, 'constraints')} {units()}",
        chart(dots, plan, runs),
        *table(dots, plan),
        present={one.run for one in dots},
        section="constraints",
    )


def _misses(runs: Runs, found: Kinds) -> Iterator[Figure]:
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
        yield _miss(runs, names[kind], numeric[kind])


def _miss(runs: Runs, kind: str, off_by: Mapping[str, Mapping[float, int]]) -> Figure:
    n = {run: sum(of.values()) for run, of in off_by.items()}
    cut = [run for run, of in off_by.items() if len(of) >= MOST_REASONS]
    only = f" Of {', '.join(cut)} only the {MOST_REASONS} most frequent misses." if cut else ""
    headings: Sequence[str] = ("run", "off by", "misses")
    return runs.figure(
        f"off_by_{slug(kind)}",
        f"How far off: {kind}",
        "Bars: failed constraints of this kind by observed minus wanted, of each sample's last "
        f"round; below 0 is too few. {counted(n, 'misses')}{only} The unit is the constraint.",
        miss_chart(off_by, runs),
        headings,
        miss_rows(off_by),
        off_by,
        section="constraints",
    )
