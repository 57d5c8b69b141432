"""Figures of rates by group, factor, round and number of samples."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from math import isfinite

import numpy as np

from harness.analysis.breakdown import (
    Key,
    best_of_first_rounds,
    mean_by_group,
    mean_score,
    select_round,
)
from harness.analysis.metrics import PASS_RATE, SampleStatistic, Statistic
from harness.errors import UserError
from harness.plugins.comparisons.ablation import AblationOptions, ablate
from harness.plugins.comparisons.comparable import Variant
from harness.plugins.comparisons.comparison import Comparison
from harness.plugins.comparisons.comparison_document import ShownUnit, score_name, units_shown
from harness.plugins.comparisons.run_comparison import RunComparison
from harness.plugins.report.figure import Figure, display_names, number, slug
from harness.plugins.report.figures import plot
from harness.plugins.report.figures.plot import LAST_ROUNDS, Plan, Point, Runs
from harness.plugins.report.runs import ReportedRun
from harness.ports import Effect
from harness.report.text import escape_unprintable, format_p_value
from harness.store.columns import AttemptTable, natural_sort_key

MOST_GROUPS = 60  # maximum groups in a figure
LEAST_OF_LINE = 3  # minimum number of groups to draw as a line
ALL = "all instances"

Measured = Mapping[str, Mapping[str, SampleStatistic]]  # by shown name of a run, then group
Measure = Callable[[ReportedRun, str], Mapping[Key, SampleStatistic]]  # of a run, by a label


def by_group(runs: Runs, label: str, measure: Measure | None = None) -> Measured:
    """Map each run with ``label`` to its primary metric (or ``measure``) by group of the label."""
    measure = measure or runs.measured
    by_run = {}
    for run in runs.every:
        by_key = measure(run, label)
        if by_key:
            by_run[runs.name_of(run)] = {group: part for (group,), part in by_key.items()}
    return by_run


def by_label(runs: Runs, measure: Measure | None = None) -> dict[str, Measured]:
    """Map each label that has several groups in some run to the result of `by_group`.

    A label with one group is merely a setting of the run.
    """
    labels: dict[str, None] = {}
    for run in runs.every:
        labels |= dict.fromkeys(run.attempts.labels())
    measured = {}
    for label in labels:
        by_run = by_group(runs, label, measure)
        if any(len(groups) > 1 for groups in by_run.values()):
            measured[label] = by_run
    return measured


def largest(measured: Measured) -> tuple[list[str], str]:
    """Apply `most` to the groups' numbers of samples in all runs."""
    sizes = Counter[str]()
    for groups in measured.values():
        for group, part in groups.items():
            sizes[group] += part.n + part.missing
    return most(sizes)


def most(sizes: Mapping[str, int]) -> tuple[list[str], str]:
    """Return the `MOST_GROUPS` largest groups in natural order, and a note on the rest."""
    by_size = sorted(sizes, key=lambda name: (-sizes[name], natural_sort_key(name)))
    names = sorted(by_size[:MOST_GROUPS], key=natural_sort_key)
    note = ""
    if len(names) < len(sizes):
        note = f"The {len(names)} largest of {len(sizes):,} groups."
    return names, note


def rate_figures(runs: Runs) -> Iterator[Figure]:
    """Draw the primary metric by group, for each label that has several groups."""
    if runs.several_rounds:
        value = runs.value(LAST_ROUNDS)
        for label, measured in by_label(runs, partial(runs.measured, last=True)).items():
            yield _by_label(runs, measured, label, "last_rounds", value, runs.unit)
    for label, measured in by_label(runs).items():
        yield _by_label(runs, measured, label, "rate", runs.value(), runs.unit)


def any_round_figures(runs: Runs) -> Iterator[Figure]:
    """Draw the share of samples that pass in any round, by group."""

    def any_round(run: ReportedRun, label: str) -> Mapping[Key, SampleStatistic]:
        if run.last_round < 2:
            return {}
        return mean_by_group(best_of_first_rounds(run.attempts, run.last_round), PASS_RATE, label)

    for label, measured in by_label(runs, any_round).items():
        yield _by_label(runs, measured, label, "any_round", "passed in any round", runs.rates)


