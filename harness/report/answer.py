"""The answer at the top of a page: what the runs show, and how sure that is."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from math import fsum
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from harness.analysis.ablation import counted
from harness.analysis.comparison import Comparison
from harness.analysis.metrics import PASS_RATE
from harness.analysis.p_values import ALPHA
from harness.analysis.run_comparison import PairMatrix, RunComparison
from harness.analysis.suite import Suite
from harness.report.comparison import TESTS, bounds_line, score_name
from harness.report.cross_table import row_name
from harness.report.phrases import MOST_NAMED, between, change_of, listed, short, show, verb_for
from harness.report.runs import Reported, ReportedRun
from harness.report.table import ShownUnit
from harness.report.text import COMPUTED, p_value, percentage, printable, usd, which_round

if TYPE_CHECKING:
    from harness.report.overview import RunOverview

_FEEDBACK = "rounds of feedback on the same first answers add"


class Headline(Struct, frozen=True):
    """The sentence at the top of a page, and the sentences that support it."""

    sentence: str
    support: list[str]


def headline_of(reported: Reported, overviews: Sequence[RunOverview], unit: ShownUnit) -> Headline:
    """Return the headline of a page about runs."""
    runs, comparison, matrix = reported.runs, reported.comparison, reported.matrix
    # If one run continues another, both have the same first answers.
    first = comparison is None or comparison.asked.round == 1
    continuing = () if first else reported.continuing
    if not runs:
        return Headline("There are no runs.", [])
    if len(runs) == 1:
        said = _alone(runs[0], overviews[0], unit)
    elif reported.suite is not None and len(reported.suite.table.rows) > 1:
        said = _by_task(reported.suite, unit.digits)
    elif comparison is None:
        said = _side_by_side(runs, unit)
    elif matrix is None or len(runs) == 2:
        said = _pair(comparison, unit, continuing)
    else:
        said = _best(comparison, matrix, unit, continuing)
    support = list(_support(reported, overviews, unit, continuing))
    return Headline(f"{_warning(reported)}{said}.", support)


def different_models(runs: Sequence[ReportedRun]) -> Iterator[str]:
    """Yield a sentence on which runs use which model, if the models differ."""
    using: dict[str, list[str]] = {}
    for run in runs:
        model = printable(run.metrics.model or "an unknown model")
        using.setdefault(model, []).append(printable(run.name))
    if len(using) > 1:
        each = [f"{model} ({listed(names)})" for model, names in using.items()]
        yield f"The runs use different models: {listed(each)}."


def unaided(runs: Sequence[ReportedRun], unit: ShownUnit) -> Iterator[str]:
    """Yield a warning about gains over rounds of feedback, if there are several."""
    rounds = [run for run in runs if run.last_round > 1]
    if not rounds:
        return
    first = [
        f"{printable(run.name)} " * (len(runs) > 1) + show(run.metrics.rounds.each[1], unit)
        for run in rounds
        if not run.metrics.measure and 1 in run.metrics.rounds.each
    ]
    told = f" First answers pass: {listed(first)}." if first else ""
    yield (
        "Feedback between rounds tells the model what the checks found, and the same checks score "
        f"its next answer: a gain over rounds is not a gain in unaided ability.{told}"
    )


def _warning(reported: Reported) -> str:
    """Return the runs' marks as a prefix of the headline, such as ``SIMULATED (weak): ``."""
    marks = {run.name: list(run.marks) for run in reported.runs}
    for one in reported.comparison.others if reported.comparison else ():
        marks.setdefault(one.run, []).extend(one.marks)
    several = len(marks) > 1
    found: dict[str, dict[str, None]] = {}
    for name, own in marks.items():
        for mark in own:
            # INCOMPLETE is followed by numbers, which differ between runs.
            word = "INCOMPLETE" if several and mark.startswith("INCOMPLETE") else mark
            found.setdefault(word, {})[name] = None
    told = [
        word if len(names) == len(marks) else f"{word} ({listed(list(names))})"
        for word, names in found.items()
    ]
    return ", ".join(told) + ": " if told else ""


def _alone(run: ReportedRun, overview: RunOverview, unit: ShownUnit) -> str:
    metrics = run.metrics
    found = metrics.primary()
    if not found.n:
        return f"{printable(run.name)} has no judged answer"
    instances = counted(metrics.n_instances, "instance")
    if not metrics.measure:
        of = (
            instances
            if found.n == metrics.n_instances
            else f"{counted(found.n, 'sample')} of {instances}"
        )
        said = f"passes {show(found.mean, unit)} of {of}{between(found.ci95, unit)}"
    else:
        value = f"{show(found.mean, unit)}{between(found.ci95, unit)}"
        said = f"has {printable(metrics.measure)} {value}, {instances}"
    if run.last_round > 1:
        said += f", after up to {run.last_round} rounds"
    if overview.failures:
        said += "; most failures: {} ({})".format(*_most_failures(overview))
    return f"{printable(run.name)} {said}"


