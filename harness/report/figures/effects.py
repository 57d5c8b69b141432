"""The pictures that a benchmark's paper draws: groups arranged by what they differ in."""

from __future__ import annotations

from collections.abc import Iterator

from harness.ports import Effect
from harness.report.figure import Figure
from harness.report.figures.dots import BARS, Plan, are_fractions, chart, dot, table
from harness.report.figures.names import shown, slug
from harness.report.figures.rates import by_group, counts, units
from harness.report.figures.runs import Runs
from harness.report.text import printable


def effect_figures(runs: Runs) -> Iterator[Figure]:
    """A picture of each effect of which there are groups of two levels."""
    effects = {effect.name: effect for run in runs.every for effect in run.effects}
    for effect in effects.values():
        yield from _figure(runs, effect)


def _figure(runs: Runs, effect: Effect) -> Iterator[Figure]:
    measured = by_group(runs, effect.label)
    there = {group for groups in measured.values() for group in groups}
    levels = {
        level: [group for group in groups if group in there]
        for level, groups in effect.levels.items()
    }
    levels = {level: groups for level, groups in levels.items() if groups}
    if len(levels) < 2:
        return
    names = shown(group for groups in levels.values() for group in groups)
    dots = [
        dot(names[group], run, found[group], {"level": printable(level)})
        for level, groups in levels.items()
        for group in groups
        for run, found in measured.items()
        if group in found
    ]
    plan = Plan(
        heading=printable(effect.label),
        value=runs.value,
        rows=list(names.values()),
        levels={printable(level): [names[g] for g in groups] for level, groups in levels.items()},
        bounded=are_fractions(dots),
    )
    words = printable(effect.name).replace("_", " ")
    yield runs.figure(
        slug(effect.name),
        runs.titled(words),
        f"Dots: {runs.what} of {runs.which_answers}, arranged as in {printable(effect.source)}. "
        f"{BARS} {counts(dots)} {units()}",
        chart(dots, plan, runs),
        *table(dots, plan),
        present={one.run for one in dots},
    )