def _by_label(
    runs: Runs, measured: Measured, label: str, name: str, value: str, unit: ShownUnit
) -> Figure:
    groups, only = largest(measured)
    numbers = _as_numbers(groups)
    if numbers:
        groups = sorted(groups, key=numbers.__getitem__)
    names = display_names(groups)
    points = []
    for group, row in names.items():
        for run, statistics in measured.items():
            part = statistics.get(group)
            if part is not None:
                without = {"without": f"{part.missing:,}"}
                points.append(Point(row, run, part, numbers.get(group, 0.0), without))
    plan = Plan(
        name=f"{name}_by_{slug(label)}",
        title=f"{value} by {escape_unprintable(label)}",
        caption=only,
        heading=escape_unprintable(label),
        value=value,
        unit=unit,
        levels={"": list(names.values())},
    )
    draw = plot.lines if len(numbers) >= LEAST_OF_LINE else plot.dots
    return draw(points, plan, runs)


def _as_numbers(groups: list[str]) -> dict[str, float]:
    """Return the groups as numbers, or {} unless all are different finite numbers."""
    numbers = {}
    for group in groups:
        try:
            number = float(group)
        except ValueError:
            return {}
        if not isfinite(number):
            return {}
        numbers[group] = number
    if len(set(numbers.values())) < len(groups):
        return {}
    return numbers


def effect_figures(runs: Runs) -> Iterator[Figure]:
    """Draw the figures of a benchmark's paper that compare groups arranged in levels."""
    effects: dict[str, Effect] = {}
    for run in runs.every:
        effects |= {effect.name: effect for effect in run.effects}
    for effect in effects.values():
        measured = by_group(runs, effect.label)
        present: set[str] = set()
        for statistics in measured.values():
            present.update(statistics)
        groups_of = {}
        for level, level_groups in effect.levels.items():
            groups = [group for group in level_groups if group in present]
            if groups:
                groups_of[escape_unprintable(level)] = groups
        if len(groups_of) < 2:
            continue
        names = display_names(chain.from_iterable(groups_of.values()))
        points = []
        for level, groups in groups_of.items():
            for group in groups:
                for run_name, statistics in measured.items():
                    if group in statistics:
                        statistic = statistics[group]
                        point = Point(names[group], run_name, statistic, beside={"level": level})
                        points.append(point)
        levels = {}
        for level, groups in groups_of.items():
            levels[level] = [names[group] for group in groups]
        plan = Plan(
            name=slug(effect.name),
            title=f"{escape_unprintable(effect.name).replace('_', ' ')}: {runs.value()}",
            caption=f"Arranged as in {escape_unprintable(effect.source)}.",
            heading=escape_unprintable(effect.label),
            value=runs.value(),
            unit=runs.unit,
            levels=levels,
        )
        yield plot.dots(points, plan, runs)


def position_figures(runs: Runs) -> Iterator[Figure]:
    """Draw how much more often the option at each position is chosen than it is right."""
    points = []
    tests = []
    n = {}
    for run in runs.every:
        bias = run.metrics.positions
        if bias is None:
            continue
        name = runs.name_of(run)
        n[name] = bias.n
        tests.append(f"{runs.short[name]}: p {format_p_value(bias.p_value)}")
        for option in bias.positions:
            further_texts = {
                "right": f"{option.n_right:,}",
                "chosen": number(option.chosen.mean, unit=runs.rates),
                "chosen if right": number(option.passed.mean, unit=runs.rates),
            }
            points.append(Point(option.option, name, option.excess, beside=further_texts))
    if not points:
        return
    plan = Plan(
        name="position_bias",
        title="Chosen minus right, by position of the option",
        caption="Share of answers that choose an option, minus the share for which it is right. "
        "Without a position bias, all are near 0 if the options are shuffled. Stuart-Maxwell test, "
        f"clustered: {', '.join(tests)}.",
        heading="option",
        value=runs.of_answers("chosen minus right", "first answers"),
        unit=runs.rates,
        of="answers",
        levels={"": sorted({point.row for point in points})},
        n=n,
        differences=True,
    )
    yield plot.dots(points, plan, runs)


