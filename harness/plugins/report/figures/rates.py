"""Figures of rates by group, factor, round and number of samples."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from math import isfinite

import numpy as np

from harness.analysis.breakdown import Key, any_of_first, of_round, value_of, values_by
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
from harness.report.text import p_value, printable
from harness.store.columns import AttemptTable, natural

MOST_GROUPS = 60  # maximum groups in a figure
LEAST_OF_LINE = 3  # minimum number of groups to draw as a line
ALL = "all instances"

Measured = Mapping[str, Mapping[str, SampleStatistic]]  # by shown name of a run, then group
Measure = Callable[[ReportedRun, str], Mapping[Key, SampleStatistic]]  # of a run, by a label


def by_group(runs: Runs, label: str, measure: Measure | None = None) -> Measured:
    """Map each run with ``label`` to its primary metric (or ``measure``) by group of the label."""
    measured = {runs.name_of(run): (measure or runs.measured)(run, label) for run in runs.every}
    return {
        run: {group: part for (group,), part in groups.items()}
        for run, groups in measured.items()
        if groups
    }


def by_label(runs: Runs, measure: Measure | None = None) -> dict[str, Measured]:
    """Map each label that has several groups in some run to the result of `by_group`.

    A label with one group is merely a setting of the run.
    """
    labels = dict.fromkeys(label for run in runs.every for label in run.attempts.labels())
    by_label_name = {label: by_group(runs, label, measure) for label in labels}
    return {
        label: by_run
        for label, by_run in by_label_name.items()
        if any(len(run_groups) > 1 for run_groups in by_run.values())
    }


def largest(measured: Measured) -> tuple[list[str], str]:
    """Apply `most` to the groups' numbers of samples in all runs."""
    sizes: dict[str, int] = {}
    for groups in measured.values():
        for group, part in groups.items():
            sizes[group] = sizes.get(group, 0) + part.n + part.missing
    return most(sizes)


def most(sizes: Mapping[str, int]) -> tuple[list[str], str]:
    """Return the `MOST_GROUPS` largest groups in natural order, and a note on the rest."""
    largest_names = sorted(sizes, key=lambda name: (-sizes[name], natural(name)))[:MOST_GROUPS]
    only = (
        f"The {len(largest_names)} largest of {len(sizes):,} groups."
        if len(largest_names) < len(sizes)
        else ""
    )
    return sorted(largest_names, key=natural), only


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
        return values_by(any_of_first(run.attempts, run.last_round), PASS_RATE, label)

    for label, measured in by_label(runs, any_round).items():
        yield _by_label(runs, measured, label, "any_round", "passed in any round", runs.rates)


def _by_label(
    runs: Runs, measured: Measured, label: str, name: str, value: str, unit: ShownUnit
) -> Figure:
    groups, only = largest(measured)
    numbers = _as_numbers(groups)
    names = display_names(sorted(groups, key=numbers.__getitem__) if numbers else groups)
    points = [
        Point(names[group], run, part, numbers.get(group, 0.0), {"without": f"{part.missing:,}"})
        for group in names
        for run, statistics in measured.items()
        if (part := statistics.get(group))
    ]
    plan = Plan(
        name=f"{name}_by_{slug(label)}",
        title=f"{value} by {printable(label)}",
        caption=only,
        heading=printable(label),
        value=value,
        unit=unit,
        levels={"": list(names.values())},
    )
    return (plot.lines if len(numbers) >= LEAST_OF_LINE else plot.dots)(points, plan, runs)


def _as_numbers(groups: list[str]) -> dict[str, float]:
    try:
        numbers = {group: float(group) for group in groups}
    except ValueError:
        return {}
    differ = len(set(numbers.values())) == len(groups)
    return numbers if differ and all(map(isfinite, numbers.values())) else {}


