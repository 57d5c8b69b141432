"""From a reply to an outcome, scores and a verdict: pure, so that runs can be re-scored."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from harness.calls.calls import REFUSALS
from harness.errors import Unparseable
from harness.ports import ScoresNoAnswer, Task
from harness.records import Instance, Outcome, Reply, Score, verdict

FEEDBACK: Mapping[Outcome, str] = {
    "truncated": "Your answer was cut off before its end. Please answer again, more briefly.",
    "refused": "You did not answer. Please answer the task.",
    "empty": "Your answer was empty. Please answer the task.",
}
"""What the user's turn says where there is no answer that the task could speak about."""


UNREADABLE = "Your answer could not be read. Please answer the task again."


class Assessment(NamedTuple):
    """What is made of one reply.

    problem: why an answer is unparseable.
    """

    outcome: Outcome
    passed: bool | None
    scores: Mapping[str, Score]
    problem: str = ""


def assess(task: Task[Any], instance: Instance[Any], reply: Reply) -> Assessment:
    """Score a reply.

    Refused, empty and unparseable answers fail; so do truncated ones, unless
    the task grades them. Nothing of these is graded in silence: such an answer
    has scores only where the task says what no answer scores.
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


def feedback(task: Task[Any], instance: Instance[Any], reply: Reply, assessment: Assessment) -> str:
    """What the user's next turn says of a reply."""
    graded = assessment.outcome == "truncated" and task.on_truncated == "grade"
    if assessment.outcome == "ok" or graded:
        return task.feedback(instance, reply.text, assessment.scores)
    return assessment.problem or FEEDBACK.get(assessment.outcome, UNREADABLE)
