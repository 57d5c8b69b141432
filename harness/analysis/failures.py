"""Why attempts failed: each failed attempt with its reasons, and how often each reason occurs."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from msgspec import Struct

from harness.analysis.constraints import LONGEST, ScoreDetails, constraint_kind
from harness.records import OUTCOMES, Outcome, Score
from harness.scoring import cut
from harness.store.index import AttemptIndex

UNKNOWN = "no reason was recorded"
FENCE_HINT = "If the JSON is in a ``` block, add extraction: fence to the check json_schema."

ALIKE = 3  # reasons that differ only in what they quote, and are merged
_QUOTED = re.compile(r"(?<!\w)'[^']*'(?!\w)|\"[^\"]*\"")

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


class _Failed(Struct, gc=False):
    instance: str
    sample: int
    round: int
    outcome: Outcome
    text: str | None = None
    error: str | None = None
    scores: dict[str, ScoreDetails] = {}

    @property
    def reason(self) -> str:
        """The call's error or, if there is none, the reasons that the scores give."""
        return self.error or reasons(self.scores) or _NO_VERDICT.get(self.outcome, "")


@dataclass(frozen=True, slots=True)
class Failures:
    """A run's distinct reasons for failures, with N for any number, and those of each attempt."""

    reasons: tuple[str, ...]
    of: Mapping[int, tuple[int, ...]]  # places in ``reasons``, by row of the run's index
    names: Mapping[int, tuple[str, int, int]]  # instance, sample and round, by row


NO_FAILURES = Failures((), {}, {})


def reasons(scores: Mapping[str, ScoreDetails] | Mapping[str, Score]) -> str:
    """Return the reasons of all scores that have one, on one line."""
    return "; ".join(score.reason for score in scores.values() if score.reason)


def read_failed(index: AttemptIndex) -> list[FailedAttempt]:
    """Return a run's failed attempts in the order in which they are stored."""
    return [
        FailedAttempt(one.instance, one.sample, one.round, one.outcome, one.reason, one.text)
        for _, one in _read(index)
    ]


def read_failures(index: AttemptIndex) -> Failures:
    """Return the reasons for failures, except those of judges that do not decide."""
    register = {} if index.judgements is None else index.judgements.register.judges
    silent = tuple(f"{name}." for name, judge in register.items() if not judge.decides)
    places: dict[str, int] = {}
    of: dict[int, tuple[int, ...]] = {}
    names: dict[int, tuple[str, int, int]] = {}
    for row, one in _read(index):
        own = _kinds(one, silent, bool(register))
        of[row] = tuple(places.setdefault(reason, len(places)) for reason in own)
        names[row] = one.instance, one.sample, one.round
    return Failures(tuple(places), of, names)


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
        found.append(Failures(tuple(places), of, run.names))
    return found


def _read(index: AttemptIndex) -> Iterator[tuple[int, _Failed]]:
    order, table = index.in_order(), index.attempts
    failed = (table.passed == 0) | (table.outcome == OUTCOMES.index("error"))
    rows = order[failed[order]]
    yield from zip(rows.tolist(), index.read(_Failed, rows), strict=True)


def _kinds(failed: _Failed, silent: tuple[str, ...], judged: bool) -> list[str]:
    found: dict[str, None] = {}
    if failed.outcome != "ok":
        found[f"{failed.outcome}: {without_values(failed.reason) or UNKNOWN}"] = None
    for name, score in failed.scores.items() if failed.outcome in ("ok", "truncated") else ():
        if score.passed is not False or name.startswith(silent):
            continue
        missed = [one for one in score.constraints() if one.passed is False]
        # As in `read_findings`: a rule and a judge may list the same constraint.
        found |= {f"{name}: " * judged + f"not met: {constraint_kind(one)}": None for one in missed}
        if not missed:
            why = without_values(score.reason)
            found[f"{name}: {why}" if why else name] = None
    return list(found) or [UNKNOWN]


def without_values(reason: str) -> str:
    """Return a reason on one line with its numbers replaced by N, to make similar reasons equal.

    >>> without_values("98 of 100 words")
    'N of N words'
    """
    return re.sub(r"\d+", "N", cut(" ".join(reason.split()), LONGEST))
