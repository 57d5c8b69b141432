"""The layout of a results table: its figures, the labels of its rows and columns, its row names.

By default the figures and labels are those of the table in the task's paper; if it has none, the
figure is the task's primary metric.

One rule names the rows: a setting is shown if two runs of one model that differ in it would
otherwise fill the same cell. So runs of two tasks, or of two output formats, share a row, since
they fill different cells; runs with no and with five examples do not. Runs that would fill the
same cell with the same settings are told apart by their names.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, NamedTuple

from msgspec import Struct, structs

from harness.analysis.breakdown import Key, are_fractions, last_rounds, macro_f1, means, rates
from harness.analysis.clustered import SampleStatistic
from harness.analysis.comparable import (
    Run,
    Variant,
    changed,
    refuse_incomparable,
    refuse_unknown_label,
    section_of,
)
from harness.analysis.metrics import PASS_RATE
from harness.errors import ConfigError, RunConflict, nearest
from harness.ports import PaperTable, TableFigure
from harness.store.columns import AttemptTable

SHOTS = "task.shots"


class TableOptions(Struct, frozen=True, kw_only=True):
    """What a table shows; None and empty values mean the task's own table.

    Attributes:
        rows: Label of the rows besides the model; an empty string for one row per model.
        columns: Label whose groups are columns; an empty string for one column per figure.
        scores: Names of scores, `PASS_RATE`, or figures of the task's own table.
        round: Use each sample's last round up to this one; None for its last round.
    """

    rows: str | None = None
    columns: str | None = None
    scores: list[str] = []
    round: int | None = None


class Layout(NamedTuple):
    """The figures with their tasks, in order; the labels, empty for none; the figures' papers."""

    figures: list[tuple[str, TableFigure]]
    rows: str
    columns: str
    sources: list[str]


def layout(runs: Sequence[Run], tables: Mapping[str, PaperTable], options: TableOptions) -> Layout:
    """Resolve the requested figures and labels, defaulting to those of the tasks' own tables.

    Raises:
        ConfigError: A figure or label does not exist, or the default is ambiguous.
    """
    own = {v.metrics.task: tables[v.metrics.task] for v, _ in runs if v.metrics.task in tables}
    rows = _label(runs, options.rows, [table.rows for table in own.values()], "--rows")
    if rows is None:
        known = dict.fromkeys(label for _, table in runs for label in table.labels())
        tasks = list(dict.fromkeys(variant.metrics.task for variant, _ in runs))
        subject = f"The task {tasks[0]!r}" if len(tasks) == 1 else "None of the tasks"
        raise ConfigError(
            f"{subject} defines no table: which label gives the rows?",
            f"Name it with --rows: {', '.join(known)}." if known else "--rows '' is one per model.",
        )
    columns = _label(runs, options.columns, [t.columns for t in own.values()], "--columns") or ""
    if rows and rows == columns:
        raise ConfigError(
            f"--columns: {rows!r} is the label of the rows.", "Name another label, or '' for none."
        )
    figures: dict[tuple[str, TableFigure], None] = {}
    for variant, table in runs:
        task = variant.metrics.task
        found = own[task].figures if task in own else ()
        if options.scores or not found:
            named = {PASS_RATE: TableFigure("pass rate")} | {
                figure.name: figure for figure in found
            }
            scores = options.scores or [variant.metrics.measure or PASS_RATE]
            found = tuple(named.get(one) or TableFigure(one, "score", one) for one in scores)
        if not any(_applies(figure, table) for figure in found):
            names = " or ".join(repr(figure.score or figure.name) for figure in found)
            raise ConfigError(
                f"The run {variant.name!r} has no score {names}.",
                nearest(found[0].score, [PASS_RATE, *table.scores]),
            )
        figures |= dict.fromkeys((task, figure) for figure in found)
    taken = {figure for _, figure in figures}
    sources = [table.source for table in own.values() if taken & set(table.figures)]
    return Layout(list(figures), rows, columns, list(dict.fromkeys(sources)))


def _label(
    runs: Sequence[Run], wanted: str | None, declared: Sequence[str], option: str
) -> str | None:
    """Return the requested or declared label, or None if there is neither."""
    if wanted is None:
        different = list(dict.fromkeys(declared))
        if len(different) > 1:
            raise ConfigError(
                f"The tasks' tables have different {option.strip('-')}: {', '.join(different)}.",
                f"Name one with {option}.",
            )
        wanted = different[0] if different else None
    tables, names = [table for _, table in runs], [variant.name for variant, _ in runs]
    refuse_unknown_label(option, wanted or "", tables, names)
    return wanted


def _applies(figure: TableFigure, table: AttemptTable) -> bool:
    """Return whether a run has a figure (`harness.ports.TableFigure` says when)."""
    if figure.label and figure.label not in table.labels():
        return False
    # A macro-F1 is defined even if no answer has the score: all of them are misses.
    return figure.of == "macro_f1" or not figure.score or figure.score in table.scores