def effect_figures(runs: Runs) -> Iterator[Figure]:
    """Draw the figures of a benchmark's paper that compare groups arranged in levels."""
    for effect in {effect.name: effect for run in runs.every for effect in run.effects}.values():
        measured = by_group(runs, effect.label)
        present = {group for groups in measured.values() for group in groups}
        every = {
            printable(level): [group for group in groups if group in present]
            for level, groups in effect.levels.items()
        }
        levels = {level: groups for level, groups in every.items() if groups}
        names = display_names(group for groups in levels.values() for group in groups)
        points = [
            Point(names[group], run, statistics[group], beside={"level": level})
            for level, groups in levels.items()
            for group in groups
            for run, statistics in measured.items()
            if group in statistics
        ]
        plan = Plan(
            name=slug(effect.name),
            title=f"{printable(effect.name).replace('_', ' ')}: {runs.value()}",
            caption=f"Arranged as in {printable(effect.source)}.",
            heading=printable(effect.label),
            value=runs.value(),
            unit=runs.unit,
            levels={level: [names[group] for group in groups] for level, groups in levels.items()},
        )
        if len(levels) > 1:
            yield plot.dots(points, plan, runs)


def position_figures(runs: Runs) -> Iterator[Figure]:
    """Draw how much more often the option at each position is chosen than it is right."""
    every = {runs.name_of(run): run.metrics.positions for run in runs.every}
    known_biases = {run: bias for run, bias in every.items() if bias is not None}
    points = [
        Point(
            row=option.option,
            run=run,
            of=option.excess,
            beside={
                "right": f"{option.n_right:,}",
                "chosen": number(option.chosen.mean, unit=runs.rates),
                "chosen if right": number(option.passed.mean, unit=runs.rates),
            },
        )
        for run, bias in known_biases.items()
        for option in bias.positions
    ]
    tests = [f"{runs.short[run]}: p {p_value(bias.p_value)}" for run, bias in known_biases.items()]
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
        n={run: bias.n for run, bias in known_biases.items()},
        differences=True,
    )
    if points:
        yield plot.dots(points, plan, runs)


def comparison_figures(runs: Runs, comparison: RunComparison | None) -> Iterator[Figure]:
    """Draw a forest plot of differences from the baseline, over all instances and by group."""
    if comparison is None or not comparison.others:
        return
    sizes: dict[str, int] = {}
    for against in comparison.others:
        for group, difference in against.groups.items():
            sizes[group] = max(difference.n, sizes.get(group, 0))
    shown_groups, only = most(sizes)
    names = display_names([ALL, *shown_groups])
    unit = runs.unit
    points = [
        _difference(names[group], runs.names[against.run], group_difference, unit)
        for group in names
        for against in comparison.others
        if (group_difference := against.overall if group == ALL else against.groups.get(group))
    ]
    by = printable(comparison.asked.by) if shown_groups else "instances"
    what = f"difference in {printable(score_name(comparison.asked.score))}"
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
        levels={"Overall": [names[ALL]], f"By {by}": [names[group] for group in shown_groups]}
        if shown_groups
        else {"": [names[ALL]]},
        n={runs.names[against.run]: against.overall.n for against in comparison.others},
        baseline=baseline,
    )
    yield plot.dots(points, plan, runs)


def ablation_figures(runs: Runs, comparison: RunComparison | None) -> Iterator[Figure]:
    """Draw each run's mean difference from the baseline over groups."""
    if comparison is None or len(comparison.others) < 2 or comparison.asked.round is not None:
        return
    every = [(Variant(run.name, run.metrics, run.settings, {}), run.attempts) for run in runs.every]
    options_of_comparison = comparison.asked
    options = AblationOptions(
        baseline=comparison.baseline,
        over=options_of_comparison.by,
        cluster=options_of_comparison.cluster,
    )
    try:
        ablation = ablate(every, options)
    except UserError:  # no groups that all runs have
        return
    points = [
        Point(
            row=runs.short[runs.names[row.variant]],
            run=runs.names[row.variant],
            of=Statistic(
                mean=row.difference, ci95=row.ci95, n=row.gain.n, n_clusters=row.n_clusters
            ),
            beside={
                "mean": number(row.gain.mean, unit=runs.unit),
                "gain %": "" if row.gain.percent is None else f"{row.gain.percent:+.0f}",
            },
        )
        for row in ablation.rows
        if not row.is_baseline and row.gain.n
    ]
    if len(points) < 2:
        return
    over = printable(ablation.over)
    baseline = runs.names[comparison.baseline]
    plan = Plan(
        name="ablation",
        title=f"mean difference over {over} from {runs.short[baseline]}",
        caption=f"Each {over} has equal weight; differences are of the instances that both have. "
        f"The statistical units are {units_shown(options_of_comparison.cluster)}. Not adjusted "
        "for multiple comparisons, and not tested here: the page's tests weigh instances equally.",
        section="comparison",
        heading="run",
        value=f"mean difference over {over}",
        unit=runs.unit,
        of="groups",
        levels={"": [point.row for point in points]},
        n={point.run: point.of.n for point in points},
        baseline=baseline,
    )
    yield plot.dots(points, plan, runs)


