"""Reads judges' verdicts on each sample's last answer, and pairs them with those of a reference.

A judge with criteria gives a verdict on each criterion. For any other judge, each score that is not
a mere number is a verdict. An unparseable, refused or empty judgement is an abstention on all
criteria of the reference, which does not count as a no.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from harness.analysis.breakdown import group_codes
from harness.analysis.constraints import LONGEST, ScoreDetails, table_line
from harness.analysis.inputs import Label
from harness.errors import ConfigError
from harness.store.columns import NOT_JUDGED, AttemptTable, TableBuilder, name_digest
from harness.store.index import AttemptIndex
from harness.store.json_lines import decoded
from harness.store.judgements import JUDGEMENT, JudgementOutcome, read_register, text_hash
from harness.store.rows import Rows
from harness.store.run_folder import JUDGEMENTS
from harness.wording import truncated

BY_RULE = "rule"  # `decided_by` of a criterion that a rule decided, in runs of version 0.1

RULES = "rules"  # The reference is the rules' verdicts
JUDGE = "judge"  # The reference is another judge, the second of an answer's judges

SILENT = frozenset({"unparseable", "refused", "empty"})  # Judgements that abstain on everything


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
    """Return a judge's verdicts, with a row per criterion of each sample's last answer.

    Rounds after ``round_``, if given, are ignored. Also return how many samples lack verdicts on
    criteria.
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
    """Return the names of the judges that gave verdicts on the attempts in the file ``path``.

    If ``of_criteria``, only verdicts on criteria count.
    """
    found = set[str]()
    for _, _, line in decoded(path.with_name(JUDGEMENTS), _Judgement, JUDGEMENT):
        if line.judge not in found:
            said = _said(line)
            if said.of_criteria or (said.verdicts and not of_criteria):
                found.add(line.judge)
    return [name for name in read_register(path.parent).judges if name in found]


def _said(line: _Judgement) -> Said:
    """Return the verdicts that the first score with criteria lists, or else those of all scores."""
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
    own = []
    for full_name, score in line.scores.items():
        name = full_name.removeprefix(f"{line.judge}.")
        passed = score.value if score.passed is None or score.value is None else score.passed
        if passed is None or isinstance(passed, bool):
            own.append(JudgeVerdict(name, passed, groups={"score": name[:LONGEST]}))
    return Said(line.outcome, tuple(own))


Key = tuple[str, int]  # A criterion's text, and its number among the criteria with that text
Side = Mapping[Key, bool | None]


class LeftOut(msgspec.Struct, frozen=True, kw_only=True):
    """Counts of the criteria and labels that are excluded, by reason."""

    only_judge: int = 0  # criteria without a judgement by the reference
    only_reference: int = 0  # criteria without a judgement by the judge
    by_rule: int = 0  # criteria that a rule decided: the judge was not called
    unmatched: int = 0  # labels that match nothing in the run
    superseded: int = 0  # labels of a text that the run no longer has
    other_runs: int = 0  # labels of runs that are not validated

    def said(self) -> str:
        """Return the reasons with their counts as text, or "" if nothing is excluded."""
        counts = {
            "criteria that only the judge has": self.only_judge,
            "criteria that only the reference has": self.only_reference,
            "criteria that a rule decided instead of the judge": self.by_rule,
            "labels that match nothing in the runs": self.unmatched,
            "labels of superseded texts": self.superseded,
            "labels of runs that were not named": self.other_runs,
        }
        return ", ".join(f"{what} ({n:,})" for what, n in counts.items() if n)


@dataclass(frozen=True, slots=True)
class VerdictPairs:
    """A judge's and a reference's verdicts on the same n criteria: 1, 0 or `NOT_JUDGED`."""

    judge: NDArray[np.int8]
    reference: NDArray[np.int8]
    probability: NDArray[np.float64]  # the judge's, of yes; NaN if unknown
    reference_probability: NDArray[np.float64]  # likewise, if the reference is a judge
    cluster: NDArray[np.intp]  # index of the statistical unit, which runs may share
    run: NDArray[np.int32]  # index of the run
    answer: NDArray[np.int32]  # number of the judged answer
    grouping: NDArray[np.int32]  # index into the distinct mappings of label to group
    groupings: Sequence[Mapping[str, str]]
    left_out: LeftOut
    unmatched: str = ""  # a sentence on one of the labels that match nothing, and why

    def __len__(self) -> int:
        return len(self.judge)

    def labels(self) -> list[str]:
        """Return the labels that criteria can be grouped by."""
        return list(dict.fromkeys(label for groups in self.groupings for label in groups))

    def by(self, label: str) -> dict[str, NDArray[np.bool_]]:
        """Return an (n,) mask of the criteria in each group of a label, by sorted group name."""
        codes, names = group_codes(self.groupings, (label,))
        return {name: codes[self.grouping] == number for number, (name,) in enumerate(names)}