def _values(samples: AttemptTable, figure: TableFigure, *labels: str) -> dict[Key, SampleStatistic]:
    """Return a figure's value in each group, as `harness.analysis.breakdown.rates` does."""
    if figure.of == "macro_f1":
        return macro_f1(samples, figure.score, figure.label, *labels)
    passed = rates(samples, *labels)
    if figure.of == "passed":
        return passed
    if figure.of == "answered":
        found = rates(samples.take(samples.measured(figure.score)), *labels)
    else:
        found = means(samples, figure.score, *labels)
    values = {}
    for key, whole in passed.items():
        one = found.get(key, SampleStatistic())
        values[key] = structs.replace(one, missing=whole.n + whole.missing - one.n)
    return values


class Place(NamedTuple):
    """A cell of a run: its figure's index in the layout, its row and column groups (None: all)."""

    figure: int
    group: str
    column: str | None


@dataclass(frozen=True, slots=True)
class FilledRun:
    """A run with its cells.

    Attributes:
        fractions: For each figure, whether all of its values are between 0 and 1.
        outside: Samples without a group of the rows' label.
    """

    variant: Variant
    cells: Mapping[Place, SampleStatistic]
    fractions: Mapping[int, bool]
    outside: int

    @property
    def model(self) -> str:
        """The name of its rows: the model's, else the backend's."""
        return self.variant.metrics.model or str(self.variant.settings.get("model.backend") or "?")


def fill(variant: Variant, table: AttemptTable, plan: Layout, round_: int | None) -> FilledRun:
    """Compute a run's cells, by column and over all columns."""
    samples = last_rounds(table, round_)
    rows = (plan.rows,) if plan.rows else ()
    cells: dict[Place, SampleStatistic] = {}
    fractions = {}
    outside = 0
    for number, (task, figure) in enumerate(plan.figures):
        if task != variant.metrics.task or not _applies(figure, table):
            continue
        over_all = _values(samples, figure, *rows)
        outside = len(samples) - sum(cell.n + cell.missing for cell in over_all.values())
        for key, cell in over_all.items():
            cells[Place(number, "".join(key), None)] = cell
        if plan.columns:
            for key, cell in _values(samples, figure, *rows, plan.columns).items():
                cells[Place(number, "".join(key[:-1]), key[-1])] = cell
        fractions[number] = figure.of != "score" or are_fractions(samples, figure.score)
    return FilledRun(variant, cells, fractions, outside)


def row_settings(runs: Sequence[FilledRun], plan: Layout) -> list[dict[str, str]]:
    """Return what distinguishes each run's rows besides the model: no two runs may fill one cell.

    For each run, its settings by the same keys, and its name as ``run`` if they do not suffice.

    Raises:
        RunConflict: Runs on different data would fill the same group of the same task.
    """
    # Single columns, or all cells if the table has one column per figure.
    places = [
        {place for place in run.cells if place.column is not None or not plan.columns}
        for run in runs
    ]
    keys: set[str] = set()
    by_name = False
    for (one, ours), (other, theirs) in combinations(zip(runs, places, strict=True), 2):
        if ours.isdisjoint(theirs):
            continue
        try:
            refuse_incomparable(one.variant, [other.variant], plan.rows)
        except RunConflict as error:  # its remedy is an option of another command
            raise RunConflict(error.message, error.remedy.replace("--over", "--rows")) from None
        if one.model == other.model:
            found = {
                part
                for key in changed(one.variant, other.variant)
                for part in _parts(key, one.variant, other.variant)
                if _setting(one.variant, part) != _setting(other.variant, part)
            }
            keys |= found
            by_name = by_name or not found
    return [
        {key: _setting(run.variant, key) for key in sorted(keys)}
        | ({"run": run.variant.name} if by_name else {})
        for run in runs
    ]


def _parts(key: str, one: Variant, other: Variant) -> list[str]:
    """Return a setting's own keys, if both runs have some of them and they tell the runs apart.

    Zero-shot runs have a number where others have a section: three shots differ from none in their
    number, whatever else the section says.
    """
    ours, theirs = (_section(key, run) for run in (one, other))
    parts = [part for part in ours if part in theirs and shown(ours[part]) != shown(theirs[part])]
    return parts or [key]


def _section(key: str, run: Variant) -> dict[str, Any]:
    found = run.settings.get(key)
    if isinstance(found, dict):
        return found
    return {f"{key}.n": found} if key == SHOTS and isinstance(found, int) else {}


def _setting(run: Variant, key: str) -> str:
    """Format a setting, or one of its own keys (``task.shots.n``)."""
    section = section_of(key)
    value = run.settings.get(key) if key == section else _section(section, run).get(key)
    return shown(value, f"{key}.")


def shown(value: Any, prefix: str = "") -> str:
    """Format a setting's value on one line, in YAML's style, without a prefix of its keys.

    >>> shown({"task.shots.n": 1, "task.shots.within": ["source"]}, "task.shots.")
    '{n: 1, within: [source]}'
    """
    if isinstance(value, dict):
        inner = [f"{key.removeprefix(prefix)}: {shown(each)}" for key, each in value.items()]
        return f"{{{', '.join(inner)}}}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(shown, value))}]"
    if isinstance(value, bool):
        return str(value).lower()
    return "null" if value is None else str(value)
