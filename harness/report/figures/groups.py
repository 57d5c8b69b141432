"""Figures by groups: rates of each label, effects from a paper, differences from a baseline."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from msgspec.structs import replace

from harness.analysis.breakdown import any_of_first, rates
from harness.analysis.clustered import SampleStatistic, Statistic
from harness.analysis.comparison import Comparison
from harness.analysis.run_comparison import RunComparison
from harness.ports import Effect
from harness.report.comparison import captions, score_name
from harness.report.figures.dots import (
    BARS,
    LEAST_OF_LINE,
    LINE_BARS,
    Dot,
    DotPlan,
    are_fractions,
    as_numbers,
    dot_chart,
    line_chart,
)
from harness.report.figures.figure import Figure
from harness.report.figures.names import counted, natural, number, shown, slug
from harness.report.figures.runs import Drawn, Runs
from harness.report.runs import ReportedRun
from harness.report.text import p_value, printable

MOST_GROUPS = 60
ALL = "all instances"
UNITS = "Samples of one prompt, or of one named cluster, are one statistical unit."

Measured = Mapping[str, Mapping[str, SampleStatistic]]
"""Shown name of a run to its value for each group."""


def labels(runs: Runs) -> list[str]:
    """Return the labels that the runs' attempts can be grouped by."""
    return list(dict.fromkeys(label for run in runs.every for label in run.attempts.labels()))


def by_group(runs: Runs, label: str) -> Measured:
    """Measure each group of a label, without runs that lack the label."""
    found = {
        runs.shown(run): {group: part for (group,), part in runs.measured(run, label).items()}
        for run in runs.every
    }
    return {run: groups for run, groups in found.items() if groups}


def largest(measured: Measured) -> tuple[list[str], int]:
    """Return the groups with most samples, at most `MOST_GROUPS`, in natural order; and the total.

    Samples without a value count: what could not be judged does not make a group small.
    """
    sizes: dict[str, int] = {}
    for groups in measured.values():
        for group, part in groups.items():
            sizes[group] = sizes.get(group, 0) + part.n + part.missing
    return most(sizes), len(sizes)


def most(sizes: Mapping[str, int]) -> list[str]:
    """Return the names with the largest sizes, at most `MOST_GROUPS`, in natural order."""
    kept = sorted(sizes, key=lambda name: (-sizes[name], natural(name)))[:MOST_GROUPS]
    return sorted(kept, key=natural)


def only(kept: int, of: int, what: str = "largest", names: str = "groups") -> str:
    """Return a sentence on what was omitted; empty if everything is shown."""
    return f" The {kept} {what} of {of:,} {names}." if kept < of else ""


def has_several(measured: Measured) -> bool:
    """Return whether any run has several groups; otherwise groups only repeat the runs'
    settings.
    """
    return any(len(groups) > 1 for groups in measured.values())


def counts(dots: Sequence[Dot], of: str = "samples") -> str:
    """Return how many samples the dots of each run cover."""
    total: dict[str, int] = {}
    for one in dots:
        total[one.run] = total.get(one.run, 0) + one.of.n
    return counted(total, of)


def rate_figures(runs: Runs) -> Iterator[Figure]:
    """Draw, for each label with two groups or more, the rate of all or of first answers."""
    for label in labels(runs):
        yield from _by_label(
            runs,
            by_group(runs, label),
            label,
            _Words(
                name=f"rate_by_{slug(label)}",
                title=runs.titled(f"{runs.what} by {printable(label)}"),
                says=f"{runs.what} of {runs.which_answers}.",
                value=runs.value,
            ),
        )


def any_round_figures(runs: Runs) -> Iterator[Figure]:
    """Yield the share of samples that passed in any round, for runs that have several."""
    several = [run for run in runs.every if run.last_round > 1]
    if not several:
        return
    longest = f"rounds 1 to {max(run.last_round for run in several)}"
    for label in labels(runs):
        measured = {runs.shown(run): _any_round(run, label) for run in several}
        yield from _by_label(
            runs,
            {run: groups for run, groups in measured.items() if groups},
            label,
            _Words(
                name=f"any_round_by_{slug(label)}",
                title=f"Passed in any of {longest}, by {printable(label)}",
                says=f"share of samples that passed in any of {_spans(runs, several)}; one that "
                "stopped on its pass stays passed.",
                value=f"passed in any of {longest}",
            ),
        )


def _any_round(run: ReportedRun, label: str) -> dict[str, SampleStatistic]:
    passed = any_of_first(run.attempts, run.last_round)
    return {group: part for (group,), part in rates(passed, label).items()}


def _spans(runs: Runs, several: Sequence[ReportedRun]) -> str:
    """Describe which rounds runs have."""
    found = {runs.shown(run): run.last_round for run in several}
    if len(set(found.values())) == 1:
        return f"rounds 1 to {next(iter(found.values()))}"
    return "their rounds (" + ", ".join(f"{run}: 1 to {k}" for run, k in found.items()) + ")"


@dataclass(frozen=True, slots=True)
class _Words:
    """The texts of a figure.

    Attributes:
        says: What its dots show.
        value: The title of their axis.
    """

    name: str
    title: str
    says: str
    value: str


