"""An instance's attempts as the page shows them: texts, references, and why attempts failed.

Long texts are cut: ``{"text": …, "length": …}``.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice
from typing import Any

import msgspec
import numpy as np
from msgspec import Struct, field
from numpy.typing import NDArray

from harness.analysis.failures import (
    QUOTED_REGEX_OR_NUMBER,
    FailedLine,
    mask_numbers,
    read_failed_lines,
)
from harness.config.settings import Settings
from harness.engine.resolving import MAX_ROWS_IN_MEMORY, build_task, data_difference
from harness.engine.turns import instance_at_turn
from harness.errors import HarnessError
from harness.plugins.comparisons.constraints import constraint_kind
from harness.plugins.report.parts import to_json
from harness.ports import Task
from harness.records import Instance, Message, Score, add_example_error
from harness.store.index import AttemptIndex, AttemptLine
from harness.store.run_folder import RunFolder
from harness.wording import to_one_line

LONGEST_TEXT = 200_000  # maximum characters of a text in the page
BRIEF = 60  # maximum characters of a score's details on one line


class RecordedTask:
    """The task of a run, whose data is read when first needed."""

    def __init__(self, task: Task[Any]) -> None:
        self._task = task

    @cached_property
    def _instances(self) -> dict[str, Instance[Any]]:
        try:
            return {
                instance.id: instance
                for instance in islice(self._task.instances(), MAX_ROWS_IN_MEMORY)
            }
        except HarnessError:  # the data cannot be read any more
            return {}

    def reference(self, instance: str, turn: int = 1) -> str | None:
        """Return the reference answer to an instance's turn, or None if none is known."""
        as_asked = self._asked(instance, turn)
        if as_asked is None:
            return None
        return self._task.expected_answer(as_asked)

    def _asked(self, instance: str, turn: int) -> Instance[Any] | None:
        recorded = self._instances.get(instance)
        if recorded is None:
            return None
        return instance_at_turn(self._task, recorded, [""] * (turn - 1))

    def extracted(self, instance: str, text: str, turn: int = 1) -> str | None:
        """Return the scored part of a reply, or None if it is the whole reply or is unknown."""
        as_asked = self._asked(instance, turn)
        if as_asked is None:
            return None
        part = self._task.extracted(as_asked, text)
        if part is None or part.strip() == text.strip():
            return None
        return part


def task_of(folder: RunFolder, settings: Settings) -> RecordedTask | None:
    """Return the task of a run, for reading its data but not for scoring.

    The result is None if the data has changed or anything is missing, or if the task needs code
    that a command which only reads runs does not execute.
    """
    try:
        run = folder.read_config()
        task = build_task(run.model_copy(update={"judges": []}), settings, with_judges=False)
        if data_difference(folder, task.fingerprint()):
            return None
        return RecordedTask(task)
    except HarnessError:
        return None


class Cut(Struct, frozen=True):
    """The beginning of a string, and the length of the whole string."""

    text: str
    length: int


Text = str | Cut


class _Request(Struct, gc=False):
    messages: list[Message] = []
    model: str = ""
    decoding: dict[str, Any] = {}
    seed: int | None = None


class JudgeReplies(Struct, gc=False):
    """A judge's replies about an attempt."""

    judge: str
    outcome: str
    replies: list[str] = []
    error: str | None = None


class TextLine(AttemptLine, kw_only=True, gc=False):
    """An attempt with its texts, and with the replies of the run's judges about it."""

    request: _Request
    scores: dict[str, Score] = field(default_factory=dict)
    judgements: list[JudgeReplies] = field(default_factory=list)


def read_texts(index: AttemptIndex, rows: NDArray[np.intp]) -> Iterator[TextLine]:
    """Yield attempts with their texts, given their rows in the index."""
    recorded = index.read_judgements(rows, msgspec.json.Decoder(JudgeReplies).decode)
    for line, judgements in zip(index.read(TextLine, rows), recorded, strict=True):
        line.judgements = [judgement for judgement in judgements if judgement is not None]
        yield line


RunAttempt = tuple[int, TextLine, int]
"""An attempt, with the number of its run before it, and its row in the run's index after it."""


