"""The cells that one run fills of a results table, each with how sure it is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from msgspec import Struct

from harness.analysis.breakdown import Part
from harness.analysis.comparable import Variant
from harness.analysis.table_figures import Chosen, applies, is_fraction, values
from harness.analysis.table_rows import Filling, Place
from harness.store.columns import AttemptTable


class Cell(Struct, frozen=True, kw_only=True):
    """A figure of a run's group, as `harness.analysis.breakdown.Part` has it.

    value: null where it cannot be said.
    n: samples it is of.
    not_measured: samples without a value.
    """

    value: float | None
    stderr: float | None
    ci95: tuple[float, float] | None
    n: int
    n_clusters: int
    not_measured: int


@dataclass(frozen=True, slots=True)
class Filled:
    """A run with its cells.

    fractions: figure to whether all of its values are between 0 and 1.
    outside: samples in no group of the rows' label.
    """

    filling: Filling
    cells: Mapping[Place, Cell]
    fractions: Mapping[str, bool]
    outside: int


def fill(variant: Variant, table: AttemptTable, choice: Chosen, round_: int | None) -> Filled:
    """The cells of a run's rows, and those over all columns; of the figures that it has."""
    reached = table if round_ is None else table.take(table.round <= round_)
    samples, task = reached.last_rounds(), variant.metrics.task
    rows = (choice.rows,) if choice.rows else ()
    cells: dict[Place, Cell] = {}
    fractions = {}
    outside = 0
    for figure in choice.figures[task]:
        if not applies(figure, table):
            continue
        over_all = values(samples, figure, *rows)
        outside = len(samples) - sum(part.n + part.without for part in over_all.values())
        for key, part in over_all.items():
            cells[task, figure.name, "".join(key), None] = _cell(part)
        each = values(samples, figure, *rows, choice.columns) if choice.columns else {}
        for key, part in each.items():
            cells[task, figure.name, "".join(key[:-1]), key[-1]] = _cell(part)
        fractions[figure.name] = is_fraction(samples, figure)
    inner = {place for place in cells if place[-1] is not None or not choice.columns}
    return Filled(Filling(variant, frozenset(inner)), cells, fractions, outside)


def _cell(part: Part) -> Cell:
    return Cell(
        value=part.mean,
        stderr=part.stderr,
        ci95=part.ci95,
        n=part.n,
        n_clusters=part.n_clusters,
        not_measured=part.without,
    )
