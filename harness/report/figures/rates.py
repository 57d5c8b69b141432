"""Figures of rates: by group, by a paper's levels, against a baseline, by round and by k."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace as changed
from math import isfinite

import numpy as np
from msgspec.structs import replace

from harness.analysis.breakdown import any_of_first, of_round, rates
from harness.analysis.clustered import SampleStatistic, Statistic, clustered_mean
from harness.analysis.comparison import Comparison
from harness.analysis.run_comparison import RunComparison
from harness.ports import Effect
from harness.report.comparison import captions, score_name
from harness.report.figure import Figure
from harness.report.figures.names import counted, natural, number, shown, slug
from harness.report.figures.plot import UNITS, Runs
from harness.report.figures.points import (
    BANDS,
    BARS,
    LINE_BARS,
    Plan,
    Point,
    are_fractions,
    dots,
    lines,
)
from harness.report.runs import ReportedRun
from harness.report.text import p_value, printable

MOST_GROUPS = 60
ALL = "all instances"
EACH = "in this round"
ANY = "in this or an earlier round"
AT = "any of k (pass@k)"
HAT = "all of k (pass^k)"
MOST_TOGETHER = 2
"""Runs whose two lines each can be told apart in one figure."""
LEAST_OF_LINE = 3
"""Groups needed for a line."""

_EVERY = 20
_NUMBER = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]{1,3})?")

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


def largest(measured: Measured) -> tuple[list[str], str]:
    """Return the groups with the most samples, in natural order, and a sentence on the others.

    Samples without a value count: what could not be judged does not make a group small.
    """
    sizes: dict[str, int] = {}
    for groups in measured.values():
        for group, part in groups.items():
            sizes[group] = sizes.get(group, 0) + part.n + part.missing
    return most(sizes)


def most(sizes: Mapping[str, int], what: str = "largest groups") -> tuple[list[str], str]:
    """Return the names with the largest sizes, in natural order, and a sentence on the others."""
    kept = sorted(sizes, key=lambda name: (-sizes[name], natural(name)))[:MOST_GROUPS]
    which, names = what.rsplit(" ", 1)
    only = f" The {len(kept)} {which} of {len(sizes):,} {names}." if len(kept) < len(sizes) else ""
    return sorted(kept, key=natural), only


def has_several(measured: Measured) -> bool:
    """Return whether any run has several groups, which then say more than the runs' settings."""
    return any(len(groups) > 1 for groups in measured.values())


def counts(points: Sequence[Point], of: str = "samples") -> str:
    """Return how many samples the points of each run cover, and which are independent."""
    total: dict[str, int] = {}
    for one in points:
        total[one.run] = total.get(one.run, 0) + one.of.n
    return f"{counted(total, of)} {UNITS}"


def rate_figures(runs: Runs) -> Iterator[Figure]:
    """Draw, for each label with two groups or more, the rate of all or of first answers."""
    for label in labels(runs):
        plan = Plan(
            name=f"rate_by_{slug(label)}",
            title=runs.titled(f"{runs.what} by {printable(label)}"),
            caption=f"{runs.what} of {runs.which_answers}.",
            heading=printable(label),
            value=runs.value,
        )
        yield from _by_label(runs, by_group(runs, label), plan)


def any_round_figures(runs: Runs) -> Iterator[Figure]:
    """Yield the share of samples that passed in any round, for runs that have several."""
    last = {runs.shown(run): run.last_round for run in runs.every if run.last_round > 1}
    if not last:
        return
    longest = spans = f"rounds 1 to {max(last.values())}"
    if len(set(last.values())) > 1:
        spans = "their rounds (" + ", ".join(f"{run}: 1 to {k}" for run, k in last.items()) + ")"
    for label in labels(runs):
        measured = {
            runs.shown(run): {
                group: part
                for (group,), part in rates(
                    any_of_first(run.attempts, run.last_round), label
                ).items()
            }
            for run in runs.every
            if run.last_round > 1
        }
        plan = Plan(
            name=f"any_round_by_{slug(label)}",
            title=f"Passed in any of {longest}, by {printable(label)}",
            caption=f"share of samples that passed in any of {spans}; one that stopped on its pass "
            "stays passed.",
            heading=printable(label),
            value=f"passed in any of {longest}",
        )
        yield from _by_label(runs, measured, plan)