def _by_label(runs: Runs, measured: Measured, label: str, words: _Words) -> Iterator[Figure]:
    if not has_several(measured):
        return
    groups, of = largest(measured)
    numbers = as_numbers(groups)
    if numbers is not None:
        groups = sorted(groups, key=numbers.__getitem__)
    names = shown(groups)
    dots = [
        Dot(names[group], run, found[group], {"without": f"{found[group].missing:,}"})
        for group in groups
        for run, found in measured.items()
        if group in found
    ]
    plan = DotPlan(
        heading=printable(label),
        value=words.value,
        rows=[names[group] for group in groups],
        bounded=are_fractions(dots),
    )
    says = f"{words.says}{only(len(groups), of)}"
    if numbers is not None and of >= LEAST_OF_LINE:
        at = {names[group]: numbers[group] for group in groups}
        chart, sheet = line_chart(dots, at, plan, runs)
        how = f"Lines: {says} {LINE_BARS}"
    else:
        chart, sheet = dot_chart(dots, plan, runs)
        how = f"Dots: {says} {BARS}"
    caption = f"{how} {counts(dots)} {UNITS}"
    yield runs.figure(Drawn(words.name, words.title, caption, chart, sheet), measured)


def effect_figures(runs: Runs) -> Iterator[Figure]:
    """Draw the figures of a benchmark's paper: groups arranged by what they differ in."""
    effects = {effect.name: effect for run in runs.every for effect in run.effects}
    for effect in effects.values():
        yield from _effect(runs, effect)


def _effect(runs: Runs, effect: Effect) -> Iterator[Figure]:
    measured = by_group(runs, effect.label)
    known = {group for groups in measured.values() for group in groups}
    levels = {
        level: [group for group in groups if group in known]
        for level, groups in effect.levels.items()
    }
    levels = {level: groups for level, groups in levels.items() if groups}
    if len(levels) < 2:
        return
    names = shown(group for groups in levels.values() for group in groups)
    dots = [
        Dot(names[group], run, found[group], {"level": printable(level)})
        for level, groups in levels.items()
        for group in groups
        for run, found in measured.items()
        if group in found
    ]
    plan = DotPlan(
        heading=printable(effect.label),
        value=runs.value,
        rows=list(names.values()),
        levels={printable(level): [names[g] for g in groups] for level, groups in levels.items()},
        bounded=are_fractions(dots),
    )
    chart, sheet = dot_chart(dots, plan, runs)
    caption = (
        f"Dots: {runs.what} of {runs.which_answers}, arranged as in {printable(effect.source)}. "
        f"{BARS} {counts(dots)} {UNITS}"
    )
    title = runs.titled(printable(effect.name).replace("_", " "))
    drawn = Drawn(slug(effect.name), title, caption, chart, sheet)
    yield runs.figure(drawn, {one.run for one in dots})


def comparison_figures(runs: Runs, comparison: RunComparison | None) -> Iterator[Figure]:
    """Draw how far runs are from their baseline, over all instances and by group (a forest
    plot).
    """
    if comparison is None or not comparison.others:
        return
    sizes: dict[str, int] = {}
    for one in comparison.others:
        for group, found in one.groups.items():
            sizes[group] = max(found.n, sizes.get(group, 0))
    kept = most(sizes)
    names = shown([ALL, *kept])
    baseline = runs.names[comparison.baseline]
    dots = [_difference(names[ALL], runs.names[one.run], one.overall) for one in comparison.others]
    dots += [
        _difference(names[group], runs.names[one.run], one.groups[group])
        for group in names
        for one in comparison.others
        if group in one.groups
    ]
    rounds = compared_rounds(comparison)
    by = printable(comparison.asked.by) if kept else "instances"
    what = printable(score_name(comparison.asked.score))
    levels = {"Overall": [names[ALL]], f"By {by}": [names[group] for group in kept]}
    plan = DotPlan(
        heading=by,
        value=f"difference in {what}" + (f" of {rounds}" if runs.several_rounds else ""),
        rows=list(names.values()),
        of="instances",
        levels=levels if kept else {},
        bounded=False,
        difference=True,
    )
    drawn_of = replace(
        comparison,
        asked=comparison.asked if kept else replace(comparison.asked, by=""),
        others=[replace(one, constraints={}) for one in comparison.others],
        notes=[],
    )
    what_is_drawn, *of_p = captions(drawn_of)
    chart, sheet = dot_chart(dots, plan, runs)
    caption = (
        f"Dots: {what_is_drawn}{only(len(kept), len(sizes))} {BARS} Dashed line: no difference; "
        "intervals are not adjusted."
    )
    if of_p:
        caption += f" In tooltips and table: {' '.join(of_p)}"
    title = runs.titled(f"difference to {runs.short[baseline]}", rounds)
    drawn = Drawn("comparison", title, printable(caption), chart, sheet, "comparison")
    yield runs.figure(drawn, [baseline, *(one.run for one in dots)])


def compared_rounds(comparison: RunComparison | None) -> str:
    """Name the rounds that are compared, in the plural."""
    last = comparison.asked.round if comparison is not None else None
    return {None: "last rounds", 1: "first answers"}.get(last, f"last rounds up to {last}")


def _difference(row: str, run: str, found: Comparison) -> Dot:
    beside = {
        "baseline": number(found.first),
        "of the run": number(found.second),
        "p": p_value(found.p_adjusted),
        "more": f"{found.better:,}",
        "less": f"{found.worse:,}",
    }
    difference = Statistic(
        mean=found.difference,
        stderr=found.stderr,
        ci95=found.ci95,
        n=found.n,
        n_clusters=found.n_clusters,
    )
    return Dot(row, run, difference, beside)
