"""Failed attempts with their reasons, and the samples of a run that have no verdict."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
from msgspec import Struct
from msgspec.json import Decoder
from numpy.typing import NDArray

from harness.analysis.comparable import Run
from harness.analysis.constraints import ScoreDetails
from harness.records import OUTCOMES, Outcome, with_example
from harness.store.columns import AttemptTable, Bools
from harness.store.index import AttemptIndex
from harness.store.judgements import FAILED, Judgement, read_register
from harness.store.run_folder import RunFolder
from harness.wording import one_line

FENCE_HINT = "If the JSON is in a ``` block, add extraction: fence to the check json_schema."
LOOKED_AT = 100  # unparseable answers in which a ``` block is looked for

VALUE = re.compile(r"'[^']*[\\^\[{][^']*'|\d+")  # a quoted regular expression, or a number

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


def read_failed_lines(
    index: AttemptIndex, order: NDArray[np.intp]
) -> Iterator[tuple[int, FailedLine]]:
    """Yield the row and the line of each failed attempt or call, in the given order of rows."""
    table = index.attempts.turns or index.attempts
    failed = (table.passed == 0) | (table.outcome == OUTCOMES.index("error"))
    rows = order[failed[order]]
    yield from zip(rows.tolist(), read_deciding(index, FailedLine, rows), strict=True)


def read_failed(index: AttemptIndex, first: Iterable[str] = ()) -> list[FailedAttempt]:
    """Return a run's failed attempts, sorted as by `AttemptIndex.rows_by_name`.

    Their reasons leave out judges that do not decide what passes.
    """
    return [
        FailedAttempt(
            *(line.instance, line.sample, line.round, line.outcome, line.reason, line.text),
            exception=line.exception,
        )
        for _, line in read_failed_lines(index, index.rows_by_name(first))
    ]


def by_reason(attempts: Iterable[FailedAttempt]) -> list[tuple[int, Outcome, str]]:
    """Return how many attempts failed for each reason, with the outcome, the most frequent first.

    Reasons that differ only in numbers count as one, and so do exceptions of the same type that
    were raised in the same line.
    """
    counts = Counter[tuple[Outcome, str]]()
    texts: dict[tuple[Outcome, str], str] = {}
    for attempt in attempts:
        text = without_values(attempt.reason)
        kind = attempt.outcome, attempt.exception or text
        if attempt.exception:
            text = with_example(attempt.exception, one_line(attempt.reason))
        texts.setdefault(kind, text)
        counts[kind] += 1
    return [(n, kind[0], texts[kind]) for kind, n in counts.most_common()]


def fence_hint(index: AttemptIndex, settings: object) -> str:
    """Return `FENCE_HINT`, or "" if extraction is set or no unparseable answer has a ``` block."""
    if "extraction" in str(settings):
        return ""
    unparseable = index.attempts.outcome == OUTCOMES.index("unparseable")
    lines = index.read(FailedLine, np.flatnonzero(unparseable)[:LOOKED_AT])
    return FENCE_HINT if any("```" in (line.text or "") for line in lines) else ""


def without_values(reason: str) -> str:
    """Return a reason on one line, with its numbers replaced by N.

    The numbers in a regular expression are kept. The result is cut to `LONGEST` characters.

    >>> without_values("98 of 100 words")
    'N of N words'
    >>> without_values("3 lines do not match '[a-z]{2}'")
    "N lines do not match '[a-z]{2}'"
    """
    return VALUE.sub(lambda match: "N" if match[0].isdigit() else match[0], one_line(reason))


class Unjudged(Struct, frozen=True, kw_only=True):
    """Counts of the samples whose last round lacks a verdict, or a score that it should have."""

    run: str
    lacking: str = "verdict"  # what they lack, such as "quality"
    n_samples: int  # all samples of the run
    failed_calls: int
    no_judgement: int  # answers whose judgement failed or is missing, which a repeat judges
    final: int = 0  # answers that were judged without a verdict, which a repeat does not retry
    unanswered: Mapping[Outcome, int] = {}  # crashes, refusals and the like without the score
    allowed: bool  # whether the share of all these samples is at most ``max_unjudged``

    @property
    def n(self) -> int:
        """The number of samples that lack a verdict or a score."""
        return self.failed_calls + self.no_judgement + self.final + sum(self.unanswered.values())


def unjudged(folder: RunFolder, run: Run, scores: Sequence[str], allowed: float) -> Unjudged:
    """Count the samples of a run that should have one of the ``scores`` but lack it.

    ``allowed`` is the share of samples that may lack a score.
    """
    variant, table = run
    last = table.is_last_round()
    without_answer = table.judged & (table.outcome != OUTCOMES.index("ok"))
    lacking = np.zeros(len(table), np.bool_)
    without_judgement = set[int]()
    unscored = []
    for score in scores:
        absent = last & _lacks(folder, table, score)
        lacking |= absent
        if absent.any():
            rows = np.flatnonzero(absent).tolist()
            without_judgement |= _without_judgement(folder, score).intersection(rows)
        if (absent & without_answer).any():
            unscored.append(score)
    n = int(lacking.sum())
    n_samples = int(last.sum())
    failed = int((table.outcome[lacking] == OUTCOMES.index("error")).sum())
    lacking[list(without_judgement)] = False
    codes = table.outcome[lacking & without_answer]
    unanswered = Counter(OUTCOMES[code] for code in codes.tolist())
    return Unjudged(
        run=variant.name,
        lacking=" or ".join(unscored) or "verdict",
        n_samples=n_samples,
        failed_calls=failed,
        no_judgement=len(without_judgement),
        final=n - failed - len(without_judgement) - unanswered.total(),
        unanswered=unanswered,
        allowed=n <= allowed * n_samples,
    )


def _without_judgement(folder: RunFolder, score: str) -> set[int]:
    """Return the rows of attempts for which a needed judgement is missing or has failed."""
    registered = read_register(folder.path).judges
    judge = score.partition(".")[0]
    judges = [judge, *registered[judge].members] if judge in registered else deciding(folder)
    return {*AttemptIndex(folder.attempts).owed_judgements(judges, FAILED)}


def deciding(folder: RunFolder) -> list[str]:
    """Return the names of a run's judges and panels that decide what passes."""
    judges = read_register(folder.path).judges
    return [name for name, judge in judges.items() if judge.decides]


def _lacks(folder: RunFolder, table: AttemptTable, score: str) -> Bools:
    """Return an (n,) mask of the attempts that lack the score or, for a pass rate, a verdict.

    If an answer with the outcome ``ok`` has a verdict and no needed judgement has failed, the score
    does not apply to it. Attempts that failed without an answer, such as crashes, lack the score.
    """
    if score not in table.scores:
        return ~table.judged
    absent = ~table.measured(score)
    if not absent.any():
        return absent
    passed_or_failed: Bools = table.judged & (table.outcome == OUTCOMES.index("ok"))
    index = AttemptIndex(folder.attempts)
    judge = score.partition(".")[0]
    registered = index.register.judges
    if judge not in registered:
        return absent & ~passed_or_failed
    rows = np.flatnonzero(absent & passed_or_failed)
    judges = registered[judge].members or (judge,)
    for row, judgements in zip(
        rows, index.said(rows, Decoder(Judgement).decode, judges), strict=True
    ):
        has_failed = any(judgement and judgement.outcome in FAILED for judgement in judgements)
        absent[row] = has_failed
    return absent
