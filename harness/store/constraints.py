"""What scores and judges say about each base constraint of an answer: met or not, and by how much.

A score lists its constraints in ``details.constraints``: each has ``constraint`` (its text),
``passed``, ``observed`` and ``target``, and may have ``kind`` (its text without the values),
``reason`` and ``groups`` (its own labels, each with a group). A judge that decides on criteria
lists them the same way, with ``probability`` (of yes), ``rule`` (a rule checker's verdict on the
same criterion) and ``decided_by``, which is ``rule`` if the rule decided and the judge was not
asked. Details of any other shape are ignored.

>>> index = AttemptIndex(Path("runs/none/attempts.jsonl"))
>>> [group for group, _ in read_findings(index).table.by(LABEL)]
[]
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import msgspec

from harness.records import SCHEMA_VERSION, Outcome
from harness.store.columns import LARGEST, AttemptTable, TableBuilder, TableLine, name_digest
from harness.store.index import AttemptIndex
from harness.store.json_lines import decoded
from harness.store.judgements import JUDGEMENT, JudgementOutcome, read_register, text_hash
from harness.store.run_folder import JUDGEMENTS

LABEL = "constraint"
"""The label whose groups are the kinds of constraints."""

MOST_KINDS = 500
"""Kinds of constraints that are counted separately; the rest are counted together, as `OTHERS`."""
OTHERS = "(others)"

MOST_DIFFERENT = 1_000
"""Different misses of a kind that are counted."""

LONGEST = 300
"""Characters of a label, group, kind or reason."""

BY_RULE = "rule"
"""``decided_by`` of a criterion that the judge was not asked about."""


class _Constraint(msgspec.Struct, gc=False):
    constraint: str
    passed: bool | None
    observed: Any = None
    target: Any = None
    kind: str = ""
    reason: str = ""
    groups: Any = None


class _Criterion(msgspec.Struct, gc=False):
    constraint: str
    passed: bool | None
    probability: Annotated[float, msgspec.Meta(ge=0, le=1)] | None = None
    rule: Any = None
    decided_by: Any = None
    groups: Any = None


class _Constraints(msgspec.Struct, gc=False):
    constraints: list[_Constraint] = []


class _Criteria(msgspec.Struct, gc=False):
    constraints: list[_Criterion] = []


class _Score(msgspec.Struct, gc=False):
    value: Any = None
    passed: bool | None = None
    details: msgspec.Raw = msgspec.Raw(b"{}")


class _Named(msgspec.Struct, gc=False):
    instance: str
    sample: int
    round: int
    cluster: str
    groups: dict[str, str]


class _Scored(_Named, gc=False):
    scores: dict[str, _Score] = {}


class _Answered(_Named, kw_only=True, gc=False):
    outcome: Outcome
    text: str | None = None


class _Judgement(msgspec.Struct, gc=False):
    v: int
    judge: str
    outcome: JudgementOutcome
    scores: dict[str, _Score] = {}


_CONSTRAINTS = msgspec.json.Decoder(_Constraints)
_CRITERIA = msgspec.json.Decoder(_Criteria)
_JUDGEMENT = msgspec.json.Decoder(_Judgement)


# Constraints of a run's scores


@dataclass(slots=True)
class Misses:
    """The failed constraints of a kind.

    Attributes:
        off_by: How often each difference of observed and target occurs, if both are one number.
        reasons: How often each reason occurs.
    """

    off_by: Counter[float] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)

    def add(self, found: _Constraint) -> None:
        """Count a failed constraint."""
        if _is_number(found.observed) and _is_number(found.target):
            try:
                difference = float(found.observed) - float(found.target)
            except OverflowError:  # numbers of hundreds of digits
                difference = inf
            if abs(difference) <= LARGEST:
                _count(self.off_by, difference)
        if found.reason:
            _count(self.reasons, found.reason[:LONGEST])


@dataclass(frozen=True, slots=True)
class ConstraintFindings:
    """The constraints of each sample's last round.

    Attributes:
        table: A row for each constraint of an instance, as if it were an instance. Its group of
            `LABEL` is its kind, and ``passed`` says whether it was met. It has the instance's
            cluster, and the instance's groups unless it has its own.
        misses: Failed constraints, by kind.
        of: The scores that have constraints, each with an index in the score's list.
        without: Samples without constraints: refused, empty or failed.
    """

    table: AttemptTable
    misses: Mapping[str, Misses]
    of: frozenset[tuple[str, int]]
    without: int

    def instances(self, names: Iterable[str]) -> dict[int, str]:
        """Map digests in the table to the name of the instance that has the constraint.

        Args:
            names: Names of the run's instances (`harness.store.index.read_names`).
        """
        return {
            name_digest(_row_name(name, score, place)): name
            for name in names
            for score, place in self.of
        }


def read_findings(index: AttemptIndex, round_: int | None = None) -> ConstraintFindings:
    """Read the constraints of a run's scores.

    Args:
        index: The index of the run's attempts.
        round_: Take each sample's last round up to this one; None for its last one.

    Raises:
        DataInvalid: A line is damaged.
        StoreFailed: A file cannot be read.
    """
    builder, misses, of = TableBuilder(), dict[str, Misses](), set[tuple[str, int]]()
    without = 0
    for line in index.read(_Scored, index.last_rounds(round_)):
        constraints = list(_constraints(line))
        without += not constraints
        for name, place, found in constraints:
            # Rules and judges may both have the same constraint: they are told apart.
            kind = f"{name}: {_kind(found)}" if index.judgements is not None else _kind(found)
            if kind not in misses and len(misses) >= MOST_KINDS:
                kind = OTHERS
            missed = misses.setdefault(kind, Misses())
            if found.passed is False:
                missed.add(found)
            of.add((name, place))
            groups = {**line.groups, **_groups(found.groups), LABEL: kind}
            row = _row_name(line.instance, name, place)
            builder.add(_table_line(row, line, groups, found.passed))
    return ConstraintFindings(builder.table()[0], misses, frozenset(of), without)


def _constraints(line: _Scored) -> Iterator[tuple[str, int, _Constraint]]:
    for name, score in line.scores.items():
        try:
            details = _CONSTRAINTS.decode(score.details)
        except (msgspec.MsgspecError, RecursionError):  # a task's own details
            continue
        for place, found in enumerate(details.constraints):
            yield name, place, found


def _row_name(instance: str, score: str, place: int) -> str:
    return f"{instance}\0{score}\0{place}"


def _table_line(name: str, of: _Named, groups: Mapping[str, str], passed: bool | None) -> TableLine:
    """Convert a constraint to a line of a table, with the sample and cluster of its answer."""
    raw = msgspec.Raw(msgspec.json.encode(groups))
    return TableLine(SCHEMA_VERSION, name, of.sample, 1, raw, of.cluster, "ok", passed)


def _kind(found: _Constraint) -> str:
    if found.kind:
        return found.kind[:LONGEST]
    without_texts = re.sub(r"'[^']*'|\"[^\"]*\"", "'…'", found.constraint[:LONGEST])
    return re.sub(r"\d+", "N", without_texts)


def _groups(groups: Any) -> dict[str, str]:
    """Return a constraint's own labels, shortened; anything but a label with a group is dropped."""
    if not isinstance(groups, dict):
        return {}
    return {
        label[:LONGEST]: group[:LONGEST]
        for label, group in groups.items()
        if isinstance(group, str)
    }


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _count(counter: Counter[Any], value: float | str) -> None:
    if value in counter or len(counter) < MOST_DIFFERENT:
        counter[value] += 1


