"""Rates by the groups of a label, and how often any round passed there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from harness.analysis.breakdown import any_of_first, rates
from harness.analysis.clustered import SampleStatistic
from harness.report.figure import Figure
from harness.report.figures.dots import BARS, Dot, Plan, are_fractions, chart, dot, table
from harness.report.figures.lines import LEAST_OF_LINE, LINE_BARS, as_numbers, line_chart
from harness.report.figures.names import counted, natural, shown, slug
from harness.report.figures.runs import Runs, last_round
from harness.report.reported_run import ReportedRun
from harness.report.text import printable

MOST_GROUPS = 60

Measured = Mapping[str, Mapping[str, SampleStatistic]]
"""Shown name of a run to its figure for each group."""


def labels(runs: Runs) -> list[str]:
    """What the runs' attempts can be grouped by."""
    return list(dict.fromkeys(label for run in runs.every for label in run.attempts.labels()))


def by_group(runs: Runs, label: str) -> Measured:
    """What is measured in each group of a label; without runs that have no such label."""
    found = {
        runs.shown(run): {group: part for (group,), part in runs.measured(run, label).items()}
        for run in runs.every
    }
    return {run: groups for run, groups in found.items() if groups}


def rate_figures(runs: Runs) -> Iterator[Figure]:
    """For each label with two groups or more: the answers, or the first round's answers."""
    for label in labels(runs):
        measured = by_group(runs, label)
        yield from _figure(
            runs,
            measured,
            label,
            name=f"rate_by_{slug(label)}",
            title=runs.titled(f"{runs.what} by {printable(label)}"),
            says=f"{runs.what} of {runs.which_answers}.",
            value=runs.value,
        )


def any_round_figures(runs: Runs) -> Iterator[Figure]:
    """The same for samples that passed in any round, of runs that have several."""
    several = [run for run in runs.every if last_round(run) > 1]
    if not several:
        return
    longest = f"rounds 1 to {max(map(last_round, several))}"
    for label in labels(runs):
        measured = {runs.shown(run): _any_round(run, label) for run in several}
        yield from _figure(
            runs,
            {run: groups for run, groups in measured.items() if groups},
            label,
            name=f"any_round_by_{slug(label)}",
            title=f"Passed in any of {longest}, by {printable(label)}",
            says=f"share of samples that passed in any of {spans(runs, several)}; one that "
            "stopped on its pass stays passed.",
            value=f"passed in any of {longest}",
        )


def spans(runs: Runs, several: Sequence[ReportedRun]) -> str:
    """Which rounds runs have, in words."""
    found = {runs.shown(run): last_round(run) for run in several}
    if len(set(found.values())) == 1:
        return f"rounds 1 to {next(iter(found.values()))}"
    return "their rounds (" + ", ".join(f"{run}: 1 to {k}" for run, k in found.items()) + ")"


def largest(measured: Measured) -> tuple[list[str], int]:
    """The groups that most samples have, at most `MOST_GROUPS`, in natural order; and of how many.

    Samples without a value count: what could not be judged does not make a group small.
    """
    sizes: dict[str, int] = {}
    for groups in measured.values():
        for group, part in groups.items():
            sizes[group] = sizes.get(group, 0) + part.n + part.missing
    kept = sorted(sizes, key=lambda group: (-sizes[group], natural(group)))[:MOST_GROUPS]
    return sorted(kept, key=natural), len(sizes)


def tells(measured: Measured) -> bool:
    """Whether a run has several groups: of one for each run, they say what its settings say."""
    return any(len(groups) > 1 for groups in measured.values())


def units() -> str:
    """What counts as one in the errors."""
    return "Samples of one prompt, or of one named cluster, are one statistical unit."


def _any_round(run: ReportedRun, label: str) -> dict[str, SampleStatistic]:
    passed = any_of_first(run.attempts, last_round(run))
    return {group: part for (group,), part in rates(passed, label).items()}


def _figure(
    runs: Runs,
    measured: Measured,
    label: str,
    *,
    name: str,
    title: str,
    says: str,
    value: str,
) -> Iterator[Figure]:
    if not tells(measured):
        return
    groups, of = largest(measured)
    numbers = as_numbers(groups)
    if numbers is not None:
        groups = sorted(groups, key=numbers.__getitem__)
    names = shown(groups)
    dots = [
        dot(names[group], run, found[group], {"without": f"{found[group].missing:,}"})
        for group in groups
        for run, found in measured.items()
        if group in found
    ]
    only = f" The {len(groups)} largest of {of:,} groups." if of > len(groups) else ""
    plan = Plan(
        heading=printable(label),
        value=value,
        rows=[names[group] for group in groups],
        bounded=are_fractions(dots),
    )
    drawn, how = chart(dots, plan, runs), f"Dots: {says}{only} {BARS}"
    if numbers is not None and of >= LEAST_OF_LINE:
        drawn = line_chart(dots, {names[group]: numbers[group] for group in groups}, plan, runs)
        how = f"Lines: {says}{only} {LINE_BARS}"
    yield runs.figure(
        name,
        title,
        f"{how} {counts(dots)} {units()}",
        drawn,
        *table(dots, plan),
        present=measured,
    )


def counts(dots: Sequence[Dot]) -> str:
    """How many samples the dots of each run are made of."""
    total: dict[str, int] = {}
    for one in dots:
        total[one.run] = total.get(one.run, 0) + one.n
    return counted(total, "samples")