def entry(
    run_attempts: Sequence[RunAttempt],
    extractions: Sequence[str] = (),
    answers: Sequence[RecordedTask | None] = (),
) -> dict[str, Any]:
    """Return the prompts and attempts of an instance, as the page shows them.

    For each run, ``extractions`` says how the answer is found in a reply ("": it is the whole
    reply). ``answers`` gives the task's references and the scored parts of replies (None: unknown).
    """
    references: dict[str, None] = {}
    prompts: dict[bytes, int] = {}
    conversations: list[list[tuple[str, Text]]] = []
    attempts = []
    for run, line, _ in run_attempts:
        prompt = None
        messages = line.request.messages
        if messages:
            prompt = prompts.setdefault(to_json(messages), len(conversations))
            if prompt == len(conversations):
                conversations.append([])
                for message in messages:
                    conversations[-1].append((message.role, _text(message.content)))
        packed = _packed(line, prompt)
        if run < len(extractions) and extractions[run]:
            packed["extraction"] = extractions[run]
        task = answers[run] if run < len(answers) else None
        if task is not None:
            turn = line.round if line.turns else 1
            reference = task.reference(line.instance, turn)
            if reference:
                references[reference] = None
            part = task.extracted(line.instance, line.text or "", turn)
            if part:
                packed["extracted"] = _text(part)
        attempts.append(packed)
    packed_entry: dict[str, Any] = {"prompts": conversations, "attempts": attempts}
    if references:
        packed_entry["references"] = list(map(_text, references))
    return packed_entry


def _packed(line: TextLine, prompt: int | None) -> dict[str, object]:
    fields: dict[str, object] = {}
    for name in ("text", "reasoning", "feedback", "error"):
        text = getattr(line, name)
        if text is not None:
            fields[name] = _text(text)
    ends = None
    for turn in line.user:
        if turn.ends:
            ends = _text(turn.ends)
            break
    fields |= {
        "prompt": prompt,
        "judges": [_packed_judge(judgement, line.scores) for judgement in line.judgements] or None,
        "scores": [_packed_score(name, score) for name, score in line.scores.items()] or None,
        "turns": line.turns,
        "played": True if line.user else None,
        "ends": ends,
        "finish": line.finish_reason,
        "call": line.call_id,
        "usage": line.usage,
        "cost": line.cost_usd,
        "latency": line.latency_s,
        "cached": line.cached or None,
        "request": _sent(line.request),
    }
    return {name: value for name, value in fields.items() if value is not None}


def _sent(request: _Request) -> Text | None:
    """Return a request without its prompt as JSON, or None if that leaves at most a seed."""
    sent: dict[str, object] = {}
    if request.model:
        sent["model"] = request.model
    if request.decoding:
        sent["decoding"] = request.decoding
    if not sent:
        return None
    if request.seed is not None:
        sent["seed"] = request.seed
    return _text(msgspec.json.format(to_json(sent), indent=1).decode())


def _packed_score(name: str, score: Score) -> dict[str, object]:
    details = dict(score.details)
    packed: dict[str, object] = {"name": name, "value": score.value}
    if score.passed is not None:
        packed["passed"] = score.passed
    if score.reason:
        packed["reason"] = _text(score.reason)
    constraints = details.get("constraints")
    errors = details.get("errors")
    if isinstance(constraints, list) and all(map(_is_constraint, constraints)):
        del details["constraints"]
        packed["constraints"] = list(map(_packed_constraint, constraints))
    elif isinstance(errors, list) and all(map(_is_violation, errors)):
        packed["constraints"] = list(map(_packed_violation, errors))
        if details.get("n_errors") == len(errors):
            details = {}
    if details:
        packed["details"] = _text(_in_words(details))
    return packed


PackedConstraint = tuple[Text, bool | None, Text, Text, str]
"""The text of a constraint, whether it is met, what is observed and wanted, and who decided."""


def _is_constraint(entry: object) -> bool:
    return isinstance(entry, dict) and isinstance(entry.get("constraint"), str)


def _packed_constraint(entry: Mapping[str, Any]) -> PackedConstraint:
    passed = entry.get("passed")
    if not isinstance(passed, bool):
        passed = None
    observed = _value(entry.get("observed"))
    return _text(entry["constraint"]), passed, observed, _value(entry.get("target")), _votes(entry)


def _is_violation(error: object) -> bool:
    return isinstance(error, dict) and {"path", "keyword", "found", "expected"} <= error.keys()


def _packed_violation(error: Mapping[str, Any]) -> PackedConstraint:
    """Return a place in a document, and what its schema wants there, as a constraint."""
    text = _text(f"{error['path'] or 'document'}: {error['keyword']}")
    return text, False, _value(error["found"]), _value(error["expected"]), ""


def _in_words(details: Mapping[str, Any]) -> str:
    """Return short details as words, such as ``words 41``, and others as JSON."""
    brief = True
    words = []
    for name, value in details.items():
        brief = brief and (value is None or isinstance(value, int | float | str))
        words.append(f"{name} {_plain(value)}")
    text = ", ".join(words).replace(", of ", " of ")
    if brief and len(text) < BRIEF:
        return text
    return to_json(details).decode()


