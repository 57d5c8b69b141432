"""Assesses a reply: outcome, scores and verdict. Pure, so that runs can be re-scored."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from harness.analysis.rescoring import GONE, Rescored
from harness.calls.calls import ReplyUnsaved
from harness.errors import DataMissing, Unparseable
from harness.ports import ScoresNoAnswer, Task
from harness.records import (
    REFUSALS,
    SCHEMA_VERSION,
    Attempt,
    Instance,
    Outcome,
    Reply,
    Score,
    verdict,
)
from harness.store.index import AttemptIndex

if TYPE_CHECKING:
    from harness.store.judgements import Judgement  # a run without judges spares the import

FEEDBACK: Mapping[Outcome, str] = {
    "truncated": "Your answer was cut off before its end. Please answer again, more briefly.",
    "refused": "You did not answer. Please answer the task.",
    "empty": "Your answer was empty. Please answer the task.",
}
"""What the user's turn says where there is no answer that the task could comment on."""

UNREADABLE = "Your answer could not be read. Please answer the task again."


class Assessment(NamedTuple):
    """What the task's rules say about a reply.

    Attributes:
        problem: Why an answer is unparseable.
    """

    outcome: Outcome
    passed: bool | None
    scores: Mapping[str, Score]
    problem: str = ""


def assess(task: Task[Any], instance: Instance[Any], reply: Reply) -> Assessment:
    """Score a reply.

    Refused, empty and unparseable answers fail; so do truncated ones, unless the task grades them.
    Such an answer has scores only if the task defines a score for no answer.
    """
    outcome: Outcome = "ok"
    if reply.finish_reason in REFUSALS:
        return _unanswered(task, instance, "refused")
    if not reply.text.strip():
        return _unanswered(task, instance, "empty")
    if reply.finish_reason == "length":
        if task.on_truncated == "fail":
            return _unanswered(task, instance, "truncated")
        outcome = "truncated"
    try:
        scores = task.score(instance, reply.text)
    except Unparseable as error:
        found = _unanswered(task, instance, "unparseable", str(error))
        return found._replace(scores={**found.scores, **error.scores})
    return Assessment(outcome, verdict(scores), scores)


def _unanswered(
    task: Task[Any], instance: Instance[Any], outcome: Outcome, problem: str = ""
) -> Assessment:
    scores = task.score_of_no_answer(instance) if isinstance(task, ScoresNoAnswer) else {}
    return Assessment(outcome, False, scores, problem)


def feedback(task: Task[Any], instance: Instance[Any], reply: Reply, found: Assessment) -> str:
    """Write the user's next turn about a reply, by the task's rules."""
    graded = found.outcome == "truncated" and task.on_truncated == "grade"
    if found.outcome == "ok" or graded:
        return task.feedback(instance, reply.text, found.scores)
    return found.problem or FEEDBACK.get(found.outcome, UNREADABLE)


class AnswerVerdict(NamedTuple):
    """The combined verdict of rules and judges on an attempt.

    Attributes:
        passed: None if a deciding judge has no verdict.
        judgements: The judgements of judges and panels.
        pending: Whether a deciding judge has not judged it yet, because its call failed.
        unsaved: A judge's reply that could not be cached.
    """

    passed: bool | None
    judgements: Sequence[Judgement] = ()
    pending: bool = False
    unsaved: ReplyUnsaved | None = None


class NoJudges:
    """The judging of a run that has no judges: the rules alone decide."""

    async def judge(self, instance: Instance[Any], attempt: Attempt) -> AnswerVerdict:
        """Return the verdict of the rules."""
        return AnswerVerdict(attempt.passed)

    def recorded(self, attempt: Attempt) -> AnswerVerdict:
        """Return the verdict on an attempt of an earlier session."""
        return AnswerVerdict(attempt.passed)

    def feedback(self, by_rules: str, found: Assessment, verdict: AnswerVerdict) -> str | None:
        """Write the user's next turn."""
        return by_rules

    def record(self, verdict: AnswerVerdict) -> None:
        """Do nothing: there are no judgements to write."""


def rescore(task: Task[Any], instance: Instance[Any] | None, attempt: Attempt) -> Rescored:
    """Score a recorded attempt again; a failed call stays a failed call.

    Args:
        task: The task as it is now.
        instance: None if it is no longer in the data set. There is no verdict then, which is not a
            failed one.
        attempt: The attempt as recorded.
    """
    outcome, passed, scores, error = (
        attempt.outcome, attempt.passed, attempt.scores, attempt.error
    )  # fmt: skip
    if attempt.outcome == "error":
        pass
    elif instance is None:
        passed, scores, error = None, {}, GONE
    else:
        reply = Reply(attempt.text or "", attempt.finish_reason or "")
        outcome, passed, scores, problem = assess(task, instance, reply)
        error = problem or None
    return Rescored(
        SCHEMA_VERSION,
        attempt.instance,
        attempt.sample,
        attempt.round,
        outcome,
        passed,
        scores,
        error,
    )


def rescored(task: Task[Any], recorded: AttemptIndex) -> Iterator[tuple[Attempt, Rescored]]:
    """Score all attempts of a run again under the task as it is now.

    No model is called and nothing is written. The attempts are read in the order of the data set,
    so that neither its instances nor their texts are ever held.

    Args:
        task: The task as it is now.
        recorded: An index of the rules' scores alone.

    Yields:
        Each attempt with its new scores; at the end those whose instances no longer exist.

    Raises:
        DataMissing: The data set has none of the run's instances.
    """
    left = np.ones(len(recorded), np.bool_)
    for instance in task.instances():
        rows = recorded.rows_of(instance.id)
        left[rows.start : rows.stop] = False
        for attempt in recorded.read(Attempt, rows):
            yield attempt, rescore(task, instance, attempt)
    order = recorded.in_order()
    for attempt in recorded.read(Attempt, order[left[order]]):
        if left.all():
            raise DataMissing(
                f"The data set has none of the run's instances, such as {attempt.instance!r}.",
                "Restore the data set that the run was made with.",
            )
        yield attempt, rescore(task, None, attempt)
