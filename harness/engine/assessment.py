"""Assesses replies: their outcome, scores and verdict.

All functions are pure, to allow re-scoring.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

from harness.engine.score_limits import recordable
from harness.errors import CallError, RequestRejected, Unparseable
from harness.ports import ScoresNoAnswer, ScoresRefusedConstraint, Task
from harness.records import (
    CONSTRAINT_REFUSED,
    REFUSALS,
    WARNING,
    DecodingConstraint,
    Instance,
    Outcome,
    Reply,
    Request,
    Score,
    verdict,
)
from harness.user_code import rescore_remedy
from harness.wording import count_of

if TYPE_CHECKING:
    from harness.store.judgements import Judgement  # not imported for a run without judges

# Outcomes without an answer: a judge then gives no verdict, and a conversation ends.
UNANSWERED: frozenset[Outcome] = frozenset(["refused", "empty"])
FINAL: frozenset[Outcome] = frozenset(["crashed"])  # ends a sample, even if it may have rounds left

# The user's next turn after an answer that the task does not score, by outcome.
FEEDBACK: Mapping[Outcome, str] = {
    "truncated": "Your answer was cut off before its end. Please answer again, more briefly.",
    "refused": "You did not answer. Please answer the task.",
    "empty": "Your answer was empty. Please answer the task.",
    "unparseable": "Your answer could not be read. Please answer the task again.",
}


class Assessment(NamedTuple):
    """The outcome, verdict and scores of a reply according to the task's rules."""

    outcome: Outcome
    passed: bool | None  # None: no verdict
    scores: Mapping[str, Score]
    problem: str = ""  # why the reply could not be scored

    @property
    def unscored(self) -> bool:
        """Whether scoring was stopped because it took too long, so that there is no verdict."""
        return self.passed is None and bool(self.problem)


def reply_outcome(reply: Reply) -> Literal["ok", "truncated", "refused", "empty"]:
    """Return a reply's outcome before any scoring: ok, truncated, refused or empty."""
    if reply.finish_reason in REFUSALS or reply.finish_reason == CONSTRAINT_REFUSED:
        return "refused"
    if not reply.text.strip():
        return "empty"
    return "truncated" if reply.is_truncated else "ok"


def judged_outcomes(task: Task[Any]) -> tuple[Outcome, ...]:
    """Return the outcomes that judges score: ok, unparseable and, if graded, truncated."""
    graded: tuple[Outcome, ...] = ("truncated",) if task.on_truncated == "grade" else ()
    return ("ok", *graded, "unparseable")


def assess(task: Task[Any], instance: Instance[Any], reply: Reply) -> Assessment:
    """Return the outcome, verdict and scores of a reply, according to the task's rules.

    Refused, empty and unparseable replies fail, and so do truncated ones, unless the task grades
    them. They get the scores that the task defines for a missing answer (or for a refused decoding
    constraint), if any. An unparseable reply also gets the scores of the task's `Unparseable`
    error.

    Raises:
        ConfigError: If a score cannot be recorded, or a user's own check fails.
    """
    outcome = reply_outcome(reply)
    if reply.finish_reason == CONSTRAINT_REFUSED and isinstance(task, ScoresRefusedConstraint):
        scores = task.score_of_refused_constraint(instance)
        return Assessment(outcome, False, _recordable(scores, instance))
    ungraded = outcome == "truncated" and task.on_truncated == "fail"
    if ungraded or outcome in ("refused", "empty"):
        return _unanswered(task, instance, outcome)
    try:
        scores = task.score(instance, reply.text)
    except Unparseable as error:
        found = _unanswered(task, instance, "unparseable", str(error))
        return found._replace(scores={**found.scores, **_recordable(error.scores, instance)})
    scores = _recordable(scores, instance)
    return Assessment(outcome, verdict(scores), scores)


def crashed(task: Task[Any], instance: Instance[Any], problem: str) -> Assessment:
    """Return the assessment of a call in which the system under test crashed."""
    return _unanswered(task, instance, "crashed", problem)


def _unanswered(
    task: Task[Any], instance: Instance[Any], outcome: Outcome, problem: str = ""
) -> Assessment:
    scores = task.score_of_no_answer(instance) if isinstance(task, ScoresNoAnswer) else {}
    return Assessment(outcome, False, _recordable(scores, instance), problem)


def _recordable(scores: Mapping[str, Score], instance: Instance[Any]) -> Mapping[str, Score]:
    return recordable(scores, instance.id, rescore_remedy())


def feedback(task: Task[Any], instance: Instance[Any], reply: Reply, found: Assessment) -> str:
    """Return the user's next message: the task's feedback, or why the reply was not graded."""
    graded = found.outcome == "truncated" and task.on_truncated == "grade"
    if found.outcome == "ok" or graded:
        return task.feedback(instance, reply.text, found.scores)
    return found.problem or FEEDBACK[found.outcome]


ScoreWarnings: TypeAlias = Counter[tuple[str, str]]
"""Numbers of answers by the name of a score and a warning about its value."""


def warnings_of(scores: Mapping[str, Score]) -> Iterator[tuple[str, str]]:
    """Yield the name and the warning of each score whose value is missing or may be wrong."""
    for name, score in scores.items():
        if isinstance(warning := score.details.get(WARNING), str):
            verdict = "may be wrong" if score.value is not None else "is missing"
            yield name, f"{verdict}: {warning}"


def warning_lines(warnings: ScoreWarnings) -> Iterator[tuple[str, str]]:
    """Yield the name of each score with warnings, and a text with the number of answers."""
    for (name, warning), n in warnings.items():
        yield name, f"on {count_of(n, 'answer')}, the score {warning}"


_CONSTRAINT = re.compile(
    r"schema|response_format|output_config|structured|guided|grammar|regex|choices", re.IGNORECASE
)
_TOO_LONG = re.compile(r"context (?:length|window)|(?:prompt|input) is too long", re.IGNORECASE)


def refuses_constraint(error: CallError, request: Request) -> bool:
    """Return whether a provider rejects a request because of its decoding constraint.

    The request must have one, and the error's message must mention constraints but not the prompt's
    length.
    """
    if not isinstance(error, RequestRejected):
        return False
    constrained = isinstance(request.decoding.constraint, DecodingConstraint)
    said = error.message
    return constrained and bool(_CONSTRAINT.search(said)) and not _TOO_LONG.search(said)


class AnswerVerdict(NamedTuple):
    """An attempt's final verdict and its judgements."""

    passed: bool | None  # by the rules and the deciding judges; None: no verdict
    judgements: Sequence[Judgement] = ()
    pending: bool = False  # a deciding judge has not judged the attempt yet, or its call failed