def _votes(constraint: Mapping[str, Any]) -> str:
    """Return in words how a criterion was decided, or ""."""
    sentences = []
    votes = constraint.get("votes")
    panel = constraint.get("panel")
    probability = constraint.get("probability")
    rule = constraint.get("rule")
    if isinstance(panel, dict):
        sentences += [f"{judge}: {_vote(vote)}" for judge, vote in panel.items()]
    elif isinstance(votes, list) and votes:
        n_yes = sum(vote is True for vote in votes)
        n_neither = votes.count(None)
        more = f", {n_neither} neither" if n_neither else ""
        sentences.append(f"{n_yes} of {len(votes)} yes{more}")
    elif constraint.get("decided_by") == "rule":
        sentences.append("decided by a rule")
    elif isinstance(probability, int | float):
        sentences.append(f"yes with probability {probability:.2f}")
    if isinstance(rule, bool):
        sentences.append(f"a rule says {_vote(rule)}")
    return "; ".join(sentences)


def _vote(vote: object) -> str:
    if isinstance(vote, bool):
        return "yes" if vote else "no"
    if vote is None:
        return "no vote"
    if isinstance(vote, float):
        return f"{vote:.2f}"
    return str(vote)


def judges_of(index: AttemptIndex) -> dict[str, str]:
    """Describe a run's judges and panels in words, by name."""
    descriptions = {}
    for name, judge in index.register.judges.items():
        kind = str(judge.section.get("name", ""))
        prompt = judge.section.get("prompt")
        words = [kind]
        if judge.members != ():
            words = [f"panel of {', '.join(judge.members)}"]
        if judge.model:
            words.append(f"model {judge.model}")
        if judge.simulated:
            words.append("simulated")
        if isinstance(prompt, str) and prompt != kind:
            words.append(f"prompt {prompt}")
        descriptions[name] = ", ".join(words)
    return descriptions


