"""What a task declares about its paper: claims, figures and tables that the harness reproduces."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, runtime_checkable


@dataclass(frozen=True, slots=True)
class Claim:
    """A claim of a benchmark's paper that a run file's variants can confirm or refute.

    Attributes:
        says: The claim in the paper's words.
        source: The paper and the section, figure or table.
        test: ``more``: the group `more` of the label ``encoding`` scores higher than the group
            `less`. ``rows_differ``: fields added to the baseline differ in their gains.
            ``groups_differ``: a variant's gain differs between groups.
    """

    says: str
    source: str
    test: Literal["more", "rows_differ", "groups_differ"]
    more: str = ""
    less: str = ""


@runtime_checkable
class Claiming(Protocol):
    """A task class whose paper makes claims.

    Both members belong to the class, so that tables do not need to build the task. Instances have
    the groups ``encoding`` (the parts of an instruction in the prompt) and ``examples`` (the number
    of examples shown).
    """

    @property
    def claims(self) -> tuple[Claim, ...]:
        """The paper's claims."""

    def fields(self, encoding: str) -> Mapping[str, str]:
        """Return the full names of an encoding's fields, as in the paper, by short name."""


@dataclass(frozen=True, slots=True)
class Effect:
    """A figure of a benchmark's paper that compares levels, each made of several groups.

    Attributes:
        name: File name and title of the figure.
        label: The label whose groups are arranged in levels.
        levels: Levels (``first``, ``last``), each with its groups; a group may be in none.
        source: The paper and the section, figure or table.
    """

    name: str
    label: str
    levels: Mapping[str, tuple[str, ...]]
    source: str


@runtime_checkable
class Pictured(Protocol):
    """A task class whose paper has figures that the report reproduces."""

    @property
    def effects(self) -> tuple[Effect, ...]:
        """The figures to draw."""


FigureKind = Literal[
    "passed",
    "answered",
    "score",
    "partial",
    "ratio",
    "macro_f1",
    "macro_f1_answered",
    "consecutive",
]
"""What a table's figure is computed of; `TableFigure` describes them."""


@dataclass(frozen=True, slots=True)
class TableFigure:
    """A column of figures in a paper's table.

    Attributes:
        name: The figure's name in the paper (``Gen Acc``).
        of: ``passed``: the pass rate, with unparseable answers failing. ``answered``: the pass rate
            over answers that have the score `score`. ``score``: the mean of `score`. ``partial``:
            the same, with the verdict (1 or 0) for answers without the score. ``ratio``: the sum of
            `score` over the sum of `per`. ``macro_f1``: the mean F1 of the two classes named by the
            groups of `label`; ``macro_f1_answered``: the same, over answers that have the score.
            ``consecutive``: how many groups of `label`, which are levels, a cluster's answers pass
            from the first on.
        score: Name of a score. For ``macro_f1`` it says whether the answer names the instance's
            class. Any other figure with a score is shown only for runs that have this score, so
            that a task's modes can share one table.
        label: Label of the instance's correct class (``macro_f1``) or level (``consecutive``). Runs
            without it do not have the figure, whatever ``of`` is.
        weight: For ``score``: name of the score by which the mean is weighted, such as an answer's
            number of instructions; empty if all answers weigh the same.
        per: Name of the score below the line, for ``ratio``.
        average: Label whose groups count equally, for ``passed``, ``score``, ``partial`` and
            ``consecutive``; empty if all answers do.
    """

    name: str
    of: FigureKind = "passed"
    score: str = ""
    label: str = ""
    weight: str = ""
    per: str = ""
    average: str = ""


@dataclass(frozen=True, slots=True)
class PaperTable:
    """A results table as a benchmark's paper prints it, for ``harness table``.

    Attributes:
        rows: Label whose groups are a model's rows; empty for one row.
        columns: Label whose groups are a figure's columns; empty for one column.
        figures: The figures in the paper's order.
        source: The paper and the section, figure or table.
    """

    rows: str
    columns: str
    figures: tuple[TableFigure, ...]
    source: str


@runtime_checkable
class Tabled(Protocol):
    """A task class whose paper has a results table."""

    @property
    def table(self) -> PaperTable:
        """The table's rows, columns and figures."""


@dataclass(frozen=True, slots=True)
class DataTable:
    """A table about a data set, for ``harness data describe``.

    Attributes:
        columns: The headings; the first column names the rows.
        rows: Texts and numbers; None where there is no value.
        source: The paper and its corresponding table or figure; empty if there is none.
    """

    columns: tuple[str, ...]
    rows: Sequence[tuple[str | float | None, ...]]
    source: str = ""


@runtime_checkable
class Described(Protocol):
    """A task that can describe its data set."""

    def describe(self) -> Iterator[DataTable]:
        """Yield tables about the data set, such as counts and lengths."""
