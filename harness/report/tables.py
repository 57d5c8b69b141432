"""What a run's metrics look like in a terminal.

Owns the layout: which figures are shown, in which order, and what is left out
where the terminal is narrow. Nothing that comes from data is taken for markup
or reaches the terminal as a control character. A figure that is not known is
shown as such, never as 0.

>>> from rich.console import Console
>>> Console(width=80).print(run_tables(metrics))  # doctest: +SKIP
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich.box import SIMPLE
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.table import Table
from rich.text import Text

from harness.analysis.metrics import Mean, Metrics, Rate
from harness.records import OUTCOMES

MOST_GROUPS = 50
"""Of a label with more groups than this, the others are left to metrics.json."""

_MOST_K = 7
_LONGEST_NAME = 120
_UNKNOWN = "n/a"
_SIMULATED = Text("SIMULATED", style="bold yellow", no_wrap=True, overflow="ellipsis")
_ROUND_NOTE = "A round's rate is among the samples judged in it."
_ROUND = len("0.500")
_INTERVAL = len("0.400-0.600")


def run_tables(metrics: Metrics) -> RenderableType:
    """Everything about one run: headline, scores, groups, pass@k, rounds, outcomes, cost."""
    parts: list[RenderableType] = [_header(metrics), _headline(metrics)]
    if telling := _telling(metrics):
        parts.append(_scores_table(metrics, telling))
    parts += [_GroupTable(metrics, label) for label in metrics.groups]
    if len(metrics.pass_at_k) > 1:
        parts.append(_pass_at_k_table(metrics))
    if len(metrics.rounds.each) > 1:
        parts.append(_rounds_table(metrics))
    parts += [_OutcomeTable(metrics), _cost(metrics)]
    return Group(parts[0], *(line for part in parts[1:] for line in ("", part)))


def runs_table(runs: Mapping[str, Metrics | None]) -> RenderableType:
    """One row for each run.

    runs: name of the run's folder to its metrics, None where it has none yet.
    """
    return _RunsTable(runs)


def inert(name: str) -> Text:
    """A name from data on one line: no markup, no control, invisible or bidi character.

    >>> inert("[bold]a\\x1b[2J").plain
    '[bold]a\\\\x1b[2J'
    """
    shown = "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode()
        for character in name[:_LONGEST_NAME]
    )
    return _line(Text(shown))


def _header(metrics: Metrics) -> Text:
    names = [metrics.run, metrics.task] + ([metrics.model] if metrics.model else [])
    title = Text("  ").join(inert(name) for name in names)
    title.stylize("bold")
    # The mark comes first, so that no narrow terminal cuts it off.
    return _line(_SIMULATED, Text("  "), title) if metrics.simulated else _line(title)


def _headline(metrics: Metrics) -> Table:
    rate, measure = metrics.overall, _measure(metrics, metrics.scores)
    facts = _facts()
    if metrics.measure:
        said = _with_error(measure.mean, measure.stderr, 4) if measure else _UNKNOWN
        facts.add_row(inert(metrics.measure), Text(said, style="bold"))
        facts.add_row("95% interval", _interval(measure, 4))
    passed = Text(_with_error(rate.pass_rate, rate.stderr, 4), style="" if measure else "bold")
    facts.add_row("pass rate", passed)
    facts.add_row("95% interval", _interval(rate, 4))
    facts.add_row("naive s.e.", f"± {_figure(rate.naive_stderr, 4)}, as if all were independent")
    facts.add_row("judged", f"{rate.n:,} samples in {rate.n_clusters:,} clusters")
    not_judged = Text(f"{rate.not_judged:,} samples")
    if rate.not_judged:
        not_judged.stylize("yellow")
        not_judged.append(
            f", pass rate if all failed {_figure(rate.pass_rate_errors_as_failures, 4)}"
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


def _measure(metrics: Metrics, scores: Mapping[str, Mean]) -> Mean | None:
    """Of the run's scores or a group's, the one that the task is measured by."""
    return scores.get(metrics.measure) if metrics.measure else None


def _telling(metrics: Metrics) -> dict[str, Mean]:
    """The scores that say anything besides the pass rate."""
    rate = metrics.overall
    return {
        name: mean
        for name, mean in metrics.scores.items()
        if (mean.mean, mean.n) != (rate.pass_rate, rate.n)
    }


def _scores_table(metrics: Metrics, scores: Mapping[str, Mean]) -> Table:
    table = _table(metrics)
    table.add_column("score")
    for heading in ("n", "mean ± s.e.", "95%"):
        table.add_column(heading, justify="right", no_wrap=True)
    for name, mean in scores.items():
        error = _with_error(mean.mean, mean.stderr, 4)
        table.add_row(inert(name), f"{mean.n:,}", error, _interval(mean, 4))
    return table


def _progress(metrics: Metrics) -> str:
    if metrics.n_planned is None:
        return f"{metrics.n_samples:,} samples so far"
    if metrics.n_owed is not None and metrics.n_planned - metrics.n_owed != metrics.n_samples:
        done = metrics.n_planned - metrics.n_owed
        return f"{done:,} of {metrics.n_planned:,} samples, others with rounds to come"
    return f"{metrics.n_samples:,} of {metrics.n_planned:,} samples"


class _RunsTable:
    """Leaves out columns where the terminal is narrow.

    A run of several samples or rounds also says how often any of them passed: its
    rate is that of one sample, which is not what was paid for.
    """

    _EXPENDABLE = ("task", "cost", "any of")
    """What is left out for want of room, in this order."""

    def __init__(self, runs: Mapping[str, Metrics | None]) -> None:
        self._runs = runs

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        rows = [{"run": inert(name)} | self._cells(metrics) for name, metrics in self._runs.items()]
        names = ["run", "task", "model"]
        headings = [*names, "n", "rate ± s.e.", "any of", "not judged", "cost"]
        if not any(row.get("any of") for row in rows):
            headings.remove("any of")
        width = {
            heading: _column(max(cell_len(str(row.get(heading, ""))) for row in [{}, *rows]))
            for heading in headings
        }
        for heading in self._EXPENDABLE:
            needed = sum(max(width[name], _column(len(name))) for name in headings)
            if heading in headings and needed > options.max_width:
                headings.remove(heading)
        table = _table()
        for heading in headings:
            if heading in names:
                table.add_column(heading)
            else:
                table.add_column(heading, justify="right", no_wrap=True)
        for row in rows:
            table.add_row(*(row.get(heading, "") for heading in headings))
        yield table

    @staticmethod
    def _cells(metrics: Metrics | None) -> dict[str, Text]:
        if metrics is None:
            return {"rate ± s.e.": Text("no metrics", style="dim")}
        rate, measure = metrics.overall, _measure(metrics, metrics.scores)
        shown = Text(_with_error(rate.pass_rate, rate.stderr))
        if measure:
            shown = Text(_with_error(measure.mean, measure.stderr))
            shown = _line(inert(metrics.measure or ""), Text(" "), shown)
        model = inert(metrics.model or "")
        if metrics.simulated:
            # Where there is no room for both, the mark matters more than the model.
            model = _line(_SIMULATED, Text(" "), model) if metrics.model else _SIMULATED
        return {
            "task": inert(metrics.task),
            "model": model,
            "n": Text(f"{rate.n:,}") if metrics.complete else _part(metrics),
            "rate ± s.e.": shown,
            "any of": Text(_any_passed(metrics)),
            "not judged": Text(f"{rate.not_judged:,}"),
            "cost": Text(_usd(metrics.cost_usd)),
        }


def _any_passed(metrics: Metrics) -> str:
    """How often one of several samples, or of several rounds, passed; empty of a run of one."""
    rounds, k = metrics.rounds.any_of_first_k, max(metrics.pass_at_k, default=1)
    if k > 1:
        return f"{metrics.pass_at_k[k]:.3f} of {k:,}"
    if len(rounds) > 1:
        last = max(rounds)
        return f"{rounds[last]:.3f} of {last:,}"
    return ""


def _part(metrics: Metrics) -> Text:
    """An incomplete run's samples: of how many."""
    whole = "?" if metrics.n_planned is None else f"{metrics.n_planned:,}"
    return Text(f"{metrics.n_samples:,} of {whole}", style="yellow")