def _packed_judge(judgement: JudgeReplies, scores: Mapping[str, Score]) -> dict[str, object]:
    """Return a judge's replies, each with its criterion if known."""
    criteria: list[str] = []
    for name, score in scores.items():
        constraints = score.details.get("constraints")
        if name.startswith(f"{judgement.judge}.") and isinstance(constraints, list):
            for constraint in constraints:
                if constraint.get("decided_by") != "rule":
                    criteria.append(constraint["constraint"])
    n = 0  # replies on each criterion
    if criteria and len(judgement.replies) % len(criteria) == 0:
        n = len(judgement.replies) // len(criteria)
    replies = []
    for number, reply in enumerate(judgement.replies):
        criterion = criteria[number // n] if n else ""
        replies.append((criterion, _text(reply)))
    packed: dict[str, object] = {"name": judgement.judge, "replies": replies}
    if judgement.outcome != "ok":
        packed |= {"outcome": judgement.outcome, "error": _text(judgement.error or "")}
    return packed


def _value(value: Any) -> Text:
    if isinstance(value, list):
        return _text("\n".join(map(_plain, value)))
    return _text(_plain(value))


def _plain(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    return to_json(value).decode()


def _text(text: str) -> Text:
    if len(text) <= LONGEST_TEXT:
        return text
    return Cut(text[:LONGEST_TEXT], len(text))


UNKNOWN = "no reason was recorded"
MOST_SHOWN = 3  # reasons of an attempt
LONGEST_SHOWN = 120  # characters of such a reason
ALIKE = 3  # minimum number of reasons, differing only in what they quote, that are merged

_QUOTED = re.compile(r"(?<!\w)'[^']*'(?!\w)|\"[^\"]*\"")
_PARTS = re.compile(rf"({QUOTED_REGEX_OR_NUMBER.pattern}|N)")


@dataclass(frozen=True, slots=True)
class Failures:
    """A run's distinct reasons for failures, and which of them each failed attempt has.

    Reasons that differ only in numbers count as one, and so do exceptions of the same type that
    were raised in the same line.
    """

    reasons: Mapping[str, str]  # by kind: the reason with N for every number, which tells it apart
    of: Mapping[int, tuple[str, ...]]  # kinds, by row of the run's index
    names: Mapping[int, tuple[str, int, int]]  # instance, sample and round, by row
    told: Mapping[int, Sequence[str]]  # `reasons_told`, by row


NO_FAILURES = Failures({}, {}, {}, {})


def read_failures(index: AttemptIndex) -> Failures:
    """Return the reasons why a run's attempts failed, without judges that do not decide."""
    reasons: dict[str, str] = {}
    kinds_of: dict[int, tuple[str, ...]] = {}
    names: dict[int, tuple[str, int, int]] = {}
    texts_of: dict[int, Sequence[str]] = {}
    for row, line in read_failed_lines(index, index.ordered_rows()):
        kinds: dict[str, None] = {}
        texts = []
        for kind, reason, text in [*_reasons(line, index)] or [(UNKNOWN, UNKNOWN, "")]:
            _add_reason(reasons, kind, reason)
            kinds[kind] = None
            texts.append(text)
        kinds_of[row] = tuple(kinds)
        names[row] = line.instance, line.sample, line.round
        texts_of[row] = _shortened(texts)
    return Failures(reasons, kinds_of, names, texts_of)


def _add_reason(reasons: dict[str, str], kind: str, reason: str) -> None:
    """Add a reason of a kind, with N for the numbers in which the kind's reasons differ.

    Of two errors with the same exception, the first is an example.
    """
    first = reasons.setdefault(kind, reason)
    if first == reason or first.startswith(add_example_error(kind, "")):
        return
    parts = zip(_PARTS.split(first), _PARTS.split(reason), strict=False)
    reasons[kind] = "".join(part if part == same else "N" for part, same in parts)


def reasons_told(failed: FailedLine, index: AttemptIndex) -> list[str]:
    """Return the reasons why an attempt failed, each cut to `LONGEST_SHOWN` characters.

    At most `MOST_SHOWN` reasons are returned, and none if the attempt has no answer.
    """
    return _shortened(text for *_, text in _reasons(failed, index))


def _shortened(texts: Iterable[str]) -> list[str]:
    distinct = filter(None, dict.fromkeys(texts))
    return [to_one_line(text, LONGEST_SHOWN) for text in islice(distinct, MOST_SHOWN)]


def merged(runs: Sequence[Failures]) -> list[Failures]:
    """Return the runs' failures, merging `ALIKE` or more reasons that differ only in quoted text.

    For example, ``lacks 'Ann'``, ``lacks 'Bob'`` and ``lacks 'Eve'`` become ``lacks '…'``.
    """
    without_quotes = {}
    for run in runs:
        for kind in run.reasons:
            without_quotes[kind] = _QUOTED.sub("'…'", kind)
    counts = Counter(without_quotes.values())
    new_kind = {}
    for kind, form in without_quotes.items():
        new_kind[kind] = form if counts[form] >= ALIKE else kind
    reasons: dict[str, str] = {}  # of all runs
    for run in runs:
        for kind, reason in run.reasons.items():
            if new_kind[kind] != kind:
                reason = _QUOTED.sub("'…'", reason)
            _add_reason(reasons, new_kind[kind], reason)
    merged_runs = []
    for run in runs:
        of_run = {new_kind[kind]: reasons[new_kind[kind]] for kind in run.reasons}
        kinds_of = {}
        for row, kinds in run.of.items():
            kinds_of[row] = tuple(dict.fromkeys(new_kind[kind] for kind in kinds))
        merged_runs.append(replace(run, reasons=of_run, of=kinds_of))
    return merged_runs


def _reasons(failed: FailedLine, index: AttemptIndex) -> Iterator[tuple[str, str, str]]:
    """Yield the kind of each reason, the reason on one line, and the full text."""
    outcome = failed.outcome
    if outcome != "ok":
        kind = failed.exception or mask_numbers(failed.reason) or UNKNOWN
        line = add_example_error(failed.exception, to_one_line(failed.reason)) or UNKNOWN
        text = "" if failed.text is None else failed.reason
        yield f"{outcome}: {kind}", f"{outcome}: {line}", text
    if outcome not in ("ok", "truncated"):
        return
    judged = index.judgements is not None
    for name, score in failed.scores.items():
        if score.passed is not False:
            continue
        missed = [item for item in score.constraints() if item.passed is False]
        # As in `read_findings`: a rule and a judge may list the same constraint.
        of_score = f"{name}: " if judged else ""
        for item in missed:
            kind = f"{of_score}not met: {constraint_kind(item)}"
            yield kind, kind, of_score + (item.reason or f"not met: {item.constraint}")
        if not missed:
            kind = mask_numbers(score.reason)
            line = to_one_line(score.reason)
            yield _named(name, kind), _named(name, line), _named(name, score.reason)


def _named(name: str, text: str) -> str:
    return f"{name}: {text}" if text else name
