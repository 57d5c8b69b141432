"""The layout of a results table: its figures, the labels of its rows and columns, its row names.

By default the figures and labels are those of the table in the task's paper; if it has none, the
figure is the task's primary metric. A label that a run lacks is refused.

One rule names the rows: a setting is shown if two runs of one model that differ in it would
otherwise fill the same cell. So runs of two tasks, or of two output formats, share a row, since
they fill different cells; runs with no and with five examples do not. Runs that would fill the
same cell with the same settings are told apart by their names.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from msgspec import Struct, structs

from harness.analysis.breakdown import Key, macro_f1, means, rates
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
from harness.analysis.summary import are_fractions
from harness.errors import ConfigError, RunConflict, nearest
from harness.ports import PaperTable, TableFigure
from harness.store.columns import AttemptTable

SHOTS = "task.shots"

Place = tuple[str, str, str, str | None]
"""Task, figure, group of the rows, group of the columns (None over all of them)."""


class TableOptions(Struct, frozen=True, kw_only=True):
    """What a table shows; None and empty values mean the task's own table.

    Attributes:
        rows: Label of the rows beside the model; an empty string for one row per model.
        columns: Label whose groups are columns; an empty string for one column per figure.
        scores: Names of scores, `PASS_RATE`, or figures of the task's own table.
        round: Use each sample's last round up to this one; None for its last round.
    """

    rows: str | None = None
    columns: str | None = None
    scores: list[str] = []
    round: int | None = None


@dataclass(frozen=True, slots=True)
class Layout:
    """What a table shows.

    Attributes:
        figures: Each task's figures, in order.
        rows, columns: Labels, empty for none.
        sources: The papers that define the figures.
    """

    figures: Mapping[str, tuple[TableFigure, ...]]
    rows: str
    columns: str
    sources: list[str]


def layout(runs: Sequence[Run], tables: Mapping[str, PaperTable], options: TableOptions) -> Layout:
    """Resolve the requested figures and labels, defaulting to those of the tasks' own tables.

    Args:
        runs: The runs of the table.
        tables: The table of each task's paper, if it has one.
        options: What the user asks for.

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
            f"{subject} has no table of its own: which label are the rows?",
            f"Name it with --rows: {', '.join(known)}." if known else "--rows '' is one per model.",
        )
    columns = _label(runs, options.columns, [t.columns for t in own.values()], "--columns")
    if rows and rows == columns:
        raise ConfigError(
            f"--columns: {rows!r} is the label of the rows.", "Name another label, or '' for none."
        )
    figures = {v.metrics.task: _figures(v, own.get(v.metrics.task), options) for v, _ in runs}
    for variant, table in runs:
        wanted = figures[variant.metrics.task]
        if not any(applies(figure, table) for figure in wanted):
            names = " or ".join(repr(figure.score or figure.name) for figure in wanted)
            raise ConfigError(
                f"The run {variant.name!r} has no score {names}.",
                nearest(wanted[0].score, [PASS_RATE, *table.scores]),
            )
    taken = {figure for found in figures.values() for figure in found}
    sources = [table.source for table in own.values() if taken & set(table.figures)]
    return Layout(figures, rows, columns or "", list(dict.fromkeys(sources)))


def _label(
    runs: Sequence[Run], wanted: str | None, declared: Sequence[str], option: str
) -> str | None:
    """Return the requested or declared label, or None if there is neither."""
    label = wanted
    if label is None:
        different = list(dict.fromkeys(declared))
        if len(different) > 1:
            raise ConfigError(
                f"The tasks' tables have different {option.strip('-')}: {', '.join(different)}.",
                f"Name one with {option}.",
            )
        label = different[0] if different else None
    if label:
        names = [variant.name for variant, _ in runs]
        refuse_unknown_label(option, label, [table for _, table in runs], names)
    return label


def _figures(
    variant: Variant, table: PaperTable | None, options: TableOptions
) -> tuple[TableFigure, ...]:
    own = table.figures if table else ()
    if own and not options.scores:
        return own
    named = {figure.name: figure for figure in own}
    named.setdefault(PASS_RATE, TableFigure("pass rate"))
    scores = options.scores or [variant.metrics.measure or PASS_RATE]
    figures = (named.get(score) or TableFigure(score, "score", score) for score in scores)
    return tuple(dict.fromkeys(figures))


def applies(figure: TableFigure, table: AttemptTable) -> bool:
    """Return whether a run has a figure (`harness.ports.TableFigure` says when)."""
    if figure.label and figure.label not in table.labels():
        return False
    # A macro-F1 is defined even if no answer has the score: all of them are misses.
    return figure.of == "macro_f1" or not figure.score or figure.score in table.scores


def values(samples: AttemptTable, figure: TableFigure, *labels: str) -> dict[Key, SampleStatistic]:
    """Return a figure of each group, sorted; without labels, of all samples under ``()``.

    Args:
        samples: One row for each sample, of a run that has the figure.
        figure: The figure.
        labels: A sample is in a group if its instance has a group of each label.

    Raises:
        ConfigError: The classes of a macro-F1 are not two.
    """
    if figure.of == "macro_f1":
        return macro_f1(samples, figure.score, figure.label, *labels)
    passed = rates(samples, *labels)
    if figure.of == "passed":
        return passed
    if figure.of == "answered":
        found = rates(samples.take(samples.measured(figure.score)), *labels)
    else:
        found = means(samples, figure.score, *labels)
    nothing = SampleStatistic(mean=None, stderr=None, ci95=None, n=0, n_clusters=0)

    def with_missing(one: SampleStatistic, whole: SampleStatistic) -> SampleStatistic:
        return structs.replace(one, missing=whole.n + whole.missing - one.n)

    return {key: with_missing(found.get(key, nothing), whole) for key, whole in passed.items()}