def _side_by_side(runs: Sequence[ReportedRun], unit: ShownUnit) -> str:
    tasks = dict.fromkeys(run.metrics.task for run in runs)
    said = []
    for run in runs[:MOST_NAMED]:
        found = run.metrics.primary()
        task = f" of {printable(run.metrics.task)}" if len(tasks) > 1 else ""
        passes = verb_for(run.metrics.measure, found.mean, unit)
        said.append(f"{printable(run.name)} {passes}{task}")
    if more := len(runs) - len(said):
        said.append(f"and {more:,} more")
    of = counted(len(tasks), "task")
    return f"{len(runs):,} runs of {of}, not compared: {', '.join(said)}"


def _by_task(found: Suite, digits: int) -> str:
    """Return a sentence that names the models with the highest value on each task."""
    said = []
    for place, figure in enumerate(found.table.figures):
        cells = [(row_name(row), row.cells[place]) for row in found.table.rows]
        values = {name: cell.mean for name, cell in cells if cell and cell.mean is not None}
        if not values:
            continue
        highest = max(values.values())
        best = [printable(name) for name, value in values.items() if value == highest]
        shown = show(highest, ShownUnit(figure.fraction, digits))
        measure = "" if figure.score in ("", PASS_RATE) else f"{score_name(figure.score)} "
        said.append(f"{listed(best)} on {printable(figure.task)} ({measure}{shown})")
    models = counted(len(found.table.rows), "model")
    tasks = counted(len(found.table.tasks), "task")
    return f"{models} on {tasks}; {f'highest: {listed(said)}' if said else 'no value is known'}"


def _against_first(found: Suite) -> str:
    names = [printable(row_name(row)) for row in found.table.rows]
    sure = [
        f"{names[one.row]} on {printable(one.task)}"
        for one in found.comparisons
        if _is_sure(one.comparison)
    ]
    told = listed(sure) if sure else "none"
    return f"Sure differences from {names[0]} (p < {ALPHA}, Holm): {told}."


def _pair(
    comparison: RunComparison, unit: ShownUnit, continuing: Collection[tuple[str, str]]
) -> str:
    one, score = comparison.others[0], comparison.asked.score
    found, base, run = one.overall, printable(comparison.baseline), printable(one.run)
    instances = counted(found.n, "instance")
    if not found.n:
        return f"{run} and {base} have no judged instance in common"
    change = f"{change_of(found, unit)}, {instances}{_of_rounds(comparison)}"
    first, second = (show(value, unit) for value in (found.first, found.second))
    if (one.run, comparison.baseline) in continuing:
        change = f"{_FEEDBACK} {change}"
    elif found.p_value is not None and found.p_value >= ALPHA:
        return f"no difference found between {run} ({second}) and {base} ({first}): {change}"
    if found.method == "shared replies" and not found.better + found.worse:
        return f"{run} has the same replies as {base}: {first} each, {instances}"
    return f"{run} {verb_for(score, found.second, unit)}, {base} {first}: {change}"


