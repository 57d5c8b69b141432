"""Why attempts failed: each failed attempt with its reasons, and how often each reason occurs."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from msgspec import Struct

from harness.analysis.constraints import LONGEST, ScoreDetails, constraint_kind
from harness.records import OUTCOMES, Outcome
from harness.scoring import cut
from harness.store.index import AttemptIndex

UNKNOWN = "no reason was recorded"
FENCE_HINT = "If the JSON is in a ``` block, add extraction: fence to the check json_schema."

MOST_TOLD = 3  # reasons of an attempt
LONGEST_TOLD = 120  # characters of such a reason

ALIKE = 3  # reasons that differ only in what they quote, and are merged
_QUOTED = re.compile(r"(?<!\w)'[^']*'(?!\w)|\"[^\"]*\"")

_VALUE = re.compile(r"'[^']*[\\^\[{][^']*'|\d+")  # a quoted regular expression, or a number

_NO_VERDICT = {
    "truncated": "the answer reached the token limit (decoding.max_tokens)",
    "empty": "the answer has no text",
    "refused": "the model or its provider declined",
}


class FailedAttempt(Struct, frozen=True):
    """An attempt that failed, or whose call failed (outcome ``error``), and the reason."""

    instance: str
    sample: int
    round: int
    outcome: Outcome
    reason: str
    answer: str | None


class FailedLine(Struct, gc=False):
    """The fields of an attempt's line that say why it failed."""

    instance: str
    sample: int
    round: int
    outcome: Outcome
    text: str | None = None
    error: str | None = None
    scores: dict[str, ScoreDetails] = {}

    @property
    def reason(self) -> str:
        """The call's error, else the scores' reasons, else the outcome in words, else ""."""
        return self.error or reasons(self.scores) or _NO_VERDICT.get(self.outcome, "")


class AnswerLine(FailedLine, gc=False):
    """The fields of an attempt's line that show its prompt, its answer and the verdict."""

    passed: bool | None = None
    request: dict[str, Any] = {}


@dataclass(frozen=True, slots=True)
class Failures:
    """A run's distinct reasons for failures, with N for any number, and those of each attempt."""

    reasons: tuple[str, ...]
    of: Mapping[int, tuple[int, ...]]  # places in ``reasons``, by row of the run's index
    names: Mapping[int, tuple[str, int, int]]  # instance, sample and round, by row
    told: Mapping[int, Sequence[str]]  # `reasons_told`, by row


NO_FAILURES = Failures((), {}, {}, {})


def reasons(scores: Mapping[str, ScoreDetails]) -> str:
    """Return the reasons that scores give, joined by semicolons, or "" if there are none."""
    return "; ".join(score.reason for score in scores.values() if score.reason)


def read_failed(index: AttemptIndex) -> list[FailedAttempt]:
    """Return a run's failed attempts by instance, in the order of the instances' first lines."""
    return [
        FailedAttempt(one.instance, one.sample, one.round, one.outcome, one.reason, one.text)
        for _, one in _read(index)
    ]


def read_failures(index: AttemptIndex) -> Failures:
    """Return the reasons for failures, except those of judges that do not decide."""
    places: dict[str, int] = {}
    of: dict[int, tuple[int, ...]] = {}
    names: dict[int, tuple[str, int, int]] = {}
    told: dict[int, Sequence[str]] = {}
    for row, one in _read(index):
        own = [*_reasons(one, index)]
        kinds = dict.fromkeys(kind for kind, _ in own) or (UNKNOWN,)
        of[row] = tuple(places.setdefault(kind, len(places)) for kind in kinds)
        names[row] = one.instance, one.sample, one.round
        told[row] = _shortened(text for _, text in own)
    return Failures(tuple(places), of, names, told)


def reasons_told(failed: FailedLine, index: AttemptIndex) -> list[str]:
    """Return why an attempt of a run failed: reasons of at most `LONGEST_TOLD` characters each.

    At most `MOST_TOLD` are returned. There are none if the attempt has no answer.
    """
    return _shortened(text for _, text in _reasons(failed, index))


def _shortened(texts: Iterable[str]) -> list[str]:
    distinct = dict.fromkeys(texts)
    return [
        cut(" ".join(text.split()), LONGEST_TOLD)
        for text in islice(filter(None, distinct), MOST_TOLD)
    ]


def merged(runs: Sequence[Failures]) -> list[Failures]:
    """Return the runs' failures, with reasons merged that differ only in quoted text.

    At least `ALIKE` such reasons are merged into one: ``lacks 'Ann'``, ``lacks 'Bob'`` and ``lacks
    'Eve'`` become ``lacks '…'``.
    """
    every = dict.fromkeys(reason for run in runs for reason in run.reasons)
    forms = {reason: _QUOTED.sub("'…'", reason) for reason in every}
    counts = Counter(forms.values())
    told = {reason: form if counts[form] >= ALIKE else reason for reason, form in forms.items()}
    found = []
    for run in runs:
        said = [told[reason] for reason in run.reasons]
        places = {reason: at for at, reason in enumerate(dict.fromkeys(said))}
        new = [places[reason] for reason in said]
        of = {row: tuple(dict.fromkeys(new[at] for at in own)) for row, own in run.of.items()}
        found.append(Failures(tuple(places), of, run.names, run.told))
    return found


def _read(index: AttemptIndex) -> Iterator[tuple[int, FailedLine]]:
    order, table = index.in_order(), index.attempts
    failed = (table.passed == 0) | (table.outcome == OUTCOMES.index("error"))
    rows = order[failed[order]]
    yield from zip(rows.tolist(), index.read(FailedLine, rows), strict=True)


def _reasons(failed: FailedLine, index: AttemptIndex) -> Iterator[tuple[str, str]]:
    """Yield each reason twice: without its values, and with them ("" if there is no answer)."""
    if failed.outcome != "ok":
        said = "" if failed.text is None else failed.reason
        yield f"{failed.outcome}: {without_values(failed.reason) or UNKNOWN}", said
    register = {} if index.judgements is None else index.judgements.register.judges
    silent = tuple(f"{name}." for name, judge in register.items() if not judge.decides)
    for name, score in failed.scores.items() if failed.outcome in ("ok", "truncated") else ():
        if score.passed is not False or name.startswith(silent):
            continue
        missed = [one for one in score.constraints() if one.passed is False]
        # As in `read_findings`: a rule and a judge may list the same constraint.
        of_score = f"{name}: " if register else ""
        for one in missed:
            said = one.reason or f"not met: {one.constraint}"
            yield f"{of_score}not met: {constraint_kind(one)}", f"{of_score}{said}"
        if not missed:
            why = without_values(score.reason)
            yield f"{name}: {why}" if why else name, ": ".join(filter(None, (name, score.reason)))


def without_values(reason: str) -> str:
    """Return a reason on one line with its numbers replaced by N, to make similar reasons equal.

    The numbers in a regular expression are kept. The result is cut to `LONGEST` characters.

    >>> without_values("98 of 100 words")
    'N of N words'
    >>> without_values("3 lines do not match '[a-z]{2}'")
    "N lines do not match '[a-z]{2}'"
    """
    line = cut(" ".join(reason.split()), LONGEST)
    return _VALUE.sub(lambda found: "N" if found[0].isdigit() else found[0], line)
