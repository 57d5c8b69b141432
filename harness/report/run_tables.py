"""Tables of one run's metrics, such as scores, groups, pass@k, rounds, outcomes and cost."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice

from harness.analysis.clustered import ROUNDING
from harness.analysis.metrics import (
    UNJUDGED_WARNING_SHARE,
    Group,
    Metrics,
    PositionBias,
    Rate,
    ReferenceScore,
    Rounds,
    SampleStatistic,
    Statistic,
    all_cached_note,
)
from harness.analysis.self_preference import (
    SELF_PREFERENCE_MARK,
    has_related_judge,
    self_preference_warnings,
)
from harness.records import OUTCOMES
from harness.report.costs import calls_by_model, cost_facts, format_call_count, format_cost
from harness.report.table import (
    Cell,
    Column,
    Note,
    Row,
    Table,
    TableDocument,
    facts_table,
    table,
)
from harness.report.text import (
    format_clusters,
    format_interval,
    format_number,
    format_p_value,
    format_task,
    format_with_error,
    is_zero_error,
)
from harness.wording import format_count

SIGNIFICANCE_LEVEL = 0.05
MAX_GROUPS = 50  # maximum groups of a label to show; metrics.json has all of them
MAX_SUMMARY_GROUPS = 20  # maximum groups in the summary that ends a run

UNSCORED_NOTE = (
    "Scores leave out answers that were not scored, such as truncated or unparseable ones. The "
    "pass rate counts those as failed."
)
REFERENCE_COLUMNS = (
    "n",
    "mean ± s.e.",
    "pairs",
    Column("run - reference ± s.e.", sign=True),
    Column("95%", sign=True),
)
PARTIAL_NOTE = "rates cover the samples begun so far, and may still change."


def reference_cells(score: ReferenceScore) -> list[object]:
    """Return a judge's score of reference answers as the cells of `REFERENCE_COLUMNS`."""
    difference = Statistic(mean=score.difference, stderr=score.difference_stderr)
    return [score.n, score, score.n_pairs, difference, score.difference_ci95]


def run_summary(metrics: Metrics) -> TableDocument:
    """Build the summary shown at the end of a run: its result, one table, outcomes and cost.

    The table is the first of these that is not empty: the turns of conversations, the benchmark's
    own metrics, the scores, the groups of the first label with several groups. `run_document` has
    all tables.
    """
    parts: list[Table | Note] = [facts_table(_result_facts(metrics))]
    if metrics.turns:
        parts.append(turn_table(metrics))
    elif metrics.aggregates:
        parts.append(aggregate_table([metrics]))
    elif _has_other_scores(metrics):
        parts.append(_score_table(metrics))
    else:
        for label, groups in metrics.groups.items():
            if 1 < len(groups) <= MAX_SUMMARY_GROUPS:
                parts.append(group_table(metrics, label, brief=True))
                break
    return add_title(TableDocument(parts=[*parts, *_caution_notes(metrics)]), metrics)


def _result_facts(metrics: Metrics) -> Iterator[tuple[object, object]]:
    """Yield a run's result, the number of missing samples, its outcomes and its cost."""
    rate = metrics.overall
    is_measured = metrics.measure in metrics.scores
    if metrics.measure:
        yield metrics.measure, Cell(_format_estimate(metrics.primary()), style="bold")
        yield from _unmeasured_facts(metrics)
    if rate.n or not is_measured:
        clusters = format_clusters(metrics.n_instances, rate.n_clusters)
        text = f"{_format_estimate(rate)}, {format_count(rate.n, 'sample')} in {clusters}"
        style = "" if is_measured else "bold"
        yield _pass_rate_name(metrics), Cell(text, style=style)
        if rate.missing:
            yield _unjudged_fact(rate)
    rounds = metrics.rounds
    if len(rounds.each) > 1 and 1 in rounds.each:  # lines may be lost
        yield "first answers", format_with_error(rounds.each[1], rounds.each_stderr[1], 4)
    if not metrics.complete:
        yield _incomplete_fact(metrics)
    outcomes = ", ".join(f"{n:,} {outcome}" for outcome, n in metrics.outcomes.items() if n)
    yield "attempts", (outcomes or "none") + _rounds_suffix(metrics)
    tokens = "tokens unknown"
    if metrics.usage is not None:
        usage = metrics.usage
        tokens = f"{usage.input_tokens:,} tokens in, {usage.output_tokens:,} out"
    yield "calls", f"{format_call_count(metrics)}, {tokens}, cost {format_cost(metrics)}"
    yield from calls_by_model(metrics)


