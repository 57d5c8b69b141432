"""What a task says about its paper: claims, pictures and tables that the harness reproduces."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, Protocol, runtime_checkable


@dataclass(frozen=True, slots=True)
class Claim:
    """A claim of a benchmark's paper that the variants of a run file can confirm or refute.

    Attributes:
        says: The claim in the paper's words.
        source: The paper and the place in it.
        test: ``more``: the encoding `more` scores higher than `less`, both groups of the label
            ``encoding``. ``rows_differ``: the fields added to the baseline differ in what they
            gain. ``groups_differ``: what a variant gains differs between groups.
    """

    says: str
    source: str
    test: Literal["more", "rows_differ", "groups_differ"]
    more: str = ""
    less: str = ""


@runtime_checkable
class Claiming(Protocol):
    """A task class whose paper makes claims.

    Both members belong to the class, so that a table needs no task to be built. Instances have
    the groups ``encoding`` (which parts of an instruction the prompt holds) and ``examples``
    (how many it shows).
    """

    @property
    def claims(self) -> tuple[Claim, ...]:
        """The paper's claims."""

    def fields(self, encoding: str) -> Mapping[str, str]:
        """Return the fields of an encoding, each with the form it has there."""


@dataclass(frozen=True, slots=True)
class Effect:
    """A grouping of a benchmark's groups that its paper draws a picture of.

    Attributes:
        name: The picture's file name and title.
        label: The label whose groups are arranged.
        levels: Levels (``first``, ``last``), each with its groups; a group may be in none.
        source: The paper and the place in it.
    """

    name: str
    label: str
    levels: Mapping[str, tuple[str, ...]]
    source: str


@runtime_checkable
class Pictured(Protocol):
    """A task class whose paper has pictures that the report redraws."""

    @property
    def effects(self) -> tuple[Effect, ...]:
        """The effects to draw."""


@dataclass(frozen=True, slots=True)
class TableFigure:
    """A column of figures in a paper's table.

    Attributes:
        name: The figure's name in the paper (``Gen Acc``).
        of: ``passed``: the pass rate, with unparseable answers failing. ``answered``: the pass
            rate over the answers that have the score `score`. ``score``: the mean of `score`.
            ``macro_f1``: the mean F1 of the two classes that the groups of `label` name.
        score: For ``macro_f1``, whether the answer is right about its instance's class. A run
            without this score has no ``answered`` and no ``score``; if it is named, a run
            without it has no ``passed`` either, so that a task's modes can share one table.
        label: For ``macro_f1``, the instance's right class. A run without this label has no
            such figure, whatever ``of`` is.
    """

    name: str
    of: Literal["passed", "answered", "score", "macro_f1"] = "passed"
    score: str = ""
    label: str = ""


@dataclass(frozen=True, slots=True)
class PaperTable:
    """A results table as a benchmark's paper prints it, for ``harness table``.

    Attributes:
        rows: The label whose groups are a model's rows; empty for one row.
        columns: The label whose groups are a figure's columns; empty for one column.
        figures: The figures in the paper's order.
        source: The paper and the place in it.
    """

    rows: str
    columns: str
    figures: tuple[TableFigure, ...]
    source: str


@runtime_checkable
class Tabled(Protocol):
    """A task class whose paper has such a table."""

    @property
    def table(self) -> PaperTable:
        """The table's rows, columns and figures."""
