"""All figures of a report."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from harness.analysis.run_comparison import RunComparison
from harness.plugins.comparisons.pair_matrix import InducedRankings, PairMatrix
from harness.plugins.report.figure import Figure, distinct
from harness.plugins.report.figures import cost, rates
from harness.plugins.report.figures.constraints import constraint_figures
from harness.plugins.report.figures.heat_map import heat_map_figures, pair_figure, ranking_figure
from harness.plugins.report.figures.plot import Runs, alt
from harness.plugins.report.runs import ReportedRun


@alt.utils.schemapi.debug_mode(False)  # validating takes most of the time
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
        *cost.outcome_figures(runs),
        *cost.latency_figures(runs),
        *cost.token_figures(runs),
        *cost.cost_figures(runs),
    ]
    names = distinct((figure.name for figure in every), "{}_{}")  # labels may yield equal names
    return [replace(figure, name=name) for figure, name in zip(every, names, strict=True)]