def _format_estimate(statistic: SampleStatistic) -> str:
    mean = format_with_error(statistic.mean, statistic.stderr, 4)
    return f"{mean} (95% {format_interval(statistic.ci95, 4)})"


def run_document(metrics: Metrics) -> TableDocument:
    """Build the document with all tables of one run's metrics."""
    parts: list[Table | Note] = [facts_table(_headline_facts(metrics))]
    if _has_other_scores(metrics):
        parts.append(_score_table(metrics))
    if metrics.references:
        rows = [[name, *reference_cells(score)] for name, score in metrics.references.items()]
        parts.append(table(["reference answers", *REFERENCE_COLUMNS], rows))
    if metrics.aggregates:
        parts.append(aggregate_table([metrics]))
    if metrics.positions is not None:
        parts.append(position_table(metrics.positions))
    parts += _caution_notes(metrics)
    parts += [group_table(metrics, label) for label in metrics.groups]
    if len(metrics.pass_at_k) > 1:
        parts.append(pass_at_k_table(metrics))
    if len(metrics.rounds.each) > 1:
        parts.append(round_table(metrics))
    if metrics.turns:
        parts.append(turn_table(metrics))
    parts.append(_outcome_table(metrics))
    parts.append(facts_table(cost_facts(metrics)))
    if metrics.simulated:
        for index, part in enumerate(parts):
            if isinstance(part, Table) and not part.headless:
                parts[index] = replace(part, marks=("SIMULATED",))
    return add_title(TableDocument(parts=parts), metrics)


def _outcome_table(metrics: Metrics) -> Table:
    counts = []
    for outcome in OUTCOMES:
        n = metrics.outcomes.get(outcome, 0)
        is_bad = n > 0 and outcome != "ok"
        counts.append(Cell(n, style="yellow" if is_bad else ""))
    return table(OUTCOMES, [counts], names=0)


def _has_other_scores(metrics: Metrics) -> bool:
    """Return whether a run has scores that differ from its pass rate."""
    rate = metrics.overall
    values = {(mean.mean, mean.n) for mean in metrics.scores.values()}
    return not values <= {(rate.mean, rate.n)}


def _caution_notes(metrics: Metrics) -> list[Note]:
    """Return notes about what may make a run's results misleading."""
    cautions = [f"{SELF_PREFERENCE_MARK} {note}" for note in self_preference_warnings(metrics)]
    cautions += metrics.cautions
    if metrics.from_cache:
        cautions.append(all_cached_note())
    return [Note(caution, "yellow") for caution in cautions]


def aggregate_table(runs: Sequence[Metrics]) -> Table:
    """Build a table of the metrics that benchmarks compute from all answers."""
    has_several_runs = len(runs) > 1
    part_column = Column("task", text=not has_several_runs)
    columns = ["run" if has_several_runs else None, part_column, "metric", "value"]
    rows = []
    for run in runs:
        for part, values in run.aggregates.items():
            for metric, value in values.items():
                rows.append([run.run, part, metric, f"{value:.6g}"])
    return table(columns, rows, title="As the benchmark computes it")


def position_table(bias: PositionBias) -> Table:
    """Build a table of how often the option at each position is chosen."""
    rows = []
    for rates in bias.positions:
        chosen_cells = [rates.chosen, rates.chosen.ci95]
        passed_cells = [rates.passed, rates.passed.ci95]
        rows.append([rates.option, rates.n_right, *chosen_cells, *passed_cells])
    columns: list[Column | str | None] = [
        Column("option", text=True),
        Column("right"),
        Column("chosen ± s.e.", rate=True),
        Column("95%", rate=True, hide=1),
        Column("chosen if right ± s.e.", rate=True),
        Column("95%", rate=True, hide=2),
    ]
    return table(columns, rows, title="By position of the option", notes=[position_note(bias)])