class _GroupTable:
    """Rates of the groups of one label; of a run with a measure, its means.

    Where the terminal is narrow, the interval goes first, then all but the
    last of the rounds, from the back.
    """

    def __init__(self, metrics: Metrics, label: str) -> None:
        self._metrics = metrics
        self._label = label
        groups = metrics.groups[label]
        self._shown = dict(list(groups.items())[:MOST_GROUPS])
        self._n_left_out = len(groups) - len(self._shown)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        rounds = list(self._metrics.rounds.each)
        rounds = rounds if len(rounds) > 1 and not self._metrics.measure else []
        room = options.max_width - self._least_width()
        fitting = room // _column(_ROUND)
        shown = rounds if len(rounds) <= fitting else [*rounds[: max(0, fitting - 1)], rounds[-1]]
        yield self._table(
            shown, with_interval=room >= len(shown) * _column(_ROUND) + _column(_INTERVAL)
        )
        notes = []
        if rounds and _unequal_rounds(self._metrics):
            notes.append(_ROUND_NOTE)
        if len(shown) < len(rounds):
            notes.append(f"Rounds left out for want of room: {len(rounds) - len(shown)}.")
        if self._n_left_out:
            notes.append(f"{self._n_left_out:,} more groups are in metrics.json.")
        if notes:
            yield Text(" ".join(notes), style="dim")

    def _least_width(self) -> int:
        """Of the label, n and rate; a long name of a group may be cut."""
        longest = max(cell_len(inert(name).plain) for name in ["all", self._label, *self._shown])
        n = len(f"{self._metrics.overall.n:,}")
        return min(longest, 20) + _column(n) + _column(len("0.500 ± 0.010"))

    def _table(self, rounds: Sequence[int], with_interval: bool) -> Table:
        metrics = self._metrics

        def figures(rate: Rate, scores: Mapping[str, Mean], each: Mapping[int, float]) -> list[str]:
            measure = _measure(metrics, scores)
            shown: Rate | Mean | None = measure if metrics.measure else rate
            value = measure.mean if measure else None if metrics.measure else rate.pass_rate
            error = _with_error(value, shown.stderr if shown else None)
            interval = [_interval(shown)] if with_interval else []
            by_round = [_figure(each.get(number)) for number in rounds]
            return [f"{shown.n if shown else 0:,}", error, *interval, *by_round]

        headings = ["n", f"{'mean' if metrics.measure else 'rate'} ± s.e."]
        headings += ["95%"] if with_interval else []
        headings += [f"r{number}" for number in rounds]
        table = _table(metrics, show_footer=True)
        table.add_column(inert(self._label), footer="all")
        totals = figures(metrics.overall, metrics.scores, metrics.rounds.each)
        for heading, total in zip(headings, totals, strict=True):
            table.add_column(heading, footer=total, justify="right", no_wrap=True)
        for name, group in self._shown.items():
            table.add_row(inert(name), *figures(group, group.scores, group.rounds.each))
        return table


