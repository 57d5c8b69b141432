"""The sections of a page below the answer: figures, tables, and how the runs were made in words."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from msgspec.structs import replace as replaced

from harness.analysis.metrics import plugin_of
from harness.config.run_file import flatten
from harness.errors import HarnessError
from harness.plugin_loader import kind
from harness.plugins.comparisons.comparison_document import ShownUnit, tables_within
from harness.plugins.comparisons.cross_table_document import suite_document
from harness.plugins.report.constraints import constraint_document, constraint_shares
from harness.plugins.report.figure import Figure
from harness.plugins.report.parts import (
    NotePart,
    PageSection,
    Part,
    TablePart,
    figure_part,
    table_part,
)
from harness.plugins.report.runs import Reported, ReportedRun, references
from harness.records import OUTCOMES
from harness.report.costs import cost_facts
from harness.report.run_tables import (
    MOST_GROUPS,
    aggregate_table,
    pass_at_k_table,
    position_table,
    round_table,
    turn_table,
)
from harness.report.table import Cell, Column, Note, Row, Table, table

_TIMES = ("started_at", "ended_at")
_EMPTY: tuple[object, ...] = (None, False, "", [], {})
_NAMES = {
    "model.name": "model",
    "rounds.max": "rounds",
    "task.shots": "few-shot examples",
    "task.system": "system message",
    "task.prompt": "prompt",
    "task.extract": "extraction",
    "task.checks": "checks",
    "decoding.temperature": "temperature",
    "decoding.max_tokens": "token limit",
    "decoding.constraint": "constrained decoding",
}
_ELSEWHERE = ("run", "sessions", "packages", "host.name", "variant")  # shown elsewhere or private


def differences(runs: Sequence[ReportedRun]) -> Table | None:
    """Return a table of settings that differ, or None if none do."""
    rows = []
    for key, (first, *others) in _differing(runs).items():
        cells = [Cell(in_words(value), style="dim" * (value == first)) for value in others]
        rows.append([Cell(_setting(key), title=key), in_words(first), *cells])
    names = 1 + len(runs)
    columns = ["setting", *(run.name for run in runs)]
    return table(columns, rows, title="Settings that differ", names=names) if rows else None


def _differing(runs: Sequence[ReportedRun]) -> dict[str, list[Any]]:
    """Return the settings that differ between runs, each with its value for every run.

    For runs of several tasks, options that have their task's default value count as not set.
    """
    flat = [flatten({key: _nested(key, value) for key, value in run.settings.items()})
            for run in runs]  # fmt: skip
    tasks = [run.metrics.task for run in runs]
    if len(set(tasks)) > 1:
        defaults = {task: _defaults(task) for task in tasks}
        flat = [
            {k: v for k, v in settings.items() if k not in defaults[task] or defaults[task][k] != v}
            for settings, task in zip(flat, tasks, strict=True)
        ]
    # If some run lacks a section, the section's non-empty settings are one value, a mapping.
    for key in {key for settings in flat for key in settings}:
        for settings in flat:
            if parts := [name for name in settings if name.startswith(f"{key}.")]:
                section = {name.removeprefix(f"{key}."): settings.pop(name) for name in parts}
                settings[key] = {
                    name: value for name, value in section.items() if value not in _EMPTY
                }
    keys = dict.fromkeys(key for settings in flat for key in settings)
    values_by_key = {key: [settings.get(key) for settings in flat] for key in keys}
    return {
        key: values for key, values in values_by_key.items() if any(v != values[0] for v in values)
    }


def _defaults(task: str) -> dict[str, Any]:
    """Return the default values of a task's options by dotted key ({} if unknown)."""
    with contextlib.suppress(HarnessError):
        options = kind("tasks").options(plugin_of(task), {}).model_dump(mode="json")
        return flatten({"task": options})
    return {}


def _setting(key: str) -> str:
    return _NAMES.get(key, key.replace(".", " ").replace("_", " "))


def prompts(runs: Sequence[ReportedRun]) -> list[str]:
    """Describe, for each run, the settings that differ between runs, except the model's."""
    differing = {k: v for k, v in _differing(runs).items() if not k.startswith("model.")}
    return [
        ", ".join(
            f"{_setting(key)} {in_words(values[position])}" for key, values in differing.items()
        )
        for position in range(len(runs))
    ]


def _nested(key: str, value: Any) -> Any:
    """Return a section's settings without the prefix ``key.``, or any other value unchanged."""
    if not isinstance(value, dict):
        return value
    return {name.removeprefix(f"{key}."): part for name, part in value.items()}