def position_note(bias: PositionBias) -> str:
    """Return a note with the result of the test for a position bias."""
    if bias.p_value is None:
        has_wrong = any(rates.passed.mean not in (None, 1) for rates in bias.positions)
        reason = "Wrong choices cancel in each cluster" if has_wrong else "Every choice is right"
        return f"{reason}, so a position bias would not show."
    is_clear = bias.p_value < SIGNIFICANCE_LEVEL
    finding = "Position bias" if is_clear else "No clear position bias"
    note = (
        f"{finding} (p {format_p_value(bias.p_value)}; "
        "Stuart-Maxwell test of chosen against right options, clustered: chi-squared "
        f"{bias.chi_squared:.1f}, {bias.degrees} d.f.)."
    )
    if bias.missing:
        note += f" {bias.missing:,} answers without a choice are left out."
    if is_clear:
        note += " If the options are not shuffled, an uneven key can look like a bias."
    return note


def add_title(document: TableDocument, metrics: Metrics) -> TableDocument:
    """Return a document with a run's title and marks, such as SIMULATED."""
    marks = []
    if metrics.simulated:
        marks.append("SIMULATED")
    if not metrics.complete:
        marks.append("INCOMPLETE")
    names = metrics.run, format_task(metrics.task), metrics.model
    title = "  ".join(name for name in names if name)
    return replace(document, title=title, marks=marks)


def _headline_facts(metrics: Metrics) -> Iterator[tuple[object, object]]:
    rate = metrics.overall
    is_measured = metrics.measure in metrics.scores
    if metrics.measure:
        primary = metrics.primary()
        mean = None
        if is_measured:
            mean = format_with_error(primary.mean, primary.stderr, 4)
        yield metrics.measure, Cell(mean, style="bold")
        yield "95% interval", format_interval(primary.ci95, 4)
        yield from _unmeasured_facts(metrics)
    if rate.n or not is_measured:
        yield from _verdict_facts(metrics, rate, bold=not is_measured)
    rounds = metrics.rounds
    in_rounds = _rounds_suffix(metrics)
    samples = format_count(metrics.n_samples, "sample")
    instances = format_count(metrics.n_instances, "instance")
    yield "attempts", f"{metrics.n_attempts:,}{in_rounds}, for {samples} of {instances}"
    if not metrics.complete:
        if len(rounds.each) > 1 and 1 in rounds.each:  # lines may be lost
            first_rate = format_with_error(rounds.each[1], rounds.each_stderr[1], 4)
            yield "first answers", f"{first_rate}, {rounds.n[1]:,} judged"
        yield _incomplete_fact(metrics)


def _rounds_suffix(metrics: Metrics) -> str:
    """Return " in up to N turns" or " in up to N rounds", or "" for a single round."""
    if metrics.turns:
        return f" in up to {max(metrics.turns)} turns"
    if len(metrics.rounds.each) > 1:
        return f" in up to {max(metrics.rounds.each)} rounds"
    return ""


def _unmeasured_facts(metrics: Metrics) -> Iterator[tuple[object, object]]:
    """Yield the number of samples that lack a primary metric that is a score, if there are any.

    If no answer has a verdict either, also yield that there is no pass rate.
    """
    primary = metrics.primary()
    if metrics.measure in metrics.scores and primary.missing:
        missing = f"{primary.missing:,} of {primary.n + primary.missing:,}"
        yield "not measured", Cell(missing, style="yellow")
        if not metrics.overall.n:
            yield "pass rate", "none: no answer has a verdict"


def _incomplete_fact(metrics: Metrics) -> tuple[object, object]:
    progress = f"{metrics.progress} samples; {PARTIAL_NOTE}"
    return Cell("INCOMPLETE", style="bold yellow"), Cell(progress, style="yellow")


