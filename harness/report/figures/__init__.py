"""The pictures of a report.

Owns which pictures there are, and in which order: each is left out where there is
nothing to show in it. Charts carry their data, and neither a theme nor an address:
the page adds `harness.report.figures.theme.config`, and so do files of their own
(`harness.report.figures.images`).

>>> [figure.name for figure in figures([], None)]
[]
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from harness.analysis.run_comparison import RunComparison
from harness.report.figure import Figure
from harness.report.figures.comparison import comparison_figures
from harness.report.figures.constraints import constraint_figures
from harness.report.figures.cost import cost_figures
from harness.report.figures.effects import effect_figures
from harness.report.figures.heat_map import heat_map_figures
from harness.report.figures.outcomes import outcome_figures
from harness.report.figures.rates import any_round_figures, rate_figures
from harness.report.figures.rounds import round_figures
from harness.report.figures.runs import Runs
from harness.report.figures.samples import sample_figures
from harness.report.reported_run import ReportedRun


def figures(runs: Sequence[ReportedRun], comparison: RunComparison | None) -> list[Figure]:
    """All pictures of the runs; no two have one name.

    comparison: of the same runs; None where there is none.
    """
    return list(_unlike(_figures(Runs.of(runs, comparison), comparison)))


def _figures(runs: Runs, comparison: RunComparison | None) -> Iterator[Figure]:
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


def _unlike(every: Iterator[Figure]) -> Iterator[Figure]:
    """With a number where labels of different names come to the same letters."""
    taken: set[str] = set()
    for figure in every:
        name, number = figure.name, 2
        while name in taken:
            name = f"{figure.name}_{number}"
            number += 1
        taken.add(name)
        yield replace(figure, name=name)