def comparison_figures(runs: Runs, comparison: RunComparison | None) -> Iterator[Figure]:
    """Draw a forest plot of differences from the baseline, over all instances and by group."""
    if comparison is None or not comparison.others:
        return
    sizes: dict[str, int] = {}
    n = {}
    for against in comparison.others:
        n[runs.names[against.run]] = against.overall.n
        for group, difference in against.groups.items():
            sizes[group] = max(difference.n, sizes.get(group, 0))
    shown_groups, only = most(sizes)
    names = display_names([ALL, *shown_groups])
    unit = runs.unit
    points = []
    for group, row in names.items():
        for against in comparison.others:
            compared = against.overall if group == ALL else against.groups.get(group)
            if compared is not None:
                points.append(_difference(row, runs.names[against.run], compared, unit))
    by = "instances"
    levels = {"": [names[ALL]]}
    if shown_groups:
        by = escape_unprintable(comparison.asked.by)
        levels = {"Overall": [names[ALL]], f"By {by}": [names[group] for group in shown_groups]}
    what = f"difference in {escape_unprintable(score_name(comparison.asked.score))}"
    value = runs.of_answers(what, compared_rounds(comparison))
    baseline = runs.names[comparison.baseline]
    plan = Plan(
        name="comparison",
        title=f"{value} from {runs.short[baseline]}",
        caption="Run minus baseline over the instances that both have, not adjusted for multiple "
        f"comparisons. p, adjusted: as in the comparison's tables. {only}".strip(),
        section="comparison",
        heading=by,
        value=value,
        unit=unit,
        of="instances",
        levels=levels,
        n=n,
        baseline=baseline,
    )
    yield plot.dots(points, plan, runs)


def ablation_figures(runs: Runs, comparison: RunComparison | None) -> Iterator[Figure]:
    """Draw each run's mean difference from the baseline over groups."""
    if comparison is None or len(comparison.others) < 2 or comparison.asked.round is not None:
        return
    variants = []
    for run in runs.every:
        variants.append((Variant(run.name, run.metrics, run.settings, {}), run.attempts))
    cluster = comparison.asked.cluster
    by = comparison.asked.by
    options = AblationOptions(baseline=comparison.baseline, over=by, cluster=cluster)
    try:
        ablation = ablate(variants, options)
    except UserError:  # no groups that all runs have
        return
    points = []
    for row in ablation.rows:
        n = row.gain.n
        if row.is_baseline or not n:
            continue
        name = runs.names[row.variant]
        statistic = Statistic(mean=row.difference, ci95=row.ci95, n=n, n_clusters=row.n_clusters)
        percent = row.gain.percent
        further_texts = {
            "mean": number(row.gain.mean, unit=runs.unit),
            "gain %": "" if percent is None else f"{percent:+.0f}",
        }
        points.append(Point(runs.short[name], name, statistic, beside=further_texts))
    if len(points) < 2:
        return
    over = escape_unprintable(ablation.over)
    baseline = runs.names[comparison.baseline]
    plan = Plan(
        name="ablation",
        title=f"mean difference over {over} from {runs.short[baseline]}",
        caption=f"Each {over} has equal weight; differences are of the instances that both have. "
        f"The statistical units are {units_shown(cluster)}. Not adjusted "
        "for multiple comparisons, and not tested here: the page's tests weigh instances equally.",
        section="comparison",
        heading="run",
        value=f"mean difference over {over}",
        unit=runs.unit,
        of="groups",
        levels={"": [point.row for point in points]},
        baseline=baseline,
    )
    yield plot.dots(points, plan, runs)


def compared_rounds(comparison: RunComparison | None) -> str:
    """Return which rounds are compared, in words such as "first answers"."""
    if comparison is None or comparison.asked.round is None:
        return LAST_ROUNDS
    if comparison.asked.round == 1:
        return "first answers"
    return f"last rounds up to {comparison.asked.round}"