def _pass_rate_name(metrics: Metrics) -> str:
    return "pass rate" if metrics.complete else "pass rate so far"


def _unjudged_fact(rate: Rate) -> tuple[object, object]:
    not_judged = format_count(rate.missing, "sample")
    if rate.n and rate.missing:
        lowest = format_number(rate.pass_rate_errors_as_failures, 4)
        not_judged += f", pass rate if all failed {lowest}"
    style = "yellow" if rate.missing else ""
    return "not judged", Cell(not_judged, style=style)


def _verdict_facts(metrics: Metrics, rate: Rate, *, bold: bool) -> Iterator[tuple[object, object]]:
    mean = format_with_error(rate.mean, rate.stderr, 4)
    n_samples = rate.n + rate.missing
    if rate.n and rate.missing and rate.missing >= UNJUDGED_WARNING_SHARE * n_samples:
        mean += f", {rate.n:,} of {n_samples:,} samples judged"
    yield _pass_rate_name(metrics), Cell(mean, style="bold" if bold else "")
    yield "95% interval", format_interval(rate.ci95, 4)
    cluster_rate = rate.cluster_rate
    if cluster_rate is not None and abs(cluster_rate - (rate.mean or 0)) > ROUNDING:
        cluster_mean = format_with_error(cluster_rate, rate.cluster_rate_stderr, 4)
        yield "by prompt", f"{cluster_mean}, each cluster (unique prompt) with equal weight"
    if not is_zero_error(rate.naive_stderr):
        yield (
            "naive s.e.",
            f"± {format_number(rate.naive_stderr, 4)}, as if all samples were independent",
        )
    clusters = format_clusters(metrics.n_instances, rate.n_clusters)
    yield "judged", f"{format_count(rate.n, 'sample')} in {clusters}"
    yield _unjudged_fact(rate)


def _score_table(metrics: Metrics) -> Table:
    rows = []
    n_partial = 0  # scores that some judged samples lack
    for name, mean in metrics.scores.items():
        mark = f" {SELF_PREFERENCE_MARK}" if has_related_judge(metrics, name) else ""
        rows.append([name + mark, mean.n, mean, mean.ci95])
        n_partial += mean.n < metrics.overall.n
    mean_column = Column("mean ± s.e.", digits=4)
    columns: list[Column | str] = ["score", "n", mean_column, Column("95%", digits=4)]
    notes = []
    if n_partial and not groups_differ_in_scores(metrics):
        notes.append(UNSCORED_NOTE)
    return table(columns, rows, notes=notes)


def groups_differ_in_scores(metrics: Metrics) -> bool:
    """Return whether samples lack scores only because groups of a label have different scores."""
    return any(map(_all_scored_alike, metrics.groups.values()))


def _all_scored_alike(groups: Mapping[str, Group]) -> bool:
    """Return whether each group has scores, and all of its samples have them."""
    for group in groups.values():
        sizes = {score.n for score in group.scores.values()}
        if sizes != {group.n}:
            return False
    return True


def group_table(metrics: Metrics, label: str, *, brief: bool = False) -> Table:
    """Build a table of a label's groups.

    Args:
        metrics: The run's metrics.
        label: The label.
        brief: Whether to omit the pass rates by round and the row for all groups.
    """
    groups = metrics.groups[label]
    rounds: list[int] = []
    if len(metrics.rounds.each) > 1 and not metrics.measure and not brief:
        rounds = list(metrics.rounds.each)

    def row_cells(name: str, primary: SampleStatistic, by_round: Rounds) -> list[object]:
        rates = [by_round.each.get(round_) for round_ in rounds]
        return [name, primary.n, primary, primary.ci95, *rates]

    notes = _round_notes(metrics) if rounds else []
    if len(groups) > MAX_GROUPS:
        notes.append(f"{len(groups) - MAX_GROUPS:,} more groups are in metrics.json.")
    statistic = "mean" if metrics.measure else "rate"
    columns: list[Column | str | None] = [label, "n", f"{statistic} ± s.e.", Column("95%", hide=1)]
    for round_ in rounds:  # the first and last rounds are hidden last
        is_end = round_ in (rounds[0], rounds[-1])
        columns.append(Column(f"r{round_}", hide=3 if is_end else 2))
    rows = []
    for name, group in islice(groups.items(), MAX_GROUPS):
        rows.append(row_cells(name, metrics.primary(group), group.rounds))
    footer = None
    if not brief:
        footer = Row(row_cells("all", metrics.primary(), metrics.rounds))
    return table(columns, rows, footer=footer, notes=notes)


