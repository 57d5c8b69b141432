"""Assesses replies: their outcome, scores and verdict.

All functions are pure, to allow re-scoring.
"""

from __future__ import annotations

import contextlib
import pickle
import re
import signal
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from threading import Lock
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias, TypeVar

import msgspec
from msgspec.structs import replace

from harness.calls.signals import Report
from harness.config.run_file import RunFile
from harness.config.settings import Settings
from harness.engine.resolving import build_task
from harness.errors import CallError, ConfigError, RequestRejected, Unparseable
from harness.ports import Task, overrides_method
from harness.prompts import Template
from harness.records import (
    CONSTRAINT_REFUSED,
    MAX_MAGNITUDE,
    REFUSALS,
    WARNING_KEY,
    DecodingConstraint,
    Instance,
    Outcome,
    Reply,
    Request,
    Score,
    nesting_depth,
    unwrap_array,
    verdict,
)
from harness.store.json_lines import DECODE_ERRORS, encode
from harness.user_code import rescore_remedy
from harness.wording import format_count, truncate
from harness.workers import ProcessEnded, WorkerProcess

if TYPE_CHECKING:
    from harness.store.judgements import Judgement  # not imported for a run without judges

R = TypeVar("R")

# Outcomes without an answer: a judge then gives no verdict, and a conversation ends.
UNANSWERED: frozenset[Outcome] = frozenset(["refused", "empty"])
# Outcomes that end a sample, even if it may have further rounds.
FINAL_OUTCOMES: frozenset[Outcome] = frozenset(["crashed"])

