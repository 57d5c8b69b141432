"""Why attempts failed: each failed attempt with its reasons, and how often each reason occurs."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, TypeVar

import numpy as np
from msgspec import Struct
from msgspec.json import Decoder
from numpy.typing import NDArray

from harness.analysis.comparable import Run
from harness.analysis.constraints import ScoreDetails, constraint_kind
from harness.records import OUTCOMES, Outcome, with_example
from harness.store.columns import AttemptTable, Bools
from harness.store.index import AttemptIndex
from harness.store.judgements import FAILED, Judgement, read_register
from harness.store.run_folder import RunFolder
from harness.wording import one_line

UNKNOWN = "no reason was recorded"
FENCE_HINT = "If the JSON is in a ``` block, add extraction: fence to the check json_schema."
LOOKED_AT = 100  # unparseable answers in which a ``` block is looked for

MOST_TOLD = 3  # reasons of an attempt
LONGEST_TOLD = 120  # characters of such a reason

ALIKE = 3  # minimum number of reasons, differing only in what they quote, that are merged
_QUOTED = re.compile(r"(?<!\w)'[^']*'(?!\w)|\"[^\"]*\"")

_VALUE = re.compile(r"'[^']*[\\^\[{][^']*'|\d+")  # a quoted regular expression, or a number

_PARTS = re.compile(rf"({_VALUE.pattern}|N)")

_NO_VERDICT = {
    "truncated": "the answer reached the token limit (decoding.max_tokens)",
    "empty": "the answer has no text",
    "refused": "the model or its provider declined",
}


class FailedAttempt(Struct, frozen=True):
    """A failed attempt, or a failed call (outcome ``error``), with the reason."""

    instance: str
    sample: int
    round: int
    outcome: Outcome
    reason: str
    answer: str | None
    exception: str = ""  # in the application's code: "KeyError at app.py:12"


class FailedLine(Struct, gc=False):
    """The fields of an attempt's line that say why it failed."""

    instance: str
    sample: int
    round: int
    outcome: Outcome
    text: str | None = None
    error: str | None = None
    exception: str = ""
    scores: dict[str, ScoreDetails] = {}

    @property
    def reason(self) -> str:
        """The call's error, else the scores' reasons, else the outcome in words, else ""."""
        return self.error or reasons(self.scores) or _NO_VERDICT.get(self.outcome, "")


S = TypeVar("S", bound=FailedLine)


class AnswerLine(FailedLine, gc=False):
    """The fields of an attempt's line that show its prompt, answer and verdict."""

    passed: bool | None = None
    request: dict[str, Any] = {}


@dataclass(frozen=True, slots=True)
class Failures:
    """A run's distinct reasons for failures, and which of them each failed attempt has.

    Reasons that differ only in numbers count as one, and so do exceptions of the same type that
    were raised in the same line.
    """

    kinds: tuple[str, ...]  # the reasons with N for every number, which tell them apart
    reasons: tuple[str, ...]
    of: Mapping[int, tuple[int, ...]]  # places in ``reasons``, by row of the run's index
    names: Mapping[int, tuple[str, int, int]]  # instance, sample and round, by row
    told: Mapping[int, Sequence[str]]  # `reasons_told`, by row


NO_FAILURES = Failures((), (), {}, {}, {})


def reasons(scores: Mapping[str, ScoreDetails]) -> str:
    """Return the reasons that scores give, joined by semicolons."""
    return "; ".join(score.reason for score in scores.values() if score.reason)


def read_deciding(
    index: AttemptIndex, shape: type[S], rows: NDArray[np.intp] | Sequence[int]
) -> Iterator[S]:
    """Yield lines of attempts, without the scores of judges that do not decide."""
    judges = index.register.judges
    silent = tuple(f"{name}." for name, judge in judges.items() if not judge.decides)
    for line in index.read(shape, rows):
        scores = line.scores.items()
        line.scores = {name: score for name, score in scores if not name.startswith(silent)}
        yield line


def read_failed(index: AttemptIndex, first: Iterable[str] = ()) -> list[FailedAttempt]:
    """Return a run's failed attempts, sorted as by `AttemptIndex.rows_by_name`.

    Their reasons leave out judges that do not decide what passes.
    """
    return [
        FailedAttempt(
            *(one.instance, one.sample, one.round, one.outcome, one.reason, one.text),
            exception=one.exception,
        )
        for _, one in _read(index, index.rows_by_name(first))
    ]


