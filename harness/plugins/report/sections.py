"""The sections of a page below the answer: figures, tables, and how the runs were made in words."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from itertools import islice
from typing import Any

from msgspec.structs import replace as replaced

from harness.analysis.metrics import Statistic, task_plugin_name
from harness.config.run_file import flatten, is_below
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
    MAX_GROUPS,
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
        cells = [Cell(_setting(key), title=key), in_words(first)]
        for value in others:
            style = "dim" if value == first else ""
            cells.append(Cell(in_words(value), style=style))
        rows.append(cells)
    if not rows:
        return None
    columns = ["setting", *(run.name for run in runs)]
    return table(columns, rows, title="Settings that differ", names=len(columns))


def _differing(runs: Sequence[ReportedRun]) -> dict[str, list[Any]]:
    """Return the settings that differ between runs, each with its value for every run.

    For runs of several tasks, options that have their task's default value count as not set.
    """
    several_tasks = len({run.metrics.task for run in runs}) > 1
    settings_of_runs = []
    keys: dict[str, None] = {}
    for run in runs:
        nested = {key: _nested(key, value) for key, value in run.settings.items()}
        settings = flatten(nested)
        if several_tasks:
            for key, default in _defaults(run.metrics.task).items():
                if key in settings and settings[key] == default:
                    del settings[key]
        settings_of_runs.append(settings)
        keys |= dict.fromkeys(settings)
    # If some run lacks a section, the section's non-empty settings are one value, a mapping.
    for key in keys:
        for settings in settings_of_runs:
            _join_section(settings, key)
    keys = {}
    for settings in settings_of_runs:
        keys |= dict.fromkeys(settings)
    differing = {}
    for key in keys:
        values = [settings.get(key) for settings in settings_of_runs]
        if any(value != values[0] for value in values):
            differing[key] = values
    return differing


def _join_section(settings: dict[str, Any], key: str) -> None:
    """Replace the settings of the section ``key``, if there are any, by one mapping."""
    prefix = f"{key}."
    section = {name: value for name, value in settings.items() if name.startswith(prefix)}
    if not section:
        return
    non_empty = {}
    for name, value in section.items():
        del settings[name]
        if value not in _EMPTY:
            non_empty[name.removeprefix(prefix)] = value
    settings[key] = non_empty


def _defaults(task: str) -> dict[str, Any]:
    """Return the default values of a task's options by dotted key ({} if unknown)."""
    with contextlib.suppress(HarnessError):
        options = kind("tasks").validate_options(task_plugin_name(task), {}).model_dump(mode="json")
        return flatten({"task": options})
    return {}


def _setting(key: str) -> str:
    return _NAMES.get(key, key.replace(".", " ").replace("_", " "))


def prompts(runs: Sequence[ReportedRun]) -> list[str]:
    """Describe, for each run, the settings that differ between runs, except the model's."""
    descriptions: list[list[str]] = [[] for _ in runs]
    for key, values in _differing(runs).items():
        if key.startswith("model."):
            continue
        for description, value in zip(descriptions, values, strict=True):
            description.append(f"{_setting(key)} {in_words(value)}")
    return list(map(", ".join, descriptions))


def _nested(key: str, value: Any) -> Any:
    """Return a section's settings without the prefix ``key.``, or any other value unchanged."""
    if not isinstance(value, dict):
        return value
    return {name.removeprefix(f"{key}."): part for name, part in value.items()}


def extraction_of(run: ReportedRun) -> str:
    """Return in words how the answer is found in a reply, or "" if that is not set."""
    extraction = run.settings.get("task.extract") or run.settings.get("task.extraction")
    if not extraction:
        return ""
    return in_words(_nested("task.extract", extraction))