def compared_rounds(comparison: RunComparison | None) -> str:
    """Return which rounds are compared, in words such as "first answers"."""
    last = comparison.asked.round if comparison is not None else None
    return {None: LAST_ROUNDS, 1: "first answers"}.get(last, f"last rounds up to {last}")


def _difference(row: str, run: str, comparison: Comparison, unit: ShownUnit) -> Point:
    further_texts = {
        "baseline": number(comparison.first, unit=unit),
        "of the run": number(comparison.second, unit=unit),
        "p": p_value(comparison.p_value),
        "p, adjusted": p_value(comparison.p_adjusted),
        "more": f"{comparison.better:,}",
        "less": f"{comparison.worse:,}",
    }
    size = {"n": comparison.n, "n_clusters": comparison.n_clusters}
    statistic = Statistic(
        mean=comparison.difference, stderr=comparison.stderr, ci95=comparison.ci95, **size
    )
    return Point(row, run, statistic, beside=further_texts)


def round_figures(runs: Runs) -> Iterator[Figure]:
    """Draw the share of samples that passed in each round, and in any round up to it."""
    several = [run for run in runs.every if run.last_round > 1]
    stopping = ", ".join(runs.short[runs.name_of(run)] for run in several if _stops(run))
    only = (
        f"From round 2 on, only samples that had failed so far: {stopping}. n counts those of "
        "round 1; the table has n for each round."
        if stopping
        else ""
    )
    kinds: list[tuple[str, str, str, Callable[[AttemptTable, int], AttemptTable]]] = [
        ("rounds_any", "in this or an earlier round", "", any_of_first),
        ("rounds_each", "in each round", only, of_round),
    ]
    for name, rounds, caption, chosen in kinds:
        points = [
            Point(f"{number:,}", runs.name_of(run), part, number)
            for run in several
            for number in range(1, run.last_round + 1)
            if (part := value_of(chosen(run.attempts, number), PASS_RATE)).mean is not None
        ]
        plan = Plan(
            name=name,
            title=f"Passed {rounds}",
            caption=caption,
            heading="round",
            value=f"passed {rounds}",
            section="rounds",
            unit=runs.rates,
            n={point.run: point.of.n for point in reversed(points)},
        )
        if points:
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
        points = [point for run in several for point in _over_k(run, runs.name_of(run), name)]
        plan = Plan(
            name=name,
            title=runs.of_answers(what, LAST_ROUNDS),
            caption="Unbiased, mean over instances.",
            heading="k",
            value=what,
            section="rounds",
            unit=runs.rates,
            of="instances",
            n={runs.name_of(run): run.metrics.pass_at_k_instances for run in several},
        )
        if points:
            yield plot.lines(points, plan, runs)


def _over_k(run: ReportedRun, shown_name: str, series: str) -> Iterator[Point]:
    metrics = run.metrics
    stderrs, bounds = (getattr(metrics, f"{series}_{part}") for part in ("stderr", "ci95"))
    last = run.attempts.last_rounds()
    cluster = last.instances.cluster
    n_judged = np.bincount(last.instance[last.judged], minlength=len(cluster))
    for k, mean in getattr(metrics, series).items():
        statistic = Statistic(
            mean=mean,
            stderr=stderrs.get(k),
            ci95=bounds.get(k),
            n=metrics.n_of_k(k),
            n_clusters=len(np.unique(cluster[n_judged >= k])),
        )
        yield Point(f"{k:,}", shown_name, statistic, k)