def _best(
    comparison: RunComparison,
    matrix: PairMatrix,
    unit: ShownUnit,
    continuing: Collection[tuple[str, str]],
) -> str:
    """Return a sentence on which run is best, and how sure that is."""
    rows, ranked = matrix.rows, _ranked(matrix)
    if not ranked:
        return f"none of the {len(rows):,} runs has a judged answer"
    best, others = ranked[0], sorted(ranked[1:])
    names = [printable(row.run) for row in rows]
    if others and rows[best].value.mean == rows[ranked[-1]].value.mean:
        verb = verb_for(comparison.asked.score, rows[best].value.mean, unit, plural=True)
        every = "both" if len(ranked) == 2 else "all"
        return f"{listed([names[place] for place in sorted(ranked)])} {every} {verb}"
    base = next(place for place, row in enumerate(rows) if row.run == comparison.baseline)
    tied = [place for place in ranked if rows[place].value.mean == rows[best].value.mean]
    others = [place for place in others if place not in tied]
    own = [place for place in others if (rows[best].run, rows[place].run) in continuing]
    alike = [
        place
        for place in others
        if place not in own
        and not _is_sure(found := _compared(matrix, place, best))
        and found.method != "shared replies"
    ]
    surely = all(_is_sure(_compared(matrix, place, best)) for place in others if place not in own)
    shown = {place: f"{names[place]} ({show(rows[place].value.mean, unit)})" for place in ranked}
    name = f"{names[best]}, the baseline," if best == base else names[best]
    verb = verb_for(comparison.asked.score, rows[best].value.mean, unit)
    if len(tied) > 1:
        each = [names[place] + " (the baseline)" * (place == base) for place in tied]
        value = verb.partition(" ")[2]
        said = f"{listed(each)} tie at {value}, the most of {len(rows):,} runs"
    elif not (surely and others):
        said = f"{name} {verb}, the most of {len(rows):,} runs"
    else:
        said = f"{name} is the best of {len(rows):,} runs: it {verb}"
    if base in others:
        of = f"{names[best]} " if len(tied) > 1 else ""
        of += f"{_FEEDBACK} " if base in own else ""
        change = f"{of}{change_of(found := _compared(matrix, base, best), unit)}"
        change += f", {counted(found.n, 'instance')}{_of_rounds(comparison)}"
        if base in alike:
            said += f"; no sure difference from {shown[base]}, the baseline: {change}"
        else:
            value = show(rows[base].value.mean, unit)
            said += "; " if alike or len(tied) > 1 else ", "
            said += f"{names[base]} (the baseline) {value}: {change}"
    elif tied == [base] and others and ranked[1] not in alike:
        said += f"; next is {shown[ranked[1]]}"
    if rest := [shown[place] for place in alike if place != base]:
        it = "it" if len(tied) == 1 else names[best]
        said += f"; {listed(rest)} cannot be told apart from {it}"
    return said


def _ranked(matrix: PairMatrix) -> list[int]:
    """Return the indices of a matrix's rows that have a value, highest first."""
    known = [(row.value.mean, place) for place, row in enumerate(matrix.rows)]
    falling = sorted((-mean, place) for mean, place in known if mean is not None)
    return [place for _, place in falling]


def _compared(matrix: PairMatrix, base: int, run: int) -> Comparison:
    """Return the comparison of two rows of a matrix, as ``run`` minus ``base``."""
    pair = next(one for one in matrix.pairs if {one.first, one.second} == {base, run})
    found = pair.comparison
    if pair.first == base:
        return found
    turned = None if found.ci95 is None else (-found.ci95[1], -found.ci95[0])
    difference = None if found.difference is None else -found.difference
    return replace(found, difference=difference, ci95=turned)


def _is_sure(found: Comparison) -> bool:
    return found.p_adjusted is not None and found.p_adjusted < ALPHA


def _support(
    reported: Reported,
    overviews: Sequence[RunOverview],
    unit: ShownUnit,
    continuing: Collection[tuple[str, str]],
) -> Iterator[str]:
    runs, comparison, matrix = reported.runs, reported.comparison, reported.matrix
    if reported.suite is not None and reported.suite.comparisons:
        yield _against_first(reported.suite)
    if matrix is not None:
        yield from _adjusted(matrix, comparison.baseline if comparison else "", unit, continuing)
    elif comparison is not None and comparison.others[0].overall.n:
        against = comparison.others[0]
        found, run = against.overall, printable(against.run)
        better, worse = (f"{n:,}" if n else "none" for n in (found.better, found.worse))
        counts = f"better on {better}, worse on {worse}"
        if (against.run, comparison.baseline) in continuing:
            base = printable(comparison.baseline)
            yield (
                f"{run} continues {base}'s answers, so these are not independent samples: {run} is "
                f"{counts}."
            )
        elif found.p_value is None:
            yield f"{TESTS[found.method].capitalize()}; {run} is {counts}."
        else:
            yield (
                f"p {p_value(found.p_value)} by {TESTS[found.method]}, over the instances that "
                f"both have; {run} is {counts}."
            )
        if found.bounds is not None and found.not_judged:
            yield bounds_line(found.not_judged, found.n, found.bounds, unit)
    failing: dict[str, list[str]] = {}
    for one in overviews if len(runs) > 1 else ():
        if one.failures:
            most, count = _most_failures(one)
            failing.setdefault(most, []).append(f"{printable(one.name)} {count}")
    if failing:
        each = [f"{reason} ({listed(told)})" for reason, told in failing.items()]
        yield f"Most frequent reasons for failures: {'; '.join(each)}."
    if len(runs) == 1:
        rest = [one for one in overviews[0].failures if one.n < overviews[0].failures[0].n]
        if rest:
            further = [f"{short(one.reason)} ({one.n:,} of {one.of:,})" for one in rest]
            yield f"Then: {'; '.join(further[: MOST_NAMED - 1])}."
    yield from _on_judges(overviews)
    waiting = [
        f"{printable(one.name)} {one.not_judged:,} of {one.samples:,}"
        for one in overviews
        if one.not_judged
    ]
    if waiting:
        yield f"Not judged: {listed(waiting)}. These count neither as passed nor as failed."
    paid = {
        printable(one.name): usd(one.cost_usd, computed=one.computed_usd)
        for one in overviews
        if not one.recorded
    }
    calls = {printable(one.name): f"{one.calls:,}" for one in overviews if not one.recorded}
    if len(set(paid.values())) == 1:
        told = ", ".join(f"{name} {n}" for name, n in calls.items())
        alike, (cost,) = len(set(calls.values())) == 1, set(paid.values())
        cost += " each" * (len(paid) > 1 and cost != "unknown") + f"; calls: {told}" * (not alike)
    else:
        cost = ", ".join(f"{cost} for {name}" for name, cost in paid.items())
    if cost:
        yield f"Cost: {cost}{_judging(runs)}."
    if any(one.computed_usd for one in overviews):
        yield COMPUTED