def by_reason(failed: Iterable[FailedAttempt]) -> list[tuple[int, Outcome, str]]:
    """Return how many attempts failed for each reason, with the outcome, the most frequent first.

    Reasons are grouped as in `Failures`.
    """
    counts = Counter[tuple[Outcome, str]]()
    texts: dict[tuple[Outcome, str], str] = {}
    for one in failed:
        reason = without_values(one.reason)
        kind = one.outcome, one.exception or reason
        text = with_example(one.exception, one_line(one.reason)) if one.exception else reason
        texts.setdefault(kind, text)
        counts[kind] += 1
    return [(n, kind[0], texts[kind]) for kind, n in counts.most_common()]


def fence_hint(index: AttemptIndex, settings: object) -> str:
    """Return `FENCE_HINT`, or "" if extraction is set or no unparseable answer has a ``` block."""
    if "extraction" in str(settings):
        return ""
    unparseable = index.attempts.outcome == OUTCOMES.index("unparseable")
    failed = index.read(FailedLine, np.flatnonzero(unparseable)[:LOOKED_AT])
    return FENCE_HINT if any("```" in (one.text or "") for one in failed) else ""


def read_failures(index: AttemptIndex) -> Failures:
    """Return the reasons why a run's attempts failed, without judges that do not decide."""
    lines: dict[str, str] = {}  # by kind
    of: dict[int, tuple[int, ...]] = {}
    names: dict[int, tuple[str, int, int]] = {}
    told: dict[int, Sequence[str]] = {}
    places: dict[str, int] = {}
    for row, one in _read(index, index.in_order()):
        own = [*_reasons(one, index)] or [(UNKNOWN, UNKNOWN, "")]
        for kind, line, _ in own:
            lines[kind] = _common(kind, lines.get(kind, line), line)
        kinds = dict.fromkeys(kind for kind, *_ in own)
        of[row] = tuple(places.setdefault(kind, len(places)) for kind in kinds)
        names[row] = one.instance, one.sample, one.round
        told[row] = _shortened(text for *_, text in own)
    return Failures(tuple(places), tuple(map(lines.__getitem__, places)), of, names, told)


def _common(kind: str, one: str, other: str) -> str:
    """Return one of two reasons of a kind, with N for the numbers in which they differ.

    Of two errors with the same exception, the first is an example.
    """
    if one == other or one.startswith(with_example(kind, "")):
        return one
    parts = zip(_PARTS.split(one), _PARTS.split(other), strict=False)
    return "".join(part if part == same else "N" for part, same in parts)


def reasons_told(failed: FailedLine, index: AttemptIndex) -> list[str]:
    """Return the reasons why an attempt failed, each cut to `LONGEST_TOLD` characters.

    At most `MOST_TOLD` reasons are returned, and none if the attempt has no answer.
    """
    return _shortened(text for *_, text in _reasons(failed, index))


def _shortened(texts: Iterable[str]) -> list[str]:
    distinct = dict.fromkeys(texts)
    return [one_line(text, LONGEST_TOLD) for text in islice(filter(None, distinct), MOST_TOLD)]


def merged(runs: Sequence[Failures]) -> list[Failures]:
    """Return the runs' failures, merging `ALIKE` or more reasons that differ only in quoted text.

    For example, ``lacks 'Ann'``, ``lacks 'Bob'`` and ``lacks 'Eve'`` become ``lacks '…'``.
    """
    every = dict.fromkeys(kind for run in runs for kind in run.kinds)
    forms = {kind: _QUOTED.sub("'…'", kind) for kind in every}
    counts = Counter(forms.values())
    new = {kind: form if counts[form] >= ALIKE else kind for kind, form in forms.items()}
    lines: dict[str, str] = {}
    for run in runs:
        for kind, reason in zip(run.kinds, run.reasons, strict=True):
            line = reason if new[kind] == kind else _QUOTED.sub("'…'", reason)
            lines[new[kind]] = _common(new[kind], lines.get(new[kind], line), line)
    found = []
    for run in runs:
        said = [new[kind] for kind in run.kinds]
        places = {kind: at for at, kind in enumerate(dict.fromkeys(said))}
        at = [places[kind] for kind in said]
        of = {row: tuple(dict.fromkeys(at[one] for one in own)) for row, own in run.of.items()}
        told = tuple(map(lines.__getitem__, places))
        found.append(Failures(tuple(places), told, of, run.names, run.told))
    return found


def _read(index: AttemptIndex, order: NDArray[np.intp]) -> Iterator[tuple[int, FailedLine]]:
    table = index.attempts.turns or index.attempts
    failed = (table.passed == 0) | (table.outcome == OUTCOMES.index("error"))
    rows = order[failed[order]]
    yield from zip(rows.tolist(), read_deciding(index, FailedLine, rows), strict=True)