# The user's next turn after an answer that the task does not score, by outcome.
DEFAULT_FEEDBACK: Mapping[Outcome, str] = {
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
    def is_unscored(self) -> bool:
        """Whether scoring was stopped because it took too long, so that there is no verdict."""
        return self.passed is None and bool(self.problem)


def reply_outcome(reply: Reply) -> Literal["ok", "truncated", "refused", "empty"]:
    """Return a reply's outcome before scoring."""
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
    if reply.finish_reason == CONSTRAINT_REFUSED and overrides_method(
        task, Task.score_of_refused_constraint
    ):
        scores = task.score_of_refused_constraint(instance)
        return Assessment(outcome, False, _normalize_task_scores(scores, instance))
    is_ungraded = outcome == "truncated" and task.on_truncated == "fail"
    if is_ungraded or outcome in ("refused", "empty"):
        return _assess_missing_answer(task, instance, outcome)
    try:
        scores = task.score(instance, reply.text)
    except Unparseable as error:
        assessment = _assess_missing_answer(task, instance, "unparseable", str(error))
        scores = {**assessment.scores, **_normalize_task_scores(error.scores, instance)}
        return assessment._replace(scores=scores)
    scores = _normalize_task_scores(scores, instance)
    return Assessment(outcome, verdict(scores), scores)


def assess_crash(task: Task[Any], instance: Instance[Any], problem: str) -> Assessment:
    """Assess a call in which the system under test crashed, with ``problem`` as its error."""
    return _assess_missing_answer(task, instance, "crashed", problem)


def _assess_missing_answer(
    task: Task[Any], instance: Instance[Any], outcome: Outcome, problem: str = ""
) -> Assessment:
    scores = _normalize_task_scores(task.score_of_no_answer(instance), instance)
    return Assessment(outcome, False, scores, problem)


def _normalize_task_scores(
    scores: Mapping[str, Score], instance: Instance[Any]
) -> Mapping[str, Score]:
    """Do as `normalize_scores`. An error also says how to score the recorded answers again."""
    try:
        return normalize_scores(scores, instance.id)
    except ConfigError as error:
        raise ConfigError(error.message, f"{error.remedy} {rescore_remedy()}") from None


def feedback(task: Task[Any], instance: Instance[Any], reply: Reply, assessment: Assessment) -> str:
    """Return the user's next message: the task's feedback, or why the reply was not graded.

    Args:
        task: The task.
        instance: The instance of the answered turn.
        reply: The reply.
        assessment: Its assessment.
    """
    outcome = assessment.outcome
    if outcome == "ok" or (outcome == "truncated" and task.on_truncated == "grade"):
        return task.feedback(instance, reply.text, assessment.scores)
    return assessment.problem or DEFAULT_FEEDBACK[outcome]


def apply_feedback_template(run: RunFile, message: str, *, passed: bool | None) -> str:
    """Insert feedback into the run's template ``rounds.feedback``, unless the answer passed."""
    template = run.rounds.feedback
    if template is None or passed is True:
        return message
    return feedback_template(template).render({"feedback": message})


@lru_cache(maxsize=16)
def feedback_template(text: str) -> Template:
    """Parse the template of feedback on an answer that did not pass.

    Raises:
        ConfigError: If it is not valid, or uses a field other than ``feedback``.
    """
    template = Template(text, "rounds.feedback")
    template.check_fields(["feedback"])
    template.render({"feedback": "…"})
    return template


ScoreWarnings: TypeAlias = Counter[tuple[str, str]]
"""The number of answers, by the name of a score and a warning about its value."""


def score_warnings(scores: Mapping[str, Score]) -> Iterator[tuple[str, str]]:
    """Yield the name and the warning of each score whose value is missing or may be wrong."""
    for name, score in scores.items():
        if isinstance(warning := score.details.get(WARNING_KEY), str):
            consequence = "may be wrong" if score.value is not None else "is missing"
            yield name, f"{consequence}: {warning}"


def warning_lines(warnings: ScoreWarnings) -> Iterator[tuple[str, str]]:
    """Yield the name of each score with warnings, and a message with the number of answers."""
    for (name, warning), n in warnings.items():
        yield name, f"on {format_count(n, 'answer')}, the score {warning}"


# In a provider's error message: parameters and kinds of decoding constraints.
_CONSTRAINT = re.compile(
    r"schema|response_format|output_config|structured|guided|grammar|regex|choices", re.IGNORECASE
)
# In a provider's error message: the prompt is too long.
_TOO_LONG = re.compile(r"context (?:length|window)|(?:prompt|input) is too long", re.IGNORECASE)


def is_constraint_refusal(error: CallError, request: Request) -> bool:
    """Return whether a provider rejects a request because of its decoding constraint.

    The request must have one, and the error's message must mention constraints but not the prompt's
    length.
    """
    if not isinstance(error, RequestRejected):
        return False
    if not isinstance(request.decoding.constraint, DecodingConstraint):
        return False
    message = error.message
    return bool(_CONSTRAINT.search(message)) and not _TOO_LONG.search(message)


class AnswerVerdict(NamedTuple):
    """An attempt's final verdict and its judgements."""

    passed: bool | None  # by the rules and the deciding judges; None: no verdict
    judgements: Sequence[Judgement] = ()
    pending: bool = False  # a deciding judge has not judged the attempt yet, or its call failed
    new: Sequence[Judgement] = ()  # the judgements that are not recorded yet


# The limits of scores: what every command can read back from a run's files. All scores are
# normalized before they are used or written, whether they come from a task, a checker, a user's own
# check, a judge or a panel.

MAX_DEPTH = 100
"""Maximum levels of details. Decoders fail at about 1,000, less the depth of their callers."""

_SCORES = "Scores are a mapping of names to harness.records.Score."
_VALUES = f"A value is True, False, None or a number from {-MAX_MAGNITUDE:g} to {MAX_MAGNITUDE:g}."
_SHARES = "A share is from 0 to 1. Without share=True, a number has no limits."
_VERDICTS = "A verdict (passed) is True, False or None."
_REASONS = "A reason is a string."
_DETAILS = f"Details are a mapping of JSON values, at most {MAX_DEPTH} levels deep."


def normalize_scores(scores: Mapping[str, Score], instance: str) -> Mapping[str, Score]:
    """Return scores in the form in which they are recorded, with NumPy's values as Python's.

    Args:
        scores: The scores of an answer, by name.
        instance: The id of the answer's instance, for the error message.

    Raises:
        ConfigError: If a score could not be written, or not read back. The message names the
            score, its value and the limit.
    """
    where = f"of instance {instance!r:.60}"
    if not isinstance(scores, (dict, Mapping)):  # a dict is recognised at once
        raise ConfigError(f"The scores {where} are {_value_text(scores)}.", _SCORES)
    normalized = {}
    for name, score in scores.items():
        if not (isinstance(name, str) and isinstance(score, Score)):
            problem = f"The score {_value_text(name)} {where} is {_value_text(score)}."
            raise ConfigError(problem, _SCORES)
        try:
            normalized[name] = _normalize_score(score)
        except ConfigError as error:
            problem = f"The score {name!r:.60} {where} has {error.message}."
            raise ConfigError(problem, error.remedy) from None
    return normalized


def _normalize_score(score: Score) -> Score:
    """Return a score as it is recorded, which is the same object if nothing changes.

    Raises:
        ConfigError: If it cannot be recorded. The message begins with the faulty field.
    """
    value = unwrap_array(score.value)
    if isinstance(value, int | float) and type(value) not in (bool, int, float):
        value = float(value)  # subclasses cannot be encoded
    # False for NaN.
    is_valid = isinstance(value, int | float) and -MAX_MAGNITUDE <= value <= MAX_MAGNITUDE
    if value is not None and not is_valid:
        raise ConfigError(f"the value {_value_text(value)}", _VALUES)
    passed = unwrap_array(score.passed)
    if passed is not None and not isinstance(passed, bool):
        raise ConfigError(f"the verdict {_value_text(passed)}", _VERDICTS)
    if not isinstance(score.reason, str):
        raise ConfigError(f"the reason {_value_text(score.reason)}", _REASONS)
    details = score.details
    if not isinstance(details, (dict, Mapping)):
        raise ConfigError(f"the details {_value_text(details)}", _DETAILS)
    if details:
        details = _normalize_details(details)
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


def _normalize_details(details: Mapping[str, Any]) -> Mapping[str, Any]:
    try:
        encoded, builtin_details = _encode_details(details)
        decoded = msgspec.json.decode(encoded)
    except (TypeError, ValueError, OverflowError, *DECODE_ERRORS) as error:
        problem = f"details that cannot be recorded ({str(error)[:160]})"
        raise ConfigError(problem, _DETAILS) from None
    brackets = encoded.count(b"[") + encoded.count(b"{")  # an upper bound on the depth
    if brackets > MAX_DEPTH and nesting_depth(decoded) > MAX_DEPTH:
        raise ConfigError("details that are nested too deeply", _DETAILS)
    return builtin_details


def _encode_details(details: Mapping[str, Any]) -> tuple[bytes, Mapping[str, Any]]:
    """Return details as JSON, and the details with NumPy's values, if any, as Python's."""
    try:
        return encode(details), details
    except TypeError:
        builtin_details = msgspec.to_builtins(details, str_keys=True, enc_hook=_to_builtin)
        return encode(builtin_details), builtin_details


def _to_builtin(value: Any) -> Any:
    if isinstance(value, Mapping):
        return dict(value)
    builtin = unwrap_array(value)
    if builtin is value:
        raise TypeError(f"a value is of type {type(value).__name__}")
    return builtin


def _value_text(value: Any) -> str:
    try:
        return truncate(repr(value), 60)
    except Exception:  # of an integer with thousands of digits, or of a user's own class
        return f"of type {type(value).__name__}"


# Long answers are scored in a separate process, because scoring must not block a run. It can take
# seconds if a model repeats itself up to its token limit (COLLIE: 4 s for 10,000 sentences).
# Meanwhile the replies of other calls would time out and be paid for again.

LONG_ANSWER_CHARS = 10_000  # the length from which answers are scored in the separate process
MAX_SCORING_CPU_S = 60  # an answer whose scoring takes longer has no verdict


class _TaskUnknown(Exception):
    """The separate process cannot build the task."""


class LongAnswerAssessor:
    """Assesses answers by the task's rules, and long ones in a separate process. Thread-safe.

    The separate process builds the task from the run file. If that fails, because only this process
    knows the task, long answers are assessed here, too.

    Args:
        task: The task.
        run: The run file.
        settings: The settings.
        report: Receives a message about each answer without a verdict.
        cpu_s: Maximum CPU time for one answer in seconds.
    """

    def __init__(
        self,
        task: Task[Any],
        run: RunFile,
        settings: Settings,
        report: Report = lambda _: None,
        cpu_s: float = MAX_SCORING_CPU_S,
    ) -> None:
        self._task = task
        self._report = report
        self._cpu_s = cpu_s
        self._setup = run, settings.data_dir
        self._pickled = b""
        self._process = WorkerProcess()
        self._is_unusable = False  # whether the process cannot build the task, or has ended
        self._lock = Lock()

    def assess(self, instance: Instance[Any], reply: Reply) -> Assessment:
        """Assess a reply. If that takes too long, the assessment is unscored."""
        try:
            return self._run(assess, instance, reply)
        except TimeoutError:
            overrun = f"took more than {self._cpu_s:g} s of CPU time"
        n_chars = len(reply.text)
        self._report(f"An answer has no verdict: scoring its {n_chars:,} characters {overrun}.")
        problem = f"not scored: scoring {overrun}"
        # A score without a value keeps a judge from deciding alone.
        scores = {"scored": Score(None, None, problem)}
        return Assessment(reply_outcome(reply), None, scores, problem)

    def feedback(self, instance: Instance[Any], reply: Reply, assessment: Assessment) -> str:
        """Return the user's next message after a reply, or "" if producing it takes too long."""
        try:
            return self._run(feedback, instance, reply, assessment)
        except TimeoutError:
            return ""

    def close(self) -> None:
        """End the process, even while it is working."""
        self._is_unusable = True
        self._process.kill()  # also unblocks a thread waiting for its answer

    def _run(
        self, function: Callable[..., R], instance: Instance[Any], reply: Reply, *more: object
    ) -> R:
        """Call a function with the task. For a long reply, try the separate process first."""
        work = b""
        if len(reply.text) >= LONG_ANSWER_CHARS:
            with contextlib.suppress(pickle.PicklingError, TypeError, AttributeError):
                self._pickled = self._pickled or pickle.dumps(self._setup)
                call = self._pickled, self._cpu_s, function, (instance, reply, *more)
                work = pickle.dumps((_call_with_task, call))
        if work:
            with self._lock, contextlib.suppress(_TaskUnknown):
                if not self._is_unusable:
                    result: R = self._run_in_process(work)
                    return result
        return function(self._task, instance, reply, *more)

    def _run_in_process(self, work: bytes) -> Any:
        try:
            return self._process.call(work)
        except ProcessEnded:
            self._process.kill()
            self._process = WorkerProcess()
            raise TimeoutError from None
        except _TaskUnknown:
            self.close()
            raise


def _call_with_task(call: tuple[bytes, float, Callable[..., R], tuple[Any, ...]]) -> R:
    """Call a function with the task of a pickled run file, and further arguments.

    Args:
        call: The pickled run file and data folder, the maximum CPU time (s), the function, and its
            further arguments.
    """
    pickled, cpu_s, function, arguments = call
    try:
        task = _build_pickled_task(pickled)
    except Exception as error:
        raise _TaskUnknown(str(error)) from None
    signal.setitimer(signal.ITIMER_PROF, cpu_s)  # its signal ends the process
    try:
        return function(task, *arguments)
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


@lru_cache(maxsize=1)
def _build_pickled_task(pickled: bytes) -> Task[Any]:
    run, data_dir = pickle.loads(pickled)  # noqa: S301 (from the parent process)
    return build_task(run, Settings(data_dir=data_dir))
