"""What a task has to offer, and what it may offer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, TypeVar, runtime_checkable

from harness.records import ConstraintKind, Criterion, DecodingConstraint, Instance, Message, Score

D = TypeVar("D")


@runtime_checkable
class Task(Protocol[D]):
    """One benchmark: its instances, prompts and scoring."""

    @property
    def on_truncated(self) -> Literal["fail", "grade"]:
        """Whether an answer cut off at ``max_tokens`` fails or is graded."""
        ...

    def instances(self) -> Iterator[Instance[D]]:
        """Yield the instances lazily, in the data set's order; ids are unique."""
        ...

    def fingerprint(self) -> Mapping[str, str]:
        """Everything that scores depend on (data hash, tokeniser, prompts), for the manifest."""
        ...

    def messages(self, instance: Instance[D], shots: Sequence[Instance[D]]) -> tuple[Message, ...]:
        """Build the conversation of round 1.

        Args:
            instance: The instance to ask about.
            shots: Other instances, to be shown with their reference answers in the task's own
                format. Empty unless the run file has ``shots: {form: task}``.
        """
        ...

    def score(self, instance: Instance[D], text: str) -> Mapping[str, Score]:
        """Score one answer; a pure function of its arguments.

        Raises:
            harness.errors.Unparseable: The answer cannot be read. Its ``scores`` may say why.
        """
        ...

    def feedback(self, instance: Instance[D], text: str, scores: Mapping[str, Score]) -> str:
        """Return what the user's next turn says about this answer."""
        ...

    def reference(self, instance: Instance[D]) -> str | None:
        """Return an answer that passes, or None where none is known."""
        ...


@runtime_checkable
class ScoresNoAnswer(Protocol[D]):
    """A task that reports scores for answers that there is nothing to grade in."""

    def score_of_no_answer(self, instance: Instance[D]) -> Mapping[str, Score]:
        """Return the scores of an empty, refused, unparseable or ungraded truncated answer.

        The answer fails whatever these say. Without them it would be missing from the means,
        and a model that refuses the hard instances would look good.
        """
        ...


@runtime_checkable
class Measured(ScoresNoAnswer[D], Protocol[D]):
    """A task whose primary metric is a score instead of the pass rate."""

    @property
    def measure(self) -> str:
        """The name of that score, for the headline of tables."""
        ...


@runtime_checkable
class Paraphrasable(Protocol[D]):
    """A task whose instructions and feedback a second model may paraphrase."""

    def must_keep(self, instance: Instance[D]) -> Sequence[str]:
        """Return the values that a paraphrase must contain, as they are written."""
        ...


@runtime_checkable
class LeakAware(Protocol[D]):
    """A task that can tell when a few-shot example gives an instance's answer away."""

    def leaks(self, instance: Instance[D], shot: Instance[D]) -> bool:
        """Return whether the shot's reference answer would also be right for the instance."""
        ...


@runtime_checkable
class Fallible(Protocol[D]):
    """A task that knows plausible wrong answers, which make simulated runs realistic."""

    def wrong_answer(self, instance: Instance[D]) -> str | None:
        """Return an answer that a model might give and that fails, or None if none is known."""
        ...


@runtime_checkable
class Constraining(Protocol[D]):
    """A task that knows the format of its answers, for ``decoding: {constraint: task}``."""

    @property
    def constraint_kind(self) -> ConstraintKind:
        """The kind of its constraints, checked against the backend before any call."""
        ...

    def constraint(self, instance: Instance[D]) -> DecodingConstraint:
        """Return what decoding is constrained to for an instance."""
        ...


@runtime_checkable
class Parsed(Protocol[D]):
    """A task that can score a final answer which a judge has extracted from a text."""

    def score_parsed(self, instance: Instance[D], answer: str) -> Mapping[str, Score]:
        """Score an extracted answer; a pure function.

        Args:
            instance: The instance that was answered.
            answer: The extracted answer, empty if the text gives none.

        Returns:
            Scores without a verdict (``passed`` None): the task's own parser decides.

        Raises:
            harness.errors.Unparseable: This cannot be a final answer.
        """
        ...


@runtime_checkable
class Judged(Protocol[D]):
    """A task whose instances list the criteria that judges decide on."""

    def instruction(self, instance: Instance[D]) -> str:
        """Return the instruction that the model was given, as a judge should read it."""
        ...

    def criteria(self, instance: Instance[D]) -> Sequence[Criterion]:
        """Return the criteria that an answer has to satisfy independently; at least one."""
        ...


@runtime_checkable
class JudgeRouting(Protocol[D]):
    """A task whose instances choose which judges of the run score them."""

    def judged_by(self, instance: Instance[D], judge: str) -> bool:
        """Return whether a judge, given by its name in the run, scores an instance's answers."""
        ...

    def for_judge(self, judge: str) -> Task[D]:
        """Return the task as one judge sees it: with the criteria that this judge decides on."""
        ...


@runtime_checkable
class PromptChecked(Protocol):
    """A task that can check whether its prompts ask for what its parser reads."""

    def prompt_errors(self) -> list[str]:
        """Return what the prompts lack; empty if they match the parser."""
        ...


@dataclass(frozen=True, slots=True)
class Claim:
    """A claim of a benchmark's paper that the variants of a run file can confirm or refute.

    Attributes:
        says: The claim in the paper's words.
        source: The paper and the place in it.
        test: ``more``: the encoding `more` scores higher than `less`. ``rows_differ``: the
            fields added to the baseline differ in what they gain. ``groups_differ``: what a
            variant gains differs between groups.
        more: A group of the label ``encoding``.
        less: A group of the label ``encoding``.
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
        ...

    def fields(self, encoding: str) -> Mapping[str, str]:
        """Return the fields of an encoding, each with the form it has there."""
        ...


@dataclass(frozen=True, slots=True)
class Effect:
    """A grouping of a benchmark's groups that its paper draws a picture of.

    Attributes:
        name: The picture's file name and title.
        label: The label whose groups are arranged.
        levels: The levels of the effect (``first``, ``last``), each with its groups; a group may
            be in none.
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
        ...


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
        ...