def _by_label(runs: Runs, measured: Measured, plan: Plan) -> Iterator[Figure]:
    """Draw lines if the groups are numbers, otherwise dots; ``plan`` has what they show."""
    if not has_several(measured):
        return
    groups, only = largest(measured)
    numbers = _as_numbers(groups)
    groups = sorted(groups, key=numbers.__getitem__) if numbers else groups
    names = shown(groups)
    points = [
        Point(
            names[group],
            run,
            found[group],
            numbers.get(group, 0.0),
            {"without": f"{found[group].missing:,}"},
        )
        for group in groups
        for run, found in measured.items()
        if group in found
    ]
    along = bool(numbers) and len(groups) >= LEAST_OF_LINE
    how, bars = ("Lines", LINE_BARS) if along else ("Dots", BARS)
    plan = changed(
        plan,
        caption=f"{how}: {plan.caption}{only} {bars} {counts(points)}",
        levels={"": list(names.values())},
        bounded=are_fractions(points),
    )
    yield (lines if along else dots)(points, plan, runs)


def _as_numbers(groups: Sequence[str]) -> dict[str, float]:
    """Return the number of each group; nothing if one has none, or two have the same."""
    found = {group: float(group) for group in groups if _NUMBER.fullmatch(group)}
    differ = len(set(found.values())) == len(groups)
    return found if differ and all(map(isfinite, found.values())) else {}


def effect_figures(runs: Runs) -> Iterator[Figure]:
    """Draw the figures of a benchmark's paper: groups arranged by what they differ in."""
    effects = {effect.name: effect for run in runs.every for effect in run.effects}
    for effect in effects.values():
        yield from _effect(runs, effect)


def _effect(runs: Runs, effect: Effect) -> Iterator[Figure]:
    measured = by_group(runs, effect.label)
    known = {group for groups in measured.values() for group in groups}
    every = {
        level: [group for group in groups if group in known]
        for level, groups in effect.levels.items()
    }
    levels = {printable(level): groups for level, groups in every.items() if groups}
    if len(levels) < 2:
        return
    names = shown(group for groups in levels.values() for group in groups)
    points = [
        Point(names[group], run, found[group], beside={"level": level})
        for level, groups in levels.items()
        for group in groups
        for run, found in measured.items()
        if group in found
    ]
    plan = Plan(
        name=slug(effect.name),
        title=runs.titled(printable(effect.name).replace("_", " ")),
        caption=f"Dots: {runs.what} of {runs.which_answers}, arranged as in "
        f"{printable(effect.source)}. {BARS} {counts(points)}",
        heading=printable(effect.label),
        value=runs.value,
        levels={level: [names[group] for group in groups] for level, groups in levels.items()},
        bounded=are_fractions(points),
    )
    yield dots(points, plan, runs)


def comparison_figures(runs: Runs, comparison: RunComparison | None) -> Iterator[Figure]:
    """Draw a forest plot of differences from the baseline, over all instances and by group."""
    if comparison is None or not comparison.others:
        return
    sizes: dict[str, int] = {}
    for one in comparison.others:
        for group, found in one.groups.items():
            sizes[group] = max(found.n, sizes.get(group, 0))
    kept, only = most(sizes)
    names = shown([ALL, *kept])
    points = [
        _difference(names[ALL], runs.names[one.run], one.overall) for one in comparison.others
    ]
    points += [
        _difference(names[group], runs.names[one.run], one.groups[group])
        for group in names
        for one in comparison.others
        if group in one.groups
    ]
    rounds, baseline = compared_rounds(comparison), runs.names[comparison.baseline]
    by = printable(comparison.asked.by) if kept else "instances"
    what = printable(score_name(comparison.asked.score))
    drawn = replace(
        comparison,
        asked=comparison.asked if kept else replace(comparison.asked, by=""),
        others=[replace(one, constraints={}) for one in comparison.others],
        notes=[],
    )
    what_is_drawn, *of_p = captions(drawn)
    caption = (
        f"Dots: {what_is_drawn}{only} {BARS} Dashed line: no difference; intervals are not "
        "adjusted."
    )
    if of_p:
        caption += f" In tooltips and table: {' '.join(of_p)}"
    levels = {"Overall": [names[ALL]], f"By {by}": [names[group] for group in kept]}
    plan = Plan(
        name="comparison",
        title=runs.titled(f"difference to {runs.short[baseline]}", rounds),
        caption=printable(caption),
        section="comparison",
        heading=by,
        value=f"difference in {what}" + (f" of {rounds}" if runs.several_rounds else ""),
        of="instances",
        levels=levels if kept else {"": [names[ALL]]},
        bounded=False,
        baseline=baseline,
    )
    yield dots(points, plan, runs)