def _difference(row: str, run: str, comparison: Comparison, unit: ShownUnit) -> Point:
    further_texts = {
        "baseline": number(comparison.first, unit=unit),
        "of the run": number(comparison.second, unit=unit),
        "p": format_p_value(comparison.p_value),
        "p, adjusted": format_p_value(comparison.p_adjusted),
        "more": f"{comparison.better:,}",
        "less": f"{comparison.worse:,}",
    }
    statistic = Statistic(
        mean=comparison.difference,
        stderr=comparison.stderr,
        ci95=comparison.ci95,
        n=comparison.n,
        n_clusters=comparison.n_clusters,
    )
    return Point(row, run, statistic, beside=further_texts)


def round_figures(runs: Runs) -> Iterator[Figure]:
    """Draw the share of samples that passed in each round, and in any round up to it."""
    several = [run for run in runs.every if run.last_round > 1]
    if not several:
        return
    any_passes = "in this or an earlier round"
    yield from _rounds_figure(runs, several, "rounds_any", any_passes, best_of_first_rounds)
    only = ""
    stopping = ", ".join(runs.short[runs.name_of(run)] for run in several if _stops(run))
    if stopping:
        only = (
            f"From round 2 on, only samples that had failed so far: {stopping}. n counts those of "
            "round 1; the table has n for each round."
        )
    yield from _rounds_figure(runs, several, "rounds_each", "in each round", select_round, only)


def _rounds_figure(
    runs: Runs,
    several: Sequence[ReportedRun],
    name: str,
    rounds: str,
    chosen: Callable[[AttemptTable, int], AttemptTable],
    caption: str = "",
) -> Iterator[Figure]:
    """Draw the share of samples that passed in each round, or in any up to it, unless none has."""
    points = []
    n: dict[str, int] = {}  # of the first round
    for run in several:
        for round_ in range(1, run.last_round + 1):
            part = mean_score(chosen(run.attempts, round_), PASS_RATE)
            if part.mean is not None:
                run_name = runs.name_of(run)
                points.append(Point(f"{round_:,}", run_name, part, round_))
                n.setdefault(run_name, part.n)
    if not points:
        return
    plan = Plan(
        name=name,
        title=f"Passed {rounds}",
        caption=caption,
        heading="round",
        value=f"passed {rounds}",
        section="rounds",
        unit=runs.rates,
        n=n,
    )
    yield plot.lines(points, plan, runs)


def _stops(run: ReportedRun) -> bool:
    """Return whether any round has fewer judged samples than the first."""
    n = run.metrics.rounds.n
    return any(count < n[min(n)] for count in n.values())


def sample_figures(runs: Runs) -> Iterator[Figure]:
    """Draw pass@k and pass^k for runs with several samples of every instance."""
    several = [run for run in runs.every if max(run.metrics.pass_at_k, default=1) > 1]
    for name, what in (
        ("pass_at_k", "any of k samples passes (pass@k)"),
        ("pass_hat_k", "all of k samples pass (pass^k)"),
    ):
        points: list[Point] = []
        n = {}
        for run in several:
            run_name = runs.name_of(run)
            points += _over_k(run, run_name, name)
            n[run_name] = run.metrics.pass_at_k_instances
        if not points:
            continue
        plan = Plan(
            name=name,
            title=runs.of_answers(what, LAST_ROUNDS),
            caption="Unbiased, mean over instances.",
            heading="k",
            value=what,
            section="rounds",
            unit=runs.rates,
            of="instances",
            n=n,
        )
        yield plot.lines(points, plan, runs)


def _over_k(run: ReportedRun, shown_name: str, series: str) -> Iterator[Point]:
    metrics = run.metrics
    stderrs = getattr(metrics, f"{series}_stderr")
    intervals = getattr(metrics, f"{series}_ci95")
    last = run.attempts.last_rounds()
    cluster = last.instances.cluster
    n_judged = np.bincount(last.instance[last.has_verdict], minlength=len(cluster))
    for k, mean in getattr(metrics, series).items():
        statistic = Statistic(
            mean=mean,
            stderr=stderrs.get(k),
            ci95=intervals.get(k),
            n=metrics.n_of_k(k),
            n_clusters=len(np.unique(cluster[n_judged >= k])),
        )
        yield Point(f"{k:,}", shown_name, statistic, k)