def extraction_of(run: ReportedRun) -> str:
    """Return in words how the answer is found in a reply, or "" if that is not set."""
    extractions = [run.settings.get(key) for key in ("task.extract", "task.extraction")]
    extraction = next((value for value in extractions if value), "")
    return in_words(_nested("task.extract", extraction)) if extraction else ""


def in_words(value: Any) -> str:
    """Return a setting's value in words.

    None becomes "default", and an empty list or mapping becomes "none".

    >>> in_words({"n": 2, "fields": ["a", "b"], "strict": True})
    'n: 2; fields: a, b; strict: yes'
    """
    if isinstance(value, Mapping):
        return "; ".join(f"{key}: {in_words(part)}" for key, part in value.items()) or "none"
    if isinstance(value, list | tuple):
        return ", ".join(map(in_words, value)) or "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "default" if value is None else str(value)


def settings(runs: Sequence[ReportedRun]) -> Table:
    """Build a table of all non-empty settings of each run."""
    return by_key("Settings of each run", "setting", runs, [run.settings for run in runs])


def origins(runs: Sequence[ReportedRun]) -> Table:
    """Build a table of each run's times, data and environment."""
    facts = [
        {
            key: _time(value) if key in _TIMES else value
            for key, value in flatten(dict(run.manifest)).items()
            if not any(key == hidden or key.startswith(f"{hidden}.") for hidden in _ELSEWHERE)
        }
        for run in runs
    ]
    return by_key("How the runs were made", "", runs, facts)


def packages(runs: Sequence[ReportedRun]) -> Table:
    """Build a table of each run's package versions."""
    versions = [run.manifest.get("packages", {}) for run in runs]
    return by_key("Versions of packages", "package", runs, versions)


def by_key(
    title: str, heading: str, runs: Sequence[ReportedRun], mappings: Sequence[Mapping[str, Any]]
) -> Table:
    """Build a table of mappings, with a column per run and a row per key."""
    keys = dict.fromkeys(key for mapping in mappings for key in mapping)
    rows = [[key, *(_value_text(mapping.get(key)) for mapping in mappings)] for key in keys]
    filled = [row for row in rows if any(row[1:])]
    return table([heading, *(run.name for run in runs)], filled, title=title, names=1 + len(runs))


def _value_text(value: Any) -> str:
    if value in (None, "", [], {}, ()):
        return ""
    return value if isinstance(value, str) else json.dumps(value, default=str, ensure_ascii=False)


def _time(value: Any) -> Any:
    try:
        return f"{datetime.fromtimestamp(value, UTC):%Y-%m-%d %H:%M:%S} UTC"
    except (TypeError, ValueError, OverflowError, OSError):
        return value


TITLES: Mapping[str, str] = {
    "matrix": "Models and benchmarks",
    "results": "Results",
    "scores": "Checks and judges",
    "comparison": "Comparison",
    "constraints": "Constraints",
    "rounds": "Rounds and samples",
    "turns": "Turns of conversations",
    "outcomes": "Outcomes",
    "cost": "Cost and time",
}
_CALLS = (
    "Each call counts once, even if attempts share it. Seconds are of calls that were answered or "
    "crashed, without those answered from the cache."
)


def sections(reported: Reported, unit: ShownUnit, figures: Sequence[Figure]) -> list[PageSection]:
    """Return the sections of a page, without empty ones. With figures, most tables are folded."""
    parts: dict[str, list[Part]] = {name: [] for name in TITLES}
    if reported.suite is not None:
        parts["matrix"] += [_part(part, unit) for part in suite_document(reported.suite).parts]
    elif (by_model := _by_model(reported.runs)) is not None:
        parts["results"].append(_part(by_model, unit))
    for figure in figures:
        parts.setdefault(figure.section, []).append(figure_part(figure))
    for name, tabled in _tables(reported):
        folded = bool(figures) and name not in ("scores", "cost")
        part = _part(tabled, unit, folded)
        section_parts = parts.setdefault(name, [])
        if (
            folded
            and section_parts
            and isinstance(part, NotePart)
            and isinstance(section_parts[-1], TablePart)
        ):
            section_parts[-1] = replaced(
                section_parts[-1], notes=[*section_parts[-1].notes, part.text]
            )
        else:
            section_parts.append(part)
    return [
        PageSection(name, TITLES.get(name, name.replace("_", " ").capitalize()), section_parts)
        for name, section_parts in parts.items()
        if section_parts
    ]


def _part(part: Table | Note, unit: ShownUnit, folded: bool = False) -> Part:
    return NotePart(part.text) if isinstance(part, Note) else table_part(part, unit, folded=folded)