# Verdicts of a run's judges


class JudgeVerdict(NamedTuple):
    """One verdict of a judge on an answer.

    Attributes:
        criterion: Its text, or the name of the score without the judge's.
        passed: None if the judge abstained.
        probability: Probability of yes; None if unknown.
        rule: A rule checker's verdict on the criterion; None if there is none.
        by_rule: Whether the rule decided, and the judge was not asked.
        groups: The criterion's own labels, each with a group.
    """

    criterion: str
    passed: bool | None
    probability: float | None = None
    rule: bool | None = None
    by_rule: bool = False
    groups: Mapping[str, str] = {}


class Said(NamedTuple):
    """A judge's verdicts on an answer.

    Attributes:
        outcome: Outcome of the judgement.
        verdicts: Empty if it gave none.
        of_criteria: Whether they are on criteria instead of the scores themselves.
    """

    outcome: JudgementOutcome
    verdicts: tuple[JudgeVerdict, ...]
    of_criteria: bool = False


class JudgedAnswer(NamedTuple):
    """A sample's last answer.

    Attributes:
        instance: The instance's name.
        sample: From 0.
        cluster: The statistical unit.
        attempt: `harness.store.judgements.text_hash` of its text.
        said: What each requested judge said; None for one that has not judged it.
        outcome: Outcome of the attempt.
        groups: The instance's groups.
    """

    instance: str
    sample: int
    cluster: str
    attempt: str
    said: tuple[Said | None, ...]
    outcome: Outcome = "ok"
    groups: Mapping[str, str] = {}


