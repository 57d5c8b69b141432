"""Optional members of tasks for reports, such as the claims, figures and tables of papers."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, TypeVar, runtime_checkable

from harness.records import Instance

D = TypeVar("D")


@dataclass(frozen=True, slots=True)
class Claim:
    """A claim of a benchmark's paper that the variants of a run file can confirm or refute.

    ``test`` is the kind of claim:

    - ``more``: the group `more` of the label ``encoding`` scores higher than the group `less`.
    - ``rows_differ``: adding different fields to the baseline brings different gains.
    - ``groups_differ``: a variant's gain differs between groups of instances.
    """

    says: str  # in the paper's words
    source: str  # the paper and the section, figure or table
    test: Literal["more", "rows_differ", "groups_differ"]
    more: str = ""
    less: str = ""


@runtime_checkable
class Claiming(Protocol):
    """A task class whose paper makes claims.

    Both members must work on the class itself, so that tables can use them without creating a
    task. Instances must have the groups ``encoding`` (the parts of an instruction that the prompt
    contains) and ``examples`` (the number of examples shown).
    """

    @property
    def claims(self) -> tuple[Claim, ...]:
        """The claims that the paper makes, to be tested by ablations."""

    def fields(self, encoding: str) -> Mapping[str, str]:
        """Return the fields of an encoding: their full names, as in the paper, by short name."""


@dataclass(frozen=True, slots=True)
class Effect:
    """A figure in a benchmark's paper that compares groups of instances, arranged in levels."""

    name: str  # file name and title
    label: str  # the label whose groups are arranged in levels
    levels: Mapping[str, tuple[str, ...]]  # groups by the level's name; a group may be in no level
    source: str  # the paper and the section, figure or table


@runtime_checkable
class Pictured(Protocol):
    """A task class whose paper has figures that the report reproduces."""

    @property
    def effects(self) -> tuple[Effect, ...]:
        """The figures to draw."""


@runtime_checkable
class Explained(Protocol):
    """A task class whose groups have names that need an explanation."""

    @property
    def group_meanings(self) -> Mapping[str, Mapping[str, str]]:
        """The common property of the instances in each group, by label and group."""


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
"""The kinds of figure in a paper's table, which `TableFigure` explains."""


@dataclass(frozen=True, slots=True)
class TableFigure:
    """A column of figures in a paper's table. ``of`` is the kind of figure.

    - ``passed``: the pass rate, with unparseable answers failing.
    - ``answered``: the pass rate over answers that have the score `score`.
    - ``score``: the mean of `score`, weighted by the score `weight` if there is one.
    - ``partial``: as ``score``, with the verdict (1 or 0) for answers without the score.
    - ``ratio``: the sum of `score` over the sum of the score `per`.
    - ``macro_f1``: the mean F1 of the two classes named by the groups of `label`. `score` says
      whether the answer names the instance's class.
    - ``macro_f1_answered``: as ``macro_f1``, over answers that have the score.
    - ``consecutive``: the groups of `label` are levels, and the figure is the number of
      consecutive levels, from the lowest, that a cluster's answers pass.

    A figure with a `score` (except ``macro_f1``), a `label` or an `average` is shown only for runs
    that have these, which lets a task's modes share one table. For ``passed``, ``score``,
    ``partial`` and ``consecutive``, the groups of the label `average` count equally. Without an
    `average`, all answers count equally.
    """

    name: str  # in the paper (``Gen Acc``)
    of: FigureKind = "passed"
    score: str = ""
    label: str = ""
    weight: str = ""
    per: str = ""
    average: str = ""


@dataclass(frozen=True, slots=True)
class PaperTable:
    """A results table in the format of a benchmark's paper, for ``harness table``."""

    rows: str  # label whose groups are a model's rows; empty for one row
    columns: str  # label whose groups are a figure's columns; empty for one column
    figures: tuple[TableFigure, ...]  # in the paper's order
    source: str  # the paper and the section, figure or table


@runtime_checkable
class Tabled(Protocol):
    """A task class whose paper has a results table."""

    @property
    def table(self) -> PaperTable:
        """The table's rows, columns and figures."""


@dataclass(frozen=True, slots=True)
class DataTable:
    """A table about a data set, for ``harness data describe``."""

    columns: tuple[str, ...]  # the headings; the first column names the rows
    rows: Sequence[tuple[str | float | None, ...]]  # None where there is no value
    source: str = ""  # the paper and its table or figure


@runtime_checkable
class Described(Protocol):
    """A task that can describe its data set."""

    def describe(self) -> Iterator[DataTable]:
        """Yield tables about the data set, such as counts and lengths."""


@runtime_checkable
class Rowed(Protocol):
    """A task whose instances are rows of a user's file, with fields that the user has chosen."""

    def row_fields(self) -> Iterator[tuple[str, Mapping[str, object]]]:
        """Yield each instance's id and the fields of its row, for exported tables."""


@runtime_checkable
class Extracting(Protocol[D]):
    """A task that scores a part of a reply, such as its last number or its first code block."""

    def extracted(self, instance: Instance[D], text: str) -> str | None:
        """Return the part of a reply that is scored, for reports. Must be a pure function.

        The result is None if the whole reply is scored, or if it has no such part.
        """
