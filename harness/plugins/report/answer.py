"""The headline of a page about runs: which run scored highest, how sure that is, and caveats."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from harness.analysis.metrics import PASS_RATE, Interval
from harness.plugins.comparisons.comparison_document import ShownUnit, score_name, which_round
from harness.plugins.comparisons.cross_table_document import row_name
from harness.plugins.comparisons.p_values import ALPHA
from harness.plugins.comparisons.pair_matrix import PairMatrix
from harness.plugins.comparisons.suite import Suite
from harness.plugins.report.parts import Headline, Mark, RunOverview
from harness.plugins.report.runs import Reported, ReportedRun
from harness.records import EXAMPLE_SEPARATOR
from harness.report.table import Column
from harness.report.text import COMPUTED_NOTE, escape_unprintable, format_usd
from harness.wording import format_count, join_with_and, truncate

MOST_REASONS = 3  # of a run
LONGEST_REASON = 90  # characters


def headline_of(
    reported: Reported, overviews: Sequence[RunOverview], marks: Sequence[Mark], unit: ShownUnit
) -> Headline:
    """Return the headline of a page about runs.

    Args:
        reported: The runs and their comparisons.
        overviews: The figures of each run.
        marks: Warnings about runs, such as SIMULATED, which come first.
        unit: The unit of the primary metric.
    """
    runs = reported.runs
    suite = reported.suite
    if reported.comparison is not None and reported.matrix is not None:
        sentence = _highest(reported.matrix, reported.comparison.baseline, unit)
    elif suite is not None and len(suite.table.rows) > 1:
        sentence = _highest_by_task(suite, unit.digits)
    else:
        sentence = "; ".join(_rate(run, unit) for run in runs) or "There are no runs"
        if len(runs) > 1:
            sentence = f"not compared: {sentence}"
    prefixes = []
    for mark in marks:
        of_runs = f" ({join_with_and(mark.runs)})" if len(mark.runs) != len(runs) else ""
        prefixes.append(mark.text + of_runs)
    if prefixes:
        sentence = f"{', '.join(prefixes)}: {sentence}"
    return Headline(
        escape_unprintable(f"{sentence}."), list(map(escape_unprintable, _support(overviews)))
    )


def _value(value: float | None, score: str, unit: ShownUnit) -> str:
    """Format a value of a score, such as ``50%`` or ``f1 0.500``."""
    text = unit.show(value, Column("", rate=True))
    if " and " in score:
        return f"{text} by its own measure"
    if score == PASS_RATE:
        return text
    return f"{score_name(score)} {text}"


def _without_unit(figure: float | Interval | None, unit: ShownUnit) -> str:
    """Format a value or an interval, such as ``50`` or ``39 to 81``."""
    return unit.show(figure, Column("", sign=True, rate=True)).replace("+", "")


def _rate(run: ReportedRun, unit: ShownUnit) -> str:
    metrics = run.metrics
    primary = metrics.primary()
    if not primary.n:
        return f"{run.name} has no judged answer"
    size = format_count(metrics.n_instances, "instance")
    if not metrics.measure and primary.n != metrics.n_instances:
        size = f"{format_count(primary.n, 'sample')} of {size}"
    if run.last_round > 1:
        size += f" after up to {run.last_round} rounds"
    verb = "has" if metrics.measure else "passes"
    value = _value(primary.mean, metrics.measure or PASS_RATE, unit)
    return f"{run.name} {verb} {value} of {size} (95% CI {_without_unit(primary.ci95, unit)})"


def _highest_by_task(suite: Suite, digits: int) -> str:
    """Return a sentence that names the models with the highest value on each task."""
    highest = []
    for place, figure in enumerate(suite.table.figures):
        best = None
        names = ["no model"]
        for row in suite.table.rows:
            cell = row.cells[place]
            if cell is None or cell.mean is None:
                continue
            if best is None or cell.mean > best:
                best = cell.mean
                names = []
            if cell.mean == best:
                names.append(row_name(row))
        value = _value(best, figure.score or PASS_RATE, ShownUnit(figure.fraction, digits))
        highest.append(f"{join_with_and(names)} on {figure.task} ({value})")
    models = format_count(len(suite.table.rows), "model")
    return f"{models}; highest, not tested: {join_with_and(highest)}"


def _highest(matrix: PairMatrix, baseline: str, unit: ShownUnit) -> str:
    """Return a sentence on the highest of several runs of a task, and how sure that is."""
    values = {}
    for row in matrix.rows:
        if row.value.mean is not None:
            values[row.run] = row.value.mean
    if not values:
        return f"none of the {len(matrix.rows):,} runs has a judged answer"
    best = max(values.values())
    leaders = []
    lower = []
    for name, mean in values.items():
        if mean == best:
            leaders.append(name)
        else:
            lower.append(name)
    first, *ties = leaders
    value = _value(best, matrix.score, unit)
    if ties:
        value += " each"
    sentence = f"{join_with_and(leaders)} scored "
    if lower:
        rival = baseline if baseline in lower else max(lower, key=values.__getitem__)
        leader = f"{first} " if ties else ""
        sentence += f"highest: {value}, {leader}{_lead(matrix, first, rival, unit)}"
    else:
        sentence += value
    unsure: dict[str, list[str]] = {}
    for name in (*ties, *lower):
        comparison = matrix.pair(first, name)
        text = f"{name} ({_value(values[name], PASS_RATE, unit)})"
        if comparison.method == "shared replies":
            unsure.setdefault("not independent (shared replies)", []).append(text)
        elif comparison.p_adjusted is None:
            unsure.setdefault("not tested", []).append(text)
        elif name in lower and comparison.p_adjusted >= ALPHA:
            unsure.setdefault("statistically tied", []).append(text)
    for status, names in unsure.items():
        verb = "is" if len(names) == 1 else "are"
        sentence += f"; {join_with_and(names)} {verb} {status}"
    return sentence


def _lead(matrix: PairMatrix, first: str, rival: str, unit: ShownUnit) -> str:
    """Return how far a run is above another one, over the instances that both have."""
    comparison = matrix.pair(rival, first)
    if comparison.difference is None:
        return f"without a judged instance in common with {rival}"
    difference = _without_unit(comparison.difference, unit) + " points" * unit.percent
    size = format_count(comparison.n, "instance")
    if matrix.round is not None:
        size += f", each sample's {which_round(matrix.round)}"
    ci95 = _without_unit(comparison.ci95, unit)
    return f"{difference} above {rival} (95% CI {ci95}, {size})"


def _support(runs: Sequence[RunOverview]) -> Iterator[str]:
    """Yield the caveats of the runs, and their costs."""
    failures = {}
    only_judges = {}
    not_judged = {}
    costs = {}
    for run in runs:
        if run.failures:
            failures[run.name] = _reasons(run)
        without = run.without
        if without and without.alone:
            judges = join_with_and(without.judges)
            only_judges[run.name] = f"{without.alone:,} of {without.failed:,} ({judges})"
        if run.not_judged:
            not_judged[run.name] = f"{run.not_judged:,} of {run.samples:,}"
        if not run.recorded:
            costs[run.name] = format_usd(run.cost_usd, computed=run.computed_usd)
    caveats = {
        "Most frequent reasons for failures": failures,
        "Failures found only by judges that human labels do not validate": only_judges,
        "Not judged, neither passed nor failed": not_judged,
        "Cost": costs,
    }
    for title, texts in caveats.items():
        lines = list(texts.values())
        if len(runs) > 1:
            lines = [f"{name} {text}" for name, text in texts.items()]
        if lines:
            yield f"{title}: {'; '.join(lines)}."
    if any(run.computed_usd for run in runs):
        yield COMPUTED_NOTE


def _reasons(run: RunOverview) -> str:
    reasons = []
    for failure in run.failures[:MOST_REASONS]:
        reason = failure.reason.partition(EXAMPLE_SEPARATOR)[0].removesuffix(".")
        counts = f"({failure.n:,} of {failure.of:,})"
        reasons.append(f'"{truncate(reason, LONGEST_REASON)}" {counts}')
    return ", ".join(reasons)