def _reasons(failed: FailedLine, index: AttemptIndex) -> Iterator[tuple[str, str, str]]:
    """Yield the kind of each reason, the reason on one line, and the full text."""
    if failed.outcome != "ok":
        said = "" if failed.text is None else failed.reason
        kind = failed.exception or without_values(failed.reason)
        line = with_example(failed.exception, one_line(failed.reason))
        yield f"{failed.outcome}: {kind or UNKNOWN}", f"{failed.outcome}: {line or UNKNOWN}", said
    judged = index.judgements is not None
    for name, score in failed.scores.items() if failed.outcome in ("ok", "truncated") else ():
        if score.passed is not False:
            continue
        missed = [one for one in score.constraints() if one.passed is False]
        # As in `read_findings`: a rule and a judge may list the same constraint.
        of_score = f"{name}: " if judged else ""
        for one in missed:
            said = one.reason or f"not met: {one.constraint}"
            kind = f"{of_score}not met: {constraint_kind(one)}"
            yield kind, kind, f"{of_score}{said}"
        if not missed:
            each = without_values(score.reason), one_line(score.reason), score.reason
            kind, line, said = (f"{name}: {text}" if text else name for text in each)
            yield kind, line, said


def without_values(reason: str) -> str:
    """Return a reason on one line, with its numbers replaced by N.

    The numbers in a regular expression are kept. The result is cut to `LONGEST` characters.

    >>> without_values("98 of 100 words")
    'N of N words'
    >>> without_values("3 lines do not match '[a-z]{2}'")
    "N lines do not match '[a-z]{2}'"
    """
    return _VALUE.sub(lambda found: "N" if found[0].isdigit() else found[0], one_line(reason))


class Unjudged(Struct, frozen=True, kw_only=True):
    """Counts of the samples whose last round lacks a verdict, or a score that it should have."""

    run: str
    n_samples: int  # all samples of the run
    failed_calls: int
    no_judgement: int  # answers whose judgement failed or is missing, which a repeat judges
    final: int = 0  # answers that were judged without a verdict, which a repeat does not retry
    allowed: bool  # whether the share of all these samples is at most ``max_unjudged``


def unjudged(folder: RunFolder, run: Run, scores: Sequence[str], allowed: float) -> Unjudged:
    """Count the samples of a run that should have one of the ``scores`` but lack it.

    ``allowed`` is the share of samples that may lack a score.
    """
    table, last = run[1], run[1].is_last_round()
    lacking, owed = np.zeros(len(table), np.bool_), set[int]()
    for score in scores:
        absent = last & _lacks(folder, table, score)
        lacking |= absent
        if absent.any():
            owed |= _owed(folder, score).intersection(np.flatnonzero(absent).tolist())
    n = int(lacking.sum())
    failed = int((table.outcome[lacking] == OUTCOMES.index("error")).sum())
    return Unjudged(
        run=run[0].name,
        n_samples=int(last.sum()),
        failed_calls=failed,
        no_judgement=len(owed),
        final=n - failed - len(owed),
        allowed=n <= allowed * int(last.sum()),
    )


def _owed(folder: RunFolder, score: str) -> set[int]:
    """Return the rows of attempts for which a needed judgement is missing or has failed."""
    known, judge = read_register(folder.path).judges, score.partition(".")[0]
    judges = [judge, *known[judge].members] if judge in known else deciding(folder)
    return {*AttemptIndex(folder.attempts).owed_judgements(judges, FAILED)}


def deciding(folder: RunFolder) -> list[str]:
    """Return the names of a run's judges and panels that decide what passes."""
    return [name for name, one in read_register(folder.path).judges.items() if one.decides]


def _lacks(folder: RunFolder, table: AttemptTable, score: str) -> Bools:
    """Return an (n,) mask of the attempts that lack the score or, for a pass rate, a verdict.

    If an answer has a verdict and no needed judgement has failed, the score does not apply to it.
    """
    if score not in table.scores:
        return ~table.judged
    absent = ~table.measured(score)
    if not absent.any():
        return absent
    index, judge = AttemptIndex(folder.attempts), score.partition(".")[0]
    known = index.register.judges
    if judge in known:
        rows = np.flatnonzero(absent & table.judged)
        said = index.said(rows, Decoder(Judgement).decode, known[judge].members or (judge,))
        kept = [not any(one and one.outcome in FAILED for one in found) for found in said]
        absent[rows[kept]] = False
        return absent
    return absent & ~table.judged
