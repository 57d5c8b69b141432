"""Compares models over several benchmarks: paired differences, rank correlations, average ranks.

A benchmark is a task, measured by its runs' primary metric. Scores of different benchmarks are
never averaged, since their scales differ.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import reduce
from itertools import combinations

import numpy as np
from msgspec import Struct
from msgspec.structs import asdict, replace
from numpy.typing import NDArray

from harness.analysis.metrics import Interval
from harness.errors import RunConflict
from harness.plugins.comparisons.comparable import Run, scored_runs
from harness.plugins.comparisons.comparison import Comparison, Floats, adjusted, pair
from harness.plugins.comparisons.cross_table import CrossTable, TableOptions, cross_table
from harness.plugins.comparisons.pair_matrix import Tau, rank_correlation
from harness.plugins.comparisons.run_comparison import ComparisonOptions, compare_runs

DRAWS = 2_000
MAX_WORK = 200_000_000  # draws times pairs; above this, fewer draws are made
MIN_DRAWS = 200
SEED = 20_260_000

FEWEST_PROMPTS = 10  # for an average rank's interval: draws of fewer prompts are too much alike
FEWEST_MODELS = 4  # for a rank correlation: the p value of 3 models is never below 0.33


class BenchmarkComparison(Struct, frozen=True, kw_only=True):
    """The comparison of a row's model with the first row's model on one benchmark."""

    row: int
    task: str
    score: str
    comparison: Comparison  # p_adjusted: by Holm, over all comparisons of the suite


class AverageRank(Struct, frozen=True, kw_only=True):
    """A row's mean rank over the benchmarks (1: the best). Ties share a mean rank."""

    row: int
    rank: float
    # By the percentile bootstrap (Efron 1979) over the prompts of each benchmark. It is None if a
    # benchmark has fewer than `FEWEST_PROMPTS`, or if the rank is the same in (almost) all draws.
    ci95: Interval | None


class Suite(Struct, frozen=True, kw_only=True):
    """The results of several models on several benchmarks."""

    table: CrossTable
    datasets: dict[str, str]  # by task: the name of its data set, if it has one
    failures: dict[str, dict[str, int]]  # by run: number of attempts by outcome, except ok
    comparisons: list[BenchmarkComparison]
    correlations: list[Tau]  # of two benchmarks, given by the indices of their figures
    ranks: list[AverageRank]  # of rows with runs of all tasks; empty for fewer than two rows
    ranked: list[str]  # the benchmarks with enough values for ranks
    draws: int  # of the bootstrap; 0 without ranks
    notes: list[str]


def suite_of(runs: Sequence[Run]) -> Suite:
    """Compare models over the tasks of their runs."""
    table = cross_table(runs, {}, TableOptions(rows="", columns=""))
    started: dict[str, Run] = {}
    datasets = {}
    failures = {}
    cautions = []
    for variant, attempts in runs:
        metrics = variant.metrics
        cautions += [f"{variant.name}: {caution}" for caution in metrics.cautions]
        dataset = variant.settings.get("task.dataset")
        datasets[metrics.task] = dataset
        if not len(attempts):
            continue
        started[variant.name] = variant, attempts
        counts = {str(outcome): n for outcome, n in metrics.outcomes.items() if n}
        counts.pop("ok", None)
        if counts:
            failures[variant.name] = counts
    rows = []
    for row in table.rows:
        of_row = [started[name] for name in row.runs]
        rows.append({run[0].metrics.task: run for run in of_row})
    comparisons, notes = _comparisons(table.tasks, rows)
    ranked_tasks, ranks, draws = _ranks(table.tasks, rows)
    return Suite(
        table=table,
        datasets={task: name for task, name in datasets.items() if isinstance(name, str)},
        failures=failures,
        comparisons=comparisons,
        correlations=list(_correlations(table)),
        ranks=ranks,
        ranked=ranked_tasks,
        draws=draws,
        notes=[*notes, *cautions],
    )