def _round_notes(metrics: Metrics) -> list[str]:
    if len(set(metrics.rounds.n.values())) > 1:
        return ["A round's rate is over the samples judged in it."]
    return []


def pass_at_k_table(metrics: Metrics) -> Table:
    """Build a table of pass@k and pass^k for several values of k."""
    rows = []
    for k in _displayed_k(max(metrics.pass_at_k)):
        any_passes = Statistic(mean=metrics.pass_at_k[k], stderr=metrics.pass_at_k_stderr[k])
        # Metrics of older runs lack it.
        all_pass = Statistic(
            mean=metrics.pass_hat_k.get(k), stderr=metrics.pass_hat_k_stderr.get(k)
        )
        rows.append([f"{k:,}", metrics.n_of_k(k), any_passes, all_pass])
    n_differs = len({metrics.n_of_k(k) for k in metrics.pass_at_k}) > 1
    columns: list[Column | str | None] = [
        "k",
        "n" if n_differs else None,
        Column("pass@k ± s.e.", rate=True),
        Column("pass^k ± s.e.", rate=True) if metrics.pass_hat_k else None,
    ]
    notes = ["n: instances with at least k verdicts. Others are excluded."] if n_differs else []
    return table(columns, rows, notes=notes)


def _displayed_k(k_max: int) -> Iterator[int]:
    """Yield 1, 2, 5, 10, 20, 50, … below ``k_max``, and ``k_max``."""
    power = 1
    while power < k_max:
        for k in (power, 2 * power, 5 * power):
            if k < k_max:
                yield k
        power *= 10
    yield k_max


def round_table(metrics: Metrics) -> Table:
    """Build a table of pass rates by round."""
    rounds = metrics.rounds
    columns: list[Column | str | None] = [
        "round",
        "n",
        Column("each ± s.e.", digits=4, rate=True),
        Column("fixed", hide=1),
        Column("broken", hide=1),
        "n",
        Column("any so far ± s.e.", digits=4, rate=True),
    ]
    rows = []
    for round_, rate in rounds.each.items():
        in_round = Statistic(mean=rate, stderr=rounds.each_stderr[round_])
        changes = [rounds.fixed.get(round_, ""), rounds.broken.get(round_, "")]
        any_so_far = Statistic(
            mean=rounds.any_of_first_k[round_], stderr=rounds.any_of_first_k_stderr[round_]
        )
        n_so_far = rounds.any_of_first_k_n[round_]
        rows.append([str(round_), rounds.n[round_], in_round, *changes, n_so_far, any_so_far])
    return table(columns, rows, notes=_round_notes(metrics))


def turn_table(metrics: Metrics) -> Table:
    """Build a table of the answers to each turn of scripted conversations."""
    columns: list[Column | str | None] = [
        "turn",
        "answers",
        "n",
        Column("passed ± s.e.", digits=4, rate=True),
        Column("95%", digits=4, hide=1),
    ]
    scores: dict[str, None] = {}
    for turn in metrics.turns.values():
        scores |= dict.fromkeys(turn.scores)
    columns += [Column(name, digits=4, hide=2) for name in scores]
    rows = []
    for turn_number, turn in metrics.turns.items():
        cells: list[object] = [str(turn_number), turn.n_answers, turn.n, turn, turn.ci95]
        for name in scores:
            score = turn.scores.get(name)
            cells.append(None if score is None else score.mean)
        rows.append(cells)
    notes = ["Each turn by its own checks; n: answers with a verdict. A sample passes if all pass."]
    return table(columns, rows, notes=notes)
