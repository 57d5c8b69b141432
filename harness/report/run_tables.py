"""What a run's metrics look like in a terminal.

Owns the layout: which figures are shown, in which order, and what is left out
where the terminal is narrow. Nothing that comes from data is taken for markup
or reaches the terminal as a control character. A figure that is not known is
shown as such, never as 0.

>>> from rich.console import Console
>>> Console(width=80).print(run_tables(metrics))  # doctest: +SKIP
"""

from __future__ import annotations

from collections.abc import Mapping

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.table import Table
from rich.text import Text

from harness.analysis.metrics import CallFigures, Mean, Metrics
from harness.analysis.self_preference import MARK, marked, notes
from harness.records import OUTCOMES
from harness.report import gold_figures
from harness.report.cells import (
    SIMULATED,
    UNKNOWN,
    column_width,
    empty_facts,
    empty_table,
    figure,
    inert,
    interval_text,
    measure_of,
    one_line,
    usd,
    with_error,
)
from harness.report.group_table import ROUND_NOTE, GroupTable, unequal_rounds

_MOST_K = 7


def run_tables(metrics: Metrics) -> RenderableType:
    """Everything about one run: headline, scores, groups, pass@k, rounds, outcomes, cost."""
    parts: list[RenderableType] = [heading(metrics), _headline(metrics)]
    if telling := _telling(metrics):
        parts.append(_scores_table(metrics, telling))
    if metrics.references:
        parts.append(_gold_table(metrics))
    if own := notes(metrics):
        parts.append(Text("\n".join(f"{MARK} {inert(note).plain}" for note in own), style="yellow"))
    parts += [GroupTable(metrics, label) for label in metrics.groups]
    if len(metrics.pass_at_k) > 1:
        parts.append(_pass_at_k_table(metrics))
    if len(metrics.rounds.each) > 1:
        parts.append(_RoundsTable(metrics))
    parts += [_OutcomeTable(metrics), _cost(metrics)]
    return Group(parts[0], *(line for part in parts[1:] for line in ("", part)))


def heading(metrics: Metrics) -> Text:
    """Names of the run, and what must be said of it."""
    names = [metrics.run, metrics.task] + ([metrics.model] if metrics.model else [])
    title = Text("  ").join(inert(name) for name in names)
    title.stylize("bold")
    # The marks come first, so that no narrow terminal cuts them off.
    marks = [SIMULATED] if metrics.simulated else []
    marks += [] if metrics.complete else [Text("INCOMPLETE", style="bold yellow")]
    return one_line(*(part for mark in marks for part in (mark, Text("  "))), title)


def _headline(metrics: Metrics) -> Table:
    rate, measure = metrics.overall, measure_of(metrics, metrics.scores)
    facts = empty_facts()
    if metrics.measure:
        said = with_error(measure.mean, measure.stderr, 4) if measure else UNKNOWN
        facts.add_row(inert(metrics.measure), Text(said, style="bold"))
        facts.add_row("95% interval", interval_text(measure, 4))
        if measure and measure.not_measured:
            facts.add_row("not measured", Text(f"{measure.not_measured:,} samples", style="yellow"))
    passed = Text(with_error(rate.pass_rate, rate.stderr, 4), style="" if measure else "bold")
    facts.add_row("pass rate", passed)
    facts.add_row("95% interval", interval_text(rate, 4))
    facts.add_row("naive s.e.", f"± {figure(rate.naive_stderr, 4)}, as if all were independent")
    facts.add_row("judged", f"{rate.n:,} samples in {rate.n_clusters:,} clusters")
    not_judged = Text(f"{rate.not_judged:,} samples")
    if rate.not_judged:
        not_judged.stylize("yellow")
        not_judged.append(
            f", pass rate if all failed {figure(rate.pass_rate_errors_as_failures, 4)}"
        )
    facts.add_row("not judged", not_judged)
    facts.add_row(
        "attempts",
        f"{metrics.n_attempts:,} of {metrics.n_samples:,} samples"
        f" of {metrics.n_instances:,} instances",
    )
    if not metrics.complete:
        facts.add_row(
            Text("INCOMPLETE", style="bold yellow"),
            Text(f"{_progress(metrics)}; the rest may differ", style="yellow"),
        )
    return facts


def _telling(metrics: Metrics) -> dict[str, Mean]:
    """The scores, where any of them says something besides the pass rate."""
    rate = metrics.overall
    told = {(mean.mean, mean.n) for mean in metrics.scores.values()}
    return metrics.scores if told - {(rate.pass_rate, rate.n)} else {}


def _scores_table(metrics: Metrics, scores: Mapping[str, Mean]) -> Table:
    table = empty_table(metrics)
    table.add_column("score")
    for heading in ("n", "mean ± s.e.", "95%"):
        table.add_column(heading, justify="right", no_wrap=True)
    for name, mean in scores.items():
        error = with_error(mean.mean, mean.stderr, 4)
        shown = Text.assemble(inert(name), f" {MARK}" if marked(metrics, name) else "")
        table.add_row(shown, f"{mean.n:,}", error, interval_text(mean, 4))
    return table


def _gold_table(metrics: Metrics) -> RenderableType:
    """What judges say of the gold answers, and how far the run's own are from them."""
    table = empty_table(metrics)
    table.add_column("gold answers")
    for heading in gold_figures.HEADINGS:
        table.add_column(heading, justify="right", no_wrap=True)
    for name, gold in metrics.references.items():
        table.add_row(inert(name), *gold_figures.cells(gold))
    return table