def _tables(reported: Reported) -> Iterator[tuple[str, Table | Note]]:
    runs = reported.runs
    comparison = reported.comparison
    for label in dict.fromkeys(label for run in runs for label in run.metrics.groups):
        yield "results", _groups(runs, label)
    for run in runs:
        if (positions := run.metrics.positions) is not None:
            title = f"{run.name}: by position of the option"
            yield "results", replace(position_table(positions), title=title)
    if aggregating := [run.metrics for run in runs if run.metrics.aggregates]:
        yield "scores", aggregate_table(aggregating)
    if (reference_table := references(runs)) is not None:
        yield "scores", reference_table
    for run in runs:
        for name, section in run.added:
            for part in section.tables(run.name):
                yield name, part
    if comparison is not None:
        for against in comparison.others:
            for part in tables_within(against, comparison):
                yield "comparison", part
    of_kinds = {run.name: run.constraints for run in runs if run.constraints}
    if of_kinds:
        first = next(iter(of_kinds.values()))
        several = constraint_shares(of_kinds) if len(runs) > 1 else None
        document = several or constraint_document(first, runs[0].without_constraints)
        for part in _titled(document.parts, "Constraints by kind"):
            yield "constraints", part
    for run in runs:
        if len(run.metrics.rounds.each) > 1:
            yield "rounds", replace(round_table(run.metrics), title=f"Rounds of {run.name}")
        if run.metrics.turns:
            yield "turns", replace(turn_table(run.metrics), title=f"Turns of {run.name}")
        if len(run.metrics.pass_at_k) > 1:
            title = f"Samples of {run.name}: any or all of k pass"
            yield "rounds", replace(pass_at_k_table(run.metrics), title=title)
    counts = [
        [run.name, *(run.metrics.outcomes.get(outcome, 0) for outcome in OUTCOMES)] for run in runs
    ]
    yield "outcomes", table(["run", *OUTCOMES], counts, title="Outcomes of attempts")
    yield "cost", by_key("Calls, tokens and cost", "", runs, [dict(_cost(run)) for run in runs])
    yield "cost", Note(_CALLS)


def _titled(parts: Sequence[Table | Note], title: str) -> Iterator[Table | Note]:
    for part in parts:
        yield replace(part, title=title) if isinstance(part, Table) else part


def _by_model(runs: Sequence[ReportedRun]) -> Table | None:
    """Build a table of runs by settings and model, or None if it would be a mere list."""
    models = list(dict.fromkeys(run.metrics.model or "" for run in runs))
    labels_of_runs = prompts(runs)
    cells = {
        (label, run.metrics.model or ""): run
        for label, run in zip(labels_of_runs, runs, strict=True)
    }
    labels = list(dict.fromkeys(labels_of_runs))
    if len(cells) < len(runs) or len(runs) <= max(len(models), len(labels)) or len(labels) < 2:
        return None
    rows = []
    for label in labels:
        row: list[object] = [Cell(label)]
        for model in models:
            if (run := cells.get((label, model))) is None:
                row += [None, None]
            else:
                statistic = run.metrics.primary()
                row += [statistic.mean, statistic.ci95]
        rows.append(row)
    columns = [
        Column("setting"),
        *(Column(head, over=model, rate=True) for model in models for head in ("rate", "95%")),
    ]
    return table(columns, rows, title="Settings by model")


def _groups(runs: Sequence[ReportedRun], label: str) -> Table:
    groups = dict.fromkeys(group for run in runs for group in run.metrics.groups.get(label, ()))
    rows = []
    for group in list(groups)[:MOST_GROUPS]:
        cells: list[object] = [Cell(group)]
        for run in runs:
            if (group_metrics := run.metrics.groups.get(label, {}).get(group)) is None:
                cells += [None, None, 0]
            else:
                statistic = run.metrics.primary(group_metrics)
                cells += [statistic, statistic.ci95, statistic.n]
        rows.append(Row(cells))
    columns = [
        replace(column, over=run.name if len(runs) > 1 else "")
        for run in runs
        for column in (
            Column(f"{run.metrics.measure or 'pass rate'} ± s.e.", rate=True),
            Column("95%", rate=True),
            Column("n"),
        )
    ]
    left = len(groups) - len(rows)
    notes = [f"{left:,} more groups are in metrics.json."] if left else []
    first = Column(label, text=True)
    return table([first, *columns], rows, title=f"By {label}", notes=notes)


def _cost(run: ReportedRun) -> Iterator[tuple[str, str]]:
    if run.recorded:
        yield "cost", "recorded answers: nothing was paid for or timed"
        return
    for name, text in cost_facts(run.metrics):
        yield name.strip(), text
    if run.latencies:
        median = run.latencies.median
        slowest = run.latencies.quantiles[95]
        yield "seconds per uncached call, median", f"{median:.2f}"
        yield "seconds per uncached call, 95th percentile", f"{slowest:.2f}"
