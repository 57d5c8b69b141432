"""Answers and failed attempts, with the reasons."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

from msgspec import Struct, field

from harness.analysis.failures import FailedLine, read_failed_lines, without_values
from harness.records import Outcome, with_example
from harness.store.index import AttemptIndex
from harness.wording import one_line


class FailedAttempt(Struct, frozen=True):
    """A failed attempt, or a failed call (outcome ``error``), with the reason."""

    instance: str
    sample: int
    round: int
    outcome: Outcome
    reason: str
    answer: str | None
    exception: str = ""  # in the application's code: "KeyError at app.py:12"


class AnswerLine(FailedLine, gc=False):
    """The fields of an attempt's line that show its prompt, answer and verdict."""

    passed: bool | None = None
    request: dict[str, Any] = field(default_factory=dict)


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