def in_words(value: Any) -> str:
    """Return a setting's value in words.

    None becomes "default", and an empty list or mapping becomes "none".

    >>> in_words({"n": 2, "fields": ["a", "b"], "strict": True})
    'n: 2; fields: a, b; strict: yes'
    """
    if value is None:
        return "default"
    if isinstance(value, Mapping):
        return "; ".join(f"{key}: {in_words(part)}" for key, part in value.items()) or "none"
    if isinstance(value, list | tuple):
        return ", ".join(map(in_words, value)) or "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return str(value)


def settings(runs: Sequence[ReportedRun]) -> Table:
    """Build a table of all non-empty settings of each run."""
    return by_key("Settings of each run", "setting", runs, [run.settings for run in runs])


def origins(runs: Sequence[ReportedRun]) -> Table:
    """Build a table of each run's times, data and environment."""
    facts = []
    for run in runs:
        of_run = {}
        for key, value in flatten(dict(run.manifest)).items():
            if not is_below(key, _ELSEWHERE):
                of_run[key] = _time(value) if key in _TIMES else value
        facts.append(of_run)
    return by_key("How the runs were made", "", runs, facts)


def packages(runs: Sequence[ReportedRun]) -> Table:
    """Build a table of each run's package versions."""
    versions = [run.manifest.get("packages", {}) for run in runs]
    return by_key("Versions of packages", "package", runs, versions)


def by_key(
    title: str, heading: str, runs: Sequence[ReportedRun], mappings: Sequence[Mapping[str, Any]]
) -> Table:
    """Build a table of mappings, with a column per run and a row per key."""
    keys: dict[str, None] = {}
    for mapping in mappings:
        keys |= dict.fromkeys(mapping)
    rows = []
    for key in keys:
        texts = [_value_text(mapping.get(key)) for mapping in mappings]
        if any(texts):
            rows.append([key, *texts])
    columns = [heading, *(run.name for run in runs)]
    return table(columns, rows, title=title, names=len(columns))


def _value_text(value: Any) -> str:
    if value in (None, "", [], {}, ()):
        return ""
    if isinstance(value, str):
        return value
    return json.dumps(value, default=str, ensure_ascii=False)


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
    else:
        by_model = _by_model(reported.runs)
        if by_model is not None:
            parts["results"].append(table_part(by_model, unit))
    for figure in figures:
        parts.setdefault(figure.section, []).append(figure_part(figure))
    for name, tabled in _tables(reported):
        folded = bool(figures) and name not in ("scores", "cost")
        part = _part(tabled, unit, folded)
        section_parts = parts.setdefault(name, [])
        last = section_parts[-1] if section_parts else None
        if folded and isinstance(part, NotePart) and isinstance(last, TablePart):
            section_parts[-1] = replaced(last, notes=[*last.notes, part.text])
        else:
            section_parts.append(part)
    page_sections = []
    for name, section_parts in parts.items():
        if section_parts:
            title = TITLES.get(name, name.replace("_", " ").capitalize())
            page_sections.append(PageSection(name, title, section_parts))
    return page_sections


def _part(part: Table | Note, unit: ShownUnit, folded: bool = False) -> Part:
    if isinstance(part, Note):
        return NotePart(part.text)
    return table_part(part, unit, folded=folded)


