"""Failed attempts with their reasons, and the samples of a run that have no verdict."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, TypeVar

import msgspec
import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from harness.records import OUTCOMES, Outcome
from harness.store.index import AttemptIndex
from harness.wording import to_one_line

FENCE_HINT = "If the JSON is in a ``` block, add extraction: fence to the check json_schema."
MAX_ANSWERS_SEARCHED = 100  # unparseable answers that are searched for a ``` block

QUOTED_REGEX_OR_NUMBER = re.compile(r"'[^']*[\\^\[{][^']*'|\d+")

_NO_VERDICT = {
    "truncated": "the answer reached the token limit (decoding.max_tokens)",
    "empty": "the answer has no text",
    "refused": "the model or its provider declined",
}


MAX_TEXT_CHARS = 300  # of a label, group, kind or reason of a constraint


class ListedConstraint(Struct, gc=False):
    """A constraint on an answer, as listed in a score's ``details.constraints``."""

    constraint: str  # its text
    passed: bool | None
    observed: Any = None
    target: Any = None
    kind: str = ""  # its text without the values
    reason: str = ""
    probability: Annotated[float, msgspec.Meta(ge=0, le=1)] | None = None  # of yes, by a judge
    rule: Any = None  # a rule checker's verdict on a judge's criterion
    decided_by: Any = None  # "rule" if a rule decided instead of the judge, in earlier runs
    groups: Any = None  # by label, unless malformed

    @property
    def labels(self) -> dict[str, str]:
        """The constraint's groups by label. Only strings are kept, cut to `MAX_TEXT_CHARS`."""
        groups = self.groups.items() if isinstance(self.groups, dict) else ()
        texts = ((label, group) for label, group in groups if isinstance(group, str))
        return {label[:MAX_TEXT_CHARS]: group[:MAX_TEXT_CHARS] for label, group in texts}


class _Details(Struct, gc=False):
    constraints: list[ListedConstraint] = []


class ScoreDetails(Struct, gc=False):
    """A score whose details, which may list constraints, are not decoded yet."""

    value: Any = None
    passed: bool | None = None
    reason: str = ""
    details: msgspec.Raw = msgspec.Raw(b"{}")

    def constraints(self) -> list[ListedConstraint]:
        """Return the listed constraints, or [] if the details have another form."""
        try:
            return _DETAILS.decode(self.details).constraints
        except (msgspec.MsgspecError, RecursionError):
            return []


_DETAILS = msgspec.json.Decoder(_Details)


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
        """The first of these that is known: the call's error, the scores' reasons, the outcome."""
        return self.error or join_reasons(self.scores) or _NO_VERDICT.get(self.outcome, "")


S = TypeVar("S", bound=FailedLine)


def join_reasons(scores: Mapping[str, ScoreDetails]) -> str:
    """Join the reasons of scores with semicolons."""
    return "; ".join(score.reason for score in scores.values() if score.reason)


def read_without_advisory_scores(
    index: AttemptIndex, line_type: type[S], rows: NDArray[np.intp] | Sequence[int]
) -> Iterator[S]:
    """Yield lines of attempts, without the scores of judges that do not decide.

    Args:
        index: The index of the run's attempts.
        line_type: The record as which a line is read.
        rows: The rows of the lines in the index.
    """
    judges = index.register.judges
    advisory_prefixes = tuple(f"{name}." for name, judge in judges.items() if not judge.decides)
    for line in index.read(line_type, rows):
        scores = line.scores.items()
        line.scores = {
            name: score for name, score in scores if not name.startswith(advisory_prefixes)
        }
        yield line


def read_failed_lines(
    index: AttemptIndex, order: NDArray[np.intp]
) -> Iterator[tuple[int, FailedLine]]:
    """Yield the row and the line of each failed attempt or call.

    Args:
        index: The index of the run's attempts.
        order: The rows of the index, in the order in which they are read.
    """
    table = index.attempts.turns or index.attempts
    failed = (table.passed == 0) | (table.outcome == OUTCOMES.index("error"))
    rows = order[failed[order]]
    yield from zip(
        rows.tolist(), read_without_advisory_scores(index, FailedLine, rows), strict=True
    )


def fence_hint(index: AttemptIndex, settings: object) -> str:
    """Return `FENCE_HINT` if an unparseable answer has a ``` block, or else "".

    Args:
        index: The index of the run's attempts.
        settings: The settings of the task. If they set ``extraction``, the result is "".
    """
    if "extraction" in str(settings):
        return ""
    unparseable = index.attempts.outcome == OUTCOMES.index("unparseable")
    lines = index.read(FailedLine, np.flatnonzero(unparseable)[:MAX_ANSWERS_SEARCHED])
    return FENCE_HINT if any("```" in (line.text or "") for line in lines) else ""


def mask_numbers(reason: str) -> str:
    """Put a reason on one line, and replace its numbers by N, except in regular expressions.

    >>> mask_numbers("98 of 100 words")
    'N of N words'
    >>> mask_numbers("3 lines do not match '[a-z]{2}'")
    "N lines do not match '[a-z]{2}'"
    """
    return QUOTED_REGEX_OR_NUMBER.sub(
        lambda match: "N" if match[0].isdigit() else match[0], to_one_line(reason)
    )
