"""Reads judges' verdicts on each sample's last answer.

A judge with criteria gives a verdict on each criterion. For any other judge, each score that is not
a mere number is a verdict.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from harness.analysis.failures import MAX_TEXT_CHARS, ListedConstraint, ScoreDetails
from harness.plugins.comparisons.constraints import table_line
from harness.store.columns import AttemptTable, TableBuilder
from harness.store.index import AttemptIndex
from harness.store.json_lines import decode_lines
from harness.store.judgements import JUDGEMENT, JudgementOutcome, read_register, text_hash
from harness.store.run_folder import JUDGEMENTS

BY_RULE = "rule"  # `decided_by` of a criterion that a rule decided, in runs of version 0.1


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
    """A judge's verdict on one criterion or score. ``passed`` is None for an abstention."""

    criterion: str
    passed: bool | None
    probability: float | None = None  # of yes
    rule: bool | None = None  # a rule checker's verdict
    by_rule: bool = False  # whether the rule decided, without the judge
    groups: Mapping[str, str] = {}


class Said(NamedTuple):
    """A judge's verdicts on an answer."""

    outcome: JudgementOutcome
    verdicts: tuple[JudgeVerdict, ...]
    of_criteria: bool = False


class JudgedAnswer(NamedTuple):
    """A sample's last answer with the verdicts of judges."""

    instance: str
    sample: int
    cluster: str
    attempt: str  # a hash of the answer's text
    said: tuple[Said | None, ...]  # None for a judge that did not judge the answer
    groups: Mapping[str, str] = {}


def read_answers(
    index: AttemptIndex, judges: Sequence[str], round_: int | None = None
) -> Iterator[JudgedAnswer]:
    """Yield each sample's last answer (up to ``round_``, if given), with its latest verdicts."""
    rows = index.last_rounds(round_)
    recorded = index.read_judgements(rows, _JUDGEMENT.decode, judges)
    for line, judgements in zip(index.read(_Answered, rows), recorded, strict=True):
        verdicts = [None if judgement is None else _said(judgement) for judgement in judgements]
        attempt = text_hash(line.text or "")
        yield JudgedAnswer(
            line.instance, line.sample, line.cluster, attempt, tuple(verdicts), line.groups
        )


def read_judged(
    index: AttemptIndex, judge: str, round_: int | None = None
) -> tuple[AttemptTable, int]:
    """Return a judge's verdicts, with a row per criterion of each sample's last answer.

    Rounds after ``round_``, if given, are ignored. Also return how many samples lack verdicts on
    criteria.
    """
    builder = TableBuilder()
    without = 0
    for answer in read_answers(index, [judge], round_):
        (judged,) = answer.said
        if judged is None or not judged.of_criteria:
            without += 1
            continue
        for place, verdict in enumerate(judged.verdicts):
            groups = {**answer.groups, **verdict.groups}
            name = f"{answer.instance}\0{place}"
            builder.add(table_line(name, answer.sample, answer.cluster, groups, verdict.passed))
    return builder.build()[0], without


def judges_with_verdicts(path: Path, *, of_criteria: bool = False) -> list[str]:
    """Return the names of the judges that gave verdicts on the attempts in the file ``path``.

    If ``of_criteria``, only verdicts on criteria count.
    """
    judges = set[str]()
    for _, _, line in decode_lines(path.with_name(JUDGEMENTS), _Judgement, JUDGEMENT):
        if line.judge not in judges:
            judged = _said(line)
            if judged.of_criteria or (judged.verdicts and not of_criteria):
                judges.add(line.judge)
    return [name for name in read_register(path.parent).judges if name in judges]


def _said(line: _Judgement) -> Said:
    """Return the verdicts that the first score with criteria lists, or else those of all scores."""
    for score in line.scores.values():
        verdicts = tuple(map(_verdict, score.constraints()))
        if verdicts:
            return Said(line.outcome, verdicts, True)
    score_verdicts = []
    for full_name, score in line.scores.items():
        name = full_name.removeprefix(f"{line.judge}.")
        passed = score.passed
        if passed is None or score.value is None:
            passed = score.value
        if passed is None or isinstance(passed, bool):
            score_verdicts.append(
                JudgeVerdict(name, passed, groups={"score": name[:MAX_TEXT_CHARS]})
            )
    return Said(line.outcome, tuple(score_verdicts))


def _verdict(constraint: ListedConstraint) -> JudgeVerdict:
    """Return a judge's verdict on a criterion."""
    rule = constraint.rule if isinstance(constraint.rule, bool) else None
    return JudgeVerdict(
        constraint.constraint,
        constraint.passed,
        constraint.probability,
        rule,
        constraint.decided_by == BY_RULE,
        constraint.labels,
    )