def _comparisons(
    tasks: Sequence[str], rows: Sequence[Mapping[str, Run]]
) -> tuple[list[BenchmarkComparison], list[str]]:
    comparisons = []
    notes = []
    for task in tasks:
        places = [place for place, row in enumerate(rows) if task in row]
        if len(places) < 2 or places[0] != 0:
            continue
        runs = [rows[place][task] for place in places]
        try:
            compared = compare_runs(runs, ComparisonOptions(score=""))
        except RunConflict as error:
            notes.append(f"{task} is not compared: {error}")
            continue
        score = compared.asked.score
        for place, against in zip(places[1:], compared.others, strict=True):
            overall = against.overall
            if overall.n:
                benchmark = BenchmarkComparison(
                    row=place, task=task, score=score, comparison=overall
                )
                comparisons.append(benchmark)
    with_p_values = adjusted([benchmark.comparison for benchmark in comparisons])
    for place, comparison in enumerate(with_p_values):
        comparisons[place] = replace(comparisons[place], comparison=comparison)
    return sorted(comparisons, key=lambda benchmark: benchmark.row), notes


def _correlations(table: CrossTable) -> Iterator[Tau]:
    for first, second in combinations(range(len(table.figures)), 2):
        values = []
        for row in table.rows:
            first_cell = row.cells[first]
            second_cell = row.cells[second]
            if first_cell is not None and second_cell is not None:
                values.append((first_cell.mean, second_cell.mean))
        correlation = rank_correlation(values)
        if correlation.n_runs >= FEWEST_MODELS:
            yield Tau(first=first, second=second, **asdict(correlation))


def _ranks(
    tasks: Sequence[str], rows: Sequence[Mapping[str, Run]]
) -> tuple[list[str], list[AverageRank], int]:
    """Return the ranked benchmarks, the average ranks, and the number of bootstrap draws."""
    places = [place for place, row in enumerate(rows) if all(task in row for task in tasks)]
    if len(places) < 2:
        return [], [], 0
    benchmarks = {}
    n_clusters = []
    for task in tasks:
        with suppress(RunConflict):  # different measures
            totals, sizes = _cluster_totals([rows[place][task] for place in places])
            if len(sizes) > 1:  # otherwise, the uncertainty of the ranks is unknown
                benchmarks[task] = totals, sizes
                n_clusters.append(len(sizes))
    if len(benchmarks) < 2:
        return [], [], 0
    work = sum(n_clusters) * len(places)
    draws = max(MIN_DRAWS, min(DRAWS, MAX_WORK // work))
    random = np.random.default_rng(SEED)
    total = np.zeros((draws + 1, len(places)))
    for totals, sizes in benchmarks.values():
        means = [totals.sum(axis=0) / sizes.sum()]
        for _ in range(draws):
            drawn = random.integers(len(sizes), size=len(sizes))
            means.append(totals[drawn].sum(axis=0) / sizes[drawn].sum())
        total += _ranks_of_draws(np.stack(means))
    observed, *boot = total / len(benchmarks)
    low, high = np.percentile(boot, [2.5, 97.5], axis=0)
    enough = min(n_clusters) >= FEWEST_PROMPTS
    average_ranks = []
    for number, place in enumerate(places):
        ci95 = None
        if enough and low[number] < high[number]:
            ci95 = (float(low[number]), float(high[number]))
        rank = float(observed[number])
        average_ranks.append(AverageRank(row=place, rank=rank, ci95=ci95))
    return list(benchmarks), average_ranks, draws


def _ranks_of_draws(means: Floats) -> Floats:
    """Return the runs' ranks in each draw, (draws, runs). Runs that tie share their mean rank."""
    # Sums in a different order differ in the last bits, which should not decide a rank.
    rounded = np.round(means, 12)
    _, n = rounded.shape
    ranks = np.zeros(rounded.shape)
    for place in range(n):
        ahead = np.sign(rounded - rounded[:, [place]]).sum(axis=1)
        ranks[:, place] = (ahead + n + 1) / 2
    return ranks


def _cluster_totals(runs: Sequence[Run]) -> tuple[Floats, NDArray[np.integer]]:
    """Return g clusters' sums (g, runs) and sizes (g,)."""
    runs, _, score = scored_runs(runs, "", None)
    weight = runs[0][0].weight(score)
    first, *others = (attempts for _, attempts in runs)
    pairs = []
    for table in others:
        paired = pair(first, table, score=score, weight=weight)
        pairs.append(paired.linearised())
    digests = reduce(np.intersect1d, (paired.digest for paired in pairs))
    common = [paired.take(np.searchsorted(paired.digest, digests)) for paired in pairs]
    _, cluster = np.unique(common[0].cluster, return_inverse=True)
    values = [common[0].first, *(paired.second for paired in common)]
    totals = [np.bincount(cluster, weights=column).astype(np.float64) for column in values]
    return np.stack(totals, axis=1), np.bincount(cluster)