def _pass_at_k_table(metrics: Metrics) -> Table:
    shown = _shown_k(max(metrics.pass_at_k))
    table = _table(metrics)
    table.add_column("k")
    for k in shown:
        table.add_column(f"{k:,}", justify="right", no_wrap=True)
    table.add_row("pass@k", *(_figure(metrics.pass_at_k[k]) for k in shown))
    table.add_row("± s.e.", *(_figure(metrics.pass_at_k_stderr[k]) for k in shown))
    return table


def _shown_k(largest: int) -> list[int]:
    """1, 2, 5, 10, … or, where these are too many for a line, 1, 10, 100, …; and the largest."""
    tens = [10**power for power in range(len(str(largest)))]
    series = [step * ten for ten in tens for step in (1, 2, 5)]
    if sum(k < largest for k in series) >= _MOST_K:
        series = tens
    return [*(k for k in series if k < largest), largest]


def _rounds_table(metrics: Metrics) -> Group:
    rounds = metrics.rounds
    table = _table(metrics)
    table.add_column("round")
    for heading in ("n", "each ± s.e.", "n", "any so far ± s.e."):
        table.add_column(heading, justify="right", no_wrap=True)
    for number in rounds.each:
        table.add_row(
            f"{number}",
            f"{rounds.n[number]:,}",
            _with_error(rounds.each[number], rounds.each_stderr[number], 4),
            f"{rounds.any_of_first_k_n[number]:,}",
            _with_error(rounds.any_of_first_k[number], rounds.any_of_first_k_stderr[number], 4),
        )
    return Group(table, *([Text(_ROUND_NOTE, style="dim")] if _unequal_rounds(metrics) else []))