def is_fraction(samples: AttemptTable, figure: TableFigure) -> bool:
    """Return whether a figure's values are between 0 and 1, so that it can be shown in per cent."""
    return figure.of != "score" or are_fractions(samples, figure.score)


@dataclass(frozen=True, slots=True)
class FilledRun:
    """A run with its cells.

    Attributes:
        cells: Statistic by place.
        places: The places of single columns, or all if the table has one column per figure.
        fractions: For each figure, whether all of its values are between 0 and 1.
        outside: Samples without a group of the rows' label.
    """

    variant: Variant
    cells: Mapping[Place, SampleStatistic]
    places: frozenset[Place]
    fractions: Mapping[str, bool]
    outside: int

    @property
    def model(self) -> str:
        """The name of its rows: the model's, else the backend's."""
        return self.variant.metrics.model or str(self.variant.settings.get("model.backend") or "?")


def fill(variant: Variant, table: AttemptTable, plan: Layout, round_: int | None) -> FilledRun:
    """Compute a run's cells, by column and over all columns."""
    reached = table if round_ is None else table.take(table.round <= round_)
    samples, task = reached.last_rounds(), variant.metrics.task
    rows = (plan.rows,) if plan.rows else ()
    cells: dict[Place, SampleStatistic] = {}
    fractions = {}
    outside = 0
    for figure in plan.figures[task]:
        if not applies(figure, table):
            continue
        over_all = values(samples, figure, *rows)
        outside = len(samples) - sum(cell.n + cell.missing for cell in over_all.values())
        for key, cell in over_all.items():
            cells[task, figure.name, "".join(key), None] = cell
        if plan.columns:
            for key, cell in values(samples, figure, *rows, plan.columns).items():
                cells[task, figure.name, "".join(key[:-1]), key[-1]] = cell
        fractions[figure.name] = is_fraction(samples, figure)
    places = frozenset(place for place in cells if place[-1] is not None or not plan.columns)
    return FilledRun(variant, cells, places, fractions, outside)


@dataclass(frozen=True, slots=True)
class RowSettings:
    """What names a row beside the model: settings, sorted, and perhaps the run's name."""

    settings: tuple[str, ...]
    runs: bool

    def of(self, run: FilledRun) -> dict[str, str]:
        """Return the settings of a run's rows."""
        named = {key: shown(_value(run.variant, key), f"{key}.") for key in self.settings}
        return named | ({"run": run.variant.name} if self.runs else {})


def row_settings(runs: Sequence[FilledRun]) -> RowSettings:
    """Find the settings that must be shown so that no two runs fill one cell."""
    keys: set[str] = set()
    by_name = False
    for one, other in combinations(runs, 2):
        if one.model == other.model and not one.places.isdisjoint(other.places):
            differing = {
                part
                for key in changed(one.variant, other.variant)
                for part in _parts(key, one.variant, other.variant)
                if shown(_value(one.variant, part)) != shown(_value(other.variant, part))
            }
            keys |= differing
            by_name = by_name or not differing
    return RowSettings(tuple(sorted(keys)), by_name)


def _parts(key: str, one: Variant, other: Variant) -> list[str]:
    """Return a setting's own keys, if both runs have some of them and they tell the runs apart.

    Zero-shot runs have a number where others have a section: three shots differ from none in their
    number, whatever else the section says.
    """
    ours, theirs = (_section(key, run) for run in (one, other))
    parts = [part for part in ours if part in theirs and shown(ours[part]) != shown(theirs[part])]
    return sorted(parts) or [key]


def _section(key: str, run: Variant) -> dict[str, Any]:
    found = run.settings.get(key)
    if isinstance(found, dict):
        return found
    return {f"{key}.n": found} if key == SHOTS and isinstance(found, int) else {}


def _value(run: Variant, key: str) -> Any:
    """Return a setting, or one of its own keys (``task.shots.n``)."""
    section = section_of(key)
    return run.settings.get(key) if key == section else _section(section, run).get(key)


def refuse_other_data(runs: Sequence[FilledRun], rows: str) -> None:
    """Refuse to show figures of the same group of the same task side by side if the data differ.

    Raises:
        RunConflict: Naming two runs.
    """
    for one, other in combinations(runs, 2):
        if not one.places.isdisjoint(other.places):
            try:
                refuse_incomparable(one.variant, [other.variant], rows)
            except RunConflict as error:  # its remedy is an option of another command
                remedy = error.remedy.replace("--over", "--rows")
                raise RunConflict(error.message, remedy) from None


def shown(value: Any, prefix: str = "") -> str:
    """Format a setting's value on one line, in YAML's style.

    Args:
        value: The value.
        prefix: A prefix of its keys that is left out.

    >>> shown({"task.shots.n": 1, "task.shots.within": ["source"]}, "task.shots.")
    '{n: 1, within: [source]}'
    """
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dict):
        inner = [f"{key.removeprefix(prefix)}: {shown(each)}" for key, each in value.items()]
        return f"{{{', '.join(inner)}}}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(shown, value))}]"
    return str(value)