def pair_verdicts(
    runs: Mapping[str, Iterable[JudgedAnswer]], reference: str | Sequence[Label]
) -> VerdictPairs:
    """Pair the verdicts of a judge with those of a reference.

    Args:
        runs: The answers of each run, by the run's name. The first verdicts in an answer are those
            of the judge to validate.
        reference: `JUDGE` if the reference is the judge whose verdicts are the second in each
            answer, `RULES` if it is the rule checkers' verdicts on the judge's criteria, otherwise
            people's labels.
    """
    labels = {} if isinstance(reference, str) else _by_answer(reference, list(runs))
    kinds = {"judge": "b", "reference": "b", "probability": "d", "reference_probability": "d"}
    kinds |= {"cluster": "q", "run": "i", "answer": "i", "grouping": "i"}
    rows = Rows(**kinds)
    groupings: dict[tuple[tuple[str, str], ...], int] = {}
    unmatched: list[tuple[Label, str]] = []  # with the reasons
    left = Counter(other_runs=sum(len(labels.pop(key)) for key in [*labels] if key[0] not in runs))
    every = (
        (run, name, answer)
        for run, (name, answers) in enumerate(runs.items())
        for answer in answers
    )
    for number, (run, name, answer) in enumerate(every):
        judge, second = answer.said[0], answer.said[1] if reference == JUDGE else None
        own, seconded = _keyed(judge), _keyed(second)
        other: Side
        if reference == RULES:
            other = {key: found.rule for key, found in own.items() if found.rule is not None}
        elif reference == JUDGE:
            other = {key: found.passed for key, found in seconded.items()}
        else:
            of_answer = labels.pop((name, answer.instance, answer.sample), [])
            other, superseded, of_no_criterion = _labelled(answer, of_answer, list(own))
            left["superseded"] += superseded
            unmatched += of_no_criterion
        for key in dict.fromkeys([*own, *other]):
            if key in own and own[key].by_rule:  # by rules, the judge would always be right
                left["by_rule"] += 1
            elif key not in other and not _is_silent(second):
                left["only_judge"] += 1
            elif key not in own and not _is_silent(judge):
                left["only_reference"] += 1
            else:
                verdict = own.get(key, JudgeVerdict(key[0], None))
                groups = tuple(sorted(verdict.groups.items()))
                rows.append(
                    _code(verdict.passed),
                    _code(other.get(key)),
                    _probability(verdict),
                    _probability(seconded.get(key)),
                    name_digest(answer.cluster),
                    run,
                    number,
                    groupings.setdefault(groups, len(groupings)),
                )
    columns = {column: rows.column(column) for column in kinds}
    columns["cluster"] = np.unique(columns["cluster"], return_inverse=True)[1]
    named = [dict(groups) for groups in groupings]
    for (name, *_), of_answer in labels.items():
        unmatched += [(label, f"{name!r} has no such answer") for label in of_answer]
    left["unmatched"] = len(unmatched)
    example = ""
    for label, why in unmatched[:1]:
        which = f"sample {label.sample} of {label.instance!r}"
        example = f"For example, the label of {which} matches nothing: {why}."
    return VerdictPairs(**columns, groupings=named, left_out=LeftOut(**left), unmatched=example)


def _by_answer(
    labels: Sequence[Label], runs: Sequence[str]
) -> dict[tuple[str, str, int], list[Label]]:
    found: dict[tuple[str, str, int], list[Label]] = {}
    for label in labels:
        if label.run is None and len(runs) > 1:
            problem = f"A label of {label.instance!r} does not name its run."
            raise ConfigError(problem, 'With several runs each label needs "run": "NAME".')
        key = label.run or runs[0], label.instance, label.sample
        found.setdefault(key, []).append(label)
    return found


def _labelled(
    answer: JudgedAnswer, labels: Sequence[Label], keys: Sequence[Key]
) -> tuple[Side, int, list[tuple[Label, str]]]:
    """Return labels by criterion, the number of superseded labels, and unmatched ones with why."""
    found: dict[Key, bool | None] = {}
    superseded, unmatched = 0, []
    for label in labels:
        if label.attempt not in (None, answer.attempt):
            superseded += 1
            continue
        if not (matched := _matched(label.criterion, keys)):
            named = "no criterion" if label.criterion is None else f"criterion {label.criterion!r}"
            first = truncated(keys[0][0], LONGEST)
            why = f"it names {named}; the judge has {len(keys):,}, and number 0 is {first!r}"
            unmatched.append((label, why))
            continue
        for key in matched:
            if key in found:
                which = f"{answer.instance!r}, sample {answer.sample}"
                problem = f"Two labels of {which} are for one criterion: {key[0]!r}."
                raise ConfigError(problem, "Keep one of them.")
            found[key] = label.label
    return found, superseded, unmatched


def _matched(criterion: int | str | None, keys: Sequence[Key]) -> list[Key]:
    """Return the keys that a label's ``criterion`` names, or a new key if there are no ``keys``."""
    if not keys:
        return [("" if criterion is None else str(criterion), 0)]
    if criterion is None:
        return list(keys) if len(keys) == 1 else []
    if isinstance(criterion, int):
        return list(keys[criterion : criterion + 1])
    return [key for key in keys if key[0].split() == criterion.split()]


def _keyed(said: Said | None) -> dict[Key, JudgeVerdict]:
    found: dict[Key, JudgeVerdict] = {}
    times = Counter[str]()
    for verdict in said.verdicts if said else ():
        found[verdict.criterion, times[verdict.criterion]] = verdict
        times[verdict.criterion] += 1
    return found


def _is_silent(said: Said | None) -> bool:
    return said is not None and not said.verdicts and said.outcome in SILENT


def _probability(verdict: JudgeVerdict | None) -> float:
    if verdict is None or verdict.passed is None or verdict.probability is None:
        return np.nan
    return verdict.probability


def _code(passed: bool | None) -> int:
    return NOT_JUDGED if passed is None else int(passed)
