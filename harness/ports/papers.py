"""What a task may tell of its paper, by its class: claims, pictures, tables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, Protocol


@dataclass(frozen=True, slots=True)
class Claim:
    """What a benchmark's paper says that the variants of a run file can show.

    says: in the paper's words.
    source: the paper, and where in it.
    test: ``more``: the encoding `more` scores more than `less`; ``rows_differ``:
        the fields that are added to the baseline differ in what they gain;
        ``groups_differ``: what a variant gains differs between groups.
    more, less: groups of the label ``encoding``.
    """

    says: str
    source: str
    test: Literal["more", "rows_differ", "groups_differ"]
    more: str = ""
    less: str = ""


class Claiming(Protocol):
    """A task whose paper makes claims. Both are the class's: no task is built for a table.

    Its instances have the groups ``encoding`` (what of an instruction the prompt
    holds) and ``examples`` (how many it shows).
    """

    @property
    def claims(self) -> tuple[Claim, ...]:
        """What the paper says."""
        ...

    def fields(self, encoding: str) -> Mapping[str, str]:
        """The fields that an encoding has, each with the form it has there."""
        ...


@dataclass(frozen=True, slots=True)
class Effect:
    """What a benchmark's groups differ in that its paper draws a picture of.

    name: for the picture's file and title.
    label: whose groups it arranges.
    levels: what they differ in (``first``, ``last``), each with the groups that have it;
        a group may be in none.
    source: the paper, and where in it.
    """

    name: str
    label: str
    levels: Mapping[str, tuple[str, ...]]
    source: str


class Pictured(Protocol):
    """A task whose paper has pictures of its own, for the report. The class's, as of `Claiming`."""

    @property
    def effects(self) -> tuple[Effect, ...]:
        """What is arranged, and how."""
        ...


@dataclass(frozen=True, slots=True)
class TableFigure:
    """A figure in a paper's table.

    name: as the paper has it (``Gen Acc``).
    of: ``passed``: the pass rate, where an answer that cannot be read fails; ``answered``:
        the pass rate over the answers that have the score `score` alone; ``score``: the mean
        of the score `score`; ``macro_f1``: the mean of the F1 of the two classes that the
        groups of the label `label` name.
    score: of ``macro_f1`` whether the answer is right about its instance's class. A run
        without that score has no ``answered`` and no ``score``; with it named, no ``passed``:
        so the figures of a task with several modes can stand in one table.
    label: of ``macro_f1`` the instance's right class; a run without that label has no such
        figure, whichever kind it is.
    """

    name: str
    of: Literal["passed", "answered", "score", "macro_f1"] = "passed"
    score: str = ""
    label: str = ""


@dataclass(frozen=True, slots=True)
class PaperTable:
    """A results table as a benchmark's paper has it, for ``harness table``.

    rows: the label whose groups are the rows of a model; empty for one row.
    columns: the label whose groups are a figure's columns; empty for one column.
    figures: in the paper's order.
    source: the paper, and where in it.
    """

    rows: str
    columns: str
    figures: tuple[TableFigure, ...]
    source: str


class Tabled(Protocol):
    """A task whose paper has such a table. The class's, as of `Claiming`."""

    @property
    def table(self) -> PaperTable:
        """Its rows, columns and figures."""
        ...