def _unequal_rounds(metrics: Metrics) -> bool:
    """Whether some samples had fewer rounds: they stopped on a pass, failed or wait."""
    return len(set(metrics.rounds.n.values())) > 1


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
        wide = sum(_column(max(len(name), len(count))) for name, count in counts.items())
        if wide > options.max_width:
            facts = _facts()
            for outcome, count in counts.items():
                facts.add_row(outcome, count)
            yield facts
            return
        table = _table(self._metrics)
        for outcome in OUTCOMES:
            table.add_column(outcome, justify="right", no_wrap=True)
        table.add_row(*counts.values())
        yield table


def _cost(metrics: Metrics) -> Table:
    facts = _facts()
    facts.add_row("calls", f"{metrics.n_calls:,}")
    usage, uncounted = metrics.usage, metrics.n_calls_without_usage
    missing = f", {uncounted:,} calls not counted" if uncounted else ""
    if usage is None:
        facts.add_row("tokens", "unknown")
    else:
        facts.add_row(
            "tokens in",
            f"{usage.input_tokens:,} ({usage.cached_input_tokens:,} cached by provider){missing}",
        )
        facts.add_row(
            "tokens out", f"{usage.output_tokens:,} ({usage.reasoning_tokens:,} reasoning){missing}"
        )
    cost, unpriced = _usd(metrics.cost_usd), metrics.n_calls_without_cost
    if 0 < unpriced < metrics.n_calls:
        cost += f" ({_usd(metrics.known_cost_usd)} and {unpriced:,} calls of unknown cost)"
    elif metrics.known_cost_usd > metrics.paid_usd:
        cost += f" ({_usd(metrics.paid_usd)} of it paid by this run, the rest before)"
    facts.add_row("cost", cost)
    return facts


def _table(metrics: Metrics | None = None, show_footer: bool = False) -> Table:
    """An empty table; of a simulated run, one that says so."""
    return Table(
        title=_SIMULATED if metrics and metrics.simulated else None,
        title_justify="left",
        box=SIMPLE,
        show_edge=False,
        show_footer=show_footer,
        padding=(0, 1, 0, 0),
        pad_edge=False,
        header_style="bold",
        footer_style="bold",
    )


def _column(width: int) -> int:
    """What a further column of that width takes, with the space before it."""
    return width + 2


def _facts() -> Table:
    facts = Table.grid(padding=(0, 2, 0, 0))
    facts.add_column(style="dim", no_wrap=True)
    facts.add_column()
    return facts


def _line(*parts: Text) -> Text:
    """Text that is cut where it does not fit, and never wrapped."""
    return Text.assemble(*parts, no_wrap=True, overflow="ellipsis")


def _with_error(value: float | None, stderr: float | None, digits: int = 3) -> str:
    if value is None:
        return _UNKNOWN
    return f"{_figure(value, digits)} ± {_figure(stderr, digits)}"


def _figure(value: float | None, digits: int = 3) -> str:
    return _UNKNOWN if value is None else f"{value:.{digits}f}"


def _interval(estimate: Rate | Mean | None, digits: int = 3) -> str:
    if estimate is None or estimate.ci95 is None:
        return _UNKNOWN
    low, high = estimate.ci95
    return f"{low:.{digits}f}-{high:.{digits}f}"


def _usd(cost: float | None) -> str:
    if cost is None:
        return "unknown"
    return f"${cost:,.2f}" if cost >= 1 or cost == 0 else f"${cost:.4f}"
