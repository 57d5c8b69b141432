"""All figures of a report, in order.

A figure is omitted if it has nothing to show. Charts carry their data, and neither a theme nor
a URL: the HTML page adds `harness.report.figures.figure.config`, and so do image files.

>>> [figure.name for figure in figures([], None)]
[]
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from harness.analysis.run_comparison import RunComparison
from harness.report.figures.figure import Figure
from harness.report.runs import ReportedRun


def figures(runs: Sequence[ReportedRun], comparison: RunComparison | None) -> list[Figure]:
    """All figures of runs and of their comparison, if they have one; no two have the same name."""
    taken: set[str] = set()
    found = []
    for figure in _figures(runs, comparison):
        name, number = figure.name, 2
        while name in taken:  # different labels may have the same letters
            name = f"{figure.name}_{number}"
            number += 1
        taken.add(name)
        found.append(replace(figure, name=name))
    return found


def _figures(reported: Sequence[ReportedRun], comparison: RunComparison | None) -> Iterator[Figure]:
    # Imported here: they import altair, which `harness.report.figures.figure` does without.
    from harness.report.figures.constraints import constraint_figures
    from harness.report.figures.cost import cost_figures, outcome_figures
    from harness.report.figures.curves import round_figures, sample_figures
    from harness.report.figures.groups import (
        any_round_figures,
        comparison_figures,
        effect_figures,
        rate_figures,
    )
    from harness.report.figures.heat_map import heat_map_figures
    from harness.report.figures.runs import Runs

    runs = Runs.of(reported, comparison)
    yield from rate_figures(runs)
    yield from any_round_figures(runs)
    yield from round_figures(runs)
    yield from sample_figures(runs)
    yield from effect_figures(runs)
    yield from heat_map_figures(runs)
    yield from comparison_figures(runs, comparison)
    yield from constraint_figures(runs, comparison)
    yield from outcome_figures(runs)
    yield from cost_figures(runs)