@dataclass(frozen=True, slots=True)
class JudgedConstraints:
    """The constraints that a judge has judged, of each sample's last round.

    Attributes:
        judge: The judge's name in the run.
        table: A row for each constraint of an instance, as if it were an instance, by its index in
            the list; ``passed`` says whether it was met. It has the instance's cluster, and the
            instance's groups besides its own labels.
        without: Samples without constraints, by the outcome of the attempt: refused, empty and
            failed answers are not judged; for ``ok`` ones the judge gave no verdict.
    """

    judge: str
    table: AttemptTable
    without: Counter[Outcome]


def read_answers(
    index: AttemptIndex, judges: Sequence[str], round_: int | None = None
) -> Iterator[JudgedAnswer]:
    """Read every sample's last answer, with the latest verdicts of some judges on its text.

    A judge that decides on criteria gives a verdict on each; any other gives one for each of its
    scores that is true, false or missing.

    Args:
        index: The index of the run's attempts.
        judges: Their names in the run.
        round_: Take each sample's last round up to this one; None for its last one.

    Raises:
        DataInvalid: A line is damaged.
        StoreFailed: A file cannot be read.
    """
    rows = index.last_rounds(round_)
    said = index.said(rows, _JUDGEMENT.decode, judges)
    for line, judgements in zip(index.read(_Answered, rows), said, strict=True):
        yield JudgedAnswer(
            line.instance,
            line.sample,
            line.cluster,
            text_hash(line.text or ""),
            tuple(None if found is None else _said(found) for found in judgements),
            line.outcome,
            line.groups,
        )


def read_judged(index: AttemptIndex, judge: str, round_: int | None = None) -> JudgedConstraints:
    """Read the constraints that a judge has judged.

    Args:
        index: The index of the run's attempts.
        judge: Its name in the run.
        round_: Take each sample's last round up to this one; None for its last one.

    Raises:
        DataInvalid: A line is damaged.
        StoreFailed: A file cannot be read.
    """
    builder, without = TableBuilder(), Counter[Outcome]()
    for answer in read_answers(index, [judge], round_):
        (said,) = answer.said
        if said is None or not said.of_criteria:
            without[answer.outcome] += 1
            continue
        of = _Named(answer.instance, answer.sample, 1, answer.cluster, dict(answer.groups))
        for place, verdict in enumerate(said.verdicts):
            groups = {**answer.groups, **verdict.groups}
            row = f"{answer.instance}\0{place}"
            builder.add(_table_line(row, of, groups, verdict.passed))
    return JudgedConstraints(judge, builder.table()[0], without)


def judges_with_verdicts(path: Path, *, of_criteria: bool = False) -> list[str]:
    """List the judges of a run that give verdicts, in the order of its register.

    Args:
        path: The run's attempts file.
        of_criteria: Only those that decide on criteria.

    Raises:
        DataInvalid: A line is damaged.
        StoreFailed: A file cannot be read.
    """
    found = set[str]()
    for _, _, line in decoded(path.with_name(JUDGEMENTS), _Judgement, JUDGEMENT):
        if line.judge in found:
            continue
        said = _said(line)
        if said.of_criteria or (said.verdicts and not of_criteria):
            found.add(line.judge)
    return [name for name in read_register(path.parent).judges if name in found]


def _said(line: _Judgement) -> Said:
    """Parse what a judgement's line says; verdicts are on the criteria of the first score with
    any.
    """
    for score in line.scores.values():
        try:
            details = _CRITERIA.decode(score.details)
        except (msgspec.MsgspecError, RecursionError):  # a judge's own details
            continue
        if details.constraints:
            return Said(line.outcome, tuple(map(_on_criterion, details.constraints)), True)
    own = {name.removeprefix(f"{line.judge}."): score for name, score in line.scores.items()}
    verdicts = tuple(
        JudgeVerdict(name, _of_score(score), groups={"score": name[:LONGEST]})
        for name, score in own.items()
        if score.value is None or _of_score(score) is not None
    )
    return Said(line.outcome, verdicts)


def _on_criterion(found: _Criterion) -> JudgeVerdict:
    return JudgeVerdict(
        found.constraint,
        found.passed,
        found.probability,
        found.rule if isinstance(found.rule, bool) else None,
        found.decided_by == BY_RULE,
        _groups(found.groups),
    )


def _of_score(score: _Score) -> bool | None:
    if score.value is None:
        return None
    if score.passed is not None:
        return score.passed
    return score.value if isinstance(score.value, bool) else None
