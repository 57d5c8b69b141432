"""What judges say of each answer, verdict by verdict: of its criteria, or else of its scores.

A judge that decides on criteria tells of them in a score's ``details.constraints``
(`harness.store.judged_constraints`); with ``probability``, that of yes, where it knows one, and
``rule``, a rule checker's verdict on the same criterion, where there is one; ``decided_by`` is
``rule`` where that stands in the judge's place, who was not asked. A judge that tells of
none gives one verdict for each of its scores that is true, false or could not be made. Of each
sample's last round, the last judgement of the text that the attempt has counts.

>>> for answer in read_answers(Path("runs/none/attempts.jsonl"), ["yes_no"]):
...     print(answer.instance, answer.said)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import msgspec

from harness.records import Outcome
from harness.store.findings import own_groups
from harness.store.judgements import (
    UNREADABLE,
    JudgementOutcome,
    lines_of,
    not_a_judgement,
    read_register,
    text_hash,
    unreadable,
)
from harness.store.run_folder import JUDGEMENTS
from harness.store.whole import read_lines, read_places

BY_RULE = "rule"
"""``decided_by`` of a criterion that the judge was not asked about."""

LONGEST = 300
"""Characters of a label or group, as in `harness.store.findings`."""


class Verdict(NamedTuple):
    """One verdict of a judge on an answer.

    criterion: its text, or the name of the score without the judge's.
    passed: None where the judge abstained.
    probability: of yes; None where it is not known.
    rule: what a rule checker says of it; None for nothing.
    by_rule: the rule decided, and the judge was not asked.
    groups: labels of its own, each with a group.
    """

    criterion: str
    passed: bool | None
    probability: float | None = None
    rule: bool | None = None
    by_rule: bool = False
    groups: Mapping[str, str] = {}


class Said(NamedTuple):
    """What a judge said of an answer. outcome: of its judgement; verdicts: empty for none."""

    outcome: JudgementOutcome
    verdicts: tuple[Verdict, ...]


class Answer(NamedTuple):
    """A sample's last answer.

    attempt: names its text (`harness.store.judgements.text_hash`).
    said: by each of the judges asked for; None where one has not judged it.
    """

    instance: str
    sample: int
    cluster: str
    attempt: str
    said: tuple[Said | None, ...]


def read_answers(path: Path, judges: Sequence[str]) -> Iterator[Answer]:
    """Every sample's last answer, with what some judges said of it.

    path: of the run's attempts.
    judges: their names in the run.

    Raises: DataInvalid, StoreFailed.
    """
    put_before = set(read_register(path.parent).judged)
    places = read_places(path)
    judgements = _Judgements(path.parent / JUDGEMENTS, judges)
    try:
        for line in read_lines(path, places, _Attempt, places.last_rounds(None)):
            attempt = text_hash(line.text or "")
            name = (line.instance, line.sample, line.round, attempt)
            said = tuple(
                judgements.of(judge, name) if line.outcome in put_before else None
                for judge in judges
            )
            yield Answer(line.instance, line.sample, line.cluster, attempt, said)
    finally:
        judgements.close()


def judges_with_verdicts(path: Path) -> list[str]:
    """The judges of a run that give verdicts, in the order of its register.

    path: of the run's attempts. Raises: DataInvalid, StoreFailed.
    """
    known = list(read_register(path.parent).judges)
    found = set[str]()
    for _, _, line in lines_of(path.parent / JUDGEMENTS, _DECODER.decode):
        if line.judge in known and line.judge not in found and _verdicts(line):
            found.add(line.judge)
    return [name for name in known if name in found]


class _Judgements:
    """Where in the file some judges' last words on each text are."""

    def __init__(self, path: Path, judges: Sequence[str]) -> None:
        self._path = path
        self._at: dict[tuple[str, int], tuple[int, int]] = {}
        for number, offset, line in lines_of(path, _DECODER.decode):
            if line.judge in judges:
                key = hash((line.instance, line.sample, line.round, line.attempt))
                self._at[line.judge, key] = offset, number
        self._file = path.open("rb") if self._at else None

    def of(self, judge: str, name: tuple[str, int, int, str]) -> Said | None:
        """What a judge last said of an attempt and its text."""
        found = self._at.get((judge, hash(name)))
        if found is None or self._file is None:
            return None
        offset, number = found
        try:
            self._file.seek(offset)
            line = _DECODER.decode(self._file.readline())
        except OSError as error:
            raise unreadable(self._path, error) from None
        except UNREADABLE as error:
            raise not_a_judgement(self._path, number, error) from None
        return Said(line.outcome, _verdicts(line))

    def close(self) -> None:
        if self._file is not None:
            self._file.close()


class _Attempt(msgspec.Struct, gc=False):
    instance: str
    sample: int
    round: int
    cluster: str
    outcome: Outcome
    text: str | None = None


class _Score(msgspec.Struct, gc=False):
    value: Any = None
    passed: bool | None = None
    details: msgspec.Raw = msgspec.Raw(b"{}")


class _Judgement(msgspec.Struct, gc=False):
    v: int
    judge: str
    instance: str
    sample: int
    round: int
    attempt: str
    outcome: JudgementOutcome
    scores: dict[str, _Score] = {}


class _Constraint(msgspec.Struct, gc=False):
    constraint: str
    passed: bool | None
    probability: Annotated[float, msgspec.Meta(ge=0, le=1)] | None = None
    rule: Any = None
    decided_by: Any = None
    groups: Any = None


class _Details(msgspec.Struct, gc=False):
    constraints: list[_Constraint] = []


_DECODER = msgspec.json.Decoder(_Judgement)
_DETAILS = msgspec.json.Decoder(_Details)


def _verdicts(line: _Judgement) -> tuple[Verdict, ...]:
    """Those on the constraints of the first score that tells of any, else those of the scores."""
    for score in line.scores.values():
        try:
            details = _DETAILS.decode(score.details)
        except (msgspec.MsgspecError, RecursionError):  # a judge's own details
            continue
        if details.constraints:
            return tuple(map(_on_constraint, details.constraints))
    own = {name.removeprefix(f"{line.judge}."): score for name, score in line.scores.items()}
    return tuple(
        Verdict(name, _of_score(score), groups={"score": name[:LONGEST]})
        for name, score in own.items()
        if score.value is None or _of_score(score) is not None
    )


def _on_constraint(found: _Constraint) -> Verdict:
    return Verdict(
        found.constraint,
        found.passed,
        found.probability,
        found.rule if isinstance(found.rule, bool) else None,
        found.decided_by == BY_RULE,
        own_groups(found.groups),
    )


def _of_score(score: _Score) -> bool | None:
    if score.value is None:
        return None
    if score.passed is not None:
        return score.passed
    return score.value if isinstance(score.value, bool) else None