def _progress(metrics: Metrics) -> str:
    if metrics.n_planned is None:
        return f"{metrics.n_samples:,} samples so far"
    if metrics.n_owed is not None and metrics.n_planned - metrics.n_owed != metrics.n_samples:
        done = metrics.n_planned - metrics.n_owed
        return f"{done:,} of {metrics.n_planned:,} samples, others with rounds to come"
    return f"{metrics.n_samples:,} of {metrics.n_planned:,} samples"


def _pass_at_k_table(metrics: Metrics) -> Table:
    shown = _shown_k(max(metrics.pass_at_k))
    table = empty_table(metrics)
    table.add_column("k")
    for k in shown:
        table.add_column(f"{k:,}", justify="right", no_wrap=True)
    table.add_row("pass@k", *(figure(metrics.pass_at_k[k]) for k in shown))
    table.add_row("± s.e.", *(figure(metrics.pass_at_k_stderr[k]) for k in shown))
    if metrics.pass_hat_k:  # not in the metrics of an older run
        table.add_row("pass^k", *(figure(metrics.pass_hat_k[k]) for k in shown))
        table.add_row("± s.e.", *(figure(metrics.pass_hat_k_stderr[k]) for k in shown))
    return table


def _shown_k(largest: int) -> list[int]:
    """1, 2, 5, 10, … or, where these are too many for a line, 1, 10, 100, …; and the largest."""
    tens = [10**power for power in range(len(str(largest)))]
    series = [step * ten for ten in tens for step in (1, 2, 5)]
    if sum(k < largest for k in series) >= _MOST_K:
        series = tens
    return [*(k for k in series if k < largest), largest]


class _RoundsTable:
    """Rates by round; what a round fixed and broke is left out where there is no room."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        table = self._table(with_changes=True)
        wanted = console.measure(table, options=options.update(max_width=1_000)).maximum
        if wanted > options.max_width:
            table = self._table(with_changes=False)
        yield table
        if unequal_rounds(self._metrics):
            yield Text(ROUND_NOTE, style="dim")

    def _table(self, with_changes: bool) -> Table:
        rounds = self._metrics.rounds
        changes = {"fixed": rounds.fixed, "broken": rounds.broken} if with_changes else {}
        table = empty_table(self._metrics)
        table.add_column("round", no_wrap=True)
        for heading in ("n", "each ± s.e.", *changes, "n", "any so far ± s.e."):
            table.add_column(heading, justify="right", no_wrap=True)
        for number in rounds.each:
            table.add_row(
                f"{number}",
                f"{rounds.n[number]:,}",
                with_error(rounds.each[number], rounds.each_stderr[number], 4),
                *(f"{told[number]:,}" if number in told else "" for told in changes.values()),
                f"{rounds.any_of_first_k_n[number]:,}",
                with_error(rounds.any_of_first_k[number], rounds.any_of_first_k_stderr[number], 4),
            )
        return table


class _OutcomeTable:
    """Attempts by outcome: side by side where there is room, else one below the other."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        counts = {
            outcome: Text(
                f"{self._metrics.outcomes.get(outcome, 0):,}",
                style="yellow" if self._metrics.outcomes.get(outcome) and outcome != "ok" else "",
            )
            for outcome in OUTCOMES
        }
        wide = sum(column_width(max(len(name), len(count))) for name, count in counts.items())
        if wide > options.max_width:
            facts = empty_facts()
            for outcome, count in counts.items():
                facts.add_row(outcome, count)
            yield facts
            return
        table = empty_table(self._metrics)
        for outcome in OUTCOMES:
            table.add_column(outcome, justify="right", no_wrap=True)
        table.add_row(*counts.values())
        yield table


def _cost(metrics: Metrics) -> Table:
    facts = empty_facts()
    facts.add_row("calls", f"{metrics.n_calls:,}")
    usage, uncounted = metrics.usage, metrics.n_calls_without_usage
    missing = f", {uncounted:,} calls not counted" if uncounted else ""
    if usage is None:
        facts.add_row("tokens", "unknown")
    else:
        cached = f"{usage.cached_input_tokens:,} cached by provider"
        if usage.cached_input_tokens and usage.input_tokens:
            cached += f", {usage.cached_input_tokens / usage.input_tokens:.0%}"
        facts.add_row("tokens in", f"{usage.input_tokens:,} ({cached}){missing}")
        facts.add_row(
            "tokens out", f"{usage.output_tokens:,} ({usage.reasoning_tokens:,} reasoning){missing}"
        )
    facts.add_row("cost", _sum_of_money(metrics))
    if metrics.model_calls is not None:
        apart = {"  the model": metrics.model_calls}
        asking = {name: one for name, one in metrics.judges.items() if one.n_calls or one.model}
        apart |= {f"  judge {name}": judge for name, judge in asking.items()}  # a panel asks nobody
        for name, part in apart.items():
            calls = f"{part.n_calls:,} call{'s' if part.n_calls != 1 else ''}"
            facts.add_row(inert(name), f"{calls}, {_sum_of_money(part)}")
    if metrics.cost_per_solved_usd:
        each = f"{usd(metrics.cost_per_solved_usd)}, {metrics.n_solved:,} of them"
        facts.add_row("per solved instance", each)
    return facts


def _sum_of_money(calls: Metrics | CallFigures) -> str:
    """What calls cost, and what is not known or was not paid of it."""
    cost, unpriced = usd(calls.cost_usd), calls.n_calls_without_cost
    if 0 < unpriced < calls.n_calls:
        cost += f" ({usd(calls.known_cost_usd)} and {unpriced:,} calls of unknown cost)"
    elif calls.known_cost_usd > calls.paid_usd:
        cost += f" ({usd(calls.paid_usd)} of it paid by this run, the rest before)"
    return cost
