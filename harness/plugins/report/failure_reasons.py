"""Why a run's attempts failed: their distinct reasons, and which of them each attempt has."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

from harness.analysis.failures import VALUE, FailedLine, read_failed_lines, without_values
from harness.plugins.comparisons.constraints import constraint_kind
from harness.records import with_example
from harness.store.index import AttemptIndex
from harness.wording import one_line

UNKNOWN = "no reason was recorded"
MOST_SHOWN = 3  # reasons of an attempt
LONGEST_SHOWN = 120  # characters of such a reason
ALIKE = 3  # minimum number of reasons, differing only in what they quote, that are merged

_QUOTED = re.compile(r"(?<!\w)'[^']*'(?!\w)|\"[^\"]*\"")
_PARTS = re.compile(rf"({VALUE.pattern}|N)")


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


def read_failures(index: AttemptIndex) -> Failures:
    """Return the reasons why a run's attempts failed, without judges that do not decide."""
    reason_of: dict[str, str] = {}  # by kind
    kinds_of: dict[int, tuple[int, ...]] = {}  # by row
    names: dict[int, tuple[str, int, int]] = {}
    texts_of: dict[int, Sequence[str]] = {}
    numbers: dict[str, int] = {}  # of the kinds
    for row, line in read_failed_lines(index, index.in_order()):
        kinds: dict[str, None] = {}
        texts = []
        for kind, reason, text in [*_reasons(line, index)] or [(UNKNOWN, UNKNOWN, "")]:
            reason_of[kind] = _common(kind, reason_of.get(kind, reason), reason)
            kinds[kind] = None
            texts.append(text)
        kinds_of[row] = tuple(numbers.setdefault(kind, len(numbers)) for kind in kinds)
        names[row] = line.instance, line.sample, line.round
        texts_of[row] = _shortened(texts)
    return Failures(
        tuple(numbers), tuple(reason_of[kind] for kind in numbers), kinds_of, names, texts_of
    )


def _common(kind: str, first: str, second: str) -> str:
    """Return one of two reasons of a kind, with N for the numbers in which they differ.

    Of two errors with the same exception, the first is an example.
    """
    if first == second or first.startswith(with_example(kind, "")):
        return first
    parts = zip(_PARTS.split(first), _PARTS.split(second), strict=False)
    return "".join(part if part == same else "N" for part, same in parts)


def reasons_told(failed: FailedLine, index: AttemptIndex) -> list[str]:
    """Return the reasons why an attempt failed, each cut to `LONGEST_SHOWN` characters.

    At most `MOST_SHOWN` reasons are returned, and none if the attempt has no answer.
    """
    return _shortened(text for *_, text in _reasons(failed, index))


def _shortened(texts: Iterable[str]) -> list[str]:
    distinct = filter(None, dict.fromkeys(texts))
    return [one_line(text, LONGEST_SHOWN) for text in islice(distinct, MOST_SHOWN)]


def merged(runs: Sequence[Failures]) -> list[Failures]:
    """Return the runs' failures, merging `ALIKE` or more reasons that differ only in quoted text.

    For example, ``lacks 'Ann'``, ``lacks 'Bob'`` and ``lacks 'Eve'`` become ``lacks '…'``.
    """
    all_kinds = dict.fromkeys(kind for run in runs for kind in run.kinds)
    without_quotes = {kind: _QUOTED.sub("'…'", kind) for kind in all_kinds}
    counts = Counter(without_quotes.values())
    new_kind = {}
    for kind, form in without_quotes.items():
        new_kind[kind] = form if counts[form] >= ALIKE else kind
    reason_of: dict[str, str] = {}
    for run in runs:
        for kind, reason in zip(run.kinds, run.reasons, strict=True):
            new = new_kind[kind]
            line = reason if new == kind else _QUOTED.sub("'…'", reason)
            reason_of[new] = _common(new, reason_of.get(new, line), line)
    return [_renamed(run, new_kind, reason_of) for run in runs]


def _renamed(run: Failures, new_kind: Mapping[str, str], reason_of: Mapping[str, str]) -> Failures:
    """Return a run's failures with other kinds, of which several may have become one."""
    numbers: dict[str, int] = {}
    new_number = [numbers.setdefault(new_kind[kind], len(numbers)) for kind in run.kinds]
    kinds_of = {}
    for row, places in run.of.items():
        kinds_of[row] = tuple(dict.fromkeys(new_number[place] for place in places))
    reasons = tuple(reason_of[kind] for kind in numbers)
    return Failures(tuple(numbers), reasons, kinds_of, run.names, run.told)


def _reasons(failed: FailedLine, index: AttemptIndex) -> Iterator[tuple[str, str, str]]:
    """Yield the kind of each reason, the reason on one line, and the full text."""
    if failed.outcome != "ok":
        kind = failed.exception or without_values(failed.reason) or UNKNOWN
        line = with_example(failed.exception, one_line(failed.reason)) or UNKNOWN
        text = "" if failed.text is None else failed.reason
        yield f"{failed.outcome}: {kind}", f"{failed.outcome}: {line}", text
    if failed.outcome not in ("ok", "truncated"):
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
            texts = without_values(score.reason), one_line(score.reason), score.reason
            kind, line, text = (f"{name}: {text}" if text else name for text in texts)
            yield kind, line, text
