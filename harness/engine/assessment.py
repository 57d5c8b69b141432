"""Assesses replies: their outcome, scores and verdict.

All functions are pure, to allow re-scoring.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

import msgspec
from msgspec.structs import replace

from harness.errors import CallError, ConfigError, RequestRejected, Unparseable
from harness.ports import Task, overrides
from harness.records import (
    CONSTRAINT_REFUSED,
    LARGEST,
    REFUSALS,
    WARNING,
    DecodingConstraint,
    Instance,
    Outcome,
    Reply,
    Request,
    Score,
    nesting_depth,
    verdict,
    without_arrays,
)
from harness.store.json_lines import UNREADABLE, encode
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
    if reply.finish_reason == CONSTRAINT_REFUSED and overrides(
        task, Task.score_of_refused_constraint
    ):
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
    scores = _recordable(task.score_of_no_answer(instance), instance)
    return Assessment(outcome, False, scores, problem)


def _recordable(scores: Mapping[str, Score], instance: Instance[Any]) -> Mapping[str, Score]:
    try:
        return recordable(scores, instance.id)
    except ConfigError as error:
        raise ConfigError(error.message, f"{error.remedy} {rescore_remedy()}") from None


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
    new: Sequence[Judgement] = ()  # those of the judgements that are not recorded yet


# The limits of scores: what every command can read back from a run's files.
# All scores pass `recordable` before they are used or written, whether they come from a task, a
# checker, a user's own check, a judge or a panel.

MAX_DEPTH = 100
"""Maximum levels of details. Decoders fail at about 1,000, less the depth of their callers."""

_SCORES = "Scores are a mapping of names to harness.records.Score."
_VALUES = f"A value is True, False, None or a number from {-LARGEST:g} to {LARGEST:g}."
_SHARES = "A share is from 0 to 1. Without share=True, a number has no limits."
_VERDICTS = "A verdict (passed) is True, False or None."
_REASONS = "A reason is a string."
_DETAILS = f"Details are a mapping of JSON values, at most {MAX_DEPTH} levels deep."


def recordable(scores: Mapping[str, Score], instance: str) -> Mapping[str, Score]:
    """Return scores in the form in which they are recorded: NumPy's values become Python's.

    Args:
        scores: The scores of an answer, by name.
        instance: The id of the answer's instance, for the error message.

    Raises:
        ConfigError: If a score could not be written, or not be read back. The message names the
            score, its value and the limit.
    """
    where = f"of instance {instance!r:.60}"
    if not isinstance(scores, (dict, Mapping)):  # a dict is recognised at once
        raise ConfigError(f"The scores {where} are {_value_text(scores)}.", _SCORES)
    checked = {}
    for name, score in scores.items():
        if not (isinstance(name, str) and isinstance(score, Score)):
            problem = f"The score {_value_text(name)} {where} is {_value_text(score)}."
            raise ConfigError(problem, _SCORES)
        try:
            checked[name] = _recordable_score(score)
        except ConfigError as error:
            problem = f"The score {name!r:.60} {where} has {error.message}."
            raise ConfigError(problem, error.remedy) from None
    return checked


def _recordable_score(score: Score) -> Score:
    """Raise ConfigError with the faulty part and its limit if a score cannot be recorded."""
    value = without_arrays(score.value)
    if isinstance(value, int | float) and type(value) not in (bool, int, float):
        value = float(value)  # subclasses cannot be encoded
    is_valid = isinstance(value, int | float) and -LARGEST <= value <= LARGEST  # false for NaN
    if value is not None and not is_valid:
        raise ConfigError(f"the value {_value_text(value)}", _VALUES)
    passed = without_arrays(score.passed)
    if passed is not None and not isinstance(passed, bool):
        raise ConfigError(f"the verdict {_value_text(passed)}", _VERDICTS)
    if not isinstance(score.reason, str):
        raise ConfigError(f"the reason {_value_text(score.reason)}", _REASONS)
    details = score.details
    if not isinstance(details, (dict, Mapping)):
        raise ConfigError(f"the details {_value_text(details)}", _DETAILS)
    if details:
        details = _recordable_details(details)
    share: bool | msgspec.UnsetType = msgspec.UNSET
    if isinstance(value, int | float) and not isinstance(value, bool):
        share = score.share is True
        if share and not 0 <= value <= 1:
            raise ConfigError(f"the share {_value_text(value)}", _SHARES)
    if (
        value is score.value
        and passed is score.passed
        and details is score.details
        and share is score.share
    ):
        return score
    return replace(score, value=value, passed=passed, details=details, share=share)


def _recordable_details(details: Mapping[str, Any]) -> Mapping[str, Any]:
    try:
        text, plain = _encoded(details)
        decoded = msgspec.json.decode(text)
    except (TypeError, ValueError, OverflowError, *UNREADABLE) as error:
        problem = f"details that cannot be recorded ({str(error)[:160]})"
        raise ConfigError(problem, _DETAILS) from None
    brackets = text.count(b"[") + text.count(b"{")  # an upper bound on the depth
    if brackets > MAX_DEPTH and nesting_depth(decoded) > MAX_DEPTH:
        raise ConfigError("details that are nested too deeply", _DETAILS)
    return plain


def _encoded(details: Mapping[str, Any]) -> tuple[bytes, Mapping[str, Any]]:
    """Return details as JSON, and without values of NumPy if they have any."""
    try:
        return encode(details), details
    except TypeError:
        plain = msgspec.to_builtins(details, str_keys=True, enc_hook=_builtin)
        return encode(plain), plain


def _builtin(value: Any) -> Any:
    if isinstance(value, Mapping):
        return dict(value)
    plain = without_arrays(value)
    if plain is value:
        raise TypeError(f"a value is of type {type(value).__name__}")
    return plain


def _value_text(value: Any) -> str:
    try:
        return f"{value!r:.60}"
    except Exception:  # of an integer with thousands of digits, or of a user's own class
        return f"of type {type(value).__name__}"
