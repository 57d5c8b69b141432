"""What stands in a results table: its figures, and the labels of its rows and columns.

Owns what is taken where nothing is said: the table of the task's paper, else what the task
is measured by. A label that the runs lack is refused, and those that they have are named.

>>> chosen(runs, {"concodeeval": TABLE}, TableAsked()).rows  # doctest: +SKIP
'representation'
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from msgspec import Struct

from harness.analysis.breakdown import Key, Part, means, rates
from harness.analysis.comparable import Variant
from harness.analysis.macro_f1 import macro_f1
from harness.analysis.question import PASS_RATE
from harness.errors import ConfigError, nearest
from harness.ports import PaperTable, TableFigure
from harness.store.columns import AttemptTable

Run = tuple[Variant, AttemptTable]


class TableAsked(Struct, frozen=True, kw_only=True):
    """What is asked of a table; None and nothing for what the task's own table has.

    rows: label of the rows beside the model; empty for one row.
    columns: label whose groups are columns; empty for one column per figure.
    scores: names of scores, `PASS_RATE`, or figures of the task's own table.
    round: each sample's last one up to it counts; None for the last.
    """

    rows: str | None = None
    columns: str | None = None
    scores: list[str] = []
    round: int | None = None


@dataclass(frozen=True, slots=True)
class Chosen:
    """What the table has.

    figures: of each task, in order.
    rows, columns: labels, empty for none.
    sources: of the papers whose figures these are.
    """

    figures: Mapping[str, tuple[TableFigure, ...]]
    rows: str
    columns: str
    sources: list[str]


def chosen(runs: Sequence[Run], tables: Mapping[str, PaperTable], asked: TableAsked) -> Chosen:
    """The figures and labels that are asked for, else those of the tasks' tables.

    tables: task to its paper's table, where it has one.

    Raises: ConfigError.
    """
    own = {v.metrics.task: tables[v.metrics.task] for v, _ in runs if v.metrics.task in tables}
    rows = _label(runs, asked.rows, [table.rows for table in own.values()], "--rows")
    if rows is None:
        known = dict.fromkeys(label for _, table in runs for label in table.labels())
        raise ConfigError(
            f"{_tasks(runs)} has no table of its own: which label has the rows?",
            f"Name it with --rows: {', '.join(known)}." if known else "--rows '' is one per model.",
        )
    columns = _label(runs, asked.columns, [table.columns for table in own.values()], "--columns")
    if rows and rows == columns:
        raise ConfigError(
            f"--columns: {rows!r} has the rows already.", "Name another label, or '' for none."
        )
    figures = {v.metrics.task: _figures(v, own.get(v.metrics.task), asked) for v, _ in runs}
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
    return Chosen(figures, rows, columns or "", list(dict.fromkeys(sources)))


def applies(figure: TableFigure, table: AttemptTable) -> bool:
    """Whether a run has a figure at all (`harness.ports.TableFigure` says when)."""
    if figure.label and figure.label not in table.labels():
        return False
    # That no answer has the score of a macro-F1 is no reason: all of them are misses.
    return figure.of == "macro_f1" or not figure.score or figure.score in table.scores


def values(samples: AttemptTable, figure: TableFigure, *labels: str) -> dict[Key, Part]:
    """A figure of each group, sorted; of all samples under ``()`` where no label is given.

    samples: one row for each, of a run that has the figure.

    Raises: ConfigError where the classes of a macro-F1 are not two.
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
    nothing = Part(None, None, None, 0, 0, 0)
    whole = {key: part.n + part.without for key, part in passed.items()}
    of_group = {key: found.get(key, nothing) for key in whole}
    return {key: replace(part, without=whole[key] - part.n) for key, part in of_group.items()}


def is_fraction(samples: AttemptTable, figure: TableFigure) -> bool:
    """Whether a figure is of values between 0 and 1, and so can be told in per cent."""
    if figure.of != "score":
        return True
    known = samples.scores[figure.score][samples.measured(figure.score)]
    return bool(np.all((known >= 0) & (known <= 1)))


def _label(
    runs: Sequence[Run], wanted: str | None, declared: Sequence[str], option: str
) -> str | None:
    """The label that is asked for or declared; None where neither."""
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
        for variant, table in runs:
            labels = table.labels()
            if label not in labels:
                raise ConfigError(
                    f"{option}: the run {variant.name!r} has no label {label!r}.",
                    nearest(label, labels),
                )
    return label


def _figures(
    variant: Variant, table: PaperTable | None, asked: TableAsked
) -> tuple[TableFigure, ...]:
    own = table.figures if table else ()
    if own and not asked.scores:
        return own
    named = {figure.name: figure for figure in own}
    scores = asked.scores or [variant.metrics.measure or PASS_RATE]
    return tuple(dict.fromkeys(named.get(score) or _figure(score) for score in scores))


def _figure(score: str) -> TableFigure:
    if score == PASS_RATE:
        return TableFigure("pass rate")
    return TableFigure(score, "score", score)


def _tasks(runs: Sequence[Run]) -> str:
    names = list(dict.fromkeys(variant.metrics.task for variant, _ in runs))
    return f"The task {names[0]!r}" if len(names) == 1 else "None of the tasks"
