"""What a task must offer, and what it may know beside."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Literal, Protocol, TypeVar

from harness.records import ConstraintKind, Criterion, DecodingConstraint, Instance, Message, Score

D = TypeVar("D")


class Task(Protocol[D]):
    """One benchmark: its instances, prompts and scoring."""

    @property
    def on_truncated(self) -> Literal["fail", "grade"]:
        """What becomes of an answer that ran into max_tokens."""
        ...

    def instances(self) -> Iterator[Instance[D]]:
        """The instances, lazily, in the data set's order; ids are unique."""
        ...

    def fingerprint(self) -> Mapping[str, str]:
        """What the task's scores depend on (data hash, tokeniser, prompts): for the manifest."""
        ...

    def messages(self, instance: Instance[D], shots: Sequence[Instance[D]]) -> tuple[Message, ...]:
        """The conversation of round 1.

        shots: other instances, shown with their gold answers in the task's own way;
            empty but for ``shots: {form: task}``.
        """
        ...

    def score(self, instance: Instance[D], text: str) -> Mapping[str, Score]:
        """Score one answer: a pure function of its arguments.

        Raises: `harness.errors.Unparseable` where the answer cannot be read.
            Its ``scores`` may tell why, in numbers.
        """
        ...

    def feedback(self, instance: Instance[D], text: str, scores: Mapping[str, Score]) -> str:
        """What the user's next turn says about this answer."""
        ...

    def gold(self, instance: Instance[D]) -> str | None:
        """An answer that passes, None where none is known."""
        ...


class Polishable(Protocol[D]):
    """A task whose instruction and feedback a second model may rewrite."""

    def kept(self, instance: Instance[D]) -> Sequence[str]:
        """The values that a rewriting must keep, as they are written."""
        ...


class Guarded(Protocol[D]):
    """A task that knows more of leaks than that a shot must not have the instance's prompt."""

    def gives_away(self, instance: Instance[D], shot: Instance[D]) -> bool:
        """Whether the shot's gold answer would be a right one to the instance."""
        ...


class Erring(Protocol[D]):
    """A task that knows how its answers go wrong, so that simulated runs are like real ones."""

    def wrong(self, instance: Instance[D]) -> str | None:
        """An answer that does not pass, as a model might give it; None where none is known."""
        ...


class Constraining(Protocol[D]):
    """A task that knows what form its answers have: for ``decoding: {constraint: task}``."""

    @property
    def constraint_kind(self) -> ConstraintKind:
        """Which kind its constraints are, to be refused before any work where they must be."""
        ...

    def constraint(self, instance: Instance[D]) -> DecodingConstraint:
        """What the decoder may write in answer to an instance."""
        ...


class Measured(Protocol[D]):
    """A task that is measured by a score and not by how often answers pass."""

    @property
    def measure(self) -> str:
        """The name of that score, for the headline of tables."""
        ...

    def score_of_no_answer(self, instance: Instance[D]) -> Mapping[str, Score]:
        """What an answer scores that is empty, refused, unreadable, or cut off and not graded.

        The answer fails, whatever these say. Without them it would be left out of
        the means, and a model that refuses what is hard would seem a good one.
        """
        ...


class Parsed(Protocol[D]):
    """A task that can score a final answer which somebody else has read out of a text."""

    def score_parsed(self, instance: Instance[D], answer: str) -> Mapping[str, Score]:
        """Score a final answer, empty where the text gives none: a pure function.

        Its scores give no verdict (``passed`` None): that is the task's own reading's.

        Raises: `harness.errors.Unparseable` for what cannot be a final answer.
        """
        ...


class Judged(Protocol[D]):
    """A task whose instances say what an answer has to satisfy, for judges to decide on."""

    def asked(self, instance: Instance[D]) -> str:
        """What the model was asked, in words for a judge."""
        ...

    def criteria(self, instance: Instance[D]) -> Sequence[Criterion]:
        """What an answer has to satisfy, each by itself: at least one."""
        ...


class Calling(Protocol[D]):
    """A task whose instances say which judges of the run they are put before."""

    def calls(self, instance: Instance[D], judge: str) -> bool:
        """Whether an instance's answers are put before a judge, by its name in the run."""
        ...

    def seen_by(self, judge: str) -> Task[D]:
        """The task as a judge is given it: its criteria are what this one decides on."""
        ...