def compared_rounds(comparison: RunComparison | None) -> str:
    """Name the rounds that are compared, in the plural."""
    last = comparison.asked.round if comparison is not None else None
    return {None: "last rounds", 1: "first answers"}.get(last, f"last rounds up to {last}")


def _difference(row: str, run: str, found: Comparison) -> Point:
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
    return Point(row, run, difference, beside=beside)


def round_figures(runs: Runs) -> Iterator[Figure]:
    """Draw the rate of each round and of all rounds so far; of many runs, in two figures."""
    several = [run for run in runs.every if run.last_round > 1]
    points = [point for run in several for point in _round_points(runs, run)]
    if not points:
        return
    stopping = [runs.shown(run) for run in several if _stops(run)]
    figures: list[tuple[str, str, tuple[str, ...]]] = [
        ("rounds_any", "Passed in this or an earlier round", (ANY,)),
        ("rounds_each", "Passed in each round", (EACH,)),
    ]
    if len(several) <= MOST_TOGETHER:
        figures = [("rounds", "Passed by round", (ANY, EACH))]
    for name, title, kinds in figures:
        chosen = [point for point in points if point.beside["line"] in kinds]
        sentences = []
        if ANY in kinds:
            sentences.append(
                "Solid: samples that passed in the first k rounds; one that stopped on its pass "
                "stays passed."
            )
        if EACH in kinds:
            line = "Dashed" if ANY in kinds else "Solid"
            sentences.append(f"{line}: pass rate of that round's answers alone.")
        if EACH in kinds and stopping:
            sentences.append(
                f"Samples of {', '.join(stopping)} stop when they pass: from round 2 on, that "
                "line covers those that had failed so far and is not comparable with round 1."
            )
        n = {point.run: point.of.n for point in points if point.at == 1}
        sentences.append(f"{BANDS} Of round 1: {counted(n, 'samples')} {UNITS}")
        plan = Plan(
            name=name,
            title=title,
            caption=" ".join(sentences),
            heading="round",
            value="pass rate",
            kinds=kinds,
        )
        yield lines(chosen, plan, runs)


def _round_points(runs: Runs, run: ReportedRun) -> Iterator[Point]:
    for line, chosen in ((ANY, any_of_first), (EACH, of_round)):
        for at in range(1, run.last_round + 1):
            part = rates(chosen(run.attempts, at)).get(())
            if part is not None and part.mean is not None:
                yield Point(f"{at:,}", runs.shown(run), part, at, {"line": line})


def _stops(run: ReportedRun) -> bool:
    """Return whether later rounds have fewer samples, because passed ones were not asked again."""
    n = run.metrics.rounds.n
    return any(count < n[min(n)] for count in n.values())


def sample_figures(runs: Runs) -> Iterator[Figure]:
    """Draw pass@k and pass^k of the runs that have several samples of every instance."""
    several = [run for run in runs.every if max(run.metrics.pass_at_k, default=1) > 1]
    if not several:
        return
    points = [point for run in several for point in _sample_points(runs, run)]
    n = {runs.shown(run): run.metrics.pass_at_k_instances for run in several}
    later = " of last rounds" if runs.several_rounds else ""
    title = "any of k samples passes (pass@k), and all of them (pass^k)"
    plan = Plan(
        name="pass_at_k",
        title=runs.titled(title, "last rounds"),
        caption=f"Solid: the chance that any of k samples{later} passes, dashed: that all do; "
        f"unbiased, mean over instances. {BANDS} {counted(n, 'instances')} {UNITS}",
        heading="k",
        value="chance",
        of="instances",
        kinds=(AT, HAT),
    )
    yield lines(points, plan, runs)


def _sample_points(runs: Runs, run: ReportedRun) -> Iterator[Point]:
    metrics = run.metrics
    # How many instances have a judged sample, in which clusters: the units of the intervals.
    last = run.attempts.last_rounds()
    judged = np.unique(last.instance[last.judged])
    of = clustered_mean(np.zeros(len(judged)), run.attempts.instances.cluster[judged])
    series = (
        (AT, metrics.pass_at_k, metrics.pass_at_k_stderr),
        (HAT, metrics.pass_hat_k, metrics.pass_hat_k_stderr),
    )
    for line, means, stderrs in series:
        # All small k, then increasingly few.
        largest = max(means, default=1)
        chosen = {*range(1, _EVERY + 1), *np.geomspace(_EVERY, max(_EVERY, largest), _EVERY + 1)}
        for k in sorted({round(k) for k in chosen} & means.keys()):
            found = changed(of, mean=means[k], stderr=stderrs.get(k))
            yield Point(f"{k:,}", runs.shown(run), found.statistic(found.ci95), k, {"line": line})
