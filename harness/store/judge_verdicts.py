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
from harness.store.judgement_places import JudgementPlaces
from harness.store.judgements import JudgementOutcome, lines_of, read_register, text_hash
from harness.store.run_folder import JUDGEMENTS
from harness.store.whole import Places, read_lines, read_places

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
    """What a judge said of an answer.

    outcome: of its judgement.
    verdicts: empty for none.
    of_criteria: they are on criteria, and not on the scores themselves.
    """

    outcome: JudgementOutcome
    verdicts: tuple[Verdict, ...]
    of_criteria: bool = False


class Answer(NamedTuple):
    """A sample's last answer.

    attempt: names its text (`harness.store.judgements.text_hash`).
    outcome: of the attempt.
    groups: the instance's.
    said: by each of the judges asked for; None where one has not judged it.
    """

    instance: str
    sample: int
    cluster: str
    attempt: str
    said: tuple[Said | None, ...]
    outcome: Outcome = "ok"
    groups: Mapping[str, str] = {}


def read_answers(
    path: Path, judges: Sequence[str], places: Places | None = None, round_: int | None = None
) -> Iterator[Answer]:
    """Every sample's last answer, with what some judges said of it.

    path: of the run's attempts.
    judges: their names in the run.
    places: of the file, where they are known already.
    round_: the last round up to this one is meant; None for the last.

    Raises: DataInvalid, StoreFailed.
    """
    put_before = set(read_register(path.parent).judged)
    places = places or read_places(path)
    judgements = JudgementPlaces(path.parent, _Judgement)
    for line in read_lines(path, places, _Attempt, places.last_rounds(round_)):
        attempt = text_hash(line.text or "")
        latest: Mapping[str, _Judgement] = {}
        if line.outcome in put_before:
            latest = judgements.of(line.instance, line.sample, line.round, attempt)
        yield Answer(
            *(line.instance, line.sample, line.cluster, attempt),
            said=tuple(_said(latest[name]) if name in latest else None for name in judges),
            outcome=line.outcome,
            groups=line.groups,
        )


def judges_with_verdicts(path: Path, *, of_criteria: bool = False) -> list[str]:
    """The judges of a run that give verdicts, in the order of its register.

    path: of the run's attempts.
    of_criteria: only those that decide on criteria.

    Raises: DataInvalid, StoreFailed.
    """
    known = list(read_register(path.parent).judges)
    found = set[str]()
    for _, _, line in lines_of(path.parent / JUDGEMENTS, _DECODER.decode):
        if line.judge in found:
            continue
        said = _said(line)
        if said.of_criteria or (said.verdicts and not of_criteria):
            found.add(line.judge)
    return [name for name in known if name in found]


class _Attempt(msgspec.Struct, gc=False):
    instance: str
    sample: int
    round: int
    cluster: str
    groups: dict[str, str]
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


def _said(line: _Judgement) -> Said:
    """What a line says; its verdicts are on the criteria of the first score that tells of any."""
    for score in line.scores.values():
        try:
            details = _DETAILS.decode(score.details)
        except (msgspec.MsgspecError, RecursionError):  # a judge's own details
            continue
        if details.constraints:
            return Said(line.outcome, tuple(map(_on_constraint, details.constraints)), True)
    own = {name.removeprefix(f"{line.judge}."): score for name, score in line.scores.items()}
    verdicts = tuple(
        Verdict(name, _of_score(score), groups={"score": name[:LONGEST]})
        for name, score in own.items()
        if score.value is None or _of_score(score) is not None
    )
    return Said(line.outcome, verdicts)


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
