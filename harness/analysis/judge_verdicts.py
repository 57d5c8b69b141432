"""What a run's judges say about each sample's last answer, verdict by verdict.

A judge that decides on criteria gives a verdict on each (`harness.analysis.constraints` has the
form); any other gives one for each of its scores that is true, false or missing.

>>> judges_with_verdicts(Path("runs/none/attempts.jsonl"))
[]
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from harness.analysis.constraints import LONGEST, ScoreDetails, table_line
from harness.store.columns import AttemptTable, TableBuilder
from harness.store.index import AttemptIndex
from harness.store.json_lines import decoded
from harness.store.judgements import JUDGEMENT, JudgementOutcome, read_register, text_hash
from harness.store.run_folder import JUDGEMENTS

BY_RULE = "rule"
"""``decided_by`` of a criterion that the judge was not asked about."""


class _Answered(msgspec.Struct, gc=False):
    instance: str
    sample: int
    cluster: str
    groups: dict[str, str]
    text: str | None = None


class _Judgement(msgspec.Struct, gc=False):
    v: int
    judge: str
    outcome: JudgementOutcome
    scores: dict[str, ScoreDetails] = {}


_JUDGEMENT = msgspec.json.Decoder(_Judgement)


class JudgeVerdict(NamedTuple):
    """One verdict of a judge on an answer.

    Attributes:
        criterion: Its text, or the name of the score without the judge's.
        passed: None if the judge abstained.
        probability: Of yes; None if unknown.
        rule: A rule checker's verdict on the criterion; None if there is none.
        by_rule: Whether the rule decided, and the judge was not asked.
    """

    criterion: str
    passed: bool | None
    probability: float | None = None
    rule: bool | None = None
    by_rule: bool = False
    groups: Mapping[str, str] = {}


class Said(NamedTuple):
    """A judge's verdicts on an answer: on criteria, or on the scores themselves."""

    outcome: JudgementOutcome
    verdicts: tuple[JudgeVerdict, ...]
    of_criteria: bool = False


class JudgedAnswer(NamedTuple):
    """A sample's last answer.

    Attributes:
        attempt: `harness.store.judgements.text_hash` of its text.
        said: What each requested judge said; None for one that has not judged it.
    """

    instance: str
    sample: int
    cluster: str
    attempt: str
    said: tuple[Said | None, ...]
    groups: Mapping[str, str] = {}


def read_answers(
    index: AttemptIndex, judges: Sequence[str], round_: int | None = None
) -> Iterator[JudgedAnswer]:
    """Read every sample's last answer up to a round, with some judges' latest verdicts on it."""
    rows = index.last_rounds(round_)
    said = index.said(rows, _JUDGEMENT.decode, judges)
    for line, judgements in zip(index.read(_Answered, rows), said, strict=True):
        yield JudgedAnswer(
            line.instance,
            line.sample,
            line.cluster,
            text_hash(line.text or ""),
            tuple(None if found is None else _said(found) for found in judgements),
            line.groups,
        )


def read_judged(
    index: AttemptIndex, judge: str, round_: int | None = None
) -> tuple[AttemptTable, int]:
    """Read the constraints that a judge has judged.

    Returns:
        A row for each (`table_line`); and the number of samples without any: refused, empty and
        failed answers are not judged, and on others the judge may have given no verdict.
    """
    builder, without = TableBuilder(), 0
    for answer in read_answers(index, [judge], round_):
        (said,) = answer.said
        if said is None or not said.of_criteria:
            without += 1
            continue
        for place, verdict in enumerate(said.verdicts):
            groups = {**answer.groups, **verdict.groups}
            name = f"{answer.instance}\0{place}"
            builder.add(table_line(name, answer.sample, answer.cluster, groups, verdict.passed))
    return builder.table()[0], without


def judges_with_verdicts(path: Path, *, of_criteria: bool = False) -> list[str]:
    """List the judges of a run that give verdicts (on criteria), in the order of its register."""
    found = set[str]()
    for _, _, line in decoded(path.with_name(JUDGEMENTS), _Judgement, JUDGEMENT):
        if line.judge not in found:
            said = _said(line)
            if said.of_criteria or (said.verdicts and not of_criteria):
                found.add(line.judge)
    return [name for name in read_register(path.parent).judges if name in found]


def _said(line: _Judgement) -> Said:
    """Return what a judgement says; criteria are those of the first score that lists any."""
    for score in line.scores.values():
        verdicts = tuple(
            JudgeVerdict(
                found.constraint,
                found.passed,
                found.probability,
                found.rule if isinstance(found.rule, bool) else None,
                found.decided_by == BY_RULE,
                found.labels,
            )
            for found in score.constraints()
        )
        if verdicts:
            return Said(line.outcome, verdicts, True)
    own: list[JudgeVerdict] = []
    for full_name, score in line.scores.items():
        name, passed = full_name.removeprefix(f"{line.judge}."), score.passed
        if score.value is None:
            passed = None
        elif passed is None:
            if not isinstance(score.value, bool):
                continue
            passed = score.value
        own.append(JudgeVerdict(name, passed, groups={"score": name[:LONGEST]}))
    return Said(line.outcome, tuple(own))