def _tables(reported: Reported) -> Iterator[tuple[str, Table | Note]]:
    """Yield the tables and notes of a page, each with the name of its section."""
    runs = reported.runs
    comparison = reported.comparison
    labels: dict[str, None] = {}
    for run in runs:
        labels |= dict.fromkeys(run.metrics.groups)
    for label in labels:
        yield "results", _groups(runs, label)
    for run in runs:
        if run.metrics.positions is not None:
            title = f"{run.name}: by position of the option"
            yield "results", replace(position_table(run.metrics.positions), title=title)
    aggregating = [run.metrics for run in runs if run.metrics.aggregates]
    if aggregating:
        yield "scores", aggregate_table(aggregating)
    reference_table = references(runs)
    if reference_table is not None:
        yield "scores", reference_table
    for run in runs:
        for name, section in run.added:
            for part in section.tables(run.name):
                yield name, part
    if comparison is not None:
        for against in comparison.others:
            for part in tables_within(against, comparison):
                yield "comparison", part
    for part in _constraint_parts(runs):
        if isinstance(part, Table):
            part = replace(part, title="Constraints by kind")
        yield "constraints", part
    outcomes = []
    for run in runs:
        metrics = run.metrics
        if len(metrics.rounds.each) > 1:
            yield "rounds", replace(round_table(metrics), title=f"Rounds of {run.name}")
        if metrics.turns:
            yield "turns", replace(turn_table(metrics), title=f"Turns of {run.name}")
        if len(metrics.pass_at_k) > 1:
            title = f"Samples of {run.name}: any or all of k pass"
            yield "rounds", replace(pass_at_k_table(metrics), title=title)
        counts = [metrics.outcomes.get(outcome, 0) for outcome in OUTCOMES]
        outcomes.append([run.name, *counts])
    yield "outcomes", table(["run", *OUTCOMES], outcomes, title="Outcomes of attempts")
    yield "cost", by_key("Calls, tokens and cost", "", runs, [dict(_cost(run)) for run in runs])
    yield "cost", Note(_CALLS)


def _constraint_parts(runs: Sequence[ReportedRun]) -> Sequence[Table | Note]:
    of_kinds = {run.name: run.constraints for run in runs if run.constraints}
    if not of_kinds:
        return []
    if len(runs) > 1:
        return constraint_shares(of_kinds).parts
    return constraint_document(runs[0].constraints, runs[0].without_constraints).parts


def _by_model(runs: Sequence[ReportedRun]) -> Table | None:
    """Build a table of runs by settings and model, or None if it would be a mere list."""
    runs_by_label: dict[str, dict[str, ReportedRun]] = {}
    models: dict[str, None] = {}
    for label, run in zip(prompts(runs), runs, strict=True):
        model = run.metrics.model or ""
        models[model] = None
        by_model = runs_by_label.setdefault(label, {})
        if model in by_model:
            return None
        by_model[model] = run
    if len(runs) <= max(len(models), len(runs_by_label)) or len(runs_by_label) < 2:
        return None
    columns = [Column("setting")]
    for model in models:
        columns += [Column("rate", over=model, rate=True), Column("95%", over=model, rate=True)]
    rows = []
    for label, by_model in runs_by_label.items():
        cells: list[object] = [Cell(label)]
        for model in models:
            statistic = Statistic()
            if model in by_model:
                statistic = by_model[model].metrics.primary()
            cells += [statistic.mean, statistic.ci95]
        rows.append(cells)
    return table(columns, rows, title="Settings by model")


def _groups(runs: Sequence[ReportedRun], label: str) -> Table:
    """Build a table of the primary metric by group of a label."""
    columns = [Column(label, text=True)]
    groups: dict[str, None] = {}
    for run in runs:
        over = run.name if len(runs) > 1 else ""
        measure = run.metrics.measure or "pass rate"
        columns.append(Column(f"{measure} ± s.e.", over=over, rate=True))
        columns += [Column("95%", over=over, rate=True), Column("n", over=over)]
        groups |= dict.fromkeys(run.metrics.groups.get(label, ()))
    rows = []
    for group in islice(groups, MAX_GROUPS):
        cells: list[object] = [Cell(group)]
        for run in runs:
            group_metrics = run.metrics.groups.get(label, {}).get(group)
            if group_metrics is None:
                cells += [None, None, 0]
            else:
                statistic = run.metrics.primary(group_metrics)
                cells += [statistic, statistic.ci95, statistic.n]
        rows.append(Row(cells))
    notes = []
    if len(groups) > MAX_GROUPS:
        notes.append(f"{len(groups) - MAX_GROUPS:,} more groups are in metrics.json.")
    return table(columns, rows, title=f"By {label}", notes=notes)


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