def _on_judges(overviews: Sequence[RunOverview]) -> Iterator[str]:
    """Yield sentences on failures that rest only on judges that were not validated."""
    found = [(one, one.without) for one in overviews if one.without and one.without.alone]
    if not found:
        return
    judges = dict.fromkeys(printable(name) for _, without in found for name in without.judges)
    name = f"{'the judge' if len(judges) == 1 else 'judges'} {listed(list(judges))}"
    told = [
        f"{printable(one.name)} " * (len(overviews) > 1)
        + f"{without.alone:,} of {without.failed:,}"
        for one, without in found
    ]
    yield f"Failures that only {name} found, not validated against human labels: {listed(told)}."
    labelled = [
        f"{printable(one.name)} " * (len(overviews) > 1) + printable(kappa)
        for one, without in found
        for kappa in without.labelled
    ]
    if labelled:
        yield f"Agreement with human labels that may be due to chance: {'; '.join(labelled)}."


def _judging(runs: Sequence[ReportedRun]) -> str:
    """Return the judges' share of the runs' known costs in words, or ""."""
    shares = [
        fsum(judge.known_cost_usd for judge in run.metrics.judges.values()) / cost
        for run in runs
        if not run.recorded and (cost := run.metrics.known_cost_usd)
    ]
    ends = [percentage(end, 0) for end in (min(shares), max(shares))] if any(shares) else []
    return f" ({' to '.join(dict.fromkeys(ends))} of it judging)" if ends else ""


def _adjusted(
    matrix: PairMatrix, baseline: str, unit: ShownUnit, continuing: Collection[tuple[str, str]]
) -> Iterator[str]:
    """Yield sentences on the best run's differences from others, with p values."""
    ranked, rows = _ranked(matrix), matrix.rows
    names = [printable(row.run) for row in rows]
    if not ranked:
        return
    best, following = ranked[0], ranked[1:2]
    own = [place for place in ranked if (rows[best].run, rows[place].run) in continuing]
    for place in dict.fromkeys([*following, *own]):
        if rows[place].run != baseline:
            change = change_of(_compared(matrix, place, best), unit)
            which = f"{names[place]}{', the next best' if place in following else ''}"
            feedback = f"{_FEEDBACK} " if place in own else ""
            yield f"{names[best]} against {which}: {feedback}{change}."
    ps = [
        f"{names[place]} {p_value(_compared(matrix, place, best).p_adjusted)}"
        for place in range(len(names))
        if place != best and place not in own
    ]
    if ps:
        yield (
            f"p of {names[best]} against {listed(ps)}, adjusted by Holm's method: against the "
            f"baseline over the {len(rows) - 1} runs compared with it, of other pairs over all "
            f"{len(matrix.pairs)}. Intervals are 95%, not adjusted."
        )


def _of_rounds(comparison: RunComparison) -> str:
    round_ = comparison.asked.round
    return "" if round_ is None else f", of each sample's {which_round(round_)}"


def _most_failures(run: RunOverview) -> tuple[str, str]:
    """Return a run's most frequent reason for failures, and its count."""
    most = [one for one in run.failures if one.n == run.failures[0].n]
    count = f"{most[0].n:,} of {most[0].of:,}"
    if len(most) == 1:
        return short(most[0].reason), count
    if len(most) == 2:
        return " and ".join(short(one.reason) for one in most), f"{count} each"
    return f"{len(most):,} reasons tie, such as {short(most[0].reason)}", f"{count} each"
